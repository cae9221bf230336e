-- What a run with --verify knows beyond its own rows (src/out/ROW.md: `ledger`, `verify`): where each
-- prompt's tokens came from, and how far the engine's figures are from the fleet's own log. The report's
-- sections of it, and the text of `perigee verify`. Shapes of sections: perigee.report_tables.
local words = require "perigee.report_text"

local num, text, object, at, sorted_keys = words.num, words.text, words.object, words.at, words.sorted_keys
local count, counted, figure, quantity, scale_for = words.count, words.counted, words.figure, words.quantity,
  words.scale_for

local verify = {}

-- The order of the assignment, and the reference experiment's words.
local CAUSES = {
  { "hbm", "warm, right pod: from the replica's GPU memory" },
  { "offload", "CPU or offload load: from the replica's CPU memory" },
  { "shared", "shared storage: loaded from there" },
  { "transfer", "KV of the replica that did the prefill" },
  { "cached", "warm, right pod: cached, the server does not say where" },
  { "recomputed", "full recompute: was there, and was computed again" },
  { "stale_index", "the router's claim was followed, and was wrong" },
  { "wrong_pod", "another replica had it" },
  { "evicted", "was sent or received before, and was nowhere any more" },
  { "new", "nobody ever had it" },
  { "unknown", "what was delivered is not known" },
  { "cold", "full recompute: under 8 blocks or 10 % of the prompt could have been cached" },
}

--- Shares of tokens by cause, and of requests by their class.
function verify.ledger(summary)
  local ledger = object(summary.ledger)
  local tokens, requests, rows = num(ledger.prompt_tokens) or 0, num(ledger.requests) or 0, {}
  for _, cause in ipairs(CAUSES) do
    local n, m = num(at(ledger, "causes", cause[1])) or 0, num(at(ledger, "classes", cause[1])) or 0
    if n > 0 or m > 0 then
      rows[#rows + 1] = { { cause[1], code = true }, n > 0 and count(n) or "",
        n > 0 and quantity(n / tokens, "ratio") or "", m > 0 and count(m) or "",
        m > 0 and quantity(m / requests, "ratio") or "", cause[2] }
    end
  end
  local notes = { ("%s of %s, from the fleet's own log. A request's class is the largest cause among the "
    .. "tokens that could have been cached."):format(counted(tokens, "prompt token"),
    counted(requests, "request")) }
  if (num(ledger.foreign_tokens) or 0) > 0 then
    notes[#notes + 1] = ("%s were resident that this run had not sent before: the cache was warm from "
      .. "elsewhere."):format(counted(ledger.foreign_tokens, "token"))
  end
  if (num(ledger.gained_in_queue_tokens) or 0) > 0 then
    notes[#notes + 1] = ("%s came into the cache between a request's arrival and its first step."):format(
      counted(ledger.gained_in_queue_tokens, "token"))
  end
  return {
    title = "Where prompts came from",
    head = { "cause", "tokens", "share", "requests", "share", "meaning" },
    align = "lrrrrl",
    flexible = 6,
    rows = rows,
    notes = notes,
  }
end

local STAMPS = { { "first_byte", "first byte of the body" }, { "ttft", "first event with output" },
  { "first_visible", "first visible text" }, { "last_token", "last event with output" },
  { "itl", "gaps between events" }, { "tpot", "time per output token" }, { "e2e", "end of the reply" } }

local function reasons(list)
  local parts = {}
  for _, name in ipairs(sorted_keys(object(list))) do
    parts[#parts + 1] = ("%s %s"):format(count(list[name]), name)
  end
  return table.concat(parts, ", ")
end

local ERROR = "An error is the client's stamp less the clock read before the fleet's write, loopback "
  .. "included; of good replies in the window. Events that came in one read have one stamp: last_token and "
  .. "e2e are those of the read that ended the reply."
local NO_ERROR = "In virtual time nothing lies between the client's stamp and the fleet's write: each error "
  .. "is 0."

-- Stamps with more errors than are kept.
local function thinned(errors)
  local list = {}
  for _, stamp in ipairs(STAMPS) do
    local every = num(at(errors, stamp[1], "every")) or 1
    if every > 1 then
      list[#list + 1] = ("percentiles of %s are of one error in %s"):format(stamp[1], count(every))
    end
  end
  return list
end

-- Sentences under the table: what was joined, which counts differ, who answered.
local function sentences(v, virtual)
  local rows, lines = reasons(v.rows_alone), reasons(v.lines_alone)
  local list = { ("%s of %s joined with the fleet's log by request_id%s%s."):format(count(num(v.joined) or 0),
    counted(num(v.rows) or 0, "generation request"), rows ~= "" and "; without a line there: " .. rows or "",
    lines ~= "" and "; lines without a row: " .. lines or "") }
  if v.unfinished then
    list[#list + 1] = "The run did not come to its end (run.json says unfinished): it goes on or was killed. "
      .. "What it had in flight has no row."
  end
  if v.rows_cut then
    list[#list + 1] = "samples.jsonl ends in the middle of a row: it was cut, or its run was killed. "
      .. "That row and what would follow are not compared."
  end
  if v.lines_cut then
    list[#list + 1] = "The fleet's log ends in the middle of a line: that line and what would follow are not "
      .. "compared."
  end
  local parts = {}
  for _, name in ipairs { "prompt_tokens", "output_tokens", "cached_tokens", "output_events" } do
    local c = object(at(v, "counts", name))
    parts[#parts + 1] = ("%s differ in %s of %s"):format(name, count(num(c.differ) or 0),
      count(num(c.compared) or 0))
  end
  list[#list + 1] = "Counts: " .. table.concat(parts, ", ") .. "."
  for _, d in ipairs(object(v.first)) do
    list[#list + 1] = ("%s of session %s, turn %s, step %s (%s): %s in the row, %s in the log"):format(
      tostring(d.what), tostring(d.session), tostring(num(d.turn) or "?"), tostring(num(d.step) or "?"),
      tostring(d.request_id), count(num(d.row) or 0), count(num(d.truth) or 0))
  end
  local where = object(v.replicas)
  if (num(where.served_elsewhere) or 0) + (num(where.chosen_elsewhere) or 0) > 0 then
    list[#list + 1] = ("%s answered by another replica than the row says, %s by another than was "
      .. "chosen."):format(counted(num(where.served_elsewhere) or 0, "request"),
      count(num(where.chosen_elsewhere) or 0))
  end
  list[#list + 1] = virtual and NO_ERROR or ERROR
  local some = thinned(v.errors)
  list[#list + 1] = #some > 0 and table.concat(some, ", ") .. "." or nil
  return list
end

local function cell(x, scale)
  return num(x) and figure(x * scale) or { "—", mark = "dim" }
end

--- How far off the stamps are.
function verify.accuracy(summary)
  local v, rows = object(summary.verify), {}
  for _, stamp in ipairs(STAMPS) do
    local e = object(at(v, "errors", stamp[1]))
    if (num(e.n) or 0) > 0 then
      local scale, unit = scale_for("s", num(e.p50) or num(e.max))
      rows[#rows + 1] = { { stamp[1], code = true }, unit, count(e.n), cell(e.p50, scale), cell(e.p90, scale),
        cell(e.p99, scale), cell(e.max, scale), cell(at(e, "signed", "min"), scale),
        cell(at(e, "signed", "p50"), scale), cell(at(e, "signed", "max"), scale), stamp[2] }
    end
  end
  return {
    title = "Measurement error, by the fleet's own log",
    head = { "stamp", "unit", "n", "p50", "p90", "p99", "max", "least", "median", "most", "of" },
    align = "llrrrrrrrrl",
    optional = { 11, 9, 8, 10 },
    rows = rows,
    notes = v.joined and sentences(v, summary.virtual_time) or {},
  }
end

--- The text of `perigee verify`: `v` is summary.verify, `said` the checks.
function verify.text(v, said)
  local out, section = {}, verify.accuracy { verify = v }
  local form = "%-14s %s  %9s %9s %9s %9s %9s %9s"
  out[#out + 1] = form:format("error of", "  ", "n", "p50", "p90", "p99", "max", "median")
  for _, row in ipairs(section.rows) do
    local function plain(i)
      return type(row[i]) == "table" and row[i][1] or row[i]
    end
    local unit = (" "):rep(2 - utf8.len(plain(2))) .. plain(2)
    out[#out + 1] = form:format(plain(1), unit, plain(3), plain(4), plain(5), plain(6), plain(7), plain(9))
  end
  for _, line in ipairs(section.notes) do
    out[#out + 1] = line
  end
  for _, check in ipairs(object(said)) do
    out[#out + 1] = ("%s %s: %s (limit %s)%s"):format(check.ok and "ok  " or "NOT ", tostring(check.name),
      quantity(check.figure, text(check.unit)), quantity(check.limit, text(check.unit)),
      text(check.note) and "; " .. check.note or "")
  end
  return table.concat(out, "\n") .. "\n"
end

return verify
