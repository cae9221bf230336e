--- Lesson 7: one script, many settings.
--   perigee run examples/07_parameters.lua --set users=8 --set pause=20ms --set long=true
-- A parameter has a default, and takes its kind from it: a number, a text, true or false. With --plan
-- the command says what would run, parameters included, and stops.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

local users = perigee.param("users", 4, "people at the same time")
local turns = perigee.param("turns", 3, "questions of each")
local pause = perigee.param("pause", "100ms", "time between them")
local long = perigee.param("long", false, "whether answers are long")

local function session(vu)
  local conv = chat.new(vu)
  for _ = 1, turns do
    conv:user(gen.text { tokens = 50, rng = vu.rng })
    conv:send { max_tokens = long and 200 or 40 }
    vu:sleep(pause)
  end
  assert(vu.params.turns == turns) -- the same values, for libraries
end

return perigee.plan {
  load = perigee.closed { users = users, duration = "5s" },
  session = session,
}
