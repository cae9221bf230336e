-- Conversations over chat completions. The history lives in C (bind/conv.c): every message is one
-- piece of canonical JSON, shared by forks and sent without being copied. Here are the rules: what
-- a turn, a step and a branch are, what an answer leaves in the history, which tool calls are open.
local core = require "perigee.core"
local histories = require "perigee.chat.core"
local json = require "perigee.json"
local object = require "perigee.object"
local prompts = require "perigee.prompt"
local request = require "perigee.request"

local chat = {}

local Conversation = {}
Conversation.__name = "conversation"

function Conversation:__len()
  return #self.core
end

local NEW_OPTIONS = request.list(request.sender_options, { "history", "system", "tools" })
local HISTORIES = { "scripted", "live" }
local SEND_OPTIONS = request.list(request.send_options, { "tool_call" })

-- While a function of a renderer is at work, which may wait, its conversation is used by nobody.
local at_work = { __close = function(work) rawset(work.conv, "at_work", nil) end }

local function check_free(conv, where)
  local work = rawget(conv, "at_work")
  if work and work.task == coroutine.running() then
    core.raise(where .. ": a renderer cannot use the conversation it renders; it can read it: "
      .. "conv:message(i), #conv")
  elseif work then
    core.raise(where .. ": the conversation's renderer is at work and waits; until it is done the "
      .. "conversation can only be read: wait for the task that sends (or fork before it does)")
  end
end

local function begin_work(conv)
  local work = setmetatable({ conv = conv, task = coroutine.running() }, at_work)
  rawset(conv, "at_work", work)
  return work
end

local function add(conv, role, text, where)
  check_free(conv, (where:gsub(": the text$", "")))
  conv.core:add(role, text, where)
  conv.messages = #conv.core
  if role == "user" then
    conv.turn, conv.step = conv.turn + 1, 0
  end
  return conv
end

--- A new conversation on a virtual user.
function chat.new(vu, opts)
  opts = core.options(opts, "chat.new", NEW_OPTIONS)
  local room = { -- for all fields, made at once
    branch = 0, core = false, defaults = false, fallback_route = false, history = "scripted", messages = 0,
    model = false, open = false, parent = false, step = 0, turn = 0, vu = false,
  }
  local conv = setmetatable(request.sender(room, vu, opts, "chat.new"), Conversation)
  if opts.history then
    conv.history = core.word(opts.history, "chat.new", "history", HISTORIES)
  end
  conv.core = histories.new(conv.model, vu.rng)
  conv.branch, conv.parent = vu.branch_id or 0, vu.parent_branch
  conv.open = {} -- ids of tool calls that wait for an answer, oldest first
  if opts.tools then
    conv:set_tools(opts.tools)
  end
  if opts.system then
    add(conv, "system", opts.system, "chat.new: system")
  end
  return conv
end

--- Adds a message; with one of the user a new turn begins.
function Conversation:add(role, text)
  if role == "tool" then
    core.raise "conv:add: a tool's answer belongs to a call; conv:tool(text) adds it"
  end
  core.word(role, "conv:add", "role", { "assistant", "system", "user" })
  return add(self, role, text, "conv:add: the text")
end

--- Adds a user message; a new turn begins.
function Conversation:user(text)
  return add(self, "user", text, "conv:user: the text")
end

--- Adds an assistant message that was not asked of the server.
function Conversation:assistant(text)
  return add(self, "assistant", text, "conv:assistant: the text")
end

--- Adds a system message.
function Conversation:system(text)
  return add(self, "system", text, "conv:system: the text")
end

--- Answers a tool call.
function Conversation:tool(text, id)
  check_free(self, "conv:tool")
  if #self.open == 0 then
    core.raise("conv:tool: no tool call is open; send { tool_call = … } first, or look at reply.tool_calls")
  end
  local place = 1
  if id ~= nil then
    place = nil
    for i, open in ipairs(self.open) do
      place = place or (open == id and i)
    end
    if not place then
      core.raise(("conv:tool: no open call has the id '%s' (open: %s)"):format(id,
        table.concat(self.open, ", ")))
    end
  end
  self.core:result(self.open[place], text)
  table.remove(self.open, place)
  self.messages = #self.core
  return self
end

-- A schema as the API wants it; { name =, description =, parameters = } is wrapped.
local function schema(tool, i)
  if type(tool) ~= "table" then
    core.raise(("tools: entry %d must be a table, got %s"):format(i, type(tool)))
  end
  if tool.schema then -- a simulated tool of perigee.tool
    tool = tool.schema
  end
  if tool.type ~= nil then
    return tool
  end
  if type(tool.name) ~= "string" then
    core.raise(("tools: entry %d has neither a type nor a name"):format(i))
  end
  return { type = "function", ["function"] = tool }
end

--- The tools the model is told of from now on.
function Conversation:set_tools(tools)
  check_free(self, "conv:set_tools")
  if tools == nil then
    self.core:set_tools(nil)
    self.tool_names = nil
    return self
  end
  if type(tools) ~= "table" then
    core.raise("tools must be a list of schemas, got " .. core.shown(tools))
  end
  for key in pairs(tools) do
    if math.type(key) ~= "integer" then
      core.raise(("tools must be a list, this table has the key '%s'; a single tool is { t }, a set is "
        .. "set.schemas"):format(tostring(key)))
    end
  end
  local schemas, names = json.array {}, {}
  for i, tool in ipairs(tools) do
    schemas[i] = schema(tool, i)
    local fn = schemas[i]["function"]
    names[#names + 1] = type(fn) == "table" and type(fn.name) == "string" and fn.name or nil
  end
  self.core:set_tools(#schemas > 0 and schemas or nil)
  self.tool_names = #schemas > 0 and names or nil
  return self
end

-- What an answer leaves in the history.
local function keep(conv, reply, max_tokens, call)
  if call then
    local arguments = call.arguments
    if type(arguments) ~= "string" then
      arguments = json.encode(arguments or {})
    end
    conv.open[#conv.open + 1] = conv.core:call(call.name, arguments)
  elseif conv.history == "scripted" then
    conv.core:answer(max_tokens)
  else
    local calls = reply.tool_calls or {}
    local text = reply.text
    if text == nil or (#text == 0 and #calls > 0) then
      text = nil
    end
    conv.core:live(text or (#calls == 0 and "" or nil), calls,
      reply.raw_text and #reply.reasoning > 0 and reply.reasoning or nil)
    for _, made in ipairs(calls) do
      conv.open[#conv.open + 1] = made.id
    end
  end
  conv.messages = #conv.core
end

-- What must hold before anything is sent.
local function check_sendable(conv)
  if conv.turn == 0 then
    core.raise "conv:send: the conversation has no user message yet; conv:user(text) first"
  end
  if #conv.open > 0 then
    core.raise(("conv:send: the tool call '%s' has no answer yet%s; conv:tool(text) first"):format(
      conv.open[1], #conv.open > 1 and (", and %d more"):format(#conv.open - 1) or ""))
  end
  request.check_runs(conv.vu, "conv:send: the conversation", "conv:fork(child)")
end

local MAX_SHOWN = 40

local function check_tool(names, wanted)
  for _, name in ipairs(names) do
    if name == wanted then
      return
    end
  end
  local few = table.move(names, 1, math.min(#names, MAX_SHOWN), 1, {})
  local near = core.nearest(wanted, few)
  core.raise(("conv:send: tool_call: the conversation has no tool '%s' (%s)"):format(wanted,
    near and ("did you mean '%s'?"):format(near) or "it has: " .. table.concat(few, ", ")))
end

local function check_call(conv, call)
  if call == nil then
    return nil
  end
  core.options(call, "conv:send: tool_call", { "arguments", "name" })
  if type(call.name) ~= "string" then
    core.raise("conv:send: tool_call needs the tool's name")
  end
  if conv.tool_names then
    check_tool(conv.tool_names, call.name)
  end
  local kind = type(call.arguments)
  if kind ~= "table" and kind ~= "string" and kind ~= "nil" then
    core.raise("conv:send: tool_call.arguments must be a table or a JSON text, got " .. kind)
  end
  return call
end

-- Takes the model's raw words apart where the renderer can; what cannot be parsed stays the text.
local function parsed(conv, reply)
  local _ <close> = begin_work(conv)
  local said, message = prompts.parse(conv.renderer, reply.text or "", "conv:send")
  if not said then
    reply.parse_error = message
    return
  end
  reply.raw_text = reply.text
  reply.text, reply.reasoning = said.content or "", said.reasoning or ""
  reply.tool_calls = said.tool_calls or {}
end

-- Makes the prompt what the conversation is now. Whatever asked for it, it is a cost of the next request.
local function update(conv, where)
  local renderer = conv.renderer
  local _ <close> = renderer.object and not renderer.harmony and begin_work(conv) or nil
  local render_ns, tokenize_ns = prompts.update(conv, renderer, where)
  conv.render_ns = render_ns and (conv.render_ns or 0) + render_ns
  conv.tokenize_ns = tokenize_ns and (conv.tokenize_ns or 0) + tokenize_ns
end

-- The conversation as token ids, with the row's fields about them.
local function rendered(conv, options, prompt)
  if conv.renderer.parses and options.skip_special_tokens == nil then
    options.skip_special_tokens = false
  end
  update(conv, "conv:send")
  prompt.render_ns, prompt.tokenize_ns, prompt.hash_ns = conv.render_ns, conv.tokenize_ns, conv.hash_ns
  conv.render_ns, conv.tokenize_ns, conv.hash_ns = nil, nil, nil
  prompt.api, prompt.harmony = "completions", conv.renderer.harmony or nil
  prompt.prompt_tokens, prompt.survived_tokens = conv.core:prompt_tokens(), conv.core:prompt_sent()
  options.model, options.add_special_tokens = conv.model, false
  return conv.core:prompt_body(options)
end

-- Counts what the server will render, with the run's template: perigee run --verify.
local function counted(conv, prompt)
  local fleet = conv.vu.fleet
  if fleet.verify and fleet.template then
    conv.counter = conv.counter or prompts.renderer(conv, fleet.template, nil, "--verify")
    prompt.render_ns, prompt.tokenize_ns = prompts.update(conv, conv.counter, "conv:send (--verify)")
    prompt.prompt_tokens, prompt.survived_tokens = conv.core:prompt_tokens(), conv.core:prompt_sent()
  else
    conv.core:prompt_unknown()
  end
end

local function send(conv, verb, opts)
  check_free(conv, "conv:send")
  opts = core.options(opts, "conv:send", SEND_OPTIONS)
  local call = check_call(conv, opts.tool_call)
  local scripted = conv.history == "scripted" or call ~= nil
  local options, max_tokens, asked = request.body_options(conv, opts, "conv:send", scripted)
  if scripted and not max_tokens then
    core.raise("conv:send: max_tokens is missing: with history = \"scripted\" it is the declared length "
      .. "of the answer")
  end
  check_sendable(conv)
  conv.step = conv.step + 1
  local prompt = {
    api = "chat",
    caller = "conv:send",
    conversation = conv,
    turn = conv.turn,
    step = conv.step,
    branch = conv.branch,
    parent = conv.parent,
    asked_tokens = asked,
  }
  local body
  local renderer = conv.renderer
  if renderer then
    body = rendered(conv, options, prompt)
  else
    counted(conv, prompt)
    body = conv.core:body(options)
  end
  local reply, class, detail, response = request.send(conv, conv.vu, verb, prompt, body, opts)
  if not reply then
    return nil, class, detail, response
  end
  reply.prompt_tokens_local, reply.survived_tokens = prompt.prompt_tokens, prompt.survived_tokens
  renderer = conv.renderer -- what a routing policy may have changed
  if renderer and renderer.parses then
    parsed(conv, reply)
  end
  keep(conv, reply, max_tokens, call)
  return reply
end

--- Sends the conversation, waits, keeps the answer; a failure ends the session.
function Conversation:send(opts)
  return send(self, "http", opts)
end

--- The same; a failure is nil, class, detail, response.
function Conversation:try_send(opts)
  return send(self, "try_http", opts)
end

--- A conversation that goes on from here on another virtual user.
function Conversation:fork(vu)
  check_free(self, "conv:fork")
  request.check_vu(vu, "conv:fork")
  local fork = {}
  for key, value in pairs(self) do
    fork[key] = value
  end
  fork.vu = vu
  fork.core = self.core:fork(vu.rng)
  fork.parent = self.branch
  fork.branch = vu == self.vu and vu:branch() or vu.branch_id
  fork.open = table.move(self.open, 1, #self.open, 1, {})
  return setmetatable(fork, Conversation)
end

local function place(conv, i, where)
  local n = #conv.core
  if math.type(i) ~= "integer" or i == 0 or i > n or i < -n then
    core.raise(("%s: message %s of %d"):format(where, tostring(i), n))
  end
  return i < 0 and n + 1 + i or i
end

--- Message i: role, content, and what else it has.
function Conversation:message(i)
  return json.decode(self.core:message(place(self, i, "conv:message")), { drop_null = true })
end

--- Another text for message i.
function Conversation:edit(i, text)
  check_free(self, "conv:edit")
  i = place(self, i, "conv:edit")
  self.core:edit(i, text)
  return self
end

-- The calls at the end of the history that no tool message answers.
local function open_calls(conv)
  local answered, open, i = {}, {}, #conv.core
  while i > 0 and conv.core:role(i) == "tool" do
    answered[conv:message(i).tool_call_id] = true
    i = i - 1
  end
  if i > 0 and conv.core:role(i) == "assistant" then
    for _, call in ipairs(conv:message(i).tool_calls or {}) do
      if not answered[call.id] then
        open[#open + 1] = call.id
      end
    end
  end
  return open
end

--- Keeps the first n messages.
function Conversation:truncate(n)
  check_free(self, "conv:truncate")
  if math.type(n) ~= "integer" or n < 0 or n > #self.core then
    core.raise(("conv:truncate: %s messages of %d"):format(tostring(n), #self.core))
  end
  self.core:truncate(n)
  self.messages = n
  self.turn, self.step = self.core:count "user", 0
  for i = n, 1, -1 do
    local role = self.core:role(i)
    if role == "user" then
      break
    end
    self.step = self.step + (role == "assistant" and 1 or 0)
  end
  self.open = open_calls(self)
  return self
end

--- From now on the prompt is rendered here and sent as token ids; nil: by the server again.
function Conversation:set_renderer(renderer, opts)
  check_free(self, "conv:set_renderer")
  if renderer == nil and opts ~= nil then -- what a load that failed gives
    core.raise("conv:set_renderer: there is no renderer: " .. (type(opts) == "string" and opts or "got nil"))
  elseif renderer == nil then
    self.renderer = nil
  else
    self.renderer = prompts.renderer(self, renderer, opts, "conv:set_renderer")
  end
  return self
end

--- Tokens of the prompt as it is now; without a renderer those of the messages' text alone.
function Conversation:tokens()
  check_free(self, "conv:tokens")
  if not self.renderer then
    return self.core:text_tokens()
  end
  update(self, "conv:tokens")
  return self.core:prompt_tokens()
end

-- The options of conv:hashes: where they name no other scheme, what the fleet says of its engines.
local function hash_options(conv, opts)
  local fleet = conv.vu.fleet
  if opts ~= nil and type(opts) ~= "table" then
    return opts -- refused where it is read
  end
  local all = {}
  for name, value in pairs(opts or {}) do
    all[name] = value
  end
  if all.scheme == nil or all.scheme == fleet.hash_scheme then
    all.scheme = fleet.hash_scheme
    all.block_size = all.block_size or fleet.block_size
  end
  return next(all) and all or nil
end

--- Block hashes of the prompt as it is now.
function Conversation:hashes(opts)
  check_free(self, "conv:hashes")
  if not self.renderer then
    core.raise("conv:hashes: the prompt's tokens are not known here; conv:set_renderer(renderer) first")
  end
  update(self, "conv:hashes")
  local hashes, spent = self.core:hashes(hash_options(self, opts))
  if not hashes then
    core.raise("conv:hashes: " .. spent)
  end
  self.hash_ns = spent and (self.hash_ns or 0) + spent
  return hashes
end

object.class(Conversation, "conv", {
  "branch", "history", "messages", "model", "parent", "route", "step", "turn", "vu",
}, { "at_work", "counter", "hash_ns", "render_ns", "renderer", "tokenize_ns", "tool_names" })

return core.named(chat, "chat")
