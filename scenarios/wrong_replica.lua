--- What a wrong replica costs: the same sessions with affinity, in turn and at random, over R replicas.
-- A session is two questions about a document of 800 tokens: the second brings everything before it. It is
-- held three times, each with a cache of its own (`cache_salt`), and only the policy differs:
--
--   sticky   session_hash: the second question goes where the first one went
--   spread   round_robin: each request goes to the next replica, and others ask in between
--   random   any replica, each as likely
--
-- Only the replica that took the first question has the document. With affinity the second question always
-- finds it; otherwise one in R does, and the others compute all of it again. With three replicas of the
-- default profile (tiny: 20,000 tokens/s and 1.2 ms for any request; of 993 tokens 97 are left on the right
-- replica) expect of the second questions:
--
--              warm     cached_ratio   median ttft
--   sticky     100 %         90 %        6 ms
--   spread   up to 1/3  up to 30 %       51 ms: as if nobody had asked before
--   random     1/3           30 %       51 ms
--
-- Means hide that there are two modes: `ttft_warm` and `ttft_cold` are apart. With `--verify` the ledger says
-- where all prompts' tokens came from: what spread and random did not find was on another replica
-- (`wrong_pod`), none of it was evicted.
--
--   perigee dry wrong_replica --verify            in virtual time
--   perigee run wrong_replica --verify            on sockets, 20 seconds
--   perigee dry wrong_replica --sim 8             one in eight
--   perigee dry wrong_replica --set users=1       nobody else asks: with round_robin never the right one
--
-- The last expectation: sticky is always warm; random in a share 1/R, give or take three deviations of chance
-- (where a request goes follows from its session's number, not from the seed: the same in every run); and
-- spread in none more than six above it. Of spread chance decides anew in every run: how many others asked in
-- between, and on sockets that hangs on fractions of a millisecond. Where fewer than R ask in between, it is
-- seldom warm at all. And cold is at least twice as long as warm.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"

local users = perigee.param("users", 12, "sessions at the same time")
local sessions = perigee.param("sessions", 80, "sessions")
local document = perigee.param("document", 800, "tokens of a document")
local question = perigee.param("question", 48, "tokens of a question")
local answer = perigee.param("answer", 8, "tokens of an answer")
local between = perigee.param("between", 0.6, "seconds between the two questions, give or take half")

local POLICIES = {
  { "sticky", route.session_hash() },
  { "spread", route.round_robin() },
  { "random", route.random() },
}

local function session(vu)
  local text = gen.text { tokens = document, rng = vu.rng }
  local first = gen.text { tokens = question, rng = vu.rng }
  local second = gen.text { tokens = question, rng = vu.rng }
  for _, policy in ipairs(POLICIES) do
    local name = policy[1]
    local conv = chat.new(vu, { system = text, route = policy[2], cache_salt = name .. vu.session })
    conv:user(first)
    conv:send { max_tokens = answer }
    vu:sleep(vu.rng:uniform(0.5 * between, 1.5 * between))
    vu:tag("second", name)
    conv:user(second)
    local reply = conv:send { max_tokens = answer }
    vu:tag("second", nil)
    local warm = (reply.usage.cached_tokens or 0) > 0
    vu:record("warm", warm and 1 or 0, { policy = name })
    vu:record(warm and "ttft_warm" or "ttft_cold", reply.ttft)
  end
end

-- Holds the warm shares against 1/R, and the two modes against each other.
local function as_replicas_say(results)
  local share, metrics = {}, results.metrics
  for _, group in ipairs(results.value_tags) do
    if group.metric == "warm" then
      share[group.value] = group.mean
    end
  end
  local one = 1 / #results.replicas
  local off = 3 * math.sqrt(one * (1 - one) / sessions)
  local fits = share.sticky == 1 and math.abs(share.random - one) <= off and share.spread <= one + 2 * off
  local apart = one == 1 or metrics.ttft_cold.mean >= 2 * metrics.ttft_warm.mean
  local text = "warm: sticky %.1f %%, spread %.1f %%, random %.1f %%; 1/R is %.1f ± %.1f points"
  return fits and apart, text:format(100 * share.sticky, 100 * share.spread, 100 * share.random, 100 * one,
    100 * off)
end

return perigee.plan {
  description = "what a wrong replica costs: the same sessions with affinity, in turn and at random",
  load = perigee.closed { users = users, sessions = sessions },
  session = session,
  metrics = { warm = "ratio", ttft_warm = "s", ttft_cold = "s" },
  expect = {
    "failed share < 1%",
    as_replicas_say,
  },
}
