-- perigee.report_tables: the splits by tag. Replicas and failures are test_report_replicas.lua's, the other
-- tables test_report_data.lua's.
local sections = require "sections"
local tables = require "perigee.report_tables"

local texts = sections.texts

local function by_tag(summary)
  return sections.titled(tables.sections(summary), "By tag")
end

describe("the split by tag", function()
  it("has a row per value, with failures and n beside percentiles", function()
    local s = by_tag { tags = {
      { tag = "phase", value = "act", requests = 1200, failed = 3, incomplete = 1, ttft_n = 1196, ttft_p50 = 0.0257,
        ttft_p95 = 0.0635, e2e_n = 1196, e2e_p50 = 0.394, e2e_p95 = 1.04, cached_ratio_n = 1196, cached_ratio = 0.892 },
      { tag = "phase", requests = 4, failed = 0, incomplete = 0, ttft_n = 4 } } }
    expect(#s.rows):eq(2)
    expect(texts(s.rows[1])):eq { "phase", "act", "1,200", "3", "1", "1,196", "25.7 ms", "63.5 ms", "394 ms",
      "89.2 %" }
    expect(texts(s.rows[2])):eq { "phase", "(without)", "4", "0", "0", "4", "—", "—", "—", "—" }
    expect(s.notes):eq { "— too few samples: p50 needs 10, p95 needs 100." }
  end)

  it("leaves out a tag that all requests have alike", function()
    expect(by_tag { tags = { { tag = "all", value = "same", requests = 9 } } }):is_nil()
    expect(by_tag {}):is_nil()
  end)

  it("is bounded, and says what it left out", function()
    local list = {}
    for i = 1, 40 do
      list[i] = { tag = "t" .. i % 3, value = "v" .. i, requests = 1 }
    end
    local s = by_tag { tags = list, tags_left_out = { "id", "a", "b", "c", "d", "e", "f", "g", "h" } }
    expect(#s.rows):eq(24 + 8)
    expect(texts(s.rows[25])):eq { "id", "(left out: over 16 values, or beyond the first 8 tags)" }
    expect(s.notes):eq { "… and 16 more in summary.json.", "… and 1 more tags are left out." }
  end)

  it("says what it left out where nothing else is to be shown", function()
    local s = by_tag { tags = {}, tags_left_out = { "id" } }
    expect(#s.rows):eq(1)
  end)

  it("names what all requests have alike", function()
    local s = by_tag { tags = { { tag = "a", value = "x", requests = 1 }, { tag = "a", value = "y", requests = 1 },
      { tag = "env", value = "prod", requests = 2 } } }
    expect(s.notes):eq { "The same for all requests: env = prod." }
  end)
end)

local function section(summary, title, run)
  return sections.titled(tables.sections(summary, run), title)
end

describe("own metrics by tag", function()
  it("have a row per value of a tag that differs", function()
    local s = section({ value_tags = {
      { metric = "plan_time", unit = "s", tag = "kind", value = "big", n = 10, mean = 0.0075, p50 = 0.0075,
        max = 0.012 },
      { metric = "plan_time", unit = "s", tag = "kind", value = "tiny", n = 2, mean = 0.0015, max = 0.002 },
      { metric = "plan_time", unit = "s", tag = "all", value = "x", n = 12, mean = 1 } } }, "Own metrics by tag")
    expect(#s.rows):eq(2)
    expect(texts(s.rows[1])):eq { "plan_time", "kind", "big", "10", "7.50 ms", "7.50 ms", "—", "12.0 ms" }
    expect(s.notes):eq { "— too few samples: p50 needs 10, p95 needs 100." }
    expect(section({}, "Own metrics by tag")):is_nil()
  end)
end)

describe("the headline", function()
  local ttft = { unit = "s", n = 9, mean = 0.1, p50 = 0.1 }

  it("has ttft_sched in every open load", function()
    local summary = { metrics = { ttft = ttft, ttft_sched = ttft } }
    expect(#section(summary, "Results", { load = { kind = "open" } }).rows):eq(2)
    expect(#section(summary, "Results", { load = { kind = "closed" } }).rows):eq(1)
  end)
end)
