-- The form of a plan's timeline: a list of what is done to the fleet, and when. What actions there are and
-- which fields they take is the fleet's grammar (src/sim/actionrules.h), which `perigee run` and `dry` ask
-- when the script is read.
local core = require "perigee.core"

local timeline = {}

local OWN = { "at", "every", "times", "window", "run", "action" }
local ACTIONS = { "add", "clear_faults", "delay_events", "drain", "drop_events", "fault", "kill", "pressure",
  "reset_cache", "restart" }
local EXAMPLE = "{ at = \"30s\", action = \"restart\", replica = \"r1\" }"

local function time(entry, name, where, least)
  local value = entry[name]
  if value == nil then
    return nil
  end
  local seconds = core.seconds(value, where .. ": " .. name)
  if seconds < 0 or least and seconds <= least then
    core.raise(("%s: %s must be %s, got %s"):format(where, name, least and "above 0 s" or "at least 0 s: it "
      .. "counts from the start of the measured window, and what comes before is setup's", core.shown(value)))
  end
  return seconds
end

local function check_function(entry, where)
  if type(entry.run) ~= "function" then
    core.raise(("%s: run must be a function, as in run = function(fleet, vu) fleet:restart(\"r1\") end, "
      .. "got %s"):format(where, type(entry.run)))
  end
  if entry.action ~= nil then
    core.raise(where .. ": give either action or run")
  end
  core.options(entry, where, OWN)
end

local function check_action(entry, where)
  if entry.action == nil then
    core.raise(("%s: action is missing: what is done, as in %s, or run = function(fleet, vu) ... end"):format(
      where, EXAMPLE))
  end
  core.word(entry.action, where, "action", ACTIONS)
  for name, value in pairs(entry) do
    local kind = type(value)
    if type(name) ~= "string" then
      core.raise(("%s: fields have names, it has the key %s"):format(where, tostring(name)))
    elseif kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      core.raise(("%s: %s must be a string, number or boolean, got %s"):format(where, name, kind))
    end
  end
end

local function check_entry(entry, where)
  if type(entry) ~= "table" then
    core.raise(("%s must be a table such as %s, got %s"):format(where, EXAMPLE, type(entry)))
  end
  if entry.run ~= nil then
    check_function(entry, where)
  else
    check_action(entry, where)
  end
  if entry.at == nil then
    core.raise(where .. ": at is missing: when, counted from the start of the measured window, as in "
      .. "at = \"30s\"")
  end
  time(entry, "at", where)
  time(entry, "every", where, 0)
  time(entry, "window", where, 0)
  if entry.times ~= nil then
    core.whole(entry.times, where .. ": times", 1)
    if entry.every == nil then
      core.raise(where .. ": times belongs to every: say how far apart, as in every = \"20s\"")
    end
  end
end

--- Raises unless `list` is the timeline of a plan.
function timeline.check(list)
  if type(list) ~= "table" then
    core.raise(("plan: timeline must be a list of entries such as %s, got %s"):format(EXAMPLE, type(list)))
  end
  for i = 1, #list do
    check_entry(list[i], ("plan: timeline[%d]"):format(i))
  end
  for key in pairs(list) do
    if math.type(key) ~= "integer" or key < 1 or key > #list then
      core.raise(("plan: timeline is a list of entries, it has the key %s; write timeline = { %s }"):format(
        tostring(key), EXAMPLE))
    end
  end
end

return timeline
