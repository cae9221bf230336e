--- Lesson 1: one question, one answer.
-- A script returns a plan: who arrives (load) and what each of them does (session). Run it with
--   perigee run examples/01_hello.lua
-- Without a target this starts a small simulated fleet and says so in the report.
local perigee = require "perigee"
local chat = require "perigee.chat"

local function session(vu) -- vu: the virtual user whose story this is
  local conv = chat.new(vu)
  conv:user "Why is the sky blue?"
  local reply = conv:send { max_tokens = 40 } -- waits here; other users go on meanwhile
  vu:log("the answer took", reply.e2e, "s, its first token", reply.ttft, "s") -- and into the run's log.txt
end

return perigee.plan {
  load = perigee.closed { users = 1, sessions = 5 }, -- one user, five times
  session = session,
}
