--- Chat with a shared system prompt: people open sessions, read, answer, and leave.
-- Try: perigee run scenarios/chat_multi_turn.lua --set rate=4 --set duration=10s --set warmup=2s
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

local rate = perigee.param("rate", 2, "new sessions per second")
local duration = perigee.param("duration", "3m", "how long sessions arrive")
local warmup = perigee.param("warmup", "30s", "what is left out at the start")
local reading = perigee.param("reading", "3s", "mean time between an answer and the next question")

local SYSTEM = gen.text { tokens = 800, seed = "system-prompt" } -- the same for everyone

local function session(vu)
  local conv = chat.new(vu, { system = SYSTEM })
  for _ = 1, vu.rng:int(4, 8) do
    conv:user(gen.text { tokens = vu.rng:normal(120, 40), rng = vu.rng })
    conv:send { max_tokens = 200 } -- waits; an answer of that length goes into the history
    vu:sleep(vu.rng:exp(reading))
  end
end

return perigee.plan {
  description = "chat with a shared system prompt",
  load = perigee.open { rate = rate, duration = duration, warmup = warmup },
  session = session,
  expect = {
    "ttft p95 < 400ms",
    "cached_ratio{turn=2..8} mean > 75%",
    "failed share < 1%",
  },
}
