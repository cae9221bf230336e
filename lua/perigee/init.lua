--- Plans and loads: what a scenario script returns.
local core = require "perigee.core"
local request = require "perigee.request"
local runtime = require "perigee.runtime"
local sweep = require "perigee.sweep"
local timeline = require "perigee.timeline"

local perigee = {}

--- The version of this perigee, "1.2.3".
perigee.version = runtime.version()

local API = 1

--- Raises when this perigee does not have API number `n` (scripts begin with it).
function perigee.require_api(n)
  n = core.whole(n, "require_api: the number", 1)
  if n > API then
    core.raise(("require_api: the script needs API %d, perigee %s has API %d; update perigee"):format(n,
      perigee.version, API))
  end
end

--- Plain data or a text, made once per process by fn and read-only in every state.
function perigee.shared(name, fn)
  if type(name) ~= "string" or type(fn) ~= "function" then
    core.raise("shared: a name and a function are expected: perigee.shared(\"corpus\", function() ... end)")
  end
  return runtime.shared(name, fn)
end

-- ---- parameters ----

local WORDS = {
  ["true"] = true, yes = true, on = true, ["1"] = true,
  ["false"] = false, no = false, off = false, ["0"] = false,
}

-- What --set name=text means for a parameter of the default's type.
local function convert(name, text, default)
  if type(default) == "number" then
    local ok, value = pcall(core.quantity, text, name)
    if not ok then
      core.raise(("--set %s=%s: %s is a number, as its default %s"):format(name, text, name, default))
    end
    if math.type(default) == "integer" and math.tointeger(value) then
      return math.tointeger(value)
    end
    return value
  elseif type(default) == "boolean" then
    local value = WORDS[text:lower()]
    if value == nil then
      core.raise(("--set %s=%s: %s is true or false"):format(name, text, name))
    end
    return value
  end
  return text
end

local function declare(name, default, doc, where)
  if type(name) ~= "string" or not name:find "^[%a_][%w_]*$" then
    core.raise(where .. ": a parameter's name is a word of letters, digits and _, got " .. core.shown(name))
  end
  local kind = type(default)
  if kind ~= "number" and kind ~= "string" and kind ~= "boolean" and kind ~= "nil" then
    core.raise(("%s: parameter %s: a default is a number, string or boolean, got %s"):format(where, name,
      kind))
  end
  if kind == "number" then
    core.number(default, ("%s: parameter %s: the default"):format(where, name))
  end
  if doc ~= nil and type(doc) ~= "string" then
    core.raise(("%s: parameter %s: its description must be a string, got %s"):format(where, name,
      type(doc)))
  end
  local value = default
  local text = runtime.set(name)
  if text then
    value = convert(name, text, default)
  end
  return runtime.declare(name, default, doc, value)
end

--- A parameter that `--set name=value` overrides; returns its value.
function perigee.param(name, default, doc)
  return declare(name, default, doc, "param")
end

-- ---- loads ----

local MOST_SESSIONS, MOST_USERS, MOST_RATE = (1 << 32) - 1, 1000000, 1e6
local LEAST_RATE = 1 / (365 * 86400)

local function bounds(load, opts, where)
  if opts.duration ~= nil then
    load.duration = core.seconds(opts.duration, where .. ": duration")
    if load.duration <= 0 then
      core.raise(where .. ": duration must be above 0 s")
    end
  end
  if opts.sessions ~= nil then
    load.sessions = core.whole(opts.sessions, where .. ": sessions", 1, MOST_SESSIONS)
  end
  load.warmup = opts.warmup ~= nil and core.seconds(opts.warmup, where .. ": warmup") or 0
  if load.warmup < 0 then
    core.raise(where .. ": warmup must be at least 0 s")
  end
  if not load.duration and not load.sessions then
    core.raise(where .. ": say how long: duration = \"3m\", or sessions = a number of sessions")
  end
  return setmetatable(load, runtime.load_type())
end

local function rate_of(value, what)
  local rate = core.rate(value, what)
  if rate < 0 then
    core.raise(what .. " must not be negative, got " .. rate)
  elseif rate > MOST_RATE then
    core.raise(("%s must be at most %g sessions per second, got %s"):format(what, MOST_RATE,
      core.shown(value)))
  elseif rate > 0 and rate < LEAST_RATE then
    core.raise(("%s must be at least a session a year (%.2g per second), got %s"):format(what, LEAST_RATE,
      core.shown(value)))
  end
  return rate
end

local function users_of(value, what)
  return core.whole(value, what, 0, MOST_USERS)
end

local ARRIVALS = { "constant", "poisson" }

--- Sessions that arrive at a rate, whatever the system does.
function perigee.open(opts)
  opts = core.options(opts, "open", { "rate", "arrival", "duration", "sessions", "warmup" })
  if opts.rate == nil then
    core.raise("open: rate is missing: sessions per second, as in rate = 2 or rate = \"30/m\"")
  end
  local load = { kind = "open", rate = rate_of(opts.rate, "open: rate") }
  if load.rate == 0 then
    core.raise "open: rate must be above 0"
  end
  load.arrival = core.word(opts.arrival == nil and "poisson" or opts.arrival, "open", "arrival", ARRIVALS)
  return bounds(load, opts, "open")
end

--- A fixed number of users, each of which starts its next session when the last one ended.
function perigee.closed(opts)
  opts = core.options(opts, "closed", { "users", "duration", "sessions", "warmup" })
  if opts.users == nil then
    core.raise "closed: users is missing: how many tell sessions at the same time"
  end
  local load = { kind = "closed", users = users_of(opts.users, "closed: users") }
  if load.users == 0 then
    core.raise "closed: users must be at least 1"
  end
  return bounds(load, opts, "closed")
end

local function points_of(list, what, value_of)
  if type(list) ~= "table" or #list == 0 then
    core.raise(what .. " must be a list of points { time, value }, as in { { 0, 1 }, { \"2m\", 10 } }")
  end
  local points = {}
  for i, point in ipairs(list) do
    local name = ("%s[%d]"):format(what, i)
    if type(point) ~= "table" or #point ~= 2 then
      core.raise(name .. " must be a point { time, value }")
    end
    local at = core.seconds(point[1], name .. ": time")
    if at < 0 or i > 1 and at <= points[i - 1][1] then
      core.raise(name .. ": the points' times must grow from 0 s on")
    end
    points[i] = { at, value_of(point[2], name .. ": value") }
  end
  return points
end

--- A load that changes in straight lines between points: of a rate, or of users.
function perigee.ramp(opts)
  opts = core.options(opts, "ramp", { "rate", "users", "arrival", "duration", "sessions", "warmup" })
  if (opts.rate == nil) == (opts.users == nil) then
    core.raise "ramp: give either rate or users, a list of points { time, value }"
  end
  local load = { kind = "ramp" }
  if opts.rate ~= nil then
    load.rate = points_of(opts.rate, "ramp: rate", rate_of)
    load.arrival = core.word(opts.arrival == nil and "poisson" or opts.arrival, "ramp", "arrival", ARRIVALS)
  else
    load.users = points_of(opts.users, "ramp: users", users_of)
    if opts.arrival ~= nil then
      core.raise "ramp: arrival belongs to a ramp of rate; users start when their last session ended"
    end
  end
  local points = load.rate or load.users
  local last = points[#points][1]
  if opts.duration == nil and (opts.sessions == nil or last > 0) then
    opts = { duration = last > 0 and last or nil, sessions = opts.sessions, warmup = opts.warmup }
  end
  return bounds(load, opts, "ramp")
end

-- ---- files ----

--- The path of a file beside the script, or the library, that asks.
function perigee.beside(name)
  if type(name) ~= "string" or name == "" then
    core.raise("beside: a file's name is expected, got " .. core.shown(name))
  end
  if debug.getinfo(1, "t").istailcall then -- then Lua has forgotten the caller
    core.raise "beside: keep the path before it is returned: local path = perigee.beside(name) return path"
  end
  local level = 2
  local info = debug.getinfo(level, "S")
  while info and (not info.source:find "^@" or info.source:find "^@perigee/") do
    level = level + 1
    info = debug.getinfo(level, "S")
  end
  local folder = info and info.source:match "^@(.*/)" or ""
  return name:find "^/" and name or folder .. name
end

-- ---- plans ----

local FIELDS = {
  "name", "description", "load", "session", "setup", "teardown", "expect", "metrics", "params", "route",
  "target", "slo", "drain", "timeline",
}

local function expect_type(plan, field, kind)
  local value = plan[field]
  if value ~= nil and type(value) ~= kind then
    core.raise(("plan: %s must be a %s, got %s"):format(field, kind, type(value)))
  end
  return value
end

local function check_expect(list)
  for i = 1, #list do
    local e = list[i]
    if type(e) == "table" then
      if type(e[1]) ~= "string" or not e[1]:find "%S" or type(e[2]) ~= "function" or #e > 2 then
        core.raise(("plan: expect[%d]: a table is { \"what it says\", function }"):format(i))
      end
    elseif type(e) ~= "string" and type(e) ~= "function" then
      core.raise(("plan: expect[%d] must be a string such as \"ttft p95 < 400ms\", a function, or "
        .. "{ \"what it says\", function }, got %s"):format(i, type(e)))
    end
  end
  for key in pairs(list) do
    if math.type(key) ~= "integer" or key < 1 or key > #list then
      core.raise("plan: expect is a list of expectations, it has the key " .. tostring(key))
    end
  end
end

local function check_words(map, what, example)
  for name, value in pairs(map) do
    if type(name) ~= "string" or not name:find "^[%a_][%w_]*$" then
      core.raise(("plan: %s: a name is a word of letters, digits and _, got %s; write %s"):format(what,
        tostring(name), example))
    end
    if what == "metrics" and type(value) ~= "string" then
      core.raise(("plan: metrics.%s must be a unit such as \"s\" or \"tokens\", got %s"):format(name,
        type(value)))
    end
  end
end

local function check_target(target)
  local list = type(target) == "string" and { target } or target
  if type(list) ~= "table" or #list == 0 then
    core.raise("plan: target must be a URL or a list of URLs, got " .. type(target))
  end
  for _, url in ipairs(list) do
    if type(url) ~= "string" or not url:find "^https?://" then
      core.raise("plan: target must be a URL such as \"http://127.0.0.1:8000\", got " .. tostring(url))
    end
  end
end

-- Declared once, also when a plan is checked again after a script altered it.
local function declare_params(params)
  for name, value in pairs(params) do
    local default, doc = value, nil
    if type(value) == "table" then
      local opts = core.options(value, "plan: params." .. tostring(name), { "default", "doc" })
      default, doc = opts.default, opts.doc
    end
    declare(name, default, doc, "plan: params")
  end
end

--- What a script returns: a load, a session, and what is expected of them.
function perigee.plan(plan)
  if type(plan) ~= "table" then
    core.raise("plan: a table is expected, got " .. type(plan))
  end
  core.options(plan, "plan", FIELDS)
  for _, field in ipairs { "name", "description" } do
    expect_type(plan, field, "string")
  end
  for _, field in ipairs { "session", "setup", "teardown" } do
    expect_type(plan, field, "function")
  end
  for _, field in ipairs { "expect", "metrics", "params", "slo" } do
    expect_type(plan, field, "table")
  end
  request.check_policy(plan.route, "plan")
  if plan.session == nil then
    core.raise "plan: session is missing: a plan needs session = function(vu) ... end"
  end
  if plan.load == nil then
    core.raise "plan: load is missing: give it load = perigee.open { ... }, closed { ... } or ramp { ... }"
  end
  if getmetatable(plan.load) ~= runtime.load_type() then
    core.raise("plan: load must be made by perigee.open, perigee.closed or perigee.ramp, got "
      .. type(plan.load))
  end
  check_expect(plan.expect or {})
  check_words(plan.metrics or {}, "metrics", "metrics = { tool_time = \"s\" }")
  check_words(plan.slo or {}, "slo", "slo = { ttft = \"200ms\" }")
  for name, value in pairs(plan.slo or {}) do
    if core.quantity(value, "plan: slo." .. name) < 0 then
      core.raise(("plan: slo.%s must not be negative, got %s"):format(name, core.shown(value)))
    end
  end
  if plan.drain ~= nil and core.seconds(plan.drain, "plan: drain") < 0 then
    core.raise "plan: drain must be at least 0 s"
  end
  if plan.target ~= nil then
    check_target(plan.target)
  end
  if plan.timeline ~= nil then
    timeline.check(plan.timeline)
  end
  declare_params(plan.params or {})
  runtime.place(plan)
  return setmetatable(plan, runtime.plan_type())
end

--- What a script returns that runs one plan at every point of a grid.
perigee.sweep = sweep

-- A misspelt function is named at once, with the nearest one.
return setmetatable(perigee, {
  __index = function(_, name)
    local names = {}
    for known in pairs(perigee) do
      names[#names + 1] = known
    end
    local near = core.nearest(tostring(name), names)
    core.raise(("perigee has no '%s'%s"):format(tostring(name),
      near and (" (did you mean '%s'?)"):format(near) or ""))
  end,
})
