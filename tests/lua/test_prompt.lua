-- perigee.prompt: conversations that are rendered on this side and sent as token ids.
local blockhash = require "perigee.blockhash"
local chat = require "perigee.chat"
local harmony = require "perigee.harmony"
local template = require "perigee.template"
local test = require "perigee.test"

local SOURCE = "{% if tools %}[{{ tools[0].function.name }}]{% endif %}{% for m in messages %}"
  .. "<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}({{ c.function.arguments.x }}){% endfor %}"
  .. "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"

local function last(vu)
  return vu.requests[#vu.requests]
end

local function text(request)
  return utf8.char(table.unpack(request.json.prompt))
end

local function ids(s)
  return { s:byte(1, -1) }
end

describe("a conversation with a renderer", function()
  it("goes to completions as token ids", function()
    local vu = test.vu()
    local conv = chat.new(vu, { system = "sys", model = "m" })
    expect(conv:set_renderer(template.load(SOURCE))):eq(conv)
    conv:user "hi"
    local reply = conv:send { max_tokens = 5 }
    expect(#tostring(reply.text)):eq(5)
    local sent = last(vu)
    expect(sent.path):eq "/v1/completions"
    expect(sent.stream):eq "completions"
    expect(sent.body):eq('{"add_special_tokens":false,"ignore_eos":true,"max_tokens":5,"min_tokens":5,'
      .. '"model":"m","stream":true,"stream_options":{"include_usage":true},"prompt":['
      .. table.concat(ids "<system>sys<user>hi<assistant>", ",") .. "]}")
    expect(sent.prompt_tokens):eq(30)
    expect(sent.survived_tokens):is_nil()
    expect({ sent.turn, sent.step }):eq { 1, 1 }
  end)

  it("keeps answers, and says how many leading tokens the prompt shares with the one before", function()
    local vu = test.vu()
    local conv = chat.new(vu)
    conv:set_renderer(template.load(SOURCE))
    conv:user "hi"
    conv:send { max_tokens = 3 }
    conv:user "more"
    conv:send { max_tokens = 3 }
    local answer = conv:message(2).content
    expect(text(last(vu))):eq("<user>hi<assistant>" .. answer .. "<user>more<assistant>")
    expect(last(vu).survived_tokens):eq(19)
    conv:edit(1, "ho")
    conv:send { max_tokens = 3 }
    expect(last(vu).survived_tokens):eq(7)
    conv:truncate(1)
    conv:send { max_tokens = 3 }
    expect(text(last(vu))):eq "<user>ho<assistant>"
    expect(last(vu).survived_tokens):eq(19)
  end)

  it("changes renderer and tools in the middle", function()
    local vu = test.vu()
    local conv = chat.new(vu)
    conv:user "hi"
    conv:send { max_tokens = 1 }
    expect(last(vu).path):eq "/v1/chat/completions"
    expect(last(vu).prompt_tokens):is_nil()
    conv:set_renderer(template.load(SOURCE))
    conv:send { max_tokens = 1 }
    expect(last(vu).survived_tokens):is_nil()
    conv:set_tools { { name = "f", parameters = { type = "object" } } }
    conv:send { max_tokens = 1 }
    expect(text(last(vu)):sub(1, 9)):eq "[f]<user>"
    expect(last(vu).survived_tokens):eq(0)
    conv:set_renderer(template.load(SOURCE:gsub("<assistant>", "<model>")))
    conv:set_tools(nil)
    conv:set_tools { { name = "f", parameters = { type = "object" } } }
    local before = conv:tokens()
    conv:send { max_tokens = 1 }
    expect(text(last(vu)):sub(-7)):eq "<model>"
    expect(last(vu).prompt_tokens):eq(before)
    conv:set_renderer(nil)
    conv:send { max_tokens = 1 }
    expect(last(vu).path):eq "/v1/chat/completions"
  end)

  it("gives templates what a server gives them", function()
    local vu = test.vu()
    local conv = chat.new(vu)
    conv:set_renderer(template.load(SOURCE))
    conv:user "go"
    conv:send { max_tokens = 4, tool_call = { name = "f", arguments = { x = 17 } } }
    conv:tool "done"
    conv:send { max_tokens = 1 }
    expect(text(last(vu))):eq "<user>go<assistant>(17)<tool>done<assistant>"
  end)

  it("takes a renderer in Lua that gives a text", function()
    local vu, seen = test.vu(), nil
    local conv = chat.new(vu, { tools = { { name = "f" } } })
    local renderer = {}
    function renderer:render(messages, opts)
      seen = { self == renderer, messages, opts.tools[1]["function"].name, opts.add_generation_prompt }
      return "prompt of " .. #messages
    end
    conv:set_renderer(renderer)
    conv:user "hi"
    conv:send { max_tokens = 1 }
    expect(text(last(vu))):eq "prompt of 1"
    expect(seen):eq { true, { { role = "user", content = "hi" } }, "f", true }
  end)

  it("takes a renderer in Lua that gives ids", function()
    local vu = test.vu()
    local conv = chat.new(vu)
    conv:set_renderer { render = function(_, messages) return { 5, 6, #messages } end }
    conv:user "hi"
    conv:send { max_tokens = 1 }
    expect(last(vu).json.prompt):eq { 5, 6, 1 }
    conv:send { max_tokens = 1 }
    expect(last(vu).json.prompt):eq { 5, 6, 2 }
    expect(last(vu).survived_tokens):eq(2)
    expect(last(vu).prompt_tokens):eq(3)
  end)

  it("shares its prompt with forks", function()
    local vu = test.vu()
    local conv = chat.new(vu)
    conv:set_renderer(template.load(SOURCE))
    conv:user "trunk"
    conv:send { max_tokens = 2 }
    local answer = conv:message(2).content
    vu:all({ "a", "b" }, function(child, item)
      local fork = conv:fork(child)
      fork:user(item)
      fork:send { max_tokens = 2 }
      expect(text(last(vu))):eq("<user>trunk<assistant>" .. answer .. "<user>" .. item .. "<assistant>")
      expect(last(vu).survived_tokens):eq(22)
    end)
    conv:user "c"
    conv:send { max_tokens = 2 }
    expect(text(last(vu))):eq("<user>trunk<assistant>" .. answer .. "<user>c<assistant>")
  end)

  it("hashes its blocks", function()
    local vu = test.vu()
    local conv = chat.new(vu)
    conv:set_renderer(template.load(SOURCE))
    for i = 1, 12 do
      conv:user(("question %d "):format(i):rep(5))
      local expected = "<user>" .. conv:message(1).content
      for k = 2, #conv do
        expected = expected .. "<" .. conv:message(k).role .. ">" .. conv:message(k).content
      end
      expected = expected .. "<assistant>"
      local hashes = conv:hashes { block_size = 8 }
      expect(hashes:hex()):eq(blockhash.hash(ids(expected), { block_size = 8 }):hex())
      if i == 6 then
        conv:edit(3, "something else")
      end
      conv:send { max_tokens = 7 }
    end
    expect(conv:hashes { scheme = "ic-xxh3" }:hex()):eq(
      conv:fork(vu):hashes():hex())
  end)

  it("counts what the server renders when the run verifies", function()
    local path = os.tmpname()
    local file <close> = assert(io.open(path, "wb"))
    file:write(SOURCE)
    file:flush()
    local vu = test.vu { fleet = { template = path, verify = true } }
    local conv = chat.new(vu)
    conv:user "hi"
    conv:send { max_tokens = 1 }
    expect(last(vu).path):eq "/v1/chat/completions"
    expect(last(vu).prompt_tokens):eq(#"<user>hi<assistant>")
    conv:set_renderer(path)
    conv:send { max_tokens = 1 }
    expect(last(vu).path):eq "/v1/completions"
    os.remove(path)
  end)

  it("refuses what is no renderer, and says what went wrong in one", function()
    local conv = chat.new(test.vu())
    expect(function() conv:set_renderer(1) end):errors "a renderer is a template"
    expect(function() conv:set_renderer {} end):errors "a renderer is a template"
    expect(function() conv:set_renderer "/nowhere.jinja" end):errors "/nowhere.jinja: no such file"
    expect(function() conv:set_renderer "harmony" end):errors "has a date"
    expect(function() conv:set_renderer(template.load "{# #}x", { knows = 1 }) end):errors "unknown option 'knows'"
    expect(function() conv:set_renderer(template.load "{# #}x", { now = 1 }) end):errors "now must be a time"
    expect(function() conv:set_renderer(template.load "/nowhere") end):errors "there is no renderer: /nowhere: no such"
    expect(function() conv:hashes() end):errors "conv:set_renderer%(renderer%) first"
    conv:user "hi"
    conv:set_renderer(template.load "{{ raise_exception('no way') }}")
    expect(function() conv:send { max_tokens = 1 } end):errors "no way"
    conv:set_renderer { render = function() return nil, "not today" end }
    expect(function() conv:send { max_tokens = 1 } end):errors "the renderer: not today"
    conv:set_renderer { render = function() return true end }
    expect(function() conv:send { max_tokens = 1 } end):errors "the renderer returned a boolean"
    conv:set_renderer { render = function() return { 1.5 } end }
    expect(function() conv:send { max_tokens = 1 } end):errors "token 1 is 1.5, not a token id"
    conv:set_renderer(template.load "{{ strftime_now('%Y') }}")
    expect(function() conv:send { max_tokens = 1 } end):errors "strftime_now"
    conv:set_renderer(template.load "{{ strftime_now('%Y') }}{{ deep }}", { now = "2026-08-01T00:00:00",
      kwargs = { deep = true } })
    conv:send { max_tokens = 1 }
    expect(text(last(conv.vu))):eq "2026True"
    conv:set_renderer(harmony.renderer { date = false, tokenizer = "/nowhere.json" })
    expect(function() conv:send { max_tokens = 1 } end):errors "/nowhere.json"
  end)
end)
