-- perigee.report_timeline: the section on what was done to the fleet.
local tables = require "perigee.report_tables"
local timeline = require "perigee.report_timeline"

local function texts(row)
  local list = {}
  for i, cell in ipairs(row) do
    list[i] = type(cell) == "table" and cell[1] or cell
  end
  return list
end

local function span(seconds, requests, failed, ttft, cached, replicas)
  return { seconds = seconds, requests = requests, failed = failed, ttft = { p50 = ttft, mean = ttft },
    itl = { p50 = 0.005 }, output_tokens_rate = 250, cached_share = cached, replicas = replicas }
end

local RESTART = { entry = 1, round = 0, by = "timeline", action = { action = "restart", replica = "r1" },
  state = "done", at_s = 30, begin_ns = 40e9, end_ns = 42e9,
  before = span(10, 100, 0, 0.01, 0.9, { r1 = span(nil, 40, 0, 0.02, 0.8) }),
  during = span(2, 20, 8, nil, 0.85, { r1 = span(nil, 8, 8, nil, nil) }),
  after = span(10, 98, 0, 0.04, 0.4, {}) }

describe("what was done to the fleet", function()
  it("is a row, and one for each span and each replica that it was done to", function()
    local s = timeline.section { timeline = { RESTART } }
    expect(s.title):eq "What was done to the fleet"
    expect(#s.rows):eq(6)
    expect({ table.unpack(texts(s.rows[1]), 1, 3) }):eq { "30.0 s", "restart r1", "2.00 s" }
    expect(texts(s.rows[2])):eq { "", "before", "10.0 s", "100", "", "10.0", "—", "10.0", "5.00", "250", "90.0 %" }
    expect(texts(s.rows[3])):eq { "", "before, r1", "10.0 s", "40", "", "20.0", "—", "20.0", "5.00", "250",
      "80.0 %" }
    expect(texts(s.rows[4])):eq { "", "during", "2.00 s", "20", "8", "—", "—", "—", "5.00", "250", "85.0 %" }
    expect(s.rows[4][5].mark):eq "bad"
    expect(texts(s.rows[5])[11]):eq "—"
    expect(texts(s.rows[6])[2]):eq "after"
  end)

  it("says what went wrong, and who asked", function()
    local s = timeline.section { timeline = {
      { entry = 2, by = "timeline", action = { action = "kill", replica = "*" }, state = "failed",
        error = "down already", at_s = 3, begin_ns = 1, end_ns = 1 },
      { entry = 3, by = "timeline", state = "not_begun", at_s = 90 },
      { by = "session=4", action = { action = "reset_cache" }, state = "cut_off", at_s = 5.5, begin_ns = 1 },
    } }
    local said = {}
    for i, row in ipairs(s.rows) do
      said[i] = texts(row)[2]
    end
    expect(said):eq { "kill all", "failed: down already", "the function of timeline[3]",
      "not begun: the load ended before", "reset_cache", "cut off by the end of the load", "by session=4" }
    expect(s.rows[2][2].mark):eq "bad"
  end)

  it("has the first twelve, and counts the others", function()
    local list = {}
    for i = 1, 15 do
      list[i] = { entry = i, by = "timeline", action = { action = "add" }, state = "done", at_s = i }
    end
    local s = timeline.section { timeline = list }
    expect(#s.rows):eq(12)
    expect(s.notes[1]):eq "3 actions more are in summary.json, timeline."
  end)

  it("is not there when nothing was done", function()
    expect(#timeline.section({}).rows):eq(0)
    expect(#timeline.section({ timeline = {} }).rows):eq(0)
    for _, s in ipairs(tables.sections { timeline = { RESTART } }) do
      expect(s.title):eq "What was done to the fleet"
    end
  end)
end)
