-- A pretended vLLM server for the specs of `perigee doctor`: it answers the questions of
-- perigee.doctor_probe until there are none, as src/cmd/doctorask.c would hand the answers back.
local json = require "perigee.json"
local probe = require "perigee.doctor_probe"

local pretend = {}

local function body(value, more)
  local reply = { status = 200, detail = "", ms = 1, body = json.encode(json.object(value)) }
  for key, field in pairs(more or {}) do
    reply[key] = field
  end
  return reply
end

pretend.body = body

function pretend.status(n, more)
  local reply = { status = n, detail = n >= 400 and ("GET http://h/x: HTTP %d"):format(n) or "", ms = 1 }
  for key, field in pairs(more or {}) do
    reply[key] = field
  end
  return reply
end

function pretend.stream(usage, more)
  local result = { output_events = 8, done_marker = true, usage = usage, spread_ms = 80, complete = true }
  for key, field in pairs(more or {}) do
    result[key] = field
  end
  return { status = 200, detail = "", first_ms = 30, ms = 120, result = result }
end

function pretend.metrics(labels, names)
  local series = {}
  if labels then
    series[1] = { name = "vllm:cache_config_info", labels = labels, value = 1.0 }
  end
  return { status = 200, detail = "", ms = 2, type = "text/plain",
    metrics = { samples = 12, error_lines = 0, names = names or { "vllm:num_requests_running" }, series = series } }
end

local function usage_of(cached)
  return { prompt_tokens = 450, completion_tokens = 8, prompt_tokens_details = { cached_tokens = cached } }
end

--- What a healthy vLLM answers, by the question's name; replies or functions of the question.
function pretend.vllm()
  return {
    dial = { step = "ok", addresses = { "10.0.0.1" }, address = "10.0.0.1", resolve_ms = 0.2, connect_ms = 0.1 },
    health = pretend.status(200),
    models = body { object = "list", data = { { id = "m", owned_by = "vllm", max_model_len = 32768 } } },
    version = body { version = "0.20.1" },
    metrics = pretend.metrics { block_size = "16", num_gpu_blocks = "1000", enable_prefix_caching = "True" },
    tokenize = body { count = 3, tokens = { 5, 6, 7 } },
    tokenize_chat = body { count = 9, tokens = { 1, 2, 3, 4, 5, 6, 7, 8, 9 } },
    render = body { token_ids = { 1 } },
    cold = pretend.stream { prompt = 450, completion = 8 },
    detokenize = body { prompt = probe.SAMPLE },
    warm = body { choices = {}, usage = usage_of(448) },
    ids = pretend.stream({ prompt = 450, completion = 8, cached = 448 }, { token_ids_total = 8 }),
    prompt_ids = body { choices = { { text = "x", prompt_token_ids = { 5, 6, 7 } } } },
  }
end

local function answer(replies, question)
  local reply = replies[question.name]
  if type(reply) == "function" then
    return reply(question)
  end
  return reply or pretend.status(404)
end

--- Facts of servers { id =, url =, role =, metrics =, replies = }, each a healthy vLLM but for `replies`
--- (false: no answer of that name, which is a 404), examined to the end. Second: all questions by server.
function pretend.examine(servers, facts)
  facts = facts or {}
  facts.options = facts.options or {}
  facts.nonce = facts.nonce or "abc"
  facts.client = facts.client or { descriptors = 20000, descriptors_hard = 20000, kernel_stamps = true, cpus = 2,
    cpus_online = 2, versions = "perigee 0.1.0", tokenizers = {} }
  facts.endpoints, facts.sent = {}, 0
  local answers, asked = {}, {}
  for i, server in ipairs(servers) do
    answers[i], asked[i] = pretend.vllm(), {}
    for name, reply in pairs(server.replies or {}) do
      answers[i][name] = reply or nil
    end
    facts.endpoints[i] = { index = i - 1, id = server.id or "r" .. i - 1, role = server.role or "replica",
      url = server.url or "http://10.0.0.1:8000", metrics = server.metrics, replies = {} }
  end
  for round = 1, 20 do
    local questions = json.decode(probe.questions(facts))
    if #questions == 0 then
      facts.rounds = round - 1
      return facts, asked
    end
    for _, q in ipairs(questions) do
      local e = facts.endpoints[q.endpoint + 1]
      if e.replies[q.name] then
        error(("%s is asked twice"):format(q.name))
      end
      e.replies[q.name] = answer(answers[q.endpoint + 1], q)
      asked[q.endpoint + 1][q.name] = q
      facts.sent = facts.sent + 1
    end
  end
  error "the questions do not end"
end

--- The checks of that name in a list: "level: text -> fix", joined.
function pretend.said(list, name)
  local parts = {}
  for _, check in ipairs(list) do
    if check.name == name then
      parts[#parts + 1] = ("%s: %s%s"):format(check.level, check.text, check.fix and " -> " .. check.fix or "")
    end
  end
  return table.concat(parts, "\n")
end

return pretend
