-- perigee.harmony: the golden rows where they and the ranks are, the renderer, and misuse.
local chat = require "perigee.chat"
local harmony = require "perigee.harmony"
local json = require "perigee.json"
local test = require "perigee.test"

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

  it("takes answers apart", function()
    local r = harmony.renderer { date = false }
    expect(r:parse "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Yes")
      :eq { reasoning = "Hm", content = "Yes", tool_calls = {} }
    expect(r:parse " to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>")
      :eq { tool_calls = { { name = "f", arguments = "{}" } } }
    local none, message = r:parse "so <|channel|>final<|message|>x"
    expect(none):eq(nil)
    expect(message):contains "is no header of a Harmony message"
    expect(function() r:parse(3) end):errors "the text must be a string"
  end)

  if has_ranks then
    local F = { type = "function", ["function"] = { name = "f", description = "F." } }
    local tokenizer = require "perigee.tokenizer".load "o200k_harmony"

    -- A live conversation; returns the text of each prompt behind the system and developer messages.
    local function talk(replies, act)
      local vu = test.vu { replies = replies, fleet = { now = "2026-08-01T10:00:00" } }
      local conv = chat.new(vu, { history = "live", model = "gpt-oss", tools = { F } })
      conv:set_renderer "harmony"
      act(conv)
      local texts = {}
      for i, request in ipairs(vu.requests) do
        local text = tokenizer:decode(request.json.prompt)
        expect(text):contains "Current date: 2026-08-01\n"
        expect(request.json.skip_special_tokens):eq(false)
        texts[i] = text:match "<|start|>user.*"
      end
      return texts, conv
    end

    it("keeps what was said in a live history: analysis until the answer", function()
      local texts = talk({
        "<|channel|>analysis<|message|>I call.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
          .. '<|constrain|>json<|message|>{"x":1}<|call|>',
        "<|channel|>analysis<|message|>Good.<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>",
        "<|channel|>final<|message|>Bye.",
      }, function(conv)
        conv:user "go"
        local reply = conv:send()
        expect({ reply.text, reply.reasoning, #reply.tool_calls }):eq { "", "I call.", 1 }
        conv:tool("42", reply.tool_calls[1].id)
        reply = conv:send()
        expect({ reply.text, reply.reasoning, reply.raw_text:sub(-10) }):eq { "Done.", "Good.", "<|return|>" }
        conv:user "bye"
        conv:send()
        expect(conv:message(-1)):eq { role = "assistant", content = "Bye." }
      end)
      local call = ' to=functions.f<|channel|>commentary json<|message|>{"x":1}<|call|>'
        .. "<|start|>functions.f to=assistant<|channel|>commentary<|message|>42<|end|>"
      local go = "<|start|>user<|message|>go<|end|><|start|>assistant"
      expect(texts[1]):eq(go)
      expect(texts[2]):eq(go .. "<|channel|>analysis<|message|>I call.<|end|><|start|>assistant" .. call
        .. "<|start|>assistant")
      expect(texts[3]):eq(go .. call .. "<|start|>assistant<|channel|>final<|message|>Done.<|end|>"
        .. "<|start|>user<|message|>bye<|end|><|start|>assistant")
    end)

    it("gives a conversation what it gives its messages", function()
      local vu = test.vu { replies = {}, fleet = { now = "2026-08-01T10:00:00" } }
      local r = harmony.renderer { date = "2026-08-01" }
      local G = { type = "function", ["function"] = { name = "g", description = "G.", parameters = {
        type = "object", properties = { z = { type = "integer", default = 1.0 }, a = {}, m = { type = "array" } } } } }
      local tools
      local function check(conv)
        conv:send { max_tokens = 5 }
        conv:truncate(#conv - 1) -- without the answer
        local messages = {}
        for i = 1, #conv do
          messages[i] = conv:message(i)
        end
        local expected = r:render_ids(messages, { tools = tools })
        expect(vu.requests[#vu.requests].json.prompt):eq(expected)
        conv:assistant("an answer to " .. #conv)
      end
      local function say(conv, text)
        conv:user(text)
        check(conv)
      end
      local conv = chat.new(vu, { system = "Be <|end|> brief.", model = "gpt-oss" })
      conv:set_renderer(r)
      say(conv, "one")
      say(conv, "two \u{e9}")
      conv:set_tools { G, F }
      tools = { G, F }
      say(conv, "three")
      local fork = conv:fork(vu)
      say(conv, "four")
      fork:edit(2, "another one")
      say(fork, "five")
      fork:edit(1, "Be long.")
      say(fork, "six")
      fork:truncate(3)
      say(fork, "seven")
      say(conv, "eight")
      conv:set_renderer({ render = function() return "somebody else's" end }, { tokenizer = tokenizer })
      conv:tokens()
      conv:set_renderer(harmony.renderer { date = "2026-08-01", tokenizer = tokenizer })
      say(conv, "nine")
      expect(#conv:hashes { scheme = "ic-xxh3", block_size = 16 } > 3):eq(true)
    end)

    it("keeps calls without ids apart, and raw words that are no Harmony", function()
      local texts = talk({
        "<|channel|>commentary to=functions.f<|message|>{}<|end|><|start|>assistant<|channel|>commentary "
          .. "to=functions.f<|message|>[]<|call|>",
        "oh <|channel|>final<|message|>x",
        "plain",
      }, function(conv)
        conv:user "go"
        local calls = conv:send().tool_calls
        expect(calls[1].id == calls[2].id):eq(false)
        conv:tool "1"
        conv:tool "2"
        local reply = conv:send()
        expect(reply.parse_error):contains "is no header"
        expect(reply.text):eq "oh <|channel|>final<|message|>x"
        conv:user "so?"
        conv:send()
      end)
      expect(texts[2]):contains "<|message|>{}<|call|><|start|>assistant to=functions.f"
      expect(texts[3]):contains "<|channel|>final<|message|>oh <|channel|>final<|message|>x<|end|>"
    end)

    it("needs a date, and a vocabulary that the server reads", function()
      local vu = test.vu()
      expect(function() chat.new(vu):set_renderer "harmony" end):errors "give the run %-%-now"
      local conv = chat.new(vu)
      conv:set_renderer(harmony.renderer { date = false })
      conv:user "hi"
      expect(function() conv:send { max_tokens = 3 } end)
        :errors "tokens of o200k_harmony, and the run's tokenizer is bytes"
    end)

    it("a template takes a tokenizer of its own", function()
      local template = require "perigee.template".load "{% for m in messages %}{{ m.content }}{% endfor %}"
      local vu = test.vu()
      local conv = chat.new(vu, { model = "other" })
      conv:user "Hello world"
      conv:set_renderer(template)
      expect(conv:tokens()):eq(11)
      conv:set_renderer(template, { tokenizer = tokenizer })
      expect(conv:tokens()):eq(2)
      conv:send { max_tokens = 2 }
      expect(vu.requests[1].json.prompt):eq(tokenizer:encode "Hello world")
      conv:set_renderer { render = function() return { 5, 201088 } end }
      expect(conv:tokens()):eq(2)
      conv:set_renderer({ render = function() return { 5, 201088 } end }, { tokenizer = tokenizer })
      expect(function() conv:tokens() end):errors "token 2 is 201088, and tokenizer o200k_harmony has ids below 201088"
      conv:set_renderer({ render = function() return "Hello" end }, { tokenizer = tokenizer })
      expect(conv:tokens()):eq(1)
      expect(function() chat.new(vu):set_renderer(template, { tokenizer = tokenizer }) end)
        :errors "the run's tokenizer is bytes: the server would read other tokens"
      expect(function() conv:set_renderer(template, { tokenizer = "qwen3" }) end)
        :errors "tokenizer must be what perigee.tokenizer loads"
    end)
  end

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
