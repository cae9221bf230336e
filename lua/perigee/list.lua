-- `perigee list`: the scenarios in reach, each with its description.
local core = require "perigee.core"
local json = require "perigee.json"

local list = {}

--- What a file says it is: { kind =, description = }, nil when it is no scenario. Its plan's
--- description where that is a plain string, else the first line of its comment.
function list.describe(text)
  local kind = text:match "\nreturn%s+perigee%.([%a_]+)" or text:match "^return%s+perigee%.([%a_]+)"
  if kind ~= "plan" and kind ~= "compare" and kind ~= "sweep" then
    return nil
  end
  local line = text:match "\n%s+description%s*=%s*\"([^\"\n]*)\"" or text:match "^%-%-%-*%s*([^\n]*)" or ""
  return { kind = kind, description = (line:gsub("%s+$", "")) }
end

-- Folders to look into, each once: where we are, its scenarios/, $PERIGEE_PATH, and those beside the
-- binary; and how many come before the last kind.
local function folders()
  local found, seen = {}, {}
  local function add(folder)
    folder = folder:gsub("/%?%.lua$", ""):gsub("(.)/+$", "%1")
    if folder ~= "" and not seen[folder] then
      seen[folder] = true
      found[#found + 1] = folder
    end
  end
  add "."
  add "scenarios"
  for folder in (os.getenv "PERIGEE_PATH" or ""):gmatch "[^:;]+" do
    add(folder)
  end
  local own = #found
  local above = (core.program() or ""):match "^(.*)/[^/]*/[^/]*$"
  if above then -- a build tree, and what was installed
    add(above .. "/scenarios")
    add(above .. "/share/perigee/scenarios")
  end
  return found, own
end

--- Scenarios of the folders (default: those in reach), sorted by path within each. One beside the
--- binary is left out when `perigee run NAME` would find another of its name before it.
function list.find(where)
  local scenarios, seen, own = {}, {}, nil
  if not where then
    where, own = folders()
  end
  for at, folder in ipairs(where) do
    for _, name in ipairs(core.files(folder) or {}) do
      local path = folder == "." and name or folder .. "/" .. name
      local shipped = own and at > own
      local file = name:find "%.lua$" and not (shipped and seen[name]) and core.is_file(path)
        and io.open(path, "r")
      if file then
        local about = list.describe(file:read "a" or "")
        file:close()
        if about then
          about.path = path
          seen[name] = true
          scenarios[#scenarios + 1] = about
        end
      end
    end
  end
  return scenarios
end

local USAGE = [[
Usage: perigee list [--json] [FOLDER]...

Lists the scenarios in the working directory, in scenarios/, in the folders of $PERIGEE_PATH and
those that came with perigee, or those in the folders given. `perigee run NAME` finds them by name.
]]

--- The command.
function list.main(args)
  local where, as_json = {}, false
  for _, arg in ipairs(args) do
    if arg == "--help" or arg == "-h" then
      io.write(USAGE)
      return 0
    elseif arg == "--json" then
      as_json = true
    elseif arg:sub(1, 1) == "-" then
      io.stderr:write("perigee list: ", core.unknown_option("list", arg, { "--help", "--json" }), "\n")
      return 2
    else
      local ok, message = core.files(arg)
      if not ok then
        io.stderr:write("perigee list: ", message, "\n")
        return 2
      end
      where[#where + 1] = (arg:gsub("(.)/+$", "%1"))
    end
  end
  local scenarios = list.find(#where > 0 and where or nil)
  if as_json then
    local rows = json.array {}
    for i, s in ipairs(scenarios) do
      rows[i] = json.object { { "path", s.path }, { "kind", s.kind }, { "description", s.description } }
    end
    io.write(json.encode(rows, { pretty = true }), "\n")
    return 0
  end
  local width = 0
  for _, s in ipairs(scenarios) do
    width = math.max(width, #s.path)
  end
  for _, s in ipairs(scenarios) do
    local gap = s.description ~= "" and (" "):rep(width - #s.path + 2) or ""
    local kind = s.kind ~= "plan" and s.kind .. (gap ~= "" and ": " or "") or ""
    io.write(s.path, gap ~= "" and gap or kind ~= "" and "  " or "", kind, s.description, "\n")
  end
  if #scenarios == 0 then
    io.write "no scenario here; `perigee new NAME` writes one, `perigee list FOLDER` looks elsewhere\n"
  end
  return 0
end

return list
