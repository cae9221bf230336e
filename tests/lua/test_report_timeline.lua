-- perigee.report_timeline: the section on what was done to the fleet.
local sections = require "sections"
local tables = require "perigee.report_tables"
local timeline = require "perigee.report_timeline"

local texts = sections.texts

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

  it("says what was done, and what came of it", function()
    local function said(action, answer)
      local record = { by = "timeline", state = "done", at_s = 1, action = action, answer = answer }
      local row = texts(timeline.section({ timeline = { record } }).rows[1])
      return row[2]
    end
    expect(said { action = "restart", replica = "r1", down = "2s" }):eq "restart r1, down 2s"
    expect(said({ action = "pressure", share = "30%" }, { blocks = { r0 = 300, r1 = 300 },
      evicted_blocks = { r0 = 212, r1 = 0 } })):eq "pressure 30% on all: 600 blocks, 212 evicted"
    expect(said({ action = "pressure", share = 0.3, replica = "r1", lasts = 5 }, { blocks = { r1 = 1 },
      evicted_blocks = { r1 = 1 }, refused = {} })):eq "pressure 30 % on r1, lasts 5: 1 block, 1 evicted"
    expect(said { action = "fault", replica = "r0", fault = "429 p=0.5", lasts = "3s" }):eq
      "fault r0: 429 p=0.5, lasts 3s"
    expect(said { action = "fault", fault = "empty" }):eq "fault on all: empty"
    expect(said({ action = "reset_cache", replica = "*" }, { reset = { "r0", "r1" },
      refused = { r2 = "12 blocks in use" } })):eq
      "reset_cache all: reset on r0, r1; refused by r2 (12 blocks in use)"
    expect(said({ action = "add", start = "1s" }, { replicas = { "r3" } })):eq "add, start 1s: r3"
    expect(said { action = "drain", replica = "r2", after = "keep" }):eq "drain r2, after keep"
  end)

  it("says that an added replica gets nothing", function()
    local s = timeline.section { timeline = { { by = "session=1", state = "done", at_s = 1, action = { action = "add" },
      answer = { replicas = { "r3" }, note = "r3 gets no requests: --spares 1" } } } }
    expect(texts(s.rows[3])[2]):eq "r3 gets no requests: --spares 1"
    expect(s.rows[3][2].mark):eq "bad"
  end)

  it("marks the spans in which something else was done", function()
    local function done(entry, begin_s, end_s, action)
      local before, after = span(10, 1, 0, 0.01, 0.5), span(10, 1, 0, 0.01, 0.5)
      before.from_ns, before.to_ns = (begin_s - 10) * 1e9, begin_s * 1e9
      after.from_ns, after.to_ns = end_s * 1e9, (end_s + 10) * 1e9
      return { entry = entry, by = "timeline", state = "done", at_s = begin_s, begin_ns = begin_s * 1e9,
        end_ns = end_s * 1e9, action = action, before = before, after = after }
    end
    local s = timeline.section { timeline = { done(1, 20, 21, { action = "kill", replica = "r1" }),
      done(2, 25, 26, { action = "restart", replica = "r1" }), done(3, 60, 61, { action = "add" }) } }
    local heads = {}
    for i, row in ipairs(s.rows) do
      heads[i] = texts(row)[2]
    end
    expect(heads):eq { "kill r1", "before", "after *", "restart r1", "before *", "after", "add", "before", "after" }
    expect(s.notes[1]):eq "* Something else was done to the fleet in this span, too."
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
    expect(s.notes[1]):eq "… and 3 more in summary.json, timeline."
  end)

  it("has twelve more that went wrong, and counts those too that have no record", function()
    local list = {}
    for i = 1, 400 do
      list[i] = { by = "session=" .. i, action = { action = "reset_cache", replica = "r9" }, at_s = i,
        state = i > 20 and i <= 390 and "failed" or "done", error = i > 20 and i <= 390 and "none" or nil }
    end
    local s = timeline.section { timeline = list, timeline_left_out = 1234 }
    expect(#s.rows):eq(12 * 2 + 12 * 3)
    expect(texts(s.rows[25])[1]):eq "21.0 s"
    expect(texts(s.rows[58])[1]):eq "32.0 s"
    expect(s.notes[1]):eq("… and 376 more in summary.json, timeline; 358 of them not done as they should have been. "
      .. "1,234 more were done than are recorded there.")
  end)

  it("is not there when nothing was done", function()
    expect(#timeline.section({}).rows):eq(0)
    expect(#timeline.section({ timeline = {} }).rows):eq(0)
    for _, s in ipairs(tables.sections { timeline = { RESTART } }) do
      expect(s.title):eq "What was done to the fleet"
    end
  end)
end)
