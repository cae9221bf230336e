-- tests/lint/docs.lua: the reference is what the LuaCATS file says, and that is what the modules have.
local docs = dofile "tests/lint/docs.lua"

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local META = require "perigee.types".definitions() -- as one text

describe("the reference", function()
  it("has an entry for everything there is, and nothing else", function()
    expect(docs.check(docs.read_all "lua/meta/perigee.lua")):eq {}
  end)

  it("is what lua/README.md says", function()
    local made = docs.write(docs.read_all "lua/meta/perigee.lua", docs.metrics())
    expect(made == read "lua/README.md"):eq(true) -- else: make docs
  end)

  it("notices what is missing and what is too much", function()
    local changed = META:gsub("function Conversation:truncate%(n%) end", "function Conversation:shorten(n) end")
      :gsub("%-%-%-@param vu perigee.Vu who sends it\n", "---@param user perigee.Nobody who sends it\n", 1)
    local problems = table.concat(docs.check(docs.read(changed)), "\n")
    expect(problems):contains "perigee.Conversation: truncate is there but has no entry"
    expect(problems):matches "perigee.Conversation: shorten has an entry %(line %d+%) but is not there"
    expect(problems):contains "@param user is no parameter of new"
    expect(problems):contains "parameter vu of new has no @param"
    expect(problems):contains "type perigee.Nobody is nowhere described"
    package.preload["perigee.novelty"] = function() end
    local problem = table.concat(docs.check(docs.read(META)), "\n")
    expect(problem):contains "perigee.novelty: the module is neither in lua/meta"
    package.preload["perigee.novelty"] = nil
  end)

  it("understands types with spaces", function()
    local parsed = docs.read [[
--- A class.
---@class perigee.x
---@field f fun(a: string, b: number): boolean, string? what it is
---@field g "a b"|"c" | nil which
---@field h { [1]: string, [2]: integer }[] pairs
local x = {}
]]
    local fields = parsed.classes["perigee.x"].fields
    expect(fields[1].type):eq "fun(a: string, b: number): boolean, string?"
    expect(fields[1].text):eq "what it is"
    expect(fields[2].type):eq '"a b"|"c" | nil'
    expect(fields[3].type):eq "{ [1]: string, [2]: integer }[]"
  end)

  it("says where it does not understand", function()
    expect(function() docs.read "local y = 1" end):errors "line 1: not understood"
    expect(function() docs.read "--- x\n---@nonsense y\n" end):errors "line 2: unknown tag @nonsense"
    expect(function() docs.read "function Vu:sleep() end" end):errors "line 1: sleep has no description"
  end)
end)
