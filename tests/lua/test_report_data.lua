-- perigee.report_data: what a report says: numbers for people, tables, sentences.
local data = require "perigee.report_data"
local sections = require "sections"
local words = require "perigee.report_text"

local texts = sections.texts

local function metric(fields)
  local m = { unit = "s", n = 600, mean = 0.3, min = 0.1, max = 0.6, p50 = 0.3, p90 = 0.54, p95 = 0.57,
    p99 = 0.594, sessions = 100, ci95 = { mean = { 0.28, 0.33 }, p50 = { 0.29, 0.3 } }, refused = {},
    failed = 40, incomplete = 3 }
  for key, value in pairs(fields or {}) do
    m[key] = value
  end
  return m
end

local function titles(summary)
  local list = {}
  for _, section in ipairs(data.sections(summary)) do
    list[#list + 1] = section.title
  end
  return list
end

local function section(summary, title)
  return sections.titled(data.sections(summary), title)
end

describe("numbers for people", function()
  it("have three digits that mean something", function()
    local cases = { [0] = "0", [0.004] = "0.004", [0.5] = "0.500", [1] = "1.00", [9.99] = "9.99",
      [9.999] = "10.0", [99.96] = "100", [1234567] = "1,234,567", [-1234.4] = "-1,234", [0.02] = "0.020" }
    for x, want in pairs(cases) do
      expect(words.figure(x)):eq(want)
    end
    expect(words.count(12600)):eq "12,600"
    expect(words.count(nil)):eq "—"
  end)

  it("choose the unit", function()
    expect(words.quantity(0.412, "s")):eq "412 ms"
    expect(words.quantity(0.000231, "s")):eq "231 µs"
    expect(words.quantity(2.5, "s")):eq "2.50 s"
    expect(words.quantity(0, "s")):eq "0 ms"
    expect(words.quantity(200.4, "s")):eq "3m 20s"
    expect(words.quantity(0.0603, "ratio")):eq "6.03 %"
    expect(words.quantity(2048, "B")):eq "2.00 KiB"
    expect(words.quantity(812, "tokens")):eq "812 tokens"
    expect(words.quantity(12.5, "1/s")):eq "12.5 /s"
    expect(words.quantity(4, "times")):eq "4 times"
    expect(words.quantity(nil, "s")):eq "—"
    expect(words.quantity(0 / 0, "s")):eq "—"
  end)
end)

describe("the headline table", function()
  it("gives one unit per row, intervals, and failures beside latencies", function()
    local s = section({ metrics = { ttft = metric(), output_tokens = metric { unit = "tokens", mean = 120,
      p50 = 118, p90 = 200, p95 = 220, p99 = 250, failed = 0 / 0, incomplete = false, ci95 = {} } } }, "Results")
    expect(s.head):eq { "metric", "unit", "n", "failed", "incompl.", "mean", "p50", "p90", "p95", "p99", "max" }
    expect(texts(s.rows[1])):eq { "ttft", "ms", "600", "40", "3", "300", "300", "540", "570", "594", "600" }
    expect(s.rows[1][6].sub):eq "±30.0" -- the longer side
    expect(s.rows[1][6].range):eq "280–330"
    expect(s.rows[1][8].sub):is_nil()
    expect(texts(s.rows[2])):eq { "output_tokens", "tokens", "600", "", "", "120", "118", "200", "220", "250", "0.600" }
    expect(s.notes):contains(
      "± and ranges are 95 % intervals by session (100 sessions); ± is the longer side.")
  end)

  it("says from how many sessions intervals are, and how many they need", function()
    local s = section({ metrics = { ttft = metric { sessions = 12,
      ci95_reason = { p95 = "too few sessions (12 of at least 40)" } }, e2e = metric { sessions = 18 } } }, "Results")
    expect(s.notes):contains("± and ranges are 95 % intervals by session (12 to 18 sessions); ± is the longer side. "
      .. "None where sessions are too few: a mean needs 2, p50 5, p90 20, p95 40, p99 200, more where they "
      .. "differ much.")
  end)

  it("has a row that counts failures and what never ended as infinite, where there are any", function()
    local summary = { metrics = { ttft = metric(), tpot = metric() }, as_infinity = {
      ttft = { n = 640, failed = 40, p50 = 0.32, reason = { p90 = "infinite", p95 = "infinite",
        p99 = "too few samples" } } } }
    local s = section(summary, "Results")
    expect(#s.rows):eq(3)
    expect(texts(s.rows[2])):eq { "  no answer = ∞", "ms", "640", "", "", "", "320", "∞", "∞", "—", "∞" }
    summary.as_infinity.ttft.failed, summary.as_infinity.ttft.incomplete = 0, 3
    expect(#section(summary, "Results").rows):eq(3)
    summary.as_infinity.ttft.incomplete = 0
    expect(#section(summary, "Results").rows):eq(2)
  end)

  it("prints a refused percentile as a dash with the number it needs", function()
    local s = section({ metrics = { ttft = metric { n = 60, p95 = false, p99 = false,
      refused = { p95 = 100, p99 = 500 } } } }, "Results")
    expect(texts(s.rows[1])[9]):eq "—"
    expect(texts(s.rows[1])[10]):eq "—"
    expect(s.notes):contains "— too few samples: p95 needs 100, p99 needs 500."
  end)

  it("leaves out what has no data and variants that say the same", function()
    local s = section({ metrics = { ttft = metric(), ttft_sched = metric { p99 = 0.596 },
      first_visible = metric { p50 = 0.4 }, itl = metric { n = 0 }, start_lag = metric(), failed = { n = 3 },
      token_count_diff = metric { unit = "tokens", min = 0, max = 0 }, plan_time = metric(),
      Zeit = metric() } }, "Results")
    local names = {}
    for i, row in ipairs(s.rows) do
      names[i] = texts(row)[1]
    end
    expect(names):eq { "ttft", "first_visible", "Zeit", "plan_time" }
  end)

  it("explains what usage counts beyond the text", function()
    local function notes(least, most)
      local m = metric { unit = "tokens", min = least, max = most }
      return table.concat(section({ metrics = { ttft = metric(), token_count_diff = m } }, "Results").notes, "\n")
    end
    expect(notes(1, 1)):contains
      "one token more than the text of every answer: as a rule the stop token, which engines count"
    expect(notes(2, 2)):contains "usage counts 2 more than the text of every answer"
    expect(notes(-1, -1)):contains "usage counts 1 fewer than the text of every answer"
    expect(notes(0, 1)):contains "usage counts 0 to 1 more than the text of an answer has here. One is the stop token"
    expect(notes(0, 0):find("token_count_diff", 1, true)):eq(nil)
  end)

  it("says how itl, tpot and cached_ratio came about", function()
    local s = section({ cached = { value = 500, zero = 1, inferred_zero = 99, absent = 7 }, metrics = {
      itl = metric { method = "histogram", relative_error = 0.0039, ci95 = {} },
      tpot = metric { first_tokens_assumed = 12, same_read = 3 },
      cached_ratio = metric { unit = "ratio", mean = 0.8 } } },
      "Results")
    local notes = table.concat(s.notes, "\n")
    expect(notes):contains "itl comes from a histogram (relative error up to 0.4 %)"
    expect(notes):contains "tpot: the first event was taken to hold one token in 12 of 600 requests."
    expect(notes):contains("tpot and output_rate: 3 replies are left out, all their events came in one read, "
      .. "with no time between them.")
    expect(notes):contains ("cached_tokens: 500 reported, 1 zero, 99 inferred zero; 7 of 607 replies did not "
      .. "say: vLLM says it with --enable-prompt-tokens-details, SGLang with --enable-cache-report.")
    s = section({ cached = { value = 0, zero = 0, inferred_zero = 0, absent = 43 }, metrics = { ttft = metric() } },
      "Results")
    expect(table.concat(s.notes, "\n")):contains "cached_tokens: 43 of 43 replies did not say: vLLM says it with --ena"
    s = section({ cached = { value = 2, absent = 0 }, metrics = { ttft = metric() } }, "Results")
    expect(table.concat(s.notes, "\n")):contains "cached_tokens: 2 reported, — zero, — inferred zero."
    s = section({ cached = { value = 2, zero = 0, inferred_zero = 0, absent = 0 }, metrics = {
      prompt_tokens = metric { n = 2, mean = 500 }, cached_tokens = metric { n = 2, mean = 440 } } }, "Results")
    local said = "2 reported, 0 zero, 0 inferred zero; the cached share is 88.0 % of all prompt tokens."
    expect(table.concat(s.notes, "\n")):contains(said)
    s = section({ cached = { value = 1, zero = 0, inferred_zero = 0, absent = 1 }, metrics = {
      prompt_tokens = metric { n = 2, mean = 500 }, cached_tokens = metric { n = 1, mean = 440 } } }, "Results")
    expect(table.concat(s.notes, "\n"):find("of all prompt tokens", 1, true)):eq(nil) -- one of two did not say
  end)

  it("says that one session gives no intervals", function()
    local s = section({ metrics = { ttft = metric { ci95 = {}, sessions = 1 } } }, "Results")
    expect(s.notes):contains "No intervals: they need at least two sessions."
  end)
end)

describe("the other tables", function()
  it("stand in order, and only those with rows", function()
    expect(titles {}):eq {}
    expect(titles {
      metrics = { ttft = metric() },
      turns = { { turn = "1", ttft = metric(), cached_ratio = metric { unit = "ratio" } } },
      tags = { { tag = "phase", value = "plan" }, { tag = "phase", value = "act" } },
      replicas = { { id = "r0", requests = 3 } },
      requests = { ok = 1, failed = 1, by_error = { reset = 1 } },
      expectations = { { text = "x", met = true } },
      script_checks = { parsed = { passed = 1, failed = 0 } },
      checks = { { name = "a", ok = true, limit = 1 } },
    }):eq { "Expectations", "Results", "Failures", "By turn: ttft and cached_ratio", "By tag", "Replicas",
      "Checks of the script", "Can the measurement be believed?" }
  end)

  it("show each turn with its own unit", function()
    local s = section({ turns = {
      { turn = "1", requests = 640, failed = 38, incomplete = 2,
        ttft = metric { mean = 1.5, p50 = 1.2, p95 = false, refused = { p95 = 100 } },
        cached_ratio = metric { unit = "ratio", mean = 0.65, n = 590 } } } }, "By turn: ttft and cached_ratio")
    expect(texts(s.rows[1])):eq { "1", "640", "38", "2", "600", "1.50 s", "1.20 s", "—", "590", "65.0 %" }
    expect(s.notes[1]):eq "— too few samples: p95 needs 100."
  end)

  it("explain objectives where there are some", function()
    local function explained(summary)
      for _, term in ipairs(data.terms(summary)) do
        if term[1] == "objectives" then
          return true
        end
      end
      return false
    end
    expect(explained {}):eq(false)
    expect(explained { metrics = { goodput = { objectives = { { metric = "ttft" } } } } }):eq(true)
  end)

  it("give each expectation its verdict, value and reason", function()
    local s = section({ expectations = {
      { text = "ttft p95 < 400ms", met = true, value = 0.163, shown = "163 ms", bound_shown = "< 400 ms", n = 1400 },
      { text = "failed share < 1%", met = false, shown = "6 %", reason = "6 % is not < 1 %" },
      { text = "a function", met = false } } }, "Expectations")
    expect(texts(s.rows[1])):eq { "✓", "ttft p95 < 400ms", "163 ms", "< 400 ms", "1,400", "met" }
    expect(texts(s.rows[2])):eq { "✗", "failed share < 1%", "6 %", "", "", "6 % is not < 1 %" }
    expect(texts(s.rows[3])):eq { "✗", "a function", "—", "", "", "not met" }
  end)

  it("show what was not measured as such", function()
    local s = section({ checks = {
      { name = "wake_lag_p99", figure = 0.032, limit = 0.005, unit = "s", ok = false, meaning = "late" },
      { name = "worker_cpu", figure = 0.31, limit = 0.9, unit = "ratio", ok = true, meaning = "busy",
        note = "worker 1 of 3" },
      { name = "clock_step", limit = 0.001, unit = "s", ok = true, note = "not measured" },
      { name = "sessions", figure = 1, limit = 2, minimum = true, unit = "sessions", ok = false } } },
      "Can the measurement be believed?")
    expect(texts(s.rows[1])):eq { "✗", "wake_lag_p99", "32.0 ms", "5.00 ms", "late" }
    expect(texts(s.rows[2])):eq { "✓", "worker_cpu", "31.0 %", "90.0 %", "busy; worker 1 of 3" }
    expect(texts(s.rows[3])):eq { "·", "clock_step", "—", "1.00 ms", "not measured" }
    expect(texts(s.rows[4])):eq { "✗", "sessions", "1 session", "≥ 2 sessions", "" }
    expect(data.broken_checks { checks = {
      { name = "sessions", figure = 1, limit = 2, minimum = true, unit = "sessions", ok = false,
        meaning = "measured sessions" },
      { name = "idle_replica", figure = 2, limit = 0, unit = "replicas", ok = false, meaning = "idle",
        note = "no request went to r1, r2" },
      { name = "descriptors", figure = 9, limit = 0, unit = "times", ok = false, meaning = "none left" } } }):eq {
      "descriptors is 9 times, the limit is 0 times: none left", -- what others follow from comes first
      "sessions is 1 session, at least 2 sessions are needed: measured sessions",
      "idle_replica is 2 replicas, the limit is 0 replicas: idle; no request went to r1, r2" }
  end)
end)

describe("sentences", function()
  it("name how the run ended", function()
    local function word(status, expectations)
      local w, style, reason = data.verdict { outcome = { status = status, reason = "why" },
        expectations = expectations }
      expect(reason):eq "why"
      return w .. " " .. style
    end
    expect(word(0, { { met = true } })):eq "PASSED ok"
    expect(word(0)):eq "COMPLETED ok"
    expect(word(99, { { met = false } })):eq "NOT MET bad"
    expect(word(99)):eq "FAILED bad"
    expect(word(98)):eq "NOT VALID bad"
    expect(word(130)):eq "INTERRUPTED warn"
    expect((data.verdict {})):eq "ENDED"
  end)

  it("count what ended how, inside and outside the window", function()
    local facts = data.facts {
      requests = { ok = 1325, failed = 85, incomplete = 2, cancelled = 1, outside_window = 15 },
      other_requests = { ok = 4, failed = 0 },
      sessions = { ok = 236, failed = 0 },
      throughput = { window_s = 110, requests_per_s = 9.81, output_tokens_per_s = 1318, prompt_tokens_per_s = 1 },
      metrics = { goodput = { share = 0.9, n = 1410 } },
    }
    expect(facts[1]):eq { "requests",
      "1,325 ok · 85 failed (6.03 %) · 2 incomplete (0.142 %) · 1 cancelled · 15 outside the window, not counted" }
    expect(data.facts { requests = { ok = 6, failed = 0, outside_window = 1, reconnects = 4 } }[1][2]):eq
      "6 ok · 0 failed · 4 sent again on a new connection · 1 outside the window, not counted"
    expect(data.facts { requests = { ok = 6, reconnects = 0 } }[1][2]):eq "6 ok · 0 failed"
    expect(facts[2]):eq { "plain HTTP", "4 ok · 0 failed" }
    expect(facts[3]):eq { "sessions", "236 ok · 0 failed" }
    expect(facts[4]):eq { "throughput",
      "9.81 requests/s (1,079 ended inside the window) · 1,318 output tokens/s · 1.00 prompt tokens/s · "
        .. "window 110 s" }
    expect(facts[5]):eq { "shares", "goodput 90.0 % of 1,410" }
    local slo = data.facts { requests = { ok = 43 }, metrics = { goodput = { share = 0, n = 43, unjudged = 2,
      objectives = { { metric = "ttft", limit = 0.4, unit = "s", judged = 43, broken = 43, unjudged = 0 },
        { metric = "tpot", limit = 0.02, unit = "s", judged = 0, broken = 0, unjudged = 43,
          reason = "replies were not streamed" } } } } }
    expect(slo[#slo]):eq { "objectives", "ttft > 400 ms in 43 of 43 · tpot could not be judged in 43 of 43: replies "
      .. "were not streamed · 2 requests in no goodput" }
    local failing = data.facts { throughput = { window_s = 60, requests_per_s = 31.7, failed_per_s = 8.1 } }
    expect(failing[#failing][2]):eq
      "31.7 requests/s ok · 8.10/s failed · 0 output tokens/s · 0 prompt tokens/s · window 60.0 s"
    expect(data.facts({ requests = { ok = 3, generation = false } })[1][1]):eq "plain HTTP"
    expect(data.facts({ requests = { ok = 0, failed = 0, generation = false } })[1]):eq { "requests",
      "none was made" }
  end)

  it("say what to do about checks that do not hold", function()
    expect(data.advice { checks = { { name = "wake_lag_p99", ok = true } } }):eq {}
    local late = data.advice { checks = { { name = "wake_lag_p99", ok = false } } }
    expect(#late):eq(1)
    expect(late[1]):contains "--limit NAME=VALUE"
    local both = data.advice { checks = { { name = "worker_cpu", ok = false }, { name = "empty_200", ok = false } } }
    expect(#both):eq(2)
    expect(both[2]):contains "staged fault"
    local cut = data.advice { checks = { { name = "incomplete_requests", ok = false },
      { name = "incomplete_sessions", ok = false } } }
    expect(#cut):eq(1)
    expect(cut[1]):contains "A longer drain (`drain` in the plan)"
  end)

  it("say first that no session got through its script", function()
    local sessions = { ok = 0, failed = 2, by_error = { script = 2 }, detail = { script = "x.lua:3: oops" } }
    expect(data.script_failed { sessions = sessions }):eq "all 2 sessions failed: script: x.lua:3: oops"
    sessions.ok = 1
    expect(data.script_failed { sessions = sessions }):is_nil()
    sessions.ok, sessions.by_error = 0, { script = 1, reset = 1 }
    expect(data.script_failed { sessions = sessions }):is_nil()
    expect(data.script_failed {}):is_nil()
  end)

  it("give a way out for each check that servers or policies break", function()
    for _, name in ipairs { "short_answers", "idle_replica", "measurement_error_p99", "read_lag_p99" } do
      expect(#data.advice { checks = { { name = name, ok = false } } }):eq(1)
    end
  end)

  it("name the policies that decided", function()
    local run = { banner = { { name = "load", value = "x" }, { name = "routing", value = "the plan's policy" } } }
    local function routing(policies)
      return data.banner(run, { policies = policies })[2][2]
    end
    expect(routing {}):eq "the plan's policy"
    expect(routing { { policy = "least_inflight", requests = 600, fallback = 0 } }):eq
      "the plan's policy: least_inflight"
    expect(routing { { policy = "a", requests = 1, fallback = 1 }, { policy = "b", requests = 5999 } }):eq
      "the plan's policy: a (1 request), which fell back 1 time, b (5,999 requests)"
    local function said(answers)
      local line = data.banner(run, { answers = answers })[3]
      return line and line[2]
    end
    expect(said { declared = 0, own = 0 }):eq(nil)
    expect(said { declared = 9, own = 0 }):contains "histories keep scripted text"
    expect(said { declared = 0, own = 9 }):eq "the model's own, in length and in the history"
    expect(said { declared = 1200, own = 7 }):eq
      "1,200 of declared length (scripted in the history), 7 the model's own"
    run.banner[2].value = "session_hash (default)"
    expect(routing { { policy = "session_hash", requests = 9 } }):eq "session_hash (default)"
  end)

  it("say what it takes to run the same again", function()
    expect(data.again {}):eq {}
    expect(data.again { command = { "perigee", "run", "s.lua", "--set", "note=it's 5 %" }, seed = 7, workers = 1,
      versions = { perigee = "0.1.0", commit = "abc" }, host = { system = "Linux", machine = "x86_64", cores = 2 },
      scripts = { { path = "/a/s.lua", sha256 = "0123456789abcdef" }, { path = "lib.lua" } } }):eq {
      { "command", [[perigee run s.lua --set 'note=it'\''s 5 %']] },
      { "with", "seed 7 · 1 worker · perigee 0.1.0 (abc) · Linux x86_64, 2 cores" },
      { "scripts", "s.lua 0123456789ab, lib.lua ? (sha256; copies in scripts/)" } }
  end)

  it("say where to look when something is wrong", function()
    local run = { path = "results/x-1" }
    expect(data.next_steps(run, { requests = { ok = 3, failed = 0 } })):eq {}
    local steps = data.next_steps(run, { requests = { ok = 3, failed = 1, incomplete = 1 },
      sessions = { failed = 1 }, metrics = { ttft = { n = 3 } }, cached = { value = 2, zero = 1 },
      expectations = { { text = "ttft p50 < 1ms", met = false },
        { text = "cached_ratio mean > 90%", met = false } } })
    local names = {}
    for i, step in ipairs(steps) do
      names[i] = step[1]
    end
    expect(names):eq { "requests that failed", "requests that never ended", "the slowest first tokens",
      "the fewest cached tokens", "what sessions said when they failed" }
    expect(steps[2][2]):eq([[jq -c 'select(.measured and .error == "incomplete") | {session, turn, step, ]]
      .. [[chosen, served, status, t}' results/x-1/samples.jsonl]])
    expect(steps[5][2]):eq "less results/x-1/log.txt"
    steps = data.next_steps(run, { cached = { value = 0, zero = 0, inferred_zero = 0, absent = 9 }, expectations = {
      { text = "ttft p50 < 1ms", met = false }, { text = "cached_ratio mean > 90%", met = false } } })
    expect(steps):eq {} -- nothing such is in the rows
  end)

  it("print no noise of equal numbers", function()
    expect(words.figure(3.3e-14)):eq "0"
    expect(words.figure(-4.4e-14)):eq "0"
    expect(words.figure(0.00123)):eq "0.0012"
  end)
end)
