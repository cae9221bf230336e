-- perigee.timeline: the form of a plan's timeline.
local perigee = require "perigee"
local timeline = require "perigee.timeline"

local function plan(list, load)
  return perigee.plan { load = load or perigee.closed { users = 1, duration = "1m" }, session = function() end,
    timeline = list }
end

local function wrong(text, list)
  expect(function() plan(list) end):errors((text:gsub("%p", "%%%0")))
end

describe("a timeline", function()
  it("may have actions with their fields, functions, and repetitions", function()
    expect(plan {
      { at = "30s", action = "restart", replica = "r1", down = "2s", window = "5s" },
      { at = 0, every = "10s", times = 3, action = "pressure", share = 0.5 },
      { at = 1, run = function() end },
    }.timeline[2].share):eq(0.5)
    expect(plan({}).timeline):eq {}
  end)

  it("names the entry and the field of what is wrong, and the way out", function()
    wrong("plan: timeline must be a list of entries such as { at = \"30s\", action = \"restart\", replica = "
      .. "\"r1\" }, got string", "restart")
    wrong("plan: timeline is a list of entries, it has the key at; write timeline = { { at", { at = 1 })
    wrong("plan: timeline[2] must be a table such as { at", { { at = 1, action = "add" }, "add" })
    wrong("plan: timeline[1]: action is missing: what is done, as in { at", { { at = 1 } })
    wrong("plan: timeline[1]: unknown action 'restrat' (did you mean 'restart'?)", { { at = 1, action = "restrat" } })
    wrong("plan: timeline[1]: action must be a string, got table", { { at = 1, action = {} } })
    wrong("plan: timeline[1]: at is missing: when, counted from the start of the measured window", {
      { action = "add" } })
    wrong("plan: timeline[1]: at", { { at = "soon", action = "add" } })
    wrong("plan: timeline[1]: at must be at least 0 s: it counts from the start of the measured window, and what "
      .. "comes before is setup's, got -1", { { at = -1, action = "add" } })
    wrong("plan: timeline[1]: every must be above 0 s, got 0", { { at = 1, every = 0, action = "add" } })
    wrong("plan: timeline[1]: window must be above 0 s, got 0", { { at = 1, window = 0, action = "add" } })
    wrong("plan: timeline[1]: times belongs to every", { { at = 1, times = 2, action = "add" } })
    wrong("plan: timeline[1]: times", { { at = 1, every = 1, times = 0.5, action = "add" } })
    wrong("plan: timeline[1]: give either action or run", { { at = 1, run = print, action = "add" } })
    wrong("plan: timeline[1]: run must be a function, as in run = function(fleet, vu) fleet:restart(\"r1\") end, "
      .. "got string", { { at = 1, run = "restart" } })
    wrong("plan: timeline[1]: unknown option 'replica'", { { at = 1, run = print, replica = "r1" } })
    wrong("plan: timeline[1]: replica must be a string, number or boolean, got table", {
      { at = 1, action = "kill", replica = { "r1" } } })
    wrong("plan: timeline[1]: fields have names, it has the key 1", { { at = 1, action = "kill", "r1" } })
  end)

  it("is checked without a plan, too", function()
    expect(function() timeline.check(3) end):errors "timeline must be a list"
  end)
end)

describe("what can be done to a fleet", function()
  it("is the same from a timeline, from vu.fleet and from perigee.fleet", function()
    local fleet = require "perigee.fleet"
    for _, name in ipairs { "add", "clear_faults", "delay_events", "drain", "drop_events", "fault", "kill",
      "pressure", "reset_cache", "restart" } do
      expect(type(fleet[name])):eq "function"
      plan { { at = 1, action = name } }
    end
    expect(function() fleet:restart "r1" end):errors "call it in setup, session, teardown or a function of"
    expect(function() fleet.restart "r1" end):errors "fleet:restart: call it with a colon, fleet:restart(...)"
  end)
end)
