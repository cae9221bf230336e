-- perigee.gen: exact sizes, fixed draws, distributions with the moments they promise.
local gen = require "perigee.gen"

local function mean_of(distribution, n)
  local rng, sum = gen.rng "mean", 0
  for _ = 1, n do
    sum = sum + distribution(rng)
  end
  return sum / n
end

describe("gen.text", function()
  it("has exactly the tokens asked for", function()
    for _, n in ipairs { 1, 2, 3, 15, 16, 17, 100, 4097 } do
      expect(#gen.text { tokens = n, seed = "sizes" }):eq(n)
    end
  end)

  it("rounds counts and makes at least one", function()
    expect(#gen.text { tokens = 2.5, seed = "a" }):eq(3)
    expect(#gen.text { tokens = 2.4, seed = "a" }):eq(2)
    expect(#gen.text { tokens = 0, seed = "a" }):eq(1)
    expect(#gen.text { tokens = -20, seed = "a" }):eq(1)
  end)

  it("is the same for a seed everywhere", function()
    local pinned = "Form. Give behind. Below music head. Cha"
    expect(tostring(gen.text { tokens = 40, seed = "x" })):eq(pinned)
    expect(gen.text { tokens = 40, seed = "x" } == gen.text { tokens = 40, seed = "x" }):truthy()
    expect(gen.text { tokens = 40, seed = "x" } == gen.text { tokens = 40, seed = "y" }):falsy()
    expect(tostring(gen.text { tokens = 9, seed = 7 })):eq(tostring(gen.text { tokens = 9, seed = "7" }))
  end)

  it("draws when it is called, whenever its bytes are made", function()
    local a, b = gen.rng "order", gen.rng "order"
    local first, second = gen.text { tokens = 50, rng = a }, gen.text { tokens = 50, rng = a }
    local other_second
    do
      local other_first = gen.text { tokens = 50, rng = b }
      other_second = gen.text { tokens = 50, rng = b }
      expect(tostring(other_second)):eq(tostring(second)) -- made in the other order
      expect(tostring(other_first)):eq(tostring(first))
    end
    expect(a:unit()):eq(b:unit())
  end)

  it("takes a distribution as the count", function()
    local rng = gen.rng "sizes"
    local text = gen.text { tokens = gen.uniform(100, 200), rng = rng }
    expect(#text):above(99)
    expect(#text):below(201)
    expect(#gen.text { tokens = gen.fixed(33), seed = "s" }):eq(33)
  end)

  it("is words and no space at the end", function()
    for n = 1, 60 do
      expect(tostring(gen.text { tokens = n, seed = "end" .. n })):matches "^[A-Za-z. ]*[A-Za-z.]$"
    end
  end)

  it("knows its objects' names, and how they are called", function()
    local rng, text = gen.rng(1), gen.from "abc"
    expect(function() rng:foo() end):errors "test_gen.lua:%d+: rng has no 'foo'"
    expect(function() rng:unifrom(1, 2) end):errors "rng has no 'unifrom' %(did you mean 'uniform'%?%)"
    expect(function() rng.int(1, 6) end):errors "test_gen.lua:%d+: rng:int: call it with a colon, rng:int%(%.%.%.%)"
    expect(function() text:sbu(1) end):errors "text has no 'sbu' %(did you mean 'sub'%?%)"
    expect(function() text.sub(1, 2) end):errors "test_gen.lua:%d+: text:sub: call it with a colon"
    expect(text == "abc"):eq(false)
    expect(tostring(text) == "abc"):eq(true)
  end)

  it("refuses nonsense at the author's line", function()
    expect(function() gen.zipf(0) end)
      :errors "test_gen.lua:%d+: gen.zipf: n must be a whole number from 1 on, got 0$"
    expect(function() gen.zipf(2.5) end):errors "from 1 on, got 2.5"
    expect(gen.zipf(1.0)(gen.rng(1))):eq(1)
    expect(function() gen.text { tokens = 5 } end):errors "test_gen.lua:%d+: gen.text: say whose text it is"
    expect(function() gen.text { tokens = 5, seed = "a", rng = gen.rng(1) } end):errors "say whose"
    expect(function() gen.text { token = 5, seed = "a" } end):errors "did you mean 'tokens'"
    expect(function() gen.text { tokens = "many", seed = "a" } end)
      :errors "tokens must be a number, got the string \"many\""
    expect(function() gen.text { tokens = 0 / 0, seed = "a" } end):errors "tokens must be a number up to"
    expect(function() gen.text { tokens = 5, seed = {} } end):errors "seed must be a string"
    expect(function() gen.text { tokens = 5, rng = 3 } end):errors "a generator is expected"
  end)
end)

describe("text handles", function()
  it("join lazily, compare by bytes, give parts", function()
    local text = "a" .. gen.from "b" .. "c" .. gen.text { tokens = 3, seed = "x" }
    expect(tostring(text)):eq "abcFor"
    expect(#text):eq(6)
    expect(text == gen.from "abcFor"):truthy()
    expect(text:sub(2, 3)):eq "bc"
    expect(text:sub(-2)):eq "or"
    expect(text:sub(7)):eq ""
  end)

  it("join thousands on either side", function()
    local left, right = gen.from "", gen.from ""
    for _ = 1, 20000 do
      left, right = left .. "x", "y" .. right
    end
    expect(#left):eq(20000)
    expect(#right):eq(20000)
    left, right = gen.from "", gen.from ""
    for _ = 1, 20000 do
      left, right = left .. "x", "y" .. right
    end
    left, right = nil, nil -- luacheck: ignore
    collectgarbage() -- freed without having been made
  end)

  it("refuse to join numbers", function()
    expect(function() return gen.from "a" .. 1 end):errors "the right side of %.%. must be a string"
    expect(function() return {} .. gen.from "a" end):errors "the left side of %.%. must be a string"
  end)
end)

describe("other generators of text", function()
  it("words has as many words as asked", function()
    local _, spaces = tostring(gen.words { words = 12, seed = "w" }):gsub(" ", "")
    expect(spaces):eq(11)
    expect(function() gen.words { tokens = 5, seed = "a" } end):errors "unknown option 'tokens'"
  end)

  it("corpus is a list of different texts, the same everywhere", function()
    local corpus = gen.corpus { documents = 3, tokens = 80, seed = "kb" }
    expect(#corpus):eq(3)
    expect(#corpus[3]):eq(80)
    expect(corpus[1] == corpus[2]):falsy()
    expect(corpus[2] == gen.corpus { documents = 2, tokens = 80, seed = "kb" }[2]):truthy()
  end)

  it("join and count", function()
    expect(tostring(gen.join({ "a", gen.from "b", "c" }, "\n"))):eq "a\nb\nc"
    expect(tostring(gen.join {})):eq ""
    local tokens, exact = gen.count "12345"
    expect(tokens):eq(5)
    expect(exact):eq(true)
  end)
end)

describe("distributions", function()
  it("have the mean they promise", function()
    expect(mean_of(gen.exp "200ms", 20000)):near(0.2, 0.005)
    expect(mean_of(gen.normal(120, 40), 20000)):near(120, 1)
    expect(mean_of(gen.uniform(10, 20), 20000)):near(15, 0.1)
    expect(mean_of(gen.lognormal(100, 0.5), 20000)):near(113.3, 2) -- 100 * exp(0.125)
    expect(mean_of(gen.fixed "5%", 3)):near(0.05)
  end)

  it("stay inside bounds", function()
    local rng, clamped = gen.rng(1), gen.normal(0, 10, { min = -1, max = 2 })
    for _ = 1, 200 do
      local x = clamped(rng)
      expect(x):above(-1.0001)
      expect(x):below(2.0001)
    end
    expect(function() gen.normal(0, 1, { min = 2, max = 1 }) end):errors "min lies above max"
  end)

  it("zipf follows its exponent", function()
    local rng, zipf, count = gen.rng(3), gen.zipf(50, 1), {}
    for _ = 1, 40000 do
      local k = zipf(rng)
      count[k] = (count[k] or 0) + 1
    end
    expect(count[1] / count[2]):near(2, 0.2)
    expect(count[1] / count[10]):near(10, 2)
    expect(count[51]):is_nil()
  end)

  it("choice follows its weights", function()
    local rng, choice, count = gen.rng(3), gen.choice({ "a", "b", "c" }, { 1, 0, 3 }), { a = 0, b = 0, c = 0 }
    for _ = 1, 8000 do
      local k = choice(rng)
      count[k] = count[k] + 1
    end
    expect(count.b):eq(0)
    expect(count.c / count.a):near(3, 0.3)
    expect(function() gen.choice {} end):errors "at least one element"
    expect(function() gen.choice({ 1 }, { 0 }) end):errors "at least one weight must be positive"
    expect(function() gen.choice({ 1 }, { 1, 2 }) end):errors "as many weights"
  end)

  it("draw takes all three forms", function()
    local rng = gen.rng(1)
    expect(gen.draw("50ms", rng)):near(0.05)
    expect(gen.draw(3, rng)):eq(3)
    expect(gen.draw(gen.fixed(4), rng)):eq(4)
    expect(function() gen.draw(gen.fixed(4)) end):errors "a generator is expected"
    expect(function() gen.draw(function() return "x" end, rng) end):errors "returned a string"
  end)
end)

describe("rng", function()
  it("draws whole numbers without leaving the range", function()
    local rng, seen = gen.rng(1), {}
    for _ = 1, 500 do
      seen[rng:int(4, 8)] = true
    end
    expect(seen):eq { [4] = true, [5] = true, [6] = true, [7] = true, [8] = true }
    for _ = 1, 50 do
      expect(rng:int(3)):below(4)
    end
    expect(function() rng:int(2, 1) end):errors "2%.%.1 is empty"
  end)

  it("is the same for a seed, and splits without drawing", function()
    local a, b = gen.rng "s", gen.rng "s"
    local child = a:split()
    expect(a:unit()):eq(b:unit())
    expect(child:unit()):eq(b:split():unit())
    expect(a:split():unit()):ne(child:unit())
    expect(gen.rng("s"):unit()):near(0.0, 1)
  end)

  it("shuffles in place and chooses", function()
    local rng, list = gen.rng(9), { 1, 2, 3, 4, 5, 6, 7, 8 }
    expect(rng:shuffle(list)):eq(list)
    local sorted = table.move(list, 1, #list, 1, {})
    table.sort(sorted)
    expect(sorted):eq { 1, 2, 3, 4, 5, 6, 7, 8 }
    expect(list):ne(sorted)
    expect(list):contains(rng:choice(list))
    expect(function() rng:choice {} end):errors "the list is empty"
  end)

  it("takes quantities with units", function()
    local a, b = gen.rng(5), gen.rng(5)
    expect(a:exp "6s"):eq(b:exp(6))
    expect(a:normal("100ms", "10ms")):near(b:normal(0.1, 0.01), 1e-12)
    local hits = 0
    for _ = 1, 4000 do
      hits = hits + (a:bool "25%" and 1 or 0)
    end
    expect(hits / 4000):near(0.25, 0.03)
    expect(function() a:exp "6 parsecs" end):errors "6 parsecs"
    expect(function() a:bool(1.5) end):errors "0%.%.1"
    expect(function() a:exp(-1) end):errors "must not be negative"
  end)
end)

describe("joining texts", function()
  it("has an end", function()
    local text = gen.text { tokens = 1000, seed = "x" }
    expect(function()
      for _ = 1, 40 do
        text = text .. text
      end
    end):errors "the joined text could have %d+ bytes; a text may have 4294967296"
  end)
end)

describe("numbers that make no sense", function()
  it("are refused everywhere", function()
    local inf, nan, rng = 1 / 0, 0 / 0, gen.rng "numbers"
    for says, fn in pairs {
      ["gen.text: tokens must be a number up to 1e9, got inf"] = function() gen.text { tokens = inf, seed = 1 } end,
      ["gen.text: tokens must be a number up to 1e9, got %-?nan"] = function() gen.text { tokens = nan, seed = 1 } end,
      ["gen.text: tokens must be a number up to 1e9, got 2e%+09"] = function() gen.text { tokens = 2e9, seed = 1 } end,
      ["gen.text: tokens must be a number, got the string"] = function() gen.text { tokens = "5%", seed = 1 } end,
      ["gen.text: seed must be a string or a whole number, got 1.5"] = function()
        gen.text { tokens = 1, seed = 1.5 }
      end,
      ["gen.words: words must be a number up to 1e9"] = function() gen.words { words = inf, seed = 1 } end,
      ["gen.corpus: documents must be"] = function() gen.corpus { documents = nan, tokens = 1, seed = "x" } end,
      ["gen.zipf: n must be a whole number from 1 on, got inf"] = function() gen.zipf(inf) end,
      ["gen.zipf: n must be at most 10000000"] = function() gen.zipf(1e300) end,
      ["gen.zipf: n must be a whole number from 1 on, got %-?nan"] = function() gen.zipf(nan) end,
      ["gen.zipf: s must be a finite number"] = function() gen.zipf(3, nan) end,
      ["gen.zipf: s must not be negative"] = function() gen.zipf(3, -1) end,
      ["gen.fixed: the value must be a finite number"] = function() gen.fixed(inf) end,
      ["gen.uniform: the upper bound must be a finite number"] = function() gen.uniform(0, nan) end,
      ["lies too far from the first bound"] = function() gen.uniform(-1e308, 1e308)(rng) end,
      ["gen.exp: the mean must not be negative"] = function() gen.exp(-1) end,
      ["gen.exp: max must be a finite number"] = function() gen.exp(1, { max = nan }) end,
      ["gen.normal: the standard deviation must be a finite"] = function() gen.normal(1, inf) end,
      ["gen.lognormal: the median must be positive"] = function() gen.lognormal(-0.0, 1) end,
      ["gen.choice: weight 2 must be a finite number"] = function() gen.choice({ 1, 2 }, { 1, inf }) end,
      ["gen.choice: the sum of the weights must be a finite"] = function() gen.choice({ 1, 2 }, { 1e308, 1e308 }) end,
      ["gen.draw: the value must be a finite number"] = function() gen.draw(nan) end,
    } do
      expect(fn):errors(says)
    end
    expect(tostring(gen.text { tokens = 3.0, seed = 7.0 })):eq(tostring(gen.text { tokens = 3, seed = 7 }))
  end)
end)
