-- What a server's answers mean: from the facts of one server (perigee.doctor_probe asked for them) to a
-- list of checks { name, level = "ok" | "warn" | "FAIL", text, fix }. Plain functions; `fix` is the way
-- out: the option of the engine or of perigee to set.
local generation = require "perigee.doctor_generation"
local probe = require "perigee.doctor_probe"
local say = require "perigee.doctor_words"
local words = require "perigee.report_text"

local checks = {}

local reply, object = probe.reply, probe.object
local ms, ok, warn, fail, quoted, trouble = say.ms, say.ok, say.warn, say.fail, say.quoted, say.trouble
local count, counted, said = words.count, words.counted, say.said


local CERT_DAYS = 14 -- a certificate that ends sooner is worth a word

local function host_of(url)
  return url:match "^%a+://%[?([^%]/:]+)" or url
end

-- ---- reaching it ----

local UNREACHED = {
  name = "is the name right? `getent hosts %s` asks the same resolver; inside a cluster write"
    .. " name.namespace.svc, "
    .. "or give the address",
  resolver = "the resolver of this machine fails: see /etc/resolv.conf, the VPN; or give the address"
    .. " instead of %s",
  refused = "nothing listens there: is the server up, is the port right (vLLM 8000, SGLang 30000, llama.cpp"
    .. " 8080), "
    .. "does it listen on this address (--host 0.0.0.0)?",
  unreachable = "there is no way from here: VPN, `kubectl port-forward`, or --proxy URL",
  timeout = "something drops it silently: a firewall, a wrong address; `kubectl port-forward` or --proxy"
    .. " URL may help",
  system = "see the reason; a limit of this machine (ulimit -n, ephemeral ports)?",
}

local TLS = {
  not_tls = "it speaks no TLS there: write http:// instead of https://",
  timeout = "is the port right, and does it speak TLS? A proxy in between may hold the handshake back",
  closed = "does it want a client certificate (--cert-file, --key-file), or another name (SNI)?",
  handshake = "does it want a client certificate (--cert-file, --key-file), or is its TLS too old for this"
    .. " OpenSSL?",
  system = "see --ca-file, --cert-file and --key-file",
}

-- OpenSSL's X509_V_ERR_… numbers.
local function certificate_fix(d)
  local code = d.verify_code
  if code == 62 or code == 64 then
    local names = {}
    for i, name in ipairs(d.names or {}) do
      names[i] = quoted(name)
    end
    return ("use a name that is in the certificate: %s"):format(
      #names > 0 and table.concat(names, ", ") or quoted(d.subject))
  elseif code == 10 then
    return "it has expired: renew it (or --insecure, for a try)"
  elseif code == 9 then
    return "it is not valid yet: is the clock of this machine right?"
  end
  return "name the authority that signed it with --ca-file FILE.pem (or --insecure, for a try)"
end

local function tls_checks(d, plain)
  if d.step == "tls" then
    local fix = d.code == "verify" and certificate_fix(d) or TLS[plain and plain.status ~= 0 and "not_tls"
      or d.code]
    return { fail("tls", fix, "%s%s", d.reason,
      d.subject and (" (certificate of %s, by %s)"):format(quoted(d.subject), quoted(d.issuer)) or "") }
  end
  local list = { ok("tls", "%s in %s, certificate of %s%s%s", d.version, ms(d.tls_ms), quoted(d.subject),
    d.days_left and (", %s left"):format(counted(d.days_left, "day")) or "",
    d.protocol == "h2" and "; offers HTTP/2 (--http2)" or "") }
  if d.verify then
    list[2] = warn("tls", certificate_fix(d), "not verified (--insecure): %s", d.verify)
  elseif d.days_left and d.days_left < CERT_DAYS then
    list[2] = warn("tls", "renew it", "the certificate ends in %s", counted(d.days_left, "day"))
  end
  return list
end

--- Name, port, handshake.
function checks.reach(facts, e)
  local d = reply(e, "dial")
  if not d then
    return facts.options.proxy and { ok("proxy", "asked through %s", facts.options.proxy) } or {}
  end
  local fix = (UNREACHED[d.code] or "%s"):gsub("%%s", host_of(e.url))
  if d.step == "resolve" then
    return { fail("name", fix, "%s: %s", host_of(e.url), d.reason) }
  end
  local list = { ok("name", "%s in %s", table.concat(d.addresses or {}, ", "), ms(d.resolve_ms)) }
  if d.step == "connect" then
    list[2] = fail("connect", fix, "%s after %s", d.reason, ms(d.connect_ms))
    return list
  end
  list[2] = ok("connect", "%s in %s", d.address, ms(d.connect_ms))
  if e.url:find "^https" then
    for _, check in ipairs(tls_checks(d, reply(e, "plain"))) do
      list[#list + 1] = check
    end
  end
  return list
end

function checks.health(facts, e)
  local r = reply(e, "health")
  if not r then
    return {}
  elseif say.ABSENT[r.status] then
    return { ok("health", "not there (HTTP %d): runs do not need it", r.status) }
  elseif r.status == 503 then
    return { fail("health", "wait until the model is loaded, and see the server's log",
      "HTTP 503: it is not ready") }
  end
  local what, fix = trouble(facts, r)
  if not what then
    return { ok("health", "HTTP %d in %s", r.status, ms(r.ms)) }
  elseif r.status == 0 or r.status >= 500 then
    return { fail("health", fix or "see the server's log", "%s", what) }
  end
  return { warn("health", fix, "%s", what) }
end

-- ---- what it is ----

local function names_of(list, most)
  local names = {}
  for i, m in ipairs(list) do
    if i > most then
      names[i] = ("… %s in all"):format(count(#list))
      break
    end
    names[i] = quoted(m.id) .. (m.parent and " (adapter)" or "")
  end
  return table.concat(names, ", ")
end

local function speaks_tls(e)
  local d = reply(e, "tls_dial")
  return d and (d.step == "ok" or d.code == "verify")
end

function checks.models(facts, e)
  local r, list = reply(e, "models"), probe.models(e)
  if not r then
    return {}
  elseif speaks_tls(e) then
    return { fail("models", "write https:// instead of http://",
      "no HTTP answer: it speaks TLS on that port") }
  end
  local what, fix = trouble(facts, r)
  local named = facts.model and warn or fail
  if what then
    fix = fix or (r.status == 404 and "is this an OpenAI-compatible server? Leave /v1 off the URL; a server"
      .. " without this"
      .. " list needs --model NAME" or "see the server's log")
    return { (r.status == 0 and fail or named)("models", fix, "%s", what) }
  elseif #list == 0 then
    local text = object(e, "models") and "the list is empty"
      or ("no list of models, but: %s"):format(quoted(r.body or "nothing"))
    return { named("models", "is this an OpenAI-compatible server? One that lists none needs --model NAME",
      "%s", text) }
  end
  local found = not facts.model
  for _, m in ipairs(list) do
    found = found or m.id == facts.model
  end
  if not found then
    return { fail("models", ("name one that it serves: --model %s"):format(quoted(list[1].id)),
      "it serves %s, not %s",
      names_of(list, 4), quoted(facts.model)) }
  end
  local longest, name = probe.max_model_len(facts, e), probe.model(facts, e)
  for _, m in ipairs(list) do
    if m.id == name and m.odd_len ~= nil then
      return { warn("models", "is it a gateway's own list? Ask the engine itself",
        "%s, with a max_model_len of %s, which is no length", names_of(list, 4), tostring(m.odd_len)) }
    end
  end
  return { ok("models", "%s%s", names_of(list, 4),
    longest and (" (max_model_len %s)"):format(count(longest)) or "") }
end

function checks.server(_, e)
  if not probe.answers(e) then
    return {}
  end
  local _, name = probe.kind(e)
  local version, header = say.version(e), (reply(e, "models") or {}).server
  return { ok("server", "%s%s%s", name or "not recognised", version and ", version " .. version or "",
    header and (" (header Server: %s)"):format(quoted(header, 40)) or "") }
end

-- ---- text ----

local function has_render(e)
  local r = reply(e, "render")
  return r and r.status == 200 and not r.error
end

local function has_chat_ids(e)
  local chat = object(e, "tokenize_chat")
  return chat and type(chat.tokens) == "table" and #chat.tokens > 0
end

-- What a reply of /tokenize has in the place of ids, where it has anything there; nil.
local function broken_ids(e, prompt)
  local answer = prompt.status == 200 and object(e, "tokenize")
  if prompt.status ~= 200 then
    return prompt.status ~= 404 and prompt.status ~= 405 and prompt.status ~= 501 and said(prompt) or nil
  end
  return prompt.error and "the answer breaks off or is too long" or not answer and "no JSON in the answer"
    or answer.tokens ~= nil and "its tokens are no list of ids" or nil
end

function checks.tokenize(_, e)
  local prompt, chat = reply(e, "tokenize"), reply(e, "tokenize_chat")
  if not prompt then
    return {}
  end
  local ids = probe.sample_ids(e)
  if not ids then
    local broken = broken_ids(e, prompt)
    local text = ("/tokenize: %s; token parity rests on %s"):format(
      broken or prompt.status == 200 and "no ids in the answer" or said(prompt),
      has_render(e) and "its render endpoint"
      or "completions: their prompt_token_ids, else usage.prompt_tokens alone")
    if e.role == "gateway" then
      return { ok("tokenize", "%s", text) }
    end
    local fix = broken and "it is there, and does not do what it should: see the server's log"
      or "vLLM, SGLang and llama.cpp have it: is a proxy hiding it? Otherwise nothing can be done"
    return { warn("tokenize", fix, "%s", text) }
  end
  local back = object(e, "detokenize")
  local text = back and (back.prompt or back.text or back.content)
  local round = not reply(e, "detokenize") and "/detokenize not asked"
    or not back and "/detokenize: " .. said(reply(e, "detokenize"))
    or type(text) == "string" and text:find(probe.SAMPLE, 1, true) and "/detokenize gives the text back"
  if not round then
    return { warn("tokenize", "its tokenizer changes the text: ids are exact, texts are not",
      "%s for the sample; /detokenize gives another text back", counted(#ids, "token")) }
  end
  if not has_chat_ids(e) then
    return { ok("tokenize", "%s for the sample; messages: %s; %s", counted(#ids, "token"), said(chat),
      round) }
  end
  return { ok("tokenize", "prompts and messages (%s for the sample); %s", counted(#ids, "token"), round) }
end

function checks.render(_, e)
  local r = reply(e, "render")
  if not r then
    return {}
  elseif has_render(e) then
    return { ok("render", "/v1/chat/completions/render gives the ids it would run") }
  end
  return { ok("render", "/v1/chat/completions/render: %s%s", said(r),
    has_chat_ids(e) and "; /tokenize with messages serves as well" or "") }
end

-- ---- metrics ----

local METRICS_FIX = {
  llamacpp = "start llama-server with --metrics",
  sglang = "start SGLang with --enable-metrics",
  vllm = "is a proxy hiding /metrics? Say where they are with --metrics ID=URL",
}

function checks.metrics(facts, e)
  local r = reply(e, "metrics")
  if not r then
    return {}
  end
  local what, fix = trouble(facts, r)
  local m = r.metrics
  if what and e.role == "gateway" and not e.metrics then
    return { ok("metrics", "none here (%s): those of the replicas count (--replica ID=URL beside the"
      .. " gateway)", what) }
  elseif what or m.samples == 0 then
    return { warn("metrics", fix or METRICS_FIX[probe.kind(e) or ""]
      or "say where they are with --metrics ID=URL, or switch them on in the server", "%s",
      what or "nothing in them is a sample: " .. (r.type or "no content type")) }
  elseif m.error_lines > 0 then
    return { warn("metrics", "those lines are skipped", "%s, and %s that cannot be read", counted(m.samples,
      "sample"),
      counted(m.error_lines, "line")) }
  end
  return { ok("metrics", "%s in %s", counted(m.samples, "sample"), ms(r.ms)) }
end

local function no_size(c)
  return c and c.said ~= nil
    and ("%s says a block size of %s, which is none"):format(c.source, tostring(c.said))
    or "the metrics do not say the block size"
end

function checks.cache(facts, e)
  local r, c, kind = reply(e, "metrics"), probe.cache_config(e), probe.kind(e)
  local info, list = object(e, "server_info") or {}, {}
  if not r or not r.metrics then
    return {}
  elseif not c or not c.block_size then
    list[1] = c and c.said ~= nil
      and warn("cache", "do these metrics come from the engine itself?", no_size(c))
      or (kind == "vllm" or kind == "sglang") and warn("cache",
      "its version is too old for cache_config_info, or a multi-process setup hides it: see the server's"
        .. " log for the size",
      no_size(c)) or ok("cache", no_size(c))
  else
    list[1] = ok("cache", "block_size %s%s%s, from %s", count(c.block_size),
      c.blocks and (", %s blocks (%s)"):format(count(probe.usable_blocks(c)),
        counted(probe.usable_blocks(c) * c.block_size, "token")) or "",
      c.prefix_caching ~= nil and ", prefix caching " .. (c.prefix_caching and "on" or "off") or "", c.source)
    if facts.block_size and facts.block_size ~= c.block_size then
      list[#list + 1] = fail("cache", ("write block_size = %d in the fleet file, or start the engine with"
        .. " --block-size"
        .. " %d"):format(c.block_size, facts.block_size), "the fleet file says block_size %s: hashes made"
          .. " with it fit"
        .. " no block of this engine", count(facts.block_size))
    end
    if c.differ then
      list[#list + 1] = warn("cache", "start all its engines alike",
        "its engines (data parallel) do not agree on the cache")
    end
  end
  if c and c.prefix_caching == false or info.disable_radix_cache == true then
    list[#list + 1] = warn("cache", say.CACHING_FIX[kind or ""] or "switch it on",
      "prefix caching is off: nothing is reused,"
      .. " and every cached ratio will be 0")
  end
  return list
end

-- ---- all of them ----

local ORDER = { "reach", "health", "models", "server", "tokenize", "render", "metrics", "cache", "stream",
  "usage",
  "cached", "ids", "parity" }

--- Everything about one server, in order.
function checks.server_checks(facts, e)
  local list = {}
  for _, name in ipairs(ORDER) do
    for _, check in ipairs((checks[name] or generation[name])(facts, e)) do
      list[#list + 1] = check
    end
  end
  if facts.out_of_time and not reply(e, "ids") then
    list[#list + 1] = fail("time", "give it longer with --timeout",
      "not everything was asked: the time was up")
  end
  return list
end

return checks
