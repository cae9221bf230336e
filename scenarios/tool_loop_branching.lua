--- A coding agent: a tool loop on the trunk, then three branches that share its whole prefix.
-- Try: perigee run scenarios/tool_loop_branching.lua --set users=4 --set duration=10s
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local tools = require "coding_tools" -- a shared script library: scenarios/lib/coding_tools.lua

local users = perigee.param("users", 8, "agents at work at the same time")
local duration = perigee.param("duration", "5m", "how long sessions are started")

local function tool_loop(vu, conv, steps)
  for _ = 1, steps do
    local name, arguments = tools.pick(vu)
    -- the model asks for a tool
    conv:send { max_tokens = 60, tool_call = { name = name, arguments = arguments } }
    conv:tool(tools.run(vu, name)) -- waits as long as the tool would
  end
  return conv:send { max_tokens = 160 }
end

local function session(vu)
  local trunk = chat.new(vu, { tools = tools.schemas })
  trunk:user(gen.text { tokens = 300, rng = vu.rng })
  tool_loop(vu, trunk, vu.rng:int(3, 6))
  vu:all({ "minimal fix", "refactor", "add a test" }, function(child, idea)
    local branch = trunk:fork(child) -- copy-on-write history on its own virtual user
    branch:user("Try this instead: " .. idea)
    tool_loop(child, branch, 2)
  end)
  trunk:user "Summarise what you did."
  trunk:send { max_tokens = 120 }
end

return perigee.plan {
  description = "a coding agent's tool loop with three branches",
  load = perigee.closed { users = users, duration = duration },
  session = session,
  expect = {
    "cached_ratio{turn=1, step=2..7} mean > 70%", -- each step brings a little and repeats the rest
    "cached_ratio{turn=2} mean > 70%", -- the branches find the trunk's prefix
    "failed share < 1%",
  },
}
