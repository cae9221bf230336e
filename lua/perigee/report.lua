-- The report of a run, on the terminal and as report.md: plain functions from the decoded run.json
-- and summary.json (src/out/ROW.md) to text. perigee.report_data says what is in it. Text from
-- outside, such as a server's error message, is cleaned for the place it goes to (perigee.report_draw).
local data = require "perigee.report_data"
local draw = require "perigee.report_draw"
local words = require "perigee.report_text"

local report = {}

local num, text, object, clean = words.num, words.text, words.object, words.clean
local cut, wrap, escape, code = draw.cut, draw.wrap, draw.escape, draw.code

local SIMULATED = "the fleet is perigee's own; its times are a model's, not a GPU's."
local VIRTUAL = "a dry run in virtual time, without sockets: " .. SIMULATED

-- ---- terminal ----

--- The report for a terminal: at most `width` columns (100), colours only when asked for.
function report.terminal(run, summary, options)
  run, summary, options = object(run), object(summary), object(options)
  local screen = draw.screen(options)
  local width = screen.width
  local word, style, reason, status = data.verdict(summary)
  if status and status ~= 0 then
    reason = ("%s (exit status %d)"):format(reason, status)
  end
  local said = summary.valid == false and status == 98
  local first = said and data.script_failed(summary)
  if first then
    for i, line in ipairs(wrap(first, width - 8)) do
      screen:add((i == 1 and screen:paint("FAILED", "bad") or (" "):rep(6)) .. "  " .. line)
    end
    screen:add()
  end
  -- A run that went wrong otherwise says that first: it may be why the measurement is not valid.
  local leads = not said and (status == 1 or status == 2)
  local function add_verdict()
    screen:verdict(word, style, reason)
  end
  if leads then
    add_verdict()
  end
  if summary.valid == false then
    screen:add(("%s the measurement itself cannot be trusted%s:"):format(
      screen:paint(" INVALID ", "invalid"), said and " (exit status 98)" or ""))
    for _, why in ipairs(data.broken_checks(summary)) do
      for i, line in ipairs(wrap(why, width - 4)) do
        screen:add((i == 1 and "  " or "    ") .. screen:paint(line, "bad"))
      end
    end
    for _, what in ipairs(data.advice(summary)) do
      for _, line in ipairs(wrap(what, width - 2)) do
        screen:add("  " .. line)
      end
    end
    screen:add()
  end
  if not said and not leads then
    add_verdict()
  end
  if data.simulated(run, summary) then
    for i, line in ipairs(wrap(run.virtual_time and VIRTUAL or SIMULATED, width - 11)) do
      screen:add((i == 1 and screen:paint("Simulated:", "warn") or (" "):rep(10)) .. " " .. line)
    end
  end
  screen:pairs(data.banner(run, summary))
  screen:add()
  screen:pairs(data.facts(summary))
  for _, section in ipairs(data.sections(summary, run)) do
    screen:section(section)
  end
  local look = {}
  for i, step in ipairs(data.next_steps(run, summary)) do
    look[i] = step[1]
  end
  if #look > 0 then
    local commands = "has the commands for " .. table.concat(look, ", ")
    screen:list("Where to look next", { { "report.md", commands } })
  end
  screen:list("To run it again", data.again(run))
  if text(run.path) then
    screen:add()
    screen:add(screen:paint("Files", "title") .. "  " .. cut(clean(run.path), width - 8) .. "/")
    local names = {}
    for i, file in ipairs(draw.present(data.files, options.present)) do
      names[i] = { file[1], file[2] }
    end
    screen:pairs(names)
    screen:add()
    screen:add(screen:paint(said and "INVALID" or word, style)
      .. (status and status ~= 0 and (" (exit status %d)"):format(status) or ""))
  end
  return screen:text()
end

-- ---- markdown ----

-- What the metrics of the headline table mean, for readers who were not there.
local function glossary(out, summary, run)
  out[#out + 1] = ""
  out[#out + 1] = "## What the words mean"
  out[#out + 1] = ""
  for _, line in ipairs(data.glossary(summary, run)) do
    out[#out + 1] = ("- %s: %s"):format(code(line[1]), escape(line[2]))
  end
  for _, line in ipairs(data.terms(summary)) do
    out[#out + 1] = ("- *%s*: %s"):format(escape(line[1]), draw.prose(line[2]))
  end
  local infinity = "."
  for _, metric in pairs(object(summary.as_infinity)) do
    if (num(metric.failed) or 0) + (num(metric.incomplete) or 0) > 0 then
      infinity = ", and *no answer = ∞* counts each as one that was never answered."
    end
  end
  out[#out + 1] = "- Percentiles interpolate linearly over all samples; one is not given below 5/(1 − p) "
    .. "samples. Requests that failed or never ended have no latency: they stand beside it" .. infinity
end

local function look_next(out, run, summary)
  local steps = data.next_steps(run, summary)
  if #steps == 0 then
    return
  end
  out[#out + 1] = ""
  out[#out + 1] = "## Where to look next"
  for _, step in ipairs(steps) do
    out[#out + 1] = ""
    out[#out + 1] = step[1]:sub(1, 1):upper() .. step[1]:sub(2) .. ":"
    out[#out + 1] = ""
    draw.fenced(out, step[2])
  end
end

local function run_again(out, run)
  local list = data.again(run)
  if #list == 0 then
    return
  end
  out[#out + 1] = ""
  out[#out + 1] = "## To run it again"
  out[#out + 1] = ""
  if list[1][1] == "command" then
    draw.fenced(out, table.remove(list, 1)[2])
    out[#out + 1] = ""
  end
  draw.pairs(out, list)
end

local function title(run)
  local name = text(run.name) or text(run.label) or text(run.scenario) or "run"
  return ("# %s"):format(escape(name))
end

--- The report as Markdown, for report.md.
function report.markdown(run, summary)
  run, summary = object(run), object(summary)
  local out = {}
  local function add(line)
    out[#out + 1] = line or ""
  end
  add(title(run))
  add()
  local word, _, reason, status = data.verdict(summary)
  local said = summary.valid == false and status == 98
  local first = said and data.script_failed(summary)
  if first then
    add("**FAILED** — " .. escape(first))
    add()
  end
  local leads = not said and (status == 1 or status == 2)
  local function add_verdict()
    add(("**%s**%s%s"):format(word, reason ~= "" and " — " .. escape(reason) or "",
      status and status ~= 0 and (" (exit status %d)"):format(status) or ""))
    add()
  end
  if leads then
    add_verdict()
  end
  if summary.valid == false then
    add(("> **INVALID: the measurement itself cannot be trusted%s.**"):format(
      said and " (exit status 98)" or ""))
    for _, why in ipairs(data.broken_checks(summary)) do
      add("> - " .. escape(why))
    end
    for _, what in ipairs(data.advice(summary)) do
      add ">"
      add("> " .. escape(what))
    end
    add()
  end
  if not said and not leads then
    add_verdict()
  end
  if data.simulated(run, summary) then
    add("> **Simulated:** " .. (run.virtual_time and VIRTUAL or SIMULATED))
    add()
  end
  if text(run.started) then
    add(("Run %s, started %s%s."):format(code(text(run.id) or "?"), escape(run.started),
      num(run.duration_s) and ", took " .. words.quantity(run.duration_s, "s") or ""))
    add()
  end
  draw.pairs(out, data.banner(run, summary))
  add()
  draw.pairs(out, data.facts(summary))
  for _, section in ipairs(data.sections(summary, run)) do
    add()
    add("## " .. section.title)
    add()
    draw.table(out, section)
    for _, note in ipairs(section.notes or {}) do
      add()
      local ranges = note:gsub("^± and ranges are", "The ranges are"):gsub("; ± is the longer side", "")
      add(escape(ranges))
    end
  end
  look_next(out, run, summary)
  run_again(out, run)
  glossary(out, summary, run)
  if text(run.path) then
    add()
    add "## Files"
    add()
    for _, file in ipairs(data.files) do
      add(("- %s: %s"):format(code(file[1]), file[2]))
    end
  end
  return table.concat(out, "\n") .. "\n"
end

return report
