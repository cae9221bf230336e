-- perigee.sweep: one plan at every point of a grid. The axes' values are kept as texts, as the command line
-- would have them; what only the command knows (the built-in fleet's settings, the grid and its points) is
-- checked there (src/cmd/sweepgrid.c). In a point's states the plan is that point's.
local core = require "perigee.core"
local request = require "perigee.request"
local runtime = require "perigee.runtime"

local FIELDS = { "name", "description", "plan", "over", "limit" }
local LOAD = { users = true, rate = true, duration = true, sessions = true, warmup = true }
local FLEET = { replicas = true, profile = true }
local MOST_VALUES, MOST_POINTS = 10000, 1000000

-- A number as the shortest text that reads back as the same number.
local function number_text(x, where)
  core.number(x, where)
  if math.type(x) == "integer" then
    return tostring(x)
  end
  for digits = 15, 17 do
    local text = ("%." .. digits .. "g"):format(x)
    if tonumber(text) == x then
      return text
    end
  end
end

local function value_text(value, where)
  local kind = type(value)
  if kind == "number" then
    return number_text(value, where)
  elseif kind == "boolean" then
    return tostring(value)
  elseif kind ~= "string" then
    core.raise(("%s must be a number, string or boolean, got %s"):format(where, kind))
  elseif value == "" or value:find "[%c,]" then
    core.raise(where .. " must be a word without commas, got " .. core.shown(value))
  end
  return value
end

-- What --set would make of a value of a parameter whose default is of this type.
local function check_param(value, default, where)
  local kind = type(default)
  if kind == "number" then
    local ok, message = pcall(core.quantity, value, "the value")
    if not ok then
      core.raise(("%s: the parameter is a number, as its default %s; %s"):format(where, default, message))
    end
  elseif kind == "boolean" and type(value) ~= "boolean" then
    core.raise(("%s must be true or false, as the parameter's default, got %s"):format(where,
      core.shown(value)))
  end
end

local function list_of(values, where, example)
  if type(values) ~= "table" or getmetatable(values) ~= nil then
    core.raise(("%s: a list of values is expected, as in %s, got %s"):format(where, example, type(values)))
  elseif next(values) == nil then
    core.raise(("%s: the list of values is empty; an axis needs one at least, as in %s"):format(where,
      example))
  end
  for key in pairs(values) do
    if math.type(key) ~= "integer" or key < 1 or key > #values then
      core.raise(("%s: a list of values is expected, as in %s; it has the key %s"):format(where, example,
        tostring(key)))
    end
  end
  if #values > MOST_VALUES then
    core.raise(("%s: %d values; %d are possible"):format(where, #values, MOST_VALUES))
  end
  return values
end

local POLICIES = "{ { \"sticky\", route.session_hash() }, { \"spread\", route.round_robin() } }"

-- Policies have no name of their own: { name, policy } pairs in order, or name = policy, by name.
local function route_axis(values, where)
  local axis = { name = "route", kind = "route", values = {}, policies = {} }
  if type(values) == "table" and getmetatable(values) == nil and #values == 0 then
    local pairs_of = {}
    for name, policy in pairs(values) do
      pairs_of[#pairs_of + 1] = { name, policy }
    end
    table.sort(pairs_of, function(a, b)
      return tostring(a[1]) < tostring(b[1])
    end)
    values = pairs_of
  end
  for i, pair in ipairs(list_of(values, where, POLICIES)) do
    local place = ("%s[%d]"):format(where, i)
    if type(pair) ~= "table" or #pair ~= 2 or type(pair[1]) ~= "string" then
      core.raise(("%s: a policy with its name is expected, as in %s, got %s"):format(place, POLICIES,
        type(pair)))
    elseif not pair[1]:find "^[%w_.-]+$" then
      core.raise(place .. ": a policy's name is a word of letters, digits, _, . and -, got "
        .. core.shown(pair[1]))
    elseif pair[2] == nil or axis.policies[pair[1]] then
      core.raise(("%s: the name %s is given twice"):format(place, pair[1]))
    end
    request.check_policy(pair[2], place)
    axis.values[i], axis.policies[pair[1]] = pair[1], pair[2]
  end
  return axis
end

-- The parameters that the script has declared so far, by name.
local function declared()
  local params = {}
  for _, p in ipairs(runtime.declared()) do
    params[p.name] = p
  end
  return params
end

local function other_axis(name, values, params, where)
  local param = params[name]
  if param and FLEET[name] then
    core.raise(("%s: it is a parameter of the script and a setting of the built-in fleet; give the parameter "
      .. "another name"):format(where))
  end
  local axis = { name = name, values = {},
    kind = param and "param" or LOAD[name] and "load" or FLEET[name] and name or "fleet" }
  local seen = {}
  for i, value in ipairs(list_of(values, where, "{ 1, 2, 4 }")) do
    local place = ("%s[%d]"):format(where, i)
    local text = value_text(value, place)
    if param then
      check_param(value, param.default, place)
    end
    if seen[text] then
      core.raise(("%s: the value %s is given twice"):format(where, text))
    end
    seen[text], axis.values[i] = true, text
  end
  return axis
end

local OVER = "over = { { \"replicas\", { 1, 2, 4 } }, { \"kv_blocks\", { 500, 1000 } } }"

local function axes_of(over)
  if type(over) ~= "table" or #over == 0 then
    core.raise(("sweep: over must be a list of axes { name, values }, in the order in which they vary (the "
      .. "last one fastest): %s"):format(OVER))
  end
  local axes, seen, params = {}, {}, declared()
  for key in pairs(over) do
    if math.type(key) ~= "integer" or key < 1 or key > #over then
      core.raise(("sweep: over is a list, as the order matters: %s; it has the key %s"):format(OVER,
        tostring(key)))
    end
  end
  for i, axis in ipairs(over) do
    local where = ("sweep: over[%d]"):format(i)
    if type(axis) ~= "table" or #axis ~= 2 or type(axis[1]) ~= "string" then
      core.raise(("%s must be an axis { name, values }, as in { \"replicas\", { 1, 2, 4 } }, got %s"):format(
        where, type(axis) == "table" and "another table" or type(axis)))
    end
    local name = axis[1]
    where = ("%s (%s)"):format(where, name)
    if not name:find "^[%a_][%w_]*$" then
      core.raise(("%s: an axis is named by a word of letters, digits and _"):format(where))
    elseif seen[name] then
      core.raise(("%s: the axis is given twice"):format(where))
    end
    seen[name] = true
    axes[i] = name == "route" and not params.route and route_axis(axis[2], where)
      or other_axis(name, axis[2], params, where)
  end
  return axes
end

-- The plan as it is at the point that runs: a copy, so that a module's plan stays what it is.
local function plan_here(sweep, axes)
  local plan = {}
  for key, value in pairs(sweep.plan) do
    plan[key] = value
  end
  plan.name = sweep.name or plan.name
  plan.description = sweep.description or plan.description
  local chosen = runtime.route()
  for _, axis in ipairs(axes) do
    if axis.policies and chosen then
      plan.route = axis.policies[chosen]
    end
  end
  return setmetatable(plan, runtime.plan_type())
end

--- The constructor: `perigee.sweep`.
return function(sweep)
  if type(sweep) ~= "table" then
    core.raise("sweep: a table is expected, got " .. type(sweep))
  end
  core.options(sweep, "sweep", FIELDS)
  for _, field in ipairs { "name", "description" } do
    if sweep[field] ~= nil and type(sweep[field]) ~= "string" then
      core.raise(("sweep: %s must be a string, got %s"):format(field, type(sweep[field])))
    end
  end
  if sweep.plan == nil then
    core.raise "sweep: plan is missing: plan = perigee.plan { … }, or plan = require \"my_scenario\""
  elseif getmetatable(sweep.plan) == runtime.sweep_type() then
    core.raise "sweep: plan is a sweep itself; sweep over its plan: plan = require(\"…\").plan"
  elseif getmetatable(sweep.plan) ~= runtime.plan_type() then
    core.raise("sweep: plan must be made by perigee.plan, got " .. type(sweep.plan))
  end
  local axes = axes_of(sweep.over)
  local limit = sweep.limit ~= nil and core.whole(sweep.limit, "sweep: limit", 1, MOST_POINTS) or nil
  runtime.place(sweep)
  return setmetatable({ name = sweep.name, description = sweep.description, plan = plan_here(sweep, axes),
    axes = axes, limit = limit }, runtime.sweep_type())
end
