-- Prompts made on this side: what conv:set_renderer takes, and how a conversation becomes the token ids
-- that go to /v1/completions. Not for scripts.
local core = require "perigee.core"
local histories = require "perigee.chat.core"
local json = require "perigee.json"
local make = require "perigee.gen.core"

local prompt = {}

local OPTIONS = { "kwargs", "now", "tokenizer" }

local loaded = {} -- what --template named, by its name: made once per state

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

--- Checks a renderer and its options; returns what prompt.update takes.
function prompt.renderer(conv, r, opts, where)
  opts = core.options(opts, where, OPTIONS)
  if opts.now ~= nil and type(opts.now) ~= "string" then
    core.raise(where .. ": now must be a time as \"2026-08-01T12:00:00\", got " .. core.shown(opts.now))
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
      or not (has_method(r, "render_ids") or has_method(r, "render")) then
    core.raise(("%s: a renderer is a template (perigee.template), a perigee.harmony renderer, or a table "
      .. "with render(self, messages, options); got %s"):format(where, core.shown(r)))
  end
  local harmony = kind == "userdata" -- it has a date and a tokenizer of its own
  if harmony and tokenizer then
    core.raise(where .. ": a Harmony renderer takes its tokenizer itself: harmony.renderer { tokenizer = … }")
  end
  return {
    object = r,
    harmony = harmony and histories.is_harmony(r),
    ids = has_method(r, "render_ids"),
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

-- A renderer in Lua, or one that gives ids.
local function update_from_object(conv, renderer, where)
  local from = histories.clock()
  local r = renderer.object
  local render = renderer.ids and r.render_ids or r.render
  local made, message = render(r, messages_of(conv), {
    add_generation_prompt = true, for_run = renderer.for_run, kwargs = renderer.kwargs, now = renderer.now,
    tools = tools_of(conv),
  })
  local to = histories.clock()
  local spent = from and to - from
  if made == nil and message == nil then
    core.raise(where .. ": the renderer returned nothing; a text or a list of token ids is expected (is "
      .. "there a return?)")
  elseif made == nil then
    core.raise(("%s: the renderer: %s"):format(where, tostring(message)))
  end
  if type(made) == "table" then
    conv.core:prompt_ids(made, renderer.tokenizer)
    return spent, nil
  elseif type(made) ~= "string" and not make.is_text(made) then
    core.raise(("%s: the renderer returned a %s; a text or a list of token ids is expected"):format(where,
      type(made)))
  end
  local tokenize_ns, why = conv.core:prompt_text(made, renderer.tokenizer)
  if why then
    core.raise(("%s: %s"):format(where, why))
  end
  return spent, tokenize_ns
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

--- Makes the prompt what the conversation is now; returns render_ns, tokenize_ns, where there is a clock.
function prompt.update(conv, renderer, where)
  if renderer.harmony then
    return update_from_harmony(conv, renderer, where)
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
