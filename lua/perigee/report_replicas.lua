-- Two tables of a run's report: what each replica did, and what failed and where. Their form is that of
-- perigee.report_tables.
local words = require "perigee.report_text"

local num, text, object, at, sorted_keys = words.num, words.text, words.object, words.at, words.sorted_keys
local count, counted, quantity = words.count, words.counted, words.quantity
local refusal_note, note_refused = words.refusal_note, words.note_refused

local servers = {}

local MAX_REPLICAS, MAX_SLOW = 24, 8

-- A policy that keeps sessions where they are splits few of them unevenly, and chance is enough of a
-- reason while the split lies within what it does: the sum of (n − mean)²/mean, whose mean is replicas − 1.
local function unevenness(summary, list)
  local placed, sessions, low, high = object(summary.placements), 0, math.huge, 0
  if placed.of ~= "sessions" or #list < 2 then
    return nil
  end
  for _, r in ipairs(list) do
    if (num(r.rotation) or 1) < 1 then
      return nil -- it was out of rotation for a while
    end
    local n = num(r.sessions) or 0
    sessions, low, high = sessions + n, math.min(low, n), math.max(high, n)
  end
  local mean, sum = sessions / #list, 0
  if (num(at(summary, "requests", "failed")) or 0) > 0 then
    return nil -- retries after failures are the likelier reason
  end
  if high - low < 2 or sessions == 0 then
    return nil
  end
  for _, r in ipairs(list) do
    sum = sum + ((num(r.sessions) or 0) - mean) ^ 2 / mean
  end
  local policies = object(summary.policies)
  local policy = #policies == 1 and text(policies[1].policy) or "the policy"
  if sum > #list - 1 + 3 * math.sqrt(2 * (#list - 1)) then
    return ("%s over %s: more uneven than chance makes them."):format(policy, counted(sessions, "session"))
  end
  return ("%s over %s: uneven by chance; more sessions even it out, route.round_robin() or "
    .. "route.least_inflight() split by request."):format(policy, counted(sessions, "session"))
end

-- Replicas whose requests take much longer than those of the others: than the middle one of them, which is
-- the middle of all, or its neighbour where the replica itself stands before it.
local function outliers(list, notes)
  local means, slow = {}, {}
  for _, r in ipairs(list) do
    means[#means + 1] = num(r.e2e_mean)
  end
  table.sort(means)
  for _, r in ipairs(list) do
    local own, at_middle = num(r.e2e_mean), #means // 2
    if own and #means >= 3 and (num(r.e2e_n) or 0) >= 10 then
      local middle = own <= means[at_middle] and means[at_middle + 1] or means[at_middle]
      if middle > 0 and own > 1.5 * middle then
        slow[#slow + 1] = ("%s is slow: its mean e2e is %.1f times that of the others."):format(
          tostring(r.id), own / middle)
      end
    end
  end
  table.move(slow, 1, math.min(#slow, MAX_SLOW), #notes + 1, notes)
  if #slow > MAX_SLOW then
    notes[#notes + 1] = ("… and %d more are slow."):format(#slow - MAX_SLOW)
  end
end

-- Requests of a run with a gateway whose replies did not say which replica served them stand nowhere else.
local function unplaced(summary, list)
  local requests, placed, ended = object(summary.requests), 0, 0
  for _, r in ipairs(list) do
    placed = placed + (num(r.requests) or 0)
  end
  for _, how in ipairs { "ok", "failed", "incomplete", "cancelled" } do
    ended = ended + (num(requests[how]) or 0)
  end
  return #list > 0 and ended > placed and ended - placed or 0
end

--- A row per replica: its share, its latencies, what it had cached.
function servers.replicas(summary)
  local list, rows, notes, refused = object(summary.replicas), {}, {}, {}
  for i, r in ipairs(list) do
    if i > MAX_REPLICAS then
      notes[1] = ("… and %d more in summary.json."):format(#list - MAX_REPLICAS)
      break
    end
    local idle = r.requests == 0 and (num(r.rotation) or 1) >= 1
    rows[i] = { tostring(r.id), { count(r.requests), mark = idle and "bad" or nil },
      quantity(r.share, "ratio"), count(r.sessions), count(r.failed), count(r.ttft_n),
      quantity(r.ttft_p50, "s"), quantity(r.e2e_mean, "s"), quantity(r.e2e_p95, "s"),
      quantity(r.cached_ratio, "ratio"),
      (num(r.output_tokens) or 0) > 0 and count(r.output_tokens) or { "—", mark = "dim" } }
    note_refused(r, { "ttft_p50", "e2e_p95" }, refused)
  end
  local unsaid = unplaced(summary, list)
  if unsaid > 0 then
    rows[#rows + 1] = { { "(not said)", mark = "dim" }, count(unsaid), "", "", "", "", "", "", "", "",
      "" }
    notes[#notes + 1] = "(not said): the reply did not say which replica served it (a gateway's, or none "
      .. "came)."
  end
  outliers(list, notes)
  notes[#notes + 1] = next(refused) and refusal_note(refused) or nil
  notes[#notes + 1] = unevenness(summary, list)
  return {
    title = "Replicas",
    head = { "replica", "requests", "share", "sessions", "failed", "n ttft", "ttft p50", "e2e mean",
      "e2e p95", "cached_ratio mean", "output tokens" },
    align = "lrrrrrrrrrr",
    optional = { 6, 11, 4, 9, 8 },
    rows = rows,
    notes = notes,
  }
end

-- "r3 48, r1 2, 2 more": the replicas where a class of failures came from, most often first.
local function failed_at(group, class)
  local parts, n = {}, 0
  for _, at_one in ipairs(object(group.failed_at)) do
    if at_one.error == class then
      n = n + 1
      parts[n] = n <= 3 and ("%s %s"):format(tostring(at_one.replica), count(at_one.requests)) or nil
    end
  end
  if n > 3 then
    parts[4] = ("%d more"):format(n - 3)
  end
  return n > 0 and table.concat(parts, ", ") or "—"
end

--- What failed, by class, most often first.
function servers.failures(summary)
  local rows, several = {}, #object(summary.replicas) > 1
  for _, what in ipairs { "requests", "sessions", "other_requests" } do
    local group = object(summary[what])
    local classes, all = object(group.by_error), (num(group.ok) or 0) + (num(group.failed) or 0)
    for _, class in ipairs(sorted_keys(classes, function(a, b)
      return classes[a] ~= classes[b] and classes[a] > classes[b] or classes[a] == classes[b] and a < b
    end)) do
      local name = what == "other_requests" and "plain HTTP" or what
      local row = { { class, mark = "bad" }, name, count(classes[class]),
        all > 0 and quantity(classes[class] / all, "ratio") or "—",
        text(at(group, "detail", class)) or "" }
      if several then
        table.insert(row, 5, failed_at(group, class))
      end
      rows[#rows + 1] = row
    end
  end
  if several then
    return {
      title = "Failures",
      head = { "class", "of", "n", "share", "replicas", "the first one said" },
      align = "llrrll",
      flexible = 6,
      optional = { 4 },
      rows = rows,
    }
  end
  return {
    title = "Failures",
    head = { "class", "of", "n", "share", "the first one said" },
    align = "llrrl",
    flexible = 5,
    rows = rows,
  }
end

return servers
