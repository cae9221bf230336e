-- perigee list: which files are scenarios, and what they say they are.
local json = require "perigee.json"
local list = require "perigee.list"

local function command(...)
  local said, write, stderr = {}, io.write, io.stderr
  local function note(...)
    said[#said + 1] = table.concat { ... }
  end
  io.write = note -- luacheck: ignore
  io.stderr = { write = function(_, ...) note(...) end } -- luacheck: ignore
  local ok, status = pcall(list.main, { ... })
  io.write, io.stderr = write, stderr -- luacheck: ignore
  assert(ok, status)
  return status, table.concat(said)
end

describe("list", function()
  it("knows a scenario by what it returns", function()
    expect(list.describe "--- One line.\nlocal x\nreturn perigee.plan {\n}"):eq { kind = "plan",
      description = "One line." }
    expect(list.describe "--- One line. \nreturn perigee.plan {\n  description = \"what it does \",\n}"):eq {
      kind = "plan", description = "what it does" }
    expect(list.describe "return perigee.compare {}"):eq { kind = "compare", description = "" }
    expect(list.describe "local lib = {}\nreturn lib"):is_nil()
    expect(list.describe "return perigee.version"):is_nil()
  end)

  it("finds the shipped ones", function()
    local found = {}
    for _, s in ipairs(list.find { "scenarios" }) do
      found[s.path] = s.description
    end
    expect(found["scenarios/tuning_loop.lua"]):contains "one setting, seen through its expectations"
    expect(found["scenarios/chat_multi_turn.lua"]):contains "chat with a shared system prompt"
    expect(found["scenarios/tool_loop_branching.lua"]):contains "a coding agent"
    expect(found["scenarios/lib/coding_tools.lua"]):is_nil()
  end)

  it("prints paths and descriptions, or JSON", function()
    local status, said = command "examples/"
    expect(status):eq(0)
    expect(said):matches "examples/01_hello%.lua%s+Lesson 1: one question, one answer%."
    expect(said:find("09_libraries_spec", 1, true)):is_nil()
    local rows
    status, said = command("--json", "scenarios")
    expect(status):eq(0)
    rows = json.decode(said)
    expect(rows[1].path):eq "scenarios/cache_eviction.lua"
    local kinds = {}
    for _, row in ipairs(rows) do
      kinds[row.path] = row.kind
    end
    for name, kind in pairs { calibrate = "plan", capacity_sweep = "sweep", cache_eviction = "sweep",
      cache_tiers = "sweep", wrong_replica = "plan", replica_restart = "plan" } do
      expect(kinds["scenarios/" .. name .. ".lua"]):eq(kind)
    end
    status, said = command "scenarios"
    expect(status):eq(0)
    expect(said):matches "scenarios/capacity_sweep%.lua%s+sweep: replicas, cache size and policy"
  end)

  it("ends no line with blanks", function()
    local core = require "perigee.core"
    local folder = os.tmpname()
    os.remove(folder)
    assert(core.make_folder(folder))
    local files = { ["plain.lua"] = "return perigee.plan {}", ["told.lua"] = "--- Told.\nreturn perigee.plan {}" }
    for name, text in pairs(files) do
      local file <close> = assert(io.open(folder .. "/" .. name, "w"))
      file:write(text)
    end
    local status, said = command(folder)
    for _, name in ipairs { "plain.lua", "told.lua" } do
      os.remove(folder .. "/" .. name)
    end
    os.remove(folder)
    expect(status):eq(0)
    expect(said):eq(("%s/plain.lua\n%s/told.lua   Told.\n"):format(folder, folder))
  end)

  it("refuses bad usage", function()
    local status, said = command "--jsn"
    expect(status):eq(2)
    expect(said):eq "perigee list: unknown option --jsn (did you mean --json?); see `perigee list --help`\n"
    status, said = command "no/such/folder"
    expect(status):eq(2)
    expect(said):contains "No such file or directory"
    status, said = command "src/base"
    expect(status):eq(0)
    expect(said):contains "no scenario here"
  end)
end)
