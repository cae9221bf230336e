--- What `perigee calibrate` fits a profile from: cold prompts of spread lengths, one at a time; then answers
-- side by side, 1, 2, 4 and more, with short and with long prompts. One user, a few minutes at most, and
-- never more prompt tokens at once than `together`.
--
--   perigee run calibrate --itl --replica gpu=http://10.0.0.1:8000
--   perigee calibrate results/calibrate-… --out my-gpu.lua
--
-- Name one replica; nobody else should use it meanwhile. `longest` should be well below the model's
-- context, `together` below the tokens of its KV cache (`perigee doctor` shows both).
local perigee = require "perigee"
local completions = require "perigee.completions"
local gen = require "perigee.gen"

local rounds = perigee.param("rounds", 3, "how often everything is done")
local longest = perigee.param("longest", 8000, "tokens of the longest prompt")
local together = perigee.param("together", 24000, "prompt tokens at the same time, at most")
local batches = perigee.param("batches", 32, "answers at the same time, at most")
local answer = perigee.param("answer", 96, "tokens of each answer that is decoded")
local short = perigee.param("short", 100, "tokens of the prompts of decodes with a short context")

-- 1, 2, 4 … up to and with `most`.
local function doubled(most)
  local list, n = {}, 1
  while n < most do
    list[#list + 1] = n
    n = n * 2
  end
  list[#list + 1] = most
  return list
end

-- What the server says of its KV cache: { kv_tokens, block_size, max_model_len }, each nil where it does not.
local function server_facts(vu)
  local facts = {}
  local reply = vu:try_http { path = "/metrics" }
  local labels = reply and (reply.body or ""):match "\nvllm:cache_config_info{([^}]*)}"
  if labels then
    local size = tonumber(labels:match 'block_size="(%d+)"')
    local blocks = tonumber(labels:match 'num_gpu_blocks="(%d+)"')
    facts.block_size = size
    facts.kv_tokens = size and blocks and blocks > 1 and size * (blocks - 1) or nil -- less the null block
  end
  reply = vu:try_http { path = "/v1/models" }
  facts.max_model_len = reply and tonumber((reply.body or ""):match '"max_model_len"%s*:%s*(%d+)')
  return facts
end

local function ask(vu, tokens, max_tokens)
  local prompt = gen.text { tokens = tokens, rng = vu.rng }
  return completions.new(vu):send { prompt = prompt, max_tokens = max_tokens }
end

-- Prompts that nobody sent before, one after another, from short to long and twice as close at the top.
local function prefill(vu)
  for _, share in ipairs { 0.01, 0.06, 0.125, 0.25, 0.5, 0.75, 1 } do
    ask(vu, math.max(16, longest * share // 1), 1)
  end
end

-- The answer of so many prompts at the same time.
local function decode(vu, batch, context)
  local children = {}
  for i = 1, batch do
    children[i] = context
  end
  vu:all(children, function(child, tokens)
    ask(child, tokens, answer)
  end)
end

local function session(vu)
  for _, name in ipairs { "kv_tokens", "block_size", "max_model_len" } do
    if vu.shared[name] then
      vu:record(name, vu.shared[name])
    end
  end
  vu:tag("phase", "prefill")
  prefill(vu)
  vu:tag("phase", "decode")
  for _, context in ipairs { short, longest // 4, longest - answer } do
    for _, batch in ipairs(doubled(batches)) do
      if batch * (context + answer) <= together or batch == 1 then
        decode(vu, batch, context)
      end
    end
  end
end

return perigee.plan {
  description = "what `perigee calibrate` fits a profile from: cold prompts alone, answers side by side",
  load = perigee.closed { users = 1, sessions = rounds },
  metrics = { kv_tokens = "tokens", block_size = "tokens", max_model_len = "tokens" },
  setup = server_facts,
  session = session,
}
