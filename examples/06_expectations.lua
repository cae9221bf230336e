--- Lesson 6: what must hold.
-- Expectations are judged after the run; one that is not met makes the exit status 99, so that a
-- pipeline notices. Too few samples for a percentile is not met either, and says so.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

local function session(vu)
  local conv = chat.new(vu, { system = gen.text { tokens = 700, seed = "lesson-6" } })
  for _ = 1, 4 do
    conv:user(gen.text { tokens = 60, rng = vu.rng })

    -- Expected failures are values when a script asks with try_: nil, class, detail. Otherwise a
    -- failure ends this session, is counted under its class, and the run goes on.
    local reply, class = conv:try_send { max_tokens = 30, timeout = "5s" }
    if not reply then
      vu:log("gave up:", class)
      return
    end
    vu:check("the model says something", #reply.text > 0)
  end
end

return perigee.plan {
  load = perigee.closed { users = 6, duration = "6s" },
  session = session,
  expect = {
    "failed share < 1%",
    "ttft p90 < 500ms",
    "cached_ratio{turn=2..4} mean > 70%", -- a tag or a range of tags
    "e2e p50 < 20 * itl p50 + 1s", -- against another figure of the same run
  },
}
