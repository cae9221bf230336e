-- perigee.report_sweep: a line per point, grids over the last axis, expectations at every point.
local report = require "perigee.report_sweep"
local sections = require "sections"

local texts = sections.texts

local function point(number, replicas, policy, ratio, fields)
  local p = { point = number, values = { replicas = replicas, route = policy }, status = 0, valid = true,
    folder = number .. "-x", simulated = true, reason = "2 of 2 expectations met",
    requests = { ok = 40, failed = 0, incomplete = 0, cancelled = 0 }, sessions = { ok = 10, failed = 0 },
    throughput = { requests_per_s = 12.5, output_tokens_per_s = 250 },
    metrics = { cached_ratio = { n = 40, mean = ratio }, ttft = { n = 40, p50 = 0.02, mean = 0.025 },
      tpot = { n = 40, mean = 0.005 } },
    expectations = { { text = "failed share < 1%", met = true, shown = "0 %" },
      { text = "cached_ratio mean > 60%", met = ratio > 0.6, shown = ("%.1f %%"):format(100 * ratio) } } }
  for key, value in pairs(fields or {}) do
    p[key] = value
  end
  return p
end

local function example()
  return { v = 1, id = "cap-1", path = "results/cap-1", scenario = "cap.lua", name = "cap", simulated = true,
    started = "2026-11-30T05:00:00Z", duration_s = 8, n_points = 4, seed = 1,
    command = { "perigee", "run", "cap.lua" }, scripts = { { path = "cap.lua", sha256 = "0123456789abcdef" } },
    banner = { { name = "load", value = "closed" }, { name = "sweep", value = "4 points" } },
    axes = { { name = "replicas", kind = "replicas", values = { 1, 2 } },
      { name = "route", kind = "route", values = { "sticky", "spread" } } },
    points = { point(1, 1, "sticky", 0.7), point(2, 1, "spread", 0.7), point(3, 2, "sticky", 0.66),
      point(4, 2, "spread", 0.5, { status = 99, reason = "1 of 2 expectations not met" }) },
    expectations = { { text = "failed share < 1%", met = 4, of = 4, not_met_at = {} },
      { text = "cached_ratio mean > 60%", met = 3, of = 4, not_met_at = { 4 } } },
    outcome = { status = 99, reason = "4 points: 3 are fine, 1 does not meet its expectations" } }
end

local function section(doc, title)
  return sections.titled(report.sections(doc), title)
end

describe("the tables of a sweep", function()
  it("have a row per point, with its values and what it measured", function()
    local s = section(example(), "Points")
    expect(s.head):eq { "point", "replicas", "route", "sessions", "requests", "failed", "cached_ratio mean",
      "ttft mean", "ttft p50", "ttft p95", "tpot", "requests/s", "output", "met", "" }
    expect(texts(s.rows[4])):eq { "4", "2", "spread", "10", "40", "0", "50.0 %", "25.0 ms", "20.0 ms", "—", "5.00 ms",
      "12.5 /s", "250 tokens/s", "1/2", "✗" }
    expect(s.notes):eq { "— too few samples: p95 needs 100." }
    expect(#s.align):eq(#s.head)
  end)

  it("lay figures out with the last axis across", function()
    local s = section(example(), "cached_ratio mean by route")
    expect(s.head):eq { "replicas", "sticky", "spread" }
    expect(texts(s.rows[1])):eq { "1", "70.0 %", "70.0 %" }
    expect(texts(s.rows[2])):eq { "2", "66.0 %", "50.0 %" }
    expect(section(example(), "ttft p50 by route").rows[1]):eq { "1", "20.0 ms", "20.0 ms" }
    expect(section(example(), "ttft mean by route").rows[1]):eq { "1", "25.0 ms", "25.0 ms" }
  end)

  it("mark the figures of points that do not count, and say so under the table", function()
    local doc = example()
    for i, status in ipairs { 98, 99, 130, 1 } do
      doc.points[i].status = status
    end
    local note = "* the point is not valid or did not end by itself: its figures do not count."
    local s = section(doc, "cached_ratio mean by route")
    expect(texts(s.rows[1])):eq { "1", "70.0 % *", "70.0 %" }
    expect(texts(s.rows[2])):eq { "2", "66.0 % *", "50.0 % *" }
    expect(s.notes):eq { note }
    expect(texts(section(doc, "ttft p50 by route").rows[1])):eq { "1", "20.0 ms *", "20.0 ms" }
    local points = section(doc, "Points")
    expect(texts(points.rows[1])[7]):eq "70.0 % *"
    expect(texts(points.rows[2])[7]):eq "70.0 %"
    expect(points.notes):contains(note)
    expect(report.terminal(doc, { width = 100 })):contains(note)
    expect(report.markdown(doc)):contains "| 1 | 70.0 % \\* | 70.0 % |"
    expect(report.markdown(doc)):contains "\\* the point is not valid"
    expect(section(example(), "cached_ratio mean by route").notes):eq {}
  end)

  it("leave axes of one value out, and lie over the last that varies", function()
    local doc = example()
    table.insert(doc.axes, 1, { name = "kv_blocks", kind = "fleet", values = { 500 } })
    doc.axes[4] = { name = "block_size", kind = "fleet", values = { 16 } }
    for _, p in ipairs(doc.points) do
      p.values.kv_blocks, p.values.block_size = 500, 16
    end
    expect(section(doc, "cached_ratio mean by route").head):eq { "replicas", "sticky", "spread" }
    expect(table.concat(section(doc, "Points").head, " ")):matches "^point replicas route sessions "
    expect(report.terminal(doc, {})):contains "over  kv_blocks: 500"
  end)

  it("take means where a median is not given at each point", function()
    local doc = example()
    doc.points[2].metrics.ttft.p50 = nil
    expect(section(doc, "ttft p50 by route")):is_nil()
    expect(texts(section(doc, "ttft mean by route").rows[1])):eq { "1", "25.0 ms", "25.0 ms" }
  end)

  it("judge each expectation at every point", function()
    local s = section(example(), "Expectations at every point")
    expect(texts(s.rows[1])):eq { "✓", "failed share < 1%", "4 of 4", "", "" }
    expect(texts(s.rows[2])):eq { "✗", "cached_ratio mean > 60%", "3 of 4", "4", "50.0 % at point 4" }
  end)

  it("say what did not go well, and hold without what never was", function()
    local doc = example()
    doc.points[4] = { point = 4, values = { replicas = 2, route = "spread" }, status = 139, folder = "4-x",
      reason = "its process was ended by signal 11" }
    local s = section(doc, "Points that did not go well")
    expect(texts(s.rows[1])):eq { "4", "139", "its process was ended by signal 11" }
    expect(texts(section(doc, "Points").rows[4])):eq { "4", "2", "spread", "", "", "", "—", "—", "—", "—", "—", "—",
      "—", "", "failed" }
    expect(texts(section(doc, "cached_ratio mean by route").rows[2])):eq { "2", "66.0 %", "—" }
    expect(report.sections({})):eq {}
  end)

  it("say what the checks of a point found that is not valid", function()
    local doc = example()
    doc.points[2].status, doc.points[2].reason = 98, "a check of the measurement itself does not hold: idle_replica"
    doc.points[2].broken = { { name = "idle_replica", figure = 2, limit = 0, unit = "replicas", ok = false,
      note = "r1 and r2 got no request" } }
    expect(texts(section(doc, "Points that did not go well").rows[1])):eq { "2", "98",
      "a check of the measurement itself does not hold: idle_replica; idle_replica (2 replicas, limit 0 replicas): "
      .. "r1 and r2 got no request" }
  end)

  it("show what was done to the fleet at each point, of the replica in question", function()
    local doc = example()
    for i, p in ipairs(doc.points) do
      local function span(failed, ratio, ttft)
        return { requests = 99, failed = 99, cached_share = 0.5, ttft_mean = 9,
          replicas = { r1 = { requests = 9, failed = failed, cached_share = ratio, ttft_mean = ttft } } }
      end
      p.timeline = { { entry = 1, state = "done", at_s = 8, action = { action = "restart", replica = "r1" },
        before = span(0, 0.9, 0.01), during = span(i, nil, nil), after = span(0, 0.8, 0.05) } }
    end
    doc.points[4].status = 98
    local s = section(doc, "restart r1 at 8.00 s, requests of r1")
    expect(s.head):eq { "point", "replicas", "route", "failed during", "cached share before", "during", "after",
      "ttft before", "during", "after" }
    expect(texts(s.rows[3])):eq { "3", "2", "sticky", "3", "90.0 %", "—", "80.0 %", "10.0 ms", "—", "50.0 ms" }
    expect(texts(s.rows[4])[7]):eq "80.0 % *"
    expect(report.markdown(doc)):contains "## restart r1 at 8.00 s, requests of r1"
  end)

  it("say of each point what was done there, where that differs", function()
    local doc = example()
    local function done(action, replica, at_s)
      local span = { requests = 9, failed = 1,
        replicas = { [replica] = { failed = 2, cached_share = 0.5, ttft_mean = 0.01 } } }
      return { { entry = 1, state = "done", at_s = at_s, action = { action = action, replica = replica },
        before = span, during = span, after = span } }
    end
    doc.points[1].timeline, doc.points[2].timeline = done("restart", "r1", 8), done("kill", "r1", 8)
    doc.points[3].timeline = done("restart", "r1", 9)
    local s = section(doc, "Action 1 at each point, requests of r1")
    expect({ table.unpack(s.head, 1, 5) }):eq { "point", "replicas", "route", "what", "failed during" }
    expect(#s.align):eq(#s.head)
    expect(s.rows[1][4]):eq "restart r1 at 8.00 s"
    expect(s.rows[2][4]):eq "kill r1 at 8.00 s"
    expect(s.rows[3][4]):eq "restart r1 at 9.00 s"
    local drawn = report.terminal(doc, { width = 122 }):match "Action 1.-\n\n"
    expect(drawn:gsub(" +", " ")):contains(
      " 1 1 sticky restart r1 2 50.0 % 50.0 % 50.0 % 10.0 ms 10.0 ms 10.0 ms\n at 8.00 s\n")
    doc.points[2].timeline = done("restart", "r2", 8)
    expect(section(doc, "Action 1 at each point, requests of its replica").rows[2][4]):eq "restart r2 at 8.00 s"
  end)

  it("end a long list", function()
    local doc = example()
    for i = 5, 300 do
      doc.points[i] = point(i, i, "sticky", 0.9)
    end
    local s = section(doc, "Points")
    expect(#s.rows):eq(200)
    expect(s.notes[1]):eq "… and 100 more in sweep.json."
  end)

  it("have no grid over one axis, nor over many values", function()
    local doc = example()
    doc.axes = { doc.axes[1] }
    expect(section(doc, "cached_ratio mean by replicas")):is_nil()
    doc = example()
    doc.axes[2].values = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }
    expect(section(doc, "cached_ratio mean by route")):is_nil()
  end)
end)

describe("the report of a sweep", function()
  it("on a terminal begins with the verdict and is no wider than it", function()
    local text = report.terminal(example(), { width = 80 })
    expect(text):matches "^NOT MET  4 points: 3 are fine, 1 does not meet its expectations %(exit status 99%)\n"
    expect(text):contains "Simulated: "
    expect(text):contains "over  route: sticky, spread"
    expect(text):contains "Files  results/cap-1/"
    for line in text:gmatch "[^\n]+" do
      expect(utf8.len(line)):below(81)
    end
  end)

  it("uses the terminal's width for tables, and counts what it leaves out", function()
    local wide, usual = report.terminal(example(), { width = 160 }), report.terminal(example(), { width = 100 })
    expect(wide:match "point  [^\n]*"):contains "sessions  requests  failed  cached_ratio mean  ttft mean"
    expect(wide:match "point  [^\n]*"):contains "output"
    expect(wide:find("left out", 1, true)):is_nil()
    expect(wide):contains "— too few samples: p95 needs 100."
    expect(usual:find("p95 needs", 1, true)):is_nil() -- there is no such column
    expect(usual):contains "columns left out: see report.md."
  end)

  it("lists files that are there", function()
    local all = { "sweep.json", "report.md", "01-a-20260101-000000/" }
    local text = report.terminal(example(), { width = 80, present = all })
    expect(text):contains "  sweep.json"
    expect(text):contains "  report.md"
    expect(text):contains "  NN-…/"
    text = report.terminal(example(), { width = 80, present = { "report.md" } })
    expect(text:find("sweep.json", 1, true)):is_nil()
    expect(text:find("NN-…", 1, true)):is_nil()
    expect(text):contains "  report.md"
    text = report.terminal(example(), { width = 80, present = {} })
    expect(text:find("Files", 1, true)):is_nil()
  end)

  it("as Markdown names the folders of the points", function()
    local text = report.markdown(example())
    expect(text):matches "^# cap\n\n%*%*NOT MET%*%* — 4 points"
    expect(text):contains "| 4 | 2 | spread |"
    expect(text):contains "- `4-x/`: point 4"
    expect(text):contains "perigee run cap.lua"
    expect(text):contains "copies in each point's scripts/"
    expect(report.markdown({})):matches "^# sweep"
  end)
end)
