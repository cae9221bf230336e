-- `..` on values with a __concat at every depth of calls, in fresh coroutines (so that the stack
-- grows at each spot) and without: Lua 5.4.4 alone crashes here (src/bind/chunk.h).
local gen = require "perigee.gen"

local DEPTHS, LONGEST = 200, 8

local function is_plain(v)
  return type(v) == "string"
end

-- Functions of one operand that join it to itself, n at a time, in different mixtures.
local chains = {}
for n = 2, LONGEST do
  local same, mixed, strings_last = { "x" }, { "x" }, { "x" }
  for i = 2, n do
    same[i], mixed[i], strings_last[i] = "x", i % 2 == 0 and "'-'" or "x", "'-'"
  end
  for _, operands in ipairs { same, mixed, strings_last } do
    local source = "local x = ... return " .. table.concat(operands, " .. ")
    chains[#chains + 1] = {
      source = source,
      run = assert(load(source)),
      expected = table.concat(operands):gsub("x", "ab"):gsub("'", ""),
    }
  end
end

local function deep(n, fn, x)
  if n == 0 then
    return (fn(x))
  end
  local result = deep(n - 1, fn, x) -- no tail call
  return result
end

local function everywhere(x, check)
  for depth = 1, DEPTHS do
    for _, chain in ipairs(chains) do
      check(chain, deep(depth, chain.run, x), depth)
      local co = coroutine.create(deep)
      local ok, result = coroutine.resume(co, depth, chain.run, x)
      if not ok then
        error(("%s at depth %d: %s"):format(chain.source, depth, result))
      end
      check(chain, result, depth)
      check(chain, coroutine.wrap(deep)(depth, chain.run, x), depth)
    end
  end
end

describe("..", function()
  it("joins texts at every depth of calls, in every length", function()
    everywhere(gen.from "ab", function(chain, result, depth)
      if tostring(result) ~= chain.expected then
        error(("%s at depth %d: %s"):format(chain.source, depth, tostring(result)))
      end
    end)
  end)

  it("calls a __concat of the script's own, which may itself go deep", function()
    local mt = {}
    local function value(text)
      return setmetatable({ text = text }, mt)
    end
    mt.__concat = function(a, b) -- assigned after the first use as a metatable, too
      local function dig(n) return n == 0 and 0 or 1 + dig(n - 1) end
      dig(30)
      collectgarbage()
      return value((is_plain(a) and a or a.text) .. (is_plain(b) and b or b.text))
    end
    local x = value "ab"
    for depth = 1, DEPTHS, 7 do
      for _, chain in ipairs(chains) do
        local co = coroutine.create(deep)
        local ok, result = coroutine.resume(co, depth, chain.run, x)
        expect(ok and result.text or result):eq(chain.expected)
        expect(deep(depth, chain.run, x).text):eq(chain.expected)
      end
    end
  end)

  it("calls it when it is assigned after the metatable was set", function()
    local mt = {}
    local x = setmetatable({}, mt)
    mt.__concat = function() return "joined" end
    expect(x .. x):eq "joined"
    expect("a" .. x):eq "joined"
    expect(getmetatable(x).__concat):is_a "function"
    function mt.__concat() return "anew" end
    expect(x .. "b"):eq "anew"
  end)

  it("passes an error of such a function on, and closes what it left open", function()
    local closed = 0
    local x = setmetatable({}, {
      __concat = function()
        local _ <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
        error({ code = 7 })
      end,
    })
    local ok, err = pcall(function() return x .. x end)
    expect(ok):eq(false)
    expect(err.code):eq(7)
    expect(closed):eq(1)
  end)

  it("says what it cannot join", function()
    local x = setmetatable({}, { __concat = nil })
    expect(function() return x .. "a" end):errors "attempt to concatenate a table value"
    expect(function() return gen.from "a" .. {} end)
      :errors "test_concat.lua:%d+: the right side of %.%. must be a string or a text, got table"
    expect(function() return 5 .. gen.from "a" end)
      :errors "the left side of %.%. must be a string or a text, got number"
  end)

  it("cannot wait in a function of the script's own", function()
    local x = setmetatable({}, { __concat = function() return coroutine.yield(1) end })
    local co = coroutine.create(function() return x .. x end)
    local ok, err = coroutine.resume(co)
    expect(ok):eq(false)
    expect(err):matches "__concat cannot wait or yield"
  end)

  it("ends endless recursion with an error", function()
    local mt = {}
    local x = setmetatable({}, mt)
    mt.__concat = function(a, b) return a .. b end
    expect(function() return x .. x end):errors "C stack overflow"
  end)
end)

describe("gen.join", function()
  it("joins at every depth of calls", function()
    local a = gen.from "ab"
    local function join(x) return gen.join({ x, "-", x }, ",") end
    for depth = 1, DEPTHS do
      local co = coroutine.create(deep)
      local _, result = coroutine.resume(co, depth, join, a)
      expect(tostring(result)):eq "ab,-,ab"
    end
  end)
end)

describe("load", function()
  it("refuses a function without room for ..", function()
    local names = {}
    for i = 1, 199 do
      names[i] = "v" .. i
    end
    local crowded = "local " .. table.concat(names, ", ") .. "\nreturn {" .. ("1, "):rep(30) .. " v1 .. v2 }"
    local fn, err = load(crowded, "=crowded")
    expect(fn):is_nil()
    expect(err):matches "^crowded:1: this function has too many local variables for a `%.%.` in it"
    expect(load(crowded:gsub("v1 %.%. v2", "v1"))):is_a "function"
  end)

  it("keeps line numbers, names and upvalues", function()
    local env = { x = 1 }
    local fn = assert(load("local y = 2\nreturn function() return x + y, debug end, error", "@f.lua", "t", env))
    local inner = fn()
    expect(inner()):eq(3)
    expect(debug.getinfo(inner, "S").source):eq "@f.lua"
    expect(debug.getinfo(inner, "S").linedefined):eq(2)
    expect((debug.getupvalue(inner, 1))):eq "_ENV"
    local ok, err = pcall(load("local z\n\nz.a = 1", "@g.lua"))
    expect(ok):eq(false)
    expect(err):eq "g.lua:3: attempt to index a nil value (local 'z')"
  end)

  it("reads pieces, and refuses binary chunks by name", function()
    local pieces = { "return ", "1 + ", "2", "" }
    local at = 0
    expect(load(function() at = at + 1 return pieces[at] end)()):eq(3)
    local fn, err = load(string.dump(function() end), "=blob")
    expect(fn):is_nil()
    expect(err):matches "^blob: this is a compiled %(binary%) chunk; perigee loads Lua source only"
    expect(select(2, load("return 1", "x", "b"))):matches "mode"
  end)
end)
