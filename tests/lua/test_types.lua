-- perigee types: files an editor understands, and an existing setting left alone.
local json = require "perigee.json"
local types = require "perigee.types"

local function command(...)
  local said, write, stderr = {}, io.write, io.stderr
  local function note(...)
    said[#said + 1] = table.concat { ... }
  end
  io.write = note -- luacheck: ignore
  io.stderr = { write = function(_, ...) note(...) end } -- luacheck: ignore
  local ok, status = pcall(types.main, { ... })
  io.write, io.stderr = write, stderr -- luacheck: ignore
  assert(ok, status)
  return status, table.concat(said)
end

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

describe("types", function()
  it("are valid Lua that does nothing", function()
    local text = types.definitions()
    expect(text):contains "---@meta perigee.chat"
    expect((load(text, "types", "t", {}))):is_a "function"
    local files, order = types.files()
    for i, path in ipairs(order) do
      expect((load(files[path], "=" .. path, "t", {}))):is_a "function"
      local at = text:find("-- " .. path .. "\n", 1, true)
      expect(at ~= nil and (i > 1 or at == 1)):eq(true)
    end
  end)

  it("say what each require gives", function()
    local files = types.files()
    for name in pairs(package.preload) do
      local documented = files[name:gsub("%.", "/") .. ".lua"]
      if documented then
        expect(documented):contains("---@meta " .. name .. "\n")
        expect(documented):contains("---@class " .. name .. "\n")
      end
    end
    expect(files["perigee/chat.lua"]):matches "\nreturn chat\n$"
    expect(files["perigee/vu.lua"]):matches "^%-%-%-@meta _\n" -- objects, no module
    expect(files["perigee.lua"]):matches "\nreturn perigee\n$"
    for _, name in ipairs {
      "blockhash", "chat", "completions", "fleet", "gen", "harmony", "json", "openai", "route", "stats", "template",
      "test", "tokenizer", "tool", "vu",
    } do
      expect(files["perigee/" .. name .. ".lua"]):contains "---@class perigee."
      files["perigee/" .. name .. ".lua"] = nil
    end
    files["perigee.lua"] = nil
    expect(files):eq {}
  end)

  it("come with settings that point at them", function()
    local settings = json.decode(json.encode(types.settings()))
    expect(settings["workspace.library"]):eq { ".perigee/types" }
    expect(settings["runtime.version"]):eq "Lua 5.4"
  end)

  it("are written once, and again; settings are left alone", function()
    local core = require "perigee.core"
    local folder = os.tmpname()
    os.remove(folder)
    assert(core.make_folder(folder))
    local status, said = command(folder)
    expect(status):eq(0)
    expect(said):contains(".luarc.json")
    for path, text in pairs(types.files()) do
      expect(read(folder .. "/.perigee/types/" .. path)):eq(text)
    end
    expect(json.decode(read(folder .. "/.luarc.json"))["runtime.version"]):eq "Lua 5.4"
    local file = assert(io.open(folder .. "/.luarc.json", "w"))
    file:write "{}"
    file:close()
    status, said = command(folder)
    expect(status):eq(0)
    expect(said):contains "is there already; it should hold:"
    expect(read(folder .. "/.luarc.json")):eq "{}"
    for path in pairs(types.files()) do
      assert(os.remove(folder .. "/.perigee/types/" .. path))
    end
    for _, path in ipairs { "/.perigee/types/perigee", "/.perigee/types", "/.perigee", "/.luarc.json", "" } do
      assert(os.remove(folder .. path))
    end
  end)

  it("refuse bad usage", function()
    expect((command "--prnt")):eq(2)
    expect((command("a", "b"))):eq(2)
    local status, said = command "/no/such/folder"
    expect(status):eq(2)
    expect(said):contains "No such file"
    expect((command "--print")):eq(0)
  end)
end)
