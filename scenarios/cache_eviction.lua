--- What eviction costs: a working set below, at and above the cache, asked about in turn and at random.
-- One agent asks about documents, one question after another. A question brings the whole document, 1,552
-- tokens, and 48 of its own: 1,600 tokens, 100 blocks of 16. The replica's cache holds 1,000 blocks, ten
-- documents with their questions: the working set is `documents` / 10 of it. Before the measurement each
-- document is asked about once, so none is new.
--
-- What was used longest ago is evicted first (LRU), so a document is there if what was asked since fits
-- beside it: nine others, not ten.
--
--   cyclic      in turn: `documents` - 1 others come in between: with 10 documents all are there, with 11
--               none. What is needed next is always what was just evicted
--   random      any number of others come in between, each as likely: with more than 10 documents a share of
--               10 / `documents` is there (a little less: old questions take room as well)
--
-- A hit leaves 48 of the 1,600 tokens to compute (cached_ratio 97 %), a miss all of them. At the 20,000
-- tokens/s of the default profile (tiny) these are 2.4 ms and 80 ms, and 1.2 ms for any request. To expect:
--
--   working set / cache       0.5   0.8     1   1.1   1.5     2
--   cyclic      cached         97    97    97     0     0     0 %
--               ttft          3.6   3.6   3.6    81    81    81 ms
--   random      cached         97    97    94    88    65    49 %, and what chance does
--               mean ttft     3.6   3.6     6    11    29    42 ms: of 3.6 and 81
--
-- The knee is where the working set is as large as the cache, to the document; what lies behind it is a
-- matter of the order alone. Agents that go over the same files again and again, and sessions that take
-- turns, are of the first kind: one document too many costs everything, and room for one more gives it back.
--
--   perigee dry cache_eviction                    the 12 points, in virtual time
--   perigee run cache_eviction                    on sockets: less than a minute
--   perigee dry cache_eviction --over documents=9,10,11,12 --over order=cyclic
--
-- On a server of your own: a file with `return require "cache_eviction".plan`, and `--set cache=…` (the
-- tokens it holds; `perigee doctor` says them) with `document` a tenth of it, `--set order=…`,
-- `--set documents=…`. The last expectation is the arithmetic above.
local perigee = require "perigee"
local completions = require "perigee.completions"
local gen = require "perigee.gen"

local documents = perigee.param("documents", 10, "documents that are asked about")
local order = perigee.param("order", "cyclic", "cyclic (each in turn) or random")
local document = perigee.param("document", 1552, "tokens of a document, whole blocks of 16")
local question = perigee.param("question", 48, "tokens of a question")
local cache = perigee.param("cache", 16000, "tokens of KV that the replica holds, whole blocks of 16")
local rounds = perigee.param("rounds", 5, "questions per document")

if order ~= "cyclic" and order ~= "random" then
  error("order is cyclic or random, not '" .. order .. "'")
end

local DOCUMENTS = {}
for i = 1, documents do
  DOCUMENTS[i] = gen.text { tokens = document, seed = "document-" .. i }
end

local function ask(vu, number, words)
  return completions.new(vu):send { prompt = DOCUMENTS[number] .. words, max_tokens = 1 }
end

local function setup(vu)
  for i = 1, documents do
    ask(vu, i, gen.text { tokens = question, seed = "setup-" .. i })
  end
end

local function session(vu)
  local number = order == "cyclic" and vu.session % documents + 1 or vu.rng:int(1, documents)
  vu:tag("document", number)
  ask(vu, number, gen.text { tokens = question, rng = vu.rng })
end

-- Holds the share of documents that were there against what LRU leaves, with what chance does at random.
local function as_lru_says(results)
  local fit = cache // (document + question)
  local share = documents <= fit and 1 or order == "random" and fit / documents or 0
  local reached = results.metrics.cached_ratio.mean * (document + question) / document
  local old_questions = order == "random" and 2 * question / document or 0
  local off = 3 * math.sqrt(share * (1 - share) / (rounds * documents)) + old_questions + 0.005
  return math.abs(reached - share) <= off,
    ("%.1f %% were there; LRU with room for %d of %d, %s: %.1f ± %.1f %%"):format(100 * reached, fit,
      documents, order, 100 * share, 100 * off)
end

return perigee.sweep {
  plan = perigee.plan {
    description = "what eviction costs: working sets below, at and above the cache",
    load = perigee.closed { users = 1, sessions = rounds * documents },
    setup = setup,
    session = session,
    expect = { "failed share < 1%", { "the share that LRU leaves", as_lru_says } },
  },
  over = {
    { "replicas", { 1 } },
    { "kv_blocks", { cache // 16 } },
    { "order", { "cyclic", "random" } },
    { "documents", { 5, 8, 10, 11, 15, 20 } },
  },
}
