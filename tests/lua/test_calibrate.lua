-- The fit of whole runs: models, replicas, facts; the command itself is in tests/e2e/test_calibrate.py.
local calibrate = require "perigee.calibrate"

local MS = 1000000

local function row(start, ttft, prompt, gaps, gap, served)
  local itl = {}
  for i = 1, gaps do
    itl[i] = gap
  end
  local first = start + ttft
  return { generation = true, streamed = true, served = served, prompt_tokens = prompt, cached_tokens = 0,
    cached_state = "zero", output_tokens = gaps + 1, output_events = gaps + 1, first_tokens = 1, itl_ns = itl,
    t = { start = start, first_token = first, last_token = first + gaps * gap, done = first + gaps * gap } }
end

-- A server that computes `rate` tokens per ms, with steps of 5 ms + 0.1 ms a sequence + 1 µs a token.
local function run(rate, more)
  local r = { folder = "f", id = "f", model = "m", rows = {}, cut = 0, simulated = false, facts = {},
    replicas = { { id = "a" } } }
  for key, value in pairs(more or {}) do
    r[key] = value
  end
  local time = 0
  for i = 1, 12 do
    local n = 50 * 2 ^ (i % 6) // 1
    r.rows[i] = row(time, 10 * MS + n * MS // rate, math.tointeger(n), 0, 0, r.replicas[1].id)
    time = time + 1000 * MS
  end
  for _, batch in ipairs { 1, 2, 4 } do
    for _, context in ipairs { 100, 3000 } do
      for _ = 1, batch do
        r.rows[#r.rows + 1] = row(time, 10 * MS + batch * context * MS // rate, context, 30,
          5 * MS + batch * 100000 + batch * (context + 15) * 1000, r.replicas[1].id)
      end
      time = time + 5000 * MS
    end
  end
  return r
end

describe("calibrate.fit", function()
  it("fits one run, and several of one machine", function()
    for _, runs in ipairs { { run(20) }, { run(20), run(20, { id = "g" }) } } do
      local r = assert(calibrate.fit(runs, { name = "x" }))
      expect(1e9 / r.prefill.token_ns):near(20000, 50)
      expect(r.decode.base_ns / MS):near(5, 0.1)
      expect(r.model):eq "m"
    end
  end)

  it("refuses runs of two models, and of unlike machines", function()
    local r, why, status = calibrate.fit({ run(20), run(20, { model = "n", folder = "g" }) }, {})
    expect(r):is_nil()
    expect({ why, status }):eq { "runs of several models: n in g, m before; one profile is of one model", 2 }
    r, why, status = calibrate.fit({ run(20), run(10, { id = "g" }) }, {})
    expect(r):is_nil()
    expect(why):contains "the replicas are not alike, prefill rates differ: 20,"
    expect(status):eq(98)
  end)

  it("takes facts that agree, and what was given before all", function()
    local a, b = run(20, { facts = { kv_tokens = 1601, block_size = 16 } }),
      run(20, { id = "g", facts = { kv_tokens = 1601, block_size = 32 } })
    local r = assert(calibrate.fit({ a }, {}))
    expect(r.facts):eq { kv_tokens = 1600, block_size = 16 }
    r = assert(calibrate.fit({ a, b }, {}))
    expect(r.facts):eq { kv_tokens = 1601 }
    expect(r.from.block_size):eq(false)
    r = assert(calibrate.fit({ a, b }, { block_size = 64, kv_tokens = 6400 }))
    expect(r.facts):eq { kv_tokens = 6400, block_size = 64 }
  end)

  it("says that there is nothing", function()
    local r, why, status = calibrate.fit({ run(20, { rows = {} }) }, { replica = "z" })
    expect(r):is_nil()
    expect({ why, status }):eq { "no request went to replica z", 98 }
  end)
end)
