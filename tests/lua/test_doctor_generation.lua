-- perigee.doctor_generation: streams, usage, cached tokens, ids, parity.
local checks = require "perigee.doctor_checks"
local generation = require "perigee.doctor_generation"
local json = require "perigee.json"
local pretend = require "doctor_server"

local function server(replies, more, facts)
  local s = { replies = replies }
  for key, value in pairs(more or {}) do
    s[key] = value
  end
  local examined = pretend.examine({ s }, facts)
  return checks.server_checks(examined, examined.endpoints[1]), examined.endpoints[1]
end

local said = pretend.said

local function usage(cached, prompt)
  return pretend.body { choices = {}, usage = { prompt_tokens = prompt or 450, completion_tokens = 8,
    prompt_tokens_details = cached } }
end

-- A server whose streams never speak of cached tokens.
local function quiet(warm, more)
  local replies = { warm = warm, ids = pretend.stream { prompt = 450, completion = 8 } }
  for key, value in pairs(more or {}) do
    replies[key] = value
  end
  return replies
end

describe("doctor_generation.stream", function()
  local function stream(cold, more)
    local replies = { cold = cold }
    for key, value in pairs(more or {}) do
      replies[key] = value
    end
    return said(server(replies), "stream")
  end

  it("tells how it went", function()
    expect(stream()):eq "ok: 8 output events, the first after 30.0 ms, [DONE] at the end"
  end)

  it("fails with the class's own way out", function()
    local broken = pretend.stream()
    broken.error, broken.detail = "not_sse", "an event stream was expected"
    expect(stream(broken)):matches "^FAIL: chat completions: an event stream was expected %-> does a gateway"
    expect(stream(pretend.status(401))):contains "--api-key-env"
    expect(stream(pretend.status(500))):matches "^FAIL"
    expect(stream({ status = 0, error = "timeout_total", detail = "no answer in 30 s" })):contains "overloaded"
    expect(stream(pretend.status(404), { cold_text = false })):contains "is the model's name right"
  end)

  it("warns when only plain completions work", function()
    local text = stream(pretend.status(400), { cold_text = pretend.vllm().cold })
    expect(text):contains "--chat-template"
    expect(text):contains "ok: 8 output events"
  end)

  it("warns when events come together", function()
    expect(stream(pretend.stream({ prompt = 450, completion = 8 }, { output_events = 1 })))
      :matches "^warn: all 8 tokens came in one event"
    local function held(ms)
      return pretend.stream({ prompt = 450, completion = 8, cached = 448 }, { spread_ms = ms })
    end
    expect(stream(held(0.5), { ids = held(0.5) })):matches "^warn: .*they were held back %-> does a proxy buffer"
    expect(stream(held(0.5))):matches "^ok" -- that was this machine
    expect(stream(held(40), { ids = held(0.5) })):matches "^ok"
  end)
end)

local function cached_line(replies)
  return said(server(replies), "cached")
end

describe("doctor_generation.usage", function()
  it("says whether include_usage is honoured", function()
    expect(said(server(), "usage")):eq(
      "ok: stream_options.include_usage is honoured: 450 prompt, 8 output tokens")
    expect(said(server { cold = pretend.stream() }, "usage")):matches "^warn: stream_options.include_usage is not"
    expect(said(server { warm = pretend.body { choices = {} } }, "usage")):contains "no usage in the reply"
    expect(said(server { warm = pretend.status(500) }, "usage")):contains "without streaming: HTTP 500"
  end)

  it("takes no number that cannot be one", function()
    for _, prompt in ipairs { -5, "450", 1e300, 450.5 } do
      expect(said(server { warm = usage({}, prompt) }, "usage"))
        :contains "warn: without streaming: usage.prompt_tokens is no count of tokens"
    end
    expect(said(server { cold = pretend.stream { prompt = 450 } }, "usage"))
      :contains "warn: stream_options.include_usage is honoured, but its numbers are no counts of tokens"
    expect(cached_line(quiet(usage { cached_tokens = -5 })))
      :contains "prompt_tokens_details.cached_tokens is no count of tokens"
  end)

  it("sees a prompt that changes under way", function()
    expect(said(server { warm = usage({ cached_tokens = 448 }, 460) }, "usage"))
      :contains "warn: the same prompt had 450 tokens, then 460"
  end)
end)

describe("doctor_generation.cached", function()
  local function cached(replies, more)
    return said(server(replies, more), "cached")
  end

  local function state(replies)
    local _, e = server(replies)
    return generation.cached_state(e)
  end

  it("tells value, zero, null and absent apart", function()
    expect(state()):eq "value"
    expect(select(2, state())):eq(448)
    expect(state(quiet(usage { cached_tokens = 0 }))):eq "zero"
    expect(state(quiet(usage(json.null)))):eq "null"
    expect(state(quiet(usage(nil)))):eq "absent"
    expect(state(quiet(usage {}))):eq "absent"
    expect(state(quiet(usage { cached_tokens = json.null }))):eq "absent"
    expect(state(quiet(usage { cached_tokens = "9" }))):eq "absent"
    expect(state { cold = pretend.status(500) }):is_nil()
    expect(state { warm = pretend.status(500) }):eq "value" -- the stream said it
  end)

  it("says what it means, and how to have it reported", function()
    expect(cached()):eq("ok: 448 of 450 prompt tokens for a repeated prompt (whole blocks: 448); "
      .. "absent on a miss (runs count that as an inferred zero)")
    expect(cached(quiet(usage(json.null)))):matches
      "^warn: prompt_tokens_details is null.*%-> start vLLM with %-%-enable%-prompt%-tokens%-details$"
    local sglang = { models = pretend.body { data = { { id = "m", owned_by = "sglang" } } }, metrics = false }
    expect(cached(quiet(usage(nil), sglang))):contains "--enable-cache-report"
    local other = { models = pretend.body { data = { { id = "m" } } }, metrics = false }
    expect(cached(quiet(usage(nil), other))):contains "a gateway may drop it"
  end)

  it("says why nothing may have been reused", function()
    local zero = usage { cached_tokens = 0 }
    expect(cached(quiet(zero))):matches "^warn: 0 of 450 prompt tokens .*%-> prefix caching is on: is the cache too"
    expect(cached(quiet(zero, { metrics = pretend.metrics { block_size = "16" } }))):contains "enable-prefix-caching"
    expect(cached(quiet(zero), { role = "gateway" })):contains "another replica"
    expect(cached(quiet(zero, { metrics = pretend.metrics { block_size = "784" },
      models = pretend.body { data = { { id = "m", owned_by = "vllm", max_model_len = 1024 } } } })))
      :contains "shorter than a block"
    expect(cached(quiet(usage(nil), { metrics = pretend.metrics { block_size = "16",
      enable_prefix_caching = "False" } })))
      :contains "may just be omitted"
  end)

  it("warns when little was reused, or too much too early", function()
    expect(cached { warm = usage { cached_tokens = 16 }, ids = pretend.stream { prompt = 450, completion = 8 } })
      :contains "warn: less than half"
    expect(cached { cold = pretend.stream { prompt = 450, completion = 8, cached = 448 } })
      :contains "warn: 448 tokens of a new prompt were cached already -> do two names lead to one server?"
    expect(cached { cold = pretend.stream { prompt = 450, completion = 8,
      cached = 16 } }):matches "; 16 the first time$"
  end)
end)

describe("doctor_generation.ids", function()
  local function ids(replies)
    return said(server(replies), "ids")
  end

  it("holds the ids that ran against those that were sent", function()
    expect(ids()):eq "ok: return_token_ids is honoured in streams; /v1/completions runs exactly the ids it is sent"
    expect(ids { prompt_ids = pretend.body { choices = { { prompt_token_ids = { 1, 5, 6, 7 } } } } })
      :matches "^warn: .*other ids than it was sent %(4 for 3%)"
    expect(ids { prompt_ids = pretend.body { choices = { { text = "x" } } } }):contains "takes ids"
    expect(ids { prompt_ids = pretend.status(404) }):matches "^warn: .*set_renderer"
    expect(ids { ids = pretend.stream { prompt = 450, completion = 8 } }):contains "is not honoured"
  end)
end)

describe("doctor_generation.parity", function()
  local function parity(list, tokenizer)
    return said(server(nil, nil, { tokenizer = tokenizer or "qwen3", parity = list }), "parity")
  end

  it("is not proved without a tokenizer", function()
    expect(said(server(), "parity")):matches "^warn: not proved"
  end)

  it("tells equal ids, equal counts, a difference with its cause, and what could not be asked", function()
    local entry = { server = "r0", tokenizer = "qwen3", renderer = "qwen3", verdict = "equal", compared = 2 }
    expect(parity { list = { entry } }):eq "ok: qwen3 with qwen3: the same ids in 2 cases"
    entry.verdict = "count"
    expect(parity { list = { entry } }):contains "the same number of tokens"
    entry.verdict, entry.differ = "differs", 1
    entry.cases = { { verdict = "equal" }, { verdict = "differs", case = "tools", form = "messages", local_tokens = 10,
      server_tokens = 11, difference = { index = 0, ["local"] = "'a'", server = "'<s>'" },
      causes = { { text = "the server adds a BOS", fix = "add_special_tokens = false" } } } }
    expect(parity { list = { entry } }):eq("FAIL: qwen3 with qwen3: 1 of 2 cases differ; tools (messages): 10 tokens"
      .. " here, 11 there: the server adds a BOS -> add_special_tokens = false")
    entry.cases[2].causes = {}
    entry.announced = { template = "/srv/t.jinja" }
    local unexplained = parity { list = { entry } }
    expect(unexplained):contains "11 there, from token 0: 'a' here, '<s>' there -> give the server's own template"
    expect(unexplained):contains "--template (it names /srv/t.jinja)"
    entry.verdict = "equal"
    entry.sources = { tokenizer = "option", renderer = "server", now = "server" }
    expect(parity { list = { entry } }):eq(
      "ok: qwen3 with qwen3 (template and date as the server says of itself): the same ids in 2 cases")
    entry.sources = nil
    entry.verdict, entry.reason = "unknown", "no /tokenize"
    expect(parity { list = { entry } }):matches "^warn: .*not compared: no /tokenize"
    entry.server = "r9"
    expect(parity { list = { entry } }):eq ""
    expect(parity { error = "no template" }):matches "^warn: could not be asked: no template"
  end)
end)
