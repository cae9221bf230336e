-- Routing policies: functions (vu, prompt) -> route. A route names the replica (an index of
-- vu.fleet.replicas), the policy and, where there is one, the reason; without a replica the request
-- goes to the fleet's gateway. No policy draws from vu.rng: the same session must say the same bytes
-- under every policy.
local core = require "perigee.core"

local route = {}

-- SplitMix64's finaliser: a stable 64-bit hash of a number.
local function mix(x)
  x = x + 0x9E3779B97F4A7C15
  x = (x ~ (x >> 30)) * 0xBF58476D1CE4E5B9
  x = (x ~ (x >> 27)) * 0x94D049BB133111EB
  return x ~ (x >> 31)
end

-- The session's number; setup and teardown have none.
local function number_of(vu)
  return vu.session or 0
end

-- A hash as an index of the fleet's replicas.
local function index(hash, vu, where)
  local n = #vu.fleet.replicas
  if n == 0 then
    core.raise(where .. ": the fleet has no replicas, only a gateway; leave the choice to it")
  end
  return (hash >> 1) % n + 1
end

--- One replica by index or id; without one the gateway, else the first replica.
function route.direct(replica)
  local kind = math.type(replica) or type(replica)
  if replica ~= nil and kind ~= "integer" and kind ~= "string" then
    core.raise("route.direct: a replica's index or id is expected, got " .. kind)
  end
  return function(vu)
    if replica == nil then
      return { replica = not vu.fleet.gateway and 1 or nil, policy = "direct" }
    end
    for i, r in ipairs(vu.fleet.replicas) do
      if i == replica or r.id == replica then
        return { replica = i, policy = "direct" }
      end
    end
    core.raise(("route.direct: no replica %s among the fleet's %d"):format(replica, #vu.fleet.replicas))
  end
end

--- Each in turn, exact over all workers.
function route.round_robin(opts)
  opts = core.options(opts, "route.round_robin", { "counter" })
  local counter = opts.counter or "round_robin"
  return function(vu)
    return { replica = vu:pick_next(counter), policy = "round_robin" }
  end
end

--- Any replica alike.
function route.random()
  return function(vu, prompt)
    local hash = mix(mix(mix(mix(number_of(vu)) + prompt.branch) + prompt.turn) + prompt.step)
    return { replica = index(hash, vu, "route.random"), policy = "random" }
  end
end

--- The replica with the fewest of this run's requests in flight.
function route.least_inflight()
  return function(vu)
    return { replica = vu:pick_least(), policy = "least_inflight" }
  end
end

--- A session stays on one replica.
function route.session_hash()
  return function(vu)
    return { replica = index(mix(number_of(vu)), vu, "route.session_hash"), policy = "session_hash" }
  end
end

--- What a fleet gets when neither plan nor conversation says: its gateway, its only replica, or
--- session_hash.
function route.default()
  local one, several = route.direct(), route.session_hash()
  return function(vu, prompt)
    if vu.fleet.gateway or #vu.fleet.replicas < 2 then
      return one(vu, prompt)
    end
    return several(vu, prompt)
  end
end

return core.named(route, "route")
