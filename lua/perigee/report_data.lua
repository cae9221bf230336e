-- What a run's report says, before it is drawn: tables and sentences from the decoded run.json and
-- summary.json (src/out/ROW.md). perigee.report draws them, once for the terminal and once as
-- Markdown. Any field may be missing.
local data = {}

-- ---- reading: fields may be missing, and null may be any value that is no number, text or table ----

local function num(x)
  return type(x) == "number" and x == x and x or nil
end

local function text(x)
  return type(x) == "string" and x or nil
end

local function object(x)
  return type(x) == "table" and x or {}
end

local function at(t, ...)
  for _, key in ipairs { ... } do
    t = object(t)[key]
  end
  return t
end

local function sorted_keys(t, before)
  local keys = {}
  for key in pairs(object(t)) do
    keys[#keys + 1] = key
  end
  table.sort(keys, before)
  return keys
end

-- ---- numbers for people ----

local function thousands(digits)
  local sign, whole, rest = digits:match "^(-?)(%d+)(.*)$"
  whole = whole:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
  return sign .. whole .. rest
end

local function count(x)
  return num(x) and thousands(("%.0f"):format(x)) or "—"
end

-- Three digits that mean something.
local function figure(x)
  local size = math.abs(x)
  if size < 5e-10 then -- nothing here is measured so finely: what is left of a difference of equal numbers
    return "0"
  elseif size >= 99.95 then
    return thousands(("%.0f"):format(x))
  elseif size >= 9.995 then
    return ("%.1f"):format(x)
  elseif size >= 0.9995 then
    return ("%.2f"):format(x)
  elseif size >= 0.01 then
    return ("%.3f"):format(x)
  end
  return ("%.2g"):format(x)
end

local BYTES = { { 1073741824, "GiB" }, { 1048576, "MiB" }, { 1024, "KiB" } }

-- What to multiply by, and the unit to write, so that values about as large as `size` read well.
local function scale_for(unit, size)
  size = math.abs(size or 0)
  if unit == "s" then
    if size >= 0.9995 then
      return 1, "s"
    elseif size >= 0.9995e-3 or size == 0 then
      return 1e3, "ms"
    end
    return 1e6, "µs"
  elseif unit == "ratio" then
    return 100, "%"
  elseif unit == "B" then
    for _, step in ipairs(BYTES) do
      if size >= step[1] then
        return 1 / step[1], step[2]
      end
    end
  elseif unit == "1/s" then
    return 1, "/s"
  end
  return 1, unit or ""
end

-- One quantity with its unit: "412 ms", "97.3 %", "12.5 tokens/s".
local function quantity(x, unit)
  if not num(x) then
    return "—"
  end
  if unit == "s" and x >= 119.5 then
    local whole = math.floor(x + 0.5)
    return ("%dm %02ds"):format(whole // 60, whole % 60)
  elseif unit == "replicas" or unit == "sessions" then
    return count(x) .. " " .. (x == 1 and unit:sub(1, -2) or unit)
  end
  local scale, name = scale_for(unit, x)
  return figure(x * scale) .. (name ~= "" and name ~= "times" and " " .. name or "")
end

-- ---- sections ----
-- { title =, head = { names }, align = "lrr…", rows = { { cell, … } }, notes = { text … } }
-- A cell is a text, or { text, sub = "±…", range = "lo–hi", mark = "ok" | "bad" | "dim", code = true }.
-- `flexible` is the column whose text may be wrapped, `optional` lists columns a narrow terminal may
-- drop, first to last.

local LATENCIES = { "ttft", "ttft_sched", "first_visible", "itl", "itl_token", "tpot", "e2e" }
local OTHERS = { "output_rate", "prompt_tokens", "output_tokens", "cached_tokens", "cached_ratio",
  "token_count_diff", "client_overhead", "session_time" }
local PERCENTILES = { "p50", "p90", "p95", "p99" }

-- Metrics that a table of what was measured does not repeat: checks, shares and counts show them.
local ELSEWHERE = { ttft_sent = true, start_lag = true, wake_lag = true, measurement_error = true,
  route_fallback = true, failed = true, goodput = true, requests = true, sessions = true,
  incomplete = true, replica_share = true }

-- Whether two metrics say the same to a reader: as many values, and no statistic 2 % apart.
local function same(a, b)
  a, b = object(a), object(b)
  for _, name in ipairs { "mean", "p50", "p90", "p95", "p99", "max" } do
    local x, y = num(a[name]) or 0, num(b[name]) or 0
    if math.abs(x - y) > 0.02 * math.max(math.abs(x), math.abs(y)) then
      return false
    end
  end
  return a.n == b.n
end

-- Which rows the headline table has: those with data; a variant only where it says something new.
local function headline_names(metrics)
  local names, listed = {}, {}
  local function add(name)
    listed[name] = true
    local m = metrics[name]
    if m and (num(m.n) or 0) > 0 then
      names[#names + 1] = name
    end
  end
  for _, name in ipairs(LATENCIES) do
    local base = (name == "ttft_sched" or name == "first_visible") and "ttft"
      or name == "itl_token" and "itl"
    if not base or not same(metrics[name], metrics[base]) then
      add(name)
    end
    listed[name] = true
  end
  for _, name in ipairs(OTHERS) do
    local m = object(metrics[name])
    if name ~= "token_count_diff" or m.min ~= 0 or m.max ~= 0 then -- all zero: usage and tokenizer agree
      add(name)
    end
    listed[name] = true
  end
  for _, name in ipairs(sorted_keys(metrics)) do -- the plan's own
    if not listed[name] and not ELSEWHERE[name] then
      add(name)
    end
  end
  return names
end

-- A statistic of metric `m` as a cell, `scale` chosen for the row.
local function statistic(m, name, scale)
  local x = num(m[name])
  if not x then
    return { "—", mark = "dim" }
  end
  local cell = { figure(x * scale) }
  local interval = object(at(m, "ci95", name))
  local lo, hi = num(interval[1]), num(interval[2])
  if lo and hi then
    cell.sub = "±" .. figure(math.max(hi - x, x - lo, 0) * scale)
    cell.range = figure(lo * scale) .. "–" .. figure(hi * scale)
  end
  return cell
end

local function metric_row(name, m)
  local scale, unit = scale_for(text(m.unit), num(m.p50) or num(m.mean))
  local row = { { name, code = true }, unit, count(m.n), num(m.failed) and count(m.failed) or "",
    num(m.incomplete) and count(m.incomplete) or "", statistic(m, "mean", scale) }
  for _, p in ipairs(PERCENTILES) do
    row[#row + 1] = statistic(m, p, scale)
  end
  return row, scale, unit
end

-- Every failed request counted as one that was never answered.
local function infinity_row(infinity, scale, unit)
  local row = { "  failed = ∞", unit, count(infinity.n), "", "", "" }
  for _, p in ipairs(PERCENTILES) do
    local x, reason = num(infinity[p]), at(infinity, "reason", p)
    row[#row + 1] = { x and figure(x * scale) or reason == "infinite" and "∞" or "—", mark = "dim" }
  end
  return row
end

local function refusals(metrics, names, into)
  for _, name in ipairs(names) do
    for p, needs in pairs(object(at(metrics, name, "refused"))) do
      into[p] = num(needs) or into[p]
    end
  end
end

local function refusal_note(refused)
  local parts = {}
  for _, p in ipairs(sorted_keys(refused)) do
    parts[#parts + 1] = ("%s needs %s"):format(p, count(refused[p]))
  end
  return ("— too few samples: %s."):format(table.concat(parts, ", "))
end

local function headline_notes(summary, names)
  local metrics, notes, refused = object(summary.metrics), {}, {}
  local function note(...)
    notes[#notes + 1] = string.format(...)
  end
  local intervals = false
  for _, name in ipairs(names) do
    intervals = intervals or num(at(metrics, name, "ci95", "mean", 1)) ~= nil
  end
  if intervals then
    note("± and ranges are 95 %% intervals, resampled by session (%s of them); ± is the longer side.",
      count(at(metrics, names[1], "sessions")))
  elseif #names > 0 then
    note "No intervals: they need at least two sessions."
  end
  refusals(metrics, names, refused)
  if next(refused) then
    notes[#notes + 1] = refusal_note(refused)
  end
  for _, name in ipairs { "itl", "itl_token" } do
    if at(metrics, name, "method") == "histogram" then
      note("%s comes from a histogram (relative error up to %.1f %%): there were too many gaps to keep.",
        name, 100 * (num(at(metrics, name, "relative_error")) or 0))
    end
  end
  local assumed, n = num(at(metrics, "tpot", "first_tokens_assumed")), num(at(metrics, "tpot", "n"))
  if assumed and n and n > 0 and assumed > 0 then
    note("tpot: the first event was taken to hold one token in %s of %s requests.", count(assumed), count(n))
  end
  local same_read = num(at(metrics, "tpot", "same_read")) or 0
  if same_read > 0 then
    note("tpot and output_rate: %s %s left out, all %s events came in one read, with no time between them.",
      count(same_read), same_read == 1 and "reply is" or "replies are", same_read == 1 and "its" or "their")
  end
  local cached = object(summary.cached)
  if (num(at(metrics, "cached_ratio", "n")) or 0) > 0 then
    note("cached_ratio: %s reported, %s zero, %s inferred zero; %s replies did not say.",
      count(cached.value), count(cached.zero), count(cached.inferred_zero), count(cached.absent))
  end
  return notes
end

local function headline(summary)
  local metrics = object(summary.metrics)
  local names, rows = headline_names(metrics), {}
  for _, name in ipairs(names) do
    local row, scale, unit = metric_row(name, metrics[name])
    rows[#rows + 1] = row
    local infinity = at(summary, "as_infinity", name)
    if (name == "ttft" or name == "e2e") and (num(at(infinity, "failed")) or 0) > 0 then
      rows[#rows + 1] = infinity_row(infinity, scale, unit)
    end
  end
  return {
    title = "Results",
    head = { "metric", "unit", "n", "failed", "incompl.", "mean", "p50", "p90", "p95", "p99" },
    align = "llrrrrrrrr",
    optional = { 8, 9 },
    rows = rows,
    notes = headline_notes(summary, names),
  }
end

local function turns(summary)
  local rows, refused = {}, {}
  for _, turn in ipairs(object(summary.turns)) do
    local ttft, ratio = object(turn.ttft), object(turn.cached_ratio)
    local row = { tostring(turn.turn), count(ttft.n) }
    for _, name in ipairs { "mean", "p50", "p95" } do
      local scale, unit = scale_for("s", num(ttft[name]))
      local cell = statistic(ttft, name, scale)
      if num(ttft[name]) then
        cell[1] = cell[1] .. " " .. unit
      end
      row[#row + 1] = cell
    end
    row[#row + 1] = count(ratio.n)
    local cell = statistic(ratio, "mean", 100)
    if num(ratio.mean) then
      cell[1] = cell[1] .. " %"
    end
    row[#row + 1] = cell
    for _, p in ipairs { "p50", "p95" } do
      refused[p] = num(at(ttft, "refused", p)) or refused[p]
    end
    rows[#rows + 1] = row
  end
  return {
    title = "By turn",
    head = { "turn", "n", "ttft mean", "ttft p50", "ttft p95", "n cached", "cached_ratio" },
    align = "lrrrrrr",
    rows = rows,
    notes = next(refused) and { refusal_note(refused) } or nil,
  }
end

local MAX_REPLICAS = 24

local function replicas(summary)
  local list, rows, notes = object(summary.replicas), {}, {}
  for i, r in ipairs(list) do
    if i > MAX_REPLICAS then
      notes[1] = ("… and %d more in summary.json."):format(#list - MAX_REPLICAS)
      break
    end
    local idle = r.requests == 0
    rows[i] = { tostring(r.id), { count(r.requests), mark = idle and "bad" or nil },
      quantity(r.share, "ratio"), count(r.failed), quantity(r.ttft_p50, "s"),
      quantity(r.cached_ratio, "ratio"), count(r.output_tokens) }
  end
  return {
    title = "Replicas",
    head = { "replica", "requests", "share", "failed", "ttft p50", "cached_ratio", "output tokens" },
    align = "lrrrrrr",
    rows = rows,
    notes = notes,
  }
end

local function errors(summary)
  local rows = {}
  for _, what in ipairs { "requests", "sessions", "other_requests" } do
    local group = object(summary[what])
    local classes, all = object(group.by_error), (num(group.ok) or 0) + (num(group.failed) or 0)
    for _, class in ipairs(sorted_keys(classes, function(a, b)
      return classes[a] ~= classes[b] and classes[a] > classes[b] or classes[a] == classes[b] and a < b
    end)) do
      local name = what == "other_requests" and "plain HTTP" or what
      rows[#rows + 1] = { { class, mark = "bad" }, name, count(classes[class]),
        all > 0 and quantity(classes[class] / all, "ratio") or "—",
        text(at(group, "detail", class)) or "" }
    end
  end
  return {
    title = "Failures",
    head = { "class", "of", "n", "share", "the first one said" },
    align = "llrrl",
    flexible = 5,
    rows = rows,
  }
end

local function expectations(summary)
  local rows = {}
  for _, e in ipairs(object(summary.expectations)) do
    local met = e.met == true
    rows[#rows + 1] = { { met and "✓" or "✗", mark = met and "ok" or "bad" },
      { text(e.text) or "", code = true }, text(e.shown) or quantity(e.value),
      text(e.reason) and e.reason ~= "" and e.reason or (met and "met" or "not met") }
  end
  return {
    title = "Expectations",
    head = { "", "expectation", "value", "verdict" },
    align = "llrl",
    flexible = 4,
    rows = rows,
  }
end

local function script_checks(summary)
  local rows = {}
  for _, name in ipairs(sorted_keys(summary.script_checks)) do
    local c = object(summary.script_checks[name])
    local failed = num(c.failed) or 0
    rows[#rows + 1] = { { failed == 0 and "✓" or "✗", mark = failed == 0 and "ok" or "bad" }, name,
      count(c.passed), count(failed) }
  end
  return {
    title = "Checks of the script",
    head = { "", "check", "passed", "failed" },
    align = "llrr",
    rows = rows,
  }
end

local function validity(summary)
  local rows = {}
  for _, c in ipairs(object(summary.checks)) do
    local known = num(c.figure) ~= nil
    local mark = c.ok == false and { "✗", mark = "bad" } or known and { "✓", mark = "ok" }
      or { "·", mark = "dim" }
    local meaning, note = text(c.meaning), text(c.note)
    if meaning and note and known then
      note = meaning .. "; " .. note
    end
    rows[#rows + 1] = { mark, tostring(c.name), quantity(c.figure, text(c.unit)),
      (c.minimum == true and "≥ " or "") .. quantity(c.limit, text(c.unit)), note or meaning or "" }
  end
  return {
    title = "Can the measurement be believed?",
    head = { "", "check", "figure", "limit", "note" },
    align = "llrrl",
    flexible = 5,
    rows = rows,
  }
end

--- Every table that has a row, in the order of the report.
function data.sections(summary)
  local list = {}
  for _, make in ipairs { headline, turns, replicas, errors, expectations, script_checks, validity } do
    local section = make(summary)
    if #section.rows > 0 then
      list[#list + 1] = section
    end
  end
  return list
end

-- ---- sentences both forms share ----

local WORDS = {
  [0] = { "PASSED", "ok" },
  [1] = { "FAILED", "bad" },
  [2] = { "WRONG USAGE", "bad" },
  [98] = { "NOT VALID", "bad" },
  [99] = { "NOT MET", "bad" },
  [130] = { "INTERRUPTED", "warn" },
}

--- The word for how the run ended, its style, the reason, the exit status.
function data.verdict(summary)
  local status = num(at(summary, "outcome", "status"))
  local word = WORDS[status or -1] or { "ENDED", "warn" }
  if status == 0 and #object(summary.expectations) == 0 then
    word = { "COMPLETED", "ok" }
  elseif status == 99 and #object(summary.expectations) == 0 then
    word = { "FAILED", "bad" }
  end
  return word[1], word[2], text(at(summary, "outcome", "reason")) or "", status
end

--- What an invalid run says before anything else: a sentence per check that does not hold.
function data.broken_checks(summary)
  local list = {}
  for _, c in ipairs(object(summary.checks)) do
    if c.ok == false then
      local form = c.minimum == true and "%s is %s, at least %s are needed: %s%s"
        or "%s is %s, the limit is %s: %s%s"
      list[#list + 1] = form:format(tostring(c.name), quantity(c.figure, text(c.unit)),
        quantity(c.limit, text(c.unit)), text(c.meaning) or "", text(c.note) and "; " .. c.note or "")
    end
  end
  return list
end

local LATE = { schedule_lag_p99 = true, wake_lag_p99 = true, loop_lag_p99 = true, worker_cpu = true,
  measurement_error_p99 = true }
local ANSWERS = { coalesced_events = true, empty_200 = true, missing_usage = true }

--- What to do about the checks that do not hold: sentences.
function data.advice(summary)
  local late, answers, list = false, false, {}
  for _, c in ipairs(object(summary.checks)) do
    late = late or (c.ok == false and LATE[c.name] == true)
    answers = answers or (c.ok == false and ANSWERS[c.name] == true)
  end
  if late then
    list[#list + 1] = "The client itself was late: a quieter machine, more workers (--workers), fewer "
      .. "users or --precise help; --limit NAME=VALUE sets another limit."
  end
  if answers then
    list[#list + 1] = "The answers make figures meaningless. Where that is what the run was about (a staged "
      .. "fault, say), --limit NAME=VALUE sets another limit."
  end
  return list
end

local function outcomes(group, what)
  group = object(group)
  local ok, failed = num(group.ok) or 0, num(group.failed) or 0
  local parts = { ("%s ok"):format(count(ok)) }
  if failed > 0 then
    parts[#parts + 1] = ("%s failed (%s)"):format(count(failed), quantity(failed / (ok + failed), "ratio"))
  else
    parts[#parts + 1] = "0 failed"
  end
  for _, rest in ipairs { "incomplete", "cancelled" } do
    if (num(group[rest]) or 0) > 0 then
      parts[#parts + 1] = ("%s %s"):format(count(group[rest]), rest)
    end
  end
  if (num(group.outside_window) or 0) > 0 then
    parts[#parts + 1] = ("%s outside the window, not counted"):format(count(group.outside_window))
  end
  return what, table.concat(parts, " · ")
end

--- Lines of { name, value }: what was counted and how fast.
function data.facts(summary)
  local list = {}
  local function add(name, value)
    list[#list + 1] = { name, value }
  end
  local requests = object(summary.requests)
  local what, counts = outcomes(requests, requests.generation == false and "plain HTTP" or "requests")
  local nothing = requests.generation == false and counts == "0 ok · 0 failed"
  add(nothing and "requests" or what, nothing and "none was made" or counts)
  local other = object(summary.other_requests)
  if (num(other.ok) or 0) + (num(other.failed) or 0) > 0 then
    add(outcomes(other, "plain HTTP"))
  end
  add(outcomes(summary.sessions, "sessions"))
  local t = object(summary.throughput)
  if (num(t.window_s) or 0) > 0 then
    local failed = num(t.failed_per_s) or 0
    add("throughput", ("%s requests/s%s · %s output tokens/s · %s prompt tokens/s · window %s"):format(
      figure(num(t.requests_per_s) or 0), failed > 0 and (" ok · %s/s failed"):format(figure(failed)) or "",
      figure(num(t.output_tokens_per_s) or 0), figure(num(t.prompt_tokens_per_s) or 0),
      quantity(t.window_s, "s")))
  end
  local shares = {}
  for _, name in ipairs { "goodput", "route_fallback" } do
    local m = object(at(summary, "metrics", name))
    if num(m.share) and (name ~= "route_fallback" or m.share > 0) then
      shares[#shares + 1] = ("%s %s of %s"):format(name, quantity(m.share, "ratio"), count(m.n))
    end
  end
  if #shares > 0 then
    add("shares", table.concat(shares, " · "))
  end
  return list
end

--- Lines of { name, value }: the effective configuration.
function data.banner(run)
  local list = {}
  for _, line in ipairs(object(run.banner)) do
    list[#list + 1] = { tostring(line.name), tostring(line.value) }
  end
  return list
end

function data.simulated(run, summary)
  return run.simulated == true or summary.simulated == true
end

data.files = {
  { "report.md", "this report" },
  { "summary.json", "every figure" },
  { "samples.jsonl", "one row per request" },
  { "run.json", "what ran, on what, with which seed" },
  { "log.txt", "what scripts printed, and warnings" },
  { "scripts/", "the scripts as they were" },
}

--- Lines of { metric, meaning } for the metrics of the headline table.
function data.glossary(summary)
  local metrics, list = object(summary.metrics), {}
  for _, name in ipairs(headline_names(metrics)) do
    local meaning = text(metrics[name].meaning)
    if meaning then
      list[#list + 1] = { name, meaning }
    end
  end
  return list
end

data.num, data.text, data.object = num, text, object
data.quantity, data.figure, data.count = quantity, figure, count

return data
