-- A virtual user that only pretends: perigee.test.vu. It records what a script does, answers from a
-- list of replies and moves a clock of its own. Children run one after the other, each on a clock
-- that starts at its parent's time; the parent goes on at the time of the last one.
local core = require "perigee.core"
local gen = require "perigee.gen"
local json = require "perigee.json"
local object = require "perigee.object"
local request_checks = require "perigee.request"
local runtime = require "perigee.runtime"

local fake = {}

local Vu = {}
Vu.__name = "fake virtual user"

local Task = {}

local OPTIONS = { "fleet", "params", "replies", "route", "seed", "session", "shared" }

local default_tokenizer = "bytes"

-- What the run's tokenizer is called: perigee test --tokenizer.
function fake.set_tokenizer(name)
  default_tokenizer = name
end

-- What perigee.fleet can do, and the field that the first argument may be (src/bind/vu_fleet.c).
local ACTIONS = { add = "start", clear_faults = "replica", delay_events = "delay", drain = "replica",
  drop_events = "p", fault = "fault", kill = "replica", pressure = "share", reset_cache = "replica",
  restart = "replica" }

-- Methods that only keep what was asked for, in `actions`, and say that it is done.
local function act(actions, name)
  return function(_, first, fields)
    local action = {}
    if type(first) == "table" then
      fields = first
    else
      action[ACTIONS[name]] = first
    end
    for key, value in pairs(fields or {}) do
      action[key] = value
    end
    action.action = name
    table.insert(actions, action)
    return { action = name, id = #actions, replicas = { action.replica }, done = true }
  end
end

local function new_fleet(opts, actions)
  opts = opts or {}
  local fleet = {
    model = opts.model or "test-model",
    tenant = opts.tenant,
    tokenizer = opts.tokenizer or default_tokenizer,
    template = opts.template,
    now = opts.now,
    hash_scheme = opts.hash_scheme,
    block_size = opts.block_size,
    verify = opts.verify or false,
    gateway = opts.gateway,
    simulated = true,
    replicas = opts.replicas or { { id = "r0", url = "http://127.0.0.1:1" } },
  }
  for name in pairs(ACTIONS) do
    fleet[name] = act(actions, name)
  end
  return fleet
end

-- A copy of parameters in which a name that is none raises, as in a run.
local function new_params(params)
  local copy = {}
  for name, value in pairs(params) do
    copy[name] = value
  end
  return setmetatable(copy, {
    __index = function(t, name)
      for _, declared in ipairs(runtime.declared()) do
        if declared.name == name then
          return nil -- declared, without a default
        end
      end
      local names = {}
      for known in pairs(t) do
        names[#names + 1] = tostring(known)
      end
      local near = core.nearest(tostring(name), names)
      local way = near and (" (did you mean '%s'?)"):format(near)
        or ("; the plan declares it, or test.vu { params = { %s = ... } }"):format(tostring(name))
      core.raise(("vu.params has no '%s'%s"):format(tostring(name), way))
    end,
  })
end

--- A fake virtual user.
function fake.new(opts)
  opts = core.options(opts, "test.vu", OPTIONS)
  request_checks.check_policy(opts.route, "test.vu")
  local record = { -- shared with its children
    requests = {}, slept = {}, records = {}, checks = {}, logs = {}, actions = {},
    given_branches = {}, counters = {}, inflight = {}, replies = opts.replies, replied = 0,
  }
  local vu = setmetatable({
    id = 1,
    session = opts.session or 0,
    rng = gen.rng(("%s/%d"):format(opts.seed or 1, opts.session or 0)),
    params = new_params(opts.params or {}),
    shared = opts.shared,
    fleet = new_fleet(opts.fleet, record.actions),
    route = opts.route,
    branch_id = 0,
    tags = {},
    clock = 0,
    record_of = record,
  }, Vu)
  for _, name in ipairs { "requests", "slept", "records", "checks", "logs", "actions" } do
    vu[name] = record[name]
  end
  return vu
end

--- The time on the fake clock, s.
function Vu:now()
  return self.clock
end

--- Moves the clock.
function Vu:sleep(seconds)
  local time = core.seconds(seconds, "vu:sleep: the time")
  if time < 0 then
    core.raise("vu:sleep: the time must be at least 0 s, got " .. core.shown(seconds))
  end
  seconds = time
  table.insert(self.slept, seconds)
  self.clock = self.clock + seconds
end

function Vu:record(metric, value, tags)
  if type(metric) ~= "string" or type(value) ~= "number" then
    core.raise(("vu:record: a metric's name and a number are expected, got %s and %s"):format(
      core.shown(metric), core.shown(value)))
  end
  core.number(value, ("vu:record: the value of '%s'"):format(metric))
  table.insert(self.records, { metric = metric, value = value, tags = tags })
end

function Vu:check(name, ok)
  table.insert(self.checks, { name = name, ok = ok and true or false })
  return ok and true or false
end

function Vu:tag(key, value)
  if key == "turn" or key == "step" then
    core.raise("vu:tag: turn and step are kept by conversations")
  end
  self.tags[key] = value
end

function Vu:log(...)
  local words = {}
  for i = 1, select("#", ...) do
    words[i] = tostring((select(i, ...)))
  end
  table.insert(self.logs, table.concat(words, " "))
end

function Vu:branch()
  -- as in a run: the trunk gives 1, 2, 3 …, branch b gives b × 1000 + 1, + 2 …
  local given = self.record_of.given_branches
  local nth = (given[self.branch_id] or 0) + 1
  given[self.branch_id] = nth
  return self.branch_id * 1000 + nth
end

-- Raises unless it is a class that a request or a session can fail with.
local function check_class(class, where)
  if type(class) ~= "string" then
    core.raise(("%s: class must be a string, as \"http_429\", got %s"):format(where, core.shown(class)))
  end
  core.word(class, where, "class", core.classes())
end

local function fail(class, detail, response)
  error(setmetatable({ class = class, detail = detail, response = response }, {
    __tostring = function(e) return ("%s: %s"):format(e.class, tostring(e.detail)) end,
  }), 0)
end

function Vu:fail(class, detail) -- luacheck: no self
  check_class(class, "vu:fail")
  fail(class, detail)
end

-- ---- routing ----

-- The index of a replica's index or id.
local function index_of(vu, replica, where)
  for i, r in ipairs(vu.fleet.replicas) do
    if i == replica or r.id == replica then
      return i
    end
  end
  core.raise(("%s: no replica %s among the fleet's %d"):format(where, core.shown(replica),
    #vu.fleet.replicas))
end

function Vu:in_rotation(replica)
  return not self.fleet.replicas[index_of(self, replica, "vu:in_rotation")].out
end

function Vu:stand_in(replica)
  local replicas, at = self.fleet.replicas, index_of(self, replica, "vu:stand_in")
  for i = at, at + #replicas - 1 do
    local index = (i - 1) % #replicas + 1
    if not replicas[index].out then
      return index
    end
  end
  return nil
end

function Vu:pick_next(counter)
  local at = self.record_of.counters[counter] or 0
  local index = self:stand_in(at % #self.fleet.replicas + 1)
  self.record_of.counters[counter] = index or at
  return index
end

function Vu:inflight(index)
  return self.record_of.inflight[index] or 0
end

function Vu:pick(index)
  self.record_of.inflight[index] = self:inflight(index) + 1
end

-- Nothing is ever in flight while a fake request is made, so ties are what counts: the replica that
-- was picked longest ago.
function Vu:pick_least()
  return self:pick_next "least_inflight"
end

-- ---- requests ----

local function default_reply(request)
  local tokens = request.json and request.json.max_tokens or 16
  local body = request.body or ""
  return {
    status = 200,
    headers = {},
    text = tostring(gen.text { tokens = tokens, seed = "reply/" .. request.number }),
    reasoning = "",
    tool_calls = {},
    finish_reason = "length",
    usage = { prompt_tokens = #body, completion_tokens = tokens, total_tokens = #body + tokens,
      cached_tokens = 0, reasoning_tokens = 0 },
    output_tokens = tokens,
    ttft = 0.05,
    e2e = 0.1,
  }
end

-- What the test says comes back: nothing, a text, a table over the default, a function. Returns the
-- whole reply, and the part of it that the test gave.
local function scripted_reply(vu, request)
  local replies = vu.record_of.replies
  local reply
  if type(replies) == "function" then
    reply = replies(request)
  elseif replies then
    vu.record_of.replied = vu.record_of.replied + 1
    reply = replies[vu.record_of.replied]
  end
  if type(reply) == "string" then
    reply = { text = reply, finish_reason = "stop" }
  end
  local full = default_reply(request)
  for key, value in pairs(reply or {}) do
    full[key] = value
  end
  return full, reply or {}
end

-- A request as specs look at it: the options, with the body's bytes and what they say.
local function describe(vu, opts)
  local request = { number = #vu.requests + 1, at = vu.clock }
  for key, value in pairs(opts) do
    request[key] = value
  end
  if opts.json ~= nil then
    request.body = json.encode(opts.json)
  elseif type(opts.body) == "table" then
    request.body = json.encode(opts.body)
  elseif opts.body ~= nil then
    request.body = tostring(opts.body)
  end
  request.json = request.body and json.decode(request.body, { drop_null = true }) or nil
  local replica = opts.replica and vu.fleet.replicas[opts.replica]
  request.served = replica and replica.id or nil
  return request
end

--- Like vu:http; a failure is nil, class, detail, response.
function Vu:try_http(opts)
  if type(opts) ~= "table" then
    core.raise("vu:http: options must be a table, got " .. type(opts))
  end
  local request = describe(self, opts)
  table.insert(self.requests, request)
  if opts.refused then
    return nil, "connect", opts.refused, { headers = {} }
  end
  local reply, scripted = scripted_reply(self, request)
  self.clock = self.clock + reply.e2e
  if reply.class then
    check_class(reply.class, "test.vu: replies")
    local response = { status = scripted.status, retry_after = scripted.retry_after, headers = reply.headers }
    return nil, reply.class, reply.detail or "a scripted failure", response
  end
  reply.served = reply.served or request.served
  return reply
end

--- Answers from the replies.
function Vu:http(opts)
  local reply, class, detail, response = self:try_http(opts)
  if not reply then
    fail(class, detail, response)
  end
  return reply
end

-- ---- children ----

local function new_child(parent)
  local child = {}
  for key, value in pairs(parent) do
    child[key] = value
  end
  child.rng = parent.rng:split()
  child.branch_id = parent:branch()
  child.parent_branch = parent.branch_id
  child.tags = {}
  for key, value in pairs(parent.tags) do
    child.tags[key] = value
  end
  return setmetatable(child, Vu)
end

-- While the result is open, `child` is the one that runs: what belongs to others cannot be used.
local function running(child)
  local record, before = child.record_of, child.record_of.running
  record.running = child
  return setmetatable({}, { __close = function() record.running = before end })
end

--- Runs fn(child, item, i) for each item; returns the results in order.
function Vu:all(list, fn)
  local results, last = {}, self.clock
  local children = {}
  for i = 1, #list do -- generators are split in order, before anything runs
    children[i] = new_child(self)
  end
  for i, child in ipairs(children) do
    local _ <close> = running(child)
    results[i] = fn(child, list[i], i)
    last = math.max(last, child.clock)
  end
  self.clock = last
  return results
end

--- Runs fn(child) at once, on its own clock.
function Vu:spawn(fn)
  local child = new_child(self)
  local _ <close> = running(child)
  local results = table.pack(fn(child))
  return setmetatable({ child = child, parent = self, results = results }, Task)
end

function Task:join()
  self.parent.clock = math.max(self.parent.clock, self.child.clock)
  return table.unpack(self.results, 1, self.results.n)
end

-- Values of the parameters: those of the plan, and those of perigee.param.
local function declared_params(plan)
  local params = {}
  for name, value in pairs(plan.params or {}) do
    if type(value) == "table" then
      value = value.default
    end
    params[name] = value
  end
  for _, declared in ipairs(runtime.declared()) do
    params[declared.name] = declared.value
  end
  return params
end

--- Runs one session of a plan on a fake virtual user, and returns the user.
function fake.session(plan, opts)
  if type(plan) ~= "table" or type(plan.session) ~= "function" then
    core.raise("test.session: a plan with a session is expected, got " .. type(plan))
  end
  local vu = fake.new(opts)
  for name, value in pairs(declared_params(plan)) do
    if rawget(vu.params, name) == nil then
      vu.params[name] = value
    end
  end
  if plan.setup and vu.shared == nil then
    vu.shared = plan.setup(vu)
  end
  vu.route = vu.route or plan.route
  plan.session(vu)
  return vu
end

object.class(Vu, "vu", {
  "arm", "branch_id", "fleet", "id", "params", "parent_branch", "rng", "route", "session", "shared",
}, { "checks", "clock", "logs", "record_of", "records", "requests", "slept", "tags" })
object.class(Task, "task", {}, { "child", "parent", "results" })

return fake
