-- `perigee calibrate`: a profile for `perigee sim --profile` from recorded runs. What can be learnt from
-- rows is in calibrate_rows, the arithmetic in calibrate_fit, the texts in calibrate_text.
local core = require "perigee.core"
local fit = require "perigee.calibrate_fit"
local json = require "perigee.json"
local rows = require "perigee.calibrate_rows"
local texts = require "perigee.calibrate_text"
local words = require "perigee.report_text"

local calibrate = {}

local MOST_APART = 1.15 -- replicas whose figures differ by more are not one kind of machine
local FACTS = { kv_tokens = true, block_size = true, max_model_len = true, max_num_batched_tokens = true,
  max_num_seqs = true }

-- ---- reading a run ----

local function refuse(status, ...)
  return nil, (...):format(select(2, ...)), status
end

local function read_json(path)
  local file = io.open(path, "r")
  local text = file and file:read "a"
  if file then
    file:close()
  end
  return text and json.decode(text, { drop_null = true })
end

-- Rows of a .jsonl file; its last line may have been cut off, when the run was killed. `odd` says what is
-- wrong with a row.
local function read_lines(path, odd)
  local file, why = io.open(path, "r")
  if not file then
    return refuse(2, "%s: is this the folder of a run? (%s)", path:match "^(.*)/", tostring(why))
  end
  local list, number, bad, message = {}, 0, nil, nil
  for line in file:lines() do
    number = number + 1
    if bad then
      file:close()
      return refuse(2, "%s:%d: %s; the file has been changed since the run wrote it", path, bad, message)
    end
    local row
    row, message = json.decode(line, { drop_null = true })
    local wrong = odd and type(row) == "table" and odd(row)
    if wrong then
      file:close()
      return refuse(2, "%s:%d: %s; the file has been changed since the run wrote it", path, number, wrong)
    elseif type(row) == "table" then
      list[#list + 1] = row
    else
      bad, message = number, message or "no row"
    end
  end
  file:close()
  return list, bad and 1 or 0
end

-- What the run's script recorded of its server (scenarios/calibrate.lua does); a figure that differs
-- between sessions is not known.
local function recorded_facts(folder)
  local facts, differ = {}, {}
  for _, row in ipairs(read_lines(folder .. "/values.jsonl") or {}) do
    local name, value = row.metric, math.tointeger(row.value)
    if FACTS[name] and value and value > 0 then
      if facts[name] and facts[name] ~= value then
        differ[name] = true
      end
      facts[name] = value
    end
  end
  for name in pairs(differ) do
    facts[name] = nil
  end
  return facts
end

-- One run: { folder, id, model, simulated, rows, cut, facts, servers }.
local function read_run(folder)
  folder = folder:gsub("(.)/+$", "%1")
  local list, cut, status = read_lines(folder .. "/samples.jsonl", rows.odd)
  if not list then
    return nil, cut, status
  end
  local info = read_json(folder .. "/run.json")
  if type(info) ~= "table" then
    info = {}
  end
  local fleet = words.object(info.fleet)
  local replicas = {}
  for _, replica in ipairs(words.object(fleet.replicas)) do
    replicas[#replicas + 1] = { id = words.text(words.object(replica).id) }
  end
  return { folder = folder, id = words.text(info.id) or folder:match "[^/]*$", rows = list,
    model = words.text(fleet.model), cut = cut, simulated = info.simulated == true, number = 0,
    unfinished = info.unfinished == true, facts = recorded_facts(folder), gateway = words.text(fleet.gateway),
    replicas = replicas }
end

-- Names the server of a row: the replica that answered, else the only one there is.
local function group_of(run, only)
  local single = #run.replicas == 1 and run.replicas[1].id or #run.replicas == 0 and "gateway" or nil
  return function(row)
    local id = row.served or row.chosen or single
    if not id or only and id ~= only then
      return nil
    end
    return ("%s of %s"):format(id, run.id)
  end
end

-- ---- replicas among themselves ----

-- One figure by group of observations, as `figure` makes it of a list (nil: it cannot); those that lie
-- too far apart, as text.
local function apart(list, figure, show, what)
  local groups, names = {}, {}
  for _, o in ipairs(list) do
    if not groups[o.group] then
      groups[o.group] = {}
      names[#names + 1] = o.group
    end
    table.insert(groups[o.group], o)
  end
  local low, high
  for _, name in ipairs(names) do
    local m = figure(groups[name])
    low = m and (not low or m < low[1]) and { m, name } or low
    high = m and (not high or m > high[1]) and { m, name } or high
  end
  if low and high[1] > low[1] * MOST_APART then
    return ("%s differ: %s %s, %s %s"):format(what, show(low[1]), low[2], show(high[1]), high[2])
  end
end

-- The step at batch 1 and a short context.
local function short_step(decodes)
  local list = {}
  for _, d in ipairs(decodes) do
    list[#list + 1] = d.batch == 1 and d.context < 1000 and d.ns or nil
  end
  return #list >= 3 and fit.median(list) or nil
end

local function differences(prefills, decodes)
  return apart(prefills, fit.token_ns, texts.rate, "prefill rates")
    or apart(decodes, short_step, texts.milliseconds, "decode steps at batch 1")
end

-- ---- the whole ----

local function merge_facts(runs, options)
  local facts, from = {}, {}
  for _, run in ipairs(runs) do
    for name, value in pairs(run.facts) do
      if from[name] == nil then
        facts[name], from[name] = value, "said by the server, in " .. run.id
      elseif facts[name] ~= value then
        facts[name], from[name] = nil, false
      end
    end
  end
  for name in pairs(FACTS) do
    if options[name] then
      facts[name], from[name] = options[name], "given with --" .. (name:gsub("_", "-"))
    end
  end
  if facts.kv_tokens and facts.block_size then
    facts.kv_tokens = facts.kv_tokens // facts.block_size * facts.block_size
  end
  return facts, from
end

--- Fits runs that read_run read. `options`: { replica, cold, kv_tokens, block_size, max_model_len, name }.
--- Returns the result that calibrate_text shows, or nil, why not, status.
function calibrate.fit(runs, options)
  local requests, model, simulated, cut, total, failed, unknown = {}, nil, false, 0, 0, 0, 0
  local gateway, unfinished = false, false
  for _, run in ipairs(runs) do
    if model and run.model and run.model ~= model then
      return refuse(2, "runs of several models: %s in %s, %s before; one profile is of one model", run.model,
        run.folder, model)
    end
    model = model or run.model
    simulated, cut, total = simulated or run.simulated, cut + run.cut, total + #run.rows
    gateway, unfinished = gateway or run.gateway ~= nil, unfinished or run.unfinished
    local name_of = group_of(run, options.replica)
    for _, row in ipairs(run.rows) do
      local elsewhere = options.replica and row.served ~= nil and row.served ~= options.replica
      failed = failed + (row.error ~= nil and not elsewhere and 1 or 0)
      unknown = unknown + (row.generation and not elsewhere and not name_of(row) and 1 or 0)
      if options.cold and row.cached_state == "absent" and row.prompt_tokens then
        row.cached_state, row.cached_tokens = "zero", 0
      end
    end
    table.move(rows.requests(run.rows, name_of), 1, #run.rows, #requests + 1, requests)
  end
  if #requests == 0 then
    return refuse(98, "%s", total == 0 and "there is no row in it: the run ended before any request did"
      or options.replica and ("no request went to replica %s"):format(options.replica)
      or "no row is of a generation request whose replica is known: run against one replica's own URL")
  end
  local prefills, left = rows.prefills(requests)
  local stretches, used = rows.decodes(requests)
  local differ = differences(prefills, stretches)
  if differ then
    return refuse(98, "the replicas are not alike, %s; fit one of them, with --replica ID or one run at a "
      .. "time", differ)
  end
  local facts, from = merge_facts(runs, options)
  local result = { runs = runs, name = options.name, model = model, simulated = simulated, cut = cut,
    total = total, failed = failed, unplaced = unknown, gateway = gateway, left = left, used = used,
    facts = facts, from = from, cold = options.cold, unfinished = unfinished or false }
  local why, lacks
  result.prefill, why = fit.prefill(prefills)
  if not result.prefill then
    return refuse(98, "prefill: %s%s", why, texts.more_prefill(left))
  end
  result.cells, result.thin = fit.cells(stretches)
  result.decode, why, lacks = fit.decode(result.cells)
  if not result.decode then
    return refuse(98, "decode: %s%s", why, texts.more_decode(lacks))
  end
  return result
end

--- Reads the runs in these folders and fits them; as calibrate.fit.
function calibrate.folders(folders, options)
  local runs = {}
  for i, folder in ipairs(folders) do
    local run, why, status = read_run(folder)
    if not run then
      return nil, why, status
    end
    runs[i] = run
  end
  return calibrate.fit(runs, options)
end

-- ---- the command ----

local function write_profile(path, text)
  local there = io.open(path, "r")
  if there then
    local head = there:read "l" or ""
    there:close()
    if not head:find("^%-%- A profile for `perigee sim %-%-profile`") then
      return nil, path
        .. " is there already and is not a profile that calibrate wrote; choose another name"
    end
  end
  local file, why = io.open(path, "w")
  local ok = file and file:write(text)
  if file then
    local closed, reason = file:close()
    ok, why = ok and closed, why or reason
  end
  return ok and true or nil, tostring(why)
end

local VALUES = { ["--out"] = "out", ["-o"] = "out", ["--name"] = "name", ["--replica"] = "replica",
  ["--kv-tokens"] = "kv_tokens", ["--block-size"] = "block_size", ["--max-model-len"] = "max_model_len",
  ["--max-num-batched-tokens"] = "max_num_batched_tokens", ["--max-num-seqs"] = "max_num_seqs" }
local FLAGS = { ["--json"] = "json", ["--cold"] = "cold" }
local NAMES = { "--help", "--out", "--name", "--replica", "--kv-tokens", "--block-size", "--max-model-len",
  "--max-num-batched-tokens", "--max-num-seqs", "--json", "--cold" }

-- { options, folders }, or nil and what is wrong.
local function parse(args)
  local options, folders, i = {}, {}, 1
  while i <= #args do
    local arg = args[i]
    local name, value = arg:match "^(%-%-[^=]+)=(.*)$"
    name = name or arg
    if VALUES[name] then
      if not value then
        i = i + 1
        value = args[i]
      end
      if not value or value == "" then
        return nil, name .. " needs a value"
      end
      local field = VALUES[name]
      if FACTS[field] then
        local n = math.tointeger(tonumber(value))
        if not n or n < 1 or n > 1e9 then
          return nil, ("%s must be a whole number from 1 to 1000000000, not '%s'"):format(name,
            value)
        end
        value = n
      end
      options[field] = value
    elseif FLAGS[arg] then
      options[FLAGS[arg]] = true
    elseif arg:sub(1, 1) == "-" then
      return nil, core.unknown_option("calibrate", arg, NAMES)
    else
      folders[#folders + 1] = arg
    end
    i = i + 1
  end
  if #folders == 0 then
    return nil, "the folder of a run is expected, as in perigee calibrate results/calibrate-20261130-101500"
  end
  local file = options.out and options.out:match("[^/]*$"):gsub("%.lua$", "")
  options.name = options.name or file or "calibrated"
  if #options.name > 39 or not options.name:find "^[%w][%w%._+-]*$" then
    return nil, ("--name: '%s' is no name for a profile: up to 39 letters, digits, and . _ + -"):format(
      options.name)
  end
  return { options, folders }
end

--- The command.
function calibrate.main(args)
  for _, arg in ipairs(args) do
    if arg == "--help" or arg == "-h" then
      io.write(texts.usage)
      return 0
    end
  end
  local parsed, why = parse(args)
  if not parsed then
    local hint = why:find("--help`", 1, true) and "" or "; see `perigee calibrate --help`"
    io.stderr:write("perigee calibrate: ", why, hint, "\n")
    return 2
  end
  local options = parsed[1]
  local result, reason, status = calibrate.folders(parsed[2], options)
  if not result then
    io.stderr:write("perigee calibrate: ", reason, "\n")
    return status
  end
  local profile = texts.profile(result)
  if options.out then
    local ok
    ok, why = write_profile(options.out, profile)
    if not ok then
      io.stderr:write("perigee calibrate: ", why, "\n")
      return 1
    end
  end
  if options.json then
    io.write(json.encode(texts.value(result, options.out), { pretty = true }), "\n")
  else
    io.write(texts.report(result))
    io.write(options.out and texts.next_step(result, options.out) or "\n" .. profile)
  end
  return 0
end

return calibrate
