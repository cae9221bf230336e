-- What was done to the fleet during a run (src/out/ROW.md: `timeline`), and what requests were like before,
-- during and after it. Shapes of sections: perigee.report_tables.
local words = require "perigee.report_text"

local num, text, object = words.num, words.text, words.object
local count, counted, figure, quantity = words.count, words.counted, words.figure, words.quantity

local timeline = {}

local SPANS = { "before", "during", "after" }
local MOST_ACTIONS = 12 -- in the table, and behind them as many that went wrong
local STATES = { failed = "failed", cut_off = "cut off by the end of the load",
  not_begun = "not begun: the load ended before" }

-- Fields of an action in the order in which they are told; what is not here has words of its own.
local FIELDS = { "down", "start", "after", "timeout", "blocks", "tokens", "delay", "p", "count",
  "reset_running", "lasts" }

local function shown(value)
  return type(value) == "number" and ("%.12g"):format(value) or tostring(value)
end

local function sum(by_replica)
  local n
  for _, value in pairs(object(by_replica)) do
    n = (n or 0) + (num(value) or 0)
  end
  return n
end

-- What came of it: ": 600 blocks, 212 evicted", ": r3"
local function outcome(action, answer)
  local parts = {}
  if action == "pressure" and sum(answer.blocks) then
    parts[1] = ("%s, %s evicted"):format(counted(sum(answer.blocks), "block"),
      count(sum(answer.evicted_blocks) or 0))
  elseif action == "reset_cache" and #object(answer.reset) > 0 then
    parts[1] = "reset on " .. table.concat(answer.reset, ", ")
  elseif action == "add" and #object(answer.replicas) > 0 then
    parts[1] = table.concat(answer.replicas, ", ")
  end
  for _, id in ipairs(words.sorted_keys(object(answer.refused))) do
    parts[#parts + 1] = ("refused by %s (%s)"):format(id, tostring(answer.refused[id]))
  end
  return #parts > 0 and ": " .. table.concat(parts, "; ") or ""
end

local function share(value)
  return num(value) and ("%.12g %%"):format(value * 100) or tostring(value)
end

-- "restart r1, down 2s", "pressure 30% on all: 600 blocks, 212 evicted", "a function"
local function title(record)
  local action, answer = object(record.action), object(record.answer)
  local name = text(action.action)
  if not name then
    return ("the function of timeline[%s]"):format(tostring(num(record.entry) or "?"))
  end
  local replica = text(action.replica)
  local whom = replica == "*" and "all" or replica
  local said = name
  if action.share ~= nil then
    said = said .. " " .. share(action.share) .. " on " .. (whom or "all")
  else
    said = said .. (whom and " " .. whom or "")
  end
  if text(action.fault) then
    said = said .. (whom and ": " or " on all: ") .. action.fault
  end
  for _, field in ipairs(FIELDS) do
    if action[field] ~= nil and type(action[field]) ~= "table" then
      said = said .. ", " .. field:gsub("_", " ") .. " " .. shown(action[field])
    end
  end
  return said .. outcome(name, answer)
end

-- Whether something else was done to the fleet in a span of `record`: what it shows is not of this alone.
local function is_shared(span, record, all)
  local from, to = num(span.from_ns), num(span.to_ns)
  local own = num(record.entry) and ("timeline[%d]"):format(record.entry)
  for _, other in ipairs(from and to and all or {}) do
    other = object(other)
    local begin = num(other.begin_ns)
    local ours = not text(object(record.action).action) and other.by == own
    local acted = begin and other.state ~= "failed" and text(object(other.action).action)
    if other ~= record and acted and not ours and begin < to and (num(other.end_ns) or to) >= from then
      return true
    end
  end
  return false
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

local function add_spans(rows, record, all)
  local any = false
  for _, name in ipairs(SPANS) do
    local span = object(record[name])
    if num(span.seconds) then
      local shared = is_shared(span, record, all)
      any = any or shared
      rows[#rows + 1] = span_row(name .. (shared and " *" or ""), span)
      for _, id in ipairs(words.sorted_keys(object(span.replicas))) do
        local part = object(span.replicas[id])
        part.seconds = span.seconds
        rows[#rows + 1] = span_row(name .. ", " .. id, part)
      end
    end
  end
  return any
end

local function empty_row(at, what)
  return { at, what, "", "", "", "", "", "", "", "", "" }
end

-- How an action went wrong; nil when it did not.
local function trouble(record)
  local state, why = text(record.state), text(record.error)
  return STATES[state] and (state == "failed" and why and "failed: " .. why or STATES[state])
end

-- Rows of an action. Whether something else was done in one of its spans.
local function add_action(rows, record, all)
  local lasted, wrong, by = seconds_of(record), trouble(record), text(record.by)
  local note = text(object(record.answer).note)
  local row = empty_row(num(record.at_s) and quantity(record.at_s, "s") or "—", title(record))
  row[3] = lasted and quantity(lasted, "s") or ""
  rows[#rows + 1] = row
  rows[#rows + 1] = wrong and empty_row("", { wrong, mark = "bad" })
  rows[#rows + 1] = by and by ~= "timeline" and empty_row("", { "by " .. by, mark = "dim" }) or nil
  rows[#rows + 1] = note and empty_row("", { note, mark = "bad" })
  return add_spans(rows, record, all)
end

-- About the actions that have no row.
local function left_out(more, more_wrong, unrecorded)
  local parts = {}
  if more > 0 then
    parts[1] = ("… and %s more in summary.json, timeline%s."):format(count(more), more_wrong > 0
      and ("; %s of them not done as they should have been"):format(count(more_wrong)) or "")
  end
  if unrecorded > 0 then
    parts[#parts + 1] = ("%s more were done than are recorded there."):format(count(unrecorded))
  end
  return #parts > 0 and table.concat(parts, " ") or nil
end

--- The section; no rows where nothing was done.
function timeline.section(summary)
  local rows, notes, troubles, more, more_wrong, any_shared = {}, {}, 0, 0, 0, false
  local all = object(summary.timeline)
  for i, record in ipairs(all) do
    record = object(record)
    local wrong = trouble(record)
    if i <= MOST_ACTIONS or wrong and troubles < MOST_ACTIONS then
      troubles = troubles + (i > MOST_ACTIONS and 1 or 0)
      any_shared = add_action(rows, record, all) or any_shared
    else
      more, more_wrong = more + 1, more_wrong + (wrong and 1 or 0)
    end
  end
  notes[1] = left_out(more, more_wrong, num(summary.timeline_left_out) or 0)
  if any_shared then
    notes[#notes + 1] = "* Something else was done to the fleet in this span, too."
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
