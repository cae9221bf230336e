--- Lesson 5: branches that share a prefix.
-- vu:all runs a function for each item at the same time, each on a child user of its own, and waits
-- for all of them. A fork shares the history so far and then goes its own way.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

local function session(vu)
  local trunk = chat.new(vu, { system = gen.text { tokens = 500, seed = "lesson-5" } })
  trunk:user(gen.text { tokens = 200, rng = vu.rng })
  trunk:send { max_tokens = 60 }

  local ideas = { "shorter", "with an example", "as a poem" }
  local times = vu:all(ideas, function(child, idea)
    local branch = trunk:fork(child)
    branch:user("The same again, " .. idea .. ".")
    return branch:send({ max_tokens = 40 }).e2e
  end)

  local slowest = 0
  for _, seconds in ipairs(times) do
    slowest = math.max(slowest, seconds)
  end
  trunk:user(("The slowest branch took %.1f s. Which one is best?"):format(slowest))
  trunk:send { max_tokens = 30 }
end

return perigee.plan {
  load = perigee.closed { users = 3, duration = "6s" },
  session = session,
}
