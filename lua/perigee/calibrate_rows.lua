-- What `perigee calibrate` can learn from rows of samples.jsonl: prompts that were computed while
-- nothing else ran, and stretches of decoding at a known batch. Plain functions of decoded rows.
local rows = {}

local MOST_GAPS, LEAST_GAPS = 16, 4 -- of a stretch: its mean is one observation
local MODAL_SHARE = 0.9 -- of a request without gaps: the share of its time that it ran at one batch

local function whole(x)
  return math.type(x) == "integer" and x >= 0 and x or nil
end

-- ---- what a row may say ----

local MOST_NS, MOST_TOKENS = 10 ^ 18, 10 ^ 12 // 1 -- 31 years; no prompt is as long

local function is_count(x, most)
  return math.type(x) == "integer" and x >= 0 and x <= most
end

-- The first of the fields that is there and no such count, and is named `prefix`field.
local function bad_count(t, prefix, fields, most)
  for _, field in ipairs(fields) do
    if t[field] ~= nil and not is_count(t[field], most) then
      return ("%s%s is no whole number from 0"):format(prefix, field)
    end
  end
end

local STAMPS = { "start", "first_token", "last_token", "done" } -- as they follow each other
local COUNTS = { "prompt_tokens", "output_tokens", "cached_tokens", "output_events", "first_tokens" }
local WORDS = { "served", "chosen", "error", "cached_state" }

local function bad_stamps(t)
  local bad, before = bad_count(t, "t.", STAMPS, MOST_NS), nil
  for _, stamp in ipairs(bad and {} or STAMPS) do
    if t[stamp] and before and t[stamp] < t[before] then
      return ("t.%s lies before t.%s"):format(stamp, before)
    end
    before = t[stamp] and stamp or before
  end
  return bad
end

local function bad_gaps(gaps)
  if type(gaps) ~= "table" then
    return "itl_ns is no list"
  end
  local n, seen = #gaps, 0
  for key, gap in pairs(gaps) do
    seen = seen + 1
    if math.type(key) ~= "integer" or key < 1 or key > n then
      return "itl_ns is no list of numbers"
    elseif not is_count(gap, MOST_NS) then
      return ("itl_ns[%d] is no whole number from 0"):format(key)
    end
  end
  return seen < n and "itl_ns is no list of numbers" or nil
end

--- What is wrong with a row as a run writes it (nulls left out): nil when nothing is, as far as it is
--- used here.
function rows.odd(row)
  if row.t ~= nil and type(row.t) ~= "table" then
    return "t is no object"
  end
  for _, word in ipairs(WORDS) do
    if row[word] ~= nil and type(row[word]) ~= "string" then
      return word .. " is no text"
    end
  end
  return row.t and bad_stamps(row.t) or bad_count(row, "", COUNTS, MOST_TOKENS)
    or row.itl_ns ~= nil and bad_gaps(row.itl_ns) or nil
end

-- One request as it is used here; times in ns. nil: it never reached a server.
local function request_of(row, group)
  local t = row.t
  if type(t) ~= "table" or not t.start or not t.done or not row.generation then
    return nil
  end
  local good = row.error == nil and row.streamed and t.first_token and t.last_token
  return {
    group = group, good = good and true or false, error = row.error, streamed = row.streamed,
    start = t.start, first = t.first_token, last = t.last_token, done = t.done,
    prompt = whole(row.prompt_tokens), output = whole(row.output_tokens),
    cached = row.cached_state ~= "absent" and whole(row.cached_tokens) or nil,
    gaps = type(row.itl_ns) == "table" and row.itl_ns or nil, events = whole(row.output_events) or 0,
    first_tokens = whole(row.first_tokens) or 1,
  }
end

--- The requests of rows, which come in groups: `group_of(row)` names the server (nil: not known).
--- A reply with usage but without cached_tokens is a zero where its server has reported a value.
function rows.requests(list, group_of)
  local requests, reports = {}, {}
  for _, row in ipairs(list) do
    local group = group_of(row)
    local r = request_of(row, group)
    if r and group then
      requests[#requests + 1] = r
      reports[group] = reports[group] or row.cached_state == "value" or row.cached_state == "zero"
        or row.cached_state == "inferred_zero"
    end
  end
  for _, r in ipairs(requests) do
    if not r.cached and r.prompt and reports[r.group] then
      r.cached = 0
    end
    if r.cached and r.prompt then
      r.uncached = r.prompt - r.cached
    end
  end
  return requests
end

-- Lists by group, each sorted by start; the groups in order of their names.
local function by_group(requests)
  local groups, names = {}, {}
  for _, r in ipairs(requests) do
    if not groups[r.group] then
      groups[r.group] = {}
      names[#names + 1] = r.group
    end
    table.insert(groups[r.group], r)
  end
  table.sort(names)
  for _, name in ipairs(names) do
    table.sort(groups[name], function(a, b)
      return a.start < b.start
    end)
  end
  return groups, names
end

--- First tokens that came while the server had nothing else of this run to do: { { tokens, cached, ns,
--- group } … }, and how many were left out and why: { failed, not_streamed, unknown, busy }.
function rows.prefills(requests)
  local found, left = {}, { failed = 0, not_streamed = 0, unknown = 0, busy = 0 }
  local groups, names = by_group(requests)
  for _, name in ipairs(names) do
    local list, busy_until = groups[name], -1
    for i, r in ipairs(list) do
      local after = list[i + 1]
      if not r.good then
        local why = r.error and "failed" or "not_streamed"
        left[why] = left[why] + 1
      elseif busy_until > r.start or after and after.start < r.first then
        left.busy = left.busy + 1
      elseif not r.uncached or r.uncached < 1 then
        left.unknown = left.unknown + 1
      else
        found[#found + 1] = { tokens = r.uncached, cached = r.cached, ns = r.first - r.start, group = name }
      end
      busy_until = math.max(busy_until, r.done)
    end
  end
  return found, left
end

-- ---- decoding ----

-- Tokens of a gap: 1, where the server sends each in an event of its own.
local function tokens_per_gap(r)
  local gaps = r.events - 1
  local n = r.output and gaps > 0 and (r.output - r.first_tokens) / gaps or 1
  return n > 0 and n or 1
end

-- Counts a decoding request's tokens at times that only grow: by its gaps, else evenly. Servers send the
-- tokens of one step to all within a moment, so a token counts when its stamp is nearer than the one before.
local function counter_of(r)
  return { request = r, done = 0, stamp = r.first, per_gap = tokens_per_gap(r),
    slope = (r.output - r.first_tokens) / (r.last - r.first) }
end

local function tokens_at(counter, time)
  local r, gaps = counter.request, counter.request.gaps
  if not gaps then
    return r.first_tokens + counter.slope * (time - r.first)
  end
  while gaps[counter.done + 1] and counter.stamp + gaps[counter.done + 1] / 2 <= time do
    counter.done = counter.done + 1
    counter.stamp = counter.stamp + gaps[counter.done]
  end
  return r.first_tokens + counter.done * counter.per_gap
end

-- Tokens of prompts and answers of those that decode, on average.
local function mean_tokens(decoding, batch, time)
  local sum = 0
  for _, counter in ipairs(decoding) do
    sum = sum + counter.request.prompt + tokens_at(counter, time)
  end
  return sum / batch
end

-- What the server did between changes: sorted { from, to, batch, disturbed, tokens }, `tokens` of a
-- sequence when it began, on average over the batch; nil where it is disturbed or nothing decodes.
local function segments_of(list)
  local changes = {}
  local function change(time, field, by, r)
    changes[#changes + 1] = { time, field, by, r }
  end
  for _, r in ipairs(list) do
    local known = r.good and r.prompt and r.output and r.output > 1 and r.last > r.first
    change(r.start, "disturbed", 1)
    if known then -- it decodes between its tokens; before, its prefill is in the others' way
      change(r.first, "disturbed", -1)
      change(r.first, "batch", 1, r)
      change(r.last, "batch", -1, r)
    else
      change(r.good and r.last == r.first and r.first or r.done, "disturbed", -1)
    end
  end
  table.sort(changes, function(a, b)
    return a[1] < b[1]
  end)
  local segments, now, decoding, place = {}, { batch = 0, disturbed = 0 }, {}, {}
  for i, c in ipairs(changes) do
    now[c[2]] = now[c[2]] + c[3]
    if c[4] and c[3] > 0 then
      decoding[#decoding + 1] = counter_of(c[4])
      place[c[4]] = #decoding
    elseif c[4] then
      local at, last = place[c[4]], decoding[#decoding]
      decoding[at], place[last.request] = last, at
      decoding[#decoding], place[c[4]] = nil, nil
    end
    local to = changes[i + 1] and changes[i + 1][1]
    if to and to > c[1] then
      local quiet = now.disturbed == 0 and now.batch > 0
      segments[#segments + 1] = { from = c[1], to = to, batch = now.batch, disturbed = now.disturbed > 0,
        tokens = quiet and mean_tokens(decoding, now.batch, c[1]) or nil }
    end
  end
  return segments
end

-- Index of the segment that holds `time`: the last that begins at or before it.
local function segment_at(segments, time)
  local low, high = 1, #segments
  while low < high do
    local middle = (low + high + 1) // 2
    if segments[middle].from <= time then
      low = middle
    else
      high = middle - 1
    end
  end
  return low
end

-- A step's context is what had KV before it: the prompt and all tokens but the last, which it reads. All of a
-- batch go on together, so what one has more than when the segment began, the others have too.
--
-- Stretches of gaps that lie in one undisturbed segment.
local function from_gaps(r, segments, found)
  local per_gap, time, i = tokens_per_gap(r), r.first, segment_at(segments, r.first)
  local counter, before = counter_of(r), {}
  local begun, gaps, done, held = nil, 0, 0, nil
  local function finish(to)
    if begun and gaps >= LEAST_GAPS then
      before[held] = before[held] or tokens_at(counter, held.from)
      local since = r.first_tokens + (done - gaps) * per_gap - before[held]
      found[#found + 1] = { request = r, group = r.group, batch = held.batch, gaps = gaps,
        context = held.tokens + since - 1 + (gaps * per_gap - 1) / 2, ns = (to - begun) / gaps / per_gap }
    end
    begun, gaps, held = nil, 0, nil
  end
  for _, gap in ipairs(r.gaps) do
    local to = time + gap
    while i < #segments and segments[i + 1].from <= time do
      i = i + 1
    end
    local s = segments[i]
    local fits = s and s.from <= time and to <= s.to and s.tokens
    if begun and (not fits or held ~= s or gaps >= MOST_GAPS) then
      finish(time)
    end
    if fits then
      begun, held, gaps = begun or time, s, gaps + 1
    end
    time, done = to, done + 1
  end
  finish(time)
end

-- Of a request without gaps: its mean step, where it ran at one batch nearly all the time.
local function from_means(r, segments, found)
  local shares, contexts, slope = {}, {}, (r.output - r.first_tokens) / (r.last - r.first)
  local i = segment_at(segments, r.first)
  while segments[i] and segments[i].from < r.last do
    local s = segments[i]
    if s.tokens then
      local from, to = math.max(s.from, r.first), math.min(s.to, r.last)
      local context = s.tokens + slope * ((from + to) / 2 - s.from) - 1.5
      shares[s.batch] = (shares[s.batch] or 0) + (to - from)
      contexts[s.batch] = (contexts[s.batch] or 0) + (to - from) * context
    end
    i = i + 1
  end
  local batch, clean = nil, 0
  for b, time in pairs(shares) do
    if time > clean then
      batch, clean = b, time
    end
  end
  if batch and clean >= MODAL_SHARE * (r.last - r.first) then
    local tokens = r.output - r.first_tokens
    found[#found + 1] = { request = r, group = r.group, batch = batch, gaps = tokens,
      context = contexts[batch] / clean, ns = (r.last - r.first) / tokens }
  end
end

--- Stretches of decoding at one batch, without a prefill of others: { { request, group, batch, context,
--- gaps, ns } … } with ns per step, and how many requests have { gaps, means } behind them.
function rows.decodes(requests)
  local found, used = {}, { gaps = 0, means = 0 }
  local groups, names = by_group(requests)
  for _, name in ipairs(names) do
    local segments = segments_of(groups[name])
    for _, r in ipairs(groups[name]) do
      if r.good and r.prompt and r.output and r.output > r.first_tokens and r.last > r.first then
        local before, way = #found, r.gaps and "gaps" or "means"
        if r.gaps then
          from_gaps(r, segments, found)
        else
          from_means(r, segments, found)
        end
        used[way] = used[way] + (#found > before and 1 or 0)
      end
    end
  end
  return found, used
end

return rows
