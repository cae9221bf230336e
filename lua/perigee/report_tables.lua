-- The tables of a run's report, from the decoded summary.json (src/out/ROW.md): plain data, which
-- perigee.report draws once for the terminal and once as Markdown. Any field may be missing. Those of the
-- replicas and of what failed are perigee.report_replicas'.
--
-- { title =, head = { names }, align = "lrr…", rows = { { cell, … } }, notes = { text … } }
-- A cell is a text, or { text, sub = "±…", range = "lo–hi", mark = "ok" | "bad" | "dim", code = true }.
-- `flexible` is the column whose text may be wrapped, `wraps` one that is wrapped where it would be cut, and
-- `optional` lists columns a narrow terminal may drop, first to last; with `counts_out` it says how many.
-- Of a section that `folds` a terminal shows the rows marked bad and counts the others, with the sentence
-- `aside`.
local parity = require "perigee.parity"
local servers = require "perigee.report_replicas"
local timeline = require "perigee.report_timeline"
local verify = require "perigee.report_verify"
local words = require "perigee.report_text"

local num, text, object, at, sorted_keys = words.num, words.text, words.object, words.at, words.sorted_keys
local count, counted, figure, quantity, scale_for = words.count, words.counted, words.figure, words.quantity,
  words.scale_for
local refusal_note, note_refused = words.refusal_note, words.note_refused

local tables = {}

local LATENCIES = { "ttft", "ttft_sched", "first_visible", "itl", "itl_token", "tpot", "e2e" }
local OTHERS = { "output_rate", "prompt_tokens", "output_tokens", "cached_tokens", "cached_ratio",
  "survived_tokens", "possible", "available", "captured", "delivered", "regret", "token_count_diff",
  "client_overhead", "session_time" }
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

-- Which rows the headline table has: those with data; a variant only where it says something new, but
-- for ttft_sched of an open load, whose users do not wait: it is the one they feel.
function tables.headline_names(metrics, open)
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
    if not base or open and name == "ttft_sched" or not same(metrics[name], metrics[base]) then
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
  row[#row + 1] = statistic(m, "max", scale)
  return row, scale, unit
end

-- Every request that failed or was cut off counted as one that was never answered.
local function infinity_row(infinity, scale, unit)
  local row = { "  no answer = ∞", unit, count(infinity.n), "", "", "" }
  for _, p in ipairs(PERCENTILES) do
    local x, reason = num(infinity[p]), at(infinity, "reason", p)
    row[#row + 1] = { x and figure(x * scale) or reason == "infinite" and "∞" or "—", mark = "dim" }
  end
  row[#row + 1] = { "∞", mark = "dim" }
  return row
end

local function refusals(metrics, names, into)
  for _, name in ipairs(names) do
    for p, needs in pairs(object(at(metrics, name, "refused"))) do
      into[p] = num(needs) or into[p]
    end
  end
end

--- How many replies said how much came from the cache, and how the others can be made to; nil when
--- there was no reply.
function tables.cached_note(summary)
  local cached = object(summary.cached)
  local absent, said = num(cached.absent) or 0, 0
  for _, state in ipairs { "value", "zero", "inferred_zero" } do
    said = said + (num(cached[state]) or 0)
  end
  local all, parts = absent + said, {}
  if all == 0 then
    return nil
  end
  if said > 0 then
    parts[1] = ("%s reported, %s zero, %s inferred zero"):format(count(cached.value), count(cached.zero),
      count(cached.inferred_zero))
  end
  if absent > 0 then
    parts[#parts + 1] = ("%s of %s did not say"):format(count(absent), all == 1 and "1 reply"
      or count(all) .. " replies") .. ": vLLM says it with --enable-prompt-tokens-details, SGLang with "
      .. "--enable-cache-report"
  end
  -- What engines log as their hit rate weighs by tokens; the mean of cached_ratio counts each request once.
  local prompts, tokens = object(at(summary, "metrics", "prompt_tokens")),
    object(at(summary, "metrics", "cached_tokens"))
  local sum = (num(prompts.n) or 0) * (num(prompts.mean) or 0)
  if sum > 0 and tokens.n == prompts.n and num(tokens.mean) then
    parts[#parts + 1] = ("the cached share is %s of all prompt tokens"):format(
      quantity(num(tokens.n) * num(tokens.mean) / sum, "ratio"))
  end
  return ("cached_tokens: %s."):format(table.concat(parts, "; "))
end

-- What usage counts of answers beside their text's tokens here; nil where there is nothing to say.
local function count_note(m)
  local n, least, most = num(m.n), num(m.min), num(m.max)
  if not n or n == 0 or not least or not most or least == 0 and most == 0 then
    return nil
  elseif least == 1 and most == 1 then
    return "token_count_diff: usage counts one token more than the text of every answer: as a rule the stop"
      .. " token, which engines count and which has no text (an answer of declared length has none; then"
      .. " something counts wrongly). Other figures rest on usage's number."
  elseif least == most then
    return ("token_count_diff: usage counts %s %s than the text of every answer has here (a stop token would"
      .. " be 1): something counts otherwise, and rates of output tokens rest on usage."):format(
      count(math.abs(least)), least > 0 and "more" or "fewer")
  end
  return ("token_count_diff: usage counts %s to %s more than the text of an answer has here. One is the stop"
    .. " token; an answer that ends inside a character, or whose text is cut into other tokens than were"
    .. " generated, differs by a few. Prompts are usage_vs_local's."):format(("%g"):format(least),
    ("%g"):format(most))
end

local function headline_notes(summary, names)
  local metrics, notes, refused = object(summary.metrics), {}, {}
  local function note(...)
    notes[#notes + 1] = string.format(...)
  end
  local least, most, lacking = math.huge, 0, false
  for _, name in ipairs(names) do
    local sessions = num(at(metrics, name, "sessions"))
    if num(at(metrics, name, "ci95", "mean", 1)) and sessions then
      least, most = math.min(least, sessions), math.max(most, sessions)
    end
    for _, reason in pairs(object(at(metrics, name, "ci95_reason"))) do
      lacking = lacking or (text(reason) or ""):find("sessions", 1, true) ~= nil
    end
  end
  if most > 0 then
    note("± and ranges are 95 %% intervals by session (%s); ± is the longer side.%s",
      least < most and ("%s to %s sessions"):format(count(least), count(most)) or counted(most, "session"),
      lacking and " None where sessions are too few: a mean needs 2, p50 5, p90 20, p95 40, p99 200, "
        .. "more where they differ much." or "")
  elseif #names > 0 then
    note "No intervals: they need at least two sessions."
  end
  refusals(metrics, names, refused)
  if next(refused) then
    notes[#notes + 1] = refusal_note(refused)
  end
  for _, name in ipairs(names) do
    notes[#notes + 1] = name == "token_count_diff" and count_note(metrics[name]) or nil
  end
  for _, name in ipairs { "itl", "itl_token" } do
    if at(metrics, name, "method") == "histogram" then
      note("%s comes from a histogram (relative error up to %.1f %%): there were too many gaps to keep.",
        name, 100 * (num(at(metrics, name, "relative_error")) or 0))
    end
  end
  local assumed, n = num(at(metrics, "tpot", "first_tokens_assumed")), num(at(metrics, "tpot", "n"))
  if assumed and n and n > 0 and assumed > 0 then
    note("tpot: the first event was taken to hold one token in %s of %s.", count(assumed),
      counted(n, "request"))
  end
  local same_read = num(at(metrics, "tpot", "same_read")) or 0
  if same_read > 0 then
    note("tpot and output_rate: %s %s left out, all %s events came in one read, with no time between them.",
      count(same_read), same_read == 1 and "reply is" or "replies are", same_read == 1 and "its" or "their")
  end
  notes[#notes + 1] = tables.cached_note(summary)
  return notes
end

local function headline(summary, run)
  local metrics = object(summary.metrics)
  local names, rows = tables.headline_names(metrics, at(run, "load", "kind") == "open"), {}
  for _, name in ipairs(names) do
    local row, scale, unit = metric_row(name, metrics[name])
    rows[#rows + 1] = row
    local infinity = object(at(summary, "as_infinity", name))
    local unanswered = (num(infinity.failed) or 0) + (num(infinity.incomplete) or 0)
    if (name == "ttft" or name == "e2e") and unanswered > 0 then
      rows[#rows + 1] = infinity_row(infinity, scale, unit)
    end
  end
  return {
    title = "Results",
    head = { "metric", "unit", "n", "failed", "incompl.", "mean", "p50", "p90", "p95", "p99", "max" },
    align = "llrrrrrrrrr",
    optional = { 8, 11, 5 },
    rows = rows,
    notes = headline_notes(summary, names),
  }
end

local function turns(summary)
  local rows, refused = {}, {}
  for _, turn in ipairs(object(summary.turns)) do
    local ttft, ratio = object(turn.ttft), object(turn.cached_ratio)
    local row = { tostring(turn.turn), count(turn.requests), count(turn.failed),
      count(turn.incomplete), count(ttft.n) }
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
    title = "By turn: ttft and cached_ratio",
    head = { "turn", "requests", "failed", "incompl.", "n ttft", "mean", "p50", "p95", "n cached",
      "cached_ratio mean" },
    align = "lrrrrrrrrr",
    optional = { 9, 4, 5, 3 },
    rows = rows,
    notes = next(refused) and { refusal_note(refused) } or nil,
  }
end

local MAX_TAG_ROWS = 24

-- Requests by the script's tags: those that tell requests apart.
local function tags(summary)
  local rows, notes, of_tag, refused = {}, {}, {}, {}
  for _, r in ipairs(object(summary.tags)) do
    of_tag[r.tag] = (of_tag[r.tag] or 0) + 1
  end
  local more = 0
  for _, r in ipairs(object(summary.tags)) do
    if of_tag[r.tag] > 1 and #rows < MAX_TAG_ROWS then
      rows[#rows + 1] = { tostring(r.tag), text(r.value) or { "(without)", mark = "dim" }, count(r.requests),
        count(r.failed), count(r.incomplete), count(r.ttft_n), quantity(r.ttft_p50, "s"),
        quantity(r.ttft_p95, "s"), quantity(r.e2e_p50, "s"), quantity(r.cached_ratio, "ratio") }
      note_refused(r, { "ttft_p50", "ttft_p95" }, refused)
    elseif of_tag[r.tag] > 1 then
      more = more + 1
    end
  end
  if more > 0 then
    notes[#notes + 1] = ("… and %d more in summary.json."):format(more)
  end
  notes[#notes + 1] = next(refused) and refusal_note(refused) or nil
  local alike = {}
  for _, r in ipairs(object(summary.tags)) do
    if of_tag[r.tag] == 1 then
      alike[#alike + 1] = ("%s = %s"):format(tostring(r.tag), text(r.value) or "(none)")
    end
  end
  if #rows > 0 and #alike > 0 then
    notes[#notes + 1] = ("The same for all requests: %s."):format(table.concat(alike, ", "))
  end
  for i, name in ipairs(object(summary.tags_left_out)) do
    if i > 8 then
      notes[#notes + 1] = ("… and %d more tags are left out."):format(#summary.tags_left_out - 8)
      break
    end
    rows[#rows + 1] = { tostring(name), { "(left out: over 16 values, or beyond the first 8 tags)",
      mark = "dim" } }
  end
  return {
    title = "By tag",
    head = { "tag", "value", "requests", "failed", "incompl.", "n ttft", "ttft p50", "ttft p95", "e2e p50",
      "cached_ratio mean" },
    align = "llrrrrrrrr",
    optional = { 9, 8 },
    rows = rows,
    notes = notes,
  }
end

-- What the script recorded, by the tags it gave; a tag that has one value says nothing.
local function own_by_tag(summary)
  local rows, values, refused, more = {}, {}, {}, 0
  local function key(r)
    return tostring(r.metric) .. "\0" .. tostring(r.tag)
  end
  for _, r in ipairs(object(summary.value_tags)) do
    values[key(r)] = (values[key(r)] or 0) + 1
  end
  for _, r in ipairs(object(summary.value_tags)) do
    if values[key(r)] > 1 and #rows < MAX_TAG_ROWS then
      local unit = text(r.unit)
      rows[#rows + 1] = { { tostring(r.metric), code = true }, tostring(r.tag), tostring(r.value), count(r.n),
        quantity(r.mean, unit), quantity(r.p50, unit), quantity(r.p95, unit), quantity(r.max, unit) }
      for name, needs in pairs { p50 = 10, p95 = 100 } do
        refused[name] = not num(r[name]) and needs or refused[name]
      end
    elseif values[key(r)] > 1 then
      more = more + 1
    end
  end
  local notes = { next(refused) and refusal_note(refused) or nil }
  notes[#notes + 1] = more > 0 and ("… and %d more in summary.json."):format(more) or nil
  return {
    title = "Own metrics by tag",
    head = { "metric", "tag", "value", "n", "mean", "p50", "p95", "max" },
    align = "lllrrrrr",
    rows = rows,
    notes = notes,
  }
end

local function expectations(summary)
  local rows = {}
  for _, e in ipairs(object(summary.expectations)) do
    local met = e.met == true
    rows[#rows + 1] = { { met and "✓" or "✗", mark = met and "ok" or "bad" },
      { text(e.text) or "", code = true }, text(e.shown) or quantity(e.value),
      text(e.bound_shown) or "", num(e.n) and count(e.n) or "",
      text(e.reason) and e.reason ~= "" and e.reason or (met and "met" or "not met") }
  end
  return {
    title = "Expectations",
    head = { "", "expectation", "value", "bound", "n", "verdict" },
    align = "llrrrl",
    flexible = 6,
    wraps = 2,
    rows = rows,
  }
end

local function script_checks(summary)
  local rows = {}
  for _, name in ipairs(sorted_keys(summary.script_checks)) do
    local c = object(summary.script_checks[name])
    local passed, failed = num(c.passed) or 0, num(c.failed) or 0
    rows[#rows + 1] = { { failed == 0 and "✓" or "✗", mark = failed == 0 and "ok" or "bad" }, name,
      count(passed), count(failed), quantity(passed / math.max(1, passed + failed), "ratio") }
  end
  return {
    title = "Checks of the script",
    head = { "", "check", "passed", "failed", "share" },
    align = "llrrr",
    rows = rows,
  }
end

-- Where a tokenizer is named, figures rest on its tokens being the server's: what is not proven is said.
local function unproven(summary)
  for _, c in ipairs(object(summary.checks)) do
    local why = text(c.note) or ""
    if c.name == "token_parity" and c.ok ~= false and not why:find("no tokenizer is named", 1, true)
      and (num(c.figure) == nil or why:find "^not proven" or why:find "not all could be") then
      local reason = why:match "parity is not proven %((.*)%)$" or why:match "^not proven for all: (.*)"
        or why
      return ("! token parity is not proven for everything: %s. Prefixes, hashes and token counts of this"
        .. " side rest on it; `perigee parity` tries more ways."):format(reason)
    end
  end
end

local function validity(summary)
  local rows = {}
  for _, c in ipairs(object(summary.checks)) do
    local known = num(c.figure) ~= nil
    local mark = c.ok == false and { "✗", mark = "bad" } or known and { "✓", mark = "ok" }
      or { "·", mark = "dim" }
    local meaning, note = text(c.meaning), text(c.note)
    note = note and words.grouped(note)
    if meaning and note and known then
      note = meaning .. "; " .. note
    end
    rows[#rows + 1] = { mark, tostring(c.name), quantity(c.figure, text(c.unit)),
      (c.minimum == true and "≥ " or "") .. quantity(c.limit, text(c.unit)), note or meaning or "" }
  end
  return {
    title = "Can the measurement be believed?",
    head = { "", "check", "figure", "limit", "what it says" },
    align = "llrrl",
    flexible = 5,
    rows = rows,
    folds = true,
    aside = unproven(summary),
  }
end

--- Every table that has a row, in the order of the report.
function tables.sections(summary, run)
  local list = {}
  for _, make in ipairs { expectations, verify.ledger, headline, servers.failures, timeline.section, turns,
    tags, own_by_tag, servers.replicas, script_checks, parity.section, verify.accuracy, validity } do
    local section = make(summary, object(run))
    if #section.rows > 0 then
      list[#list + 1] = section
    end
  end
  return list
end

return tables
