-- perigee.route: where each policy sends, and that none of them touches what a session says.
local chat = require "perigee.chat"
local route = require "perigee.route"
local test = require "perigee.test"

local FLEET = { replicas = { { id = "a" }, { id = "b" }, { id = "c" } } }

-- The replicas that `sessions` sessions of `n` requests were sent to.
local function served(policy, sessions, n, fleet)
  local list = {}
  for s = 1, sessions do
    local vu = test.vu { session = s, fleet = fleet or FLEET, route = policy }
    local conv = chat.new(vu)
    for _ = 1, n do
      conv:user "x"
      conv:send { max_tokens = 1 }
    end
    for _, request in ipairs(vu.requests) do
      list[#list + 1] = request.chosen or "-"
    end
  end
  return list
end

local function share(list)
  local count = {}
  for _, id in ipairs(list) do
    count[id] = (count[id] or 0) + 1
  end
  return count
end

describe("policies", function()
  it("direct sends to one, by index or id", function()
    expect(served(route.direct(2), 1, 2)):eq { "b", "b" }
    expect(served(route.direct "c", 1, 1)):eq { "c" }
    expect(served(route.direct(), 1, 1)):eq { "a" }
    expect(function() served(route.direct "d", 1, 1) end):errors "no replica d among the fleet's 3"
    expect(function() route.direct(1.5) end):errors "index or id is expected, got float"
  end)

  it("direct and the default leave a gateway its choice", function()
    local fleet = { gateway = "http://g", replicas = FLEET.replicas }
    expect(served(route.direct(), 1, 1, fleet)):eq { "-" }
    expect(served(nil, 1, 1, fleet)):eq { "-" }
  end)

  it("round_robin takes turns", function()
    expect(served(route.round_robin(), 1, 5)):eq { "a", "b", "c", "a", "b" }
  end)

  it("session_hash keeps a session where it is and spreads sessions", function()
    local list = served(route.session_hash(), 300, 2)
    for i = 1, #list, 2 do
      expect(list[i]):eq(list[i + 1])
    end
    for _, n in pairs(share(list)) do
      expect(n):above(150)
    end
    expect(served(route.session_hash(), 20, 1)):eq(served(nil, 20, 1)) -- the default with several
  end)

  it("random spreads requests, and is the same in every run", function()
    local list = served(route.random(), 60, 5)
    for _, n in pairs(share(list)) do
      expect(n):near(100, 35)
    end
    expect(served(route.random(), 60, 5)):eq(list)
  end)

  it("work in setup, which has no session number", function()
    for _, make in ipairs { route.session_hash, route.random } do
      local vu = test.vu { fleet = FLEET }
      vu.session = nil
      local conv = chat.new(vu, { route = make() })
      conv:user "x"
      conv:send { max_tokens = 1 }
      expect(vu.requests[1].chosen):is_a "string"
    end
  end)

  it("least_inflight asks the router", function()
    expect(share(served(route.least_inflight(), 1, 6))):eq { a = 2, b = 2, c = 2 }
  end)

  it("do not change a session's bytes", function()
    local function bodies(policy)
      local vu = test.vu { session = 4, fleet = FLEET, route = policy }
      local conv = chat.new(vu)
      for _ = 1, 4 do
        conv:user(require "perigee.gen".text { tokens = vu.rng:normal(50, 20), rng = vu.rng })
        conv:send { max_tokens = 10 }
      end
      local list = {}
      for i, r in ipairs(vu.requests) do
        list[i] = r.body
      end
      return list
    end
    local plain = bodies(route.direct(1))
    for _, make in ipairs { route.round_robin, route.random, route.least_inflight, route.session_hash } do
      expect(bodies(make())):eq(plain)
    end
  end)

  -- A fleet of `n`, of which those named are out of rotation.
  local function rotating(n, ...)
    local fleet = { replicas = {} }
    for i = 1, n do
      fleet.replicas[i] = { id = "r" .. i - 1 }
    end
    for _, i in ipairs { ... } do
      fleet.replicas[i].out = true
    end
    return fleet
  end

  it("send nothing to what is out of rotation", function()
    for _, make in ipairs { route.direct, route.round_robin, route.random, route.least_inflight,
      route.session_hash, route.default, function() return function() return { replica = 3 } end end } do
      local count = share(served(make(), 40, 3, rotating(4, 1, 3)))
      expect(count.r0):eq(nil)
      expect(count.r2):eq(nil)
      expect((count.r1 or 0) + (count.r3 or 0)):eq(120)
    end
    expect(served(route.round_robin(), 1, 5, rotating(4, 3))):eq { "r0", "r1", "r3", "r0", "r1" }
  end)

  it("session_hash: only the sessions of what goes out move, and to all others alike", function()
    local before, out = served(route.session_hash(), 900, 1, rotating(4)),
      served(route.session_hash(), 900, 1, rotating(4, 2))
    local moved = {}
    for i, id in ipairs(before) do
      if id == "r1" then
        moved[#moved + 1] = out[i]
      else
        expect(out[i]):eq(id)
      end
    end
    expect(#moved):near(225, 45)
    for _, id in ipairs { "r0", "r2", "r3" } do
      expect(share(moved)[id]):near(75, 25)
    end
  end)

  it("session_hash: one that is added takes an equal part of everybody's", function()
    local before, after = served(route.session_hash(), 900, 1, rotating(3, 3)),
      served(route.session_hash(), 900, 1, rotating(3))
    local from = {}
    for i, id in ipairs(after) do
      if id == "r2" then
        from[#from + 1] = before[i]
      else
        expect(id):eq(before[i])
      end
    end
    expect(#from):near(300, 50)
    expect(share(from).r0):near(150, 35)
  end)

  it("session_hash finds the only one in rotation among many", function()
    local out = {}
    for i = 1, 200 do
      out[i] = i ~= 77 and i or 1
    end
    expect(share(served(route.session_hash(), 30, 1, rotating(200, table.unpack(out))))):eq { r76 = 30 }
  end)

  it("say in the row what was moved", function()
    local vu = test.vu { fleet = rotating(3, 2) }
    local conv = chat.new(vu, { route = route.direct "r1" })
    conv:user "x"
    conv:send { max_tokens = 1 }
    vu.fleet.replicas[3].out = true -- while the run is under way
    conv:user "y"
    conv:send { max_tokens = 1 }
    vu.fleet.replicas[2].out = nil
    conv:user "z"
    conv:send { max_tokens = 1 }
    local rows = {}
    for i, r in ipairs(vu.requests) do
      rows[i] = { r.chosen, r.policy, r.fallback or false, r.route_reason }
    end
    expect(rows):eq { { "r2", "direct", true, "r1 is out of rotation" },
      { "r0", "direct", true, "r1 is out of rotation" }, { "r1", "direct", false } }
  end)

  it("fail with the reason when nothing is in rotation", function()
    for _, make in ipairs { route.direct, route.round_robin, route.random, route.least_inflight,
      route.session_hash } do
      local vu = test.vu { fleet = rotating(3, 1, 2, 3), route = make() }
      local conv = chat.new(vu)
      conv:user "x"
      local reply, class, detail = conv:try_send { max_tokens = 1 }
      expect({ reply or false, class, detail }):eq { false, "connect",
        "no replica is in rotation: all 3 of the fleet are out of it" }
      expect(vu.requests[1].replica):eq(nil)
    end
    local vu = test.vu { fleet = rotating(1, 1) }
    local conv = chat.new(vu)
    conv:user "x"
    expect(function() conv:send { max_tokens = 1 } end):errors "the fleet's only one, r0, is out of it"
  end)

  it("go into the row", function()
    local vu = test.vu { fleet = FLEET }
    local conv = chat.new(vu, { route = function(_, prompt)
      expect(prompt.api):eq "chat"
      expect(prompt.conversation.messages):eq(1)
      return { replica = 3, policy = "mine", reason = "because", fallback = true }
    end })
    conv:user "x"
    conv:send { max_tokens = 1 }
    local r = vu.requests[1]
    expect({ r.replica, r.policy, r.chosen, r.route_reason, r.fallback }):eq { 3, "mine", "c", "because", true }
  end)

  it("that answer nonsense are told so", function()
    local function send(policy)
      local conv = chat.new(test.vu { fleet = FLEET }, { route = policy })
      conv:user "x"
      conv:send { max_tokens = 1 }
    end
    expect(function() send(function() return 2 end) end):errors "the routing policy returned number"
    expect(function() send(function() return { replica = 9 } end) end):errors "chose replica 9, the fleet has 3"
    expect(function() send(route.round_robin { count = 1 }) end):errors "did you mean 'counter'"
  end)
end)
