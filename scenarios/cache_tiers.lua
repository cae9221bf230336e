--- What each tier gives: a question whose document is in GPU memory, CPU memory, shared storage or nowhere.
-- Ten documents of 1,792 tokens (7 chunks of 256) are brought to where `source` says, before the measurement.
-- Then one question of 48 tokens is asked about each, one after another, on one of two replicas in turn:
--
--   hbm         asked about before, on this replica: in the GPU's memory
--   offload     the same, and then about so many others that they filled it: in CPU memory (and storage)
--   shared      asked about before on the other replica: in the storage that both share
--   recompute   never asked about: nowhere
--
-- ttft is what any request takes (1.2 ms), what is left to compute (at 20,000 tokens/s) and the load. A
-- token's KV is 16 KiB in the default profile (tiny), so a document's is 29.4 MB; CPU memory gives 20 GB/s
-- after 1 us, storage 1 GB/s after 30 ms. To expect:
--
--   hbm          1.2 +  2.4               3.6 ms
--   offload      1.2 +  2.4 +  1.5        5.1 ms
--   shared       1.2 +  2.4 + 59.4       63.0 ms
--   recompute    1.2 + 92                93.2 ms
--
-- cached_ratio is 97.4 % with each of the first three: what servers count does not tell where a hit came
-- from, its time does (and `--verify`, which asks the fleet). A tier pays where its bytes come faster than
-- the GPU computes them: bytes of a token / rate of the link < 1 / prefill rate. Here storage takes 16 us a
-- token and the GPU 50. An 8B model has 128 KiB a token: storage takes 131 us, an H100 computes it in 33, and
-- a hit there costs more than none (the third call).
--
--   perigee dry cache_tiers                       the four points, in virtual time
--   perigee run cache_tiers                       on sockets: some ten seconds
--   perigee dry cache_tiers --profile llama-3.1-8b --set prefill_rate=30000 --set token_bytes=131072 \
--     --set request_time=16.75ms                  there: 18, 30, 283 and 78 ms
--   perigee dry cache_tiers --sim-set shared_device=nvme --set store_rate=7e9 --set store_latency=80us
--
-- The last expectation is the arithmetic above, within 5 % and 1 ms.
local perigee = require "perigee"
local completions = require "perigee.completions"
local gen = require "perigee.gen"
local route = require "perigee.route"

local source = perigee.param("source", "hbm", "where documents are: hbm, offload, shared or recompute")
local documents = perigee.param("documents", 10, "documents, each asked about once")
local document = perigee.param("document", 1792, "tokens of a document, whole chunks of 256")
local question = perigee.param("question", 48, "tokens of a question")
-- What the expectation counts with: the profile's.
local prefill_rate = perigee.param("prefill_rate", 20000, "prompt tokens the GPU computes in a second")
local request_time = perigee.param("request_time", 0.0012, "seconds that a request takes besides")
local token_bytes = perigee.param("token_bytes", 16384, "bytes of a token's KV")
local store_rate = perigee.param("store_rate", 1e9, "bytes/s of shared storage")
local store_latency = perigee.param("store_latency", 0.03, "seconds until its first byte")

local SOURCES = { hbm = true, offload = true, shared = true, recompute = true }
if not SOURCES[source] then
  error("source is hbm, offload, shared or recompute, not '" .. source .. "'")
end

local EACH = (documents + 1) // 2 -- of a replica
local KV = EACH * (document + question) // 16 * 16 + 256 -- tokens that a GPU holds: these, and little more

local function ask(vu, replica, seed, words)
  local client = completions.new(vu, { route = route.direct(replica) })
  return client:send { prompt = gen.text { tokens = document, seed = seed } .. words, max_tokens = 1 }
end

local function home(number)
  return number % 2 + 1
end

local function setup(vu)
  local function stage(replica, seed)
    ask(vu, replica, seed, gen.text { tokens = question, seed = seed .. "/setup" })
  end
  for i = 0, source ~= "recompute" and documents - 1 or -1 do
    stage(source == "shared" and 3 - home(i) or home(i), "document-" .. i)
  end
  for i = 0, source == "offload" and 2 * EACH + 1 or -1 do
    stage(home(i), "other-" .. i)
  end
end

local function session(vu)
  ask(vu, home(vu.session), "document-" .. vu.session, gen.text { tokens = question, rng = vu.rng })
end

-- Holds the median ttft against what the links and the GPU take.
local function as_the_links_say(results)
  local load = source == "offload" and 1e-6 + document * token_bytes / 20e9
    or source == "shared" and store_latency + document * token_bytes / store_rate or 0
  local left = question + (source == "recompute" and document or 0)
  local expected = request_time + left / prefill_rate + load
  local ttft = results.metrics.ttft.p50 or results.metrics.ttft.mean
  return math.abs(ttft - expected) <= 0.05 * expected + 0.001,
    ("ttft %.1f ms; %d tokens to compute and a load of %.1f ms: %.1f ms"):format(1e3 * ttft, left, 1e3 * load,
      1e3 * expected)
end

return perigee.sweep {
  plan = perigee.plan {
    description = "what each tier gives: a document in GPU memory, CPU memory, shared storage or nowhere",
    load = perigee.closed { users = 1, sessions = documents },
    setup = setup,
    session = session,
    expect = { "failed share < 1%", { "ttft as the links and the GPU say", as_the_links_say } },
  },
  over = {
    { "replicas", { 2 } },
    { "kv_tokens", { KV } },
    { "offload_tokens", { 4 * KV } },
    { "source", { "hbm", "offload", "shared", "recompute" } },
    { "shared_tokens", { 8 * KV } },
  },
}
