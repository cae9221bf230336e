-- Token parity in words: what `perigee parity` prints, and what a run's report says of it. The lists are
-- those of src/cmd/paritycheck.h.
local words = require "perigee.report_text"

local text, num, object, clean, count = words.text, words.num, words.object, words.clean, words.count

local parity = {}

local MARK = { equal = "✓", count = "≈", differs = "✗", refused = "✓" }
local SAID = {
  equal = "equal ids", count = "equal counts (no ids to be had)", differs = "DIFFERS",
  refused = "both refuse it", skipped = "not compared", error = "not compared", unknown = "not compared",
}

local function verdict_words(case)
  local said = SAID[text(case.verdict) or ""] or tostring(case.verdict)
  local difference = case.difference
  if case.verdict == "differs" and type(difference) == "table" and num(difference.index) then
    return ("%s at token %d"):format(said, difference.index)
  end
  return said
end

--- One row a case: mark, verdict, server, renderer, case, form, evidence, tokens here and there, words.
function parity.rows(list)
  local rows = {}
  for _, entry in ipairs(object(list)) do
    for _, case in ipairs(object(entry.cases)) do
      rows[#rows + 1] = {
        mark = MARK[case.verdict] or "·",
        verdict = case.verdict,
        server = clean(entry.server or "?"),
        renderer = clean(text(entry.renderer) or "none"),
        case = clean(case.case or "?"),
        form = clean(case.form or "?"),
        evidence = clean(text(case.evidence) or "—"),
        here = num(case.local_tokens) and count(case.local_tokens) or "—",
        there = num(case.server_tokens) and count(case.server_tokens) or "—",
        words = verdict_words(case),
      }
    end
  end
  return rows
end

local function side(name, id, shown)
  local token = num(id) and ("token %d"):format(id) or "(ended)"
  return ("%s %s  %s"):format(name, token, clean(text(shown) or ""))
end

local STRENGTH = { exact = "tried: ", count = "tried, by count: ", partial = "tried, part of it: " }

local function why_lines(case)
  local lines, difference = {}, case.difference
  if text(case.reason) then
    lines[#lines + 1] = clean(case.reason)
  end
  if type(difference) == "table" and num(difference.index) then
    local n, before = difference.index, clean(text(difference.before) or "")
    lines[#lines + 1] = n == 0 and "they differ from the first token on"
      or n == 1 and "the first token is equal; then, behind " .. before
      or ("the first %s tokens are equal; then, behind %s"):format(count(n), before)
    lines[#lines + 1] = side("here  ", difference.local_id, difference["local"])
    lines[#lines + 1] = side("server", difference.server_id, difference.server)
    if difference.same_text == true then
      lines[#lines + 1] = "both stand for the same text"
    end
  end
  for _, cause in ipairs(object(case.causes)) do
    lines[#lines + 1] = ("cause %s: %s (%s%s)"):format(clean(cause.name or "?"), clean(cause.text or ""),
      STRENGTH[cause.strength] or "", clean(cause.test or ""))
  end
  if case.verdict == "differs" and #object(case.causes) == 0 then
    lines[#lines + 1] = "no cause is known: nothing that was tried gives the server's tokens"
  end
  return lines
end

--- What differs: a list of { title =, lines = {...} }; the same causes are told once for each server and
--- renderer, with the names of the other cases.
function parity.findings(list)
  local found = {}
  for _, entry in ipairs(object(list)) do
    local by_causes = {}
    for _, case in ipairs(object(entry.cases)) do
      if case.verdict == "differs" then
        local names = {}
        for i, cause in ipairs(object(case.causes)) do
          names[i] = tostring(cause.name)
        end
        local key = #names > 0 and table.concat(names, ",") or tostring(case.case) .. tostring(case.form)
        local name = ("%s (%s)"):format(clean(case.case or "?"), clean(case.form or "?"))
        local seen = by_causes[key]
        if seen then
          seen.more[#seen.more + 1] = name
        else
          seen = {
            title = ("%s, %s: %s"):format(clean(entry.server or "?"),
              clean(text(entry.renderer) or "no renderer"), name),
            lines = why_lines(case), more = {},
          }
          by_causes[key] = seen
          found[#found + 1] = seen
        end
      end
    end
  end
  for _, finding in ipairs(found) do
    if #finding.more > 0 then
      finding.lines[#finding.lines + 1] = "the same: " .. table.concat(finding.more, ", ")
    end
  end
  return found
end

--- What could not be compared: server and reason, each once.
function parity.gaps(list)
  local gaps, seen = {}, {}
  for _, entry in ipairs(object(list)) do
    for _, case in ipairs(object(entry.cases)) do
      local line = ("%s, %s (%s): %s"):format(clean(entry.server or "?"), clean(case.case or "?"),
        clean(case.form or "?"), clean(text(case.reason) or ""))
      local key = tostring(entry.server) .. tostring(case.reason)
      if (case.verdict == "error" or case.verdict == "skipped") and not seen[key] then
        seen[key] = true
        gaps[#gaps + 1] = line
      end
    end
    if #object(entry.cases) == 0 and text(entry.reason) then
      gaps[#gaps + 1] = ("%s: %s"):format(clean(entry.server or "?"), clean(entry.reason))
    end
  end
  return gaps
end

local function columns(s)
  return utf8.len(s) or #s
end

local HEAD = { mark = "", server = "server", renderer = "renderer", case = "case", form = "form",
  evidence = "evidence", here = "here", there = "server's", words = "verdict" }
local ORDER = { "mark", "server", "renderer", "case", "form", "evidence", "here", "there", "words" }
local RIGHT = { here = true, there = true }

local function table_lines(rows, out)
  local widths = {}
  table.insert(rows, 1, HEAD)
  for _, row in ipairs(rows) do
    for _, name in ipairs(ORDER) do
      widths[name] = math.max(widths[name] or 0, columns(row[name]))
    end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for i, name in ipairs(ORDER) do
      local fill = (" "):rep(widths[name] - columns(row[name]))
      cells[i] = RIGHT[name] and fill .. row[name] or row[name] .. fill
    end
    out[#out + 1] = (table.concat(cells, "  "):gsub("%s+$", ""))
  end
end

local function count_note(c)
  local first = object(c.first)
  return ("%s of %s prompts have another number of tokens on the server, by up to %s; the first: session %s, "
    .. "turn %s, step %s, %s here, %s there."):format(count(c.differ), count(c.compared), count(c.largest),
    count(first.session), count(first.turn), count(first.step), count(first["local"]), count(first.server))
end

--- The report's table, where there is anything to tell; without rows otherwise.
function parity.section(summary)
  local p = object(object(summary).parity)
  local section = { title = "Token parity", align = "lllllrrl", flexible = 8, rows = {}, notes = {},
    head = { "", "server", "renderer", "form", "evidence", "here", "server's", "verdict" } }
  for _, row in ipairs(parity.rows(p.comparisons)) do
    if row.verdict == "differs" and #section.rows < 24 then
      section.rows[#section.rows + 1] = { { row.mark, mark = "bad" }, row.server, row.renderer, row.form,
        row.evidence, row.here, row.there, row.words }
    end
  end
  for _, finding in ipairs(parity.findings(p.comparisons)) do
    if #section.notes < 24 then
      section.notes[#section.notes + 1] = finding.title .. ": " .. table.concat(finding.lines, "; ") .. "."
    end
  end
  for _, c in ipairs(object(p.counts)) do
    if (num(c.differ) or 0) > 0 then
      section.rows[#section.rows + 1] = { { MARK.differs, mark = "bad" }, text(c.arm) or "all", "",
        "whole run", "usage", "", "",
        ("DIFFERS in %s of %s prompts"):format(count(c.differ), count(c.compared)) }
      section.notes[#section.notes + 1] = count_note(c)
    end
  end
  return section
end

local END = {
  equal = "Equal: the server makes the same token ids of everything that was compared.",
  count = "Equal counts: no server gave ids, so only the numbers of tokens were compared.",
  differs = "DIFFERS: figures about prefixes and caches with this tokenizer and template would be wrong.",
  unknown = "Not proven: nothing could be compared.",
}

--- The worst verdict of a list: differs, unknown, count, equal.
function parity.worst(list)
  local rank, worst = { equal = 1, count = 2, unknown = 3, differs = 4 }, nil
  for _, entry in ipairs(object(list)) do
    if not worst or (rank[entry.verdict] or 3) > rank[worst] then
      worst = rank[entry.verdict] and entry.verdict or "unknown"
    end
  end
  return worst or "unknown"
end

--- What `perigee parity` prints.
function parity.terminal(list)
  local out, first = {}, object(object(list)[1])
  out[#out + 1] = ("model %s, tokenizer %s"):format(clean(text(first.model) or "?"),
    clean(text(first.tokenizer) or "?"))
  out[#out + 1] = ""
  table_lines(parity.rows(list), out)
  for _, finding in ipairs(parity.findings(list)) do
    out[#out + 1] = ""
    out[#out + 1] = finding.title
    for _, line in ipairs(finding.lines) do
      out[#out + 1] = "  " .. line
    end
  end
  local gaps = parity.gaps(list)
  if #gaps > 0 then
    out[#out + 1] = ""
    out[#out + 1] = "Not compared"
    for _, line in ipairs(gaps) do
      out[#out + 1] = "  " .. line
    end
  end
  out[#out + 1] = ""
  out[#out + 1] = END[parity.worst(list)]
  return table.concat(out, "\n") .. "\n"
end

return parity
