-- Generated text of exactly so many tokens, and distributions. The bytes are made in C, at first
-- use, for the run's tokenizer; what is drawn is drawn when the script asks, so the order of calls
-- alone decides what a session says.
local core = require "perigee.core"
local make = require "perigee.gen.core"

local gen = {}

local function check_rng(rng, where)
  if not make.is_rng(rng) then
    core.raise(where .. ": a generator is expected (vu.rng in a session), got " .. type(rng))
  end
  return rng
end

--- A number from a number, a quantity such as "50ms", or a distribution.
function gen.draw(value, rng)
  if type(value) == "function" then
    local drawn = value(check_rng(rng, "gen.draw"))
    if type(drawn) ~= "number" then
      core.raise("gen.draw: the distribution returned a " .. type(drawn) .. ", not a number")
    end
    return drawn
  end
  return core.quantity(value, "gen.draw: the value")
end

-- Whose text it is: the seed's, or drawn from a generator. Amounts that are distributions draw first.
local function recipe(where, opts, amount, kind)
  local seed, rng = opts.seed, opts.rng
  if (seed == nil) == (rng == nil) then
    core.raise(where .. ": say whose text it is: seed = \"a name\" (the same bytes everywhere) "
      .. "or rng = vu.rng")
  end
  if rng ~= nil then
    check_rng(rng, where)
  elseif type(seed) ~= "string" then
    if type(seed) ~= "number" or not math.tointeger(seed) then
      core.raise(where .. ": seed must be a string or a whole number, got " .. core.shown(seed))
    end
    seed = math.tointeger(seed)
  end
  if type(amount) == "function" then
    amount = gen.draw(amount, rng or make.rng(seed))
  end
  return make[kind](core.count(amount, where .. ": " .. kind), seed, rng)
end

--- Text of exactly n tokens for the run's tokenizer.
function gen.text(opts)
  opts = core.options(opts, "gen.text", { "tokens", "seed", "rng" })
  return recipe("gen.text", opts, opts.tokens, "tokens")
end

--- Text of exactly n words.
function gen.words(opts)
  opts = core.options(opts, "gen.words", { "words", "seed", "rng" })
  return recipe("gen.words", opts, opts.words, "words")
end

--- A list of texts, the same everywhere.
function gen.corpus(opts)
  opts = core.options(opts, "gen.corpus", { "documents", "tokens", "seed" })
  local n = core.count(opts.documents, "gen.corpus: documents")
  if type(opts.seed) ~= "string" then
    core.raise("gen.corpus: seed must be a string, it names the corpus")
  end
  local texts = {}
  for i = 1, n do
    texts[i] = gen.text { tokens = opts.tokens, seed = opts.seed .. "/" .. i }
  end
  return texts
end

--- A handle over a string's bytes.
function gen.from(text)
  return make.of(text)
end

--- Texts joined into one.
function gen.join(texts, separator)
  return make.join(texts, separator)
end

--- How many tokens a text has, and whether that is exact.
function gen.count(text)
  return make.count(text)
end

--- A generator named by a seed.
function gen.rng(seed)
  if type(seed) ~= "string" and type(seed) ~= "number" then
    core.raise("gen.rng: a seed is a string or a whole number, got " .. core.shown(seed))
  end
  return make.rng(seed)
end

-- ---- distributions: functions of a generator ----

local function bounds(opts, where)
  opts = core.options(opts, where, { "min", "max" })
  local min = opts.min and core.quantity(opts.min, where .. ": min") or -math.huge
  local max = opts.max and core.quantity(opts.max, where .. ": max") or math.huge
  if min > max then
    core.raise(where .. ": min lies above max")
  end
  return function(x)
    return x < min and min or x > max and max or x
  end
end

local function not_negative(value, what)
  value = core.quantity(value, what)
  if value < 0 then
    core.raise(what .. " must not be negative")
  end
  return value
end

--- Always the same value.
function gen.fixed(value)
  value = core.quantity(value, "gen.fixed: the value")
  return function(rng)
    check_rng(rng, "gen.fixed")
    return value
  end
end

--- Any value in [lo, hi) alike.
function gen.uniform(lo, hi)
  lo = core.quantity(lo, "gen.uniform: the lower bound")
  hi = core.quantity(hi, "gen.uniform: the upper bound")
  if lo > hi then
    core.raise("gen.uniform: the lower bound lies above the upper one")
  end
  return function(rng)
    return check_rng(rng, "gen.uniform"):uniform(lo, hi)
  end
end

--- Exponential: waiting times.
function gen.exp(mean, opts)
  mean = not_negative(mean, "gen.exp: the mean")
  local clamp = bounds(opts, "gen.exp")
  return function(rng)
    return clamp(check_rng(rng, "gen.exp"):exp(mean))
  end
end

--- Normal.
function gen.normal(mean, sd, opts)
  mean = core.quantity(mean, "gen.normal: the mean")
  sd = not_negative(sd, "gen.normal: the standard deviation")
  local clamp = bounds(opts, "gen.normal")
  return function(rng)
    return clamp(check_rng(rng, "gen.normal"):normal(mean, sd))
  end
end

--- Log-normal by its median: sizes and service times with a long tail.
function gen.lognormal(median, sigma, opts)
  median = core.quantity(median, "gen.lognormal: the median")
  sigma = not_negative(sigma, "gen.lognormal: sigma")
  if median <= 0 then
    core.raise("gen.lognormal: the median must be positive")
  end
  local clamp = bounds(opts, "gen.lognormal")
  return function(rng)
    return clamp(check_rng(rng, "gen.lognormal"):lognormal(median, sigma))
  end
end

-- The index of the first cumulative weight above a draw.
local function pick(cumulative, rng)
  local target, lo, hi = rng:unit() * cumulative[#cumulative], 1, #cumulative
  while lo < hi do
    local middle = (lo + hi) // 2
    if cumulative[middle] > target then
      hi = middle
    else
      lo = middle + 1
    end
  end
  return lo
end

--- Zipf: 1..n, rank k with weight 1 / k^s.
function gen.zipf(n, s)
  n = core.whole(n, "gen.zipf: n", 1, 10000000)
  s = not_negative(s == nil and 1 or s, "gen.zipf: s")
  local cumulative, sum = {}, 0
  for k = 1, n do
    sum = sum + make.pow(k, -s) -- not k ^ -s: the C library's pow differs between machines
    cumulative[k] = sum
  end
  return function(rng)
    return pick(cumulative, check_rng(rng, "gen.zipf"))
  end
end

--- One element of a list, by weight.
function gen.choice(list, weights)
  if type(list) ~= "table" or #list == 0 then
    core.raise("gen.choice: a list with at least one element is expected")
  end
  local cumulative, sum = {}, 0
  if weights ~= nil and (type(weights) ~= "table" or #weights ~= #list) then
    core.raise("gen.choice: as many weights as elements are expected")
  end
  for i = 1, #list do
    sum = sum + not_negative(weights and weights[i] or 1, "gen.choice: weight " .. i)
    cumulative[i] = sum
  end
  if sum <= 0 then
    core.raise("gen.choice: at least one weight must be positive")
  end
  core.number(sum, "gen.choice: the sum of the weights")
  return function(rng)
    return list[pick(cumulative, check_rng(rng, "gen.choice"))]
  end
end

return core.named(gen, "gen")
