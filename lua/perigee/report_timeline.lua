-- What was done to the fleet during a run (src/out/ROW.md: `timeline`), and what requests were like before,
-- during and after it. Shapes of sections: perigee.report_tables.
local words = require "perigee.report_text"

local num, text, object = words.num, words.text, words.object
local count, counted, figure, quantity = words.count, words.counted, words.figure, words.quantity

local timeline = {}

local SPANS = { "before", "during", "after" }
local MOST_ACTIONS = 12 -- with spans, in the table; summary.json has all
local STATES = { failed = "failed", cut_off = "cut off by the end of the load",
  not_begun = "not begun: the load ended before" }

-- "restart r1", "a function"
local function title(record)
  local action = object(record.action)
  local name = text(action.action)
  if not name then
    return ("the function of timeline[%s]"):format(tostring(num(record.entry) or "?"))
  end
  local replica = text(action.replica)
  return name .. (replica and " " .. (replica == "*" and "all" or replica) or "")
end

local function seconds_of(record)
  local from, to = num(record.begin_ns), num(record.end_ns)
  return from and to and (to - from) / 1e9
end

local function time(x)
  return num(x) and { figure(x * 1e3) } or { "—", mark = "dim" }
end

local function span_row(head, span)
  local ttft, itl, failed = object(span.ttft), object(span.itl), num(span.failed) or 0
  return { "", head, quantity(span.seconds, "s"), count(span.requests),
    { failed > 0 and count(failed) or "", mark = failed > 0 and "bad" or nil }, time(ttft.p50),
    time(ttft.p99), time(ttft.mean), time(itl.p50),
    num(span.output_tokens_rate) and figure(span.output_tokens_rate) or "",
    num(span.cached_share) and quantity(span.cached_share, "ratio") or { "—", mark = "dim" } }
end

local function add_spans(rows, record)
  for _, name in ipairs(SPANS) do
    local span = object(record[name])
    if num(span.seconds) then
      rows[#rows + 1] = span_row(name, span)
      for _, id in ipairs(words.sorted_keys(object(span.replicas))) do
        local part = object(span.replicas[id])
        part.seconds = span.seconds
        rows[#rows + 1] = span_row(name .. ", " .. id, part)
      end
    end
  end
end

local function empty_row(at, what)
  return { at, what, "", "", "", "", "", "", "", "", "" }
end

--- The section; no rows where nothing was done.
function timeline.section(summary)
  local rows, notes, shown, more = {}, {}, 0, 0
  for _, record in ipairs(object(summary.timeline)) do
    record = object(record)
    local state, lasted = text(record.state), seconds_of(record)
    local wrong = STATES[state] and (text(record.error) and state == "failed" and "failed: " .. record.error
      or STATES[state])
    local by = text(record.by)
    shown = shown + 1
    if shown > MOST_ACTIONS and not wrong then
      more = more + 1
    else
      local at = num(record.at_s) and quantity(record.at_s, "s") or "—"
      local row = empty_row(at, title(record))
      row[3] = lasted and quantity(lasted, "s") or ""
      rows[#rows + 1] = row
      if wrong then
        rows[#rows + 1] = empty_row("", { wrong, mark = "bad" })
      end
      if by and by ~= "timeline" then
        rows[#rows + 1] = empty_row("", { "by " .. by, mark = "dim" })
      end
      add_spans(rows, record)
    end
  end
  if more > 0 then
    notes[#notes + 1] = ("%s more are in summary.json, timeline."):format(counted(more, "action"))
  end
  if #rows > 0 then
    notes[#notes + 1] = "Times count from the start of the measured window. Requests belong to the span in "
      .. "which they started, failures to that in which they ended."
  end
  return {
    title = "What was done to the fleet",
    head = { "at", "what", "for", "requests", "failed", "ttft p50, ms", "p99", "mean", "itl p50, ms",
      "tokens/s", "cached share" },
    align = "rlrrrrrrrrr",
    flexible = 2,
    optional = { 9, 7, 10 },
    rows = rows,
    notes = notes,
  }
end

return timeline
