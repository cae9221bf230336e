--- The tools of a coding agent, simulated: what it calls, how long that takes, how much comes back.
-- A shared script library: it takes `vu` as an argument and keeps nothing between calls.
local gen = require "perigee.gen"
local tool = require "perigee.tool"

local FILES = { "src/main.c", "src/parse.c", "src/parse.h", "tests/test_parse.c", "Makefile", "README.md" }

local function string_field(description)
  return { type = "string", description = description }
end

local function schema(properties, required)
  return { type = "object", properties = properties, required = required }
end

local set = tool.set {
  tool.new {
    name = "read_file",
    description = "Read a file of the repository.",
    parameters = schema({ path = string_field "path of the file" }, { "path" }),
    arguments = function(rng) return { path = rng:choice(FILES) } end,
    latency = gen.lognormal("20ms", 0.5),
    result_tokens = gen.lognormal(250, 0.6, { min = 20, max = 900 }),
    weight = 4,
  },
  tool.new {
    name = "search",
    description = "Search the repository for a pattern; returns matching lines.",
    parameters = schema({ pattern = string_field "regular expression" }, { "pattern" }),
    arguments = function(rng) return { pattern = tostring(gen.words { words = 2, rng = rng }) } end,
    latency = gen.lognormal("60ms", 0.4),
    result_tokens = gen.lognormal(120, 0.5, { max = 500 }),
    weight = 3,
  },
  tool.new {
    name = "edit_file",
    description = "Replace a piece of a file by another.",
    parameters = schema({
      path = string_field "path of the file",
      old = string_field "text to replace",
      new = string_field "text to put there",
    }, { "path", "old", "new" }),
    arguments = function(rng)
      return {
        path = rng:choice(FILES),
        old = tostring(gen.words { words = 6, rng = rng }),
        new = tostring(gen.words { words = 9, rng = rng }),
      }
    end,
    latency = "10ms",
    result_tokens = 30,
    failure = "5%",
    error = "Error: the text to replace does not occur in this file",
    weight = 2,
  },
  tool.new {
    name = "run_tests",
    description = "Build the project and run its tests.",
    latency = gen.lognormal("300ms", 0.5, { max = "3s" }),
    result_tokens = gen.normal(180, 60, { min = 40 }),
    weight = 1,
  },
}

local tools = { schemas = set.schemas }

--- The next call: a tool's name and its arguments.
function tools.pick(vu)
  return set:pick(vu)
end

--- Runs it: waits as long as the tool would and returns its result.
function tools.run(vu, name, arguments)
  return (set:run(vu, name, arguments))
end

return tools
