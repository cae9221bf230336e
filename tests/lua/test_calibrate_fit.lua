-- The fits of calibrate against formulas they must find again, with noise and outliers.
local fit = require "perigee.calibrate_fit"

local function noise(i, size)
  return 1 + size * ((i * 7919 % 101) / 50 - 1)
end

local function prompts(of, lengths, rounds)
  local list = {}
  for round = 1, rounds do
    for k, n in ipairs(lengths) do
      list[#list + 1] = { tokens = n, cached = 0, ns = of(n, round * 10 + k), group = "a" }
    end
  end
  return list
end

local LENGTHS = { 80, 480, 1000, 2000, 4000, 6000, 8000 }

describe("fit.prefill", function()
  it("finds rate and overhead, whatever a few requests waited for", function()
    local list = prompts(function(n, i) return (16e6 + n / 30000 * 1e9) * noise(i, 0.01) end, LENGTHS, 5)
    list[4].ns, list[20].ns, list[30].ns = list[4].ns * 3, list[20].ns + 5e8, list[30].ns * 1.5
    local r = fit.prefill(list)
    expect(1e9 / r.token_ns):near(30000, 300)
    expect(r.overhead_ns):near(16e6, 3e5)
    expect(r.context_ns):eq(0)
    expect({ r.n, r.least, r.most }):eq { 35, 80, 8000 }
    expect(r.ci[2][1]):below(1e9 / 30000)
    expect(r.ci[2][2]):above(1e9 / 30000 - 100)
    expect(r.error.median):below(0.011)
    expect(r.error.worst):above(0.3)
  end)

  it("has the time of the context where the data demand it", function()
    local r = fit.prefill(prompts(function(n, i)
      return (16e6 + n * 1e5 + n * (n - 1) / 2 * 20) * noise(i, 0.002)
    end, LENGTHS, 5))
    expect(r.context_ns):near(20, 1)
    expect(r.token_ns):near(1e5, 1e3)
    expect(r.ci[3][1]):above(15)
  end)

  it("counts what was cached as context", function()
    local list = prompts(function(n) return 16e6 + n * 1e5 + n * (n - 1) / 2 * 20 end, LENGTHS, 2)
    for i = 1, 8 do
      local n, c = i * 200, 8000
      list[#list + 1] = { tokens = n, cached = c, ns = 16e6 + n * 1e5 + (n * c + n * (n - 1) / 2) * 20 }
    end
    expect(fit.prefill(list).context_ns):near(20, 0.1)
  end)

  it("refuses what does not tell", function()
    local flat = function(n) return 16e6 + n * 1e5 end
    local r, why = fit.prefill(prompts(flat, { 100, 200, 400, 800, 1600 }, 1))
    expect(r):is_nil()
    expect(why):eq "5 requests ran alone, 6 are needed"
    r, why = fit.prefill(prompts(flat, { 1000 }, 20))
    expect(r):is_nil()
    expect(why):contains "1000 to 1000 tokens to compute: too much alike to tell a rate from an overhead"
    r, why = fit.prefill(prompts(function() return 5e7 end, LENGTHS, 3))
    expect(r):is_nil()
    expect(why):contains "do not come later for longer prompts"
  end)
end)

local function stretches(of, batches, contexts)
  local list = {}
  for _, b in ipairs(batches) do
    for _, c in ipairs(contexts) do
      for k = 1, 3 do
        list[#list + 1] = { request = {}, group = "a", batch = b, context = c + k, gaps = 16, ns = of(b, c + k, k) }
      end
    end
  end
  return list
end

local function step(b, c, k)
  return (7e6 + 4400 * b + 76 * b * c) * noise(k or 0, k and 0.01 or 0)
end

describe("fit.decode", function()
  it("finds the formula and says what it saw", function()
    local cells, thin = fit.cells(stretches(step, { 1, 2, 8, 32 }, { 100, 4000 }))
    expect({ #cells, thin }):eq { 8, 0 }
    expect({ cells[1].batch, cells[1].gaps, cells[1].requests, #cells[1].each }):eq { 1, 48, 3, 3 }
    expect(cells[2].context):near(4002, 0)
    local r = fit.decode(cells)
    for _, b in ipairs { 1, 4, 64 } do
      for _, c in ipairs { 100, 1000, 8000 } do
        expect(fit.step(r, b, c) / step(b, c)):near(1, 0.03)
      end
    end
    expect(r.batches):eq { 1, 32 }
    expect(#r.odd):eq(0)
    expect(r.ci[1][1]):below(r.ci[1][2])
  end)

  it("keeps out what a profile could not hold, and says it", function()
    local r = fit.decode((fit.cells(stretches(function(b, c)
      return step(b, c) * (b == 8 and c > 1000 and 2 or 1)
    end, { 1, 2, 4, 8, 16 }, { 100, 4000 }))))
    expect(#r.odd):eq(1)
    expect({ r.odd[1].batch, #r.cells }):eq { 8, 9 }
    expect(r.odd[1].fitted_ns / r.odd[1].ns):near(0.5, 0.02)
    expect(r.error.worst):below(0.25)
  end)

  it("leaves out kinds with few gaps", function()
    local list = stretches(step, { 1, 2 }, { 100 })
    list[#list + 1] = { request = {}, group = "a", batch = 9, context = 100, gaps = 4, ns = 1 }
    local cells, thin = fit.cells(list)
    expect({ #cells, thin }):eq { 2, 1 }
  end)

  it("refuses what does not tell", function()
    local r, why, lacks = fit.decode((fit.cells(stretches(step, { 4 }, { 100, 1000, 4000 }))))
    expect(r):is_nil()
    expect({ why, lacks }):eq { "decode steps were seen at batch 4 only", "batches" }
    r, why, lacks = fit.decode((fit.cells(stretches(step, { 1, 2, 4 }, { 100 }))))
    expect(r):is_nil()
    expect(lacks):eq "contexts"
    expect(why):contains "at contexts of 102 to 102 tokens only"
    r, why, lacks = fit.decode({})
    expect(r):is_nil()
    expect({ why, lacks }):eq {
      "0 kinds of decode steps (batch and context) were seen at work alone, 3 are needed", "decodes" }
    r, why = fit.decode((fit.cells(stretches(function(b, c, k)
      return 1e6 * (1 + (b * 31 + c * 17 + k) % 13)
    end, { 1, 2, 4, 8, 16 }, { 100, 4000 }))))
    expect(r):is_nil()
    expect(why):contains "do not follow the formula"
  end)
end)

describe("fit.median", function()
  it("is the middle", function()
    expect(fit.median { 3, 1, 2 }):eq(2)
    expect(fit.median { 4, 1, 2, 3 }):eq(2.5)
    expect(fit.median {}):is_nil()
  end)
end)
