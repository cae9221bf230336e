-- perigee.test.vu: the virtual user that only pretends.
local test = require "perigee.test"

describe("the fake virtual user", function()
  it("keeps time and records", function()
    local vu = test.vu { params = { users = 3 }, session = 7 }
    vu:sleep "2s"
    vu:sleep(0.5)
    vu:record("edits", 2, { kind = "x" })
    expect(vu:check("sane", 1)):eq(true)
    vu:log("hello", 1, nil)
    expect(vu:now()):eq(2.5)
    expect(vu.slept):eq { 2, 0.5 }
    expect(vu.records):eq { { metric = "edits", value = 2, tags = { kind = "x" } } }
    expect(vu.checks):eq { { name = "sane", ok = true } }
    expect(vu.logs):eq { "hello 1 nil" }
    expect(vu.params.users):eq(3)
    expect(vu.session):eq(7)
    expect(function() return vu.params.user end)
      :errors "test_fake.lua:%d+: vu.params has no 'user' %(did you mean 'users'%?%)"
    expect(function() return vu.params.zzz end):errors "the plan declares it, or test.vu { params = { zzz = "
    expect(function() vu:slep(1) end):errors "vu has no 'slep' %(did you mean 'sleep'%?%)"
    expect(function() vu.sleep(1) end):errors "test_fake.lua:%d+: vu:sleep: call it with a colon, vu:sleep%(seconds%)"
    expect(function() vu:record("edits", "1") end):errors 'got the string "edits" and the string "1"'
    expect(function() vu:sleep(-1) end):errors "vu:sleep: the time must be at least 0 s, got %-1$"
    expect(function() vu:tag("turn", 1) end):errors "kept by conversations"
    expect(function() test.vu { sesion = 1 } end):errors "did you mean 'session'"
  end)

  it("keeps what was done to the fleet", function()
    local vu = test.vu {}
    expect(vu.fleet:restart("r1", { down = "2s" }).replicas):eq { "r1" }
    vu.fleet:pressure { share = 0.5 }
    expect(vu.fleet:reset_cache().done):eq(true)
    expect(vu.actions):eq { { action = "restart", replica = "r1", down = "2s" }, { action = "pressure", share = 0.5 },
      { action = "reset_cache" } }
  end)

  it("answers from a list, then with the default", function()
    local vu = test.vu { replies = { "one", { status = 503, text = "" }, { class = "reset", detail = "gone" } } }
    expect(vu:http { path = "/x" }.text):eq "one"
    expect(vu:http { path = "/x" }.status):eq(503)
    local reply, class, detail = vu:try_http { path = "/x" }
    expect(reply):is_nil()
    expect({ class, detail }):eq { "reset", "gone" }
    expect(vu:http({ path = "/x", json = { max_tokens = 5 } }).usage.completion_tokens):eq(5)
    expect(#vu.requests):eq(4)
    expect(vu.requests[4].json):eq { max_tokens = 5 }
    expect(vu:now()):near(0.4)
  end)

  it("answers from a function", function()
    local vu = test.vu { replies = function(request) return "reply to " .. request.number end }
    vu:http {}
    expect(vu:http {}.text):eq "reply to 2"
  end)

  it("runs children on clocks of their own", function()
    local vu = test.vu()
    vu:sleep(1)
    local results = vu:all({ 3, 1 }, function(child, seconds, i)
      child:sleep(seconds)
      return { i, child:now(), child.branch_id, child.parent_branch }
    end)
    expect(results):eq { { 1, 4.0, 1, 0 }, { 2, 2.0, 2, 0 } }
    expect(vu:now()):eq(4)
    local task = vu:spawn(function(child) child:sleep(10) return "done" end)
    vu:sleep(2)
    expect(task:join()):eq "done"
    expect(vu:now()):eq(14)
  end)

  it("gives children generators that depend on the session alone", function()
    local function draws()
      local list = {}
      test.vu { session = 3 }:all({ 1, 2 }, function(child) list[#list + 1] = child.rng:unit() end)
      return list
    end
    expect(draws()):eq(draws())
    expect(draws()[1]):ne(draws()[2])
  end)

  it("runs a plan's session", function()
    local vu = test.session({
      params = { n = { default = 2 } },
      setup = function() return "shared" end,
      session = function(v)
        for _ = 1, v.params.n do
          v:sleep(1)
        end
        v:log(v.shared)
      end,
    })
    expect(vu:now()):eq(2)
    expect(vu.logs):eq { "shared" }
    expect(function() test.session {} end):errors "a plan with a session is expected"
  end)

  it("has the response of a scripted failure", function()
    local chat = require "perigee.chat"
    local vu = test.vu { replies = { { class = "http_429", status = 429, retry_after = 2, headers = { ["x-a"] = "b" } },
      { class = "connect" }, { class = "http_5xx", status = 503 } } }
    local conv = chat.new(vu, { max_tokens = 4 })
    conv:user "hi"
    local reply, class, detail, response = conv:try_send()
    expect({ reply = reply, class = class, detail = detail, response = response }):eq { class = "http_429",
      detail = "a scripted failure", response = { status = 429, retry_after = 2, headers = { ["x-a"] = "b" } } }
    expect((select(4, conv:try_send()))):eq { headers = {} }
    local ok, err = pcall(conv.send, conv)
    expect(ok):eq(false)
    expect(err.response.status):eq(503)
  end)
end)
