--- People who chat and agents that work, in one run.
-- Try: perigee run examples/library/mixed_traffic.lua --set agents=50%
local perigee = require "perigee"
local agent_mix = require "agent_mix"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local tool = require "perigee.tool"

local agents = perigee.param("agents", "30%", "part of the sessions that are agents")
local duration = perigee.param("duration", "8s", "how long sessions arrive")

local SYSTEM = gen.text { tokens = 500, seed = "mixed-traffic" }
local shell = tool.new { name = "shell", latency = gen.exp "100ms", result_tokens = gen.lognormal(120, 0.6) }

local function person(vu)
  local conv = chat.new(vu, { system = SYSTEM })
  for _ = 1, vu.rng:int(1, 4) do
    conv:user(gen.text { tokens = 60, rng = vu.rng })
    conv:send { max_tokens = 60 }
    vu:sleep(vu.rng:exp "400ms")
  end
end

local function agent(vu)
  local conv = chat.new(vu, { system = SYSTEM, tools = { shell } })
  conv:user(gen.text { tokens = 150, rng = vu.rng })
  for _ = 1, vu.rng:int(3, 8) do
    conv:send { max_tokens = 40, tool_call = { name = "shell" } }
    conv:tool((shell:run(vu)))
  end
  conv:send { max_tokens = 100 }
end

local share = gen.draw(agents)

return perigee.plan {
  description = "chat and agents mixed",
  load = perigee.open { rate = 3, duration = duration },
  session = agent_mix.session {
    { name = "chat", share = 1 - share, session = person },
    { name = "agent", share = share, session = agent },
  },
  expect = {
    "cached_ratio{kind=agent, step=2..9} mean > 70%",
    "failed share < 1%",
  },
}
