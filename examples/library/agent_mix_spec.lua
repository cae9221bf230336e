--- Run with: perigee test examples/library
local agent_mix = require "agent_mix"
local test = require "perigee.test"

local function note(text)
  return function(vu)
    vu:log(text)
  end
end

describe("agent_mix.session", function()
  local session = agent_mix.session {
    { name = "chat", share = "75%", session = note "chatting" },
    { name = "agent", share = "25%", session = note "working" },
  }

  it("chooses by share", function()
    local agents = 0
    for number = 1, 1000 do
      local vu = test.vu { session = number }
      session(vu)
      agents = agents + (vu.tags.kind == "agent" and 1 or 0)
    end
    expect(agents):near(250, 45)
  end)

  it("tags the session and runs it", function()
    local vu = test.vu { session = 3 }
    session(vu)
    expect(vu.logs[1]):eq(vu.tags.kind == "chat" and "chatting" or "working")
  end)

  it("makes the same choice for the same session", function()
    local first, again = test.vu { session = 9 }, test.vu { session = 9 }
    session(first)
    session(again)
    expect(again.tags):eq(first.tags)
  end)

  it("refuses kinds that cannot work", function()
    expect(function() agent_mix.session { { name = "x" } } end):errors "kind 1 needs a name and a session"
    local kind = { name = "x", session = note "" }
    expect(function() agent_mix.session { kind, kind } end):errors "two kinds called 'x'"
    expect(function() agent_mix.session {} end):errors "at least one element"
  end)
end)
