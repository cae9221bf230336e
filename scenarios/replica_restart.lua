--- What a restart of one replica costs: failed requests while it is down, and a cold cache behind it.
-- Each user is an agent whose history grows from turn to turn, kept on one replica by affinity
-- (`session_hash`), so nearly all of a prompt comes from that replica's cache. The timeline restarts r1 and
-- keeps it down for two seconds. Its process ends: what it was answering is cut off, and connections are
-- refused until it is back. A client that is not told goes on asking it, waits `patience` after each failure
-- and asks again, as agents do. What comes back has an empty cache: the next turn of each of its sessions is
-- computed whole, all others are as they were.
--
-- The report's "What was done to the fleet" has it all: before, during and after, r1 apart. With the default
-- profile (tiny: 20,000 tokens/s), 12 agents and seed 1 expect of r1's requests:
--
--            failed   cached   mean ttft
--   before      0      92 %      14 ms
--   during    all       —          —
--   after       0      80 %      68 ms: whole prompts, all at once, and then as before
--
-- The cost of the cold cache is what had to be computed again: (cached share before − after) × prompt tokens
-- after. It is paid once for each session that lived there, so it grows with their histories, not with
-- how long the replica was away; what the others did meanwhile costs nothing.
--
--   perigee dry replica_restart                       in virtual time, a second
--   perigee run replica_restart                       on sockets, half a minute
--   perigee dry replica_restart --set down=5          away for longer: more failures, the same cost behind it
--   perigee dry replica_restart --set action=kill     it does not come back, and its sessions never get on:
--                                                     both expectations are NOT MET, and that is the finding
--
-- The last expectation holds r1's cached share after the restart against that before (at least 5 points less,
-- and as it was where nothing was done), and failures against when r1 was away. What does not hold is named.
-- With long histories (`--set history=3000`) the others move as well: sessions that begin count for more.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"

local users = perigee.param("users", 12, "agents at the same time")
local history = perigee.param("history", 1200, "tokens that an agent begins with")
local turns = perigee.param("turns", 12, "requests of a session")
local question = perigee.param("question", 80, "new tokens of each turn")
local answer = perigee.param("answer", 16, "tokens of each answer")
local think = perigee.param("think", 0.4, "seconds between turns, give or take half")
local patience = perigee.param("patience", 0.25, "seconds before a failed request is sent again")
local action = perigee.param("action", "restart", "restart, or kill")
local down = perigee.param("down", 2, "seconds that r1 is away")

-- Sends the turn until it is answered: each try is a request, and each failure counts.
local function send(vu, conv)
  while not conv:try_send { max_tokens = answer } do
    vu:sleep(patience)
  end
end

local function session(vu)
  local conv = chat.new(vu, { system = gen.text { tokens = history, rng = vu.rng } })
  for _ = 1, turns do
    conv:user(gen.text { tokens = question, rng = vu.rng })
    send(vu, conv)
    vu:sleep(vu.rng:uniform(0.5 * think, 1.5 * think))
  end
end

-- Of r1, and of all others: what a span's counts leave without r1's.
local function split(span)
  local one = span.replicas.r1
  local prompt, cached = span.prompt_tokens - one.prompt_tokens, span.cached_tokens - one.cached_tokens
  return one, { failed = span.failed - one.failed, cached_share = cached / prompt }
end

local function costs(results)
  local done = results.timeline[1]
  local before, others_before = split(done.before)
  local during, others_during = split(done.during)
  local after, others_after = split(done.after)
  if after.cached_share == nil then
    return false, ("r1 answered nothing behind it: %d requests failed there, %d of others"):format(
      during.failed + after.failed, others_during.failed + others_after.failed)
  end
  local lost = before.cached_share - after.cached_share
  local other = math.abs(others_before.cached_share - others_after.cached_share)
  local text = "r1: %d failed in %.1f s, cached %.1f %% before, %.1f %% after: %.0f tokens computed again; "
    .. "ttft %.0f → %.0f ms. Others: %d failed, cached %.1f → %.1f %%"
  local others_failed = others_before.failed + others_during.failed + others_after.failed
  local wrong = {}
  for _, part in ipairs {
    { lost >= 0.05, "r1's cached share did not fall by 5 points" },
    { other < 0.05, "the others' cached share moved by 5 points or more" },
    { during.failed > 0, "nothing failed while r1 was away" },
    { before.failed == 0, "r1 failed before it" },
    { others_failed == 0, "others failed" },
  } do
    wrong[#wrong + 1] = not part[1] and part[2] or nil
  end
  local what = #wrong > 0 and table.concat(wrong, "; ") .. ". " or ""
  return #wrong == 0, what .. text:format(during.failed, done.during.seconds, 100 * before.cached_share,
    100 * after.cached_share, lost * after.prompt_tokens, 1e3 * before.ttft.mean, 1e3 * after.ttft.mean,
    others_during.failed, 100 * others_before.cached_share, 100 * others_after.cached_share)
end

return perigee.plan {
  description = "what a restart of one replica costs: failures while it is down, a cold cache behind it",
  load = perigee.closed { users = users, duration = "20s", warmup = "4s" },
  route = route.session_hash(),
  session = session,
  timeline = {
    { at = "8s", action = action, replica = "r1", down = action == "restart" and down or nil, window = "5s" },
  },
  expect = {
    "failed share < 40%",
    { "only r1 pays, and for its cold cache", costs },
  },
}
