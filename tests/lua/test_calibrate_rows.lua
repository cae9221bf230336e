-- What calibrate learns from rows: who was alone, which batch a gap was at.
local rows = require "perigee.calibrate_rows"

local MS = 1000000

-- A row whose first token comes `ttft` ms after `start`, then `gaps` (ms).
local function row(start, ttft, gaps, more)
  local list, last = {}, start + ttft
  for i, gap in ipairs(gaps or {}) do
    list[i] = gap * MS
    last = last + gap
  end
  local r = { generation = true, streamed = true, served = "a", prompt_tokens = 100, cached_tokens = 0,
    cached_state = "zero", output_tokens = #list + 1, output_events = #list + 1, first_tokens = 1,
    itl_ns = list, t = { start = start * MS, first_token = (start + ttft) * MS, last_token = last * MS,
      done = last * MS } }
  for key, value in pairs(more or {}) do
    r[key] = value
  end
  return r
end

local function requests(...)
  return rows.requests({ ... }, function(r) return r.served end)
end

local function ten(ms, n)
  local list = {}
  for i = 1, n or 10 do
    list[i] = ms
  end
  return list
end

describe("prefills", function()
  it("takes requests that ran alone, by what was not cached", function()
    local found, left = rows.prefills(requests(row(0, 50), row(60, 40, nil, { cached_tokens = 64,
      cached_state = "value" })))
    expect(#found):eq(2)
    expect(found[1]):eq { tokens = 100, cached = 0, ns = 50 * MS, group = "a" }
    expect(found[2]):eq { tokens = 36, cached = 64, ns = 40 * MS, group = "a" }
    expect(left):eq { failed = 0, not_streamed = 0, unknown = 0, busy = 0 }
  end)

  it("leaves out who met another, on the same server only", function()
    local found, left = rows.prefills(requests(row(0, 50), row(49, 50), row(200, 50, ten(5)), row(255, 5),
      row(0, 50, nil, { served = "b" })))
    expect(#found):eq(2) -- the third, whose prefill was over before the fourth came, and that of b
    expect({ found[1].group, found[2].group }):eq { "a", "b" }
    expect(left.busy):eq(3)
  end)

  it("counts what is not known, failed or not streamed", function()
    local found, left = rows.prefills(requests(
      row(0, 5, nil, { cached_state = "absent", cached_tokens = false, served = "c" }),
      row(10, 5, nil, { error = "http_5xx" }), row(20, 5, nil, { streamed = false })))
    expect(#found):eq(0)
    expect(left):eq { failed = 1, not_streamed = 1, unknown = 1, busy = 0 }
  end)

  it("takes a missing count for zero where the server reported one elsewhere", function()
    local found = rows.prefills(requests(row(0, 5, nil, { cached_state = "absent", cached_tokens = false }),
      row(10, 5, nil, { cached_state = "value", cached_tokens = 16 })))
    expect({ found[1].tokens, found[2].tokens }):eq { 100, 84 }
  end)

  it("ignores plain HTTP and rows of servers that are not known", function()
    expect(#requests(row(0, 5, nil, { generation = false }), row(0, 5, nil, { served = false }))):eq(0)
  end)
end)

describe("decodes", function()
  it("gives the batch and the context of each stretch", function()
    local found, used = rows.decodes(requests(row(0, 50, ten(10, 20)), row(0, 50, ten(10, 20))))
    expect(used):eq { gaps = 2, means = 0 }
    local gaps = 0
    for _, s in ipairs(found) do
      expect(s.batch):eq(2)
      expect(s.ns):near(10 * MS, 1)
      expect(s.context):above(100)
      expect(s.context):below(122)
      gaps = gaps + s.gaps
    end
    expect(gaps):eq(40)
    expect(found[1].context):near(107.5, 1e-9) -- of the first 16 gaps: 100 tokens before the first, 115 before the last
  end)

  it("counts each sequence's own tokens, whatever held it up before", function()
    -- The first waits 600 ms for the second's prefill, between its second and its third token.
    local gaps = ten(10, 22)
    gaps[2] = 600
    local found = rows.decodes(requests(row(0, 50, gaps), row(65, 595, ten(10, 20), { prompt_tokens = 400 })))
    local context = {}
    for _, s in ipairs(found) do
      expect(s.batch):eq(2)
      context[#context + 1] = s.context
    end
    -- At the first step together 102 and 400 tokens have KV: 251, and one more with each of 16 and 4 gaps.
    expect(context):eq { 258.5, 268.5, 258.5, 268.5 }
  end)

  it("takes tokens of one step for one, though they come a little apart", function()
    local second = row(0, 50, ten(10, 20))
    for _, stamp in ipairs { "first_token", "last_token", "done" } do
      second.t[stamp] = second.t[stamp] + 200000
    end
    for _, s in ipairs(rows.decodes(requests(row(0, 50, ten(10, 24)), second))) do
      if s.batch == 2 and s.request.first == 50 * MS then
        expect(s.context % 1):eq(s.gaps % 2 == 0 and 0.5 or 0)
      end
    end
  end)

  it("leaves out gaps beside a prefill, and tells batches apart", function()
    -- The second comes at 100 ms, has its first token at 150 and its last at 200; the first decodes
    -- from 50 to 350.
    local found = rows.decodes(requests(row(0, 50, ten(10, 30)), row(100, 50, ten(10, 5))))
    local by = {}
    for _, s in ipairs(found) do
      by[s.batch] = (by[s.batch] or 0) + s.gaps
    end
    expect(by):eq { 5 + 15, 10 } -- 50 to 100 and 200 to 350 alone; 150 to 200 both
  end)

  it("leaves out gaps beside what is not known", function()
    local found = rows.decodes(requests(row(0, 50, ten(10, 10)), row(0, 5, nil, { error = "reset",
      t = { start = 0, done = 500 * MS } })))
    expect(#found):eq(0)
  end)

  it("divides gaps of several tokens", function()
    local found = rows.decodes(requests(row(0, 50, ten(20, 8), { output_tokens = 17 })))
    expect(#found):eq(1)
    expect(found[1].ns):near(10 * MS, 1)
  end)

  it("uses the mean of an answer without gaps, where its batch hardly changed", function()
    local without = function(start, gaps) return row(start, 50, gaps, { itl_ns = false }) end
    local found, used = rows.decodes(requests(without(0, ten(10, 20)), without(0, ten(10, 20))))
    expect(used):eq { gaps = 0, means = 2 }
    expect({ found[1].batch, found[1].gaps }):eq { 2, 20 }
    expect(found[1].ns):near(10 * MS, 1)
    expect(found[1].context):near(109.5, 1e-9) -- 100 before the first of its 20 steps, 119 before the last
    expect(#rows.decodes(requests(without(0, ten(10, 20)), without(0, ten(10, 10))))):eq(1)
  end)
end)

describe("odd", function()
  it("finds nothing wrong with what a run writes", function()
    expect(rows.odd(row(0, 50, ten(5)))):is_nil()
    expect(rows.odd {}):is_nil()
    expect(rows.odd { t = { start = 5, done = 5 }, error = "connect" }):is_nil()
  end)

  it("names what no run writes", function()
    local function odd(more)
      return rows.odd(row(0, 50, ten(5), more))
    end
    expect(odd { itl_ns = { "x", 1 } }):eq "itl_ns[1] is no whole number from 0"
    expect(odd { itl_ns = { 1, true } }):eq "itl_ns[2] is no whole number from 0"
    expect(odd { itl_ns = { 1, {} } }):eq "itl_ns[2] is no whole number from 0"
    expect(odd { itl_ns = { -1 } }):eq "itl_ns[1] is no whole number from 0"
    expect(odd { itl_ns = { a = 1 } }):eq "itl_ns is no list of numbers"
    expect(odd { itl_ns = { [2] = 1, [4] = 1 } }):eq "itl_ns is no list of numbers"
    expect(odd { itl_ns = "1" }):eq "itl_ns is no list"
    expect(odd { t = 1 }):eq "t is no object"
    expect(odd { t = { start = 1.5 } }):eq "t.start is no whole number from 0"
    expect(odd { t = { start = 9, first_token = 8 } }):eq "t.first_token lies before t.start"
    expect(odd { t = { start = 9, done = 8 } }):eq "t.done lies before t.start"
    expect(odd { t = { start = 9, done = 10 ^ 18 // 1 | 0 } }):is_nil()
    expect(odd { t = { start = 9, done = math.maxinteger } }):eq "t.done is no whole number from 0"
    expect(odd { prompt_tokens = "100" }):eq "prompt_tokens is no whole number from 0"
    expect(odd { output_tokens = -1 }):eq "output_tokens is no whole number from 0"
    expect(odd { served = {} }):eq "served is no text"
    expect(odd { error = true }):eq "error is no text"
  end)
end)
