-- What the prompt of `perigee lua` prints of values.
local show = require "perigee.show"

describe("show.value", function()
  it("gives texts as they are, and bytes as escapes", function()
    expect(show.value "Grüße\n"):eq "Grüße\n"
    expect(show.value "\xFF\0a"):eq "\\xFF\\x00a"
    expect(show.value "a\27[31m"):eq "a\\x1B[31m"
    expect(show.value(("é"):rep(3000))):eq(("é"):rep(2047) .. "… (6000 bytes)")
    expect(show.value(3)):eq "3"
    expect(show.value(nil)):eq "nil"
  end)

  it("opens tables", function()
    expect(show.value { 9707, 1917 }):eq "{ 9707, 1917 }"
    expect(show.value {}):eq "{}"
    expect(show.value { "a\"\n", x = { y = true }, ["a b"] = 1, [0] = 2 }):eq
      '{ "a\\"\\n", [0] = 2, ["a b"] = 1, x = { y = true } }'
    local list = {}
    for i = 1, 100 do
      list[i] = i
    end
    expect(show.value(list)):contains "63, 64, … 36 more }"
  end)

  it("stops at what is deep, names itself or goes round", function()
    local t = {}
    t.t = t
    expect(show.value(t)):contains "{ t = { t = { t = table: 0x"
    expect(show.value(setmetatable({}, { __tostring = function() return "me" end }))):eq "me"
    expect(show.value { setmetatable({}, { __tostring = function() return "me" end }) }):eq "{ me }"
  end)
end)
