-- The words of calibrate: a profile file that Lua reads, with what is not known said instead of made up.
local texts = require "perigee.calibrate_text"

local function result(more)
  local cells = {}
  for i, batch in ipairs { 1, 2, 4 } do
    cells[i] = { batch = batch, context = 100.5, ns = 5e6 + batch * 1e5 + 0.615 * batch, gaps = 20, requests = 2 }
  end
  local r = { name = "mine", model = "m\"1", simulated = false, cut = 0, unplaced = 0, thin = 0, used = { gaps = 3,
    means = 0 }, left = { busy = 1, unknown = 2, failed = 3, not_streamed = 0 }, facts = {}, from = {},
    runs = { { id = "r\n1", simulated = false } },
    prefill = { overhead_ns = 1e7, token_ns = 5e4, context_ns = 0, n = 9, least = 10, most = 9000,
      ci = { { 9e6, 1.1e7 }, { 4.9e4, 5.1e4 }, { 0, 0 } }, error = { median = 0.01, worst = 0.02 } },
    decode = { base_ns = 5e6, seq_ns = 1e5, context_ns = 0, cells = cells, odd = {}, batches = { 1, 4 },
      contexts = { 100, 100 }, error = { median = 0, worst = 0 } } }
  for key, value in pairs(more or {}) do
    r[key] = value
  end
  return r
end

local function read(text)
  return assert(load(text, "profile", "t", {}))()
end

describe("profile", function()
  it("is a table with what was fitted", function()
    local p = read(texts.profile(result { facts = { kv_tokens = 1600, block_size = 16 },
      from = { kv_tokens = "said", block_size = "said" } }))
    expect({ p.name, p.kv_tokens, p.block_size, p.prefill_context }):eq { "mine", 1600, 16, nil }
    expect(p.prefill_tokens_per_s):near(20000, 0.1)
    expect(p.request_overhead):near(0.01, 1e-9)
    expect(#p.decode_steps):eq(3)
    expect(p.decode_steps[2]):eq { batch = 2, context = 100.5, time = 0.00520000123 }
  end)

  it("has the context's term only where it was found", function()
    local prefill = result().prefill
    prefill.context_ns = 9
    expect(read(texts.profile(result { prefill = prefill })).prefill_context):near(9e-9, 1e-15)
  end)

  it("says what is not known, and that it is simulated", function()
    local text = texts.profile(result { simulated = true, runs = { { id = "x", simulated = true } } })
    expect(text):contains "kv_tokens = N, must be given"
    expect(text):contains "of a SIMULATED fleet"
    expect(read(text).summary):contains "simulated run"
    expect(read(text).kv_tokens):is_nil()
  end)
end)

describe("report", function()
  it("has a line for each term and what was left out", function()
    local text = texts.report(result { facts = { kv_tokens = 1 } })
    for _, part in ipairs { "20,000 tokens/s", "19,608 to 20,408 tokens/s", "10.0 ms", "9 requests",
      "3 kinds, 60 gaps", "1 beside others, 2 without known cached tokens, 3 failed, 0 not streamed",
      "batches 1 to 4 and contexts 100 to 100" } do
      expect(text):contains(part)
    end
    expect(text:find("KV budget", 1, true)):is_nil()
    expect(texts.report(result())):contains "KV budget: not known"
  end)

  it("is JSON too", function()
    local v = texts.value(result(), "x.lua")
    expect(v.prefill.prefill_tokens_per_s):near(20000, 0.1)
    expect({ v.out, v.decode.steps[3].batch, v.prefill.left_out.failed }):eq { "x.lua", 4, 3 }
  end)
end)

describe("intervals", function()
  local function line(name, ci, more)
    local r = result(more)
    r.decode.seq_ns, r.decode.ci = 30999.98762, { { 5e6, 5e6 }, ci, { 0, 0 } }
    r.decode.error = { median = 3.21e-6, worst = 0.0123 }
    return (texts.report(r):match(name .. " [^\n]+"):gsub(" +", " ")) .. " "
  end

  it("have the digits that tell their ends apart, and the estimate has as many", function()
    expect(line("decode_seq", { 20000, 40000 })):contains " 31,000 ns 20,000 to 40,000 ns "
    expect(line("decode_seq", { 30999.8, 31000.1 })):contains " 31,000.0 ns 30,999.8 to 31,000.1 ns "
    expect(line("decode_seq", { 30999.9876, 30999.98770 })):contains
      " 30,999.9876 ns 30,999.9876 to 30,999.9877 ns "
    expect(line("decode_seq", { 30999.98762, 30999.98762 })):contains
      " 30,999.9876 ns no spread in 9 digits "
    expect(line("decode_base", { 1, 2 })):contains " 5.00000000 ms no spread in 9 digits "
    expect(line("decode_context", { 1, 2 })):matches "^decode_context%s+0%s+—"
  end)

  it("stand beside errors of which none is rounded away", function()
    expect(line("decode_seq", { 20000, 40000 })):contains " 0.00032 % 1.2 %"
    expect(line("prefill_context", { 20000, 40000 })):contains " 1.0 % 2.0 %"
    local prefill = result().prefill
    prefill.error = { median = 0, worst = 5e-16 }
    expect(line("request_overhead", { 20000, 40000 }, { prefill = prefill })):contains " 0 % 0 %"
  end)
end)

describe("the way out", function()
  it("names the experiment", function()
    expect(texts.more_decode "batches"):contains "several answers at the same time"
    expect(texts.more_prefill { busy = 4, unknown = 0, failed = 0, not_streamed = 0 }):contains
      "(left out: 4 came while others were served)"
  end)
end)
