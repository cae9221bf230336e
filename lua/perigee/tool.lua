-- Simulated tools: how long they take, how much they answer, how often they fail. A tool waits as
-- the real one would (vu:sleep) and answers with generated text.
local core = require "perigee.core"
local gen = require "perigee.gen"
local object = require "perigee.object"

local tool = {}

local Tool = {}
Tool.__name = "tool"

local Set = {}
Set.__name = "tool set"

local NEW_OPTIONS = {
  "arguments", "description", "error", "failure", "latency", "name", "parameters", "result",
  "result_tokens", "weight",
}

-- A fixed value is checked now; a distribution when it is drawn.
local function model(value, check, what)
  if type(value) ~= "function" then
    return check(value, what)
  end
  return value
end

local function check_latency(value, what)
  value = core.seconds(value, what)
  if value < 0 then
    core.raise(what .. " must not be negative")
  end
  return value
end

--- A simulated tool.
function tool.new(opts)
  opts = core.options(opts, "tool.new", NEW_OPTIONS)
  if type(opts.name) ~= "string" then
    core.raise("tool.new: name is missing")
  end
  local function what(option)
    return ("tool.new: %s of '%s'"):format(option, opts.name)
  end
  if opts.result ~= nil and (type(opts.result) ~= "function" or opts.result_tokens ~= nil) then
    core.raise(what "result" .. " must be a function (vu, arguments) -> text, without result_tokens")
  end
  if opts.arguments ~= nil and type(opts.arguments) ~= "function" then
    core.raise(what "arguments" .. " must be a function (rng) -> table")
  end
  local failure = core.ratio(opts.failure or 0, what "failure")
  if failure < 0 or failure > 1 then
    core.raise(what "failure" .. " lies in 0..1")
  end
  return setmetatable({
    name = opts.name,
    weight = core.number(opts.weight or 1, what "weight", 0),
    latency = model(opts.latency or 0, check_latency, what "latency"),
    result_tokens = model(opts.result_tokens or 50, core.count, what "result_tokens"),
    result = opts.result,
    failure = failure,
    error = opts.error or ("Error: %s failed"):format(opts.name),
    make_arguments = opts.arguments,
    schema = {
      type = "function",
      ["function"] = {
        name = opts.name,
        description = opts.description,
        parameters = opts.parameters or { type = "object", properties = {} },
      },
    },
  }, Tool)
end

--- Arguments for a call, drawn.
function Tool:arguments(rng)
  return self.make_arguments and self.make_arguments(rng) or {}
end

--- Waits as long as the tool would, and answers. Draws failure, time and size in this order.
function Tool:run(vu, arguments)
  local failed = vu.rng:bool(self.failure)
  vu:sleep(math.max(0, gen.draw(self.latency, vu.rng)))
  if failed then
    return self.error, false
  end
  if self.result then
    return self.result(vu, arguments), true
  end
  return gen.text { tokens = self.result_tokens, rng = vu.rng }, true
end

--- Several tools as an agent has them.
function tool.set(tools)
  if type(tools) ~= "table" or #tools == 0 then
    core.raise("tool.set: a list with at least one tool is expected")
  end
  local set = setmetatable({ schemas = {}, names = {}, by_name = {} }, Set)
  local weights = {}
  for i, t in ipairs(tools) do
    if getmetatable(t) ~= Tool then
      core.raise(("tool.set: entry %d is no tool of tool.new"):format(i))
    elseif set.by_name[t.name] then
      core.raise(("tool.set: there are two tools called '%s'"):format(t.name))
    end
    set.schemas[i], set.names[i], weights[i] = t.schema, t.name, t.weight
    set.by_name[t.name] = t
  end
  set.choose = gen.choice(tools, weights)
  return set
end

--- The next call an agent would make: name, arguments.
function Set:pick(vu)
  local chosen = self.choose(vu.rng)
  return chosen.name, chosen:arguments(vu.rng)
end

--- Runs the tool of that name.
function Set:run(vu, name, arguments)
  return self.by_name[core.word(name, "tool set", "tool", self.names)]:run(vu, arguments)
end

object.class(Tool, "tool", { "name", "schema" }, { "make_arguments", "result" })
object.class(Set, "set", { "names", "schemas" })

return core.named(tool, "tool")
