-- Prompts made on this side: what conv:set_renderer takes, and how a conversation becomes the token ids
-- that go to /v1/completions. Not for scripts.
local core = require "perigee.core"
local histories = require "perigee.chat.core"
local json = require "perigee.json"
local make = require "perigee.gen.core"

local prompt = {}

local OPTIONS = { "kwargs", "now", "tokenizer" }

local loaded = {} -- what --template named, by its name: made once per state
local made_renderers = 0 -- counted: each has a number of its own

-- A renderer from what --template takes: "harmony", or where a template is.
local function named(name, now, tokenizer, where)
  if name == "harmony" then
    if not now then
      core.raise(where .. ": Harmony's system message has a date, the server's own: give the run --now "
        .. "(vLLM: VLLM_SYSTEM_START_DATE, else its day), or take require \"perigee.harmony\".renderer "
        .. "{ date = \"2026-08-01\" } (false for none)")
    end
    return require "perigee.harmony".renderer { date = now:sub(1, 10) }
  end
  if loaded[name] then
    return loaded[name]
  end
  local template, message = require "perigee.template".load(name)
  local good = template
  if template then
    good, message = template.core:take_special(name, tokenizer)
  end
  if not good then
    core.raise(where .. ": " .. message)
  end
  loaded[name] = template
  return template
end

local function has_method(r, name)
  local ok, method = pcall(function() return r[name] end)
  return ok and type(method) == "function"
end

-- Whether the run's tokenizer is the conversation's: its model is the run's, and the tokenizer known.
local function is_runs(conv)
  local fleet = conv.vu.fleet
  return fleet.tokenizer ~= nil and conv.model == fleet.model
end

-- The tokenizer of the options, checked against the run's.
local function own_tokenizer(conv, tokenizer, where)
  if type(tokenizer) ~= "userdata" or not has_method(tokenizer, "encode") then
    core.raise(where .. ": tokenizer must be what perigee.tokenizer loads, got " .. core.shown(tokenizer))
  end
  local reads, message = true, nil
  if is_runs(conv) then
    reads, message = histories.run_reads(tokenizer)
  end
  if not reads then
    core.raise(where .. ": " .. message)
  end
  return tokenizer
end

local METHODS = { "parse", "render", "render_ids", "render_more" }

-- What a renderer calls by these names must be functions.
local function check_methods(r, where)
  for _, name in ipairs(METHODS) do
    local there, method = pcall(function() return r[name] end)
    if there and method ~= nil and type(method) ~= "function" then
      core.raise(("%s: the renderer's %s must be a function, got %s"):format(where, name,
        core.shown(method)))
    end
  end
end

--- Checks a renderer and its options; returns what prompt.update takes.
function prompt.renderer(conv, r, opts, where)
  opts = core.options(opts, where, OPTIONS)
  if opts.now ~= nil and type(opts.now) ~= "string" then
    core.raise(where .. ": now must be a time as \"2026-08-01T12:00:00\", got " .. core.shown(opts.now))
  end
  local good, why = true, nil
  if opts.now ~= nil then
    good, why = histories.check_time(opts.now)
  end
  if not good then
    core.raise(where .. ": now: " .. why)
  end
  if opts.kwargs ~= nil and type(opts.kwargs) ~= "table" then
    core.raise(where .. ": kwargs must be a table of template variables, got " .. core.shown(opts.kwargs))
  end
  local now = opts.now or conv.vu.fleet.now
  local tokenizer = opts.tokenizer and own_tokenizer(conv, opts.tokenizer, where)
  if type(r) == "string" then
    r = named(r, now, conv.vu.fleet.tokenizer, where)
  end
  if type(r) == "table" and histories.is_template(rawget(r, "core")) then
    local unset = r.core:unset()
    if unset and (opts.kwargs or {})[unset] == nil then
      core.raise(("%s: the template names %s, and nothing says what that is: load the folder of the model's "
        .. "tokenizer_config.json, or say kwargs = { %s = … }"):format(where, unset, unset))
    end
    return { template = rawget(r, "core"), kwargs = opts.kwargs, now = now, tokenizer = tokenizer }
  end
  local kind = type(r)
  if (kind ~= "table" and kind ~= "userdata")
      or not (has_method(r, "render_ids") or has_method(r, "render") or has_method(r, "render_more")) then
    core.raise(("%s: a renderer is a template (perigee.template), a perigee.harmony renderer, or a table "
      .. "with render(self, messages, options) or render_more(self, messages, from, options); got %s"):format(
      where, core.shown(r)))
  end
  check_methods(r, where)
  local harmony = kind == "userdata" -- it has a date and a tokenizer of its own
  if harmony and tokenizer then
    core.raise(where .. ": a Harmony renderer takes its tokenizer itself: harmony.renderer { tokenizer = … }")
  end
  made_renderers = made_renderers + 1
  return {
    object = r,
    number = made_renderers,
    harmony = harmony and histories.is_harmony(r),
    ids = has_method(r, "render_ids"),
    whole = has_method(r, "render_ids") or has_method(r, "render"),
    more = has_method(r, "render_more"),
    parses = has_method(r, "parse"),
    kwargs = opts.kwargs,
    now = harmony and opts.now or not harmony and now or nil,
    for_run = harmony and is_runs(conv) or nil,
    tokenizer = tokenizer,
  }
end

local function messages_of(conv)
  local list = {}
  for i = 1, #conv.core do
    list[i] = json.decode(conv.core:message(i), { drop_null = true })
  end
  return list
end

local function tools_of(conv)
  local tools = conv.core:tools()
  return tools and json.decode(tools) or nil
end

-- A copy: what a renderer does to its options stays with it.
local function copy(v, copies)
  if type(v) ~= "table" then
    return v
  end
  copies = copies or {}
  if not copies[v] then
    local made = {}
    copies[v] = made
    for key, value in next, v do
      made[key] = copy(value, copies)
    end
    setmetatable(made, getmetatable(v)) -- json.array
  end
  return copies[v]
end

local function options_of(conv, renderer)
  return {
    add_generation_prompt = true, for_run = renderer.for_run, kwargs = copy(renderer.kwargs),
    now = renderer.now,
    tools = tools_of(conv),
  }
end

-- Raises when what a renderer gave is not a text or a list of ids.
local function check_made(made, message, where, what)
  if made == nil and message == nil then
    core.raise(("%s: the renderer%s returned nothing; a text or a list of token ids is expected (is there a "
      .. "return?)"):format(where, what))
  elseif made == nil then
    core.raise(("%s: the renderer%s: %s"):format(where, what, tostring(message)))
  elseif type(made) ~= "table" and type(made) ~= "string" and not make.is_text(made) then
    core.raise(("%s: the renderer%s returned a %s; a text or a list of token ids is expected"):format(where,
      what, type(made)))
  end
end

-- The name of a renderer, for errors; `method`: one that it has.
local function name_of(renderer, method)
  local r = renderer.object
  local named_, name = pcall(function() return r.name end)
  local place = type(r[method]) == "function" and histories.place_of(r[method]) or "?"
  return named_ and type(name) == "string" and ("'%s' (%s)"):format(name, place) or "at " .. place
end

-- A method that was there when the renderer was set.
local function method_of(renderer, name, where)
  local method = renderer.object[name]
  if type(method) ~= "function" then
    core.raise(("%s: the renderer had a function %s when it was set, and now that is %s; set one that "
      .. "changed anew (conv:set_renderer)"):format(where, name, core.shown(method)))
  end
  return method
end

local function render_whole(conv, renderer, where)
  local r = renderer.object
  local render = method_of(renderer, renderer.ids and "render_ids" or "render", where)
  local made, message = render(r, messages_of(conv), options_of(conv, renderer))
  check_made(made, message, where, "")
  return made
end

-- A renderer in Lua, or one that gives ids.
local function update_from_object(conv, renderer, where)
  local from = histories.clock()
  local made = render_whole(conv, renderer, where)
  local to = histories.clock()
  local spent = from and to - from
  if type(made) == "table" then
    conv.core:prompt_ids(made, renderer.tokenizer)
    return spent, nil
  end
  local tokenize_ns, why = conv.core:prompt_text(made, renderer.tokenizer)
  if why then
    core.raise(("%s: %s"):format(where, why))
  end
  return spent, tokenize_ns
end

-- The messages as a list of which only those are decoded that are looked at; it lives as long as the call.
local function lazy_messages(conv)
  local n = #conv.core
  local function at(list, i)
    if math.type(i) ~= "integer" or i < 1 or i > n then
      return nil
    end
    local message = json.decode(conv.core:message(i), { drop_null = true })
    rawset(list, i, message)
    return message
  end
  local function following(list, i)
    i = (i or 0) + 1
    if i <= n then
      return i, list[i]
    end
  end
  return setmetatable({}, {
    __index = at,
    __len = function() return n end,
    __pairs = function(list) return following, list, nil end,
    __newindex = function()
      core.raise "render_more: the list of messages is read only"
    end,
  })
end

-- The options, of which the tools are decoded when they are looked at.
local function lazy_options(conv, renderer)
  local options = { add_generation_prompt = true, kwargs = copy(renderer.kwargs), now = renderer.now }
  return setmetatable(options, {
    __index = function(list, name)
      if name == "tools" then
        local tools = tools_of(conv)
        rawset(list, "tools", tools)
        return tools
      end
    end,
  })
end

-- What a prompt of this renderer depends on beside messages and tools; kwargs that are no JSON are not known
-- to be as they were.
local function key_of(renderer)
  if not renderer.kwargs then
    return tostring(renderer.number)
  end
  local good, text = pcall(json.encode, renderer.kwargs)
  if not good then
    made_renderers = made_renderers + 1
    return tostring(made_renderers)
  end
  return renderer.number .. text
end

local function more(conv, renderer, from, where)
  local r, n = renderer.object, #conv.core
  local render_more = method_of(renderer, "render_more", where)
  local made, ending, upto = render_more(r, lazy_messages(conv), from, lazy_options(conv, renderer))
  check_made(made, ending, where, ":render_more")
  local ids = type(made) == "table"
  local fits = type(ending) == "string" or make.is_text(ending)
  if ids then
    fits = type(ending) == "table"
  end
  if ending ~= nil and not fits then
    core.raise(("%s: the renderer:render_more returned %s as the ending of a %s; both are texts, or both "
      .. "lists of token ids"):format(where, core.shown(ending), ids and "list of ids" or "text"))
  end
  if upto ~= nil and math.type(upto) ~= "integer" then
    core.raise(("%s: the renderer:render_more returned %s as the last message whose text stays; a whole "
      .. "number is expected, or nothing"):format(where, core.shown(upto)))
  end
  return made, ending, upto or n
end

local function joined(stays, ending)
  if type(stays) == "table" then
    local all = table.move(stays, 1, #stays, 1, {})
    return table.move(ending or {}, 1, #(ending or {}), #all + 1, all)
  end
  return tostring(stays) .. tostring(ending or "")
end

local function quoted(text)
  return (("%q"):format(text):gsub("\\\n", "\\n"))
end

-- Holds what came against the whole prompt.
local function compare(conv, renderer, made, ending, from, where)
  local whole, other
  if renderer.whole then
    whole, other = render_whole(conv, renderer, where), renderer.ids and "render_ids" or "render"
  elseif from == 1 then
    return
  else
    local stays, behind = more(conv, renderer, 1, where)
    whole, other = joined(stays, behind), "render_more of all messages"
  end
  if (type(whole) == "table") ~= (type(made) == "table") then
    core.raise(("%s: the renderer %s: render_more and %s must both give text, or both token ids"):format(
      where, name_of(renderer, "render_more"), other))
  end
  local at, grown, there = conv.core:grow_differs(made, ending, whole, renderer.tokenizer)
  if at then
    local ids = type(made) == "table"
    core.raise(("%s: the renderer %s: with what render_more gave for the messages from %d on, the prompt "
      .. "differs from that of %s at %s %d: it has %s, the whole has %s. What render_more says stays must "
      .. "not depend on messages that come later"):format(where, name_of(renderer, "render_more"), from,
      other, ids and "token" or "byte", at, ids and grown or quoted(grown), ids and there or quoted(there)))
  end
end

-- A renderer in Lua that gives what the messages from some one on add.
local function update_from_more(conv, renderer, where)
  local t0 = histories.clock()
  local from, check = conv.core:grow_from(key_of(renderer))
  if not from then
    return t0 and 0, conv.tokenize_ns and 0
  end
  local made, ending, upto = more(conv, renderer, from, where)
  if check then
    compare(conv, renderer, made, ending, from, where)
  end
  local t1 = histories.clock()
  local tokenize_ns, why = conv.core:grow(made, ending, upto, renderer.tokenizer)
  if why then
    core.raise(("%s: the renderer:render_more: %s"):format(where, why))
  end
  return t0 and t1 - t0, tokenize_ns
end

-- Harmony, of which what is new is rendered (text/harmony_grown.h).
local function update_from_harmony(conv, renderer, where)
  local render_ns, tokenize_ns = conv.core:harmony(renderer.object, {
    add_generation_prompt = true, for_run = renderer.for_run, kwargs = renderer.kwargs, now = renderer.now,
  })
  if type(tokenize_ns) == "string" then
    core.raise(("%s: the renderer: %s"):format(where, tokenize_ns))
  end
  return render_ns, tokenize_ns
end

local CALL = { "name", "arguments", "id" }

-- Raises when what `parse` gave is not what it may be.
local function check_parsed(renderer, said, where)
  local function check(value, kind, may_lack, name)
    if type(value) ~= kind and not (may_lack and value == nil) then
      core.raise(("%s: the renderer %s: parse returned %s%s; a %s is expected%s"):format(where,
        name_of(renderer, "parse"), name and name .. " = " or "", core.shown(value), kind,
        not name and " with content, reasoning, tool_calls, or nil and a message"
          or may_lack and ", or nothing" or ""))
    end
  end
  check(said, "table", false)
  check(said.content, "string", true, "content")
  check(said.reasoning, "string", true, "reasoning")
  check(said.tool_calls, "table", true, "tool_calls")
  for key, call in pairs(said.tool_calls or {}) do
    local name = ("tool_calls[%s]"):format(tostring(key))
    if math.type(key) ~= "integer" then
      core.raise(("%s: the renderer %s: parse returned tool_calls with a field '%s'; a list of calls is "
        .. "expected"):format(where, name_of(renderer, "parse"), tostring(key)))
    end
    check(call, "table", false, name)
    for _, field in ipairs(CALL) do
      check(call[field], "string", field == "id", name .. "." .. field)
    end
  end
end

--- Takes the model's raw words apart: content, reasoning, tool_calls; nil and why not.
function prompt.parse(renderer, text, where)
  local said, message = method_of(renderer, "parse", where)(renderer.object, text)
  if said == nil then
    return nil, tostring(message or "the renderer's parse gave nothing")
  end
  if not renderer.harmony then
    check_parsed(renderer, said, where)
  end
  return said
end

--- Makes the prompt what the conversation is now; returns render_ns, tokenize_ns, where there is a clock.
function prompt.update(conv, renderer, where)
  if renderer.harmony then
    return update_from_harmony(conv, renderer, where)
  end
  if renderer.more then
    return update_from_more(conv, renderer, where)
  end
  if renderer.object then
    return update_from_object(conv, renderer, where)
  end
  local render_ns, tokenize_ns = conv.core:render(renderer.template, renderer.kwargs, renderer.now,
    renderer.tokenizer)
  if type(tokenize_ns) == "string" then
    core.raise(("%s: %s"):format(where, tokenize_ns))
  end
  return render_ns, tokenize_ns
end

return prompt
