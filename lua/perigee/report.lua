-- The report of a run, on the terminal and as report.md: plain functions from the decoded run.json
-- and summary.json (src/out/ROW.md) to text. perigee.report_data says what is in it. Text from
-- outside, such as a server's error message, is cleaned for the place it goes to.
local data = require "perigee.report_data"
local words = require "perigee.report_text"

local report = {}

local num, text, object, clean = words.num, words.text, words.object, words.clean

local SIMULATED = "the fleet is perigee's own; its times are a model's, not a GPU's."

-- ---- terminal ----

local SGR = { ok = "32", bad = "31", warn = "33", dim = "2", bold = "1", title = "1;36", invalid = "1;97;41" }

-- Columns a text takes; what is not valid UTF-8 counts by bytes.
local function columns(s)
  return utf8.len(s) or #s
end

-- The first n columns.
local function cut(s, n)
  if columns(s) <= n then
    return s
  end
  local stop = utf8.len(s) and utf8.offset(s, n) or n
  return s:sub(1, stop - 1) .. "…"
end

-- Lines of at most `width` columns, broken between words where possible. What a terminal would obey
-- is gone from them.
local function wrap(s, width)
  s = clean(s)
  width = math.max(width, 8)
  local lines, line = {}, ""
  for word in s:gmatch "%S+" do
    while columns(word) > width do -- a word that fits no line, such as a path or a URL
      if line ~= "" then
        lines[#lines + 1] = line
        line = ""
      end
      local stop = utf8.len(word) and utf8.offset(word, width + 1) or width + 1
      lines[#lines + 1] = word:sub(1, stop - 1)
      word = word:sub(stop)
    end
    if line == "" then
      line = word
    elseif columns(line) + 1 + columns(word) <= width then
      line = line .. " " .. word
    else
      lines[#lines + 1] = line
      line = word
    end
  end
  if line ~= "" or #lines == 0 then
    lines[#lines + 1] = line
  end
  return lines
end

local Screen = {}
Screen.__index = Screen

function Screen:paint(s, style)
  return self.color and SGR[style] and s ~= "" and ("\27[%sm%s\27[0m"):format(SGR[style], s) or s
end

function Screen:add(line)
  self.lines[#self.lines + 1] = line or ""
end

-- { name, value } lines, values wrapped.
function Screen:pairs(list)
  local indent = 0
  for _, item in ipairs(list) do
    indent = math.max(indent, columns(item[1]))
  end
  for _, item in ipairs(list) do
    for i, line in ipairs(wrap(item[2], self.width - indent - 4)) do
      local name = i == 1 and item[1] or ""
      self:add("  " .. self:paint(name .. (" "):rep(indent - columns(name)), "dim") .. "  " .. line)
    end
  end
end

local function cell_text(cell)
  return clean(type(cell) == "table" and cell[1] or tostring(cell))
end

local function pad(s, width, align)
  local space = (" "):rep(width - columns(s))
  return align == "r" and space .. s or s .. space
end

-- Columns the widest cell of each column takes.
local function natural_widths(section)
  local widths = {}
  for i, name in ipairs(section.head) do
    widths[i] = columns(name)
    for _, row in ipairs(section.rows) do
      widths[i] = math.max(widths[i], columns(cell_text(row[i] or "")))
      local sub = type(row[i]) == "table" and row[i].sub
      widths[i] = math.max(widths[i], sub and columns(sub) or 0)
    end
  end
  return widths
end

local function excess(widths, limit)
  local total = 0
  for _, width in ipairs(widths) do
    total = total + (width > 0 and width + 2 or 0)
  end
  return total - limit
end

-- Whether a column has nothing to say in any row.
local function is_blank(section, i)
  for _, row in ipairs(section.rows) do
    local s = cell_text(row[i] or "")
    if s ~= "" and s ~= "—" then
      return false
    end
  end
  return true
end

-- Widths that fit the screen: columns of dashes go (0), then the optional ones, then the flexible one
-- gives way, then the widest text columns are cut.
function Screen:column_widths(section)
  local widths = natural_widths(section)
  for i = #widths, 2, -1 do
    if section.optional and excess(widths, self.width) > 0 and is_blank(section, i) then
      widths[i] = 0
    end
  end
  for _, i in ipairs(section.optional or {}) do
    if excess(widths, self.width) > 0 then
      widths[i] = 0
    end
  end
  local i = section.flexible
  if i then
    widths[i] = math.max(math.min(widths[i], 20), widths[i] - math.max(0, excess(widths, self.width)))
  end
  while excess(widths, self.width) > 0 do
    local widest
    for k, width in ipairs(widths) do
      if section.align:sub(k, k) == "l" and width > 6 and (not widest or width > widths[widest]) then
        widest = k
      end
    end
    if not widest then
      break
    end
    widths[widest] = widths[widest] - 1
  end
  return widths
end

-- One line of a table: pick(i) gives a column's text and style. No line is wider than the screen.
function Screen:line(section, widths, pick)
  local cells, used = {}, 0
  for i, width in ipairs(widths) do
    if width > 0 and used + width + 2 <= self.width then
      local s, style = pick(i)
      cells[#cells + 1] = { text = cut(s, width), style = style, width = width,
        align = section.align:sub(i, i) }
      used = used + width + 2
    end
  end
  while #cells > 0 and cells[#cells].text == "" do
    cells[#cells] = nil
  end
  for i, cell in ipairs(cells) do
    local last = i == #cells and cell.align == "l"
    cells[i] = self:paint(last and cell.text or pad(cell.text, cell.width, cell.align), cell.style)
  end
  self:add("  " .. table.concat(cells, "  "))
end

function Screen:row(section, widths, row)
  local wrapped, height, subs = {}, 1, false
  for _, i in ipairs { section.flexible, section.wraps } do
    wrapped[i] = wrap(cell_text(row[i] or ""), widths[i])
    height = math.max(height, #wrapped[i])
  end
  self:line(section, widths, function(i)
    local cell = row[i] or ""
    local is_table = type(cell) == "table"
    subs = subs or is_table and cell.sub ~= nil
    return wrapped[i] and wrapped[i][1] or cell_text(cell), is_table and cell.mark or nil
  end)
  for k = 2, height do
    self:line(section, widths, function(i)
      return wrapped[i] and wrapped[i][k] or ""
    end)
  end
  if subs then
    self:line(section, widths, function(i)
      return type(row[i]) == "table" and row[i].sub or "", "dim"
    end)
  end
end

-- A title and { name, value } lines under it.
function Screen:list(title, list)
  if #list > 0 then
    self:add()
    self:add(self:paint(title, "title"))
    self:pairs(list)
  end
end

-- The rows to be read, and a line that counts the others, which say that all is well.
local function folded(section)
  local rows, good, unknown = {}, 0, 0
  for _, row in ipairs(section.rows) do
    if row[1].mark == "bad" then
      rows[#rows + 1] = row
    elseif row[1].mark == "ok" then
      good = good + 1
    else
      unknown = unknown + 1
    end
  end
  local parts = {}
  if good > 0 then
    parts[1] = ("✓ %d %s"):format(good, good == 1 and "check holds" or "checks hold")
  end
  if unknown > 0 then
    parts[#parts + 1] = ("%d not measured"):format(unknown)
  end
  return rows, table.concat(parts, " · ") .. (#parts > 0 and "; report.md has each, with what it says" or "")
end

function Screen:section(section)
  if section.folds then
    local rows, line = folded(section)
    if #rows == 0 then
      self:add()
      self:add(self:paint(section.title, "title"))
      for _, note in ipairs { line, section.aside } do
        for i, part in ipairs(wrap(note, self.width - 4)) do
          self:add((i == 1 and "  " or "    ") .. part)
        end
      end
      return
    end
    local notes = { line ~= "" and line or nil }
    notes[#notes + 1] = section.aside
    section = setmetatable({ rows = rows, notes = notes }, { __index = section })
  end
  self:add()
  self:add(self:paint(section.title, "title"))
  local widths = self:column_widths(section)
  self:line(section, widths, function(i)
    return section.head[i], "dim"
  end)
  for _, row in ipairs(section.rows) do
    self:row(section, widths, row)
  end
  for _, note in ipairs(section.notes or {}) do
    for i, line in ipairs(wrap(note, self.width - 4)) do
      self:add(self:paint((i == 1 and "  " or "    ") .. line, "dim"))
    end
  end
end

--- The report for a terminal: at most `width` columns (100), colours only when asked for.
function report.terminal(run, summary, options)
  run, summary, options = object(run), object(summary), object(options)
  local width = math.max(40, math.min(num(options.width) or 100, 100))
  local screen = setmetatable({ lines = {}, width = width, color = options.color == true }, Screen)
  local word, style, reason, status = data.verdict(summary)
  if status and status ~= 0 then
    reason = ("%s (exit status %d)"):format(reason, status)
  end
  local said = summary.valid == false and status == 98
  local first = said and data.script_failed(summary)
  if first then
    for i, line in ipairs(wrap(first, width - 8)) do
      screen:add((i == 1 and screen:paint("FAILED", "bad") or (" "):rep(6)) .. "  " .. line)
    end
    screen:add()
  end
  -- A run that went wrong otherwise says that first: it may be why the measurement is not valid.
  local leads = not said and (status == 1 or status == 2)
  local function add_verdict()
    for i, line in ipairs(wrap(reason, width - columns(word) - 2)) do
      screen:add((i == 1 and screen:paint(word, style) or (" "):rep(columns(word))) .. "  " .. line)
    end
    screen:add()
  end
  if leads then
    add_verdict()
  end
  if summary.valid == false then
    screen:add(("%s the measurement itself cannot be trusted%s:"):format(
      screen:paint(" INVALID ", "invalid"), said and " (exit status 98)" or ""))
    for _, why in ipairs(data.broken_checks(summary)) do
      for i, line in ipairs(wrap(why, width - 4)) do
        screen:add((i == 1 and "  " or "    ") .. screen:paint(line, "bad"))
      end
    end
    for _, what in ipairs(data.advice(summary)) do
      for _, line in ipairs(wrap(what, width - 2)) do
        screen:add("  " .. line)
      end
    end
    screen:add()
  end
  if not said and not leads then
    add_verdict()
  end
  if data.simulated(run, summary) then
    for i, line in ipairs(wrap(SIMULATED, width - 11)) do
      screen:add((i == 1 and screen:paint("Simulated:", "warn") or (" "):rep(10)) .. " " .. line)
    end
  end
  screen:pairs(data.banner(run, summary))
  screen:add()
  screen:pairs(data.facts(summary))
  for _, section in ipairs(data.sections(summary, run)) do
    screen:section(section)
  end
  local look = {}
  for i, step in ipairs(data.next_steps(run, summary)) do
    look[i] = step[1]
  end
  if #look > 0 then
    local commands = "has the commands for " .. table.concat(look, ", ")
    screen:list("Where to look next", { { "report.md", commands } })
  end
  screen:list("To run it again", data.again(run))
  if text(run.path) then
    screen:add()
    screen:add(screen:paint("Files", "title") .. "  " .. cut(clean(run.path), width - 8) .. "/")
    local names = {}
    for i, file in ipairs(data.files) do
      names[i] = { file[1], file[2] }
    end
    screen:pairs(names)
    screen:add()
    screen:add(screen:paint(said and "INVALID" or word, style)
      .. (status and status ~= 0 and (" (exit status %d)"):format(status) or ""))
  end
  return table.concat(screen.lines, "\n") .. "\n"
end

-- ---- markdown ----

-- An underscore inside a word is only an underscore.
local function escape(s)
  s = clean(s)
  return (s:gsub("()([\\`*_%[%]|~&<$])", function(place, c)
    if c == "&" then
      return s:find("^&[%w#]", place) and "&amp;" or "&"
    elseif c == "<" then -- before a blank or a digit it begins no tag
      return s:find("^<[ %d]", place) and "<" or "&lt;"
    elseif c == "_" and s:find("^%w_%w", place - 1) then
      return "_"
    end
    return "\\" .. c
  end))
end

-- A text of our own, whose `names` are code.
local function prose(s)
  local parts = {}
  for before, name in (s .. "``"):gmatch "([^`]*)`([^`]*)`" do
    parts[#parts + 1] = escape(before) .. (name ~= "" and "`" .. name .. "`" or "")
  end
  return table.concat(parts)
end

-- In a table a bar would end the cell even inside a code span.
local function code(s, in_table)
  s = clean(s):gsub("`", "'")
  if s:find "^%s*$" then
    return ""
  end
  return "`" .. (in_table and s:gsub("|", "\\|") or s) .. "`"
end

local function markdown_cell(cell)
  if type(cell) ~= "table" then
    return escape((tostring(cell):gsub("^%s+", "")))
  elseif cell.code then
    return code(cell[1], true)
  end
  return escape((cell[1]:gsub("^%s+", ""))) .. (cell.range and (" (%s)"):format(cell.range) or "")
end

local function markdown_table(out, section)
  local line = {}
  for i, name in ipairs(section.head) do
    line[i] = escape(name)
  end
  out[#out + 1] = "| " .. table.concat(line, " | ") .. " |"
  for i in ipairs(section.head) do
    line[i] = section.align:sub(i, i) == "r" and "---:" or "---"
  end
  out[#out + 1] = "| " .. table.concat(line, " | ") .. " |"
  for _, row in ipairs(section.rows) do
    for i in ipairs(section.head) do
      line[i] = markdown_cell(row[i] or "")
    end
    out[#out + 1] = "| " .. table.concat(line, " | ") .. " |"
  end
end

local function markdown_pairs(out, list)
  for _, item in ipairs(list) do
    out[#out + 1] = ("- **%s:** %s"):format(escape(item[1]), escape(item[2]))
  end
end

-- What the metrics of the headline table mean, for readers who were not there.
local function glossary(out, summary, run)
  out[#out + 1] = ""
  out[#out + 1] = "## What the words mean"
  out[#out + 1] = ""
  for _, line in ipairs(data.glossary(summary, run)) do
    out[#out + 1] = ("- %s: %s"):format(code(line[1]), escape(line[2]))
  end
  for _, line in ipairs(data.terms(summary)) do
    out[#out + 1] = ("- *%s*: %s"):format(escape(line[1]), prose(line[2]))
  end
  local infinity = "."
  for _, metric in pairs(object(summary.as_infinity)) do
    if (num(metric.failed) or 0) + (num(metric.incomplete) or 0) > 0 then
      infinity = ", and *no answer = ∞* counts each as one that was never answered."
    end
  end
  out[#out + 1] = "- Percentiles interpolate linearly over all samples; one is not given below 5/(1 − p) "
    .. "samples. Requests that failed or never ended have no latency: they stand beside it" .. infinity
end

local function fenced(out, command)
  out[#out + 1] = "```sh"
  out[#out + 1] = clean(command):gsub("```+", "'")
  out[#out + 1] = "```"
end

local function look_next(out, run, summary)
  local steps = data.next_steps(run, summary)
  if #steps == 0 then
    return
  end
  out[#out + 1] = ""
  out[#out + 1] = "## Where to look next"
  for _, step in ipairs(steps) do
    out[#out + 1] = ""
    out[#out + 1] = step[1]:sub(1, 1):upper() .. step[1]:sub(2) .. ":"
    out[#out + 1] = ""
    fenced(out, step[2])
  end
end

local function run_again(out, run)
  local list = data.again(run)
  if #list == 0 then
    return
  end
  out[#out + 1] = ""
  out[#out + 1] = "## To run it again"
  out[#out + 1] = ""
  if list[1][1] == "command" then
    fenced(out, table.remove(list, 1)[2])
    out[#out + 1] = ""
  end
  markdown_pairs(out, list)
end

local function title(run)
  local name = text(run.name) or text(run.label) or text(run.scenario) or "run"
  return ("# %s"):format(escape(name))
end

--- The report as Markdown, for report.md.
function report.markdown(run, summary)
  run, summary = object(run), object(summary)
  local out = {}
  local function add(line)
    out[#out + 1] = line or ""
  end
  add(title(run))
  add()
  local word, _, reason, status = data.verdict(summary)
  local said = summary.valid == false and status == 98
  local first = said and data.script_failed(summary)
  if first then
    add("**FAILED** — " .. escape(first))
    add()
  end
  local leads = not said and (status == 1 or status == 2)
  local function add_verdict()
    add(("**%s**%s%s"):format(word, reason ~= "" and " — " .. escape(reason) or "",
      status and status ~= 0 and (" (exit status %d)"):format(status) or ""))
    add()
  end
  if leads then
    add_verdict()
  end
  if summary.valid == false then
    add(("> **INVALID: the measurement itself cannot be trusted%s.**"):format(
      said and " (exit status 98)" or ""))
    for _, why in ipairs(data.broken_checks(summary)) do
      add("> - " .. escape(why))
    end
    for _, what in ipairs(data.advice(summary)) do
      add ">"
      add("> " .. escape(what))
    end
    add()
  end
  if not said and not leads then
    add_verdict()
  end
  if data.simulated(run, summary) then
    add("> **Simulated:** " .. SIMULATED)
    add()
  end
  if text(run.started) then
    add(("Run %s, started %s%s."):format(code(text(run.id) or "?"), escape(run.started),
      num(run.duration_s) and ", took " .. words.quantity(run.duration_s, "s") or ""))
    add()
  end
  markdown_pairs(out, data.banner(run, summary))
  add()
  markdown_pairs(out, data.facts(summary))
  for _, section in ipairs(data.sections(summary, run)) do
    add()
    add("## " .. section.title)
    add()
    markdown_table(out, section)
    for _, note in ipairs(section.notes or {}) do
      add()
      local ranges = note:gsub("^± and ranges are", "The ranges are"):gsub("; ± is the longer side", "")
      add(escape(ranges))
    end
  end
  look_next(out, run, summary)
  run_again(out, run)
  glossary(out, summary, run)
  if text(run.path) then
    add()
    add "## Files"
    add()
    for _, file in ipairs(data.files) do
      add(("- %s: %s"):format(code(file[1]), file[2]))
    end
  end
  return table.concat(out, "\n") .. "\n"
end

return report
