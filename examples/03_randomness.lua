--- Lesson 3: sessions that differ, the same way in every run.
-- All randomness comes from vu.rng, which depends on the run's seed and the session's number alone:
-- not on the machine, the number of workers or how fast answers come. math.random raises here.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

-- Distributions are functions of a generator.
local question_tokens = gen.lognormal(80, 0.7, { max = 600 }) -- half of them below 80, a long tail
local thinking = gen.exp "300ms"

-- Twenty documents, of which a few are asked for most of the time.
local documents = gen.corpus { documents = 20, tokens = 400, seed = "lesson-3" }
local popular = gen.zipf(#documents, 1.1)

local function session(vu)
  local conv = chat.new(vu, { system = documents[popular(vu.rng)] })
  for _ = 1, vu.rng:int(2, 5) do
    conv:user(gen.text { tokens = question_tokens, rng = vu.rng })
    conv:send { max_tokens = vu.rng:choice { 20, 40, 60 } }
    vu:sleep(thinking(vu.rng))
  end
end

return perigee.plan {
  load = perigee.open { rate = 3, duration = "6s" }, -- three new sessions a second, whatever happens
  session = session,
}
