-- perigee.doctor_probe: what is asked next.
local json = require "perigee.json"
local pretend = require "doctor_server"
local probe = require "perigee.doctor_probe"

local function names(asked)
  local list = {}
  for name in pairs(asked) do
    list[#list + 1] = name
  end
  table.sort(list)
  return table.concat(list, " ")
end

describe("doctor_probe.questions", function()
  it("asks a healthy server everything once, in six rounds", function()
    local facts, asked = pretend.examine { {} }
    expect(names(asked[1])):eq("cold detokenize dial health ids metrics models prompt_ids render tokenize "
      .. "tokenize_chat version warm")
    expect(facts.rounds):eq(6)
    local cold, warm, ids = asked[1].cold, asked[1].warm, asked[1].ids
    expect(cold.read):eq "stream"
    expect(cold.api):eq "chat"
    local a, b, c = json.decode(cold.body), json.decode(warm.body), json.decode(ids.body)
    expect(a.messages):eq(b.messages)
    expect(a.messages):eq(c.messages)
    expect(a.stream_options.include_usage):eq(true)
    expect(b.stream):is_nil()
    expect(c.return_token_ids):eq(true)
    expect(a.model):eq "m"
    expect(json.decode(asked[1].prompt_ids.body).prompt):eq(json.decode "[5,6,7]")
  end)

  it("stops at a server that cannot be reached", function()
    local _, asked = pretend.examine { { replies = { dial = { step = "connect", code = "refused", reason = "no" } } } }
    expect(names(asked[1])):eq "dial"
  end)

  it("tries TLS where http:// is not answered, and asks no more", function()
    local none = pretend.status(0)
    local _, asked = pretend.examine { { replies = { health = none, models = none, version = none, metrics = none } } }
    expect(names(asked[1])):eq "dial health metrics models tls_dial version"
    expect(asked[1].tls_dial.url):eq "https://10.0.0.1:8000"
    _, asked = pretend.examine { { url = "https://h", replies = { health = none, models = none, version = none } } }
    expect(asked[1].tls_dial):is_nil()
  end)

  it("tries plain HTTP, without a key, where no TLS came back", function()
    local function asked(step, code, plain)
      local dial = { step = step, code = code, reason = "" }
      return select(2, pretend.examine { { url = "https://h:1", replies = { dial = dial, plain = plain } } })[1]
    end
    local q = asked("tls", "timeout", pretend.status(400)).plain
    expect(q.url .. q.path):eq "http://h:1/health"
    expect(q.bare):eq(true)
    expect(asked("tls", "closed").plain):truthy()
    expect(names(asked("tls", "verify"))):eq "dial"
    expect(names(asked("tls", "not_tls"))):eq "dial"
    expect(names(asked("connect", "timeout"))):eq "dial"
  end)

  it("does not dial through a proxy", function()
    local _, asked = pretend.examine({ {} }, { options = { proxy = "p:1" } })
    expect(asked[1].dial):is_nil()
    expect(asked[1].warm):truthy()
  end)

  it("asks for completions where chat is refused", function()
    local facts, asked = pretend.examine { { replies = { cold = pretend.status(400),
      cold_text = pretend.vllm().cold } } }
    expect(asked[1].warm.path):eq "/v1/completions"
    expect(json.decode(asked[1].ids.body).prompt):contains "Note abc."
    expect(select(2, probe.stream(facts.endpoints[1]))):eq "cold_text"
  end)

  it("asks for no answer twice when generation fails altogether", function()
    for _, status in ipairs { 0, 401, 404, 429, 500 } do
      local _, asked = pretend.examine { { replies = { cold = pretend.status(status) } } }
      expect(asked[1].warm):is_nil()
      expect(asked[1].cold_text ~= nil):eq(status == 404)
    end
  end)

  it("needs a model's name", function()
    local empty = { models = pretend.body { data = json.array {} } }
    local _, asked = pretend.examine { { replies = empty } }
    expect(asked[1].tokenize):is_nil()
    _, asked = pretend.examine({ { replies = empty } }, { model = "given" })
    expect(json.decode(asked[1].cold.body).model):eq "given"
  end)

  it("asks for metrics where they are said to be", function()
    local _, asked = pretend.examine { { metrics = "http://10.0.0.9:9090/some/metrics" } }
    expect(asked[1].metrics.url):eq "http://10.0.0.9:9090"
    expect(asked[1].metrics.path):eq "/some/metrics"
    _, asked = pretend.examine { { metrics = "http://10.0.0.9:9090" } }
    expect(asked[1].metrics.path):eq "/"
    _, asked = pretend.examine { {} }
    expect(asked[1].metrics.path):eq "/metrics"
  end)

  it("asks each kind of server what only it has", function()
    local function owned(by, more)
      local replies = { models = pretend.body { data = { { id = "m", owned_by = by } } },
        metrics = pretend.status(404) }
      for key, value in pairs(more or {}) do
        replies[key] = value
      end
      return select(2, pretend.examine { { replies = replies } })[1]
    end
    expect(owned("sglang").server_info.path):eq "/get_server_info"
    expect(owned("llamacpp").props.path):eq "/props"
    expect(owned("vllm").server_info):is_nil()
    local tgi = owned("m", { metrics = pretend.metrics(nil, { "tgi_request_count" }) })
    expect(tgi.info.path):eq "/info"
  end)
end)

describe("doctor_probe.kind", function()
  local function kind(data, names_, server)
    local facts = pretend.examine { { replies = { models = pretend.body({ data = { data } }, { server = server }),
      metrics = names_ and pretend.metrics(nil, names_) or pretend.status(404) } } }
    return (probe.kind(facts.endpoints[1]))
  end

  it("goes by metrics, then by who owns the models, then by the header", function()
    expect(kind({ id = "m", owned_by = "vllm" })):eq "vllm"
    expect(kind({ id = "m", owned_by = "vllm" }, { "dynamo_frontend_requests_total" })):eq "dynamo"
    expect(kind({ id = "m" }, { "up", "sglang:num_running_reqs" })):eq "sglang"
    expect(kind({ id = "m", owned_by = "library" })):eq "ollama"
    expect(kind({ id = "m" }, nil, "llama.cpp")):eq "llamacpp"
    expect(kind({ id = "m", owned_by = "vllm", simulated = true })):eq "sim"
    expect(kind({ id = "m", owned_by = "me" })):is_nil()
  end)
end)

describe("doctor_probe.models", function()
  local function models(text)
    local facts = pretend.examine { { replies = { models = { status = 200, detail = "", body = text } } } }
    return probe.models(facts.endpoints[1]), facts
  end

  it("reads what makes sense, and nothing else", function()
    for _, text in ipairs { "", "x", "[]", "{}", "null", "3", '{"data":3}', '{"data":{"id":"x"}}',
      '{"data":[null,3,"a",{"id":3},{"id":""},{"id":null}]}', ("["):rep(300) } do
      expect(#models(text)):eq(0)
    end
    local list = models '{"data":[{"id":"a","max_model_len":"x","parent":null},{"id":"b","parent":"a"}]}'
    expect(#list):eq(2)
    expect(list[1].max_model_len):is_nil()
    expect(list[2].parent):eq "a"
  end)

  it("takes the base model before its adapters", function()
    local _, facts = models '{"data":[{"id":"lora","parent":"base"},{"id":"base","max_model_len":9}]}'
    expect(probe.model(facts, facts.endpoints[1])):eq "base"
    expect(probe.max_model_len(facts, facts.endpoints[1])):eq(9)
  end)
end)

describe("doctor_probe.cache_config", function()
  local function config(series)
    local metrics = pretend.metrics()
    metrics.metrics.series = series
    return probe.cache_config(pretend.examine { { replies = { metrics = metrics } } }.endpoints[1])
  end

  it("reads vLLM's, SGLang's and Dynamo's", function()
    local c = config { { name = "vllm:cache_config_info", value = 1.0,
      labels = { block_size = "32", num_gpu_blocks = "77", enable_prefix_caching = "False" } } }
    expect(c.block_size):eq(32)
    expect(c.blocks):eq(77)
    expect(c.prefix_caching):eq(false)
    c = config { { name = "sglang:cache_config_info", value = 1.0, labels = { page_size = "1", num_pages = "900" } } }
    expect(c.block_size):eq(1)
    expect(c.blocks):eq(900)
    c = config { { name = "dynamo_frontend_model_kv_cache_block_size", value = 64.0, labels = {} },
      { name = "dynamo_frontend_model_total_kv_blocks", value = 5.0, labels = {} } }
    expect(c.block_size):eq(64)
    expect(c.blocks):eq(5)
    expect(config {}):is_nil()
  end)

  it("tells engines that do not agree, and labels that are none", function()
    local function engine(size)
      return { name = "vllm:cache_config_info", value = 1.0, labels = { block_size = size } }
    end
    expect(config { engine "16", engine "16" }.differ):is_nil()
    expect(config { engine "16", engine "32" }.differ):eq(true)
    expect(config { engine "many" }.block_size):is_nil()
    expect(config { { name = "vllm:cache_config_info", value = 1.0, labels = {} } }.block_size):is_nil()
  end)
end)

describe("doctor_probe.prompt", function()
  local replica, gateway = { role = "replica", replies = {} }, { role = "gateway", replies = {} }

  it("is the same for replicas, another for a gateway and for another nonce", function()
    local a = probe.prompt({ nonce = "a" }, replica, 50)
    expect(probe.prompt({ nonce = "a" }, replica, 50)):eq(a)
    expect(probe.prompt({ nonce = "b" }, replica, 50)):ne(a)
    expect(probe.prompt({ nonce = "a" }, gateway, 50)):ne(a)
    expect(select(2, a:gsub("%S+", ""))):eq(50 + 2 + 7)
  end)

  it("fits the model's context and covers three blocks", function()
    local function words(len, block)
      local e = { role = "replica", replies = {
        models = pretend.body { data = { { id = "m", max_model_len = len } } },
        metrics = block and pretend.metrics { block_size = tostring(block) } or nil } }
      return probe.words({}, e)
    end
    expect(words(32768)):eq(400)
    expect(words(1024)):eq(80)
    expect(words(10)):eq(8)
    expect(words(100000, 784)):eq(2352)
    expect(words(10000000, 1000000)):eq(8000)
  end)
end)

describe("doctor_probe.sample_ids", function()
  it("takes whole numbers only", function()
    local function ids(tokens)
      return probe.sample_ids { replies = { tokenize = pretend.body { tokens = tokens } } }
    end
    expect(#ids { 1, 2 }):eq(2)
    expect(ids { 1, "2" }):is_nil()
    expect(ids { 1.5 }):is_nil()
    expect(ids(json.array {})):is_nil()
    expect(ids "text"):is_nil()
    expect(probe.sample_ids { replies = {} }):is_nil()
  end)
end)

describe("doctor_probe.parity", function()
  it("names the model and the servers that have it", function()
    local facts = pretend.examine { {}, { replies = { dial = { step = "connect", code = "refused", reason = "" } } },
      { replies = { models = pretend.body { data = { { id = "other" } } } } } }
    local p = json.decode(probe.parity(facts))
    expect(p.model):eq "m"
    expect(p.servers):eq(json.decode '["r0"]')
    facts = pretend.examine { { replies = { dial = { step = "resolve", code = "name", reason = "" } } } }
    expect(probe.parity(facts)):eq "null"
  end)
end)
