-- Values shown and compared for people: what perigee.test prints when two of them differ. Not for
-- scripts.
local json = require "perigee.json"
local make = require "perigee.gen.core"

local diff = {}

local MAX_TEXT, MAX_ITEMS, MAX_LINES = 300, 40, 8

local function quote(text)
  local shown = #text > MAX_TEXT and text:sub(1, MAX_TEXT) or text
  shown = ("%q"):format(shown):gsub("\\\n", "\\n")
  return #text > MAX_TEXT and ("%s... (%d bytes)"):format(shown, #text) or shown
end

-- Keys in one order for every run; json's hidden order key is none.
local function keys_of(t)
  local keys = {}
  for key in next, t do
    if type(key) ~= "userdata" then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then
      return a < b
    elseif type(a) ~= type(b) then
      return type(a) < type(b)
    end
    return tostring(a) < tostring(b)
  end)
  return keys
end

local function step(key)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" then
    return "." .. key
  end
  return ("[%s]"):format(type(key) == "string" and quote(key) or tostring(key))
end

local function show_table(t, seen, show)
  if seen[t] then
    return "{...}"
  end
  seen[t] = true
  local parts, list = {}, 0
  for _, key in ipairs(keys_of(t)) do
    if #parts == MAX_ITEMS then
      parts[#parts + 1] = "..."
      break
    end
    local value = show(t[key], seen)
    if key == list + 1 then
      list = key
      parts[#parts + 1] = value
    else
      parts[#parts + 1] = (type(key) == "string" and step(key):gsub("^%.", "") or step(key)) .. " = " .. value
    end
  end
  seen[t] = nil
  local kind = json.kind(t)
  return (kind and "json." .. kind or "") .. "{" .. table.concat(parts, ", ") .. "}"
end

--- A value as one line of Lua-like text.
function diff.show(value, seen)
  if type(value) == "string" then
    return quote(value)
  elseif type(value) == "table" then
    return show_table(value, seen or {}, diff.show)
  elseif value == json.null then
    return "json.null"
  elseif make.is_text(value) then
    return "text" .. quote(tostring(value))
  end
  return tostring(value)
end

local compare

local function compare_tables(a, b, path, lines, seen)
  local pair = seen[a] and seen[a][b]
  if pair then
    return
  end
  seen[a] = seen[a] or {}
  seen[a][b] = true
  local kind_a, kind_b = json.kind(a), json.kind(b)
  if kind_a and kind_b and kind_a ~= kind_b then
    lines[#lines + 1] = ("%sexpected a json.%s, got a json.%s"):format(path, kind_b, kind_a)
    return
  end
  for _, key in ipairs(keys_of(b)) do
    compare(a[key], b[key], path == "" and "at " .. step(key) .. ": " or
      path:sub(1, -3) .. step(key) .. ": ", lines, seen)
  end
  for _, key in ipairs(keys_of(a)) do
    if b[key] == nil then
      compare(a[key], nil, path == "" and "at " .. step(key) .. ": " or
        path:sub(1, -3) .. step(key) .. ": ", lines, seen)
    end
  end
end

function compare(a, b, path, lines, seen)
  if a == b or (a ~= a and b ~= b) then
    return
  elseif type(a) == "table" and type(b) == "table" then
    compare_tables(a, b, path, lines, seen)
    return
  elseif make.is_text(a) and type(b) == "string" then
    if tostring(a) == b then
      return
    end
  elseif make.is_text(b) and type(a) == "string" and tostring(b) == a then
    return
  end
  lines[#lines + 1] = ("%sexpected %s, got %s"):format(path, diff.show(b), diff.show(a))
end

--- What differs between a value and the expected one, as text; nil when nothing does.
function diff.difference(value, expected)
  local lines = {}
  compare(value, expected, "", lines, {})
  if #lines == 0 then
    return nil
  elseif #lines > MAX_LINES then
    local more = #lines - MAX_LINES
    lines = table.move(lines, 1, MAX_LINES, 1, {})
    lines[#lines + 1] = ("and %d more differences"):format(more)
  end
  return table.concat(lines, "\n")
end

return diff
