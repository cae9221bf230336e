--- How many replicas, how large a cache, which policy? Agents at work, at every point of a grid.
-- Eight agents work at the same time. Each begins with the preamble of its team (two of 800 tokens) and goes
-- through five steps that add 180 tokens each to everything before: 120 of observation, 20 of answer, 40 of
-- the chat template. A session so ends 900 tokens behind its preamble. Blocks hold 16 tokens, so in use at
-- once are at most, in blocks,
--
--   on one replica                          2 · 800 / 16 + 8 · 900 / 16 = 100 + 450 = 550
--   on each of R, if sessions stay          100 + 450 / R: 325 on each of two, 212 on each of four
--   on each of R, if every step moves on    550 still: each of them comes to see all sessions
--
-- and half of the second part when agents are anywhere in their work. With 600 blocks it all fits anywhere,
-- and what lies between policies is what a session left behind on another replica. With 300 one replica is
-- short, and two are enough if sessions stay. With 150 even two are short. Where cached_ratio no longer rises
-- with kv_blocks, memory is not what is missing.
--
--   perigee run capacity_sweep --plan                        the 18 points
--   perigee run capacity_sweep                               some two minutes, in real time
--   perigee dry capacity_sweep                               the same in virtual time
--   perigee run capacity_sweep --over replicas=2 --over kv_blocks=120,200,400,800
--
-- The longest prompt with its answer takes 1,700 tokens, 107 blocks: a replica with fewer refuses it, and the
-- request fails, so kv_blocks begins above.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"

local users = perigee.param("users", 8, "agents at the same time")
local sessions = perigee.param("sessions", 32, "tasks at each point")
local teams = perigee.param("teams", 2, "teams, each with a preamble of its own")
local preamble = perigee.param("preamble", 800, "tokens of a preamble")
local steps = perigee.param("steps", 5, "requests of a task")
local observation = perigee.param("observation", 120, "new tokens per step")
local answer = perigee.param("answer", 20, "tokens the model says per step")
local pause = perigee.param("pause", "100ms", "mean time between two steps")

local PREAMBLES = {}
for team = 1, teams do
  PREAMBLES[team] = gen.text { tokens = preamble, seed = "team-" .. team }
end

local function session(vu)
  local conv = chat.new(vu, { system = PREAMBLES[vu.session % teams + 1] })
  for _ = 1, steps do
    conv:user(gen.text { tokens = observation, rng = vu.rng })
    conv:send { max_tokens = answer }
    vu:sleep(vu.rng:exp(pause))
  end
end

return perigee.sweep {
  plan = perigee.plan {
    description = "replicas, cache size and policy, over one working set",
    load = perigee.closed { users = users, sessions = sessions },
    session = session,
    expect = { -- at every point
      "failed share < 1%",
      "cached_ratio mean > 20%",
    },
  },
  over = {
    { "replicas", { 1, 2, 4 } },
    { "kv_blocks", { 150, 300, 600 } },
    { "route", { { "spread", route.round_robin() }, { "sticky", route.session_hash() } } },
  },
}
