-- perigee.sweep: what a sweep may be, before any command builds its grid.
local perigee = require "perigee"
local route = require "perigee.route"
local runtime = require "perigee.runtime"

local depth = perigee.param("depth", 2, "a parameter")
perigee.param("flag", false)
perigee.param("word", "x")

local function plan(extra)
  local fields = { load = perigee.closed { users = 2, duration = "1m" }, session = function() return depth end }
  for key, value in pairs(extra or {}) do
    fields[key] = value
  end
  return perigee.plan(fields)
end

local function sweep(over, extra)
  local fields = { plan = plan(), over = over }
  for key, value in pairs(extra or {}) do
    fields[key] = value
  end
  return perigee.sweep(fields)
end

local function wrong(text, over, extra)
  expect(function() sweep(over, extra) end):errors(text)
end

describe("a sweep", function()
  it("knows what each of its axes is, with values as the command line would have them", function()
    local s = sweep { { "replicas", { 1, 2 } }, { "kv_blocks", { 500, 1000.0 } }, { "profile", { "tiny" } },
      { "rate", { 0.1, "30/m" } }, { "depth", { 3, 0.30000000000000004 } }, { "flag", { true, false } } }
    local kinds, values = {}, {}
    for i, axis in ipairs(s.axes) do
      kinds[i], values[i] = axis.name .. ":" .. axis.kind, table.concat(axis.values, " ")
    end
    expect(kinds):eq { "replicas:replicas", "kv_blocks:fleet", "profile:profile", "rate:load", "depth:param",
      "flag:param" }
    expect(values):eq { "1 2", "500 1000", "tiny", "0.1 30/m", "3 0.30000000000000004", "true false" }
    expect(getmetatable(s)):eq(runtime.sweep_type())
  end)

  it("has policies in the order written, or by name", function()
    local a, b = route.session_hash(), route.round_robin()
    local s = sweep { { "route", { { "z", a }, { "m", b } } } }
    expect(s.axes[1].values):eq { "z", "m" }
    expect(s.axes[1].policies.m):eq(b)
    expect(sweep({ { "route", { z = a, m = b } } }).axes[1].values):eq { "m", "z" }
  end)

  it("keeps its plan as it is where no point is chosen, and gives it its own name", function()
    local policy = route.round_robin()
    local of = plan { route = policy, name = "inner", description = "what it does" }
    local s = perigee.sweep { plan = of, name = "outer", over = { { "route", { a = route.session_hash() } } } }
    expect(s.plan.name):eq "outer"
    expect(s.plan.description):eq "what it does"
    expect(s.plan.route):eq(policy)
    expect(of.name):eq "inner"
    expect(getmetatable(s.plan)):eq(runtime.plan_type())
  end)
end)

describe("what is no sweep", function()
  it("is named with the way out", function()
    expect(function() perigee.sweep(3) end):errors "sweep: a table is expected, got number"
    expect(function() perigee.sweep { over = {} } end):errors "sweep: plan is missing: plan = perigee.plan"
    expect(function() perigee.sweep { plan = {}, over = {} } end):errors "plan must be made by perigee.plan, got table"
    expect(function() perigee.sweep { plan = sweep { { "replicas", { 1 } } }, over = {} } end)
      :errors "sweep: plan is a sweep itself; sweep over its plan"
    wrong("unknown option 'ovr' %(did you mean 'over'%?%)", nil, { ovr = {} })
    wrong("sweep: name must be a string, got number", { { "replicas", { 1 } } }, { name = 3 })
    wrong("sweep: limit must be a whole number from 1 on, got 0", { { "replicas", { 1 } } }, { limit = 0 })
  end)

  it("has axes that are none", function()
    wrong("sweep: over must be a list of axes { name, values }, in the order", nil)
    wrong("sweep: over must be a list of axes", { replicas = { 1, 2 } })
    wrong("over is a list, as the order matters: .*; it has the key kv_blocks",
      { { "replicas", { 1 } }, kv_blocks = { 1 } })
    wrong("sweep: over%[1%] must be an axis { name, values }", { { "replicas", 1, 2 } })
    wrong("sweep: over%[1%] must be an axis .* got string", { "replicas" })
    wrong("over%[2%] %(replicas%): the axis is given twice", { { "replicas", { 1 } }, { "replicas", { 2 } } })
    wrong("an axis is named by a word", { { "kv blocks", { 1 } } })
  end)

  it("has values that are none", function()
    wrong("over%[1%] %(replicas%): the list of values is empty; an axis needs one", { { "replicas", {} } })
    wrong("%(replicas%): a list of values is expected, as in { 1, 2, 4 }, got number", { { "replicas", 3 } })
    wrong("%(replicas%): a list of values is expected.* the key a", { { "replicas", { 1, a = 2 } } })
    wrong("%(replicas%): the value 2 is given twice", { { "replicas", { 1, 2, 2.0 } } })
    wrong("%(kv_blocks%)%[1%] must be a number, string or boolean, got table", { { "kv_blocks", { {} } } })
    wrong("%(profile%)%[1%] must be a word without commas, got the string \"a,b\"", { { "profile", { "a,b" } } })
    wrong("%(kv_blocks%)%[2%]", { { "kv_blocks", { 1, 0 / 0 } } })
    wrong("%(depth%)%[2%]: the parameter is a number, as its default 2", { { "depth", { 1, "deep" } } })
    wrong("%(flag%)%[1%] must be true or false, as the parameter's default, got the string \"yes\"",
      { { "flag", { "yes" } } })
  end)

  it("has policies that are none", function()
    local a = route.session_hash()
    wrong("%(route%)%[1%]: a policy with its name is expected, as in { { \"sticky\"", { { "route", { a } } })
    wrong("%(route%)%[2%]: the name x is given twice", { { "route", { { "x", a }, { "x", a } } } })
    wrong("%(route%)%[1%]: a policy's name is a word of letters", { { "route", { ["a b"] = a } } })
    wrong("%(route%): the list of values is empty", { { "route", {} } })
    wrong("%(route%)%[1%]", { { "route", { x = "session_hash" } } })
  end)

  it("is a setting of the fleet and a parameter at once", function()
    perigee.param("replicas", 3)
    wrong("%(replicas%): it is a parameter of the script and a setting of the built%-in fleet; give the",
      { { "replicas", { 1 } } })
    perigee.param("route", "sticky") -- no fleet has that: the parameter is meant
    expect(sweep({ { "route", { "sticky", "spread" } } }).axes[1].kind):eq "param"
  end)
end)
