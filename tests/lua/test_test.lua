-- perigee.test: the runner itself, its expectations, and the fake virtual user.
local gen = require "perigee.gen"
local json = require "perigee.json"
local test = require "perigee.test"

-- Runs a spec given as text; returns its output, passed, failed.
local function run(text)
  local path, lines = os.tmpname(), {}
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
  file:flush()
  local out = { write = function(_, ...) lines[#lines + 1] = table.concat { ... } end }
  local passed, failed = test.run({ path }, { out = out })
  os.remove(path)
  return table.concat(lines), passed, failed
end

-- The text with which an expectation fails.
local function failure(fn)
  local ok, err = pcall(fn)
  return not ok and err.expectation or nil
end

describe("the runner", function()
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

describe("the fake virtual user", function()
  it("keeps time and records", function()
    local vu = test.vu { params = { users = 3 }, session = 7 }
    vu:sleep "2s"
    vu:sleep(0.5)
    vu:record("edits", 2, { kind = "x" })
    expect(vu:check("sane", 1)):eq(true)
    vu:log("hello", 1, nil)
    expect(vu:now()):eq(2.5)
    expect(vu.slept):eq { 2, 0.5 }
    expect(vu.records):eq { { metric = "edits", value = 2, tags = { kind = "x" } } }
    expect(vu.checks):eq { { name = "sane", ok = true } }
    expect(vu.logs):eq { "hello 1 nil" }
    expect(vu.params.users):eq(3)
    expect(vu.session):eq(7)
    expect(function() vu:sleep(-1) end):errors "must not be negative"
    expect(function() vu:tag("turn", 1) end):errors "kept by conversations"
    expect(function() test.vu { sesion = 1 } end):errors "did you mean 'session'"
  end)

  it("answers from a list, then with the default", function()
    local vu = test.vu { replies = { "one", { status = 503, text = "" }, { class = "reset", detail = "gone" } } }
    expect(vu:http { path = "/x" }.text):eq "one"
    expect(vu:http { path = "/x" }.status):eq(503)
    local reply, class, detail = vu:try_http { path = "/x" }
    expect(reply):is_nil()
    expect({ class, detail }):eq { "reset", "gone" }
    expect(vu:http({ path = "/x", json = { max_tokens = 5 } }).usage.completion_tokens):eq(5)
    expect(#vu.requests):eq(4)
    expect(vu.requests[4].json):eq { max_tokens = 5 }
    expect(vu:now()):near(0.4)
  end)

  it("answers from a function", function()
    local vu = test.vu { replies = function(request) return "reply to " .. request.number end }
    vu:http {}
    expect(vu:http {}.text):eq "reply to 2"
  end)

  it("runs children on clocks of their own", function()
    local vu = test.vu()
    vu:sleep(1)
    local results = vu:all({ 3, 1 }, function(child, seconds, i)
      child:sleep(seconds)
      return { i, child:now(), child.branch_id, child.parent_branch }
    end)
    expect(results):eq { { 1, 4.0, 1, 0 }, { 2, 2.0, 2, 0 } }
    expect(vu:now()):eq(4)
    local task = vu:spawn(function(child) child:sleep(10) return "done" end)
    vu:sleep(2)
    expect(task:join()):eq "done"
    expect(vu:now()):eq(14)
  end)

  it("gives children generators that depend on the session alone", function()
    local function draws()
      local list = {}
      test.vu { session = 3 }:all({ 1, 2 }, function(child) list[#list + 1] = child.rng:unit() end)
      return list
    end
    expect(draws()):eq(draws())
    expect(draws()[1]):ne(draws()[2])
  end)

  it("runs a plan's session", function()
    local vu = test.session({
      params = { n = { default = 2 } },
      setup = function() return "shared" end,
      session = function(v)
        for _ = 1, v.params.n do
          v:sleep(1)
        end
        v:log(v.shared)
      end,
    })
    expect(vu:now()):eq(2)
    expect(vu.logs):eq { "shared" }
    expect(function() test.session {} end):errors "a plan with a session is expected"
  end)
end)
