--- A small loop to tune with: change one setting, run it again, see whether the expectations notice.
-- Each session is one task of an agent: a fixed preamble, then steps that each add an observation and
-- repeat everything before it. How much of that a cache can serve depends on where the steps go.
--
--   perigee run scenarios/tuning_loop.lua                            every step to the same replica
--   perigee run scenarios/tuning_loop.lua --set policy=round_robin   each to the next: expectations break
--   perigee run scenarios/tuning_loop.lua --set observation=800      more new text per step
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"

local policy = perigee.param("policy", "session_hash",
  "session_hash, round_robin, random or least_inflight")
local users = perigee.param("users", 6, "tasks at the same time")
local duration = perigee.param("duration", "20s", "how long tasks are started")
local preamble = perigee.param("preamble", 600, "tokens that every task begins with")
local observation = perigee.param("observation", 250, "new tokens per step, on average")
local answer = perigee.param("answer", 40, "tokens the model says per step")
local pause = perigee.param("pause", "50ms", "mean time between two steps")

local policies = {
  session_hash = route.session_hash,
  round_robin = route.round_robin,
  random = route.random,
  least_inflight = route.least_inflight,
}
if not policies[policy] then
  error("policy is session_hash, round_robin, random or least_inflight, not '" .. policy .. "'")
end

local PREAMBLE = gen.text { tokens = preamble, seed = "tuning-loop" }

local function session(vu)
  local conv = chat.new(vu, { system = PREAMBLE })
  conv:user(gen.text { tokens = 80, rng = vu.rng })
  for _ = 1, 8 do
    conv:send { max_tokens = answer }
    vu:sleep(vu.rng:exp(pause))
    conv:user(gen.text { tokens = vu.rng:exp(observation), rng = vu.rng })
  end
end

return perigee.plan {
  description = "one setting, seen through its expectations",
  load = perigee.closed { users = users, duration = duration },
  session = session,
  route = policies[policy](),
  expect = {
    "cached_ratio{turn=3..8} mean > 75%",
    "ttft{turn=3..8} p90 < 80ms",
    "failed share < 1%",
  },
}
