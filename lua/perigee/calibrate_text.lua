-- What `perigee calibrate` says: the table of quality, the profile file, JSON. Plain functions of the
-- result that perigee.calibrate fits.
local fit = require "perigee.calibrate_fit"
local json = require "perigee.json"
local words = require "perigee.report_text"

local texts = {}

texts.usage = [[
Usage: perigee calibrate RUN... [--out FILE.lua] [--name NAME] [--json] [options]

Fits a profile for `perigee sim --profile` from recorded runs against a real server. RUN is the folder
of a run, best of the shipped scenario that sends what is needed, one replica, nobody else on it:

  perigee run calibrate --itl --replica gpu=http://10.0.0.1:8000
  perigee calibrate results/calibrate-20261130-101500 --out my-gpu.lua
  perigee run tuning_loop --profile my-gpu.lua

- Prefill rate and overhead from the time to the first token against uncached tokens, of requests that
  came while the server had nothing else of the run to do. Requests whose cached tokens are not known
  (vLLM reports them with --enable-prompt-tokens-details) are left out, or taken for cold with --cold.
- Decode steps by batch and context from the gaps between tokens (rows have them with `run --itl`; without,
  from the mean of each answer) where no other prompt was computed. The batch is that of the run's own
  requests on the same replica.
- KV budget, block size and context length as the scenario found them in /metrics and /v1/models, or as
  given. They cannot be fitted; nor can the memories behind the cache, which the profile leaves off.

  --out FILE.lua       writes the profile there; else it is printed behind the table
  --name NAME          its name; default: the file's
  --replica ID         only this replica's requests
  --cold               prompts without a count of cached tokens were cold
  --kv-tokens N        tokens that the KV cache holds
  --block-size N       tokens of a block
  --max-model-len N    tokens of the longest context
  --max-num-batched-tokens N, --max-num-seqs N
                       the server's limits of a step; the wire does not tell them, and they decide how
                       prompts that come together share steps (default: vLLM's on large GPUs, 8192, 1024)
  --json               the result as JSON

Status 98: the runs do not say enough; the message names the experiment that is missing.
]]

local EXPERIMENT = "`perigee run calibrate --itl` with one replica's URL"

function texts.milliseconds(ns)
  return words.quantity(ns / 1e9, "s")
end

--- The rate of so many ns a token.
function texts.rate(ns)
  return words.count(1e9 / ns) .. " tokens/s"
end

local ms = texts.milliseconds

--- What to do when prefill cannot be fitted.
function texts.more_prefill(left)
  local reasons = {}
  for _, why in ipairs { { "busy", "came while others were served" },
    { "unknown", "have no known cached tokens (--cold takes them for cold)" }, { "failed", "failed" },
    { "not_streamed", "were not streamed" } } do
    if left[why[1]] > 0 then
      reasons[#reasons + 1] = ("%d %s"):format(left[why[1]], why[2])
    end
  end
  return (#reasons > 0 and " (left out: " .. table.concat(reasons, ", ") .. ")" or "")
    .. "; send cold prompts of spread lengths one at a time: " .. EXPERIMENT .. " does (phase prefill)"
end

--- What to do when decoding cannot be fitted.
function texts.more_decode(lacks)
  local what = {
    batches = "send several answers at the same time, 1, 2, 4 … of them",
    contexts = "let answers follow short and long prompts",
    decodes = "let answers of 50 and more tokens run side by side, with no prompt computed beside them",
  }
  return ("; %s: %s does (phase decode)"):format(what[lacks], EXPERIMENT)
end

-- ---- terms ----

-- How figures of a kind are shown: in which unit, with how many digits at least.
local RATE = { of = function(ns) return 1e9 / ns end, unit = "tokens/s", digits = 1 }
local MS = { of = function(ns) return ns / 1e6 end, unit = "ms", digits = 3 }
local NS = { of = function(ns) return ns end, unit = "ns", digits = 4 }
local MOST_DIGITS, MOST_DECIMALS = 9, 12

-- { estimate, interval } of a term as texts, both with so many decimals that the interval's ends differ.
local function shown(kind, value, pair)
  if value == 0 then
    return "0", "—"
  end
  local x = kind.of(value)
  local size = math.floor(math.log(math.abs(x), 10)) + 1 -- digits before the point
  local digits = kind.digits
  local function text(y)
    return words.decimal(y, math.min(MOST_DECIMALS, math.max(0, digits - size)))
  end
  if not pair or pair[2] <= 0 then
    return text(x) .. " " .. kind.unit, "—"
  end
  local low, high = kind.of(pair[1]), kind.of(pair[2])
  if high < low then
    low, high = high, low
  end
  while digits < MOST_DIGITS and text(low) == text(high) do
    digits = digits + 1
  end
  local ends = text(low) == text(high) and ("no spread in %d digits"):format(MOST_DIGITS)
    or ("%s to %s %s"):format(text(low), text(high), kind.unit)
  return text(x) .. " " .. kind.unit, ends
end

-- A relative error: one that is small, but more than what arithmetic leaves, is not shown as none.
local function share(x)
  return x < 5e-10 and "0 %" or (x < 0.0005 and "%.2g %%" or "%.1f %%"):format(x * 100)
end

-- { name, estimate, interval, n, median error, worst } of each term.
local function terms(r)
  local p, d = r.prefill, r.decode
  local function row(name, kind, value, interval, n, of)
    local estimate, ends = shown(kind, value, interval)
    return { name, estimate, ends, n, share(of.error.median), share(of.error.worst) }
  end
  local requests, gaps = ("%d requests"):format(p.n), 0
  for _, cell in ipairs(d.cells) do
    gaps = gaps + cell.gaps
  end
  local steps = ("%d kinds, %s gaps"):format(#d.cells, words.count(gaps))
  local prefill, decode = p.ci or {}, d.ci or {}
  return {
    row("prefill_tokens_per_s", RATE, p.token_ns, prefill[2], requests, p),
    row("prefill_context", NS, p.context_ns, prefill[3], requests, p),
    row("request_overhead", MS, p.overhead_ns, prefill[1], requests, p),
    row("decode_base", MS, d.base_ns, decode[1], steps, d),
    row("decode_seq", NS, d.seq_ns, decode[2], steps, d),
    row("decode_context", NS, d.context_ns, decode[3], steps, d),
  }
end

local function aligned(list)
  local widths, lines = {}, {}
  for _, row in ipairs(list) do
    for i, cell in ipairs(row) do
      widths[i] = math.max(widths[i] or 0, utf8.len(cell) or #cell)
    end
  end
  for k, row in ipairs(list) do
    local parts = {}
    for i, cell in ipairs(row) do
      parts[i] = cell .. (" "):rep(widths[i] - (utf8.len(cell) or #cell))
    end
    lines[k] = ("  " .. table.concat(parts, "  ")):gsub("%s+$", "")
  end
  return table.concat(lines, "\n") .. "\n"
end

-- The decode table: batches down, contexts across; a step in brackets was not seen.
local function decode_table(r)
  local batches, contexts, seen, by = {}, {}, {}, {}
  for _, cell in ipairs(r.decode.cells) do
    local column = math.floor(math.log(cell.context + 1, 2) * 2 + 0.5)
    if not seen["b" .. cell.batch] then
      seen["b" .. cell.batch] = true
      batches[#batches + 1] = cell.batch
    end
    if not seen["c" .. column] then
      seen["c" .. column] = { column = column, context = cell.context }
      contexts[#contexts + 1] = seen["c" .. column]
    end
    by[cell.batch .. ":" .. column] = cell
  end
  table.sort(batches)
  table.sort(contexts, function(a, b) return a.column < b.column end)
  local list = { { "batch \\ context" } }
  for _, c in ipairs(contexts) do
    table.insert(list[1], words.count(c.context))
  end
  for _, batch in ipairs(batches) do
    local row = { tostring(batch) }
    for _, c in ipairs(contexts) do
      local cell = by[batch .. ":" .. c.column]
      row[#row + 1] = cell and ("%.2f"):format(cell.ns / 1e6)
        or ("(%.2f)"):format(fit.step(r.decode, batch, c.context) / 1e6)
    end
    list[#list + 1] = row
  end
  return aligned(list)
end

-- What a reader must know of the data, a line each.
local function notes(r)
  local list = {}
  local function note(...)
    list[#list + 1] = (...):format(select(2, ...))
  end
  if r.simulated then
    note "the run was against a simulated fleet: these are a model's figures, not a GPU's"
  end
  if r.gateway then
    note "requests went through a gateway: batches are right only if one replica is behind it"
  end
  local left = r.left
  note("prefill: %d requests ran alone; left out: %d beside others, %d without known cached tokens, "
    .. "%d failed, %d not streamed", r.prefill.n, left.busy, left.unknown, left.failed, left.not_streamed)
  if r.cold then
    note "--cold: prompts without a count of cached tokens were taken for cold"
  end
  if r.used.means > 0 then
    note("decode: %d answers have no gaps (record them with `perigee run --itl`); their means (tpot) are "
      .. "used where the batch hardly changed", r.used.means)
  end
  if r.thin > 0 then
    note("decode: %d kinds of steps with fewer than 8 gaps are left out", r.thin)
  end
  for _, cell in ipairs(r.decode.odd) do
    note("decode: batch %d at context %.0f took %s, where what fits the others has %s: left out, so that "
      .. "time stands", cell.batch, cell.context, ms(cell.ns), ms(cell.fitted_ns))
  end
  note("decode: measured at batches %d to %d and contexts %.0f to %.0f; all else is extrapolated by the "
    .. "formula", r.decode.batches[1], r.decode.batches[2], r.decode.contexts[1], r.decode.contexts[2])
  if r.unfinished then
    note "the run did not come to its end (run.json says unfinished): it goes on, or was killed"
  end
  if r.cut > 0 then
    note "the last line of samples.jsonl is cut off (the run was killed?) and left out"
  end
  if r.unplaced > 0 then
    note("%d requests are left out: which replica they went to is not known", r.unplaced)
  end
  if not r.facts.kv_tokens then
    note("KV budget: %s: give --kv-tokens N, or the profile does not load without a line kv_tokens = N",
      r.from.kv_tokens == false and "the runs differ" or "not known")
  end
  if not r.facts.max_num_batched_tokens then
    note("limits of a step: perigee's defaults (8192 tokens, 1024 sequences, vLLM's on large GPUs); give the "
      .. "server's own with --max-num-batched-tokens and --max-num-seqs")
  end
  note "not fitted: step_overhead (it is in decode_base and request_overhead), tiers"
  return list
end

--- The table of quality.
function texts.report(r)
  local ids = {}
  for i, run in ipairs(r.runs) do
    ids[i] = words.clean(run.id)
  end
  local list = { { "term", "estimate", "95 % interval", "from", "median error", "worst" } }
  table.move(terms(r), 1, 6, 2, list)
  local model = r.model and (" (model %s)"):format(words.clean(r.model)) or ""
  local out = { ("%s from %s%s\n\n"):format(r.name, table.concat(ids, ", "), model), aligned(list),
    "\nDecode step, ms (in brackets: by the formula, not seen)\n", decode_table(r), "\n" }
  for _, note in ipairs(notes(r)) do
    out[#out + 1] = "- " .. note .. "\n"
  end
  return table.concat(out)
end

--- What to do with the file.
function texts.next_step(r, path)
  local how = path:find "%.lua$" and path or path:find "/" and path or "./" .. path
  if not r.facts.kv_tokens then
    return ("\nwrote %s; it needs a line kv_tokens = N before `perigee sim --profile %s`\n"):format(path, how)
  end
  return ("\nwrote %s; next: perigee run tuning_loop --profile %s\n"):format(path, how)
end

-- ---- the profile ----

local function comment(line)
  return "-- " .. words.clean(line) .. "\n"
end

--- The text of the profile file.
function texts.profile(r)
  local p, d = r.prefill, r.decode
  local out = {}
  local function add(fmt, ...)
    out[#out + 1] = fmt:format(...) .. "\n"
  end
  add "-- A profile for `perigee sim --profile`, written by `perigee calibrate` from"
  for _, run in ipairs(r.runs) do
    local of = run.simulated and " (of a SIMULATED fleet, not of a GPU)" or ""
    out[#out + 1] = comment(("  %s%s"):format(run.id, of))
  end
  if r.model then
    out[#out + 1] = comment("model " .. r.model)
  end
  local by = terms(r)
  for _, note in ipairs(notes(r)) do
    out[#out + 1] = comment(note)
  end
  add "return {"
  add("  name = %q,", r.name)
  add("  summary = %q,", ("calibrated%s%s"):format(r.simulated and " from a simulated run" or "",
    r.model and #r.model < 60 and ", " .. words.clean(r.model):gsub('[\\"]', "") or ""))
  local function term(k)
    return ("%s; %s; error median %s, worst %s"):format(by[k][3], by[k][4], by[k][5], by[k][6])
  end
  add("  -- %s", term(1))
  add("  prefill_tokens_per_s = %.9g,", 1e9 / p.token_ns)
  if p.context_ns > 0 then
    add("  -- %s", term(2))
    add("  prefill_context = %.9g, -- s, each token for each token before it", p.context_ns / 1e9)
  end
  add("  -- %s; with the network and what a step costs besides", term(3))
  add("  request_overhead = %.9g, -- s", p.overhead_ns / 1e9)
  add("  -- Fitted when it is read: base %s, %s a sequence, %s a token; error median %s, worst %s", by[4][2],
    by[5][2], by[6][2], by[4][5], by[4][6])
  add "  decode_steps = {"
  for _, cell in ipairs(d.cells) do
    local off = fit.step(d, cell.batch, cell.context) / cell.ns - 1
    add("    { batch = %d, context = %.6g, time = %.9g }, -- %d gaps of %d answers, fit %s%s",
      cell.batch, cell.context, cell.ns / 1e9, cell.gaps, cell.requests, off < 0 and "-" or "+",
      share(math.abs(off)))
  end
  add "  },"
  for _, name in ipairs { "block_size", "kv_tokens", "max_model_len", "max_num_batched_tokens",
    "max_num_seqs" } do
    if r.facts[name] then
      add("  %s = %d, -- %s", name, r.facts[name], words.clean(r.from[name]))
    elseif name == "kv_tokens" then
      add "  -- kv_tokens = N, must be given: it was neither said by the server nor with --kv-tokens"
    else
      add("  -- %s is not known: perigee's default holds", name)
    end
  end
  add "}"
  return table.concat(out)
end

--- The result as JSON.
function texts.value(r, path)
  local p, d = r.prefill, r.decode
  local function scaled(pair)
    return pair and json.array { pair[1] / 1e9, pair[2] / 1e9 } or json.null
  end
  local function error_of(of)
    return json.object { { "median", of.error.median }, { "worst", of.error.worst } }
  end
  local cells, odd = json.array {}, json.array {}
  for i, cell in ipairs(d.cells) do
    cells[i] = json.object { { "batch", cell.batch }, { "context", cell.context }, { "time", cell.ns / 1e9 },
      { "fitted", fit.step(d, cell.batch, cell.context) / 1e9 }, { "gaps", cell.gaps },
      { "requests", cell.requests } }
  end
  for i, cell in ipairs(d.odd) do
    odd[i] = json.object { { "batch", cell.batch }, { "context", cell.context }, { "time", cell.ns / 1e9 },
      { "fitted", cell.fitted_ns / 1e9 } }
  end
  local rate = p.ci and p.ci[2]
  return json.object {
    { "name", r.name }, { "model", r.model or json.null }, { "simulated", r.simulated },
    { "out", path or json.null },
    { "prefill", json.object { { "n", p.n }, { "tokens", json.array { p.least, p.most } },
      { "prefill_tokens_per_s", 1e9 / p.token_ns },
      { "prefill_tokens_per_s_ci95", rate and json.array { 1e9 / rate[2], 1e9 / rate[1] } or json.null },
      { "prefill_context", p.context_ns / 1e9 },
      { "prefill_context_ci95", p.context_ns > 0 and scaled(p.ci and p.ci[3]) or json.null },
      { "request_overhead", p.overhead_ns / 1e9 }, { "request_overhead_ci95", scaled(p.ci and p.ci[1]) },
      { "error", error_of(p) }, { "left_out", json.object(r.left) } } },
    { "decode", json.object { { "decode_base", d.base_ns / 1e9 },
      { "decode_base_ci95", scaled(d.ci and d.ci[1]) },
      { "decode_seq", d.seq_ns / 1e9 }, { "decode_seq_ci95", scaled(d.ci and d.ci[2]) },
      { "decode_context", d.context_ns / 1e9 }, { "decode_context_ci95", scaled(d.ci and d.ci[3]) },
      { "error", error_of(d) }, { "answers_with_gaps", r.used.gaps }, { "answers_by_mean", r.used.means },
      { "steps", cells }, { "odd", odd } } },
    { "kv_tokens", r.facts.kv_tokens or json.null }, { "block_size", r.facts.block_size or json.null },
    { "max_model_len", r.facts.max_model_len or json.null }, { "notes", json.array(notes(r)) },
  }
end

return texts
