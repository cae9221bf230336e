-- The reference: reads the LuaCATS files and writes them as Markdown, and compares them with what the
-- modules really have.
--
--   perigee lua tests/lint/docs.lua lua/meta/perigee.lua > lua/README.md
--   perigee lua tests/lint/docs.lua --check [lua/meta/perigee.lua]     status 1 when they disagree
--
-- The file names those beside it, in perigee/, in their order (perigee.types reads that list too).
-- Understands: @meta, @alias, @class with @field and @operator, functions with @param, @return and
-- @generic. A class followed by `local x = {}` is a module when its name is `perigee` or
-- `perigee.word` in lower case, else an object; one without is a table of fields. A class ending in
-- Options or Bounds is shown with the first function that takes it.
local types = require "perigee.types"
local docs = {}

-- ---- reading ----

-- Splits "type description" behind a name: the type may hold spaces inside brackets, after `:` of a
-- function's result, after a comma, and around `|`.
local function split_type(text)
  local depth, i = 0, 1
  while i <= #text do
    local c = text:sub(i, i)
    if c:find "[%(%[{<]" then
      depth = depth + 1
    elseif c:find "[%)%]}>]" then
      depth = depth - 1
    elseif c == '"' then
      i = text:find('"', i + 1, true) or #text
    elseif c == " " and depth == 0 then
      local before, after = text:sub(1, i - 1):match "(%S)%s*$", text:sub(i):match "^%s*(%S)"
      if before ~= ":" and before ~= "," and before ~= "|" and after ~= "|" then
        break
      end
    end
    i = i + 1
  end
  return text:sub(1, i - 1), text:sub(i):match "^%s*(.-)%s*$"
end

local TAGS = {}

function TAGS.class(entry, rest)
  entry.kind, entry.name = "class", rest:match "^[%w_%.]+"
end

function TAGS.alias(entry, rest)
  entry.kind = "alias"
  entry.name, entry.type = rest:match "^(%S+)%s+(.*)$"
end

function TAGS.field(entry, rest)
  local name, optional, more = rest:match "^([%w_%[%]]+)(%??)%s+(.*)$"
  local kind, text = split_type(more)
  table.insert(entry.fields, { name = name, optional = optional == "?", type = kind, text = text })
end

function TAGS.param(entry, rest)
  local name, optional, more = rest:match "^([%w_%.]+)(%??)%s+(.*)$"
  local kind, text = split_type(more)
  table.insert(entry.params, { name = name, optional = optional == "?", type = kind, text = text })
end

TAGS["return"] = function(entry, rest)
  local kind, text = split_type(rest)
  table.insert(entry.returns, { type = kind, text = text })
end

function TAGS.generic() end
function TAGS.operator() end
function TAGS.meta() end

-- The entry that a block of `---` lines makes; nil for an empty one.
local function read_block(lines)
  if #lines == 0 then
    return nil
  end
  local entry = { text = {}, fields = {}, params = {}, returns = {}, at = lines[1].at }
  for _, l in ipairs(lines) do
    local tag, rest = l.text:match "^@(%w+)%s*(.*)$"
    if tag then
      local read = TAGS[tag] or error(("%s: unknown tag @%s"):format(l.at, tag), 0)
      read(entry, rest)
    else
      table.insert(entry.text, l.text)
    end
  end
  entry.text = table.concat(entry.text, "\n"):match "^%s*(.-)%s*$"
  return entry
end

--- Reads a LuaCATS file's text: the introduction, the entries in order, and sections of prose (blocks
--- that begin with `## `). `parsed` is what files before it gave; `path` stands in messages.
function docs.read(text, parsed, path)
  parsed = parsed or { intro = "", sections = {}, entries = {}, classes = {} }
  local block, variables, number = {}, {}, 0
  local function finish()
    local entry = read_block(block)
    block = {}
    if entry and entry.kind then
      table.insert(parsed.entries, entry)
      parsed.classes[entry.name] = entry
    elseif entry and entry.text:find "^## " then
      table.insert(parsed.sections, entry.text)
    elseif entry and entry.text ~= "" then
      parsed.intro = entry.text
    end
    return entry
  end
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local at = path and ("%s:%d"):format(path, number) or ("line %d"):format(number)
    local comment = line:match "^%-%-%- ?(.*)$"
    local variable = line:match "^local ([%w_]+) = {}$"
    local owner, separator, name, params = line:match "^function ([%w_]+)([%.:])([%w_]+)%((.-)%) end$"
    if comment then
      table.insert(block, { text = comment, at = at })
    elseif variable then
      local entry = finish()
      entry.variable, entry.functions = variable, {}
      entry.module = entry.name:find "^perigee%.?[%l_]*$" ~= nil
      variables[variable] = entry
    elseif owner then
      local entry = read_block(block) or error(("%s: %s has no description"):format(at, name), 0)
      block = {}
      entry.kind, entry.name, entry.separator, entry.list, entry.at = "function", name, separator, params, at
      local class = variables[owner] or error(("%s: no class for %s"):format(at, owner), 0)
      entry.owner = class
      table.insert(class.functions, entry)
      table.insert(parsed.entries, entry)
    elseif line == "" then
      finish()
    elseif not line:find "^%-%-" and not line:find "^return %l+$" then
      error(("%s: not understood: %s"):format(at, line), 0)
    end
  end
  finish()
  return parsed
end

local function read_file(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

--- Reads the file and those that it names.
function docs.read_all(path)
  local text = read_file(path)
  local parsed = docs.read(text, nil, path)
  for _, name in ipairs(types.parts(text)) do
    local part = path:gsub("%.lua$", "/" .. name .. ".lua")
    docs.read(read_file(part), parsed, part)
  end
  return parsed
end

-- ---- writing ----

-- What a reader's script calls an object.
local VALUES = {
  Vu = "vu", Task = "task", Rng = "rng", Text = "text", Conversation = "conv", Completions = "client", Tool = "t",
  ToolSet = "set", Expectation = "expect(x)", Hashes = "hashes",
  HarmonyRenderer = "renderer", Template = "tpl", Tokenizer = "tok",
}

local function slug(heading)
  return (heading:lower():gsub("[^%w%- _]", ""):gsub(" ", "-"))
end

local function cell(text)
  return (text:gsub("|", "\\|"))
end

local function is_options(name)
  return name:find "Options$" ~= nil or name:find "Bounds$" ~= nil
end

local function write_fields(out, fields)
  out("| field | type | |\n| --- | --- | --- |\n")
  for _, field in ipairs(fields) do
    out(("| `%s`%s | `%s` | %s |\n"):format(field.name, field.optional and " (optional)" or "", cell(field.type),
      cell(field.text)))
  end
  out "\n"
end

local function signature(entry)
  local optional = {}
  for _, param in ipairs(entry.params) do
    optional[param.name] = param.optional
  end
  local list = entry.list:gsub("[%w_]+", function(name)
    return name .. (optional[name] and "?" or "")
  end)
  local owner = entry.owner.module and entry.owner.variable or VALUES[entry.owner.variable]
    or error(entry.owner.variable .. " has no name in VALUES", 0)
  return owner .. entry.separator .. entry.name .. "(" .. list .. ")"
end

local function write_list(out, title, list, named)
  if #list == 0 then
    return
  end
  out(title .. "\n\n")
  for _, item in ipairs(list) do
    local name = named and ("`%s`%s, "):format(item.name, item.optional and " (optional)" or "") or ""
    out(("- %s`%s`%s\n"):format(name, item.type, item.text ~= "" and " " .. item.text or ""))
  end
  out "\n"
end

local function write_function(out, parsed, entry)
  out(("### `%s`\n\n%s\n\n"):format(signature(entry), entry.text))
  write_list(out, "Takes:", entry.params, true)
  for _, param in ipairs(entry.params) do
    local options = parsed.classes[param.type:match "^[%w_%.]+" or ""]
    if options and is_options(options.name) then
      if options.written then
        out(("The fields of `%s` stand at [`%s`](#%s).\n\n"):format(options.name, options.written,
          slug(options.written)))
      else
        options.written = signature(entry)
        out(("Fields of `%s`:\n\n"):format(options.name))
        write_fields(out, options.fields)
      end
    end
  end
  write_list(out, "Returns:", entry.returns)
end

local function heading(entry)
  return entry.module and ("Module %s"):format(entry.name) or entry.name:gsub("^perigee%.", "")
end

--- The reference as Markdown. `metrics` is the list of the binary: { name =, unit =, meaning = }.
function docs.write(parsed, metrics)
  local parts = {}
  local function out(text)
    parts[#parts + 1] = text
  end
  out(parsed.intro .. "\n\n")
  out "<!-- Made by `make docs` from lua/meta; edit the files there. -->\n\n"
  out "## Contents\n\n"
  for _, entry in ipairs(parsed.entries) do
    if entry.kind == "class" and not is_options(entry.name) then
      out(("%s- [%s](#%s)\n"):format(entry.module and "" or "  ", heading(entry), slug(heading(entry))))
    end
  end
  for _, section in ipairs(parsed.sections) do
    local title = section:match "^## ([^\n]*)"
    out(("- [%s](#%s)\n"):format(title, slug(title)))
  end
  out "- [Metrics](#metrics)\n"
  out "\n## Names for types\n\n"
  for _, entry in ipairs(parsed.entries) do
    if entry.kind == "alias" then
      out(("- `%s` = `%s`. %s\n"):format(entry.name, entry.type, entry.text:gsub("\n", " ")))
    end
  end
  out "\n"
  for _, entry in ipairs(parsed.entries) do
    if entry.kind == "class" and not is_options(entry.name) then
      out(("## %s\n\n"):format(heading(entry)))
      if entry.module then
        local variable = entry.name:match "[%w_]+$"
        out(("```lua\nlocal %s = require \"%s\"\n```\n\n"):format(variable, entry.name))
      end
      if entry.text ~= "" then
        out(entry.text .. "\n\n")
      end
      if #entry.fields > 0 then
        write_fields(out, entry.fields)
      end
      for _, fn in ipairs(entry.functions or {}) do
        write_function(out, parsed, fn)
      end
    end
  end
  for _, section in ipairs(parsed.sections) do
    out(section .. "\n\n")
  end
  out "## Metrics\n\nWhat reports show and expectations may name, besides what a plan declares in `metrics`.\n\n"
  out "| metric | unit | |\n| --- | --- | --- |\n"
  for _, metric in ipairs(metrics) do
    out(("| `%s` | %s | %s |\n"):format(metric.name, metric.unit, cell(metric.meaning)))
  end
  return (table.concat(parts):gsub("\n+$", "\n"))
end

-- ---- comparing ----

-- Public functions of a table, metamethods and names that begin with _ left out.
local function functions_of(t)
  local names = {}
  for name, value in pairs(t) do
    if type(name) == "string" and type(value) == "function" and not name:find "^_" then
      names[name] = true
    end
  end
  return names
end

-- The methods of each object, from one of them or from its metatable.
local function objects()
  local registry = debug.getregistry()
  local gen, test = require "perigee.gen", require "perigee.test"
  local chat, completions, tool = require "perigee.chat", require "perigee.completions", require "perigee.tool"
  local function methods(value)
    return getmetatable(value).__index
  end
  local vu = test.vu()
  local t = tool.new { name = "t" }
  local hash = require "perigee.blockhash".hash({})
  local _, hash_methods = debug.getupvalue(methods(hash), 1) -- a number indexes the hashes, a name these
  local tok = assert(require "perigee.tokenizer".load "bytes")
  local _, tokenizer_methods = debug.getupvalue(methods(tok), 1) -- fields are not methods
  local _, vu_methods = debug.getupvalue(registry["perigee.vu"].__index, 1) -- bind/vu_methods.c keeps them there
  return {
    ["perigee.Vu"] = vu_methods,
    ["perigee.Task"] = registry["perigee.task"].__index,
    ["perigee.Rng"] = methods(gen.rng(1)),
    ["perigee.Text"] = methods(gen.from ""),
    ["perigee.Conversation"] = methods(chat.new(vu)),
    ["perigee.Completions"] = methods(completions.new(vu)),
    ["perigee.Tool"] = methods(t),
    ["perigee.ToolSet"] = methods(tool.set { t }),
    ["perigee.Expectation"] = methods(test.expect(1)),
    ["perigee.Hashes"] = hash_methods,
    ["perigee.HarmonyRenderer"] = methods(require "perigee.harmony".renderer()),
    ["perigee.Template"] = methods(require "perigee.template".load ""),
    ["perigee.Tokenizer"] = tokenizer_methods,
    ["fake perigee.Vu"] = methods(vu),
  }
end

local function compare(problems, class, documented, real, what)
  for name in pairs(real) do
    if not documented[name] then
      problems[#problems + 1] = ("%s: %s is there but has no entry in lua/meta"):format(what, name)
    end
  end
  for name in pairs(documented) do
    if not real[name] then
      problems[#problems + 1] = ("%s: %s has an entry (%s) but is not there"):format(what, name,
        class.by_name[name].at)
    end
  end
end

-- A parameter that the function has and the comment has not, or the other way round.
local function compare_params(problems, entry)
  local listed, described = {}, {}
  for name in entry.list:gmatch "[^,%s]+" do
    listed[name] = true
  end
  for _, param in ipairs(entry.params) do
    described[param.name] = true
    if not listed[param.name] then
      problems[#problems + 1] = ("%s: @param %s is no parameter of %s"):format(entry.at, param.name, entry.name)
    end
  end
  for name in pairs(listed) do
    if not described[name] then
      problems[#problems + 1] = ("%s: parameter %s of %s has no @param"):format(entry.at, name, entry.name)
    end
  end
end

-- Modules that are no scripts' business (patterns): halves in C, helpers, commands, the report.
local INTERNAL = {
  "calibrate", "calibrate_%l+", "core", "%l+%.core", "diff", "doctor", "doctor_%l+", "fake", "hash", "list", "new",
  "object", "parity", "prompt", "render", "report", "report_%l+", "request", "runtime", "show", "sweep",
  "timeline", "types",
}

-- Every module there is stands in lua/meta or in INTERNAL, and every file of lua/meta/perigee is read.
local function compare_modules(problems, parsed)
  local names = {}
  local function is_internal(name)
    for _, pattern in ipairs(INTERNAL) do
      if name:find("^perigee%." .. pattern .. "$") then
        return true
      end
    end
    return false
  end
  for name in pairs(package.preload) do
    names[#names + 1] = name:find "^perigee%." and name or nil
  end
  for _, file in ipairs(require "perigee.core".files "lua/perigee" or {}) do
    local name = file:match "^(.*)%.lua$"
    names[#names + 1] = name and (name == "init" and "perigee" or "perigee." .. name) or nil
  end
  for _, file in ipairs(require "perigee.core".files "lua/meta/perigee" or {}) do
    if not types.definitions():find("-- perigee/" .. file .. "\n", 1, true) then
      problems[#problems + 1] = ("lua/meta/perigee/%s is not in the list of lua/meta/perigee.lua"):format(file)
    end
  end
  for _, name in ipairs(names) do
    if not parsed.classes[name] and not is_internal(name) then
      problems[#problems + 1] = name
        .. ": the module is neither in lua/meta nor in INTERNAL of tests/lint/docs.lua"
    end
  end
end

--- What is wrong, as a list of sentences: modules against entries, parameters, names of types.
function docs.check(parsed)
  local problems, real = {}, objects()
  compare_modules(problems, parsed)
  for _, class in pairs(parsed.classes) do
    if class.functions then
      local documented = {}
      class.by_name = {}
      for _, entry in ipairs(class.functions) do
        documented[entry.name], class.by_name[entry.name] = true, entry
        compare_params(problems, entry)
      end
      local there = class.module and require(class.name) or real[class.name]
      if there then
        compare(problems, class, documented, functions_of(there), class.name)
      else
        problems[#problems + 1] = class.name .. ": there is no such object"
      end
      if class.name == "perigee.Vu" then
        compare(problems, class, documented, functions_of(real["fake perigee.Vu"]), "the fake perigee.Vu")
      end
    end
  end
  for _, entry in ipairs(parsed.entries) do
    for _, list in ipairs { entry.fields, entry.params, entry.returns } do
      for _, item in ipairs(list) do
        for name in item.type:gmatch "perigee%.[%w_]+" do
          if not parsed.classes[name] then
            problems[#problems + 1] = ("%s: type %s is nowhere described"):format(entry.name, name)
          end
        end
      end
    end
  end
  table.sort(problems)
  return problems
end

--- The binary's list of metrics.
function docs.metrics()
  return require "perigee.core".metrics()
end

-- Only when run as a script, not when a spec loads it.
if arg and arg[0] and arg[0]:find "docs%.lua$" then
  local checking = arg[1] == "--check"
  local parsed = docs.read_all((checking and arg[2] or not checking and arg[1]) or "lua/meta/perigee.lua")
  if checking then
    local problems = docs.check(parsed)
    for _, problem in ipairs(problems) do
      io.stderr:write(problem, "\n")
    end
    if #problems > 0 then
      os.exit(1)
    end
  else
    io.write(docs.write(parsed, docs.metrics()))
  end
end

return docs
