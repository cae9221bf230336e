--- Lesson 4: an agent's tool loop is a for loop.
-- send { tool_call = … } makes the model's answer a call; the tool then takes its time, and its
-- result goes back as a message. Simulated tools have latencies, result sizes and failures.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local tool = require "perigee.tool"

local weather = tool.new {
  name = "weather",
  description = "The weather of a city.",
  parameters = { type = "object", properties = { city = { type = "string" } }, required = { "city" } },
  latency = gen.lognormal("80ms", 0.4),
  result_tokens = gen.normal(60, 15),
  failure = "2%",
}

local function session(vu)
  local conv = chat.new(vu, { tools = { weather } })
  conv:user "Compare the weather of three cities."
  for _, city in ipairs { "Oslo", "Lima", "Pune" } do
    conv:send { max_tokens = 30, tool_call = { name = "weather", arguments = { city = city } } }
    local result, ok = weather:run(vu) -- waits as long as the tool would
    vu:check("the weather is known", ok)
    conv:tool(result) -- answers the oldest open call
  end
  conv:send { max_tokens = 80 }
end

return perigee.plan {
  load = perigee.closed { users = 4, duration = "6s" },
  session = session,
}
