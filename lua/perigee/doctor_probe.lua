-- What `perigee doctor` asks of servers: from what is known so far to the next round of questions.
-- Plain functions of the facts that src/cmd/doctor.c keeps (its form: src/cmd/doctorask.h), so a
-- server can be pretended in a test. What the answers mean is perigee.doctor_checks' business.
local json = require "perigee.json"

local probe = {}

local GET_MS, TEXT_MS, CHAT_MS, DIAL_MS = 5000, 10000, 30000, 5000
local MAX_BODY, MAX_METRICS = 1048576, 16777216
local WORDS, MOST_WORDS = 400, 8000 -- of the prompt: some 450 tokens, 28 blocks of 16
local OUTPUT_TOKENS = 8

-- Series that are wanted whole.
local SERIES = {
  "vllm:cache_config_info", "sglang:cache_config_info", "dynamo_frontend_model_kv_cache_block_size",
  "dynamo_frontend_model_total_kv_blocks",
}

--- The reply to a question that was asked, else nil.
function probe.reply(e, name)
  local reply = e.replies[name]
  return type(reply) == "table" and reply or nil
end

local reply = probe.reply

local memo = setmetatable({}, { __mode = "k" })

--- The JSON object of a reply with status 200, else nil.
function probe.object(e, name)
  local r = reply(e, name)
  if not r or r.status ~= 200 or type(r.body) ~= "string" then
    return nil
  end
  if memo[r] == nil then
    local value = json.decode(r.body)
    memo[r] = type(value) == "table" and value or false
  end
  return memo[r] or nil
end

local function is_text(x)
  return type(x) == "string" and x ~= ""
end

-- A number of tokens or blocks, which is whole and above 0; nil for what is none.
local function size(x)
  local n = math.tointeger(tonumber(x))
  return n and n > 0 and n or nil
end

--- What /v1/models lists: { id, max_model_len, owned_by, parent, simulated }.
function probe.models(e)
  local list, data = {}, (probe.object(e, "models") or {}).data
  for _, m in ipairs(type(data) == "table" and data or {}) do
    if type(m) == "table" and is_text(m.id) then
      list[#list + 1] = { id = m.id, simulated = m.simulated == true,
        face = is_text(m.face) and m.face or nil, parent = is_text(m.parent) and m.parent
        or nil,
        owned_by = is_text(m.owned_by) and m.owned_by or nil,
        max_model_len = size(m.max_model_len),
        odd_len = m.max_model_len ~= json.null and not size(m.max_model_len) and m.max_model_len or nil }
    end
  end
  return list
end

--- The model to ask this server for: the one that was named, else its own first that is no adapter.
function probe.model(facts, e)
  local list = probe.models(e)
  if facts.model then
    return facts.model
  end
  for _, m in ipairs(list) do
    if not m.parent then
      return m.id
    end
  end
  return list[1] and list[1].id
end

--- That model's max_model_len, when it is known.
function probe.max_model_len(facts, e)
  local name = probe.model(facts, e)
  for _, m in ipairs(probe.models(e)) do
    if m.id == name then
      return m.max_model_len
    end
  end
end

-- { name, what its models are owned by, prefixes of its metrics }, the more particular first.
local KINDS = {
  { "dynamo", "Dynamo", { nvidia = true }, { "dynamo_" } },
  { "vllm", "vLLM", { vllm = true }, { "vllm:" } },
  { "sglang", "SGLang", { sglang = true }, { "sglang:", "sglang_" } },
  { "trtllm", "TensorRT-LLM", { tensorrt_llm = true }, { "trtllm_" } },
  { "llamacpp", "llama.cpp", { llamacpp = true }, { "llamacpp:" } },
  { "tgi", "TGI", {}, { "tgi_" } },
  { "ollama", "Ollama", { library = true }, {} },
  { "llm-d", "llm-d's endpoint picker", {}, { "llm_d_epp_", "inference_extension_", "inference_pool_" } },
  { "ranvier", "Ranvier", {}, { "ranvier_" } },
}

local function has_metric(names, prefixes)
  for _, name in ipairs(names) do
    for _, prefix in ipairs(prefixes) do
      if name:sub(1, #prefix) == prefix then
        return true
      end
    end
  end
  return false
end

--- A short name ("vllm", "sim", nil when it is not recognised) and one for people.
function probe.kind(e)
  local models = probe.models(e)
  local metrics = (reply(e, "metrics") or {}).metrics
  local names = metrics and metrics.names or {}
  if models[1] and models[1].simulated then
    return "sim", ("perigee sim (simulated; it speaks as %s does)"):format(models[1].face or "vLLM")
  end
  for _, kind in ipairs(KINDS) do
    if has_metric(names, kind[4]) then
      return kind[1], kind[2]
    end
  end
  for _, kind in ipairs(KINDS) do
    if models[1] and models[1].owned_by and kind[3][models[1].owned_by] then
      return kind[1], kind[2]
    end
  end
  local server = (reply(e, "models") or {}).server
  if server and server:lower():find("llama.cpp", 1, true) then
    return "llamacpp", "llama.cpp"
  end
end

--- What metrics say of the KV cache: { block_size, blocks, prefix_caching, source }, or nil. Of several
--- engines (data parallel ranks) the first; `differ` when they do not agree.
function probe.cache_config(e)
  local metrics = (reply(e, "metrics") or {}).metrics
  local found = nil
  for _, s in ipairs(metrics and metrics.series or {}) do
    local c = nil
    if s.name == "vllm:cache_config_info" then
      local caching = ({ True = true, ["true"] = true, False = false,
        ["false"] = false })[s.labels.enable_prefix_caching]
      c = { block_size = size(s.labels.block_size), blocks = size(s.labels.num_gpu_blocks),
        prefix_caching = caching, source = s.name, said = s.labels.block_size }
    elseif s.name == "sglang:cache_config_info" then
      c = { block_size = size(s.labels.page_size), blocks = size(s.labels.num_pages), source = s.name,
        said = s.labels.page_size }
    elseif s.name == "dynamo_frontend_model_kv_cache_block_size" then
      c = { block_size = size(s.value), source = s.name, said = s.value }
    elseif found and s.name == "dynamo_frontend_model_total_kv_blocks" then
      found.blocks = found.blocks or size(s.value)
    end
    if c and not found then
      found = c
    elseif c and (c.block_size ~= found.block_size or c.prefix_caching ~= found.prefix_caching) then
      found.differ = true
    end
  end
  return found
end

--- Blocks that prompts can use: vLLM keeps the first of its pool for itself (the null block).
function probe.usable_blocks(cache)
  if cache and cache.blocks then
    return tostring(cache.source):find("vllm", 1, true) and cache.blocks - 1 or cache.blocks
  end
end

-- ---- the prompt ----

local VOCABULARY = {}
for word in ([[time year people way day man thing woman life child world school state family student group
  country problem hand part place case week company system program question work government number night
  point home water room mother area money story fact month lot right study book eye job word business issue
  side kind head house service friend father power hour game line end member law car city community]])
  :gmatch "%S+" do
  VOCABULARY[#VOCABULARY + 1] = word
end

--- A text of n words that no server has seen before (facts.nonce stands in front), the same for all
--- replicas: they are held against each other. A gateway gets its own, since it shares their caches.
function probe.prompt(facts, e, n)
  local parts, x = { ("Note %s%s."):format(facts.nonce, e.role == "gateway" and " of the gateway" or "") }, 7
  for i = 1, n do
    x = (x * 1103515245 + 12345) % 2147483648
    parts[i + 1] = VOCABULARY[(x >> 8) % #VOCABULARY + 1]
  end
  parts[#parts + 1] = "In one word: what is this about?"
  return table.concat(parts, " ")
end

--- Words of the prompt: three blocks at least, and not beyond the model's context when a word is
--- twelve tokens.
function probe.words(facts, e)
  local cache, most = probe.cache_config(e), probe.max_model_len(facts, e)
  local n = math.max(WORDS, cache and cache.block_size and 3 * cache.block_size or 0)
  return math.max(8, math.min(n, MOST_WORDS, most and (most - 64) // 12 or n))
end

-- ---- questions ----

local function question(e, name, method, path, more)
  local q = { endpoint = e.index, name = name, kind = "http", url = e.url, method = method, path = path,
    timeout_ms = GET_MS, max_bytes = MAX_BODY, read = "body" }
  for key, value in pairs(more or {}) do
    q[key] = value
  end
  return json.object(q)
end

local function post(e, name, path, body, more)
  local q = question(e, name, "POST", path, more)
  q.body = json.encode(json.object(body))
  q.timeout_ms = more and more.timeout_ms or TEXT_MS
  return q
end

local function first_answers(e)
  local url, path = e.url, "/metrics"
  if e.metrics then
    url, path = e.metrics:match "^(%a+://[^/]+)(.*)$"
    path = path ~= "" and path or "/"
  end
  return {
    question(e, "health", "GET", "/health"),
    question(e, "models", "GET", "/v1/models"),
    question(e, "version", "GET", "/version"),
    question(e, "metrics", "GET", path, { url = url, read = "prom", wanted = SERIES,
      max_bytes = MAX_METRICS }),
  }
end

-- A short text with what tokenizers differ in.
probe.SAMPLE = "Hello, world! 3.14159  naïve café — 東京 🙂\n"

local function text_questions(facts, e)
  local model = probe.model(facts, e)
  local messages = json.array { json.object { role = "user", content = probe.SAMPLE } }
  local list = {
    post(e, "tokenize", "/tokenize", { model = model, prompt = probe.SAMPLE, add_special_tokens = false,
      content = probe.SAMPLE }), -- `content` is llama.cpp's name for it
    post(e, "tokenize_chat", "/tokenize", { model = model, messages = messages }),
    post(e, "render", "/v1/chat/completions/render", { model = model, messages = messages, max_tokens = 1 }),
  }
  local kind = probe.kind(e)
  if kind == "sglang" then
    list[#list + 1] = question(e, "server_info", "GET", "/get_server_info")
  elseif kind == "llamacpp" then
    list[#list + 1] = question(e, "props", "GET", "/props")
  elseif kind == "tgi" then
    list[#list + 1] = question(e, "info", "GET", "/info")
  end
  return list
end

--- The ids of the sample, as /tokenize gave them, or nil.
function probe.sample_ids(e)
  local tokens = (probe.object(e, "tokenize") or {}).tokens
  if type(tokens) ~= "table" or #tokens == 0 or #tokens > 4096 then
    return nil
  end
  for _, id in ipairs(tokens) do
    if math.type(id) ~= "integer" or id < 0 then
      return nil
    end
  end
  return tokens
end

local function generate(facts, e, name, fields, more)
  local text = probe.prompt(facts, e, probe.words(facts, e))
  local body = { model = probe.model(facts, e), max_tokens = OUTPUT_TOKENS, temperature = 0 }
  local plain = e.replies.cold_text ~= nil or name == "cold_text"
  if plain then
    body.prompt = text
  else
    body.messages = json.array { json.object { role = "user", content = text } }
  end
  for key, value in pairs(fields) do
    body[key] = value
  end
  local options = { timeout_ms = CHAT_MS, api = plain and "completions" or "chat" }
  for key, value in pairs(more or {}) do
    options[key] = value
  end
  return post(e, name, plain and "/v1/completions" or "/v1/chat/completions", body, options)
end

local STREAM = { stream = true, stream_options = json.object { include_usage = true } }

local function cold_questions(facts, e)
  local list, ids = { generate(facts, e, "cold", STREAM, { read = "stream" }) }, probe.sample_ids(e)
  if ids then
    list[2] = post(e, "detokenize", "/detokenize", { model = probe.model(facts, e),
      tokens = json.array(ids) })
  end
  return list
end

--- The first streamed request that worked: of chat, else of plain text; and its name.
function probe.stream(e)
  for _, name in ipairs { "cold", "cold_text" } do
    local r = reply(e, name)
    if r and r.status == 200 and not r.error then
      return r, name
    end
  end
end

-- Whether the server knows the question and refuses this one (a model without a chat template).
local function refuses_chat(r)
  return r and (r.status == 400 or r.status == 404 or r.status == 405 or r.status == 422 or r.status == 501)
end

local function last_questions(facts, e)
  local ids = probe.sample_ids(e)
  local fields = { return_token_ids = true }
  for key, value in pairs(STREAM) do
    fields[key] = value
  end
  local list = { generate(facts, e, "ids", fields, { read = "stream" }) }
  if ids then
    list[2] = post(e, "prompt_ids", "/v1/completions", { model = probe.model(facts, e),
      prompt = json.array(ids),
      max_tokens = 1, temperature = 0, return_token_ids = true }, { timeout_ms = CHAT_MS })
  end
  return list
end

--- Whether anything answered as an HTTP server does.
function probe.answers(e)
  for _, name in ipairs { "models", "health", "version" } do
    if (reply(e, name) or {}).status ~= 0 and reply(e, name) then
      return true
    end
  end
  return false
end

-- No TLS came back: is it plain HTTP? Asked without a key.
local function not_reached(e, r)
  local rest = e.url:match "^https://(.*)$"
  if r.plain or r.dial.step ~= "tls" or r.dial.code == "verify" or r.dial.code == "not_tls" or not rest then
    return {}
  end
  return { question(e, "plain", "GET", "/health", { url = "http://" .. rest, bare = true }) }
end

-- What one server is asked next; nothing: it is done.
local function next_questions(facts, e)
  local r = e.replies
  if not r.dial and not facts.options.proxy then
    return { { endpoint = e.index, name = "dial", kind = "dial", url = e.url, timeout_ms = DIAL_MS } }
  elseif r.dial and r.dial.step ~= "ok" then
    return not_reached(e, r)
  elseif not r.models then
    return first_answers(e)
  elseif not probe.answers(e) then
    local other = e.url:match "^http://(.*)$"
    if r.dial and other and not r.tls_dial then -- does it speak TLS there?
      return { { endpoint = e.index, name = "tls_dial", kind = "dial", url = "https://" .. other,
        timeout_ms = DIAL_MS } }
    end
    return {}
  elseif not probe.model(facts, e) then
    return {}
  elseif not r.tokenize then
    return text_questions(facts, e)
  elseif not r.cold then
    return cold_questions(facts, e)
  elseif refuses_chat(r.cold) and not r.cold_text then
    return { generate(facts, e, "cold_text", STREAM, { read = "stream" }) }
  elseif probe.stream(e) and not r.warm then
    return { generate(facts, e, "warm", {}) }
  elseif probe.stream(e) and not r.ids then
    return last_questions(facts, e)
  end
  return {}
end

--- The next round for all servers, as the JSON list that src/cmd/doctorask.h describes.
function probe.questions(facts)
  local list = json.array {}
  for _, e in ipairs(facts.endpoints) do
    for _, q in ipairs(next_questions(facts, e)) do
      list[#list + 1] = q
    end
  end
  return json.encode(list)
end

--- What token parity is asked with, as JSON: { model, servers (ids) }; "null" when there is nobody to ask.
function probe.parity(facts)
  local model, servers = nil, json.array {}
  for _, e in ipairs(facts.endpoints) do
    local own = probe.answers(e) and probe.model(facts, e)
    model = model or own
    if own and own == model then
      servers[#servers + 1] = e.id
    end
  end
  return json.encode(model and json.object { model = model, servers = servers } or json.null)
end

return probe
