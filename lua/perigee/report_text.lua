-- What every part of a report is made of: fields that may be missing, numbers and counts for people,
-- and text from outside, made harmless in one place before it reaches a terminal or a document.
local words = {}

-- ---- reading: fields may be missing, and null may be any value that is no number, text or table ----

function words.num(x)
  return type(x) == "number" and x == x and x or nil
end

function words.text(x)
  return type(x) == "string" and x or nil
end

function words.object(x)
  return type(x) == "table" and x or {}
end

local num, object = words.num, words.object

function words.at(t, ...)
  for _, key in ipairs { ... } do
    t = object(t)[key]
  end
  return t
end

function words.sorted_keys(t, before)
  local keys = {}
  for key in pairs(object(t)) do
    keys[#keys + 1] = key
  end
  table.sort(keys, before)
  return keys
end

-- ---- outside text ----

-- Bytes that are no UTF-8 become U+FFFD.
local function valid(s)
  local parts, from = {}, 1
  while true do
    local length, bad = utf8.len(s, from)
    if length then
      parts[#parts + 1] = s:sub(from)
      return table.concat(parts)
    end
    parts[#parts + 1] = s:sub(from, bad - 1) .. "\u{FFFD}"
    from = bad + 1
  end
end

--- One line of text that no terminal obeys and no reader is misled by: control characters become
--- blanks; marks that are invisible or turn the direction of writing go (U+200B to U+200F, U+2028 to
--- U+202E, U+2060 to U+206F, U+FEFF).
function words.clean(s)
  s = valid(tostring(s))
  s = s:gsub("\xe2\x80[\xa8\xa9]", " "):gsub("\xe2\x80[\x8b-\x8f\xaa-\xae]", "")
  s = s:gsub("\xe2\x81[\xa0-\xaf]", ""):gsub("\xef\xbb\xbf", ""):gsub("\xc2[\x80-\x9f]", " ")
  return (s:gsub("%s*%c+%s*", " "))
end

-- ---- numbers for people ----

local function thousands(digits)
  local sign, whole, rest = digits:match "^(-?)(%d+)(.*)$"
  if not whole then
    return digits -- "inf"
  end
  whole = whole:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
  return sign .. whole .. rest
end

function words.count(x)
  return num(x) and thousands(("%.0f"):format(x)) or "—"
end

--- 12345.678 with two decimals: "12,345.68".
function words.decimal(x, decimals)
  return thousands(("%." .. decimals .. "f"):format(x))
end

--- "1 request", "2 requests".
function words.counted(n, what)
  return words.count(n) .. " " .. (n == 1 and what or what .. "s")
end

--- "1204 of 6848" with its thousands.
function words.grouped(s)
  return (s:gsub("(%d+) of (%d+)", function(a, b)
    return thousands(a) .. " of " .. thousands(b)
  end))
end

-- Three digits that mean something.
function words.figure(x)
  local size = math.abs(x)
  if size < 5e-10 then -- nothing here is measured so finely: what is left of a difference of equal numbers
    return "0"
  elseif size >= 99.95 then
    return thousands(("%.0f"):format(x))
  elseif size >= 9.995 then
    return ("%.1f"):format(x)
  elseif size >= 0.9995 then
    return ("%.2f"):format(x)
  elseif size >= 0.01 then
    return ("%.3f"):format(x)
  end
  return ("%.2g"):format(x)
end

local BYTES = { { 1073741824, "GiB" }, { 1048576, "MiB" }, { 1024, "KiB" } }

-- What to multiply by, and the unit to write, so that values about as large as `size` read well.
function words.scale_for(unit, size)
  size = math.abs(size or 0)
  if unit == "s" then
    if size >= 0.9995 then
      return 1, "s"
    elseif size >= 0.9995e-3 or size == 0 then
      return 1e3, "ms"
    end
    return 1e6, "µs"
  elseif unit == "ratio" then
    return 100, "%"
  elseif unit == "B" then
    for _, step in ipairs(BYTES) do
      if size >= step[1] then
        return 1 / step[1], step[2]
      end
    end
  elseif unit == "1/s" then
    return 1, "/s"
  end
  return 1, unit or ""
end

local COUNTS = { replicas = true, servers = true, sessions = true, workers = true, tokens = true,
  times = true }

-- One quantity with its unit: "412 ms", "97.3 %", "12.5 tokens/s".
function words.quantity(x, unit)
  if not num(x) then
    return "—"
  end
  if unit == "s" and x >= 119.5 then
    local whole = math.floor(x + 0.5)
    return ("%dm %02ds"):format(whole // 60, whole % 60)
  elseif COUNTS[unit] and math.type(math.tointeger(x) or x) == "integer" then
    return words.counted(x, unit:sub(1, -2))
  end
  local scale, name = words.scale_for(unit, x)
  return words.figure(x * scale) .. (name ~= "" and " " .. name or "")
end

--- What percentiles that are not given would need: `refused` is { p95 = 100, … }.
function words.refusal_note(refused)
  local parts = {}
  for _, p in ipairs(words.sorted_keys(refused)) do
    parts[#parts + 1] = ("%s needs %s"):format(p, words.count(refused[p]))
  end
  return ("— too few samples: %s."):format(table.concat(parts, ", "))
end

-- Rows of counts carry no `refused`: these are the numbers that the percentiles need.
local NEEDS = { ttft_p50 = 10, ttft_p95 = 100, e2e_p95 = 100 }

--- Of a row `r`, the percentiles `names` (such as "ttft_p95") that too few samples leave out, into `refused`.
function words.note_refused(r, names, refused)
  for _, name in ipairs(names) do
    if (num(r[name:match "^%a+%d?%a*" .. "_n"]) or 0) > 0 and not num(r[name]) then
      refused[name:match "p%d+"] = NEEDS[name]
    end
  end
end

return words
