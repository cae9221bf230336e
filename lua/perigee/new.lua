-- `perigee new`: a scenario, or a library, to start from. The texts are functions of the name, so
-- that tests can run what they write.
local core = require "perigee.core"

local new = {}

local SCENARIO = [[
--- NAME: what it measures, in one line (`perigee list` shows it).
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

local users = perigee.param("users", 4, "people at the same time")
local duration = perigee.param("duration", "10s", "how long sessions are started")

local SYSTEM = gen.text { tokens = 500, seed = "NAME" } -- the same for everyone

local function session(vu) -- one user's story, top to bottom
  local conv = chat.new(vu, { system = SYSTEM })
  for _ = 1, vu.rng:int(2, 5) do
    conv:user(gen.text { tokens = vu.rng:normal(80, 20), rng = vu.rng })
    conv:send { max_tokens = 60 } -- waits; an answer of that length goes into the history
    vu:sleep(vu.rng:exp "500ms")
  end
end

return perigee.plan {
  description = "people who ask a few questions each, with the same system prompt",
  load = perigee.closed { users = users, duration = duration },
  session = session,
  expect = {
    "failed share < 1%",
    "cached_ratio{turn=2..5} mean > 50%",
  },
}
]]

local LIBRARY = [[
--- NAME: what it is for, in one line.
--- A library takes `vu` as an argument and keeps nothing between calls.
local gen = require "perigee.gen"

local NAME = {}

--- Asks one question and reads the answer.
---@param vu perigee.Vu
---@param conv perigee.Conversation
---@param tokens integer size of the question
---@return perigee.Reply
function NAME.ask(vu, conv, tokens)
  conv:user(gen.text { tokens = tokens, rng = vu.rng })
  local reply = conv:send { max_tokens = 60 }
  vu:sleep(vu.rng:exp "500ms")
  return reply
end

return NAME
]]

local SPEC = [[
--- Run with: perigee test .
local NAME = require "NAME"
local chat = require "perigee.chat"
local test = require "perigee.test"

describe("NAME.ask", function()
  it("asks, waits and reads", function()
    local vu = test.vu { replies = { "fine" } }
    local conv = chat.new(vu)
    expect(NAME.ask(vu, conv, 40).text):eq "fine"
    expect(#conv:message(1).content):eq(40)
    expect(#vu.slept):eq(1)
  end)
end)
]]

local USE = [[
--- A scenario that uses NAME.
local perigee = require "perigee"
local NAME = require "NAME"
local chat = require "perigee.chat"

return perigee.plan {
  load = perigee.closed { users = 4, duration = "10s" },
  session = function(vu)
    local conv = chat.new(vu)
    for _ = 1, 3 do
      NAME.ask(vu, conv, 80)
    end
  end,
  expect = { "failed share < 1%" },
}
]]

local ROCKSPEC = [[
-- To install it for a scenario: luarocks --lua-version 5.4 make --tree FOLDER/lua_modules
rockspec_format = "3.0"
package = "NAME"
version = "0.1.0-1"
source = {
  url = "git+https://example.invalid/NAME.git", -- where it is kept
  tag = "v0.1.0",
}
description = {
  summary = "What NAME is for",
  license = "Apache-2.0",
}
dependencies = {
  "lua >= 5.4", -- perigee's own modules are built into its binary
}
build = {
  type = "builtin",
  modules = {
    NAME = "NAME.lua",
  },
}
]]

local function fill(text, name)
  return (text:gsub("NAME", name))
end

--- The text of a scenario called `name`.
function new.scenario(name)
  return fill(SCENARIO, name)
end

--- The files of a library called `name`: path below its folder -> text.
function new.library(name)
  return {
    [name .. ".lua"] = fill(LIBRARY, name),
    [name .. "_spec.lua"] = fill(SPEC, name),
    ["use_" .. name .. ".lua"] = fill(USE, name),
    [name .. "-0.1.0-1.rockspec"] = fill(ROCKSPEC, name),
  }
end

local USAGE = [[
Usage: perigee new NAME              writes NAME.lua, a scenario to start from
       perigee new --library NAME    writes a folder NAME: a library, its tests, a scenario, a rockspec

NAME may have folders before it (scenarios/my_test); they are made. Existing files are never overwritten.
]]

local function exists(path)
  local file = io.open(path, "r")
  if file then
    file:close()
  end
  return file ~= nil
end

-- Makes a folder and those above it; true, or nil and why not.
local function make_folders(path)
  if path == "" or path == "." or path == "/" then
    return true
  end
  local above = path:match "^(.*)/[^/]*$"
  if above then
    local ok, message = make_folders(above)
    if not ok then
      return nil, message
    end
  end
  return core.make_folder(path)
end

local function write(path, text)
  local file, message = io.open(path, "w")
  if file then
    local ok
    ok, message = file:write(text)
    local closed, why = file:close()
    if ok and closed then
      io.write("wrote ", path, "\n")
      return true
    end
    message = message or why
  end
  io.stderr:write("perigee new: ", tostring(message), "\n")
  return false
end

local function refuse(text)
  io.stderr:write("perigee new: ", text, "\n")
  return 2
end

-- Names that the files of a library could not use for it: Lua's own, and those they use themselves.
local TAKEN = { "cjson", "gen", "chat", "test", "vu", "conv", "tokens", "reply", "expect", "describe", "it" }
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then "
  .. "true until while"):gmatch "%a+" do
  TAKEN[word] = "a word of Lua's"
end

-- Why a library cannot be called so, or nil.
local function why_not(name)
  if TAKEN[name] then
    return TAKEN[name]
  elseif _G[name] ~= nil or package.preload[name] or name:find "^perigee" then
    return "the name of something that every script finds there already"
  end
  for _, taken in ipairs(TAKEN) do
    if name == taken then
      return "a name that the library's files use for something else"
    end
  end
end

local function write_library(path, name)
  local reason = why_not(name)
  if reason then
    return refuse(("'%s' is %s; choose another name, such as my_%s"):format(name, reason, name))
  end
  local ok, message = make_folders(path)
  if not ok then
    io.stderr:write("perigee new: ", message, "\n")
    return 1
  end
  local files = new.library(name)
  for file in pairs(files) do
    if exists(path .. "/" .. file) then
      return refuse(path .. "/" .. file .. " is there already; choose another name or remove it")
    end
  end
  for file, text in pairs(files) do
    if not write(path .. "/" .. file, text) then
      return 1
    end
  end
  io.write(("next: perigee test %s; perigee run %s/use_%s.lua\n"):format(path, path, name))
  io.write(("to use it elsewhere: cd %s && luarocks --lua-version 5.4 make --tree FOLDER/lua_modules, FOLDER "
    .. "the scenario's\n"):format(path))
  return 0
end

--- The command.
function new.main(args)
  local path, library
  for _, arg in ipairs(args) do
    if arg == "--help" or arg == "-h" then
      io.write(USAGE)
      return 0
    elseif arg == "--library" then
      library = true
    elseif arg:sub(1, 1) == "-" then
      return refuse(core.unknown_option("new", arg, { "--help", "--library" }))
    elseif path then
      return refuse "one name is expected"
    else
      path = arg
    end
  end
  if not path then
    return refuse("a name is expected\n" .. USAGE)
  end
  path = path:gsub("%.lua$", ""):gsub("/+$", "")
  local name = path:match "[^/]*$"
  if not name:find "^[%a_][%w_]*$" then
    local near = name:gsub("[^%w_]+", "_"):gsub("^%d", "_%0")
    local rule = "'%s' is no module name: letters, digits and _, not beginning with a digit%s"
    return refuse(rule:format(name,
      near:find "%w" and (" (did you mean '%s'?)"):format(near) or ""))
  end
  if library then
    return write_library(path, name)
  end
  path = path .. ".lua"
  if exists(path) then
    return refuse(path .. " is there already; choose another name or remove it")
  end
  local made, message = make_folders(path:match "^(.*)/" or "")
  if not made then
    io.stderr:write("perigee new: ", message, "\n")
    return 1
  end
  if not write(path, new.scenario(name)) then
    return 1
  end
  io.write("next: perigee run ", path, "\n")
  return 0
end

return new
