-- Specs of scripts: describe, it, expect, and a virtual user that only pretends. Time is virtual and
-- replies are scripted, so a session of an hour is tested in a millisecond. `perigee test FILE…`
-- runs the files; --stress has the collector run all the time, which finds what a binding forgot to
-- hold.
local core = require "perigee.core"
local fake = require "perigee.fake"
local object = require "perigee.object"
local runtime = require "perigee.runtime"
local values = require "perigee.diff"

local test = {}

test.vu = fake.new
test.session = fake.session

-- ---- expectations ----

local Expectation = {}

local function fail(text)
  error({ expectation = text }, 0)
end

--- A value to be judged.
function test.expect(value)
  return setmetatable({ value = value }, Expectation)
end

local function show(value)
  return values.show(value)
end

function Expectation:eq(expected)
  local difference = values.difference(self.value, expected)
  if difference then
    fail(difference)
  end
  return self
end

function Expectation:ne(other)
  if not values.difference(self.value, other) then
    fail("expected anything but " .. show(other))
  end
  return self
end

local function number(value, what)
  if type(value) ~= "number" then
    fail(("expected a number %s, got %s"):format(what, show(value)))
  end
  return value
end

function Expectation:near(expected, tolerance)
  tolerance = tolerance or 1e-9
  local value = number(self.value, "near " .. tostring(expected))
  local close = math.abs(value - expected) <= tolerance
  if not close then
    fail(("expected %s within %s, got %s"):format(show(expected), show(tolerance), show(value)))
  end
  return self
end

function Expectation:above(bound)
  local above = number(self.value, "above " .. tostring(bound)) > bound
  if not above then
    fail(("expected more than %s, got %s"):format(show(bound), show(self.value)))
  end
  return self
end

function Expectation:below(bound)
  local below = number(self.value, "below " .. tostring(bound)) < bound
  if not below then
    fail(("expected less than %s, got %s"):format(show(bound), show(self.value)))
  end
  return self
end

local function text_of(value)
  if type(value) == "string" then
    return value
  end
  local meta = getmetatable(value)
  return type(value) == "userdata" and type(meta) == "table" and meta.__tostring and tostring(value) or nil
end

function Expectation:matches(pattern)
  local text = text_of(self.value)
  if not text or not text:find(pattern) then
    fail(("expected a text that matches %s, got %s"):format(show(pattern), show(self.value)))
  end
  return self
end

--- Part of a text, or an element of a list.
function Expectation:contains(part)
  local text = text_of(self.value)
  if text then
    if not text:find(tostring(part), 1, true) then
      fail(("expected a text with %s, got %s"):format(show(part), show(self.value)))
    end
    return self
  end
  if type(self.value) == "table" then
    for _, element in pairs(self.value) do
      if not values.difference(element, part) then
        return self
      end
    end
  end
  fail(("expected a list with %s, got %s"):format(show(part), show(self.value)))
end

function Expectation:is_nil()
  if self.value ~= nil then
    fail("expected nil, got " .. show(self.value))
  end
  return self
end

function Expectation:is_a(kind)
  if type(self.value) ~= kind and math.type(self.value) ~= kind then
    fail(("expected a %s, got %s"):format(kind, show(self.value)))
  end
  return self
end

function Expectation:truthy()
  if not self.value then
    fail("expected a true value, got " .. show(self.value))
  end
  return self
end

function Expectation:falsy()
  if self.value then
    fail("expected nil or false, got " .. show(self.value))
  end
  return self
end

--- The value, a function, must raise; the message is compared with a Lua pattern.
function Expectation:errors(pattern)
  if type(self.value) ~= "function" then
    fail("expected a function that raises, got " .. show(self.value))
  end
  local ok, err = pcall(self.value)
  if ok then
    fail("expected an error" .. (pattern and " that matches " .. show(pattern) or "") .. ", none was raised")
  end
  local failure = type(err) == "table" and err.class
  local text = failure and ("%s: %s"):format(failure, tostring(err.detail)) or tostring(err)
  if pattern and not text:find(pattern) then
    fail(("expected an error that matches %s, got %s"):format(show(pattern), show(text)))
  end
  return self
end

-- What other libraries call these.
object.class(Expectation, "expect(x)", { "value" }, nil, {
  equal = "eq", equals = "eq", equal_to = "eq", be = "eq", is = "eq", same = "eq", to_be = "eq", toBe = "eq",
  toEqual = "eq", to_equal = "eq", not_equal = "ne", close_to = "near", greater_than = "above", gt = "above",
  less_than = "below", lt = "below", match = "matches", has = "contains", includes = "contains",
  is_true = "truthy", ok = "truthy", is_false = "falsy", isnil = "is_nil", to_be_nil = "is_nil",
  type = "is_a", raises = "errors", throws = "errors", fails = "errors", error = "errors",
})

-- ---- suites ----

local Suite = {}
Suite.__index = Suite

local function new_suite()
  return setmetatable({
    passed = 0, failed = 0, names = {}, hooks = {}, out = io.stdout, seconds = 10,
  }, Suite)
end

-- "FILE:LINE: ", the innermost line that is not perigee's own. For an error handler.
local function author_line()
  for level = 3, 40 do -- 1 is this function, 2 the handler
    local info = debug.getinfo(level, "Sl")
    if not info then
      break
    elseif info.currentline > 0 and not info.source:find("^@perigee/") then
      return ("%s:%d: "):format(info.short_src, info.currentline)
    end
  end
  return ""
end

local function message(err)
  if type(err) == "table" and err.expectation then
    return author_line() .. err.expectation
  elseif type(err) == "table" and err.class then
    return author_line() .. ("the session failed: %s: %s"):format(err.class, tostring(err.detail))
  end
  local meta = type(err) == "table" and getmetatable(err)
  local text = type(err) == "table" and not (meta and meta.__tostring) and show(err) or tostring(err)
  return (debug.traceback(text, 3) -- 1 is this function, 2 the one that keeps it from a stop
    :gsub("\n%s*%[C%]: in function 'perigee%.core%.limited'.*", "")
    :gsub("\n%s*perigee/[%w_/]+%.lua:%d+: in [^\n]*", "") -- perigee's own frames
    :gsub("\n%s*%[C%]: in function 'perigee%.[^\n]*", "")
    :gsub("\nstack traceback:$", ""))
end

function Suite:report(ok, name, err)
  self[ok and "passed" or "failed"] = self[ok and "passed" or "failed"] + 1
  self.out:write(ok and "ok   " or "FAIL ", name, "\n")
  if not ok then
    self.out:write("       ", (tostring(err):gsub("\n", "\n       ")), "\n")
  end
end

function Suite:run_hooks(kind)
  for _, hooks in ipairs(self.hooks) do
    for _, hook in ipairs(hooks[kind]) do
      hook()
    end
  end
end

function Suite:it(name, fn)
  local whole = table.concat(self.names, " > ") .. (#self.names > 0 and " > " or "") .. name
  local ok, err = core.limited(self.seconds, function()
    self:run_hooks "before"
    fn()
    self:run_hooks "after"
  end, message, whole)
  self:report(ok, whole, err)
end

function Suite:describe(name, fn)
  table.insert(self.names, name)
  table.insert(self.hooks, { before = {}, after = {} })
  local ok, err = core.limited(self.seconds, fn, message, table.concat(self.names, " > "))
  if not ok then
    self:report(false, table.concat(self.names, " > "), err)
  end
  table.remove(self.names)
  table.remove(self.hooks)
end

local function check_block(word, name, fn)
  if type(name) ~= "string" or type(fn) ~= "function" then
    local form = "%s takes a name and a function, %s(\"does something\", function() ... end); got %s and %s"
    core.raise(form:format(word, word, core.shown(name), core.shown(fn)))
  end
end

-- What a spec file sees besides the standard globals.
local function environment(suite)
  local env = {
    expect = test.expect,
    describe = function(name, fn)
      check_block("describe", name, fn)
      suite:describe(name, fn)
    end,
    it = function(name, fn)
      check_block("it", name, fn)
      suite:it(name, fn)
    end,
  }
  local function hook(kind)
    return function(fn)
      if type(fn) ~= "function" then
        core.raise(("%s_each takes a function, got %s"):format(kind, core.shown(fn)))
      end
      local hooks = suite.hooks[#suite.hooks]
      if not hooks then
        core.raise("before_each and after_each stand inside a describe")
      end
      table.insert(hooks[kind], fn)
    end
  end
  env.before_each, env.after_each = hook "before", hook "after"
  return setmetatable(env, { __index = _G })
end

local function folder_of(path)
  return path:match "^(.*)/[^/]*$" or "."
end

-- Makes `t` what it was when the copy was taken.
local function put_back(t, copy)
  for key in pairs(t) do
    if copy[key] == nil then
      t[key] = nil
    end
  end
  for key, value in pairs(copy) do
    t[key] = value
  end
end

local function copied(t)
  local copy = {}
  for key, value in pairs(t) do
    copy[key] = value
  end
  return copy
end

-- What one file leaves behind for the next: the parameters that its scripts declared (the first
-- declaration of a name counts), the modules it loaded (another folder's may have the same name) or
-- put in the place of others, and globals. perigee's own modules stay: some hold the runner's state.
local function keep_state()
  local declared = runtime.declared()
  local parameters, globals, loaded = copied(declared), copied(_G), copied(package.loaded)
  local preload, path, cpath = copied(package.preload), package.path, package.cpath
  put_back(declared, {})
  return function()
    for name, module in pairs(package.loaded) do
      if type(name) == "string" and name:find "^perigee%." and loaded[name] == nil then
        loaded[name] = module
      end
    end
    put_back(declared, parameters)
    put_back(_G, globals)
    put_back(package.loaded, loaded)
    put_back(package.preload, preload)
    package.path, package.cpath = path, cpath
  end
end

local function run_file(suite, path)
  local folder, restore, saved = folder_of(path), keep_state(), package.path
  package.path = ("%s/?.lua;%s/lib/?.lua;%s/../?.lua;%s/../lib/?.lua;%s"):format(folder, folder, folder,
    folder, saved)
  local chunk, err = loadfile(path, "t", environment(suite))
  if chunk then
    local before = suite.passed + suite.failed
    local ok
    ok, err = core.limited(suite.seconds, chunk, message, path)
    if not ok then
      suite:report(false, path, err)
    elseif suite.passed + suite.failed == before then
      suite:report(false, path, "there is no test in this file: it(\"does something\", function() … end)")
    end
  else
    suite:report(false, path, err)
  end
  restore()
end

-- The collector at full stress: a step with every allocation, and a whole cycle now and then.
local function stressed(fn)
  collectgarbage("incremental", 1, 1000, 4)
  core.stress(true)
  local ok, err = pcall(fn)
  core.stress(false)
  collectgarbage("incremental", 200, 100, 13)
  if not ok then
    error(err, 0)
  end
end

--- Runs spec files; returns passed, failed.
function test.run(files, opts)
  opts = core.options(opts, "test.run", { "out", "stress", "runaway" })
  local suite = new_suite()
  suite.out = opts.out or io.stdout
  suite.seconds = opts.runaway and core.seconds(opts.runaway, "test.run: runaway")
    or opts.stress and 20 * suite.seconds or suite.seconds
  if suite.seconds <= 0 or suite.seconds > 1e6 then
    core.raise "test.run: runaway must be above 0 s and at most 1e6 s"
  end
  for _, path in ipairs(files) do
    if opts.stress then
      stressed(function() run_file(suite, path) end)
    else
      run_file(suite, path)
    end
  end
  suite.out:write(("%d passed, %d failed\n"):format(suite.passed, suite.failed))
  return suite.passed, suite.failed
end

-- A path without its "./", "//" and trailing "/": one file, one name.
local function plain(path)
  path = path:gsub("/+", "/"):gsub("/%./", "/")
  while path:find "^%./." do
    path = path:sub(3)
  end
  return #path > 1 and path:gsub("/$", "") or path
end

-- Adds a path that is not there yet.
local function add_spec(found, path)
  path = plain(path)
  if not found[path] then
    found[path] = true
    found[#found + 1] = path
  end
end

-- Every *_spec.lua and test_*.lua below a folder.
local function find_specs(folder, found)
  for _, name in ipairs(core.files(folder) or {}) do
    local path = folder == "." and name or folder .. "/" .. name
    if name:sub(-1) == "/" then
      find_specs(path:sub(1, -2), found)
    elseif (name:find "_spec%.lua$" or name:find "^test_.*%.lua$") and core.is_file(path) then
      add_spec(found, path)
    end
  end
end

local USAGE = [[
Usage: perigee test [--stress] [--runaway TIME] [--tokenizer PATH|NAME] [FILE.lua | FOLDER]...

Runs specs of scripts: files with describe, it and expect. Without a file: every *_spec.lua and
test_*.lua below the working directory. A spec finds modules in its own folder, the folder above, and
lib/ in both. Each file begins anew: parameters, modules and globals of one are not there in the
next. Exit status 1 when a test failed.

  --stress               the collector runs all the time (finds what a C binding forgot to hold)
  --runaway TIME         CPU time that one test may take; a test that takes more has failed (default 10s,
                         with --stress 200s)
  --tokenizer PATH|NAME  the model's tokenizer, as in `perigee run`: conversations, renderers and gen.text
                         count by it (default: bytes)
]]

-- The run's tokenizer of the specs; nil and what is wrong with it.
local function use_tokenizer(name)
  if not name or name == "" then
    return nil, "a path or a name is missing"
  end
  local tokenizer, why = require "perigee.tokenizer".load(name)
  if not tokenizer then
    return nil, why
  end
  require "perigee.gen.core".use(tokenizer)
  fake.set_tokenizer(name)
  return true
end

--- The command.
function test.main(args)
  local files, stress, runaway, named = {}, false, nil, false
  local at = 0
  while at < #args do
    at = at + 1
    local arg = args[at]
    local given = arg:match "^%-%-runaway=(.*)"
    local model = arg:match "^%-%-tokenizer=(.*)"
    if arg == "--stress" then
      stress = true
    elseif arg == "--runaway" or given then
      at = given and at or at + 1
      local ok, seconds = pcall(core.seconds, given or args[at], "--runaway")
      if not ok or seconds <= 0 or seconds > 1e6 then
        io.stderr:write("perigee test: --runaway takes a time such as 30s, up to 1e6 s\n")
        return 2
      end
      runaway = seconds
    elseif arg == "--tokenizer" or model then
      at = model and at or at + 1
      local ok, why = use_tokenizer(model or args[at])
      if not ok then
        io.stderr:write("perigee test: --tokenizer: ", why, "\n")
        return 2
      end
    elseif arg == "--help" or arg == "-h" then
      io.write(USAGE)
      return 0
    elseif arg:sub(1, 1) == "-" then
      local known = { "--help", "--runaway", "--stress", "--tokenizer" }
      io.stderr:write("perigee test: ", core.unknown_option("test", arg, known), "\n")
      return 2
    elseif core.files(arg) then
      named = true
      find_specs(plain(arg), files)
    else
      local file, why = io.open(arg, "r")
      if not file then
        io.stderr:write("perigee test: ", why, "\n")
        return 2
      end
      file:close()
      named = true
      add_spec(files, arg)
    end
  end
  if not named then
    find_specs(".", files)
  end
  if #files == 0 then
    io.stderr:write("perigee test: no spec found; name a file, or a folder with *_spec.lua files\n")
    return 2
  end
  local _, failed = test.run(files, { stress = stress, runaway = runaway })
  return failed == 0 and 0 or 1
end

return test
