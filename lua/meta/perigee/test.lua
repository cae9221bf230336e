---@meta perigee.test

--- Specs of scripts: `perigee test FILE…`. A spec file sees `describe(name, fn)`, `it(name, fn)`,
--- `before_each(fn)`, `after_each(fn)` and `expect(value)` as globals, and finds modules in its own folder, the
--- folder above, and `lib/` in both.
---@class perigee.test
local test = {}

---@class perigee.FakeOptions
---@field replies? (string|table|false)[]|fun(request: table): string|table|nil what comes back: a text; a table with fields of perigee.Reply, or `{ class =, detail =, status =, retry_after =, headers = }` for a failure; otherwise a default of `max_tokens` tokens
---@field session? integer number of the session; default 0
---@field seed? integer|string default 1
---@field params? table values of `vu.params`; what `perigee.param` gave when the module was loaded stays
---@field shared? any
---@field fleet? table model, gateway, replicas (each { id =, url =, out = true while it is out of rotation })
---@field route? perigee.Policy

--- A virtual user that only pretends, in virtual time. What happened is in its fields: `requests` (options,
--- `body`, and `json`, the decoded body), `slept`, `records`, `checks`, `logs`, `actions` (what was done to `vu.fleet`), `tags`.
--- Children of `all` and `spawn` run one after the other, each on a clock of its own.
---@param opts? perigee.FakeOptions
---@return perigee.Vu
function test.vu(opts) end

--- Runs one session of a plan on such a user and returns the user.
---@param plan perigee.PlanOptions
---@param opts? perigee.FakeOptions
---@return perigee.Vu
function test.session(plan, opts) end

--- A value to be judged: the global `expect` of spec files.
---@param value any
---@return perigee.Expectation
function test.expect(value) end

---@class perigee.RunOptions
---@field stress? boolean the collector runs all the time
---@field out? { write: fun(self: any, ...: string) } default: standard output
---@field runaway? number|string CPU time that one test may take, 10 s when absent (with stress 200 s)

--- Runs spec files, prints a line for each test and `N passed, N failed`.
---@param files string[]
---@param opts? perigee.RunOptions
---@return integer passed
---@return integer failed
function test.run(files, opts) end

--- The command `perigee test`.
---@param args string[]
---@return integer status
function test.main(args) end

--- What `expect(value)` returns. Each method raises with both values when it does not hold, and returns the
--- expectation.
---@class perigee.Expectation
local Expectation = {}

--- Equal: tables by content, texts by bytes, JSON objects and arrays apart.
---@param expected any
function Expectation:eq(expected) end

--- Not equal.
---@param other any
function Expectation:ne(other) end

--- A number within `tolerance` (default 1e-9).
---@param expected number
---@param tolerance? number
function Expectation:near(expected, tolerance) end

--- A number above the bound.
---@param bound number
function Expectation:above(bound) end

--- A number below the bound.
---@param bound number
function Expectation:below(bound) end

--- A text that matches a Lua pattern.
---@param pattern string
function Expectation:matches(pattern) end

--- A text with this part, or a list with this element.
---@param part any
function Expectation:contains(part) end

--- nil.
function Expectation:is_nil() end

--- A value of this type, "integer" and "float" included.
---@param kind string
function Expectation:is_a(kind) end

--- Neither nil nor false.
function Expectation:truthy() end

--- nil or false.
function Expectation:falsy() end

--- A function that raises; the message, or "class: detail" of a failure, matches the pattern.
---@param pattern? string a Lua pattern
function Expectation:errors(pattern) end

return test
