-- Routing policies: functions (vu, prompt) -> route. A route names the replica (an index of
-- vu.fleet.replicas), the policy and, where there is one, the reason; without a replica the request
-- goes to the fleet's gateway. No policy draws from vu.rng: the same session must say the same bytes
-- under every policy. Replicas can be out of rotation for a while (run/router.h); what a policy names
-- all the same, perigee.request moves to the one that stands in.
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

local TRIES = 64 -- then it is the next one in the fleet's order: with half of it out once in 10^19 times

-- A hash as an index of the fleet's replicas: of those that it leads to one after the other, the first
-- in rotation. Where it leads does not depend on which are in, so one that goes out hands on what it had
-- and nothing else moves, to all others alike; it gets the same back, and one that is added gets its part
-- of each.
local function index(hash, vu, where)
  local n = #vu.fleet.replicas
  if n == 0 then
    core.raise(where .. ": the fleet has no replicas, only a gateway; leave the choice to it")
  end
  local at
  for _ = 1, TRIES do
    at = (hash >> 1) % n + 1
    if vu:in_rotation(at) then
      return at
    end
    hash = mix(hash)
  end
  return at
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

-- What the run's router gave. Where nothing is in rotation that is nothing, and any replica will do: none
-- stands in for it either, and that is said.
local function picked(replica, policy)
  return { replica = replica or 1, policy = policy }
end

--- Each in turn, exact over all workers.
function route.round_robin(opts)
  opts = core.options(opts, "route.round_robin", { "counter" })
  local counter = opts.counter or "round_robin"
  return function(vu)
    return picked(vu:pick_next(counter), "round_robin")
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
    return picked(vu:pick_least(), "least_inflight")
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
