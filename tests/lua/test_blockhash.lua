-- perigee.blockhash: every golden vector in every field, chains that grow and fork, and misuse.
local blockhash = require "perigee.blockhash"
local gen = require "perigee.gen"
local json = require "perigee.json"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local NOT_FIELDS = {
  scheme = 1, name = 1, block_size = 1, params = 1, tokens = 1, text = 1, origin = 1, published_fields = 1,
}

local function options_of(vector)
  local options = { scheme = vector.scheme, block_size = vector.block_size }
  for name, value in pairs(vector.params) do
    options[name] = value
  end
  return options
end

describe("blockhash.hash", function()
  local vectors = json.decode(read "tests/data/blockhash/vectors.json")
  local schemes = {}

  for _, vector in ipairs(vectors) do
    schemes[vector.scheme] = schemes[vector.scheme] or {}
    table.insert(schemes[vector.scheme], vector)
  end

  for scheme, rows in pairs(schemes) do
    it("equals the " .. #rows .. " vectors of " .. scheme, function()
      for _, vector in ipairs(rows) do
        local h = assert(blockhash.hash(vector.tokens or vector.text, options_of(vector)))
        expect(h:hex()):eq(vector.block_hashes)
        expect(#h):eq(#vector.block_hashes)
        expect(h:event()):eq(vector.event_hashes or vector.event_i64 or vector.int_hashes or vector.block_hashes)
        for name, value in pairs(vector) do
          if not NOT_FIELDS[name] then
            expect(h:field(name)):eq(value)
          end
        end
      end
    end)
  end

  it("knows a scheme for every vector, and no more", function()
    local n = 0
    for _, name in ipairs(blockhash.schemes()) do
      expect(schemes[name] ~= nil):eq(true)
      expect(blockhash.scheme(name).name):eq(name)
      n = n + 1
    end
    expect(n):eq(25)
    expect(blockhash.schemes()[1]):eq "ic-xxh3"
    expect(blockhash.scheme "nothing"):eq(nil)
  end)

  it("gives bytes by number", function()
    local h = blockhash.hash({ 1, 300, 70000, 4294967295 }, { block_size = 4 })
    expect(h[1]):eq "\xa4\xa0\xe2\xa0\x09\xd7\xc9\xf6"
    expect(h[0]):eq(nil)
    expect(h[2]):eq(nil)
    expect(tostring(h)):eq "hashes: 1 of ic-xxh3"
  end)

  it("grows and forks", function()
    local ids = {}
    for i = 1, 100 do
      ids[i] = i * 7
    end
    local whole = blockhash.hash(ids):hex()
    local h = blockhash.hash({})
    for i = 1, 100 do
      expect(h:extend({ ids[i] })):eq(h)
      if i == 40 then
        local other = h:fork():extend({ 1, 2, 3, 4, 5, 6, 7, 8 })
        expect(#other):eq(3)
      end
    end
    expect(h:hex()):eq(whole)
  end)

  it("reads text handles", function()
    local options = { scheme = "pstack-xxh64", variant = "go", block_size = 2 }
    expect(blockhash.hash(gen.from "abc", options):hex()):eq(blockhash.hash("abc", options):hex())
  end)

  it("gives nil and a message for what a scheme cannot hash", function()
    local h, message = blockhash.hash({ 1, -1 })
    expect(h):eq(nil)
    expect(message):eq "token 2 is -1; ids of ic-xxh3 lie between 0 and 4294967295"
    h, message = blockhash.hash "a text"
    expect(h):eq(nil)
    expect(message):eq "ic-xxh3 hashes token ids, not text: tokenize it first"
    h, message = blockhash.hash({ 1 }, { scheme = "pstack-xxh64", variant = "go" })
    expect(h):eq(nil)
    expect(message):eq "pstack-xxh64 hashes the prompt's text, not token ids: give the text"
    h, message = blockhash.hash({}):extend "x"
    expect(h):eq(nil)
    expect(message):eq "ic-xxh3 hashes token ids, not text: tokenize it first"
  end)

  it("raises for misuse", function()
    expect(function() blockhash.hash({}, { scheme = "ic-xhx3" }) end):errors 'did you mean "ic%-xxh3"'
    expect(function() blockhash.hash({}, { scheme = 3 }) end):errors "scheme must be a string"
    expect(function() blockhash.hash({}, { block_size = 0 }) end):errors "block_size is 0; it must be a whole number"
    expect(function() blockhash.hash({}, { sed = 0 }) end):errors "did you mean 'seed'"
    expect(function() blockhash.hash({}, { scheme = "vllm-sha256" }) end):errors "seed is missing"
    expect(function() blockhash.hash({}, 3) end):errors "options must be a table, got number"
    expect(function() blockhash.hash({}, { 3 }) end):errors "options have names"
    expect(function() blockhash.hash(nil) end):errors "or a text are expected, got nil"
    expect(function() blockhash.hash({ 1, "2" }) end):errors 'token 2 is the string "2", not a whole number'
    expect(function() blockhash.hash({ 1.5 }) end):errors "token 1 is 1.5, not a whole number"
    expect(function() blockhash.hash({}):field "hex" end):errors "ic%-xxh3 has no field 'hex'"
    expect(function() blockhash.hash({}):field(1) end):errors "the field's name is expected, got number"
    expect(function() blockhash.hash({}):heks() end):errors "hashes has no 'heks' .did you mean 'hex'"
    expect(function() blockhash.hash({}).hex() end):errors "colon"
    expect(function() blockhash.scheme(1) end):errors "a scheme's name is expected"
  end)
end)
