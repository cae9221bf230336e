-- `perigee types`: what an editor with the Lua language server needs to know perigee: the LuaCATS
-- files that are also the source of the reference, and settings that point at them.
local core = require "perigee.core"
local json = require "perigee.json"

local types = {}

local FOLDER = ".perigee/types"

--- The names of the files in perigee/ that belong to `text`, the main one: its third line.
function types.parts(text)
  local names = {}
  for name in text:match("^[^\n]*\n[^\n]*\n%-%- ([%l_ ]+)\n"):gmatch "%S+" do
    names[#names + 1] = name
  end
  return names
end

--- The files of the types folder, path -> text, and their paths in order.
function types.files()
  local main = core.embedded "lua/meta/perigee.lua"
  local files, order = { ["perigee.lua"] = main }, { "perigee.lua" }
  for _, name in ipairs(types.parts(main)) do
    local path = ("perigee/%s.lua"):format(name)
    order[#order + 1], files[path] = path, assert(core.embedded("lua/meta/" .. path), path)
  end
  return files, order
end

--- All of them as one text: what they return is left out, so that it is valid Lua.
function types.definitions()
  local files, order = types.files()
  local parts = {}
  for i, path in ipairs(order) do
    parts[i] = ("-- %s\n%s\n"):format(path, files[path]:gsub("return %l+\n$", ""):gsub("\n+$", "\n"))
  end
  return table.concat(parts)
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
  local files, order = types.files()
  for _, path in ipairs(order) do
    ok, message = write(("%s/%s/%s"):format(folder, FOLDER, path), files[path])
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
