-- perigee.harmony: the golden rows where they and the ranks are, the renderer, and misuse.
local harmony = require "perigee.harmony"
local json = require "perigee.json"

local FIXTURES = os.getenv "PERIGEE_FIXTURES" or "../shared/fixtures"

local function read(path)
  local file <close> = io.open(path, "rb")
  return file and file:read "a"
end

local rows = read(FIXTURES .. "/harmony/harmony.jsonl")
local ids, why = harmony.render_json '{"messages":[]}'
local has_ranks = ids ~= nil

local SYSTEM = "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
  .. "Knowledge cutoff: 2024-06\n%sReasoning: %s\n\n"
  .. "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"

-- Ids and text of each row, or that it is refused; returns how many rows there were.
local function check_rows(lines)
  local n = 0
  for line in lines:gmatch "[^\n]+" do
    local row = json.decode(line)
    local got, text = harmony.render_json(line)
    if row.error then
      expect(got):eq(nil)
    else
      expect(text):eq(row.text)
      expect(got):eq(row.ids)
    end
    n = n + 1
  end
  return n
end

describe("harmony.render_json", function()
  if rows and has_ranks then
    it("equals every golden row, ids included", function()
      expect(check_rows(rows) > 100):eq(true)
    end)
  end

  if has_ranks then
    it("equals what openai-harmony makes of random conversations", function()
      expect(check_rows(read "tests/data/harmony/random.jsonl")):eq(150)
    end)

    it("takes special tokens in a message as text", function()
      local got, text = harmony.render_json '{"messages":[{"role":"user","content":"<|end|>"}],"mode":"conversation"}'
      expect(text):eq "<|start|>user<|message|><|end|><|end|>"
      expect(#got > 5):eq(true)
      expect({ got[1], got[2], got[3], got[#got] }):eq { 200006, 1428, 200008, 200007 }
    end)
  else
    it("says where the ranks should be", function()
      expect(why):contains 'tokenizer "o200k_harmony": '
      expect(why):contains "`make deps` fetches"
    end)
  end

  it("gives nil and a message for bad data", function()
    local got, message = harmony.render_json "{"
    expect(got):eq(nil)
    expect(message):contains "line 1"
    got, message = harmony.render_json '{"messages":[{"role":"tool","content":"x"}]}'
    expect(got):eq(nil)
    expect(message):contains "Tools should have a name!"
    got, message = harmony.render_json '{"messages":[],"mode":"chat"}'
    expect(got):eq(nil)
    expect(message):eq "mode is one of completion, conversation, training"
    got, message = harmony.render_json '{"messages":[],"auto_drop_analysis":1}'
    expect(got):eq(nil)
    expect(message):eq "auto_drop_analysis must be true or false"
    got, message = harmony.render_json('{"messages":[]}', { tokenizer = "/nowhere/ranks.tiktoken" })
    expect(got):eq(nil)
    expect(message):contains "/nowhere/ranks.tiktoken"
  end)

  it("raises for misuse", function()
    expect(function() harmony.render_json(3) end):errors "the text must be a string"
    expect(function() harmony.render_json("{}", { tokenzer = "x" }) end):errors "did you mean 'tokenizer'"
    expect(function() harmony.render_json("{}", { tokenizer = 1 }) end):errors "tokenizer is a name, the path"
  end)
end)

describe("harmony.renderer", function()
  it("renders chat messages", function()
    local r = harmony.renderer { date = "2026-08-01", reasoning_effort = "low" }
    expect(r:render { { role = "user", content = "Hi" } }):eq(
      SYSTEM:format("Current date: 2026-08-01\n\n", "low") .. "<|start|>user<|message|>Hi<|end|><|start|>assistant")
    expect(r:render({ { role = "user", content = "Hi" } }, { add_generation_prompt = false, now = "2026-01-02T03:04:05",
      kwargs = { reasoning_effort = "high" }, special = {} })):eq(
      SYSTEM:format("Current date: 2026-01-02\n\n", "high") .. "<|start|>user<|message|>Hi<|end|>")
    expect(r:render({}, { date = false })):eq(SYSTEM:format("\n", "low") .. "<|start|>assistant")
  end)

  it("renders tools in the order of the request", function()
    local tools = { { type = "function", ["function"] = { name = "f", description = "F.",
      parameters = json.decode '{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}}}' } } }
    local text = harmony.renderer { date = false }:render({ { role = "system", content = "Be brief." } },
      { tools = tools })
    expect(text):contains "# Instructions\n\nBe brief.\n\n# Tools\n\n## functions\n\nnamespace functions {\n\n// F.\n"
    expect(text):contains "type f = (_: {\nz?: string,\na?: number,\n}) => any;"
  end)

  if has_ranks then
    it("gives ids too", function()
      local got, text = harmony.renderer { date = false }:render_ids({}, { add_generation_prompt = false })
      expect(text):eq(SYSTEM:format("\n", "medium"))
      expect({ got[1], got[2], got[3], got[#got] }):eq { 200006, 17360, 200008, 200007 }
    end)
  end

  it("takes any object that encodes", function()
    local calls = {}
    local bytes = {}
    function bytes:encode(text, opts)
      expect(self):eq(bytes)
      calls[#calls + 1] = text
      return opts.special and { -1 } or { text:byte(1, -1) }
    end
    local got, text = harmony.render_json('{"messages":[{"role":"user","content":"ab"}],"mode":"conversation"}',
      { tokenizer = bytes })
    expect(text):eq "<|start|>user<|message|>ab<|end|>"
    expect(calls):eq { "<|start|>", "user", "<|message|>", "ab", "<|end|>" }
    expect(got):eq { -1, 117, 115, 101, 114, -1, 97, 98, -1 }
    function bytes.encode()
      return nil, "not today"
    end
    local none, message = harmony.renderer { date = false, tokenizer = bytes }:render_ids {}
    expect(none):eq(nil)
    expect(message):eq "not today"
    function bytes.encode(_, said)
      return { said:byte(1, -1) }
    end
    expect(function() harmony.renderer { date = false, tokenizer = bytes }:render_ids {} end)
      :errors "the tokenizer has no token <|start|>"
    expect(function() harmony.renderer { tokenizer = {} } end):errors "tokenizer is a name, the path"
  end)

  it("names what is wrong", function()
    local r = harmony.renderer { date = false }
    local text, message = r:render { { role = "robot", content = "x" } }
    expect(text):eq(nil)
    expect(message):contains "message 1: its role is none of"
    expect(function() r:render({}, { tool = {} }) end):errors "did you mean 'tools'"
    expect(function() r:render({}, { kwargs = { effort = 1 } }) end):errors "effort"
    expect(function() r:render({}, { kwargs = { reasoning_effort = 1 } }) end):errors "must be a string"
    expect(function() r:render({}, { add_generation_prompt = 1 }) end):errors "must be true or false"
    expect(function() harmony.renderer {}:render {} end):errors "date is missing"
    expect(function() harmony.renderer { dates = "x" } end):errors "did you mean 'date'"
    expect(function() r.render {} end):errors "colon"
  end)
end)
