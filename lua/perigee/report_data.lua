-- What a run's report says in sentences, from the decoded run.json and summary.json
-- (src/out/ROW.md): the verdict, what is wrong and what helps, the configuration, the counts. Its
-- tables are perigee.report_tables'. perigee.report draws both. Any field may be missing.
local parity = require "perigee.parity"
local tables = require "perigee.report_tables"
local words = require "perigee.report_text"

local num, text, object, at = words.num, words.text, words.object, words.at
local count, counted, figure, quantity = words.count, words.counted, words.figure, words.quantity

local data = {}

-- ---- sentences both forms share ----

local WORDS = {
  [0] = { "PASSED", "ok" },
  [1] = { "FAILED", "bad" },
  [2] = { "SCRIPT ERROR", "bad" },
  [98] = { "NOT VALID", "bad" },
  [99] = { "NOT MET", "bad" },
  [130] = { "INTERRUPTED", "warn" },
}

--- The word for how the run ended, its style, the reason, the exit status.
function data.verdict(summary)
  local status = num(at(summary, "outcome", "status"))
  local word = WORDS[status or -1] or { "ENDED", "warn" }
  if status == 0 and #object(summary.expectations) == 0 then
    word = { "COMPLETED", "ok" }
  elseif status == 99 and #object(summary.expectations) == 0 then
    word = { "FAILED", "bad" }
  end
  return word[1], word[2], text(at(summary, "outcome", "reason")) or "", status
end

-- Checks that are the cause where others fail with them: they come first.
local CAUSES = { lost_workers = true, descriptors = true }

--- What an invalid run says before anything else: a sentence per check that does not hold.
function data.broken_checks(summary)
  local list, causes, others = {}, {}, {}
  for _, c in ipairs(object(summary.checks)) do
    local into = CAUSES[c.name] and causes or others
    into[#into + 1] = c
  end
  for _, c in ipairs(table.move(others, 1, #others, #causes + 1, causes)) do
    if c.ok == false then
      local form = c.minimum == true and "%s is %s, at least %s are needed: %s%s"
        or "%s is %s, the limit is %s: %s%s"
      list[#list + 1] = form:format(tostring(c.name), quantity(c.figure, text(c.unit)),
        quantity(c.limit, text(c.unit)), text(c.meaning) or "",
        text(c.note) and "; " .. words.grouped(c.note) or "")
    end
  end
  return list
end

-- What helps when a check does not hold, said once for the checks of a kind.
local ADVICE = {
  { checks = { "schedule_lag_p99", "wake_lag_p99", "loop_lag_p99", "stalled_time", "worker_cpu",
      "read_lag_p99" },
    text = "The client itself was late: a quieter machine, more workers (--workers), fewer users or "
      .. "--precise help; --limit NAME=VALUE sets another limit." },
  { checks = { "measurement_error_p99" },
    text = "The kernel stamped too few of the bytes when they came, so ttft holds the client's own lateness: "
      .. "a quieter machine, more workers (--workers) or fewer users make that small." },
  { checks = { "short_answers" },
    text = "The server ended answers before their declared length: it does not obey ignore_eos and "
      .. "min_tokens, or its own limit of tokens is lower. Arms and runs then differ in output; history = "
      .. "\"live\" lets answers be as long as they are, --limit short_answers=100% allows it." },
  { checks = { "idle_replica" },
    text = "So many placements leave no replica out by chance: it is down or unreachable, its name or URL is "
      .. "given twice, or the policy never chooses it. route.round_robin() uses all; --limit "
      .. "idle_replica=N allows N." },
  { checks = { "token_parity", "usage_vs_local" },
    text = "The server makes other tokens of a prompt than --tokenizer and --template do here, so nothing "
      .. "that is said of prefixes and caches on this side holds. `perigee parity` with the same options "
      .. "tries more requests and says why; without --tokenizer tokens are counted by the server alone.",
    usage = "The server's token ids are those made here, but what it counts of them (usage.prompt_tokens) "
      .. "is another number: ratios of cached tokens, and tokens per second, rest on that count. Ask the "
      .. "servers without what is in front of them; --limit token_parity=N allows it." },
  { checks = { "incomplete_requests", "incomplete_sessions" },
    text = "What is slowest never ended, so the figures are too good. A longer drain (`drain` in the plan) "
      .. "lets it end, a timeout makes a request that hangs a failure, which is counted; the rows "
      .. "\"no answer = ∞\" count both. --limit NAME=VALUE sets another limit." },
  { checks = { "coalesced_events", "empty_200", "missing_usage", "impossible_usage" },
    text = "The answers make figures meaningless. Where that is what the run was about (a staged fault, "
      .. "say), --limit NAME=VALUE sets another limit." },
}

--- What to do about the checks that do not hold: sentences.
function data.advice(summary)
  local broken, list = {}, {}
  for _, c in ipairs(object(summary.checks)) do
    broken[tostring(c.name)] = c.ok == false
  end
  for _, advice in ipairs(ADVICE) do
    for _, name in ipairs(advice.checks) do
      if broken[name] then
        list[#list + 1] = advice.usage and parity.only_usage(at(summary, "parity", "comparisons"))
          and advice.usage or advice.text
        break
      end
    end
  end
  list[#list + 1] = text(at(summary, "outcome", "note"))
  return list
end

local function outcomes(group, what)
  group = object(group)
  local ok, failed = num(group.ok) or 0, num(group.failed) or 0
  local parts = { ("%s ok"):format(count(ok)) }
  if failed > 0 then
    parts[#parts + 1] = ("%s failed (%s)"):format(count(failed), quantity(failed / (ok + failed), "ratio"))
  else
    parts[#parts + 1] = "0 failed"
  end
  local incomplete = num(group.incomplete) or 0
  if incomplete > 0 then
    parts[#parts + 1] = ("%s incomplete (%s)"):format(count(incomplete),
      quantity(incomplete / (ok + failed + incomplete), "ratio"))
  end
  if (num(group.cancelled) or 0) > 0 then
    parts[#parts + 1] = ("%s cancelled"):format(count(group.cancelled))
  end
  if (num(group.reconnects) or 0) > 0 then
    parts[#parts + 1] = ("%s sent again on a new connection"):format(count(group.reconnects))
  end
  if (num(group.outside_window) or 0) > 0 then
    parts[#parts + 1] = ("%s outside the window, not counted"):format(count(group.outside_window))
  end
  return what, table.concat(parts, " · ")
end

-- "ttft > 400 ms in 12 of 43 · tpot not judged in 43: replies were not streamed"
local function broken_objectives(summary)
  local parts, goodput = {}, object(at(summary, "metrics", "goodput"))
  for _, o in ipairs(object(goodput.objectives)) do
    local judged, broken, unjudged = num(o.judged) or 0, num(o.broken) or 0, num(o.unjudged) or 0
    if judged > 0 then
      parts[#parts + 1] = ("%s > %s in %s of %s"):format(tostring(o.metric), quantity(o.limit, text(o.unit)),
        count(broken), count(judged))
    end
    if unjudged > 0 then
      parts[#parts + 1] = ("%s could not be judged in %s of %s: %s"):format(tostring(o.metric),
        count(unjudged), count(judged + unjudged), text(o.reason) or "not known")
    end
  end
  if (num(goodput.unjudged) or 0) > 0 then
    parts[#parts + 1] = ("%s in no goodput"):format(counted(goodput.unjudged, "request"))
  end
  return table.concat(parts, " · ")
end

--- What comes before everything else: that no session got through its script. A check that does not
--- hold beside it is of no interest yet. nil when it is not so.
function data.script_failed(summary)
  local sessions = object(summary.sessions)
  local failed, class = num(sessions.failed) or 0, object(sessions.by_error)
  if failed == 0 or (num(sessions.ok) or 0) > 0 or (num(class.script) or 0) ~= failed then
    return nil
  end
  return ("%s failed: script: %s"):format(failed == 1 and "the only session"
    or ("all %s sessions"):format(count(failed)), text(at(sessions, "detail", "script")) or "see log.txt")
end

--- Lines of { name, value }: what was counted and how fast.
function data.facts(summary)
  local list = {}
  local function add(name, value)
    list[#list + 1] = { name, value }
  end
  local requests = object(summary.requests)
  local what, counts = outcomes(requests, requests.generation == false and "plain HTTP" or "requests")
  local nothing = requests.generation == false and counts == "0 ok · 0 failed"
  add(nothing and "requests" or what, nothing and "none was made" or counts)
  local other = object(summary.other_requests)
  if (num(other.ok) or 0) + (num(other.failed) or 0) > 0 then
    add(outcomes(other, "plain HTTP"))
  end
  add(outcomes(summary.sessions, "sessions"))
  local t = object(summary.throughput)
  if (num(t.window_s) or 0) > 0 then
    local failed = num(t.failed_per_s) or 0
    local ended = math.floor((num(t.requests_per_s) or 0) * t.window_s + 0.5)
    local inside = num(requests.ok) and ended ~= requests.ok and (" (%s ended inside the "
      .. "window)"):format(count(ended)) or ""
    add("throughput", ("%s requests/s%s%s · %s output tokens/s · %s prompt tokens/s · window %s"):format(
      figure(num(t.requests_per_s) or 0), inside, failed > 0 and (" ok · %s/s "
        .. "failed"):format(figure(failed)) or "",
      figure(num(t.output_tokens_per_s) or 0), figure(num(t.prompt_tokens_per_s) or 0),
      quantity(t.window_s, "s")))
  end
  local shares = {}
  for _, name in ipairs { "goodput", "route_fallback" } do
    local m = object(at(summary, "metrics", name))
    if num(m.share) and (name ~= "route_fallback" or m.share > 0) then
      shares[#shares + 1] = ("%s %s of %s"):format(name, quantity(m.share, "ratio"), count(m.n))
    end
  end
  if #shares > 0 then
    add("shares", table.concat(shares, " · "))
  end
  local objectives = broken_objectives(summary)
  if objectives ~= "" then
    add("objectives", objectives)
  end
  return list
end

-- "round_robin", or each with its requests where several decided.
local function policies(summary)
  local list, names = object(summary.policies), {}
  for i, p in ipairs(list) do
    names[i] = #list == 1 and tostring(p.policy) or ("%s (%s)"):format(tostring(p.policy),
      counted(p.requests, "request"))
    if (num(p.fallback) or 0) > 0 then
      names[i] = ("%s, which fell back %s"):format(names[i], counted(p.fallback, "time"))
    end
    if i == 8 and #list > 8 then
      names[9] = ("and %d more"):format(#list - 8)
      break
    end
  end
  return table.concat(names, ", ")
end

-- Which words conversations go on with: caches can hit on an answer only when it is the model's own.
local function answers(summary)
  local said = object(summary.answers)
  local declared, own = num(said.declared) or 0, num(said.own) or 0
  if declared > 0 and own > 0 then
    return { "answers", ("%s of declared length (scripted in the history), %s the model's own"):format(
      count(declared), count(own)) }
  elseif declared > 0 then
    return { "answers", "of declared length; histories keep scripted text "
      .. '(history = "live" keeps the model\'s)' }
  elseif own > 0 then
    return { "answers", "the model's own, in length and in the history" }
  end
end

--- Lines of { name, value }: the effective configuration, with the policies that decided.
function data.banner(run, summary)
  local list = {}
  for _, line in ipairs(object(run.banner)) do
    local name, value = tostring(line.name), tostring(line.value)
    local decided = name == "routing" and policies(object(summary)) or ""
    if decided ~= "" and not value:find(decided, 1, true) then
      value = ("%s: %s"):format(value, decided)
    end
    list[#list + 1] = { name, value }
  end
  list[#list + 1] = answers(object(summary))
  return list
end

-- A word of a command line as a shell takes it.
local function quoted(word)
  word = tostring(word)
  return word:find "^[%w%%+,%-./:=@_]+$" and word or "'" .. word:gsub("'", [['\'']]) .. "'"
end

--- Lines of { name, value }: what it takes to run the same again.
function data.again(run)
  local list, command, scripts = {}, {}, {}
  for i, word in ipairs(object(run.command)) do
    command[i] = quoted(word)
  end
  if #command > 0 then
    list[#list + 1] = { "command", table.concat(command, " ") }
  end
  local engine = {}
  if num(run.seed) then
    engine[#engine + 1] = ("seed %d"):format(run.seed)
  end
  if num(run.workers) then
    engine[#engine + 1] = counted(run.workers, "worker")
  end
  local versions, host = object(run.versions), object(run.host)
  if text(versions.perigee) then
    engine[#engine + 1] = ("perigee %s (%s)"):format(versions.perigee, text(versions.commit) or "?")
  end
  if num(host.cores) then
    engine[#engine + 1] = ("%s %s, %s"):format(text(host.system) or "?", text(host.machine) or "?",
      counted(host.cores, "core"))
  end
  if #engine > 0 then
    list[#list + 1] = { "with", table.concat(engine, " · ") }
  end
  for i, file in ipairs(object(run.scripts)) do
    local path = tostring(object(file).path)
    scripts[i] = ("%s %s"):format(path:match "[^/]+$" or path, (text(object(file).sha256) or "?"):sub(1, 12))
  end
  if #scripts > 0 then
    list[#list + 1] = { "scripts", table.concat(scripts, ", ") .. " (sha256; copies in scripts/)" }
  end
  return list
end

local function unmet(summary, part)
  for _, e in ipairs(object(summary.expectations)) do
    if e.met == false and (text(e.text) or ""):find(part, 1, true) then
      return true
    end
  end
  return false
end

--- What to look at when something is wrong: { what, command } each.
function data.next_steps(run, summary)
  local list, samples = {}, quoted((text(run.path) or ".") .. "/samples.jsonl")
  local function rows(what, filter)
    list[#list + 1] = { what, ("jq -c '%s' %s"):format(filter, samples) }
  end
  local requests = object(summary.requests)
  if (num(requests.failed) or 0) > 0 then
    rows("requests that failed", "select(.measured and .error != null and .error != \"incomplete\" and "
      .. ".error != \"cancelled\") | {session, turn, step, chosen, served, status, error, error_detail}")
  end
  if (num(requests.incomplete) or 0) > 0 then
    rows("requests that never ended", "select(.measured and .error == \"incomplete\") | {session, turn, "
      .. "step, chosen, served, status, t}")
  end
  local streams = (num(at(summary, "metrics", "ttft", "n")) or 0) > 0
  if streams and (unmet(summary, "ttft") or unmet(summary, "e2e")) then
    list[#list + 1] = { "the slowest first tokens", ("jq -sc 'map(select(.measured and .streamed and "
      .. ".error == null and .t.first_token)) | "
      .. "sort_by(.t.start - .t.first_token) | .[:10][] | {session, turn, step, served, prompt_tokens, "
      .. "cached_tokens, ttft_ms: ((.t.first_token - .t.start) / 1e6)}' %s"):format(samples) }
  end
  local cached = object(summary.cached)
  if (num(cached.value) or 0) + (num(cached.zero) or 0) > 0 and unmet(summary, "cached") then
    list[#list + 1] = { "the fewest cached tokens", ("jq -sc 'map(select(.measured and .cached_tokens != "
      .. "null "
      .. "and (.prompt_tokens // 0) > 0)) | "
      .. "sort_by(.cached_tokens / .prompt_tokens) | .[:10][] | {session, turn, step, chosen, served, "
      .. "prompt_tokens, cached_tokens, cached_state}' %s"):format(samples) }
  end
  if (num(object(summary.sessions).failed) or 0) > 0 then
    list[#list + 1] = { "what sessions said when they failed", "less " .. quoted((text(run.path) or ".")
      .. "/log.txt") }
  end
  return list
end

function data.simulated(run, summary)
  return run.simulated == true or summary.simulated == true
end

data.files = {
  { "report.md", "this report" },
  { "summary.json", "every figure" },
  { "samples.jsonl", "one row per request" },
  { "values.jsonl", "one row per value that the script recorded" },
  { "run.json", "what ran, on what, with which seed" },
  { "log.txt", "what scripts printed, and warnings" },
  { "scripts/", "the scripts as they were" },
}

-- Words of the report that are no metrics.
local TERMS = {
  { "window", "the time that is measured, without warm-up and drain. A session counts when it arrived "
    .. "inside, "
    .. "and all its requests with it; rates go by what ended inside, whichever session it was of" },
  { "requests, sessions", "a session is one user's story and makes several requests; counts and n are of "
    .. "requests unless sessions are named" },
  { "turn, step, branch", "turn counts a session's user messages from 1, step the requests within a turn; a "
    .. "branch is a fork of a conversation and goes on from there" },
  { "incompl.", "incomplete: the end of the run (after the drain) cut it off. It is neither ok nor failed" },
  { "inferred zero", "the reply did not say cached_tokens, but its replica did in other replies: it "
    .. "leaves the "
    .. "field out when nothing was cached" },
  { "tokens", "counted by the server (usage) where it says so, else by the run's tokenizer" },
  { "objectives", "the limits of the plan's `slo`; goodput is the share of requests that keep "
    .. "all. A request whose objective cannot be judged is in no goodput" },
  { "±", "half of the 95 % interval on its longer side, with a session as one observation" },
}

--- Lines of { word, meaning } for words that are no metrics; what a run has not is not explained.
function data.terms(summary)
  local list, has = {}, { objectives = next(object(at(summary, "metrics", "goodput", "objectives"))) ~= nil }
  for _, term in ipairs(TERMS) do
    if has[term[1]] ~= false then
      list[#list + 1] = term
    end
  end
  return list
end

--- Lines of { metric, meaning } for the metrics of the headline table.
function data.glossary(summary, run)
  local metrics, list = object(summary.metrics), {}
  for _, name in ipairs(tables.headline_names(metrics, at(run, "load", "kind") == "open")) do
    local meaning = text(metrics[name].meaning)
    if meaning then
      list[#list + 1] = { name, meaning }
    end
  end
  return list
end

data.sections = tables.sections

return data
