-- Every C function that a script can reach (of any module, documented or not, of any metatable, and
-- the iterators that pairs gives) with arguments of every kind: it may refuse them, and must not end
-- the process. Objects are used on after their own __gc and __close were called.
local gen = require "perigee.gen"
local json = require "perigee.json"
local perigee = require "perigee"

local MODULES = {
  "perigee.blockhash", "perigee.chat.core", "perigee.completions.core", "perigee.core", "perigee.fleet",
  "perigee.gen.core", "perigee.harmony", "perigee.json", "perigee.openai", "perigee.runtime", "perigee.stats",
  "perigee.template.core", "perigee.tokenizer", "cjson",
}
local NOT_CALLED = { -- what they do is done to the machine, or to this test
  ["perigee.core.make_folder"] = true, ["perigee.core.stress"] = true,
}

-- Fresh ones each time: a call may have ended them.
local function objects()
  local tokenizer = assert(require("perigee.tokenizer").load "bytes")
  local list = {
    json.object { a = 1 }, json.array { 1 }, gen.words { words = 3, seed = "a" }, gen.from "abc",
    gen.rng "a", tokenizer, perigee.shared("wrong types", function() return { a = { 1, 2 }, b = "c" } end),
    io.tmpfile(),
  }
  for _, made in ipairs {
    function() return require("perigee.template").load "{{ messages }}" end,
    function()
      return require("perigee.blockhash").hash({ 1, 2, 3, 4 }, { scheme = "vllm-sha256-cbor", block_size = 2 })
    end,
    function() return require("perigee.chat.core").new("m", gen.rng "b") end,
  } do
    local ok, object = pcall(made)
    if ok and object then
      list[#list + 1] = object
    end
  end
  return list
end

local function plain()
  local co = coroutine.create(function() end)
  local tables = { {}, { 1, "a", false }, { a = 1 } }
  return { true, 5, -1, 0.5, 2 ^ 60, "x", "", function() end, co, json.null, io.stderr, table.unpack(tables) }
end

local found, names = {}, {}
local function add(name, f)
  if type(f) == "function" and debug.getinfo(f, "S").what == "C" and not found[f] and not NOT_CALLED[name] then
    found[f] = name
    names[#names + 1] = { name = name, f = f }
  end
end

for _, name in ipairs(MODULES) do
  local ok, module = pcall(require, name)
  if ok and type(module) == "table" then
    for key, f in pairs(module) do
      add(name .. "." .. tostring(key), f)
    end
  end
end
add("pairs", pairs) add("next", next) add("load", load) add("pcall", pcall) add("setmetatable", setmetatable)
local function add_of(object)
  local meta = getmetatable(object)
  if type(meta) ~= "table" then
    return
  end
  local kind = tostring(meta.__name or type(object))
  for key, f in next, meta do
    if not (kind == "FILE*" and key ~= "__index") then
      add(kind .. "." .. tostring(key), f)
    end
  end
  if kind ~= "FILE*" and type(meta.__index) == "table" then
    for key, f in next, meta.__index do
      add(kind .. ":" .. tostring(key), f)
    end
  end
end
for _, object in ipairs(objects()) do
  add_of(object)
end
for _, walked in ipairs { { a = 1 }, json.object { a = 1 }, objects()[7] } do
  add("an iterator of pairs", (pairs(walked)))
end

local function call(f, ...)
  local ok, result, more = pcall(f, ...)
  if ok and type(result) == "userdata" then
    add_of(result)
  elseif ok and type(result) == "function" then -- an iterator, a closure
    pcall(result) pcall(result, 5) pcall(result, more)
  end
end

-- One, two and three arguments: each kind in each place.
local function call_with_everything(f)
  local first, others = objects(), plain()
  table.move(others, 1, #others, #first + 1, first)
  call(f)
  for i = 1, #first do
    call(f, first[i])
  end
  first = objects()
  table.move(others, 1, #others, #first + 1, first)
  call(f, nil, nil, nil, nil)
  for i = 1, #first do
    for j = 1, #first do
      call(f, first[i], first[j])
      call(f, first[i], first[j], others[(i + j) % #others + 1], others[(i * j) % #others + 1])
    end
    call(f, first[i], nil, "x")
    call(f, first[i], "a", 1)
  end
  call(f, nil, "x", 5)
end

describe("wrong types", function()
  it("are refused by every function of C", function()
    local i = 1
    while i <= #names do -- calls find more
      if os.getenv "PERIGEE_SHOW_CALLS" then
        io.stderr:write(names[i].name, "\n")
      end
      call_with_everything(names[i].f)
      i = i + 1
    end
    expect(i > 60):eq(true)
  end)

  it("are refused with the argument's name", function()
    local meta = getmetatable(json.object {})
    expect(function() meta.__newindex(5, "a", 1) end):errors "table expected, got number"
    expect(function() meta.__newindex(io.stdout, "a", 1) end):errors "table expected, got FILE%*"
    expect(function() pairs({ a = 1 })(5) end):errors "table expected, got number"
    expect(function() pairs(json.object { a = 1 })(5) end):errors "table expected, got number"
    expect(function() require("perigee.core").nearest(2 ^ 53, "ic-xxh3") end):errors "table expected, got string"
    expect(function() require("perigee.core").nearest("x", { 1 }) end):errors "a list of strings is expected"
  end)
end)
