-- perigee: plans and loads as values, before anything runs them.
local perigee = require "perigee"
local route = require "perigee.route"

local function session() end

local function plan(extra)
  local fields = { load = perigee.closed { users = 2, duration = "1m" }, session = session }
  for key, value in pairs(extra or {}) do
    fields[key] = value
  end
  return perigee.plan(fields)
end

describe("perigee.beside", function()
  it("is relative to the file that asks", function()
    local path = perigee.beside "words.txt"
    expect(path):matches "tests/lua/words%.txt$"
    expect(perigee.beside("/a/b")):eq "/a/b"
    expect(function() perigee.beside(3) end):errors "beside: a file's name is expected, got 3"
    expect(function() return perigee.beside "x" end):errors "beside: keep the path before it is returned"
  end)
end)

describe("loads", function()
  it("are tables in base units", function()
    local open = perigee.open { rate = "30/m", duration = "2m", warmup = "500ms" }
    expect(open.kind):eq "open"
    expect(open.rate):eq(0.5)
    expect(open.arrival):eq "poisson"
    expect(open.duration):eq(120)
    expect(open.warmup):eq(0.5)
    expect(open.sessions):eq(nil)
    local closed = perigee.closed { users = 3, sessions = 7 }
    expect(closed.users):eq(3)
    expect(closed.sessions):eq(7)
    expect(closed.warmup):eq(0)
  end)

  it("of a ramp end with their last point", function()
    local ramp = perigee.ramp { rate = { { 0, 1 }, { "1m", "120/m" } } }
    expect(ramp.rate[2][1]):eq(60)
    expect(ramp.rate[2][2]):eq(2)
    expect(ramp.duration):eq(60)
    expect(perigee.ramp({ users = { { 0, 1 }, { 5, 4 } }, duration = 9 }).duration):eq(9)
    expect(perigee.ramp({ users = { { 0, 2 } }, sessions = 4 }).duration):eq(nil)
  end)

  it("name what is wrong with them", function()
    expect(function() perigee.open { rate = 2 } end):errors "open: say how long"
    expect(function() perigee.open { rte = 2 } end):errors "unknown option 'rte' %(did you mean 'rate'%?%)"
    expect(function() perigee.closed { users = "x", sessions = 1 } end)
      :errors 'users must be a whole number from 0 on, got the string "x"'
    expect(function() perigee.ramp { sessions = 1 } end):errors "give either rate or users"
  end)

  it("take whole numbers in either form, and no negative zero", function()
    local load = perigee.closed { users = 2.0, sessions = 1e3, warmup = -0.0 }
    expect(math.type(load.users)):eq "integer"
    expect(load.sessions):eq(1000)
    expect(math.type(load.sessions)):eq "integer"
    expect(1 / load.warmup):eq(math.huge)
    expect(perigee.open({ rate = "90/m", duration = 1 }).rate):eq(1.5)
    expect(perigee.open({ rate = 1e6, duration = "365d" }).duration):eq(31536000)
  end)

  it("take no number that makes no sense", function()
    local inf, nan = 1 / 0, 0 / 0
    local function refused(make, opts, says)
      opts.duration = opts.duration or not opts.sessions and 1 or nil
      expect(function() make(opts) end):errors(says)
    end
    refused(perigee.open, { rate = "1s" }, 'open: rate: "1s" is not a rate such as "5/s"')
    refused(perigee.open, { rate = "5%" }, 'open: rate: "5%%" is not a rate such as "5/s"')
    refused(perigee.open, { rate = 1e-300 }, "open: rate must be at least a session a year %(3.2e%-08 per second%)")
    refused(perigee.open, { rate = 2e6 }, "open: rate must be at most 1e%+06 sessions per second, got 2000000")
    refused(perigee.open, { rate = nan }, "open: rate must be a finite number, got %-?nan")
    refused(perigee.open, { rate = inf }, "open: rate must be a finite number, got inf")
    refused(perigee.open, { rate = -0.0 }, "open: rate must be above 0")
    refused(perigee.ramp, { rate = { { 0, 0 }, { 9, 1e-12 } } }, "rate%[2%]: value must be at least a session a year")
    refused(perigee.ramp, { rate = { { nan, 1 } } }, "rate%[1%]: time must be a finite number")
    refused(perigee.ramp, { rate = { { 0, 1 }, { "400d", 1 } } }, "rate%[2%]: time must be at most a year")
    refused(perigee.ramp, { users = { { 0, 1.5 } } }, "users%[1%]: value must be a whole number from 0 on, got 1.5")
    for _, users in ipairs { inf, nan, -1, "5", true } do
      refused(perigee.closed, { users = users }, "closed: users must be a whole number from 0 on, got ")
    end
    refused(perigee.closed, { users = 1e300 }, "closed: users must be at most 1000000, got 1e%+300")
    for _, sessions in ipairs { 0, -3, 1.5, nan, inf, "3" } do
      refused(perigee.closed, { users = 1, sessions = sessions },
        "closed: sessions must be a whole number from 1 on, got ")
    end
    refused(perigee.closed, { users = 1, sessions = 1 << 32 },
      "closed: sessions must be at most 4294967295, got 4294967296")
    for _, field in ipairs { "duration", "warmup" } do
      refused(perigee.closed, { users = 1, [field] = 1e9 },
        "closed: " .. field .. " must be at most a year %(31536000 s%), got 1000000000")
      refused(perigee.closed, { users = 1, [field] = nan }, "closed: " .. field .. " must be a finite number")
      refused(perigee.closed, { users = 1, [field] = "5%" }, "closed: " .. field .. ': "5%%" is not a time')
      refused(perigee.closed, { users = 1, [field] = "-5s" }, "closed: " .. field .. " must be ")
    end
  end)
end)

describe("plans", function()
  it("come back as they were given", function()
    local made = plan { name = "n", expect = { "ttft p95 < 1s" } }
    expect(made.name):eq "n"
    expect(made.load.users):eq(2)
    expect(made.session):eq(session)
  end)

  it("can be altered and checked again", function()
    local made = plan()
    made.drain = "5s"
    expect(perigee.plan(made)):eq(made)
    for drain, says in pairs {
      [1e11] = "at most a year", [0 / 1] = false, ["1%"] = "is not a time", [1 / 0] = "finite",
    } do
      made.drain = drain
      if says then
        expect(function() perigee.plan(made) end):errors("plan: drain.* " .. says)
      else
        perigee.plan(made)
      end
    end
    made.drain, made.slo = nil, { ttft = -1 }
    expect(function() perigee.plan(made) end):errors "plan: slo.ttft must not be negative, got %-1"
    made.slo = nil
    made.dain = 1
    expect(function() perigee.plan(made) end):errors "unknown option 'dain' %(did you mean 'drain'%?%)"
  end)

  it("need a session and a load of ours", function()
    local load = perigee.closed { users = 1, sessions = 1 }
    expect(function() perigee.plan { session = session, load = load, route = route.round_robin } end)
      :errors "test_init.lua:%d+: plan: route: call it: route = route.round_robin%(%)$"
    expect(function() perigee.plan { session = session, load = load, route = "round_robin" } end)
      :errors 'plan: route must be a function: route = route.round_robin%(%), or .*; got the string "round_robin"'
    expect(function() perigee.plan { session = session, load = load, route = "sesion_hash" } end)
      :errors "plan: route must be a function: route = route.session_hash%(%)"
    expect(function() perigee.plan {} end):errors "session is missing"
    expect(function() perigee.plan { session = session, load = {} } end):errors "load must be made by"
  end)
end)

describe("parameters", function()
  it("have their defaults without --set", function()
    expect(perigee.param("depth", 3, "how deep")):eq(3)
    expect(perigee.param("word", "w")):eq "w"
    expect(perigee.param "none"):eq(nil)
    expect(function() perigee.param("a b", 1) end):errors "a parameter's name is a word"
    expect(function() perigee.param("t", {}) end):errors "a default is a number, string or boolean"
  end)
end)

describe("the module", function()
  it("knows its version and API", function()
    expect(type(perigee.version)):eq "string"
    perigee.require_api(1)
    expect(function() perigee.require_api(2) end):errors "needs API 2"
    expect(function() perigee.require_api "1" end):errors "a whole number"
    perigee.require_api(1.0)
    expect(function() perigee.param("y", 0 / 0) end):errors "param: parameter y: the default must be a finite number"
    expect(function() return perigee.clozed end):errors "perigee has no 'clozed' %(did you mean 'closed'%?%)"
  end)

  it("shares what is made once, read-only", function()
    local made = 0
    local function make()
      made = made + 1
      return { list = { 1, 2 }, name = "n" }
    end
    local a, b = perigee.shared("spec", make), perigee.shared("spec", make)
    expect(made):eq(1)
    expect(rawequal(a, b)):eq(true)
    expect(#a.list):eq(2)
    expect(function() a.name = "m" end):errors "read%-only"
  end)
end)
