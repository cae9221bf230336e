-- `perigee types`: what an editor with the Lua language server needs to know perigee: the LuaCATS
-- file that is also the source of the reference, and settings that point at it.
local core = require "perigee.core"
local json = require "perigee.json"

local types = {}

local FOLDER = ".perigee/types"

--- The LuaCATS file.
function types.definitions()
  return core.embedded "lua/meta/perigee.lua"
end

--- The files of the types folder, path -> text. The definitions stand in one file; a stub for each module
--- tells the language server what `require` gives.
function types.files()
  local text = types.definitions()
  local files = { ["perigee.lua"] = text }
  for name in text:gmatch "%-%-%-@class perigee%.(%l[%l_]*)\n" do
    files["perigee/" .. name .. ".lua"] = ("---@meta perigee.%s\n---@type perigee.%s\n"
      .. "local module\nreturn module\n"):format(name, name)
  end
  return files
end

--- The editor's settings, as .luarc.json holds them.
function types.settings()
  return json.object {
    { "$schema", "https://raw.githubusercontent.com/LuaLS/vscode-lua/master/setting/schema.json" },
    { "runtime.version", "Lua 5.4" },
    { "runtime.path", { "?.lua", "lib/?.lua", "lua_modules/share/lua/5.4/?.lua" } },
    { "workspace.library", { FOLDER } },
    { "workspace.checkThirdParty", false },
    { "diagnostics.globals", { "describe", "it", "expect", "before_each", "after_each" } },
  }
end

local USAGE = [[
Usage: perigee types [--print] [FOLDER]

Writes FOLDER/.perigee/types/ (the types of every perigee module) and FOLDER/.luarc.json (settings of
the Lua language server that point at it). FOLDER is the working directory unless given.
An existing .luarc.json is left alone: what to add to it is printed.

  --print   write the types to standard output and no file
]]

local function fail(status, text)
  io.stderr:write("perigee types: ", text, "\n")
  return status
end

local function write(path, text)
  local file, message = io.open(path, "w")
  if not file then
    return nil, message
  end
  local ok, why = file:write(text)
  local closed, late = file:close()
  if not ok or not closed then
    return nil, ("%s: %s"):format(path, why or late)
  end
  io.write("wrote ", path, "\n")
  return true
end

local function read(path)
  local file = io.open(path, "r")
  if not file then
    return nil
  end
  local text = file:read "a"
  file:close()
  return text
end

local function write_settings(path)
  local wanted = json.encode(types.settings(), { pretty = true }) .. "\n"
  local there = read(path)
  if there == nil then
    return write(path, wanted)
  elseif there ~= wanted then
    io.write(path, " is there already; it should hold:\n", wanted)
  end
  return true
end

--- The command.
function types.main(args)
  local folder
  for _, arg in ipairs(args) do
    if arg == "--help" or arg == "-h" then
      io.write(USAGE)
      return 0
    elseif arg == "--print" then
      io.write(types.definitions())
      return 0
    elseif arg:sub(1, 1) == "-" then
      return fail(2, core.unknown_option("types", arg, { "--help", "--print" }))
    elseif folder then
      return fail(2, "one folder is expected")
    else
      folder = arg
    end
  end
  folder = folder or "."
  local ok, message = core.files(folder)
  if not ok then
    return fail(2, message)
  end
  for _, below in ipairs { "/.perigee", "/" .. FOLDER, "/" .. FOLDER .. "/perigee" } do
    ok, message = core.make_folder(folder .. below)
    if not ok then
      return fail(1, message)
    end
  end
  for path, text in pairs(types.files()) do
    ok, message = write(("%s/%s/%s"):format(folder, FOLDER, path), text)
    if not ok then
      return fail(1, message)
    end
  end
  ok, message = write_settings(folder .. "/.luarc.json")
  if not ok then
    return fail(1, message)
  end
  return 0
end

return types
