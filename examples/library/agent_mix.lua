--- Mixed traffic: each session is one of several kinds, chosen by share.
---
---     local agent_mix = require "agent_mix"
---     session = agent_mix.session {
---       { name = "chat", share = "70%", session = chat_session },
---       { name = "agent", share = "30%", session = agent_session },
---     }
---
--- The kind is drawn from vu.rng, so a session is of the same kind in every run and under every
--- routing policy, and it becomes the tag `kind`, so that expectations can tell them apart
--- (`ttft{kind=agent} p90 < 1s`), and the rows of samples.jsonl.
local gen = require "perigee.gen"

local agent_mix = {}

---@class agent_mix.kind
---@field name string what the tag says
---@field share number|string part of all sessions, as "70%", 0.7 or any weight
---@field session fun(vu: perigee.Vu) what such a user does

--- A session function that tells one of `kinds`.
---@param kinds agent_mix.kind[] at least one; shares need not sum to 1
---@return fun(vu: perigee.Vu) session for perigee.plan
function agent_mix.session(kinds)
  local weights, names = {}, {}
  for i, kind in ipairs(kinds) do
    if type(kind.name) ~= "string" or type(kind.session) ~= "function" then
      error(("agent_mix: kind %d needs a name and a session function"):format(i), 2)
    elseif names[kind.name] then
      error(("agent_mix: there are two kinds called '%s'"):format(kind.name), 2)
    end
    names[kind.name] = true
    weights[i] = gen.draw(kind.share or 1)
  end
  local choose = gen.choice(kinds, weights)
  return function(vu)
    local kind = choose(vu.rng)
    vu:tag("kind", kind.name)
    return kind.session(vu)
  end
end

return agent_mix
