-- perigee.tool: waits, sizes, failures, choices.
local gen = require "perigee.gen"
local test = require "perigee.test"
local tool = require "perigee.tool"

describe("tool.new", function()
  it("waits and answers", function()
    local vu = test.vu()
    local grep = tool.new { name = "grep", description = "search", latency = "250ms", result_tokens = 40 }
    local text, ok = grep:run(vu, {})
    expect(#text):eq(40)
    expect(ok):eq(true)
    expect(vu.slept):eq { 0.25 }
    expect(grep.schema):eq { type = "function", ["function"] = { name = "grep", description = "search",
      parameters = { type = "object", properties = {} } } }
  end)

  it("draws times and sizes from the user's generator", function()
    local function run()
      local vu = test.vu { session = 2 }
      local t = tool.new { name = "t", latency = gen.exp(2), result_tokens = gen.lognormal(80, 1) }
      local sizes = {}
      for i = 1, 20 do
        sizes[i] = #t:run(vu)
      end
      return sizes, vu.slept
    end
    local sizes, slept = run()
    local again, slept_again = run()
    expect(sizes):eq(again)
    expect(slept):eq(slept_again)
    expect(sizes[1]):ne(sizes[2])
  end)

  it("fails as often as it says", function()
    local vu, failed = test.vu(), 0
    local t = tool.new { name = "t", failure = "30%", error = "no such file" }
    for _ = 1, 1000 do
      local text, ok = t:run(vu)
      if not ok then
        failed = failed + 1
        expect(text):eq "no such file"
      end
    end
    expect(failed):near(300, 50)
  end)

  it("answers what a function says", function()
    local t = tool.new { name = "echo", result = function(_, arguments) return "got " .. arguments.x end }
    expect(t:run(test.vu(), { x = 3 })):eq "got 3"
  end)

  it("never sleeps a negative time", function()
    local vu = test.vu()
    tool.new { name = "t", latency = gen.normal(-5, 0) }:run(vu)
    expect(vu.slept):eq { 0 }
  end)

  it("refuses what cannot be", function()
    expect(function() tool.new {} end):errors "name is missing"
    expect(function() tool.new { name = "t", failure = 2 } end):errors "failure of 't' lies in 0%.%.1"
    expect(function() tool.new { name = "t", latency = "5 apples" } end):errors "latency of 't'"
    expect(function() tool.new { name = "t", latency = -1 } end):errors "must not be negative"
    expect(function() tool.new { name = "t", laency = 1 } end):errors "did you mean 'latency'"
    local inf, nan = 1 / 0, 0 / 0
    for says, opts in pairs {
      ["latency of 't' must be a finite number, got inf"] = { latency = inf },
      ["latency of 't' must be at most a year"] = { latency = 1e12 },
      ["latency of 't': \"5%%\" is not a time"] = { latency = "5%" },
      ["result_tokens of 't' must be a number up to 1e9"] = { result_tokens = nan },
      ["failure of 't' must be a finite number"] = { failure = nan },
      ["failure of 't': \"1s\" is not a share"] = { failure = "1s" },
      ["failure of 't' lies in 0%.%.1"] = { failure = 2 },
      ["weight of 't' must be at least 0, got %-1"] = { weight = -1 },
      ["weight of 't' must be a finite number, got inf"] = { weight = inf },
      ["weight of 't' must be a number, got the string"] = { weight = "5%" },
    } do
      opts.name = "t"
      expect(function() tool.new(opts) end):errors(says)
    end
    expect(function() tool.new { name = "t", result = 3 } end):errors "must be a function"
    expect(function() tool.new { name = "t", arguments = 3 } end):errors "must be a function %(rng%)"
  end)
end)

describe("tool.set", function()
  local set = tool.set {
    tool.new { name = "a", weight = 3, arguments = function(rng) return { n = rng:int(1, 9) } end },
    tool.new { name = "b", result = function() return "from b" end },
  }

  it("lists schemas and picks by weight", function()
    expect(set.names):eq { "a", "b" }
    expect(#set.schemas):eq(2)
    local vu, count = test.vu(), { a = 0, b = 0 }
    for _ = 1, 2000 do
      local name, arguments = set:pick(vu)
      count[name] = count[name] + 1
      expect(arguments.n ~= nil):eq(name == "a")
    end
    expect(count.a / count.b):near(3, 0.6)
  end)

  it("runs by name", function()
    expect(set:run(test.vu(), "b")):eq "from b"
    expect(function() set:run(test.vu(), "bb") end):errors "unknown tool 'bb'"
  end)

  it("wants its methods called with a colon, and knows its names", function()
    local t = tool.new { name = "t" }
    expect(function() set.pick(test.vu()) end)
      :errors "test_tool.lua:%d+: set:pick: call it with a colon, set:pick%(vu%)"
    expect(function() set:pik(test.vu()) end):errors "set has no 'pik' %(did you mean 'pick'%?%)"
    expect(function() t.run(test.vu()) end):errors "tool:run: call it with a colon, tool:run%(vu, arguments%)"
    expect(function() return t.nam end):errors "tool has no 'nam' %(did you mean 'name'%?%)"
  end)

  it("refuses doubles and strangers", function()
    expect(function() tool.set {} end):errors "at least one tool"
    expect(function() tool.set { {} } end):errors "entry 1 is no tool"
    local t = tool.new { name = "t" }
    expect(function() tool.set { t, t } end):errors "two tools called 't'"
  end)
end)
