--- Lesson 9, the tests: a virtual user that only pretends, in virtual time.
local chat = require "perigee.chat"
local people = require "people"
local test = require "perigee.test"

describe("people.read", function()
  it("takes longer for more", function()
    local vu = test.vu()
    people.read(vu, 1000)
    expect(vu:now()):above(4)
    expect(vu.slept[1]):eq(vu:now())
  end)
end)

describe("people.chat", function()
  it("asks and reads", function()
    local vu = test.vu()
    expect(people.chat(vu, chat.new(vu), 3)):eq(3)
    expect(#vu.requests):eq(3)
    expect(vu.requests[3].turn):eq(3)
    expect(vu.requests[3].json.messages[4].role):eq "assistant"
  end)

  it("leaves after an error", function()
    local vu = test.vu { replies = { "fine", { class = "http_5xx" } } }
    expect(people.chat(vu, chat.new(vu), 5)):eq(1)
    expect(#vu.requests):eq(2)
  end)

  it("is the same for the same session", function()
    local function bodies(number)
      local vu = test.vu { session = number }
      people.chat(vu, chat.new(vu), 2)
      return { vu.requests[1].body, vu.requests[2].body }
    end
    expect(bodies(1)):eq(bodies(1))
    expect(bodies(1)):ne(bodies(2))
  end)
end)
