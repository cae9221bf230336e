--- How people behave in a chat: a small script library (lesson 9).
-- A library is one file. It takes `vu` as an argument, so that it can be tested with a pretended one,
-- and keeps nothing between calls, so that sessions do not depend on each other.
local gen = require "perigee.gen"

local people = {}

local reading_speed = 25 -- tokens a second

--- Waits as long as a person needs to read `tokens` tokens, plus a moment to think.
function people.read(vu, tokens)
  vu:sleep(tokens / reading_speed * 0.1 + vu.rng:exp "100ms")
end

--- Asks `n` questions and reads each answer; returns how many were answered.
function people.chat(vu, conv, n)
  local answered = 0
  for _ = 1, n do
    conv:user(gen.text { tokens = gen.lognormal(60, 0.5), rng = vu.rng })
    local reply = conv:try_send { max_tokens = 40 }
    if not reply then
      break -- a person who got an error leaves
    end
    answered = answered + 1
    people.read(vu, 40)
  end
  return answered
end

return people
