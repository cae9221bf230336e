-- perigee.report_tables: the split by tag. The other tables are test_report_data.lua's.
local tables = require "perigee.report_tables"

local function by_tag(summary)
  for _, s in ipairs(tables.sections(summary)) do
    if s.title == "By tag" then
      return s
    end
  end
end

local function texts(row)
  local list = {}
  for i, cell in ipairs(row) do
    list[i] = type(cell) == "table" and cell[1] or cell
  end
  return list
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
    expect(#s.rows):eq(24)
    expect(s.notes):eq { "… and 16 more in summary.json.",
      "Left out, for their many values or as more than eight tags: id, a, b, c, d, e, f, g …" }
  end)
end)
