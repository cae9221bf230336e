-- perigee.stats: numbers known from numpy and from tables.
local stats = require "perigee.stats"

local function upto(n)
  local list = {}
  for i = 1, n do
    list[i] = i
  end
  return list
end

describe("stats.quantile", function()
  it("interpolates as numpy does, without touching the list", function()
    local list = { 4, 1, 3, 2 }
    expect((stats.quantile(list, 0.5))):eq(2.5)
    expect((stats.quantile(list, "25%"))):near(1.75)
    expect((stats.quantile(list, 0))):eq(1.0)
    expect((stats.quantile(list, 1))):eq(4.0)
    expect(list):eq { 4, 1, 3, 2 }
  end)

  it("says when there are too few to trust it", function()
    local _, enough = stats.quantile(upto(499), 0.99)
    expect(enough):eq(false)
    _, enough = stats.quantile(upto(500), 0.99)
    expect(enough):eq(true)
    local value
    value, enough = stats.quantile({}, 0.5)
    expect(value):is_nil()
    expect(enough):eq(false)
    for _, p in ipairs { 0, 1 } do -- no number of values shows the ends of a distribution
      _, enough = stats.quantile({ 7 }, p)
      expect(enough):eq(false)
    end
  end)

  it("refuses misuse", function()
    expect(function() stats.quantile({ 1 }, 95) end):errors "p lies in 0%.%.1"
    expect(function() stats.quantile({ 1, "x" }, 0.5) end):errors "element 2 is string, not a number"
    expect(function() stats.quantile({ 0 / 0 }, 0.5) end):errors "element 1 is NaN"
    expect(function() stats.quantile(3, 0.5) end):errors "a list of numbers is expected, got number"
  end)
end)

describe("stats.mean_ci", function()
  it("is Student's interval", function()
    local mean, low, high, n = stats.mean_ci { 1, 2, 3, 4, 5 }
    expect(mean):eq(3.0)
    expect(low):near(3 - 1.9632432, 1e-4) -- t(0.975, 4) * sd / sqrt(5)
    expect(high):near(3 + 1.9632432, 1e-4)
    expect(n):eq(5)
    local _, low90 = stats.mean_ci({ 1, 2, 3, 4, 5 }, { level = "90%" })
    expect(low90):near(3 - 1.5074467, 1e-4)
  end)

  it("has no interval for one value and no mean for none", function()
    local mean, low, high, n = stats.mean_ci { 7 }
    expect({ mean, low, high, n }):eq { 7.0, nil, nil, 1 }
    mean, low, high, n = stats.mean_ci {}
    expect({ mean, low, high, n }):eq { nil, nil, nil, 0 }
  end)

  it("counts groups, not values, when they belong together", function()
    local values, by = {}, {}
    for session = 1, 20 do
      for _ = 1, 50 do -- all turns of a session alike
        values[#values + 1], by[#by + 1] = session % 5, "s" .. session
      end
    end
    local _, low, high = stats.mean_ci(values)
    local mean, wide_low, wide_high, n = stats.mean_ci(values, { by = by })
    expect(mean):near(2)
    expect(n):eq(20)
    expect(wide_high - wide_low):above(4 * (high - low))
    expect(function() stats.mean_ci({ 1, 2 }, { by = { "a" } }) end):errors "the group of each of the 2 values"
    local _, low90 = stats.mean_ci(values, { by = by, level = 0.9 })
    expect(low90):above(wide_low)
    -- two groups: Student's t with one degree of freedom, 2 ± 12.706
    _, low, high = stats.mean_ci({ 1, 1, 3, 3 }, { by = { "a", "a", "b", "b" } })
    expect(low):near(-10.706, 1e-2)
    expect(high):near(14.706, 1e-2)
    expect(function() stats.mean_ci({ 1 }, { level = 1 }) end):errors "level lies between 0 and 1"
  end)
end)

describe("stats.hist", function()
  it("counts into equal bins", function()
    local h = stats.hist({ 1, 2, 3, 4, 5 }, { bins = 2 })
    expect(h):eq { n = 5, edges = { 1.0, 3.0, 5.0 }, counts = { 2, 3 }, below = 0, above = 0 }
  end)

  it("counts into given edges, and what lies outside", function()
    local h = stats.hist({ -1, 0, 0.5, 1, 2, 3 }, { edges = { 0, 1, 2 } })
    expect(h.counts):eq { 2, 2 }
    expect({ h.below, h.above }):eq { 1, 1 }
  end)

  it("takes an empty list and a single value", function()
    expect(stats.hist({}, { bins = 1 }).counts):eq { 0 }
    expect(stats.hist({ 4, 4 }, { bins = 2 }).counts):eq { 2, 0 }
    expect(function() stats.hist({ 1 }, { edges = { 1, 1 } }) end):errors "edges must rise"
    expect(function() stats.hist({ 1 }, { bins = 0 }) end):errors "bins must be a whole number"
  end)
end)
