-- perigee.object: classes whose methods say how to call them, and whose unknown names are said.
local object = require "perigee.object"

local function counter()
  local Counter = {}
  function Counter:add(amount, _why)
    self.n = self.n + amount
    return self
  end
  function Counter.all(_self, ...)
    return select("#", ...)
  end
  Counter.__tostring = function(self)
    return "counter " .. self.n
  end
  object.class(Counter, "counter", { "n", "note" }, { "secret" })
  return setmetatable({ n = 1 }, Counter)
end

describe("object.class", function()
  it("leaves calls with a colon as they are", function()
    local c = counter()
    expect(c:add(2):add(3).n):eq(6)
    expect(c:all(nil, nil)):eq(2)
    expect(tostring(c)):eq "counter 6"
  end)

  it("says how to call a method that was called with a dot", function()
    local c = counter()
    expect(function() c.add(2) end):errors "counter:add: call it with a colon, counter:add%(amount, _why%)"
    expect(function() c.all() end):errors "counter:all: call it with a colon, counter:all%(%.%.%.%)"
    expect(function() c.add({ n = 1 }, 2) end):errors "call it with a colon"
  end)

  it("names the author's line", function()
    local c = counter()
    local _, message = pcall(function() c.add(2) end)
    expect(message):matches "test_object%.lua:%d+: "
  end)

  it("reads known fields that are not set, and says unknown names", function()
    local c = counter()
    expect(c.note):is_nil()
    expect(c.secret):is_nil()
    expect(function() return c.ad end):errors "counter has no 'ad' %(did you mean 'add'%?%)"
    expect(function() return c.notes end):errors "did you mean 'note'"
    expect(function() return c.zzzzzzzz end):errors "counter has no 'zzzzzzzz'$"
    expect(function() return c.secrt end):errors "counter has no 'secrt'$" -- hidden: never suggested
  end)
end)
