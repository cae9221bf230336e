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

local function figure_cell(x, unit)
  return num(x) and quantity(x, unit) or { "—", mark = "dim" }
end

local function point_row(doc, point)
  local row = { { shown(point.point) } }
  for _, axis in ipairs(object(doc.axes)) do
    row[#row + 1] = shown(at(point, "values", axis.name))
  end
  local m, met, of = object(point.metrics), met_of(point)
  local failed = num(at(point, "requests", "failed"))
  local cells = {
    point.sessions and ended(point.sessions) or "",
    point.requests and ended(point.requests) or "",
    failed and { count(failed), mark = failed > 0 and "bad" or nil } or "",
    figure_cell(at(m, "cached_ratio", "mean"), "ratio"),
    figure_cell(at(m, "ttft", "p50"), "s"),
    figure_cell(at(m, "ttft", "p95"), "s"),
    figure_cell(at(m, "tpot", "mean"), "s"),
    figure_cell(at(point, "throughput", "requests_per_s"), "1/s"),
    figure_cell(at(point, "throughput", "output_tokens_per_s"), "tokens/s"),
    num(at(m, "goodput", "share")) and quantity(m.goodput.share, "ratio") or "",
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

local function points_table(doc)
  local rows, notes, points, refused = {}, {}, object(doc.points), {}
  for i, point in ipairs(points) do
    if i > MAX_ROWS then
      notes[1] = ("… and %d more in sweep.json."):format(#points - MAX_ROWS)
      break
    end
    rows[i] = point_row(doc, point)
    for _, p in ipairs { "p50", "p95" } do
      local ttft = object(at(point, "metrics", "ttft"))
      if (num(ttft.n) or 0) > 0 and not num(ttft[p]) then
        refused[p] = p == "p50" and 10 or 100
      end
    end
  end
  notes[#notes + 1] = next(refused) and words.refusal_note(refused) or nil
  local head, align = { "point" }, "r"
  for _, axis in ipairs(object(doc.axes)) do
    head[#head + 1], align = axis.name, align .. (axis.kind == "route" and "l" or "r")
  end
  local first = #head
  for _, name in ipairs { "sessions", "requests", "failed", "cached_ratio mean", "ttft p50", "ttft p95",
    "tpot", "requests/s", "output", "goodput", "met", "" } do
    head[#head + 1] = name
  end
  return without_empty { title = "Points", head = head, align = align .. "rrrrrrrrrrrl", rows = rows,
    notes = notes, optional = { first + 9, first + 1, first + 8, first + 7, first + 2, first + 6 } }
end

-- ---- grids ----

local MAX_COLUMNS = 8
local GRIDS = { { "cached_ratio", "mean", "ratio" }, { "ttft", "p50", "s" }, { "ttft", "mean", "s" } }

-- A point's values but the last axis's, as one text.
local function row_key(doc, point)
  local parts = {}
  for i = 1, #doc.axes - 1 do
    parts[i] = shown(at(point, "values", doc.axes[i].name))
  end
  return table.concat(parts, "\0"), parts
end

-- One figure with the last axis across; nil where there is nothing to compare.
local function grid(doc, metric, stat, unit)
  local axes = object(doc.axes)
  local last = axes[#axes]
  if #axes < 2 or #last.values < 2 or #last.values > MAX_COLUMNS then
    return nil
  end
  local column, rows, row_of, said = {}, {}, {}, 0
  for i, value in ipairs(last.values) do
    column[shown(value)] = i
  end
  for _, point in ipairs(object(doc.points)) do
    local key, parts = row_key(doc, point)
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
      row[#axes - 1 + column[shown(at(point, "values", last.name))]] = quantity(x, unit)
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
    said = said }
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

local function troubles_table(doc)
  local rows = {}
  for _, point in ipairs(object(doc.points)) do
    local status = num(point.status) or 1
    if status ~= 0 and status ~= 99 and #rows < MAX_ROWS then
      rows[#rows + 1] = { shown(point.point), { shown(status), mark = "bad" }, text(point.reason) or "" }
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
  -- A median where all points have one, else the mean: a grid compares like with like.
  local median, mean = grid(doc, table.unpack(GRIDS[2])), grid(doc, table.unpack(GRIDS[3]))
  add((not mean or median and median.said == mean.said) and median or mean)
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

--- The report for a terminal: at most `width` columns (100), colours only when asked for.
function sweep.terminal(doc, options)
  doc, options = object(doc), object(options)
  local screen = draw.screen(options)
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
