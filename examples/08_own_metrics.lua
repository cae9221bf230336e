--- Lesson 8: metrics of your own.
-- A plan declares what its script records, with a unit; the report then shows it whole, and by tag.
-- Tags split a metric in expectations ("answer_speed{kind=expert} p50 > 20"). vu:tag marks everything
-- a user does from here on: requests, whose rows in samples.jsonl have the tag, and recorded values. A
-- table as the third argument marks that one recorded value alone; it stands in no row.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

local function session(vu)
  local kind = vu.rng:bool "30%" and "expert" or "novice"
  vu:tag("kind", kind)
  local conv = chat.new(vu)
  local started, turns = vu:now(), 0
  repeat
    turns = turns + 1
    conv:user(gen.text { tokens = kind == "expert" and 40 or 120, rng = vu.rng })
    local reply = conv:send { max_tokens = 30 }
    vu:record("answer_speed", 30 / reply.e2e, { turn_kind = turns == 1 and "first" or "later" })
    vu:sleep "50ms"
  until vu.rng:bool(0.4)
  vu:record("time_to_solution", vu:now() - started)
end

return perigee.plan {
  load = perigee.closed { users = 4, duration = "6s" },
  session = session,
  metrics = { answer_speed = "tokens/s", time_to_solution = "s" },
  expect = {
    "time_to_solution mean < 10s",
    "answer_speed{kind=expert} p50 > 20",
  },
}
