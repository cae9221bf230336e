-- What conversations and completions share: options of a request, its route, the call. Not for
-- scripts.
local core = require "perigee.core"
local make = require "perigee.gen.core"
local route = require "perigee.route"

local request = {}

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
  if type(value) == "number" and value <= 0 and value == value then
    core.raise(("%s: max_tokens must be above 0, got %s (a distribution takes { min = 1 })"):format(where,
      value))
  end
  return value ~= nil and core.count(value, where .. ": max_tokens") or nil
end

local function number(value, what)
  if value ~= nil then
    return core.number(value, what)
  end
end

-- The options of the body, canonical once encoded. `fixed`: the answer has to have its declared
-- length. Returns them, max_tokens, and the length when the server was told to give all of it.
function request.body_options(sender, opts, where, fixed)
  local function get(name)
    return setting(sender, opts, name)
  end
  local stream, max_tokens = get "stream" ~= false, tokens(get "max_tokens", where)
  local body = {
    max_tokens = max_tokens,
    temperature = number(get "temperature", where .. ": temperature"),
    stop = get "stop",
    cache_salt = get "cache_salt",
    priority = number(get "priority", where .. ": priority"),
    stream = stream,
    stream_options = stream and { include_usage = true } or nil,
  }
  if fixed and get "ignore_eos" ~= false then
    body.ignore_eos, body.min_tokens = true, max_tokens
  end
  for name, value in pairs(get "extra" or {}) do
    if name == "messages" or name == "tools" or name == "prompt" or name == "model" or name == "stream" then
      core.raise(("%s: extra cannot hold %s, it has a place of its own"):format(where, name))
    end
    body[name] = value
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

-- Asks the policy where `prompt` goes; returns the fields of vu:http.
local function routed(sender, vu, prompt)
  local policy = sender.route or vu.route or sender.fallback_route
  local chosen = policy(vu, prompt)
  if type(chosen) ~= "table" then
    core.raise("the routing policy returned " .. type(chosen)
      .. ", a table { replica =, policy = } is expected")
  end
  local call = { policy = chosen.policy, route_reason = chosen.reason, fallback = chosen.fallback }
  if chosen.replica == nil then
    return call
  elseif not vu.fleet.replicas[chosen.replica] then
    core.raise(("the routing policy chose replica %s, the fleet has %d"):format(
      core.shown(chosen.replica), #vu.fleet.replicas))
  end
  local index, id, moved = in_rotation(vu, chosen.replica)
  call.replica, call.chosen = index, id
  if moved then
    call.route_reason, call.fallback = moved, true
    call.refused = not index and moved or nil
  end
  return call
end

-- Sends `body`; `verb` is "http" or "try_http". `prompt` says what it is: api, turn, step, branch,
-- parent, caller (what the author called, for messages), asked_tokens (the reply's declared length,
-- where it has one), harmony (the reply is Harmony's raw words); and what was done for it on this side:
-- prompt_tokens, survived_tokens, render_ns, tokenize_ns, hash_ns.
function request.send(sender, vu, verb, prompt, body, opts)
  local call = routed(sender, vu, prompt)
  call.method, call.caller = "POST", prompt.caller
  call.path = prompt.api == "chat" and "/v1/chat/completions" or "/v1/completions"
  call.body = body
  call.headers = setting(sender, opts, "headers")
  call.timeout = setting(sender, opts, "timeout")
  call[setting(sender, opts, "stream") ~= false and "stream" or "api"] = prompt.api
  call.asked_tokens, call.harmony = prompt.asked_tokens, prompt.harmony
  call.prompt_tokens, call.survived_tokens = prompt.prompt_tokens, prompt.survived_tokens
  call.render_ns, call.tokenize_ns, call.hash_ns = prompt.render_ns, prompt.tokenize_ns, prompt.hash_ns
  call.turn, call.step, call.branch, call.parent = prompt.turn, prompt.step, prompt.branch, prompt.parent
  return vu[verb](vu, call)
end

function request.check_vu(vu, where)
  if not core.is_vu(vu) and not (type(vu) == "table" and make.is_rng(rawget(vu, "rng"))) then
    core.raise(where .. ": the first argument is the virtual user (vu) that sends, got " .. core.shown(vu))
  end
end

-- Raises when `vu`, a sender's, is not the one that runs: its parent or its child does. `way`: how to
-- get a sender for that one.
function request.check_runs(vu, what, way)
  local runs
  if core.is_vu(vu) then
    runs = core.runs(vu)
  else -- one that only pretends
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
  number(opts.temperature, where .. ": temperature")
  number(opts.priority, where .. ": priority")
  sender.vu = vu
  sender.model = opts.model or vu.fleet.model
  sender.route = opts.route
  sender.fallback_route = route.default()
  sender.defaults = {}
  for _, name in ipairs(request.send_options) do
    sender.defaults[name] = opts[name]
  end
  return sender
end

return request
