-- perigee.doctor_checks: reaching a server, and what it is.
local json = require "perigee.json"
local checks = require "perigee.doctor_checks"
local pretend = require "doctor_server"

local function server(replies, more, facts)
  local s = { replies = replies }
  for key, value in pairs(more or {}) do
    s[key] = value
  end
  local examined = pretend.examine({ s }, facts)
  return checks.server_checks(examined, examined.endpoints[1])
end

local said = pretend.said

local function dialled(dial, url)
  return server({ dial = dial }, { url = url or "https://host.example:8443" })
end

describe("doctor_checks: a healthy vLLM", function()
  it("is ok in every line", function()
    local list = server(nil, nil, { tokenizer = "qwen3", parity = { list = {} } })
    for _, check in ipairs(list) do
      expect(check.level .. check.name):eq("ok" .. check.name)
      expect(check.fix):is_nil()
    end
    expect(said(list, "models")):eq "ok: m (max_model_len 32,768)"
    expect(said(list, "server")):eq "ok: vLLM, version 0.20.1"
    expect(said(list, "cache")):eq(
      "ok: block_size 16, 999 blocks (15,984 tokens), prefix caching on, from vllm:cache_config_info")
    expect(#list):eq(13)
  end)
end)

describe("doctor_checks.reach", function()
  it("names the step that failed, and its way out", function()
    local list = dialled { step = "resolve", code = "name", reason = "no such host", resolve_ms = 1 }
    expect(said(list, "name")):matches "^FAIL: host.example: no such host %-> .*getent hosts host.example"
    expect(#list):eq(1)
    local cases = { refused = "port right", timeout = "firewall", unreachable = "port%-forward", system = "ulimit" }
    for code, fix in pairs(cases) do
      list = dialled { step = "connect", code = code, reason = "R", addresses = { "10.1.1.1" }, connect_ms = 5 }
      expect(said(list, "name")):eq "ok: 10.1.1.1 in 0 ms"
      expect(said(list, "connect")):matches("^FAIL: R after 5.00 ms %-> .*" .. fix)
      expect(#list):eq(2)
    end
  end)

  it("says what is wrong with a certificate", function()
    local function tls(fields)
      local d = { step = "tls", addresses = { "::1" }, address = "::1", subject = "s", issuer = "i" }
      for key, value in pairs(fields) do
        d[key] = value
      end
      return said(server({ dial = d, plain = pretend.status(0) }, { url = "https://h" }), "tls")
    end
    expect(tls { code = "verify", verify_code = 20, reason = "unable" }):eq("FAIL: unable (certificate of s, by i) -> "
      .. "name the authority that signed it with --ca-file FILE.pem (or --insecure, for a try)")
    expect(tls { code = "verify", verify_code = 62, reason = "mismatch", names = { "a.example", "b\27.example" } })
      :contains "use a name that is in the certificate: a.example, b .example"
    expect(tls { code = "verify", verify_code = 10, reason = "expired" }):contains "renew it"
    expect(tls { code = "verify", verify_code = 9, reason = "early" }):contains "clock of this machine"
    expect(tls { code = "not_tls", reason = "wrong" }):contains "write http://"
    expect(tls { code = "closed", reason = "closed" }):contains "--cert-file"
    expect(tls { code = "timeout", reason = "late" }):contains "speak TLS"
  end)

  it("recognises plain HTTP behind https://", function()
    local function tls(plain)
      local dial = { step = "tls", code = "timeout", reason = "late", addresses = {} }
      return said(server({ dial = dial, plain = plain }, { url = "https://h" }), "tls")
    end
    expect(tls(pretend.status(400))):contains "write http://"
    expect(tls(pretend.status(0))):contains "is the port right"
  end)

  it("tells the handshake's time, and what is left of the certificate", function()
    local d = { step = "ok", addresses = { "::1" }, address = "::1", version = "TLSv1.3", tls_ms = 2.5, subject = "s",
      days_left = 90, protocol = "h2" }
    expect(said(dialled(d), "tls")):eq(
      "ok: TLSv1.3 in 2.50 ms, certificate of s, 90 days left; offers HTTP/2 (--http2)")
    d.days_left = 3
    expect(said(dialled(d), "tls")):contains "warn: the certificate ends in 3 days -> renew it"
    d.verify, d.verify_code = "self-signed certificate", 18
    expect(said(dialled(d), "tls")):contains "warn: not verified (--insecure): self-signed certificate"
    expect(said(dialled(d, "http://h"), "tls")):eq ""
  end)

  it("says when a proxy is asked instead", function()
    expect(said(server(nil, nil, { options = { proxy = "p:3128" } }), "proxy")):eq "ok: asked through p:3128"
  end)
end)

describe("doctor_checks.health", function()
  local function health(status, more)
    return said(server { health = pretend.status(status, more) }, "health")
  end

  it("tells a missing endpoint from a server that is not ready", function()
    expect(health(200)):eq "ok: HTTP 200 in 1.00 ms"
    expect(health(404)):matches "^ok: not there"
    expect(health(503)):matches "^FAIL: HTTP 503: it is not ready %-> wait"
    expect(health(500)):matches "^FAIL"
    expect(health(0, { detail = "slow" })):matches "^FAIL: slow"
    expect(health(401)):matches "^warn: HTTP 401"
    expect(health(302, { location = "/x" })):matches "^warn: HTTP 302, a redirect to /x"
  end)
end)

describe("doctor_checks.models", function()
  local function models(reply, facts)
    return said(server({ models = reply }, nil, facts), "models")
  end

  it("fails without one, unless one is named", function()
    expect(models(pretend.status(404))):matches "^FAIL: .*%-%-model NAME"
    expect(models(pretend.status(404), { model = "m" })):matches "^warn"
    expect(models(pretend.body { data = json.array {} })):matches "^FAIL: the list is empty"
    expect(models { status = 200, detail = "", body = "<html>hello\27" })
      :matches "^FAIL: no list of models, but: <html>hello "
    expect(models(pretend.status(401))):matches "^FAIL: HTTP 401 %-> it wants a key"
    expect(models(pretend.status(0, { detail = "gone" }), { model = "m" })):matches "^FAIL: gone"
  end)

  it("fails when another model is served", function()
    expect(models(nil, { model = "llama" })):eq(
      "FAIL: it serves m, not llama -> name one that it serves: --model m")
    expect(models(nil, { model = "m" })):matches "^ok"
  end)

  it("lists a few", function()
    local data = {}
    for i = 1, 6 do
      data[i] = { id = "m" .. i, parent = i > 1 and "m1" or nil }
    end
    expect(models(pretend.body { data = data })):eq(
      "ok: m1, m2 (adapter), m3 (adapter), m4 (adapter), … 6 in all")
  end)

  it("recognises TLS behind http://", function()
    local none = pretend.status(0, { detail = "reset" })
    local list = server { health = none, models = none, version = none, metrics = none,
      tls_dial = { step = "tls", code = "verify", reason = "x" } }
    expect(said(list, "models")):eq(
      "FAIL: no HTTP answer: it speaks TLS on that port -> write https:// instead of http://")
  end)
end)

describe("doctor_checks.tokenize", function()
  local function tokenize(replies, more)
    return said(server(replies, more), "tokenize")
  end

  it("says what there is", function()
    expect(tokenize()):eq "ok: prompts and messages (3 tokens for the sample); /detokenize gives the text back"
    expect(tokenize { tokenize = false }):matches "^warn: /tokenize: not there"
    expect(tokenize { tokenize = false }):contains "is a proxy hiding it?"
    expect(tokenize { tokenize = pretend.body { tokens = { "1", "2" } } }):matches(
      "^warn: /tokenize: its tokens are no list of ids; .*%-> it is there, and does not do what it should")
    expect(tokenize { tokenize = pretend.body { tokens = { -1 } } }):contains "its tokens are no list of ids"
    expect(tokenize { tokenize = pretend.status(500) }):matches "^warn: /tokenize: HTTP 500.*%-> it is there, and"
    expect(tokenize { tokenize = pretend.body { ids = {} } }):contains "no ids in the answer"
    expect(tokenize({ tokenize = false }, { role = "gateway" })):matches "^ok: /tokenize: not there"
    expect(tokenize { tokenize_chat = pretend.status(400) }):contains "messages: HTTP 400"
    expect(tokenize { detokenize = pretend.body { prompt = "other" } }):matches "^warn: .*another text"
    expect(tokenize { detokenize = pretend.body { prompt = 3 } }):matches "^warn"
    expect(tokenize { detokenize = false }):contains "/detokenize: not there"
  end)
end)

describe("doctor_checks.render", function()
  it("is not missed", function()
    expect(said(server(), "render")):matches "^ok: /v1/chat/completions/render gives"
    expect(said(server { render = false }, "render")):matches
      "^ok: .*not there %(HTTP 404%); /tokenize with messages serves as well$"
    expect(said(server { render = false, tokenize_chat = false }, "render")):matches "not there %(HTTP 404%)$"
  end)

  it("is what parity rests on without /tokenize, else completions", function()
    expect(said(server { tokenize = false }, "tokenize")):contains "token parity rests on its render endpoint"
    expect(said(server { tokenize = false, render = false }, "tokenize")):contains
      "token parity rests on completions: their prompt_token_ids, else usage.prompt_tokens alone"
  end)
end)

describe("doctor_checks.metrics and cache", function()
  it("says how to switch them on", function()
    expect(said(server { metrics = false }, "metrics")):matches "^warn: HTTP 404 %-> is a proxy hiding"
    expect(said(server({ metrics = false }, { role = "gateway" }), "metrics")):matches "^ok: none here"
    local llama = { metrics = pretend.status(501), models = pretend.body { data = { { id = "m",
      owned_by = "llamacpp" } } } }
    expect(said(server(llama), "metrics")):contains "--metrics"
    local page = pretend.metrics()
    page.metrics.error_lines = 2
    expect(said(server { metrics = page }, "metrics")):matches "^warn: 12 samples, and 2 lines that cannot be read"
    page = pretend.metrics()
    page.metrics.samples = 0
    expect(said(server { metrics = page }, "metrics")):matches "^warn: nothing in them is a sample: text/plain"
  end)

  it("warns when nothing will be reused", function()
    local list = server { metrics = pretend.metrics { block_size = "16", enable_prefix_caching = "False" } }
    expect(said(list, "cache")):contains "warn: prefix caching is off"
    expect(said(list, "cache")):contains "--enable-prefix-caching"
    list = server { metrics = pretend.metrics(nil, { "sglang:num_running_reqs" }),
      server_info = pretend.body { disable_radix_cache = true } }
    expect(said(list, "cache")):contains "--disable-radix-cache"
  end)

  it("holds the fleet file's block size against the engine's", function()
    expect(said(server(nil, nil, { block_size = 16 }), "cache")):matches "^ok: block_size 16[^\n]*$"
    expect(said(server(nil, nil, { block_size = 32 }), "cache"))
      :contains "FAIL: the fleet file says block_size 32: hashes made with it fit no block of this engine -> write"
  end)

  it("takes no size that cannot be one", function()
    for _, size in ipairs { "-16", "0", "1.5", "None" } do
      expect(said(server { metrics = pretend.metrics { block_size = size } }, "cache")):contains(
        "warn: vllm:cache_config_info says a block size of " .. size .. ", which is none -> do these metrics")
    end
    local list = server { models = pretend.body { data = { { id = "m", max_model_len = -1 } } } }
    expect(said(list, "models")):contains "warn: m, with a max_model_len of -1, which is no length"
  end)

  it("says when the block size is not there", function()
    expect(said(server { metrics = pretend.metrics(nil, { "vllm:x" }) },
      "cache")):matches "^warn: the metrics do not say"
    expect(said(server { metrics = pretend.metrics(nil, { "up" }), models = pretend.body { data = { { id = "m" } } } },
      "cache")):matches "^ok: the metrics do not say"
  end)
end)

describe("doctor_checks: hostile answers", function()
  it("never raise", function()
    local odd = { "", "[]", "null", "3", '"x"', "{", '{"data":[[]]}', '{"tokens":{"a":1}}', '{"usage":3,"choices":3}',
      '{"usage":{"prompt_tokens":"x","prompt_tokens_details":[1]},"choices":[3]}', "\0\xff\27[2J",
      '{"version":{},"choices":[{"prompt_token_ids":"x"}],"usage":{"prompt_tokens_details":{"cached_tokens":"9"}}}' }
    for _, text in ipairs(odd) do
      local replies = {}
      for name, reply in pairs(pretend.vllm()) do
        if reply.body then
          replies[name] = { status = 200, detail = "", body = text, ms = 1 }
        end
      end
      replies.models = nil
      expect(#server(replies)):above(8)
      replies.models = { status = 200, detail = "", body = text }
      expect(#server(replies)):above(3)
    end
  end)
end)
