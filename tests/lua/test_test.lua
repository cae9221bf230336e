-- perigee.test: the runner itself and its expectations.
local gen = require "perigee.gen"
local json = require "perigee.json"
local test = require "perigee.test"

-- Runs a spec given as text; returns its output, passed, failed.
local function run(text, opts)
  local path, lines = os.tmpname(), {}
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
  file:flush()
  local out = { write = function(_, ...) lines[#lines + 1] = table.concat { ... } end }
  opts = opts or {}
  opts.out = out
  local passed, failed = test.run({ path }, opts)
  os.remove(path)
  return table.concat(lines), passed, failed
end

-- The text with which an expectation fails.
local function failure(fn)
  local ok, err = pcall(fn)
  return not ok and err.expectation or nil
end

describe("the command", function()
  it("refuses files that are not there, and options that are none", function()
    local said, stderr = {}, io.stderr
    io.stderr = { write = function(_, ...) said[#said + 1] = table.concat { ... } end } -- luacheck: ignore
    local missing, unknown = test.main { "/no/such_spec.lua" }, test.main { "--stres" }
    io.stderr = stderr -- luacheck: ignore
    expect(missing):eq(2)
    expect(unknown):eq(2)
    expect(table.concat(said)):eq("perigee test: /no/such_spec.lua: No such file or directory\n"
      .. "perigee test: unknown option --stres (did you mean --stress?); see `perigee test --help`\n")
  end)

  it("runs each file once, however it is named", function()
    local top = os.tmpname()
    os.remove(top)
    local core = require "perigee.core"
    assert(core.make_folder(top))
    local file <close> = assert(io.open(top .. "/a_spec.lua", "w"))
    file:write "it('works', function() end)"
    file:close()
    local said, write = {}, io.stdout
    io.stdout = { write = function(_, ...) said[#said + 1] = table.concat { ... } end } -- luacheck: ignore
    local ok, status = pcall(test.main, { top, top .. "/", top .. "//a_spec.lua" })
    io.stdout = write -- luacheck: ignore
    os.remove(top .. "/a_spec.lua")
    os.remove(top)
    assert(ok, status)
    expect(status):eq(0)
    expect(table.concat(said)):eq "ok   works\n1 passed, 0 failed\n"
  end)
end)

describe("what a failed test says", function()
  -- The report of a spec, its file's name replaced by FILE.
  local function said(text)
    return (run(text):gsub("/tmp/lua_%w+", "FILE"))
  end

  it("names the line where the session failed", function()
    expect(said [[
local test, chat = require "perigee.test", require "perigee.chat"
it("fails", function()
  local conv = chat.new(test.vu { replies = { { class = "http_429", detail = "busy" } } })
  conv:user "hi"
  conv:send { max_tokens = 4 }
end)
]]):eq "FAIL fails\n       FILE:5: the session failed: http_429: busy\n0 passed, 1 failed\n"
  end)

  it("blames the author's line for a block without a function", function()
    for _, block in ipairs { 'it("x")', 'it(function() end)', 'describe("x")' } do
      local out = said("\n" .. block .. "\n")
      expect(out):contains "FILE:2: "
      expect(out):contains "takes a name and a function"
      expect(out:find("perigee/", 1, true)):is_nil()
    end
    expect(said 'describe("x", function()\nbefore_each "y"\nend)'):contains
      'FILE:2: before_each takes a function, got the string "y"'
  end)

  it("suggests the expectation that was meant, without frames of its own", function()
    for word, meant in pairs { equals = "eq", throws = "errors", is_true = "truthy", abov = "above" } do
      local out = said(("it('x', function()\n  expect(1):%s(1)\nend)"):format(word))
      expect(out):contains(("FILE:2: expect(x) has no '%s' (did you mean '%s'?)"):format(word, meant))
      expect(out:find("perigee/", 1, true)):is_nil()
    end
  end)

  it("refuses classes that there are not", function()
    local vu = test.vu { replies = { { class = "http_492" } } }
    local function ask()
      vu:http { path = "/x" }
    end
    expect(ask):errors "test%.vu: replies: unknown class 'http_492' %(did you mean 'http_4"
    vu = test.vu { replies = { { class = 429 } } }
    expect(ask):errors 'class must be a string, as "http_429", got 429'
    expect(function() vu:fail("no_such", "x") end):errors "unknown class 'no_such'"
  end)
end)

describe("the runner", function()
  it("stops what never ends, whatever a pcall says, and goes on", function()
    local out, passed, failed = run([[
      it("spins", function()
        while true do pcall(function() while true do end end) end
      end)
      it("spins in a handler", function()
        xpcall(error, function() while true do end end)
      end)
      it("spins in a coroutine", function()
        coroutine.wrap(function() while true do end end)()
      end)
      it("takes its time in C", function()
        while true do table.move({}, 1, 1e6, 2) end
      end)
      describe("a group", function()
        it("is fine", function() end)
        while true do end
      end)
      while true do end
    ]], { runaway = "20ms" })
    expect(failed):eq(6)
    expect(passed):eq(1)
    local _, stops = out:gsub("computed for 0%.02 s without an end, so it was stopped\n%s+at [^\n]+:%d+ %(", "")
    expect(stops):eq(6)
    expect(out):matches "FAIL spins\n[^\n]+\n%s+at [^\n]+:2 %(in the function at line 2%)"
  end)

  it("does not count what a test takes against its group", function()
    local _, passed = run([[
      describe("a group", function()
        for i = 1, 5 do
          it("takes a while", function()
            local clock = os.clock()
            while os.clock() - clock < 0.06 do end
          end)
        end
      end)
    ]], { runaway = "100ms" })
    expect(passed):eq(5)
  end)

  it("shows where, and not how the runner got there", function()
    local out = run "it('raises', function()\n  local function f() error 'boom' end\n  f()\nend)"
    expect(out):contains "boom"
    expect(out):matches "in local 'f'\n[^\n]+:3: in upvalue 'fn'\n1? ?"
    expect(out:find("perigee/test.lua", 1, true)):is_nil()
  end)

  it("knows its limit", function()
    for _, bad in ipairs { 0, -1, "5%", 0 / 0, 1e9 } do
      expect(function() test.run({}, { runaway = bad }) end):errors "runaway"
    end
  end)

  it("shows the fields of an error that is a table", function()
    local out = run "it('raises', function() error { a = 1 } end)"
    expect(out):contains "a = 1"
  end)

  it("knows what can be expected", function()
    expect(function() expect(1):equals(1) end):errors "test_test.lua:%d+: expect%(x%) has no 'equals'"
    expect(function() expect(1).eq(1) end)
      :errors "test_test.lua:%d+: expect%(x%):eq: call it with a colon, expect%(x%):eq%(expected%)"
  end)

  it("counts, names and goes on after a failure", function()
    local out, passed, failed = run [[
      describe("outer", function()
        describe("inner", function()
          it("works", function() expect(1):eq(1) end)
          it("differs", function() expect(1):eq(2) end)
        end)
        it("raises", function() error("boom") end)
      end)
      it("alone", function() end)
    ]]
    expect(passed):eq(2)
    expect(failed):eq(2)
    expect(out):contains "ok   outer > inner > works\n"
    expect(out):matches "FAIL outer > inner > differs\n%s+[^\n]*:4: expected 2, got 1\n"
    expect(out):matches "FAIL outer > raises\n%s+[^\n]*:6: boom\n"
    expect(out):matches "ok   alone\n2 passed, 2 failed\n$"
  end)

  it("says what is wrong with a file", function()
    local out, _, failed = run "it('x', function("
    expect(failed):eq(1)
    expect(out):contains "expected"
    out, _, failed = run "local x = 1"
    expect(failed):eq(1)
    expect(out):contains "there is no test in this file"
    out, _, failed = run "describe('d', function() error('early') end)"
    expect(failed):eq(1)
    expect(out):contains "early"
  end)

  it("runs hooks around each test, outer ones first", function()
    local out, passed = run [[
      local log = {}
      describe("a", function()
        before_each(function() log[#log + 1] = "A" end)
        describe("b", function()
          before_each(function() log[#log + 1] = "B" end)
          after_each(function() log[#log + 1] = "b" end)
          it("one", function() log[#log + 1] = "1" end)
        end)
        it("two", function() log[#log + 1] = "2" end)
        it("log", function() expect(table.concat(log)):eq("AB1bA2A") end)
      end)
    ]]
    expect(out):contains "3 passed, 0 failed"
    expect(passed):eq(3)
  end)
end)

describe("a file", function()
  it("begins anew: parameters, modules and globals of the one before are gone", function()
    local top, core, lines = os.tmpname(), require "perigee.core", {}
    os.remove(top)
    assert(core.make_folder(top))
    for _, name in ipairs { "a", "b" } do
      assert(core.make_folder(top .. "/" .. name))
      for file, text in pairs {
        ["helper.lua"] = "return { from = '" .. name .. "' }",
        ["x_spec.lua"] = [[
          local perigee = require "perigee"
          it("stands alone", function()
            local mine = debug.getinfo(1, "S").source:match "/(%a)/x_spec"
            expect(perigee.param("users", mine == "a" and 4 or 8)):eq(mine == "a" and 4 or 8)
            expect(perigee.param(mine == "a" and "size" or "other", "x")):eq "x"
            expect(perigee.param("kind", mine == "a" and 1 or "text")):eq(mine == "a" and 1 or "text")
            expect(require("helper").from):eq(mine)
            expect(rawget(_G, "leaked")):eq(nil)
            expect(package.loaded["perigee.route"] ~= "not it"):eq(true)
            rawset(_G, "leaked", mine)
            package.loaded["perigee.route"] = "not it"
            package.loaded["helper"] = package.loaded["helper"] or "no"
          end)
        ]] } do
        local f <close> = assert(io.open(("%s/%s/%s"):format(top, name, file), "w"))
        f:write(text)
      end
    end
    local before = #require("perigee.runtime").declared()
    local passed, failed = test.run({ top .. "/a/x_spec.lua", top .. "/b/x_spec.lua" },
      { out = { write = function(_, ...) lines[#lines + 1] = table.concat { ... } end } })
    for _, name in ipairs { "a", "b" } do
      os.remove(("%s/%s/helper.lua"):format(top, name))
      os.remove(("%s/%s/x_spec.lua"):format(top, name))
      os.remove(top .. "/" .. name)
    end
    os.remove(top)
    expect(table.concat(lines)):eq "ok   stands alone\nok   stands alone\n2 passed, 0 failed\n"
    expect(passed + failed):eq(2)
    expect(rawget(_G, "leaked")):eq(nil)
    expect(#require("perigee.runtime").declared()):eq(before)
  end)
end)

describe("expectations", function()
  it("print both values", function()
    expect(failure(function() expect("a"):eq("b") end)):eq 'expected "b", got "a"'
    expect(failure(function() expect(3):near(4, 0.5) end)):eq "expected 4 within 0.5, got 3"
    expect(failure(function() expect("abc"):matches "^b" end)):contains 'matches "^b", got "abc"'
    expect(failure(function() expect({ 1 }):contains(2) end)):eq "expected a list with 2, got {1}"
    expect(failure(function() expect(1):is_nil() end)):eq "expected nil, got 1"
    expect(failure(function() expect(nil):truthy() end)):eq "expected a true value, got nil"
    expect(failure(function() expect(1):is_a "string" end)):eq "expected a string, got 1"
    expect(failure(function() expect(1):above(1) end)):eq "expected more than 1, got 1"
    expect(failure(function() expect("x"):below(1) end)):contains "expected a number"
    expect(failure(function() expect(1):ne(1) end)):eq "expected anything but 1"
    expect(failure(function() expect(function() end):errors "x" end)):contains "none was raised"
    expect(failure(function() expect(function() error "y" end):errors "x" end)):contains "matches \"x\", got"
  end)

  it("name the places where tables differ", function()
    local text = failure(function()
      expect({ a = { 1, 2 }, b = 1, c = 3 }):eq { a = { 1, 3 }, b = 1, d = json.null }
    end)
    expect(text):eq "at .a[2]: expected 3, got 2\nat .d: expected json.null, got nil\nat .c: expected nil, got 3"
  end)

  it("compare deeply, texts by bytes, kinds of JSON apart", function()
    expect({ { x = 1 }, "s" }):eq { { x = 1.0 }, "s" }
    expect(gen.from "abc"):eq "abc"
    expect(json.decode "[]"):eq {}
    expect(failure(function() expect(json.decode "[]"):eq(json.decode "{}") end)):contains "json.object"
    local a, b = {}, {}
    a.a, b.a = a, b
    expect(a):eq(b)
    expect(0 / 0):eq(0 / 0)
    expect(1):is_a "integer"
    expect(1.5):is_a("float"):is_a("number")
  end)
end)
