-- What `perigee doctor` says beside the single servers: replicas that are not alike, and this machine.
-- Plain functions of the facts; checks as in perigee.doctor_checks.
local generation = require "perigee.doctor_generation"
local probe = require "perigee.doctor_probe"
local say = require "perigee.doctor_words"
local words = require "perigee.report_text"

local fleet = {}

local count, counted = words.count, words.counted

-- ---- replicas among themselves ----

local function model_names(_, e)
  local names = {}
  for i, m in ipairs(probe.models(e)) do
    names[i] = words.clean(m.id)
  end
  table.sort(names)
  return #names > 0 and table.concat(names, ", ") or nil
end

local function cache_field(name)
  return function(_, e)
    return (probe.cache_config(e) or {})[name]
  end
end

local function same_prompt(_, e)
  local r = probe.stream(e)
  return r and r.result.usage and r.result.usage.prompt
end

local ALIKE = "start all replicas alike"

-- { name, what it is, its value for a server (nil: not known), the way out }
local COMPARED = {
  { "models", "models", model_names, "requests for a model that a replica lacks fail there: one fleet, one"
    .. " model" },
  { "models", "max_model_len", probe.max_model_len, ALIKE .. ": --max-model-len" },
  { "server", "kind of server", function(_, e) return (select(2, probe.kind(e))) end,
    "figures of unlike engines do not compare, and a router's block hashes fit one of them" },
  { "server", "version", function(_, e) return say.version(e) end, ALIKE .. ": the same image" },
  { "cache", "block_size", cache_field "block_size",
    "a router's block hashes fit one size only: the same --block-size everywhere" },
  { "cache", "number of blocks", function(_, e) return probe.usable_blocks(probe.cache_config(e)) end,
    "one replica forgets sooner than another: same GPU, same --gpu-memory-utilization" },
  { "cache", "prefix caching", cache_field "prefix_caching", ALIKE .. ": --enable-prefix-caching" },
  { "cached", "reporting of cached_tokens", function(_, e)
    local state = generation.cached_state(e)
    return (state == "value" or state == "zero") and "reported" or state
      or probe.stream(e) and "no usage at all" or nil
  end, ALIKE .. ": --enable-prompt-tokens-details (vLLM), --enable-cache-report (SGLang)" },
  { "tokens", "tokens of one and the same prompt", same_prompt,
    "tokenizers or chat templates differ: the same model files, the same --chat-template" },
}

local function shown(x)
  return math.type(x) == "integer" and count(x) or tostring(x)
end

-- { value, ids } groups in order of appearance, and how many servers are in them.
local function groups_of(facts, value_of)
  local groups, by_value, n = {}, {}, 0
  for _, e in ipairs(facts.endpoints) do
    local value = nil
    if e.role == "replica" then
      value = value_of(facts, e)
    end
    if value ~= nil then
      local group = by_value[value]
      if not group then
        group = { value = value, ids = {} }
        by_value[value] = group
        groups[#groups + 1] = group
      end
      group.ids[#group.ids + 1] = e.id
      n = n + 1
    end
  end
  return groups, n
end

local function ids_text(ids)
  return #ids > 6 and ("%s … (%s)"):format(table.concat(ids, " ", 1, 5), counted(#ids, "replica"))
    or table.concat(ids, " ")
end

--- Whether the replicas are alike: nothing for fewer than two that answered.
function fleet.comparison(facts)
  local list, most, agreed, reached = {}, 0, {}, 0
  for _, e in ipairs(facts.endpoints) do
    reached = reached + (e.role == "replica" and probe.answers(e) and 1 or 0)
  end
  for _, item in ipairs(COMPARED) do
    local groups, n = groups_of(facts, item[3])
    most = math.max(most, n)
    if #groups > 1 then
      local parts = {}
      for i, group in ipairs(groups) do
        parts[i] = ("%s: %s"):format(ids_text(group.ids), shown(group.value))
      end
      list[#list + 1] = { name = item[1], level = "warn", fix = item[4],
        text = ("%s not the same: %s"):format(item[2], table.concat(parts, "; ")) }
    elseif n > 1 then
      agreed[#agreed + 1] = item[2] .. (n < reached and (" (of %d)"):format(n) or "")
    end
  end
  if most < 2 then
    return {}
  end
  if #agreed > 0 then
    table.insert(list, 1, { name = "alike", level = "ok",
      text = ("the same on %s: %s"):format(counted(math.max(most, reached), "replica"),
        table.concat(agreed, ", ")) })
  end
  return list
end

-- ---- this machine ----

local FEW_DESCRIPTORS = 4096

local function tokenizer_text(client)
  local parts = {}
  for i, folder in ipairs(client.tokenizers or {}) do
    local names = table.concat(folder.names or {}, " ")
    parts[i] = ("%s (%s)"):format(folder.path, names ~= "" and names or "nothing there")
  end
  return parts
end

--- Descriptors, timestamps, processors, libraries, tokenizer data.
function fleet.client(facts)
  local c, list = facts.client, {}
  local function add(name, level, text, fix)
    list[#list + 1] = { name = name, level = level, text = text, fix = fix }
  end
  local few = (c.descriptors or 0) < FEW_DESCRIPTORS
  add("descriptors", few and "warn" or "ok", ("%s may be open at once (hard limit %s)"):format(
    count(c.descriptors), count(c.descriptors_hard)),
    few and "each connection is one: `ulimit -Hn 65536` before many users" or nil)
  if c.kernel_stamps then
    add("timestamps", "ok", "the kernel stamps what is received (SO_TIMESTAMPING)")
  else
    add("timestamps", "warn", "the kernel does not stamp what is received: times are the loop's, and late"
      .. " when it is busy",
      "gVisor and some sandboxes lack SO_TIMESTAMPING: run on a plain kernel for microseconds")
  end
  local cpus = ("%s of %s may be used"):format(counted(c.cpus, "processor"), count(c.cpus_online))
  if c.governor and c.governor ~= "performance" then
    add("processors", "warn", ("%s; their governor is %s"):format(cpus, words.clean(c.governor)),
      "slow clocks make stamps late: cpupower frequency-set -g performance")
  else
    add("processors", "ok", cpus .. (c.governor and "; governor " .. words.clean(c.governor) or ""))
  end
  add("versions", "ok", c.versions)
  local found = false
  for _, folder in ipairs(c.tokenizers or {}) do
    found = found or #(folder.names or {}) > 0
  end
  add("tokenizers", "ok", table.concat(tokenizer_text(c), "; ")
    .. (found and "" or "; `make deps` fetches some, --tokenizer takes any tokenizer.json"))
  if facts.options.insecure then
    add("tls", "warn", "certificates are not verified (--insecure)",
      "name the authority instead: --ca-file FILE.pem")
  end
  return list
end

return fleet
