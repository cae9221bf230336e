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

  it("asks a renderer for what is new", function()
    local vu, seen = test.vu(), nil
    local conv = chat.new(vu, { tools = { { name = "f" } } })
    local renderer = { name = "mine" }
    function renderer:render_more(messages, from, opts)
      if from > 1 or #messages == 1 then -- else compared with all of it
        seen = { self == renderer, from, #messages, opts.tools[1]["function"].name, opts.add_generation_prompt }
      end
      local parts = {}
      for i = from, #messages do
        parts[#parts + 1] = messages[i].role:sub(1, 1) .. ":" .. messages[i].content .. ";"
      end
      return table.concat(parts), "a:"
    end
    conv:set_renderer(renderer)
    conv:user "hi"
    conv:send { max_tokens = 2 }
    expect(text(last(vu))):eq "u:hi;a:"
    expect(seen):eq { true, 1, 1, "f", true }
    expect(last(vu).survived_tokens):is_nil()
    conv:user "more"
    expect(conv:tokens()):eq(#"u:hi;a:xx;u:more;a:")
    seen = nil
    conv:send { max_tokens = 2 }
    expect(seen):is_nil() -- nothing new since conv:tokens
    expect(text(last(vu))):eq("u:hi;a:" .. conv:message(2).content .. ";u:more;a:")
    expect(last(vu).survived_tokens):eq(7)
    for i = 1, 20 do
      conv:user "u"
      conv:send { max_tokens = 1 }
      if i > 8 then
        expect({ seen[2], seen[3] }):eq { #conv - 2, #conv - 1 }
      end
    end
    conv:edit(-4, "U") -- the call before the last began there
    conv:tokens()
    expect({ seen[2], seen[3] }):eq { #conv - 4, #conv }
  end)

  it("gives a renderer the messages it looks at, and goes back for edits, cuts, tools and forks", function()
    local looked = {}
    local function piece(m)
      local calls = m.tool_calls and m.tool_calls[1]["function"].name or ""
      return "<" .. m.role .. ">" .. (m.content or "") .. calls
    end
    local renderer = {}
    function renderer:render(messages, opts) -- luacheck: no self
      local parts = { opts.tools and opts.tools[1]["function"].name or "", opts.kwargs and opts.kwargs.k or "" }
      for _, m in ipairs(messages) do
        parts[#parts + 1] = piece(m)
      end
      return table.concat(parts) .. "<assistant>" .. #messages
    end
    function renderer:render_more(messages, from, opts) -- luacheck: no self
      looked[#looked + 1] = from
      local parts = {}
      if from == 1 then
        parts = { opts.tools and opts.tools[1]["function"].name or "", opts.kwargs and opts.kwargs.k or "" }
      end
      for i = from, #messages do
        parts[#parts + 1] = piece(messages[i])
      end
      return table.concat(parts), "<assistant>" .. #messages
    end
    local kwargs, vu = { k = "K" }, test.vu()
    local convs = { chat.new(vu), chat.new(vu, { system = "\u{e9}\u{4f60}" }) }
    for _, conv in ipairs(convs) do
      conv:set_renderer(renderer, { kwargs = kwargs }):user "first"
    end
    local function whole(conv)
      local messages = {}
      for i = 1, #conv do
        messages[i] = conv:message(i)
      end
      local tools = conv.tool_names and { { ["function"] = { name = conv.tool_names[1] } } }
      return renderer:render(messages, { tools = tools, kwargs = kwargs })
    end
    local rng = vu.rng
    for _ = 1, 600 do
      local at = rng:int(1, #convs)
      local conv, what = convs[at], rng:int(1, 16)
      if what == 1 and #convs < 6 then
        convs[#convs + 1] = conv:fork(vu)
      elseif what == 2 then
        conv:truncate(rng:int(1, #conv))
        conv.open = {}
      elseif what == 3 then
        conv:edit(rng:int(1, #conv), "edited \u{fc}" .. rng:int(1, 9))
      elseif what == 4 then
        conv:set_tools(rng:int(1, 2) == 1 and { { name = "f" .. rng:int(1, 2) } } or nil)
      elseif what == 5 then
        kwargs.k = "K" .. rng:int(1, 2)
      elseif what == 6 then
        conv:set_renderer(template.load(SOURCE))
        conv:tokens()
        conv:set_renderer(renderer, { kwargs = kwargs })
      elseif what == 7 then
        conv.core:call("name" .. at, "{}")
      elseif what < 12 then
        conv:assistant("answer " .. rng:int(1, 99))
      else
        conv:user("question " .. rng:int(1, 99))
      end
      conv:tokens()
      expect(tostring(conv.core:prompt_body {})):eq('{"prompt":['
        .. table.concat({ whole(conv):byte(1, -1) }, ",") .. "]}")
    end
    local anew, later = 0, 0
    for _, from in ipairs(looked) do
      anew, later = anew + (from == 1 and 1 or 0), later + (from > 1 and 1 or 0)
    end
    expect(anew > 40 and later > 200):eq(true)
  end)

  it("takes ids and an end of what stays from a renderer of what is new", function()
    local vu, from_seen = test.vu(), {}
    local conv = chat.new(vu)
    conv:set_renderer { render_more = function(_, messages, from)
      local stays = {}
      from_seen[#from_seen + 1] = from
      for i = from, #messages - 1 do -- the last one is written otherwise
        stays[#stays + 1] = #messages[i].content
      end
      return stays, { 200, #messages }, #messages - 1
    end }
    conv:user "abc"
    conv:send { max_tokens = 5 }
    expect(last(vu).json.prompt):eq { 200, 1 }
    conv:user "abcdef"
    conv:send { max_tokens = 4 }
    expect(last(vu).json.prompt):eq { 3, 5, 200, 3 }
    conv:user "a"
    conv:send { max_tokens = 4 }
    expect(last(vu).json.prompt):eq { 3, 5, 6, 4, 200, 5 }
    expect(last(vu).survived_tokens):eq(2)
    expect(from_seen[#from_seen]):eq(1) -- compared with all of it
    for _ = 1, 8 do
      conv:user "a"
      conv:send { max_tokens = 4 }
    end
    expect(from_seen[#from_seen]):eq(#conv - 3)
  end)

  it("finds a renderer whose text does not stay", function()
    local function broken(render_more, render)
      local conv = chat.new(test.vu())
      conv:set_renderer { name = "wavering", render_more = render_more, render = render }
      conv:user "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}one"
      return conv
    end
    local function piece(messages, from)
      local parts = {}
      for i = from, #messages do
        parts[#parts + 1] = messages[i].content .. (i == #messages and "!" or "|")
      end
      return table.concat(parts)
    end
    local conv = broken(function(_, messages, from) return piece(messages, from), "?" end)
    conv:send { max_tokens = 1 }
    conv:user "two"
    expect(function() conv:send { max_tokens = 1 } end):errors("conv:send: the renderer 'wavering' %(.-test_prompt"
      .. ".lua:%d+%): with what render_more gave for the messages from 2 on, the prompt differs from that of "
      .. "render_more of all messages at byte 28: it has \"[\x80-\xff]+one!.|two!%?\", the whole has "
      .. "\"[\x80-\xff]+one|.|two!%?\"")
    expect(conv:tokens()):eq(#"ééééééééééééone|x|two!?") -- and begins anew
    conv = broken(function(_, messages, from) return piece(messages, from), "?" end,
      function(_, messages) return piece(messages, 1) .. "??" end)
    expect(function() conv:tokens() end):errors("differs from that of render at byte 30: it has .*, the whole has")
    conv = broken(function(_, messages, from) return { from }, { #messages } end)
    conv:send { max_tokens = 1 }
    conv:user "two"
    expect(function() conv:send { max_tokens = 1 } end):errors "at token 2: it has 2, 3, the whole has 3"
  end)

  it("refuses what a renderer of what is new cannot mean", function()
    local function gives(...)
      local made, n = { ... }, select("#", ...)
      local conv = chat.new(test.vu())
      conv:set_renderer { render_more = function() return table.unpack(made, 1, n) end }
      conv:user "x"
      return function() conv:send { max_tokens = 1 } end
    end
    expect(gives()):errors "render_more returned nothing"
    expect(gives(nil, "not now")):errors "render_more: not now"
    expect(gives(true)):errors "render_more returned a boolean"
    expect(gives("a", 7)):errors "returned 7 as the ending of a text"
    expect(gives("a", { 1 })):errors "returned table as the ending of a text"
    expect(gives({ 1 }, "a")):errors 'returned the string "a" as the ending of a list of ids'
    expect(gives("a", "b", "c")):errors 'returned the string "c" as the last message'
    expect(gives("a", "b", 2)):errors "what stays is said to be of messages 1 to 2 of 1"
    expect(gives({ 1, "x" })):errors 'token 2 is the string "x", not a token id'
    expect(gives({ 1 }, { 2.5 })):errors "token 2 is 2.5, not a token id"
    local conv = chat.new(test.vu())
    conv:set_renderer { render_more = function(_, messages) messages[3] = 1 end }
    conv:user "x"
    expect(function() conv:send { max_tokens = 1 } end):errors "the list of messages is read only"
    conv:set_renderer { render_more = function() return "", "" end }
    conv:tokens()
    conv:set_renderer { render_more = function(_, _, from) return "", "", from == 1 and 1 or -1 end }
    conv:tokens()
    conv:user "y"
    expect(function() conv:tokens() end):errors "what stays cannot be of %-1 messages"
    conv:truncate(1)
    conv:set_renderer { render_more = function() return "x" end, render = function() return { 1 } end }
    expect(function() conv:send { max_tokens = 1 } end):errors "render_more and render must both give text"
    expect(function() conv:set_renderer { render_more = 1 } end):errors "or render_more%(self, messages, from"
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
    conv:set_renderer({ render = function() return { 3000000000 } end },
      { tokenizer = require "perigee.tokenizer".load "bytes" })
    expect(function() conv:send { max_tokens = 1 } end):errors "token 1 is 3000000000, and tokenizer bytes has"
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
