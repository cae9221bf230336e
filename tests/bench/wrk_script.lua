-- wrk with a script that does per request what lua_http.lua does: builds headers and a JSON body from tables, decodes
-- the reply. LuaJIT has no JSON of its own: encoder and decoder are plain Lua, written to be quick.
local concat, find, format, sort, sub = table.concat, string.find, string.format, table.sort, string.sub

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quote(s)
  if not find(s, '[%c"\\]') then
    return '"' .. s .. '"'
  end
  return '"' .. s:gsub('[%c"\\]', function(c)
    return escapes[c] or format("\\u%04x", c:byte())
  end) .. '"'
end

local function put(out, n, value)
  local kind = type(value)
  if kind == "string" then
    out[n] = quote(value)
  elseif kind == "table" and value[1] ~= nil then
    out[n] = "["
    for i = 1, #value do
      if i > 1 then
        n = n + 1
        out[n] = ","
      end
      n = put(out, n + 1, value[i])
    end
    n = n + 1
    out[n] = "]"
  elseif kind == "table" then
    local keys = {}
    for key in pairs(value) do
      keys[#keys + 1] = key
    end
    sort(keys)
    out[n] = "{"
    for i = 1, #keys do
      n = n + 1
      out[n] = (i > 1 and "," or "") .. quote(keys[i]) .. ":"
      n = put(out, n + 1, value[keys[i]])
    end
    n = n + 1
    out[n] = "}"
  else
    out[n] = tostring(value)
  end
  return n
end

local function encode(value)
  local out = {}
  put(out, 1, value)
  return concat(out)
end

local named = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local words = { ["true"] = true, ["false"] = false }
local parse

local function parse_string(s, at) -- behind the opening quote
  local stop = find(s, '["\\]', at)
  if sub(s, stop, stop) == '"' then
    return sub(s, at, stop - 1), stop + 1
  end
  local out = {}
  repeat
    out[#out + 1] = sub(s, at, stop - 1)
    local c = sub(s, stop + 1, stop + 1)
    if c == "u" then
      local code = tonumber(sub(s, stop + 2, stop + 5), 16)
      out[#out + 1] = code < 128 and string.char(code) or "?"
      at = stop + 6
    else
      out[#out + 1] = named[c] or c
      at = stop + 2
    end
    stop = find(s, '["\\]', at)
  until sub(s, stop, stop) == '"'
  out[#out + 1] = sub(s, at, stop - 1)
  return concat(out), stop + 1
end

local function parse_list(s, at, keyed) -- behind the bracket
  local value, n, stop = {}, 0, keyed and "}" or "]"
  at = find(s, "%S", at)
  if sub(s, at, at) == stop then
    return value, at + 1
  end
  while true do
    local key
    n = n + 1
    if keyed then
      key, at = parse_string(s, find(s, '"', at, true) + 1)
      at = find(s, ":", at, true) + 1
    end
    value[key or n], at = parse(s, at)
    at = find(s, "%S", at)
    if sub(s, at, at) == stop then
      return value, at + 1
    end
    at = at + 1
  end
end

function parse(s, at)
  at = find(s, "%S", at)
  local c = sub(s, at, at)
  if c == '"' then
    return parse_string(s, at + 1)
  elseif c == "{" or c == "[" then
    return parse_list(s, at + 1, c == "{")
  end
  local _, stop = find(s, "^[%w%+%-%.]+", at)
  local word = sub(s, at, stop)
  return words[word] or tonumber(word), stop + 1
end

local prompt = "Which of the three replicas keeps the longest prefix of this conversation in its cache, and why?"
local count = 0

function request()
  count = count + 1
  local headers = {
    ["Content-Type"] = "application/json",
    ["Authorization"] = "Bearer bench",
    ["X-Request-Id"] = format("%d-%d", 1, count),
    ["X-Session"] = "1",
  }
  local body = encode {
    model = "bench",
    messages = {
      { role = "system", content = "You are a helpful assistant." },
      { role = "user", content = prompt },
    },
    max_tokens = 64,
    temperature = 0.5,
    stream = false,
  }
  return wrk.format("POST", "/v1/chat/completions", headers, body)
end

function response(_, _, body)
  local value = parse(body, 1)
  if not value.choices[1].message.content then
    error "no content in the reply"
  end
end
