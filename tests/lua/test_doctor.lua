-- perigee.doctor: the report and the exit status.
local doctor = require "perigee.doctor"
local json = require "perigee.json"
local pretend = require "doctor_server"

local function facts(servers, more)
  local f = pretend.examine(servers, more)
  f.elapsed_ms = 1500
  return f
end

local known = { tokenizer = "qwen3", parity = { list = {} } }

local function with(fields)
  local copy = {}
  for key, value in pairs(known) do
    copy[key] = value
  end
  for key, value in pairs(fields or {}) do
    copy[key] = value
  end
  return copy
end

describe("doctor.report", function()
  it("has a block for each server, one for the comparison and one for this machine", function()
    local text, status = doctor.text(facts({ { id = "a" }, { id = "b" } }, with()), {})
    expect(status):eq(0)
    expect(text):contains "a  http://10.0.0.1:8000\n  ok   name        10.0.0.1"
    expect(text):contains "\nreplicas among themselves\n  ok   alike"
    expect(text):contains "\nthis machine\n  ok   descriptors"
    expect(text):matches "\nhealthy: %d+ ok, 0 warnings, 0 failures; 26 requests to 2 servers in 1.50 s\n$"
    expect(text:sub(1, 1)):eq "a"
  end)

  it("puts the way out on a line of its own", function()
    local text = doctor.text(facts({ { replies = { health = pretend.status(503) } } }, with()), {})
    expect(text):contains("\n  FAIL health      HTTP 503: it is not ready\n" .. (" "):rep(19)
      .. "-> wait until the model is loaded")
  end)

  it("gives 1 for a failure, 98 for a warning with --strict, else 0", function()
    local function status(replies, options)
      return (tonumber(doctor.report(facts({ { replies = replies } }, with { options = options }), {}):match "^%d+"))
    end
    expect(status {}):eq(0)
    expect(status({}, { strict = true })):eq(0)
    expect(status { tokenize = false }):eq(0)
    expect(status({ tokenize = false }, { strict = true })):eq(98)
    expect(status { health = pretend.status(503) }):eq(1)
    expect(status({ tokenize = false, health = pretend.status(503) }, { strict = true })):eq(1)
  end)

  it("lets no server write to the terminal", function()
    local evil = "\27]0;x\7\u{202e}"
    local text = doctor.text(facts({ { id = "a" .. evil, url = "http://h" .. evil, replies = {
      models = pretend.body { data = { { id = evil .. "m", owned_by = "vllm" } } },
      version = pretend.body { version = evil }, cold = pretend.status(500, { detail = evil }) } } }, with()), {})
    expect(text:find "[\0-\8\11-\31\127]"):is_nil()
    expect(text:find("\u{202e}", 1, true)):is_nil()
  end)

  it("paints only where it may", function()
    local f = facts({ {} }, with())
    expect(doctor.text(f, { color = true })):contains "\27[32mok  \27[0m"
    expect(doctor.text(f, {}):find("\27", 1, true)):is_nil()
  end)

  it("says that a fleet is simulated, and that the time was up", function()
    expect(doctor.text(facts({ {} }, with { simulated = true }), {})):matches "^The built%-in simulated fleet"
    local f = pretend.examine({ { replies = { cold = pretend.status(0, { detail = "late" }) } } }, with())
    f.out_of_time = true
    expect(doctor.text(f, {})):contains "not everything was asked: the time was up"
  end)
end)

describe("doctor.json", function()
  it("gives the same to programs", function()
    local text, status = doctor.json(facts({ { id = "a", replies = { tokenize = false } } }, with()))
    local v = json.decode(text)
    expect(status):eq(0)
    expect(v.healthy):eq(true)
    expect(v.requests):eq(11)
    local e = v.endpoints[1]
    expect(e.kind .. e.version .. e.models[1]):eq "vllm0.20.1m"
    expect(e.block_size):eq(16)
    expect(e.blocks):eq(1000)
    expect(e.prefix_caching):eq(true)
    expect(e.cached):eq "value"
    expect(e.cached_tokens):eq(448)
    expect(v.comparison):eq(json.decode "[]")
    local found = {}
    for _, check in ipairs(e.checks) do
      found[check.name] = check
    end
    expect(found.tokenize.level):eq "warn"
    expect(found.health.fix):eq(json.null)
  end)

  it("has nulls where nothing is known", function()
    local v = json.decode((doctor.json(facts({ { replies = {
      dial = { step = "resolve", code = "name", reason = "no such host" } } } }, with()))))
    local e = v.endpoints[1]
    expect(v.status):eq(1)
    expect(e.kind):eq(json.null)
    expect(e.block_size):eq(json.null)
    expect(e.cached):eq(json.null)
    expect(#e.models):eq(0)
  end)
end)
