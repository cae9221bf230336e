-- What a server's generated answers mean to `perigee doctor`: streams, usage, cached tokens, token ids, and
-- whether its tokens are those made here. Checks as in perigee.doctor_checks.
local parity = require "perigee.parity"
local json = require "perigee.json"
local probe = require "perigee.doctor_probe"
local say = require "perigee.doctor_words"
local words = require "perigee.report_text"

local generation = {}

local reply, object = probe.reply, probe.object
local ms, ok, warn, fail, quoted, trouble = say.ms, say.ok, say.warn, say.fail, say.quoted, say.trouble
local count, counted = words.count, words.counted

local STREAM_FIX = {
  not_sse = "does a gateway answer in its place, or does it refuse stream = true?",
  timeout_total = "it takes longer than 30 s for a few tokens: is it overloaded? --timeout gives it longer",
  truncated = "something between cuts streams off, or the server fails half-way: see its log",
  stream_error = "see the server's log",
  empty_stream = "see the server's log; does a gateway answer without a backend?",
  no_visible_output = "the model said nothing in 8 tokens: does the template or a reasoning parser swallow"
    .. " it?",
}

local function unstreamed(facts, r)
  local what, fix = trouble(facts, r)
  if r.error and STREAM_FIX[r.error] then
    fix = STREAM_FIX[r.error]
  elseif r.status == 404 then
    fix = "is the model's name right (--model), and does the server have this endpoint?"
  end
  return what or r.detail, fix or "see the server's log"
end

local PREFILL_MS = 20 -- a server that is faster with some 450 tokens only pretends
local AT_ONCE_MS = 2 -- between the first and the last of some tokens: no engine is as fast

-- Whether several events came at once. One stream alone may be this machine's own lateness.
local function held_back(r)
  local result = r and r.result
  return result and result.output_events >= 4 and (result.spread_ms or AT_ONCE_MS) < AT_ONCE_MS
end

function generation.stream(facts, e)
  local chat, r, name = reply(e, "cold"), probe.stream(e)
  if not chat then
    return {}
  elseif not r then
    local what, fix = unstreamed(facts, chat)
    return { fail("stream", fix, "chat completions: %s", what) }
  end
  local list, result = {}, r.result
  if name == "cold_text" then
    list[1] = warn("stream", "has the model a chat template? vLLM: --chat-template FILE. Without one only"
      .. " perigee.completions works", "chat completions: %s; /v1/completions works", (unstreamed(facts,
        chat)))
  end
  local usage = result.usage or {}
  local text = ("%s, the first after %s%s"):format(counted(result.output_events, "output event"),
    ms(r.first_ms),
    result.done_marker and ", [DONE] at the end" or "")
  local produced = usage.completion or 0
  if result.output_events == 1 and produced > 1 then
    list[#list + 1] = warn("stream", "is there --stream-interval, or a proxy that gathers events? Gaps"
      .. " between tokens (itl) cannot be measured", "all %s came in one event after %s",
      counted(produced, "token"), ms(r.first_ms))
  elseif (r.first_ms or 0) > PREFILL_MS and held_back(r) and held_back(reply(e, "ids")) then
    list[#list + 1] = warn("stream", "does a proxy buffer? nginx: proxy_buffering off; X-Accel-Buffering: no",
      "%s, and all within %s: they were held back", text, ms(result.spread_ms))
  else
    list[#list + 1] = ok("stream", "%s", text)
  end
  return list
end

--- usage of the repeated request that was not streamed, as it came.
local function warm_usage(e)
  local usage = (object(e, "warm") or {}).usage
  return type(usage) == "table" and usage or nil
end

function generation.usage(facts, e)
  local r, warm = probe.stream(e), reply(e, "warm")
  if not r then
    return {}
  end
  local streamed, whole, list = r.result.usage, warm_usage(e), {}
  if streamed and not (streamed.prompt and streamed.completion) then
    list[1] = warn("usage", "see the server's log; runs do not use such numbers",
      "stream_options.include_usage is honoured, but its numbers are no counts of tokens")
  elseif streamed then
    list[1] = ok("usage", "stream_options.include_usage is honoured: %s prompt, %s output tokens",
      count(streamed.prompt), count(streamed.completion))
  else
    list[1] = warn("usage", "output tokens can be counted on this side alone (--tokenizer); vLLM:"
      .. " --enable-force-include-usage; is a gateway dropping stream_options?",
      "stream_options.include_usage is not honoured: no usage in the stream")
  end
  if warm and not whole then
    list[#list + 1] = warn("usage", "see the server's log", "without streaming: %s",
      trouble(facts, warm) or "no usage in the reply")
  elseif whole and (math.type(whole.prompt_tokens) ~= "integer" or whole.prompt_tokens < 0) then
    list[#list + 1] = warn("usage", "see the server's log; runs do not use such numbers",
      "without streaming: usage.prompt_tokens is no count of tokens")
  elseif whole and streamed and streamed.prompt and whole.prompt_tokens ~= streamed.prompt then
    list[#list + 1] = warn("usage", "does the server or a gateway alter prompts (a date, an id)? Then"
      .. " nothing behind that"
      .. " place is ever cached", "the same prompt had %s tokens, then %s", count(streamed.prompt),
      count(tonumber(whole.prompt_tokens)))
  end
  return list
end

-- ---- cached_tokens ----

--- What usage says of cached tokens in the repeated requests: "value", "zero", "null", "absent", and the
--- number; nil when no request was repeated.
function generation.cached_state(e)
  local whole, ids = warm_usage(e), reply(e, "ids")
  local streamed = ids and ids.result and ids.result.usage
  if not whole and not streamed then
    return nil
  end
  local details = whole and whole.prompt_tokens_details
  local n = type(details) == "table" and math.type(details.cached_tokens) == "integer"
    and details.cached_tokens or nil
  local best = math.max(n or -1, streamed and streamed.cached or -1)
  if best > 0 then
    return "value", best
  elseif best == 0 then
    return "zero", 0
  end
  return details ~= nil and type(details) ~= "table" and "null" or "absent"
end

local REPORT_FIX = {
  vllm = "start vLLM with --enable-prompt-tokens-details",
  sglang = "start SGLang with --enable-cache-report",
  dynamo = "start its vLLM workers with --enable-prompt-tokens-details (SGLang: --enable-cache-report)",
  llamacpp = "take a newer llama.cpp: it reports cached_tokens",
  trtllm = "TensorRT-LLM always reports it: is a gateway dropping it?",
  ollama = "Ollama does not report it; measure with vLLM or SGLang",
}
local REPORT_ANY = "vLLM needs --enable-prompt-tokens-details, SGLang --enable-cache-report; a gateway may"
  .. " drop it"

function generation.cached(_, e)
  local state, n = generation.cached_state(e)
  local c, cold = probe.cache_config(e), probe.stream(e)
  local usage = cold and cold.result.usage or {}
  if not state then
    return {}
  end
  local kind = probe.kind(e)
  if state == "absent" or state == "null" then
    local details = object(e, "warm") and warm_usage(e) and warm_usage(e).prompt_tokens_details
    local odd = type(details) == "table" and details.cached_tokens ~= nil
      and details.cached_tokens ~= json.null
    local what = state == "null" and "prompt_tokens_details is null"
      or odd and "prompt_tokens_details.cached_tokens is no count of tokens"
      or "usage has no prompt_tokens_details.cached_tokens"
    if c and c.prefix_caching == false then
      what = what .. " (with prefix caching off it may just be omitted)"
    end
    return { warn("cached", REPORT_FIX[kind or ""] or REPORT_ANY,
      "%s, also for a repeated prompt: what was reused is"
      .. " unknown, so cached_tokens, cached_ratio and delivered stay empty", what) }
  elseif state == "zero" then
    local fix = e.role == "gateway" and "the repeated prompt may have gone to another replica: ask the"
      .. " replicas themselves"
      or c and c.block_size and c.block_size >= (usage.prompt or 0)
      and "the prompt was shorter than a block; a smaller --block-size caches more"
      or c and c.prefix_caching and "prefix caching is on: is the cache too small for one prompt, is there a"
      .. " salt for each request, or did another replica behind this URL answer?"
      or say.CACHING_FIX[kind or ""] or "switch prefix caching on in the server"
    return { warn("cached", fix, "0 of %s prompt tokens for a prompt it had just seen: nothing is reused",
      count(usage.prompt)) }
  end
  local most = c and c.block_size and usage.prompt and (usage.prompt - 1) // c.block_size * c.block_size
  local first = usage.cached == nil and "absent on a miss (runs count that as an inferred zero)"
    or count(usage.cached) .. " the first time"
  local list = { ok("cached", "%s of %s prompt tokens for a repeated prompt%s; %s", count(n),
    count(usage.prompt),
    most and (" (whole blocks: %s)"):format(count(most)) or "", first) }
  if most and n < most / 2 and e.role ~= "gateway" then
    list[2] = warn("cached", "is the cache too small, or is chunked reuse (LMCache: 256 tokens) at work?",
      "less than half of what could have been reused")
  end
  if (usage.cached or 0) > (c and c.block_size or 16) * 2 then
    list[#list + 1] = warn("cached", "do two names lead to one server? Then figures per replica mean nothing",
      "%s tokens of a new prompt were cached already", count(usage.cached))
  end
  return list
end

-- ---- token ids ----

function generation.ids(facts, e)
  local r, prompt = reply(e, "ids"), reply(e, "prompt_ids")
  if not r then
    return {}
  end
  local text, answer = {}, object(e, "prompt_ids")
  local choice = answer and type(answer.choices) == "table" and answer.choices[1]
  local back = type(choice) == "table" and (choice.prompt_token_ids or answer.prompt_token_ids)
  text[1] = r.result and r.result.token_ids_total and "return_token_ids is honoured in streams"
    or "return_token_ids is not honoured: tokens per event come from usage or --tokenizer"
  if prompt and not answer then
    return { warn("ids", "conversations with a renderer on this side (conv:set_renderer) need it; plain"
      .. " chat does not",
      "%s; /v1/completions with token ids: %s", text[1], trouble(facts, prompt) or "no JSON") }
  elseif prompt then
    local ids, same = probe.sample_ids(e), type(back) == "table"
    for i, id in ipairs(same and ids or {}) do
      same = same and back[i] == id
    end
    if type(back) == "table" and not (same and #back == #ids) then
      return { warn("ids", "it adds tokens of its own to prompts of ids: hashes made here will not fit",
        "%s; /v1/completions runs other ids than it was sent (%s for %s)", text[1], count(#back),
          count(#ids)) }
    end
    text[2] = same and "/v1/completions runs exactly the ids it is sent" or "/v1/completions takes ids"
  end
  return { ok("ids", "%s", table.concat(text, "; ")) }
end

-- ---- parity ----

local TAKEN = { { "tokenizer", "tokenizer" }, { "renderer", "template" }, { "now", "date" } }

-- " (tokenizer and date as the server says of itself)": what was not given.
local function taken_words(entry)
  local names = {}
  for _, item in ipairs(TAKEN) do
    if type(entry.sources) == "table" and entry.sources[item[1]] == "server"
      and (item[1] ~= "now" or entry.renderer) then
      names[#names + 1] = item[2]
    end
  end
  return #names > 0 and (" (%s as the server says of itself)"):format(table.concat(names, " and ")) or ""
end

local function parity_check(entry)
  local what = ("%s%s%s"):format(quoted(entry.tokenizer or "?"), entry.renderer and " with "
    .. quoted(entry.renderer) or "", taken_words(entry))
  local n = entry.compared or 0
  if entry.verdict == "equal" then
    return ok("parity", "%s: the same ids in %s", what, counted(n, "case"))
  elseif entry.verdict == "count" then
    return ok("parity", "%s: the same number of tokens in %s (ids are not to be had)", what, counted(n,
      "case"))
  elseif entry.verdict == "differs" then
    local worst = parity.worst_case(entry) or { case = {}, name = "?" }
    local case, d = worst.case, worst.case.difference
    return fail("parity", worst.fix or "give the server's own files: --tokenizer, --template",
      "%s: %s of %s differ; %s: %s tokens here, %s there%s%s", what, count(entry.differ),
      counted(n, "case"), quoted(worst.name), count(case.local_tokens), count(case.server_tokens),
      worst.text and ": " .. quoted(worst.text, 300) or "",
      not worst.text and d and (", from token %s: %s here, %s there"):format(count(d.index),
        quoted(d["local"]), quoted(d.server)) or "")
  end
  return warn("parity", "give --tokenizer and --template", "%s: not compared: %s", what, quoted(entry.reason
    or "no answer", 200))
end

function generation.parity(facts, e)
  local p, list = facts.parity, {}
  if not probe.stream(e) and not reply(e, "tokenize") then
    return {}
  elseif not facts.tokenizer then
    return { warn("parity", "give --tokenizer NAME and --template NAME: then the ids made here are held"
      .. " against the"
      .. " server's", "not proved: no tokenizer was named") }
  elseif type(p) == "table" and p.error then
    return { warn("parity", "see `perigee parity --help`", "could not be asked: %s", quoted(p.error, 300)) }
  end
  for _, entry in ipairs(type(p) == "table" and p.list or {}) do
    if entry.server == e.id then
      list[#list + 1] = parity_check(entry)
    end
  end
  return list
end

return generation
