-- perigee.report: the terminal's and the Markdown form.
local report = require "perigee.report"

local function metric(fields)
  local m = { unit = "s", n = 600, mean = 0.3, min = 0.1, max = 0.6, p50 = 0.3, p90 = 0.54, p95 = 0.57,
    p99 = 0.594, sessions = 100, ci95 = { mean = { 0.28, 0.33 } }, refused = {}, failed = 40,
    incomplete = 3, meaning = "first event − start" }
  for key, value in pairs(fields or {}) do
    m[key] = value
  end
  return m
end

local function example()
  local run = {
    id = "demo-1", path = "results/demo-1", name = "chat_multi_turn", simulated = true,
    started = "2026-11-29T14:38:16Z", duration_s = 214,
    banner = {
      { name = "scenario", value = "scenarios/chat_multi_turn.lua: " .. ("people read and answer, "):rep(8) },
      { name = "load", value = "open, 2 sessions/s" },
    },
    command = { "perigee", "run", "s.lua", "--set", "note=a|b" }, seed = 7,
    scripts = { { path = "s.lua", sha256 = "0123456789abcdef" } },
  }
  local summary = {
    valid = true, simulated = true, outcome = { status = 99, reason = "1 of 2 expectations not met" },
    metrics = { ttft = metric(), cached_ratio = metric { unit = "ratio", failed = false, incomplete = false } },
    as_infinity = { ttft = { n = 640, failed = 40, p50 = 0.32, reason = { p99 = "infinite" } } },
    requests = { ok = 600, failed = 40, by_error = { http_429 = 40 },
      detail = { http_429 = "429 \27[31mred\27[0m\u{9b}1m\n<b>busy</b> | `later` " .. ("x"):rep(300) } },
    sessions = { ok = 99, failed = 0 },
    throughput = { window_s = 60, requests_per_s = 10, output_tokens_per_s = 100, prompt_tokens_per_s = 900 },
    expectations = { { text = "ttft p95 < 400ms", met = false, shown = "570 ms", reason = "570 ms is not < 400 ms" },
      { text = "cached_ratio{turn=2..8} mean > 75%", met = true, shown = "80 %" } },
    checks = { { name = "wake_lag_p99", figure = 0.001, limit = 0.005, unit = "s", ok = true,
      meaning = "the client's timers fire late" } },
    turns = {}, replicas = { { id = "r0", requests = 640, share = 1, failed = 40 } },
  }
  return run, summary
end

local function lines(s)
  local list = {}
  for line in s:gmatch "([^\n]*)\n" do
    list[#list + 1] = line
  end
  return list
end

local function find(list, part)
  for i, line in ipairs(list) do
    if line:find(part, 1, true) then
      return i
    end
  end
end

describe("report.terminal", function()
  it("gives the verdict, what ran, what came out, and where it is", function()
    local list = lines(report.terminal(example()))
    expect(list[1]):eq "NOT MET  1 of 2 expectations not met (exit status 99)"
    local order = { "NOT MET", "Simulated: the fleet is perigee's own", "scenario  scenarios/chat", "requests",
      "Expectations", "Results", "no answer = ∞", "Failures", "Replicas", "Can the measurement be believed?",
      "Where to look next", "To run it again", "Files  results/demo-1/", "samples.jsonl" }
    expect(list[#list]):eq "NOT MET (exit status 99)" -- what is on the screen when all has gone by
    local last = 0
    for _, part in ipairs(order) do
      local i = find(list, part)
      expect(i):is_a "number"
      expect(i):above(last - 1)
      last = i
    end
    expect(list[find(list, "  ttft  ")]):eq(
      "  ttft             ms    600      40         3    300   300   540   570   594   600")
    expect(list[find(list, "  ttft  ") + 1]):matches "^ +±30.0$"
  end)

  it("is never wider than asked for, nor than 100 columns", function()
    local run, summary = example()
    for _, width in ipairs { 40, 60, 72, 100, 250 } do
      for _, line in ipairs(lines(report.terminal(run, summary, { width = width }))) do
        if utf8.len(line) > math.min(width, 100) then
          error(("%d columns where %d are asked for: %s"):format(utf8.len(line), width, line))
        end
      end
    end
  end)

  it("says first that a run is not valid", function()
    local run, summary = example()
    summary.valid = false
    summary.checks[1].ok, summary.checks[1].figure = false, 0.0565
    local list = lines(report.terminal(run, summary))
    expect(list[1]):eq " INVALID  the measurement itself cannot be trusted:"
    expect(list[2]):eq "  wake_lag_p99 is 56.5 ms, the limit is 5.00 ms: the client's timers fire late"
    expect(find(list, "NOT MET")):is_a "number"
  end)

  it("says first why the script stopped, and then that the measurement suffered", function()
    local run, summary = example()
    summary.valid, summary.expectations = false, {}
    summary.checks[1].ok = false
    summary.outcome = { status = 2, reason = "no session went well: the renderer: give both the same (--tokenizer)" }
    local list = lines(report.terminal(run, summary))
    expect(list[1]):contains "SCRIPT ERROR  no session went well"
    expect(find(list, "INVALID")):eq(3 + (list[2] ~= "" and 1 or 0))
    local text = report.markdown(run, summary)
    expect(text:find("SCRIPT ERROR", 1, true) < text:find("INVALID", 1, true)):eq(true)
    expect(select(2, text:gsub("no session went well", ""))):eq(1)
  end)

  it("says on the terminal that token parity is not proven", function()
    local run, summary = example()
    summary.checks[2] = { name = "token_parity", ok = true, limit = 0,
      note = "not measured: parity is not proven (POST /tokenize: status 404)" }
    local text = report.terminal(run, summary)
    expect(text):contains "! token parity is not proven for everything: POST /tokenize: status 404."
    summary.checks[1].ok = false -- beside the rows of what does not hold, too
    expect(report.terminal(run, summary)):contains "! token parity is not proven"
    summary.checks[2].note = "not measured: parity is not proven (no tokenizer is named (--tokenizer))"
    expect(report.terminal(run, summary):find("! token parity", 1, true)):eq(nil)
    summary.checks[2].figure, summary.checks[2].note = 0, "ids of a prompt were equal on 1 server before the load"
    expect(report.terminal(run, summary):find("! token parity", 1, true)):eq(nil)
  end)

  it("counts the checks that hold and shows the one that does not", function()
    local run, summary = example()
    expect(report.terminal(run, summary)):contains "✓ 1 check holds; report.md has each"
    expect(report.terminal(run, summary):find("wake_lag_p99", 1, true)):is_nil()
    summary.checks[2] = { name = "clock_step", figure = 0.5, limit = 0.001, unit = "s", ok = false,
      meaning = "the wall clock jumped" }
    summary.checks[3] = { name = "coalesced_events", ok = true, limit = 0.05, unit = "ratio", note = "no stream" }
    local text = report.terminal(run, summary)
    expect(text):contains "clock_step  500 ms  1.00 ms  the wall clock jumped"
    expect(text):contains "✓ 1 check holds · 1 not measured; report.md has each, with what it says"
    expect(report.markdown(run, summary)):contains "coalesced_events"
  end)

  it("says it once", function()
    local run, summary = example()
    summary.valid = false
    summary.checks[1].ok = false
    summary.outcome = { status = 98, reason = "a check of the measurement itself does not hold" }
    local list = lines(report.terminal(run, summary))
    expect(list[1]):eq " INVALID  the measurement itself cannot be trusted (exit status 98):"
    local text, markdown = report.terminal(run, summary), report.markdown(run, summary)
    expect(text:find "NOT VALID"):is_nil()
    expect(text:find "does not hold"):is_nil()
    expect(markdown):contains "> **INVALID: the measurement itself cannot be trusted (exit status 98).**"
    expect(markdown:find "NOT VALID"):is_nil()
    summary.outcome.note = "faults are staged (--fault)"
    expect(report.terminal(run, summary)):contains "\n  faults are staged (--fault)\n"
    expect(report.markdown(run, summary)):contains "> faults are staged (--fault)"
  end)

  it("obeys nothing that a server sends", function()
    local plain = report.terminal(example())
    expect(plain:find "\27"):is_nil()
    expect(plain):contains "429 [31mred [0m 1m <b>busy</b> | `later`"
    local run, summary = example()
    local colored = report.terminal(run, summary, { color = true })
    expect(colored):contains "\27[31mNOT MET\27[0m"
    expect(colored:find "\27%[31mred"):is_nil()
    expect((colored:gsub("\27%[[%d;]*m", ""))):eq(plain)
  end)

  it("survives a summary without anything", function()
    expect(report.terminal({}, {})):contains "ENDED"
    expect(report.terminal(nil, nil)):contains "ENDED"
    expect(report.markdown({}, {})):contains "# run"
  end)

  it("speaks of a real fleet only when it is one", function()
    local run, summary = example()
    run.simulated, summary.simulated = false, false
    expect(report.terminal(run, summary):find "Simulated"):is_nil()
    expect(report.markdown(run, summary):find "Simulated"):is_nil()
  end)
end)

-- Everything a figure, a verdict or a reason is in.
describe("the two forms", function()
  it("say the same", function()
    local run, summary = example()
    summary.requests.detail.http_429 = "slow down"
    local terminal, markdown = report.terminal(run, summary), report.markdown(run, summary)
    local function flat(s)
      return (s:gsub("[\\`*|]", " "):gsub("&lt;", "<"):gsub("%s+", " "))
    end
    terminal, markdown = flat(terminal), flat(markdown)
    for _, s in ipairs(require "perigee.report_tables".sections(summary)) do
      expect(markdown):contains(s.title)
      for _, row in ipairs(s.rows) do
        local shown = not s.folds or row[1].mark == "bad" -- a terminal only counts what holds
        for _, cell in ipairs(row) do
          local part = flat(type(cell) == "table" and cell[1] or cell):match "^%s*(.-)%s*$"
          if shown then
            expect(terminal):contains(part)
          end
          expect(markdown):contains(part)
        end
      end
    end
    for _, part in ipairs { "NOT MET", "1 of 2 expectations not met", "open, 2 sessions/s", "600 ok · 40 failed",
      "10.0 requests/s", "perigee run s.lua --set 'note=a b'", "seed 7", "s.lua 0123456789ab" } do
      expect(terminal):contains(part)
      expect(markdown):contains(part)
    end
  end)
end)

describe("report.markdown", function()
  it("is a document of its own", function()
    local text = report.markdown(example())
    local list = lines(text)
    expect(list[1]):eq "# chat_multi_turn"
    expect(text):contains "**NOT MET** — 1 of 2 expectations not met (exit status 99)"
    expect(text):contains "> **Simulated:** the fleet is perigee's own"
    expect(text):contains "Run `demo-1`, started 2026-11-29T14:38:16Z, took 3m 34s."
    expect(text):contains "- **load:** open, 2 sessions/s"
    expect(text):contains "| `ttft` | ms | 600 | 40 | 3 | 300 (280–330) | 300 | 540 | 570 | 594 |"
    expect(text):contains "| no answer = ∞ | ms | 640 |  |  |  | 320 | — | — | ∞ |"
    expect(text):contains "| ✗ | `ttft p95 < 400ms` | 570 ms |  |  | 570 ms is not < 400 ms |"
    expect(text):contains "- `ttft`: first event − start"
    expect(text):contains "- `samples.jsonl`: one row per request"
  end)

  it("has tables whose rows have as many cells as their head", function()
    local cells
    for _, line in ipairs(lines(report.markdown(example()))) do
      if line:find "^|" then
        local _, n = line:gsub("\\|", ""):gsub("|", "")
        expect(n):eq(cells or n)
        cells = n
      else
        cells = nil
      end
    end
  end)

  it("escapes what comes from outside", function()
    local run, summary = example()
    run.name = "a_b *bold* _x_ [link](http://h) <script>"
    local text = report.markdown(run, summary)
    expect(lines(text)[1]):eq "# a_b \\*bold\\* \\_x\\_ \\[link\\](http://h) &lt;script>"
    expect(text):contains "429 \\[31mred \\[0m 1m &lt;b>busy&lt;/b> \\| \\`later\\`"
    expect(text:find "<b>"):is_nil()
    expect(text:find "\27"):is_nil()
  end)

  it("gives the commands to look further and to run it again", function()
    local text = report.markdown(example())
    expect(text):contains("## Where to look next\n\nRequests that failed:\n\n```sh\njq -c 'select(.measured and ")
    expect(text):contains("## To run it again\n\n```sh\nperigee run s.lua --set 'note=a|b'\n```\n")
    expect(text):contains("- **scripts:** s.lua 0123456789ab (sha256; copies in scripts/)")
  end)

  -- No line of a hostile name, message or tag ends a cell, opens a heading, an image, a fence or HTML.
  it("stays a document whatever the texts are", function()
    local hostile = "x\n# head\n```\n| a | b |\n<img src=x onerror=1> ![i](j) $x$ \27[2J\0\xff\u{202E}"
    local run, summary = example()
    run.name, run.label, run.path, run.id = hostile, hostile, hostile, hostile
    run.banner[1].value, run.started = hostile, hostile
    run.command, run.scripts = { "perigee", hostile }, { { path = hostile, sha256 = hostile } }
    summary.outcome.reason, summary.valid = hostile, false
    summary.requests.detail.http_429 = hostile
    summary.requests.by_error[hostile] = 3
    summary.expectations[1].text, summary.expectations[1].reason = hostile, hostile
    summary.script_checks = { [hostile] = { passed = 1, failed = 1 } }
    summary.checks[1].ok, summary.checks[1].note = false, hostile
    summary.replicas[1].id = hostile
    summary.policies = { { policy = hostile, requests = 1 } }
    summary.tags = { { tag = hostile, value = hostile, requests = 1 }, { tag = hostile, value = "b", requests = 1 } }
    summary.tags_left_out = { hostile }
    summary.metrics[hostile] = metric { meaning = hostile, unit = hostile }
    local fence = false
    for _, line in ipairs(lines(report.markdown(run, summary))) do
      expect(utf8.len(line)):is_a "number"
      expect(line:find "%c" or line:find "\u{202E}"):is_nil()
      fence = fence ~= (line:find "^```" ~= nil)
      if not fence then
        expect(line:gsub("`[^`]*`", ""):find "<img"):is_nil()
        expect(line:find "^# head"):is_nil()
        if line:find "^|" then
          expect(line):matches "|$"
          expect(line:gsub("\\|", ""):find "| a |"):is_nil()
        end
      end
    end
    expect(fence):eq(false)
    for _, line in ipairs(lines(report.terminal(run, summary))) do
      expect(utf8.len(line)):is_a "number"
      expect(line:find "%c"):is_nil()
    end
  end)

  it("says first that a run is not valid", function()
    local run, summary = example()
    summary.valid = false
    summary.checks[1].ok = false
    local list = lines(report.markdown(run, summary))
    expect(list[3]):eq "> **INVALID: the measurement itself cannot be trusted.**"
    expect(list[4]):contains "wake_lag_p99 is 1.00 ms"
  end)
end)
