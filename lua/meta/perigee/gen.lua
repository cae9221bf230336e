---@meta perigee.gen

--- Generated text of exactly so many tokens, and distributions. What is drawn is drawn when the script
--- asks; the bytes are made later, at first use.
---@class perigee.gen
local gen = {}

---@class perigee.TextOptions
---@field tokens number|perigee.Distribution rounded, at least 1
---@field seed? string|integer names the text: the same bytes in every session, run and machine
---@field rng? perigee.Rng draws the text; `seed` or `rng` must be there

--- Text of exactly n tokens for the run's tokenizer, counted alone (`--tokenizer`; bytes on the built-in fleet;
--- 4 bytes a token where the target's is not known). It reads like words and ends in no space. Joined with
--- other text it may be a token more or less, where the tokenizer's pieces meet.
---@param opts perigee.TextOptions
---@return perigee.Text
function gen.text(opts) end

---@class perigee.WordsOptions
---@field words number|perigee.Distribution rounded, at least 1
---@field seed? string|integer
---@field rng? perigee.Rng `seed` or `rng` must be there

--- Text of exactly n words in lower case.
---@param opts perigee.WordsOptions
---@return perigee.Text
function gen.words(opts) end

---@class perigee.CorpusOptions
---@field documents integer how many
---@field tokens number|perigee.Distribution of each
---@field seed string names the corpus

--- A list of texts, the same everywhere: documents to choose from.
---@param opts perigee.CorpusOptions
---@return perigee.Text[]
function gen.corpus(opts) end

--- A text handle over a string's bytes.
---@param text perigee.TextLike
---@return perigee.Text
function gen.from(text) end

--- Texts joined into one.
---@param texts perigee.TextLike[]
---@param separator? perigee.TextLike
---@return perigee.Text
function gen.join(texts, separator) end

--- Tokens of a text.
---@param text perigee.TextLike
---@return integer tokens
---@return boolean exact false when the tokenizer is not known and 4 bytes a token were assumed
function gen.count(text) end

--- A generator named by a seed, for the top level of a script and for tests; in a session there is `vu.rng`.
---@param seed string|integer
---@return perigee.Rng
function gen.rng(seed) end

--- The number that a number, a quantity or a distribution stands for.
---@param value perigee.Quantity|perigee.Distribution
---@param rng? perigee.Rng needed for a distribution
---@return number
function gen.draw(value, rng) end

---@class perigee.Bounds
---@field min? perigee.Quantity draws below become this
---@field max? perigee.Quantity draws above become this

--- Always the same value.
---@param value perigee.Quantity
---@return perigee.Distribution
function gen.fixed(value) end

--- Uniform in [lo, hi).
---@param lo perigee.Quantity
---@param hi perigee.Quantity
---@return perigee.Distribution
function gen.uniform(lo, hi) end

--- Exponential: waiting times.
---@param mean perigee.Quantity
---@param bounds? perigee.Bounds
---@return perigee.Distribution
function gen.exp(mean, bounds) end

--- Normal.
---@param mean perigee.Quantity
---@param sd perigee.Quantity
---@param bounds? perigee.Bounds
---@return perigee.Distribution
function gen.normal(mean, sd, bounds) end

--- Log-normal by its median and the spread of the logarithm: sizes and service times with a long tail.
---@param median perigee.Quantity
---@param sigma number
---@param bounds? perigee.Bounds
---@return perigee.Distribution
function gen.lognormal(median, sigma, bounds) end

--- Ranks 1..n, rank k with weight 1 / k^s: popularity.
---@param n integer
---@param s? number default 1
---@return fun(rng: perigee.Rng): integer
function gen.zipf(n, s) end

--- One element of a list, by weight.
---@generic T
---@param list T[]
---@param weights? number[] default: all alike
---@return fun(rng: perigee.Rng): T
function gen.choice(list, weights) end

return gen
