-- perigee new: what it writes runs as it is.
local new = require "perigee.new"
local test = require "perigee.test"

-- Loads a module from a text, with others standing in for `require`.
local function load_module(text, name, modules)
  local env = setmetatable({ require = function(wanted)
    return modules and modules[wanted] or require(wanted)
  end }, { __index = _G })
  return assert(load(text, "@" .. name, "t", env))()
end

-- Runs the command in silence; returns status and what it said.
local function command(...)
  local said, write, stderr = {}, io.write, io.stderr
  local function note(...)
    said[#said + 1] = table.concat { ... }
  end
  io.write = note -- luacheck: ignore
  io.stderr = { write = function(_, ...) note(...) end } -- luacheck: ignore
  local ok, status = pcall(new.main, { ... })
  io.write, io.stderr = write, stderr -- luacheck: ignore
  assert(ok, status)
  return status, table.concat(said)
end

local function temporary()
  local path = os.tmpname()
  os.remove(path)
  return path:gsub("[^%w/_]", "_") .. "_x"
end

describe("new.scenario", function()
  it("is a plan whose session works", function()
    local plan = load_module(new.scenario "my_test", "my_test.lua")
    local vu = test.session(plan)
    expect(#vu.requests):above(1)
    expect(plan.description):eq "people who ask a few questions each, with the same system prompt"
    expect(new.scenario "my_test"):contains "--- my_test: what it measures"
  end)
end)

describe("new.library", function()
  it("is a library whose spec passes and whose scenario works", function()
    local files = new.library "pets"
    local names = {}
    for name in pairs(files) do
      names[#names + 1] = name
    end
    table.sort(names)
    expect(names):eq { "pets-0.1.0-1.rockspec", "pets.lua", "pets_spec.lua", "use_pets.lua" }
    local pets = load_module(files["pets.lua"], "pets.lua")
    local vu = test.session(load_module(files["use_pets.lua"], "use_pets.lua", { pets = pets }))
    expect(#vu.requests):eq(3)
    local rockspec = {}
    assert(load(files["pets-0.1.0-1.rockspec"], "rockspec", "t", rockspec))()
    expect(rockspec.build.modules):eq { pets = "pets.lua" }
  end)
end)

describe("perigee new", function()
  it("writes a scenario once", function()
    local path = temporary()
    local status, said = command(path)
    expect(status):eq(0)
    expect(said):contains("wrote " .. path .. ".lua")
    status, said = command(path .. ".lua")
    expect(status):eq(2)
    expect(said):contains "is there already"
    os.remove(path .. ".lua")
  end)

  it("writes a library that passes its own tests", function()
    local path = temporary()
    local name = path:match "[^/]*$"
    local status = command("--library", path)
    expect(status):eq(0)
    local out = { write = function() end }
    local passed, failed = test.run({ ("%s/%s_spec.lua"):format(path, name) }, { out = out })
    expect({ passed, failed }):eq { 1, 0 }
    local again, said = command("--library", path)
    expect(again):eq(2)
    expect(said):contains "is there already"
    for file in pairs(new.library(name)) do
      assert(os.remove(path .. "/" .. file))
    end
    assert(os.remove(path))
  end)

  it("makes the folders before the name", function()
    local top = temporary()
    expect((command(top .. "/deep/scen"))):eq(0)
    expect((command("--library", top .. "/libs/pets"))):eq(0)
    assert(os.remove(top .. "/deep/scen.lua"))
    for file in pairs(new.library "pets") do
      assert(os.remove(top .. "/libs/pets/" .. file))
    end
    for _, folder in ipairs { "/deep", "/libs/pets", "/libs", "" } do
      assert(os.remove(top .. folder))
    end
  end)

  it("refuses bad usage with status 2", function()
    for _, case in ipairs {
      { {}, "a name is expected" },
      { { "1x" }, "'1x' is no module name" },
      { { "a", "b" }, "one name is expected" },
      { { "--libary", "a" }, "unknown option --libary" },
      { { "my-lib" }, "(did you mean 'my_lib'?)" },
      { { "--library", "my.lib" }, "'my.lib' is no module name" },
      { { "--library", "some/my lib" }, "(did you mean 'my_lib'?)" },
      { { "--library", "2nd" }, "(did you mean '_2nd'?)" },
      { { "--library", "--" }, "unknown option --" },
      { { "--library", "end" }, "'end' is a word of Lua's; choose another name, such as my_end" },
      { { "--library", "x/while" }, "'while' is a word of Lua's" },
      { { "--library", "string" }, "'string' is the name of something that every script finds there already" },
      { { "--library", "require" }, "'require' is the name of something" },
      { { "--library", "perigee" }, "'perigee' is the name of something" },
      { { "--library", "chat" }, "'chat' is a name that the library's files use for something else" },
      { { "--library", "describe" }, "'describe' is a name that" },
    } do
      local status, said = command(table.unpack(case[1]))
      expect(status):eq(2)
      expect(said):contains(case[2])
    end
    local status, said = command "/dev/null/x"
    expect(status):eq(1)
    expect(said):contains "Not a directory"
    expect((command "--help")):eq(0)
  end)
end)
