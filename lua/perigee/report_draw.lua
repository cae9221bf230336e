-- How a report is drawn: on a terminal (a Screen: lines no wider than it, colours when asked for) and as
-- Markdown (functions that append lines to a list). A section is a table of perigee.report_tables. Text from
-- outside is cleaned for the place it goes to.
local words = require "perigee.report_text"

local draw = {}

local num, clean = words.num, words.clean

-- ---- terminal ----

local SGR = { ok = "32", bad = "31", warn = "33", dim = "2", bold = "1", title = "1;36", invalid = "1;97;41" }

-- Columns a text takes; what is not valid UTF-8 counts by bytes.
function draw.columns(s)
  return utf8.len(s) or #s
end

-- The first n columns.
function draw.cut(s, n)
  if draw.columns(s) <= n then
    return s
  end
  local stop = utf8.len(s) and utf8.offset(s, n) or n
  return s:sub(1, stop - 1) .. "…"
end

-- Lines of at most `width` columns, broken between words where possible. What a terminal would obey
-- is gone from them.
function draw.wrap(s, width)
  s = clean(s)
  width = math.max(width, 8)
  local lines, line = {}, ""
  for word in s:gmatch "%S+" do
    while draw.columns(word) > width do -- a word that fits no line, such as a path or a URL
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
    elseif draw.columns(line) + 1 + draw.columns(word) <= width then
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

local columns, cut, wrap = draw.columns, draw.cut, draw.wrap

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

-- How many columns with something to say are not drawn; those beyond the screen's width get none.
function Screen:left_out(section, widths)
  local out, used = 0, 0
  for i, width in ipairs(widths) do
    if width == 0 or used + width + 2 > self.wide then
      out = out + (is_blank(section, i) and 0 or 1)
      widths[i] = 0
    else
      used = used + width + 2
    end
  end
  return out
end

-- A note under a table as it is drawn: of percentiles that need more samples those with a column.
local function note_of(section, widths, note)
  local list = note:match "^— too few samples: (.*)%.$"
  if not list then
    return note
  end
  local parts, heads = {}, {}
  for i, width in ipairs(widths) do
    heads[#heads + 1] = width > 0 and section.head[i] or nil
  end
  heads = table.concat(heads, " ")
  for part, name in list:gmatch "((p%d+) needs [%d,]*%d)" do
    parts[#parts + 1] = heads:find(name .. "%f[%D]") and part or nil
  end
  return #parts > 0 and ("— too few samples: %s."):format(table.concat(parts, ", ")) or nil
end

-- Widths that fit the screen: columns of dashes go (0), then the optional ones, then the flexible one
-- gives way, then the widest text columns are cut.
function Screen:column_widths(section)
  local widths = natural_widths(section)
  for i = #widths, 2, -1 do
    if section.optional and excess(widths, self.wide) > 0 and is_blank(section, i) then
      widths[i] = 0
    end
  end
  for _, i in ipairs(section.optional or {}) do
    if excess(widths, self.wide) > 0 then
      widths[i] = 0
    end
  end
  local i = section.flexible
  if i then
    widths[i] = math.max(math.min(widths[i], 20), widths[i] - math.max(0, excess(widths, self.wide)))
  end
  while excess(widths, self.wide) > 0 do
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
    if width > 0 and used + width + 2 <= self.wide then
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
  for _, i in pairs { section.flexible, section.wraps } do -- either may be nil
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
  local out = self:left_out(section, widths)
  self:line(section, widths, function(i)
    return section.head[i], "dim"
  end)
  for _, row in ipairs(section.rows) do
    self:row(section, widths, row)
  end
  local notes = {}
  for _, note in ipairs(section.notes or {}) do
    notes[#notes + 1] = note_of(section, widths, note)
  end
  if out > 0 and section.counts_out then
    notes[#notes + 1] = ("%d column%s left out: see report.md."):format(out, out == 1 and "" or "s")
  end
  for _, note in ipairs(notes) do
    for i, line in ipairs(wrap(note, self.width - 4)) do
      self:add(self:paint((i == 1 and "  " or "    ") .. line, "dim"))
    end
  end
end

--- The word of a verdict and its reason, wrapped beside it.
function Screen:verdict(word, style, reason)
  for i, line in ipairs(wrap(reason, self.width - columns(word) - 2)) do
    self:add((i == 1 and self:paint(word, style) or (" "):rep(columns(word))) .. "  " .. line)
  end
  self:add()
end

--- Everything so far.
function Screen:text()
  return table.concat(self.lines, "\n") .. "\n"
end

--- A screen of at most `width` columns (100 when not said), with colours when `color` is true. Text keeps to
--- 100 of them, and tables too unless they may be `wide`.
function draw.screen(options, wide)
  local given = math.max(40, math.min(num(options.width) or 100, 400))
  local width = math.min(given, 100)
  wide = wide and given or width
  return setmetatable({ lines = {}, width = width, wide = wide, color = options.color == true }, Screen)
end

-- ---- markdown ----

-- An underscore inside a word is only an underscore.
function draw.escape(s)
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
function draw.prose(s)
  local parts = {}
  for before, name in (s .. "``"):gmatch "([^`]*)`([^`]*)`" do
    parts[#parts + 1] = draw.escape(before) .. (name ~= "" and "`" .. name .. "`" or "")
  end
  return table.concat(parts)
end

-- In a table a bar would end the cell even inside a code span.
function draw.code(s, in_table)
  s = clean(s):gsub("`", "'")
  if s:find "^%s*$" then
    return ""
  end
  return "`" .. (in_table and s:gsub("|", "\\|") or s) .. "`"
end

local function markdown_cell(cell)
  if type(cell) ~= "table" then
    return draw.escape((tostring(cell):gsub("^%s+", "")))
  elseif cell.code then
    return draw.code(cell[1], true)
  end
  return draw.escape((cell[1]:gsub("^%s+", ""))) .. (cell.range and (" (%s)"):format(cell.range) or "")
end

function draw.table(out, section)
  local line = {}
  for i, name in ipairs(section.head) do
    line[i] = draw.escape(name)
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

--- Of lines { name, meaning } those whose file is in the folder: `present` lists its names; nil: not known.
--- "NN-…/" stands for any folder that begins with a number.
function draw.present(list, present)
  if not present then
    return list
  end
  local there, kept = {}, {}
  for _, name in ipairs(present) do
    there[name:match "^%d+%-.*/$" and "NN-…/" or name] = true
  end
  for _, item in ipairs(list) do
    kept[#kept + 1] = there[item[1]] and item or nil
  end
  return kept
end

function draw.pairs(out, list)
  for _, item in ipairs(list) do
    out[#out + 1] = ("- **%s:** %s"):format(draw.escape(item[1]), draw.escape(item[2]))
  end
end

function draw.fenced(out, command)
  out[#out + 1] = "```sh"
  out[#out + 1] = clean(command):gsub("```+", "'")
  out[#out + 1] = "```"
end

return draw
