-- Values as the prompt of `perigee lua` prints them: tables with what is in them, bytes that are no text as
-- escapes. What is long is cut, and says so. Not for scripts: they have print and perigee.json.
local show = {}

local MAX_ITEMS, MAX_DEPTH, MAX_BYTES = 64, 3, 4096

-- A text as it is, or with \xHH for bytes that are no printable UTF-8.
local function bytes(text)
  local cut = #text > MAX_BYTES and ("… (%d bytes)"):format(#text) or ""
  text = text:sub(1, MAX_BYTES)
  if cut ~= "" then
    text = text:gsub("[\xC2-\xF4][\x80-\xBF]*$", "") -- not in the middle of a character
  end
  if not utf8.len(text) or text:find "[%z\1-\8\11-\31\127]" then
    text = text:gsub("[%z\1-\31\\\127-\255]", function(c) return ("\\x%02X"):format(c:byte()) end)
  end
  return text .. cut
end

local value

local function key(k)
  if type(k) == "string" and k:find "^[%a_][%w_]*$" then
    return k
  end
  return "[" .. value(k, MAX_DEPTH) .. "]"
end

-- Keys of a table behind its list part, in order.
local function rest_of(t, n)
  local keys = {}
  for k in next, t do
    if not (math.type(k) == "integer" and k >= 1 and k <= n) then
      keys[#keys + 1] = k
    end
  end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then
      return a < b
    end
    return tostring(a) < tostring(b)
  end)
  return keys
end

local function fields(t, depth)
  local parts, n = {}, rawlen(t)
  for i = 1, math.min(n, MAX_ITEMS) do
    parts[i] = value(rawget(t, i), depth + 1)
  end
  if n > MAX_ITEMS then
    parts[#parts + 1] = ("… %d more"):format(n - MAX_ITEMS)
  end
  local keys = rest_of(t, n)
  for i = 1, math.min(#keys, MAX_ITEMS) do
    parts[#parts + 1] = key(keys[i]) .. " = " .. value(rawget(t, keys[i]), depth + 1)
  end
  if #keys > MAX_ITEMS then
    parts[#parts + 1] = ("… %d more"):format(#keys - MAX_ITEMS)
  end
  return #parts > 0 and "{ " .. table.concat(parts, ", ") .. " }" or "{}"
end

-- Inside a table texts have quotes, and what says itself by __tostring or __name does so.
function value(v, depth)
  if type(v) == "string" then
    return '"' .. bytes(v):gsub('"', '\\"'):gsub("\n", "\\n") .. '"'
  elseif type(v) ~= "table" then
    return tostring(v)
  end
  local meta = getmetatable(v)
  local named = type(meta) == "table" and (rawget(meta, "__tostring") or rawget(meta, "__name"))
  if named or depth >= MAX_DEPTH then
    return tostring(v)
  end
  return fields(v, depth)
end

--- One value on a line of its own, or in a row of several.
function show.value(v)
  return type(v) == "string" and bytes(v) or value(v, 0)
end

--- What print would, with values as above.
function show.print(...)
  local parts = table.pack(...)
  for i = 1, parts.n do
    parts[i] = show.value(parts[i])
  end
  print(table.concat(parts, "\t", 1, parts.n))
end

return show
