-- What the checks of `perigee doctor` are made of: a check and its level, outside text in a sentence, what
-- is wrong with an HTTP answer.
local probe = require "perigee.doctor_probe"
local words = require "perigee.report_text"

local say = {}

function say.ms(x)
  return words.quantity((x or 0) / 1000, "s")
end

function say.ok(name, text, ...)
  return { name = name, level = "ok", text = text:format(...) }
end

function say.warn(name, fix, text, ...)
  return { name = name, level = "warn", text = text:format(...), fix = fix }
end

function say.fail(name, fix, text, ...)
  return { name = name, level = "FAIL", text = text:format(...), fix = fix }
end

-- Outside text in a sentence: one line, not too long.
function say.quoted(s, most)
  s = words.clean(s or "")
  most = most or 80
  if (utf8.len(s) or #s) > most then
    s = s:sub(1, (utf8.offset(s, most + 1) or most + 1) - 1) .. "…"
  end
  return s
end

-- ---- HTTP ----

say.ABSENT = { [404] = true, [405] = true, [501] = true } -- statuses of what a server does not have

local function key_fix(facts)
  return facts.options.has_key and "the key that was sent is not the one it wants (--api-key-env,"
    .. " --api-key-file)"
    or "it wants a key: --api-key-env VAR or --api-key-file FILE"
end

-- What is wrong with an answer that is no 2xx, and the way out; nil for a good one.
function say.trouble(facts, r)
  if r.status == 0 then
    return r.detail ~= "" and r.detail or "no answer", "is the server overloaded, or not an HTTP server at"
      .. " all? --timeout"
      .. " gives it longer"
  elseif r.status == 401 or r.status == 403 then
    return ("HTTP %d"):format(r.status), key_fix(facts)
  elseif r.status >= 300 and r.status < 400 then
    local where = say.quoted(r.location, 120)
    return ("HTTP %d, a redirect to %s"):format(r.status, where), "give the final address"
  elseif r.status == 429 then
    return "HTTP 429, too many requests", "wait, or raise the limit of this key"
  elseif r.status >= 400 then
    return r.detail ~= "" and r.detail:gsub("^%u+ %S+: ", "") or ("HTTP %d"):format(r.status), nil
  elseif r.error then -- 200, and then it broke off
    return r.detail, "is something between cutting it off?"
  end
end

function say.said(r)
  if r.status == 0 then
    return r.detail
  end
  return say.ABSENT[r.status] and ("not there (HTTP %d)"):format(r.status) or ("HTTP %d"):format(r.status)
end

--- The version that it gives, where there is one.
function say.version(e)
  local v = probe.object(e, "version") or {}
  local info = probe.object(e, "server_info") or probe.object(e, "info") or probe.object(e, "props") or {}
  for _, text in pairs { v.version, info.version, info.build_info } do
    if type(text) == "string" and text ~= "" then
      return say.quoted(text, 60)
    end
  end
end

-- How prefix caching is switched on.
say.CACHING_FIX = {
  sglang = "start SGLang without --disable-radix-cache",
  vllm = "start vLLM with --enable-prefix-caching (and without --no-enable-prefix-caching)",
  sim = "perigee sim --set prefix_caching=true",
}

return say
