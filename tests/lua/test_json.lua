-- perigee.json: kinds, key order and numbers survive; equal values give equal bytes.
local gen = require "perigee.gen"
local json = require "perigee.json"

describe("json.decode", function()
  it("keeps key order, integers and kinds", function()
    local text = '{"z":1,"a":{"y":[],"x":{}},"m":[1,2.5,true,false,"s"]}'
    local value = json.decode(text)
    expect(json.encode(value)):eq(text)
    expect(math.type(value.z)):eq "integer"
    expect(math.type(value.m[2])):eq "float"
    expect(json.kind(value.a.y)):eq "array"
    expect(json.kind(value.a.x)):eq "object"
    local keys = {}
    for key in pairs(value) do
      keys[#keys + 1] = key
    end
    expect(keys):eq { "z", "a", "m" }
  end)

  it("gives objects of the same keys that are independent of each other", function()
    local text = '{"z":1,"a":2,"m":{"z":3,"a":4,"m":5}}'
    local first, second, third = json.decode(text), json.decode(text), json.decode(text)
    first.new = 6 -- a key more
    second.a = nil -- a key less
    second.m.a, second.m.more = nil, 7
    second.a = 8 -- and back, at the end
    expect(json.encode(first)):eq '{"z":1,"a":2,"m":{"z":3,"a":4,"m":5},"new":6}'
    expect(json.encode(second)):eq '{"z":1,"m":{"z":3,"m":5,"more":7},"a":8}'
    expect(json.encode(third)):eq(text)
    expect(json.encode(json.decode(text))):eq(text)
    for key in pairs(third) do
      third[key] = nil
    end
    expect(json.encode(third)):eq "{}"
    expect(json.encode(json.decode(text))):eq(text)
  end)

  it("tells keys apart whatever it has read before", function()
    for round = 1, 3 do
      for n = 1, 16 do
        for seed = 1, 20 do
          local keys, parts = {}, {}
          for i = 1, n do
            keys[i] = ("k"):rep(seed % 7) .. i * seed .. (round == 2 and ("x"):rep(60) or "")
            parts[i] = ('"%s":%d'):format(keys[i], i)
          end
          local text = "{" .. table.concat(parts, ",") .. "}"
          local value = json.decode(text)
          expect(json.encode(value)):eq(text)
          expect(value[keys[n]]):eq(n)
        end
      end
    end
    expect(json.encode(json.decode '{"ab":1,"a\\u0062":2}')):eq '{"ab":2}'
    expect(json.encode(json.decode '{"a\\u0062":1,"c":2,"ab":3}')):eq '{"ab":3,"c":2}'
  end)

  it("keeps 64-bit integers exactly", function()
    expect(json.decode "9007199254740993"):eq(9007199254740993)
    expect(json.encode(json.decode "-9223372036854775808")):eq "-9223372036854775808"
  end)

  it("gives json.null for null, unless told to drop it", function()
    expect(json.decode('{"a":null}').a):eq(json.null)
    expect(json.decode('{"a":null}', { drop_null = true })):eq {}
    expect(json.decode('[1,null,2]', { drop_null = true })):eq { 1, json.null, 2 }
    expect(json.decode "null"):eq(json.null)
  end)

  it("returns nil and line and column for bad text", function()
    local value, message = json.decode '{"a": 1,\n "b" 2}'
    expect(value):is_nil()
    expect(message):contains "line 2"
    for _, bad in ipairs { "", "[1,]", "{'a':1}", "01", "[1] 2", "NaN", '"\\ud800"', "\xff" } do
      local got, why = json.decode(bad)
      expect(got):is_nil()
      expect(why):is_a "string"
    end
  end)

  it("reads text handles", function()
    expect(json.decode(gen.from '[1]')):eq { 1 }
  end)

  it("raises for misuse", function()
    expect(function() json.decode(12) end):errors "must be a string or a text, got number"
    expect(function() json.decode("1", { dropnull = true }) end):errors "did you mean 'drop_null'"
    expect(function() json.decode("1", { drop_null = 1 }) end):errors "must be true or false, got number"
  end)
end)

describe("json.encode", function()
  it("is canonical", function()
    expect(json.encode { b = 1, a = 2, c = { 3, 4 } }):eq '{"a":2,"b":1,"c":[3,4]}'
    expect(json.encode {}):eq "{}"
    expect(json.encode(json.array {})):eq "[]"
    expect(json.encode { 1.0, 1, 0.1, 1e100, -0.0 }):eq "[1.0,1,0.1,1e+100,-0.0]"
    expect(json.encode "é\n\"\\\1"):eq '"é\\n\\"\\\\\\u0001"'
    expect(json.encode { [1] = "a", [2] = "b" }):eq '["a","b"]'
    expect(json.encode(gen.from "text")):eq '"text"'
    expect(json.encode(json.null)):eq "null"
  end)

  it("indents on request", function()
    expect(json.encode({ a = { 1 } }, { pretty = true })):contains '\n  "a": ['
  end)

  it("raises for what JSON cannot hold, and says where", function()
    expect(function() json.encode(print) end):errors "function"
    expect(function() json.encode { a = { 1, 0 / 0 } } end):errors "NaN.*%.a%[2%]"
    expect(function() json.encode { a = 1 / 0 } end):errors "infinite.*%.a"
    expect(function() json.encode { [true] = 1 } end):errors "neither strings nor whole numbers"
    local loop = {}
    loop.loop = loop
    expect(function() json.encode(loop) end):errors "does it contain itself"
  end)
end)

describe("json.object and json.array", function()
  it("keep the order of pairs, then of assignment", function()
    local object = json.object { { "b", 1 }, { "a", json.array {} } }
    object.d = 4
    object.c = 3
    expect(json.encode(object)):eq '{"b":1,"a":[],"d":4,"c":3}'
    object.a = nil
    object.b = 5
    expect(json.encode(object)):eq '{"b":5,"d":4,"c":3}'
    object.a = 6
    expect(json.encode(object)):eq '{"b":5,"d":4,"c":3,"a":6}'
  end)

  it("sort named fields and copy other objects", function()
    expect(json.encode(json.object { z = 1, y = 2 })):eq '{"y":2,"z":1}'
    local first = json.object { { "z", 1 }, { "a", 2 } }
    local copy = json.object(first)
    copy.b = 3
    expect(json.encode(first)):eq '{"z":1,"a":2}'
    expect(json.encode(copy)):eq '{"z":1,"a":2,"b":3}'
    expect(json.encode(json.object {})):eq "{}"
    expect(json.encode(json.object())):eq "{}"
  end)

  it("say what was wrong", function()
    expect(function() json.object { 1, 2 } end):errors "entry 1 must be a pair"
    expect(function() json.object { { 1, 2 } } end):errors "the key of entry 1 must be a string"
    expect(function() json.object { [5] = 1 } end):errors "keys are strings"
    expect(function() json.array { 1, [3] = 2 } end):errors "holes"
    expect(function() json.array { 1, nil, 3 } end):errors "holes"
    expect(function() json.array { 1, a = 2 } end):errors "other keys"
    local holed = json.array { 1, 2 }
    holed[4] = 4
    expect(function() json.encode(holed) end):errors "holes"
  end)
end)
