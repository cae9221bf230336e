-- What conversations and completions share: options of a request, its route, the call. Not for
-- scripts.
local core = require "perigee.core"
local make = require "perigee.gen.core"
local route = require "perigee.route"

local request = {}

local fallback_route = route.default() -- the same for all: it keeps nothing

-- Settings of an object that sends requests, and of each request, which override them.
request.sender_options = {
  "cache_salt", "extra", "headers", "ignore_eos", "max_tokens", "model", "priority", "route", "stop",
  "stream", "temperature", "timeout",
}
request.send_options = {
  "cache_salt", "extra", "headers", "ignore_eos", "max_tokens", "priority", "stop", "stream",
  "temperature", "timeout",
}

function request.list(...)
  local all = {}
  for _, names in ipairs { ... } do
    table.move(names, 1, #names, #all + 1, all)
  end
  return all
end

-- opts[name], else the sender's.
local function setting(sender, opts, name)
  local value = opts[name]
  if value == nil then
    return sender.defaults[name]
  end
  return value
end

local function tokens(value, where)
  if value == nil then
    return nil
  elseif type(value) == "number" and value <= 0 and value == value then
    core.raise(("%s: max_tokens must be above 0, got %s (a distribution takes { min = 1 })"):format(where,
      value))
  end
  return core.count(value, where .. ": max_tokens")
end

local function number(value, where, name)
  if value ~= nil then
    return core.number(value, ("%s: %s"):format(where, name))
  end
end

local USAGE = { include_usage = true }

-- Further fields of the body, the author's own.
local function add_extra(body, extra, where)
  for name, value in pairs(extra) do
    if name == "messages" or name == "tools" or name == "prompt" or name == "model" or name == "stream" then
      core.raise(("%s: extra cannot hold %s, it has a place of its own"):format(where, name))
    end
    body[name] = value
  end
end

-- The options of the body, canonical once encoded. `fixed`: the answer has to have its declared
-- length. Returns them, max_tokens, and the length when the server was told to give all of it.
function request.body_options(sender, opts, where, fixed)
  local stream = setting(sender, opts, "stream") ~= false
  local max_tokens = tokens(setting(sender, opts, "max_tokens"), where)
  local whole_length = fixed and setting(sender, opts, "ignore_eos") ~= false or nil
  local body = {
    max_tokens = max_tokens,
    temperature = number(setting(sender, opts, "temperature"), where, "temperature"),
    stop = setting(sender, opts, "stop"),
    cache_salt = setting(sender, opts, "cache_salt"),
    priority = number(setting(sender, opts, "priority"), where, "priority"),
    stream = stream,
    stream_options = stream and USAGE or nil,
    ignore_eos = whole_length,
    min_tokens = whole_length and max_tokens,
  }
  local extra = setting(sender, opts, "extra")
  if extra then
    add_extra(body, extra, where)
  end
  local whole = body.ignore_eos == true and body.stop == nil and math.type(body.max_tokens) == "integer"
    and body.max_tokens > 0
  return body, max_tokens, whole and body.max_tokens or nil
end

-- The replica that the policy named, or what stands in for it while it is out of rotation: index, id,
-- reason. Without an index nothing is in rotation, and the reason says that.
local function in_rotation(vu, chosen)
  local replicas, index = vu.fleet.replicas, vu:stand_in(chosen)
  if index == chosen then
    return index, replicas[index].id
  elseif index then
    return index, replicas[index].id, replicas[chosen].id .. " is out of rotation"
  end
  local n = #replicas
  return nil, nil, n == 1 and ("no replica is in rotation: the fleet's only one, %s, is out of it"):format(
    replicas[1].id) or ("no replica is in rotation: all %d of the fleet are out of it"):format(n)
end

-- Asks the policy where `prompt` goes: replica, id, policy, reason, fallback, refused.
local function routed(sender, vu, prompt)
  local policy = sender.route or vu.route or sender.fallback_route
  local chosen = policy(vu, prompt)
  if type(chosen) ~= "table" then
    core.raise("the routing policy returned " .. type(chosen)
      .. ", a table { replica =, policy = } is expected")
  end
  local replica = chosen.replica
  local index, id = core.place(vu, replica)
  if index or replica == nil then
    return index, id, chosen.policy, chosen.reason, chosen.fallback
  elseif not vu.fleet.replicas[replica] then
    core.raise(("the routing policy chose replica %s, the fleet has %d"):format(
      core.shown(replica), #vu.fleet.replicas))
  end
  local moved
  index, id, moved = in_rotation(vu, replica)
  if moved then
    return index, id, chosen.policy, moved, true, not index and moved or nil
  end
  return index, id, chosen.policy, chosen.reason, chosen.fallback
end

-- Sends `body`; `verb` is "http" or "try_http". `prompt` says what it is: api, turn, step, branch,
-- parent, caller (what the author called, for messages), asked_tokens (the reply's declared length,
-- where it has one), harmony (the reply is Harmony's raw words); and what was done for it on this side:
-- prompt_tokens, survived_tokens, render_ns, tokenize_ns, hash_ns.
function request.send(sender, vu, verb, prompt, body, opts)
  local replica, id, policy, reason, fallback, refused = routed(sender, vu, prompt)
  local api, stream = prompt.api, setting(sender, opts, "stream") ~= false
  return vu[verb](vu, {
    replica = replica,
    chosen = id,
    policy = policy,
    route_reason = reason,
    fallback = fallback,
    refused = refused,
    method = "POST",
    caller = prompt.caller,
    path = api == "chat" and "/v1/chat/completions" or "/v1/completions",
    body = body,
    headers = setting(sender, opts, "headers"),
    timeout = setting(sender, opts, "timeout"),
    stream = stream and api or nil,
    api = not stream and api or nil,
    asked_tokens = prompt.asked_tokens,
    harmony = prompt.harmony,
    prompt_tokens = prompt.prompt_tokens,
    survived_tokens = prompt.survived_tokens,
    render_ns = prompt.render_ns,
    tokenize_ns = prompt.tokenize_ns,
    hash_ns = prompt.hash_ns,
    turn = prompt.turn,
    step = prompt.step,
    branch = prompt.branch,
    parent = prompt.parent,
  })
end

function request.check_vu(vu, where)
  if not core.is_vu(vu) and not (type(vu) == "table" and make.is_rng(rawget(vu, "rng"))) then
    core.raise(where .. ": the first argument is the virtual user (vu) that sends, got " .. core.shown(vu))
  end
end

-- Raises when `vu`, a sender's, is not the one that runs: its parent or its child does. `way`: how to
-- get a sender for that one.
function request.check_runs(vu, what, way)
  local runs = core.runs(vu)
  if runs == nil then -- one that only pretends
    local record = rawget(vu, "record_of")
    runs = not record or not record.running or record.running == vu
  end
  if not runs then
    core.raise(("%s belongs to another virtual user than the one that runs; %s makes one for this user")
      :format(what, way))
  end
end

-- A policy, or nil; a function that makes policies is none.
function request.check_policy(policy, where)
  if policy == nil then
    return
  end
  local names = {}
  for name, maker in pairs(route) do
    names[#names + 1] = name
    if policy == maker then
      core.raise(("%s: route: call it: route = route.%s()"):format(where, name))
    end
  end
  if type(policy) ~= "function" then
    local near = type(policy) == "string" and core.nearest(policy, names)
    core.raise(("%s: route must be a function: route = route.%s(), or function(vu, prompt) ... end; got %s")
      :format(where, near or "round_robin", core.shown(policy)))
  end
end

-- Common part of a constructor: `opts` were checked.
function request.sender(sender, vu, opts, where)
  request.check_vu(vu, where)
  request.check_policy(opts.route, where)
  tokens(opts.max_tokens, where)
  number(opts.temperature, where, "temperature")
  number(opts.priority, where, "priority")
  sender.vu = vu
  sender.model = opts.model or vu.fleet.model
  sender.route = opts.route
  sender.fallback_route = fallback_route
  sender.defaults = {}
  if next(opts) ~= nil or getmetatable(opts) then
    for _, name in ipairs(request.send_options) do
      sender.defaults[name] = opts[name]
    end
  end
  return sender
end

return request
