-- perigee.template: every row of fixtures/jinja, of fixtures/chat where it is, and what load and render take.
local json = require "perigee.json"
local template = require "perigee.template"

local FIXTURES = os.getenv "PERIGEE_FIXTURES" or "../shared/fixtures"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function exists(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil
end

local function same(row, got)
  if row.text then
    return got == row.text
  end
  return got == nil
end

-- All rows of a file; `load` gives the template of one.
local function check_rows(path, load)
  local bad, all = {}, 0
  for line in read(path):gmatch "[^\n]+" do
    local row = json.decode(line)
    if not row.skip then
      local tpl, message = load(row)
      local got
      if tpl then
        got, message = tpl:render_json((line:gsub("^{", '{"now": "2026-08-22T12:34:56", ', 1)))
      end
      all = all + 1
      if not same(row, got) then
        bad[#bad + 1] = ("%s %s: got %s"):format(row.template, row.id, got or message)
      end
    end
  end
  expect(table.concat(bad, "\n")):eq ""
  return all
end

describe("templates", function()
  it("equal Jinja2 on every row of fixtures/jinja", function()
    local all = check_rows("tests/data/jinja/micro.jsonl", function(row) return template.load(row.template) end)
    expect(all >= 297):truthy()
  end)

  -- Third-party templates are only read where they are; elsewhere this test is not there.
  for _, name in ipairs(exists(FIXTURES .. "/chat/qwen3.jsonl") and { "qwen3", "llama3_1", "gptoss", "deepseek_v3_1",
    "gemma3", "mistral_small_3_2", "command_a_reasoning", "kimi_k2", "glm_4_6", "functionary_v3_1", "minicpm3",
    "_other_templates_1", "_other_templates_2" } or {}) do
    it("equal transformers on fixtures/chat/" .. name, function()
      local loaded = {}
      check_rows(("%s/chat/%s.jsonl"):format(FIXTURES, name), function(row)
        loaded[row.template] = loaded[row.template]
          or assert(template.load(("%s/templates/%s.jinja"):format(FIXTURES, row.template)))
        return loaded[row.template]
      end)
    end)
  end
end)

local CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
  .. "{% if add_generation_prompt %}<assistant>{% endif %}"

describe("template:render", function()
  local tpl = assert(template.load(CHAT))
  local hi = { { role = "user", content = "hi" } }

  it("renders tables", function()
    expect(tpl:render(hi)):eq "<user>hi<assistant>"
    expect(tpl:render(hi, { add_generation_prompt = false })):eq "<user>hi"
    expect(tpl:render({}, {})):eq "<assistant>"
    expect(tpl:render({ { role = "assistant", content = "so " } }, { continue_final_message = true }))
      :eq "<assistant>so "
  end)

  it("gives tools, variables, special tokens and the time", function()
    local all = assert(template.load "{{ tools|tojson }}{{ x }}{{ bos_token }}{{ strftime_now('%Y-%m-%d') }}")
    expect(all:render(hi, { tools = { json.object { { "name", "f" }, { "a", json.array {} } } }, kwargs = { x = true },
      special = { bos_token = "<s>" }, now = "2026-08-22" })):eq '[{"name": "f", "a": []}]True<s>2026-08-22'
    expect(all:render(hi, { now = "2026-08-22", tools = {} })):eq "[]2026-08-22"
    expect(#assert(template.load "{{ strftime_now('%Y') }}"):render(hi)):eq(4)
  end)

  it("gives nil and a message for bad data", function()
    local text, message = template.load("{{ messages[0].x.y }}"):render(hi)
    expect(text):eq(nil)
    expect(message):eq "template 'template' line 1: UndefinedError: 'dict object' has no attribute 'x'"
    expect(select(2, tpl:render(hi, { now = "yesterday" }))):eq
      '"yesterday" is no local time; write it as 2026-08-22 or 2026-08-22T12:34:56'
    expect(select(2, tpl:render({ a = 1 }))):eq "messages must be a list of messages"
    expect(select(2, tpl:render_json "{")):truthy()
    expect(select(2, tpl:render_json '{"context":1}')):eq "context must be an object of template variables"
    expect(select(2, tpl:render(hi, { continue_final_message = true, add_generation_prompt = true }))):truthy()
  end)

  it("raises for misuse", function()
    expect(function() tpl:render "hi" end):errors "messages must be a list, got string"
    expect(function() tpl:render(hi, { tool = {} }) end):errors "did you mean tools"
    expect(function() tpl:render(hi, 1) end):errors "options must be a table"
    expect(function() template.load(1) end):errors "must be a string, got number"
    expect(function() tpl:render(hi, { kwargs = { f = print } }) end):errors "function"
    expect(function() tpl:render_json(1) end):errors "must be a string or a text"
  end)
end)

describe("template.load", function()
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir -p " .. folder .. "/additional_chat_templates")) -- the last test removes it

  local function write(name, text)
    local file <close> = assert(io.open(folder .. "/" .. name, "wb"))
    file:write(text)
  end

  it("takes text, files and folders", function()
    expect(template.load "plain {{ 1 }}":render {}):eq "plain 1"
    expect(template.load "":render {}):eq ""
    write("tokenizer_config.json", json.encode { bos_token = { content = "<s>" }, eos_token = "</s>",
      chat_template = json.array { json.object { { "name", "default" }, { "template", "D{{ bos_token }}" } },
        json.object { { "name", "tool_use" }, { "template", "T{{ eos_token }}" } } } })
    local tpl = assert(template.load(folder))
    expect(tpl:render {}):eq "D<s>"
    expect(tpl:render({}, { tools = {} })):eq "T</s>"
    expect(tpl:render({}, { special = { bos_token = "x" } })):eq "Dx"
    expect(assert(template.load(folder .. "/tokenizer_config.json")):render {}):eq "D<s>"
    write("chat_template.jinja", "J{{ bos_token }}\n")
    write("additional_chat_templates/tool_use.jinja", "A")
    expect(assert(template.load(folder)):render {}):eq "J<s>"
    expect(assert(template.load(folder)):render({}, { tools = {} })):eq "A"
    expect(assert(template.load(folder .. "/chat_template.jinja")):render {}):eq "J<s>" -- as a server finds them
    write("bare.jinja", "B{{ bos_token }}")
    expect(assert(template.load(folder .. "/bare.jinja")):render {}):eq "B<s>"
    os.rename(folder .. "/tokenizer_config.json", folder .. "/away.json")
    tpl = assert(template.load(folder))
    expect(tpl:render {}):eq "J" -- Jinja's own way with what is not defined
    expect(tpl.core:unset()):eq "bos_token"
    expect(select(2, tpl.core:take_special(folder))):contains "names bos_token, and nothing says what that is"
    write("special_tokens_map.json", '{"bos_token":"<m>"}')
    expect(assert(template.load(folder)):render {}):eq "J<m>"
    expect(assert(template.load(folder .. "/bare.jinja")):render {}):eq "B<m>"
    expect(tpl.core:take_special(folder)):eq(true)
    expect(tpl:render {}):eq "J<m>"
    expect(tpl.core:unset()):eq(nil)
    os.remove(folder .. "/special_tokens_map.json")
    os.remove(folder .. "/bare.jinja")
    os.rename(folder .. "/away.json", folder .. "/tokenizer_config.json")
  end)

  it("names the file, the line and the way out", function()
    expect(select(2, template.load "nowhere.jinja")):eq("nowhere.jinja: no such file or folder, no tokenizer that came"
      .. " with a template (`make deps` fetches qwen3), and no template's text either (it has no braces)")
    write("bad.jinja", "a\n{% if %}")
    expect(select(2, template.load(folder .. "/bad.jinja"))):eq(("template '%s/bad.jinja' line 2: TemplateSyntaxError: "
      .. "Expected an expression, got 'end of statement block'"):format(folder))
    write("bad.json", "{}")
    expect(select(2, template.load(folder .. "/bad.json"))):eq(folder .. "/bad.json: there is no chat_template in it")
    write("bad.json", "{")
    expect(select(2, template.load(folder .. "/bad.json")):sub(1, #folder + 10)):eq(folder .. "/bad.json:")
    os.remove(folder .. "/chat_template.jinja")
    os.remove(folder .. "/tokenizer_config.json")
    expect(select(2, template.load(folder))):eq(
      folder .. ": neither chat_template.jinja nor tokenizer_config.json is in this folder")
    assert(os.execute("rm -r " .. folder))
  end)
end)
