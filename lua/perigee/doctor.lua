-- The report of `perigee doctor`: facts of src/cmd/doctor.c in, text or JSON and the exit status out.
-- What is asked is perigee.doctor_probe's, what answers mean perigee.doctor_checks' (reaching and
-- naming a server), perigee.doctor_generation's (what it generates) and perigee.doctor_fleet's.
local checks = require "perigee.doctor_checks"
local fleet = require "perigee.doctor_fleet"
local generation = require "perigee.doctor_generation"
local json = require "perigee.json"
local probe = require "perigee.doctor_probe"
local say = require "perigee.doctor_words"
local words = require "perigee.report_text"

local doctor = { questions = probe.questions, parity = probe.parity }

local clean, counted = words.clean, words.counted

local FAILED, NOT_VALID = 1, 98
local NAME_WIDTH = 12
local SGR = { ok = "32", warn = "33", FAIL = "31", title = "1" }

--- Everything there is to say: { endpoints = {{ endpoint, checks }}, comparison, client, counts, status }.
function doctor.examine(facts)
  local found = { endpoints = {}, comparison = fleet.comparison(facts), client = fleet.client(facts),
    counts = { ok = 0, warn = 0, FAIL = 0 } }
  local lists = { found.comparison, found.client }
  for i, e in ipairs(facts.endpoints) do
    local list = checks.server_checks(facts, e)
    found.endpoints[i] = { endpoint = e, checks = list }
    lists[#lists + 1] = list
  end
  for _, list in ipairs(lists) do
    for _, check in ipairs(list) do
      found.counts[check.level] = found.counts[check.level] + 1
    end
  end
  found.status = found.counts.FAIL > 0 and FAILED
    or facts.options.strict and found.counts.warn > 0 and NOT_VALID or 0
  return found
end

-- ---- text ----

local function painter(view)
  return function(s, style)
    return view.color and ("\27[%sm%s\27[0m"):format(SGR[style], s) or s
  end
end

local function add_checks(lines, list, paint)
  for _, check in ipairs(list) do
    local name = check.name .. (" "):rep(math.max(1, NAME_WIDTH - #check.name))
    lines[#lines + 1] = ("  %s %s%s"):format(paint(("%-4s"):format(check.level), check.level), name,
      clean(check.text))
    if check.fix then
      lines[#lines + 1] = (" "):rep(7 + NAME_WIDTH) .. "-> " .. clean(check.fix)
    end
  end
end

local function summary_line(facts, counts, status)
  local n = facts.sent or 0
  return ("%s: %d ok, %s, %s; %s to %s in %s"):format(status == 0 and "healthy" or "not healthy", counts.ok,
    counted(counts.warn, "warning"), counted(counts.FAIL, "failure"), counted(n, "request"),
    counted(#facts.endpoints, "server"), words.quantity((facts.elapsed_ms or 0) / 1000, "s"))
end

--- The report for people. view = { color }.
function doctor.text(facts, view)
  local found, paint, lines = doctor.examine(facts), painter(view), {}
  if facts.simulated then
    lines[#lines + 1] = "The built-in simulated fleet (no server was given: --replica URL, --gateway URL,"
      .. " --fleet FILE)."
  end
  for _, item in ipairs(found.endpoints) do
    local e = item.endpoint
    lines[#lines + 1] = paint(("%s  %s%s"):format(clean(e.id), clean(e.url),
      e.role == "gateway" and "  (gateway)" or ""), "title")
    add_checks(lines, item.checks, paint)
  end
  if #found.comparison > 0 then
    lines[#lines + 1] = paint("replicas among themselves", "title")
    add_checks(lines, found.comparison, paint)
  end
  lines[#lines + 1] = paint("this machine", "title")
  add_checks(lines, found.client, paint)
  lines[#lines + 1] = summary_line(facts, found.counts, found.status)
  return table.concat(lines, "\n") .. "\n", found.status
end

-- ---- JSON ----

local function checks_value(list)
  local out = json.array {}
  for _, check in ipairs(list) do
    out[#out + 1] = json.object { name = check.name, level = check.level, text = clean(check.text),
      fix = check.fix and clean(check.fix) or json.null }
  end
  return out
end

local function or_null(x)
  if x == nil then
    return json.null
  end
  return x
end

local function endpoint_value(item)
  local e = item.endpoint
  local cache, names = probe.cache_config(e) or {}, json.array {}
  for _, m in ipairs(probe.models(e)) do
    names[#names + 1] = clean(m.id)
  end
  local state, n = generation.cached_state(e)
  return json.object { id = e.id, role = e.role, url = e.url, kind = or_null((probe.kind(e))),
    version = or_null(say.version(e)), models = names, block_size = or_null(cache.block_size),
    blocks = or_null(cache.blocks), prefix_caching = or_null(cache.prefix_caching), cached = or_null(state),
    cached_tokens = or_null(n), checks = checks_value(item.checks) }
end

--- The same for programs.
function doctor.json(facts)
  local found, endpoints = doctor.examine(facts), json.array {}
  for i, item in ipairs(found.endpoints) do
    endpoints[i] = endpoint_value(item)
  end
  return json.encode(json.object { healthy = found.status == 0, status = found.status,
    simulated = facts.simulated,
    requests = facts.sent or 0, elapsed_s = (facts.elapsed_ms or 0) / 1000, endpoints = endpoints,
    comparison = checks_value(found.comparison), client = checks_value(found.client),
    parity = type(facts.parity) == "table" and facts.parity.list or json.null }) .. "\n", found.status
end

--- What src/cmd/doctor.c prints, the status in front: "STATUS\nTEXT". view = { json, color }.
function doctor.report(facts, view)
  local text, status = (view.json and doctor.json or doctor.text)(facts, view)
  return ("%d\n%s"):format(status, text)
end

return doctor
