-- perigee.diff: how values are shown and compared.
local diff = require "perigee.diff"
local gen = require "perigee.gen"
local json = require "perigee.json"

describe("diff.show", function()
  it("shows values as Lua writes them, keys in order", function()
    expect(diff.show "a\nb\"c"):eq [["a\nb\"c"]]
    expect(diff.show { 1, "x", b = true, a = { c = 1.5 } }):eq [[{1, "x", a = {c = 1.5}, b = true}]]
    expect(diff.show { [3] = 1, ["a b"] = 2 }):eq [[{[3] = 1, ["a b"] = 2}]]
    expect(diff.show(json.decode '{"z":[],"a":null}')):eq "json.object{a = json.null, z = json.array{}}"
    expect(diff.show(gen.from "t")):eq 'text"t"'
    expect(diff.show(nil)):eq "nil"
  end)

  it("shows a table that contains itself, and cuts what is long", function()
    local loop = { 1 }
    loop.self = loop
    expect(diff.show(loop)):eq "{1, self = {...}}"
    expect(diff.show(("x"):rep(1000))):matches "^\"x+\"%.%.%. %(1000 bytes%)$"
    local long = {}
    for i = 1, 100 do
      long[i] = i
    end
    expect(diff.show(long)):contains "40, ...}"
  end)
end)

describe("diff.difference", function()
  it("is nil when there is none", function()
    expect(diff.difference({ 1, { a = "b" } }, { 1.0, { a = "b" } })):is_nil()
    expect(diff.difference(gen.from "x", "x")):is_nil()
    expect(diff.difference("x", gen.from "x")):is_nil()
    expect(diff.difference(0 / 0, 0 / 0)):is_nil()
    expect(diff.difference(json.decode "{}", {})):is_nil()
  end)

  it("names each place", function()
    expect(diff.difference(1, "1")):eq 'expected "1", got 1'
    expect(diff.difference({ a = { 1, 2 } }, { a = { 1, 3 }, b = 4 })):eq(
      "at .a[2]: expected 3, got 2\nat .b: expected 4, got nil")
    expect(diff.difference({ x = { y = 1 } }, { x = {} })):eq "at .x.y: expected nil, got 1"
    expect(diff.difference(json.decode "[]", json.decode "{}")):eq "expected a json.object, got a json.array"
  end)

  it("stops after a few", function()
    local a, b = {}, {}
    for i = 1, 20 do
      a[i], b[i] = i, -i
    end
    expect(diff.difference(a, b)):contains "and 12 more differences"
  end)
end)
