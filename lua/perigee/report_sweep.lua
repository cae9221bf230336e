-- The report of a sweep, on the terminal and as report.md, from the decoded sweep.json: a line per point,
-- the figures over the last two axes as grids, and how each expectation fared at every point.
local data = require "perigee.report_data"
local draw = require "perigee.report_draw"
local words = require "perigee.report_text"

local num, text, object, at = words.num, words.text, words.object, words.at
local count, quantity = words.count, words.quantity

local sweep = {}

local SIMULATED = "the fleets are perigee's own; their times are a model's, not a GPU's."

local function shown(value)
  if math.type(value) == "float" and math.tointeger(value) then
    value = math.tointeger(value)
  end
  return tostring(value)
end

-- Axes that have more than one value: what a table tells its rows apart by.
local function varying(doc)
  local list = {}
  for _, axis in ipairs(object(doc.axes)) do
    list[#list + 1] = #object(axis.values) > 1 and axis or nil
  end
  return list
end

-- Whether a point's figures are to be believed: it went to its end, and its checks hold.
local function counts(point)
  local status = num(point.status) or 1
  return status == 0 or status == 99
end

local MARK = " *"
local MARKED = "* the point is not valid or did not end by itself: its figures do not count."

local function met_of(point)
  local met, list = 0, object(point.expectations)
  for _, e in ipairs(list) do
    met = met + (e.met == true and 1 or 0)
  end
  return met, #list
end

local STATUS = { [0] = { "✓", mark = "ok" }, [130] = { "stopped", mark = "dim" },
  [98] = { "not valid", mark = "bad" }, [99] = { "✗", mark = "bad" }, [2] = { "refused", mark = "bad" } }

local function ended(group)
  group = object(group)
  local all = 0
  for _, how in ipairs { "ok", "failed", "incomplete", "cancelled" } do
    all = all + (num(group[how]) or 0)
  end
  return count(all)
end

-- A figure; of a point that does not count it is marked.
local function figure_cell(x, unit, point)
  if not num(x) then
    return { "—", mark = "dim" }
  end
  return counts(point) and quantity(x, unit) or { quantity(x, unit) .. MARK, mark = "dim" }
end

local function point_row(axes, point)
  local row = { { shown(point.point) } }
  for _, axis in ipairs(axes) do
    row[#row + 1] = shown(at(point, "values", axis.name))
  end
  local m, met, of = object(point.metrics), met_of(point)
  local failed = num(at(point, "requests", "failed"))
  local cells = {
    point.sessions and ended(point.sessions) or "",
    point.requests and ended(point.requests) or "",
    failed and { count(failed), mark = failed > 0 and "bad" or nil } or "",
    figure_cell(at(m, "cached_ratio", "mean"), "ratio", point),
    figure_cell(at(m, "ttft", "mean"), "s", point),
    figure_cell(at(m, "ttft", "p50"), "s", point),
    figure_cell(at(m, "ttft", "p95"), "s", point),
    figure_cell(at(m, "tpot", "mean"), "s", point),
    figure_cell(at(point, "throughput", "requests_per_s"), "1/s", point),
    figure_cell(at(point, "throughput", "output_tokens_per_s"), "tokens/s", point),
    num(at(m, "goodput", "share")) and figure_cell(m.goodput.share, "ratio", point) or "",
    of > 0 and { ("%d/%d"):format(met, of), mark = met < of and "bad" or "ok" } or "",
    STATUS[num(point.status) or 1] or { "failed", mark = "bad" },
  }
  return table.move(cells, 1, #cells, #row + 1, row)
end

-- The columns that no row has something for go.
local function without_empty(section)
  local keep = {}
  for i in ipairs(section.head) do
    for _, row in ipairs(section.rows) do
      local cell = row[i]
      if (type(cell) == "table" and cell[1] or cell) ~= "" then
        keep[#keep + 1] = i
        break
      end
    end
  end
  local function pick(list)
    local picked = {}
    for k, i in ipairs(keep) do
      picked[k] = list[i]
    end
    return picked
  end
  local optional = {}
  for _, i in ipairs(section.optional) do
    for k, kept in ipairs(keep) do
      optional[#optional + 1] = kept == i and k or nil
    end
  end
  local align = {}
  for k, i in ipairs(keep) do
    align[k] = section.align:sub(i, i)
  end
  local rows = {}
  for i, row in ipairs(section.rows) do
    rows[i] = pick(row)
  end
  return setmetatable({ head = pick(section.head), align = table.concat(align), rows = rows,
    optional = optional }, { __index = section })
end

local MAX_ROWS = 200

-- Of a table's cells, whether one is marked.
local function is_marked(rows)
  for _, row in ipairs(rows) do
    for _, cell in ipairs(row) do
      if type(cell) == "table" and cell[1]:sub(-#MARK) == MARK then
        return true
      end
    end
  end
  return false
end

local function points_table(doc)
  local rows, notes, points, refused, axes = {}, {}, object(doc.points), {}, varying(doc)
  for i, point in ipairs(points) do
    if i > MAX_ROWS then
      notes[1] = ("… and %d more in sweep.json."):format(#points - MAX_ROWS)
      break
    end
    rows[i] = point_row(axes, point)
    for _, p in ipairs { "p50", "p95" } do
      local ttft = object(at(point, "metrics", "ttft"))
      if (num(ttft.n) or 0) > 0 and not num(ttft[p]) then
        refused[p] = p == "p50" and 10 or 100
      end
    end
  end
  notes[#notes + 1] = next(refused) and words.refusal_note(refused) or nil
  notes[#notes + 1] = is_marked(rows) and MARKED or nil
  local head, align = { "point" }, "r"
  for _, axis in ipairs(axes) do
    head[#head + 1], align = axis.name, align .. (axis.kind == "route" and "l" or "r")
  end
  local first = #head
  for _, name in ipairs { "sessions", "requests", "failed", "cached_ratio mean", "ttft mean", "ttft p50",
    "ttft p95", "tpot", "requests/s", "output", "goodput", "met", "" } do
    head[#head + 1] = name
  end
  return without_empty { title = "Points", head = head, align = align .. "rrrrrrrrrrrrl", rows = rows,
    counts_out = true, notes = notes,
    optional = { first + 10, first + 1, first + 9, first + 8, first + 2, first + 7 } }
end

-- ---- grids ----

local MAX_COLUMNS = 8
local GRIDS = { { "cached_ratio", "mean", "ratio" }, { "ttft", "mean", "s" }, { "ttft", "p50", "s" } }

-- A point's values but the last axis's, as one text.
local function row_key(axes, point)
  local parts = {}
  for i = 1, #axes - 1 do
    parts[i] = shown(at(point, "values", axes[i].name))
  end
  return table.concat(parts, "\0"), parts
end

-- One figure with the last axis that varies across; nil where there is nothing to compare.
local function grid(doc, metric, stat, unit)
  local axes = varying(doc)
  local last = axes[#axes]
  if #axes < 2 or #last.values > MAX_COLUMNS then
    return nil
  end
  local column, rows, row_of, said = {}, {}, {}, 0
  for i, value in ipairs(last.values) do
    column[shown(value)] = i
  end
  for _, point in ipairs(object(doc.points)) do
    local key, parts = row_key(axes, point)
    local row = row_of[key]
    if not row then
      row = parts
      for _ = 1, #last.values do
        row[#row + 1] = { "—", mark = "dim" }
      end
      row_of[key], rows[#rows + 1] = row, row
    end
    local x = num(at(point, "metrics", metric, stat))
    if x then
      row[#axes - 1 + column[shown(at(point, "values", last.name))]] = figure_cell(x, unit, point)
      said = said + 1
    end
  end
  if said < 2 or #rows > MAX_ROWS then
    return nil
  end
  local head, align = {}, ("r"):rep(#axes - 1 + #last.values)
  for i = 1, #axes - 1 do
    head[i] = axes[i].name
  end
  for i, value in ipairs(last.values) do
    head[#axes - 1 + i] = last.kind == "route" and shown(value) or ("%s %s"):format(last.name, shown(value))
  end
  return { title = ("%s %s by %s"):format(metric, stat, last.name), head = head, align = align, rows = rows,
    said = said, notes = { is_marked(rows) and MARKED or nil }, counts_out = true }
end

-- ---- expectations ----

local MAX_NAMED = 12

local function not_met_at(e)
  local list, named = object(e.not_met_at), {}
  for i = 1, math.min(#list, MAX_NAMED) do
    named[i] = shown(list[i])
  end
  if #list > MAX_NAMED then
    named[#named + 1] = ("… and %d more"):format(#list - MAX_NAMED)
  end
  return table.concat(named, ", ")
end

-- The values an expectation had where it was not met, from the first such point.
local function first_value(doc, index, e)
  local number = object(e.not_met_at)[1]
  for _, point in ipairs(object(doc.points)) do
    if number and point.point == number then
      local one = object(object(point.expectations)[index])
      local reason = text(one.reason)
      return reason and reason ~= "" and reason
        or ("%s at point %s"):format(text(one.shown) or quantity(one.value), shown(number))
    end
  end
  return ""
end

local function expectations_table(doc)
  local rows = {}
  for i, e in ipairs(object(doc.expectations)) do
    local met, of = num(e.met) or 0, num(e.of) or 0
    local all = of > 0 and met == of
    rows[i] = { { all and "✓" or "✗", mark = all and "ok" or "bad" },
      { text(e.text) or "a function", code = true }, ("%d of %d"):format(met, of),
      of == 0 and "judged at no point" or all and "" or not_met_at(e), all and "" or first_value(doc, i, e) }
  end
  return { title = "Expectations at every point", align = "llrll", rows = rows, flexible = 5, wraps = 4,
    head = { "", "expectation", "met at", "not met at", "the first" } }
end

-- ---- what was done to the fleet ----

local MOST_TABLES = 8
local SPANS = { "before", "during", "after" }

-- Of a span of an action the figures of the one replica in question, where there is one, else of all.
local function span_of(record, name)
  local span = object(record[name])
  local replicas = object(span.replicas)
  local ids = words.sorted_keys(replicas)
  return #ids == 1 and object(replicas[ids[1]]) or span, #ids == 1 and ids[1] or nil
end

local function action_name(record)
  local action = object(record.action)
  local replica = text(action.replica)
  return ("%s%s at %s"):format(text(action.action) or ("the function of timeline[%s]"):format(
    shown(record.entry)), replica and " " .. (replica == "*" and "all" or replica) or "",
    quantity(num(record.at_s) or 0, "s"))
end

-- Cells of an action at a point, and the replica they are of; nil: of all.
local function action_cells(record, point)
  local failed, id = num(span_of(record, "during").failed), nil
  local cells = { failed and { count(failed), mark = failed > 0 and "bad" or nil } or { "—", mark = "dim" } }
  for _, figure in ipairs { { "cached_share", "ratio" }, { "ttft_mean", "s" } } do
    for _, name in ipairs(SPANS) do
      local span, replica = span_of(record, name)
      id = id or replica
      cells[#cells + 1] = figure_cell(span[figure[1]], figure[2], point)
    end
  end
  return cells, id
end

-- Whether all of the list are the same; then which.
local function common(list)
  for i = 2, #list do
    if list[i] ~= list[1] then
      return false
    end
  end
  return true, list[1]
end

-- One action of the plan over the points: requests before, during and after it.
local function action_table(doc, index)
  local axes, rows, names, whose = varying(doc), {}, {}, {}
  for i, point in ipairs(object(doc.points)) do
    local record = object(object(point.timeline)[index])
    if i <= MAX_ROWS and record.state then
      local row = { { shown(point.point) } }
      for _, axis in ipairs(axes) do
        row[#row + 1] = shown(at(point, "values", axis.name))
      end
      local cells, id = action_cells(record, point)
      rows[#rows + 1] = row
      names[#rows], whose[#rows] = action_name(record), id or ""
      row[#row + 1] = names[#rows]
      table.move(cells, 1, #cells, #row + 1, row)
    end
  end
  local head, align = { "point" }, "r"
  for _, axis in ipairs(axes) do
    head[#head + 1], align = axis.name, align .. (axis.kind == "route" and "l" or "r")
  end
  for _, name in ipairs { "what", "failed during", "cached share before", "during", "after", "ttft before",
    "during", "after" } do
    head[#head + 1], align = name, align .. (name == "what" and "l" or "r")
  end
  local same, name = common(names)
  for _, row in ipairs(same and rows or {}) do
    row[#axes + 2] = "" -- the title says it
  end
  local one, id = common(whose)
  local title = ("%s, %s"):format(same and name or ("Action %d at each point"):format(index),
    not one and "requests of its replica" or id ~= "" and "requests of " .. id or "all requests")
  return without_empty { title = title, head = head, align = align, rows = rows, counts_out = true,
    optional = {}, wraps = not same and #axes + 2 or nil, notes = { is_marked(rows) and MARKED or nil } }
end

local function action_tables(doc)
  local most, list = 0, {}
  for _, point in ipairs(object(doc.points)) do
    most = math.max(most, #object(point.timeline))
  end
  for i = 1, math.min(most, MOST_TABLES) do
    list[i] = action_table(doc, i)
  end
  if most > MOST_TABLES then
    local notes = list[MOST_TABLES].notes
    notes[#notes + 1] = ("… and %d more actions: each point's folder has them."):format(most - MOST_TABLES)
  end
  return list
end

-- ---- points that did not go well ----

-- What a check that does not hold found.
local function broken_text(check)
  local figure = num(check.figure)
  local limit = num(check.limit)
  return ("%s%s%s"):format(text(check.name) or "?", figure and limit and (" (%s, limit %s)"):format(
    quantity(figure, text(check.unit)), quantity(limit, text(check.unit))) or "",
    (text(check.note) or text(check.meaning)) and ": " .. (text(check.note) or text(check.meaning)) or "")
end

local function why(point)
  local parts = { text(point.reason) }
  for _, check in ipairs(object(point.broken)) do
    parts[#parts + 1] = broken_text(object(check))
  end
  return table.concat(parts, "; ")
end

local function troubles_table(doc)
  local rows = {}
  for _, point in ipairs(object(doc.points)) do
    local status = num(point.status) or 1
    if status ~= 0 and status ~= 99 and #rows < MAX_ROWS then
      rows[#rows + 1] = { shown(point.point), { shown(status), mark = "bad" }, why(point) }
    end
  end
  return { title = "Points that did not go well", head = { "point", "status", "why" }, align = "rrl",
    rows = rows, flexible = 3 }
end

--- Every table that has a row, in order.
function sweep.sections(doc)
  doc = object(doc)
  local list = {}
  local function add(section)
    if section and #section.rows > 0 then
      list[#list + 1] = section
    end
  end
  add(expectations_table(doc))
  add(points_table(doc))
  add(grid(doc, table.unpack(GRIDS[1])))
  local mean, median = grid(doc, table.unpack(GRIDS[2])), grid(doc, table.unpack(GRIDS[3]))
  add(mean)
  -- A median where all points have one: a grid compares like with like.
  add(median and (not mean or median.said == mean.said) and median or nil)
  for _, section in ipairs(action_tables(doc)) do
    add(section)
  end
  add(troubles_table(doc))
  return list
end

local function banner(doc)
  local list = {}
  for _, line in ipairs(object(doc.banner)) do
    if line.name ~= "sweep" then
      list[#list + 1] = { tostring(line.name), tostring(line.value) }
    end
  end
  for _, axis in ipairs(object(doc.axes)) do
    local values = {}
    for i, value in ipairs(object(axis.values)) do
      values[i] = i <= 40 and shown(value) or nil
    end
    list[#list + 1] = { "over", ("%s: %s%s"):format(axis.name, table.concat(values, ", "),
      #object(axis.values) > 40 and ", …" or "") }
  end
  return list
end

local FILES = {
  { "sweep.json", "axes, points with their values and figures, expectations" },
  { "report.md", "this report" },
  { "NN-…/", "a folder per point, as an ordinary run leaves it" },
}

-- Commands and facts of whoever wants the same again; copies of the scripts are the points'.
local function again(doc)
  local list = data.again(doc)
  for _, item in ipairs(list) do
    item[2] = item[2]:gsub("copies in scripts/", "copies in each point's scripts/")
  end
  if list[1] and list[1][1] == "command" then
    table.insert(list, 2, { "one point", "the same with --point N" })
  end
  return list
end

local function verdict(doc)
  local word, style, reason, status = data.verdict(doc)
  return word, style, status and status ~= 0 and ("%s (exit status %d)"):format(reason, status) or reason
end

--- The report for a terminal: at most `width` columns (100 when not said), colours only when asked for.
function sweep.terminal(doc, options)
  doc, options = object(doc), object(options)
  local screen = draw.screen(options, true)
  screen:verdict(verdict(doc))
  if doc.simulated == true then
    screen:add(screen:paint("Simulated:", "warn") .. " " .. SIMULATED)
  end
  screen:pairs(banner(doc))
  for _, section in ipairs(sweep.sections(doc)) do
    screen:section(section)
  end
  screen:list("To run it again", again(doc))
  if text(doc.path) then
    screen:list("Files  " .. draw.cut(words.clean(doc.path), screen.width - 8) .. "/",
      draw.present(FILES, options.present))
  end
  return screen:text()
end

--- The report as Markdown, for report.md.
function sweep.markdown(doc)
  doc = object(doc)
  local out = {}
  local function add(form, ...)
    out[#out + 1] = form and form:format(...) or ""
  end
  add("# %s", draw.escape(text(doc.name) or text(doc.scenario) or "sweep"))
  add()
  local word, _, reason = verdict(doc)
  add("**%s** — %s", word, draw.escape(reason))
  add()
  if doc.simulated == true then
    add("> **Simulated:** %s", SIMULATED)
    add()
  end
  if text(doc.started) then
    add("Sweep %s, started %s%s.", draw.code(text(doc.id) or "?"), draw.escape(doc.started),
      num(doc.duration_s) and ", took " .. quantity(doc.duration_s, "s") or "")
    add()
  end
  draw.pairs(out, banner(doc))
  for _, section in ipairs(sweep.sections(doc)) do
    add()
    add("## %s", section.title)
    add()
    draw.table(out, section)
    for _, note in ipairs(section.notes or {}) do
      add()
      add("%s", draw.escape(note))
    end
  end
  add()
  add "## To run it again"
  add()
  local list = again(doc)
  if list[1] and list[1][1] == "command" then
    draw.fenced(out, table.remove(list, 1)[2])
    add()
  end
  draw.pairs(out, list)
  add()
  add "## Files"
  add()
  for i = 1, 2 do
    add("- %s: %s", draw.code(FILES[i][1]), FILES[i][2])
  end
  for i, point in ipairs(object(doc.points)) do
    if text(point.folder) and i <= MAX_ROWS then
      add("- %s: point %s", draw.code(point.folder .. "/"), shown(point.point))
    end
  end
  return table.concat(out, "\n") .. "\n"
end

return sweep
