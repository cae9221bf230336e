-- perigee.prompt: what renderers may be, give and do; which follow each other. See test_prompt.lua.
local chat = require "perigee.chat"
local template = require "perigee.template"
local test = require "perigee.test"

local SOURCE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"

local function last(vu)
  return vu.requests[#vu.requests]
end

local function ids(s)
  return { s:byte(1, -1) }
end

describe("the renderer of a conversation", function()
  it("is handed from any renderer to any other in one line", function()
    local function content(messages, from)
      local parts = {}
      for i = from, #messages do
        parts[#parts + 1] = messages[i].content
      end
      return table.concat(parts)
    end
    local bytes = require "perigee.tokenizer".load "bytes"
    local renderers = {
      { render = function(_, messages) return ids(content(messages, 1) .. "#") end },
      { render_more = function(_, messages, from) return ids(content(messages, from)), ids "#" end },
      { render_more = function(_, messages, from) return content(messages, from), "#" end },
      { render = function(_, messages) return content(messages, 1) .. "#" end },
      template.load "{% for m in messages %}{{ m.content }}{% endfor %}#",
    }
    for _, one in ipairs(renderers) do
      for _, other in ipairs(renderers) do
        for mode = 1, 4 do
          local conv = chat.new(test.vu(), { system = "sys" })
          conv:user "hi"
          conv:set_renderer(one, { tokenizer = mode == 4 and bytes or nil })
          expect(conv:tokens()):eq(6)
          if mode == 2 then
            conv:send { max_tokens = 1 }
            conv:user "ho"
          elseif mode == 3 then
            conv = conv:fork(conv.vu)
            conv:edit(1, "you")
          end
          conv:set_renderer(other)
          local all = ""
          for i = 1, #conv do
            all = all .. conv:message(i).content
          end
          expect(conv:tokens()):eq(#all + 1)
          expect(tostring(conv.core:prompt_body {})):eq('{"prompt":[' .. table.concat(ids(all .. "#"), ",") .. "]}")
          conv:send { max_tokens = 1 }
          expect(last(conv.vu).survived_tokens):eq(mode == 2 and 5 or nil)
        end
      end
    end
  end)

  it("knows no surviving tokens behind a prompt that the server rendered", function()
    local conv = chat.new(test.vu(), { system = "sys" })
    local function survived()
      conv:user "hi"
      conv:send { max_tokens = 1 }
      return last(conv.vu).survived_tokens
    end
    conv:set_renderer(template.load(SOURCE))
    expect({ survived() or "nil", survived() > 0 }):eq { "nil", true }
    conv:set_renderer(nil)
    expect(survived()):is_nil()
    conv:set_renderer(template.load(SOURCE))
    expect(survived()):is_nil()
    expect(survived() > 0):eq(true)
  end)

  it("takes a head before message 1 while none of the messages stays", function()
    local conv = chat.new(test.vu(), { tools = { { name = "f" } } })
    local froms = {}
    conv:set_renderer { render_more = function(_, messages, from, opts)
      froms[#froms + 1] = from
      local stays, ending = { from == 1 and "[" .. opts.tools[1]["function"].name .. "]" or "" }, {}
      for i = from, #messages do
        local list = i <= #messages - 3 and stays or ending
        list[#list + 1] = messages[i].content .. (i <= #messages - 3 and ";" or "!")
      end
      return table.concat(stays), table.concat(ending) .. "#", #messages - 3
    end }
    expect(conv:tokens()):eq(#"[f]#")
    local stays, open = "", {}
    for i = 1, 12 do
      conv:user("q" .. i)
      open[#open + 1] = "q" .. i
      if #open > 3 then
        stays = stays .. table.remove(open, 1) .. ";"
      end
      conv:tokens()
      expect(tostring(conv.core:prompt_body {})):eq('{"prompt":['
        .. table.concat(ids("[f]" .. stays .. table.concat(open, "!") .. "!#"), ",") .. "]}")
    end
    expect(math.max(table.unpack(froms))):eq(9)
  end)

  it("cannot be used by the renderer that renders it", function()
    local conv, vu = nil, test.vu()
    local uses = {
      user = function() conv:user "x" end, add = function() conv:add("user", "x") end,
      assistant = function() conv:assistant "x" end, system = function() conv:system "x" end,
      tool = function() conv:tool "x" end, edit = function() conv:edit(1, "x") end,
      truncate = function() conv:truncate(0) end, set_tools = function() conv:set_tools(nil) end,
      set_renderer = function() conv:set_renderer(nil) end, tokens = function() conv:tokens() end,
      hashes = function() conv:hashes() end, fork = function() conv:fork(vu) end,
      send = function() conv:send { max_tokens = 1 } end, try_send = function() conv:try_send { max_tokens = 1 } end,
    }
    for name, use in pairs(uses) do
      for _, method in ipairs { "render", "render_more", "parse" } do
        local broken = true
        local function made()
          expect(conv:message(1).content):eq "hi"
          if broken then
            use()
          end
          return "a"
        end
        conv = chat.new(vu)
        conv:user "hi"
        conv:set_renderer {
          render = method ~= "render_more" and (method == "render" and made or function() return "a" end) or nil,
          render_more = method == "render_more" and made or nil,
          parse = method == "parse" and function() return { content = made() } end or nil,
        }
        local what = name == "try_send" and "send" or name
        expect(function() conv:send { max_tokens = 1 } end):errors("test_renderers.lua:%d+: conv:" .. what
          .. ": a renderer cannot use the conversation it renders")
        expect(#conv):eq(1)
        broken = false
        conv:send { max_tokens = 1 } -- as if nothing had been
        expect(#conv):eq(2)
      end
    end
  end)

  it("says what a renderer's functions may be and give", function()
    local conv = chat.new(test.vu(), { history = "live" })
    local function render() return "a" end
    conv:user "hi"
    for _, name in ipairs { "parse", "render", "render_ids", "render_more" } do
      local renderer = { render = render, render_more = render }
      renderer[name] = 5
      expect(function() conv:set_renderer(renderer) end):errors("conv:set_renderer: the renderer's " .. name
        .. " must be a function, got 5")
    end
    local function gives(said, why)
      local renderer = { name = "mine", render = render, parse = function() return said, why end }
      conv:set_renderer(renderer)
      return function() return conv:fork(conv.vu):send { max_tokens = 1 } end
    end
    local function wrong(said, what)
      expect(gives(said)):errors("conv:send: the renderer 'mine' %(.-test_renderers.lua:%d+%): parse returned " .. what)
    end
    wrong(5, "5; a table is expected with content, reasoning, tool_calls, or nil and a message")
    wrong({ content = 5 }, "content = 5; a string is expected, or nothing")
    wrong({ reasoning = {} }, "reasoning = table; a string is expected, or nothing")
    wrong({ tool_calls = "x" }, 'tool_calls = the string "x"; a table is expected, or nothing')
    wrong({ tool_calls = { name = "f" } }, "tool_calls with a field 'name'; a list of calls is expected")
    wrong({ tool_calls = { "f" } }, 'tool_calls%[1%] = the string "f"; a table is expected')
    wrong({ tool_calls = { { name = 5 } } }, "tool_calls%[1%].name = 5; a string is expected")
    wrong({ tool_calls = { { name = "f", arguments = {} } } }, "tool_calls%[1%].arguments = table; a string")
    wrong({ tool_calls = { { name = "f", arguments = "{}", id = 5 } } }, "tool_calls%[1%].id = 5; a string")
    expect(gives(nil, "not mine")().parse_error):eq "not mine"
    expect(gives(nil)().parse_error):eq "the renderer's parse gave nothing"
    local reply = gives({ content = "c", tool_calls = { { name = "f", arguments = "{}" } } })()
    expect({ reply.text, reply.tool_calls[1].name }):eq { "c", "f" }
    for _, name in ipairs { "render", "render_more", "parse" } do
      local renderer = { parse = name == "parse" and function() return {} end or nil,
        render = name ~= "render_more" and render or nil, render_more = name == "render_more" and render or nil }
      conv:set_renderer(renderer)
      renderer[name] = nil
      expect(function() conv:fork(conv.vu):send { max_tokens = 1 } end):errors("the renderer had a function " .. name
        .. " when it was set, and now that is nil; set one that changed anew")
    end
    expect(function() conv:set_renderer({ render = render }, { now = "yesterday" }) end):errors(
      'conv:set_renderer: now: "yesterday" is no local time; write it as 2026')
    local kwargs = { k = { "x" } }
    for _, name in ipairs { "render", "render_more" } do
      conv:set_renderer({ [name] = function(_, _, from_or_opts, opts)
        opts = opts or from_or_opts
        opts.kwargs.k[1] = opts.kwargs.k[1] .. "y"
        return opts.kwargs.k[1]
      end }, { kwargs = kwargs })
      expect(conv:tokens()):eq(2)
      expect(kwargs):eq { k = { "x" } }
    end
  end)

  it("needs no time for a template that does not ask for it", function()
    local date = os.date
    local rendered, refused
    os.date = function() error "differs from run to run" end -- luacheck: ignore 122
    local good, why = pcall(function()
      rendered = template.load("{{ messages[0].content }}"):render { { role = "user", content = "hi" } }
      refused = { template.load("{{ strftime_now('%Y') }}"):render { { role = "user", content = "hi" } } }
    end)
    os.date = date -- luacheck: ignore 122
    expect({ good, why }):eq { true }
    expect(rendered):eq "hi"
    expect(refused[2]):matches "no time is given; give `now`"
  end)
end)
