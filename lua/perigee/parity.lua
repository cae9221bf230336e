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

-- What a completion counts of a case whose ids another way of asking has given.
local function is_known_by_ids(case, entry)
  for _, other in ipairs(object(entry.cases)) do
    if other.verdict == "equal" and other.case == case.case and other.form == case.form then
      return true
    end
  end
  return false
end

local function verdict_words(case, entry)
  if case.verdict == "count" and is_known_by_ids(case, entry) then
    return "equal count"
  end
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
        words = verdict_words(case, entry),
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

-- "user (messages)"; what a completion said of it, where /tokenize was asked as well.
local function case_name(case)
  local by = (case.evidence == "inference" or case.evidence == "usage") and ", " .. case.evidence or ""
  return ("%s (%s%s)"):format(clean(case.case or "?"), clean(case.form or "?"), by)
end

--- Causes of a case that are one: { names, text, test, strength, fixes }; two that hold together only
--- have one text.
local function causes_of(case)
  local list, by_text = {}, {}
  for _, cause in ipairs(object(case.causes)) do
    local key = text(cause.text) or ""
    local one = by_text[key]
    if not one then
      one = { names = {}, text = clean(key), test = clean(text(cause.test) or ""),
        strength = cause.strength, fixes = {} }
      by_text[key] = one
      list[#list + 1] = one
    end
    one.names[#one.names + 1] = clean(cause.name or "?")
    local fix = text(cause.fix)
    if fix and fix ~= one.fixes[#one.fixes] then
      one.fixes[#one.fixes + 1] = fix
    end
  end
  return list
end

--- What is to be done about a case that differs: sentences; of the likeliest cause, else the next step.
local function ways_out(entry, case)
  local cause = causes_of(case)[1]
  if cause and cause.strength ~= "partial" then
    return cause.fixes
  elseif case.form ~= "messages" then
    return { "give the server's own tokenizer with --tokenizer: the tokenizer.json of the folder that it"
      .. " serves" }
  end
  local own = text(object(entry.announced).template)
  local named = own and ("it names %s"):format(clean(own))
    or "chat_template.jinja of the folder that it serves"
  local prompts, equal = 0, true
  for _, other in ipairs(object(entry.cases)) do
    if other.form == "prompt" then
      prompts, equal = prompts + 1, equal and other.verdict ~= "differs"
    end
  end
  local known = prompts > 0 and equal
    and "prompts are equal, so it is not the tokenizer but what renders: " or ""
  return { ("%sgive the server's own template with --template (%s); `perigee parity --renderer FILE`%s"
    .. " tries others as a cause"):format(known, named,
    text(entry.renderer) == "harmony" and "" or " or `--renderer harmony`") }
end

-- Whether another way of asking for the same showed the ids made here.
local function other_way(entry, case)
  local inference = case.evidence == "inference" or case.evidence == "usage"
  for _, other in ipairs(object(entry.cases)) do
    if other ~= case and other.case == case.case and other.form == case.form and other.verdict == "equal" then
      return inference and "only inference says so: /tokenize gives the ids made here of the same request"
        or "only /tokenize says so: inference of the same request runs the ids made here"
    end
  end
end

local function difference_lines(case, lines)
  local difference, cause = case.difference, object(case.causes)[1]
  if type(difference) ~= "table" or not num(difference.index) then
    return
  end
  local n, before = difference.index, clean(text(difference.before) or "")
  lines[#lines + 1] = n == 0 and "they differ from the first token on"
    or n == 1 and "the first token is equal; then, behind " .. before
    or ("the first %s tokens are equal; then, behind %s"):format(count(n), before)
  lines[#lines + 1] = side("here  ", difference.local_id, difference["local"])
  -- of another vocabulary: it would be read with ours
  local foreign = cause and cause.name == "vocabulary"
  lines[#lines + 1] = side("server", difference.server_id, foreign and "" or difference.server)
  if difference.same_text == true then
    lines[#lines + 1] = "both stand for the same text"
  end
end

local function why_lines(entry, case)
  local lines, causes = {}, causes_of(case)
  if text(case.reason) then
    lines[#lines + 1] = clean(case.reason)
  end
  difference_lines(case, lines)
  for _, cause in ipairs(causes) do
    lines[#lines + 1] = ("cause %s: %s (%s%s)"):format(table.concat(cause.names, " and "), cause.text,
      STRENGTH[cause.strength] or "", cause.test)
  end
  if #causes == 0 or causes[1].strength == "partial" then
    lines[#lines + 1] = ("no cause %s: nothing that was tried gives the server's tokens"):format(
      #causes == 0 and "is known" or "explains all of it")
  end
  lines[#lines + 1] = other_way(entry, case)
  for _, way in ipairs(ways_out(entry, case)) do
    lines[#lines + 1] = "-> " .. clean(way)
  end
  return lines
end

-- Cases with one key have one reason: the same causes, or none and the same tokens at the difference.
local function reason_key(case)
  local names = {}
  for i, cause in ipairs(object(case.causes)) do
    names[i] = tostring(cause.name)
  end
  if #names > 0 then
    return table.concat(names, ",")
  end
  local d = object(case.difference)
  return ("%s %s %s"):format(tostring(case.form), num(d.local_id) and d.local_id or case.case,
    num(d.server_id) and d.server_id or "")
end

local SAYS = { { "tokenizer", "tokenizer" }, { "template", "template" }, { "now", "date" },
  { "root", "model folder" } }

--- What a server says of itself in /v1/models, in a sentence; nil.
function parity.announced(entry)
  local parts, said = {}, object(entry.announced)
  for _, item in ipairs(SAYS) do
    local value = text(said[item[1]])
    if value and (item[1] ~= "root" or #parts == 0) then
      parts[#parts + 1] = ("%s %s"):format(item[2], clean(value))
    end
  end
  return #parts > 0 and "the server says of itself: " .. table.concat(parts, ", ") or nil
end

--- What differs: a list of { title =, lines = {...} }; the same causes are told once for each server and
--- renderer, with the names of the other cases.
function parity.findings(list)
  local found = {}
  for _, entry in ipairs(object(list)) do
    local by_reason, first = {}, true
    for _, case in ipairs(object(entry.cases)) do
      if case.verdict == "differs" then
        local key = reason_key(case)
        local seen = by_reason[key]
        if seen then
          seen.more[#seen.more + 1] = case_name(case)
        else
          seen = {
            title = ("%s, %s: %s"):format(clean(entry.server or "?"),
              clean(text(entry.renderer) or "no renderer"), case_name(case)),
            lines = why_lines(entry, case), more = {}, said = first and parity.announced(entry) or nil,
          }
          by_reason[key] = seen
          found[#found + 1] = seen
          first = false
        end
      end
    end
  end
  for _, finding in ipairs(found) do
    if #finding.more > 0 then
      finding.lines[#finding.lines + 1] = "the same: " .. table.concat(finding.more, ", ")
    end
    finding.lines[#finding.lines + 1] = finding.said
  end
  return found
end

--- Of an entry that differs the case that tells most: { case, name, text, fix }; nil where none differs.
function parity.worst_case(entry)
  local worst = nil
  for _, case in ipairs(object(entry.cases)) do
    local more = not worst or #object(worst.causes) == 0 and #object(case.causes) > 0
    if case.verdict == "differs" and more then
      worst = case
    end
  end
  if not worst then
    return nil
  end
  local cause = causes_of(worst)[1]
  return { case = worst, name = case_name(worst), text = cause and cause.text or nil,
    fix = ways_out(entry, worst)[1] }
end

--- Whether ids were equal wherever they were compared, and only what the server counts is not.
function parity.only_usage(list)
  local any = false
  for _, entry in ipairs(object(list)) do
    for _, case in ipairs(object(entry.cases)) do
      if case.verdict == "differs" then
        any = true
        if object(object(case.causes)[1]).name ~= "usage" then
          return false
        end
      end
    end
  end
  return any
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

local MAX_ODD = 6

--- What servers answered beside the point, each once: a broken list of ids, a count that is another.
function parity.oddities(list)
  local odd, seen = {}, {}
  for _, entry in ipairs(object(list)) do
    for _, case in ipairs(object(entry.cases)) do
      local said = text(case.odd)
      local key = said and tostring(entry.server) .. said
      if said and not seen[key] then
        seen[key] = true
        odd[#odd + 1] = ("%s, %s (%s): %s"):format(clean(entry.server or "?"), clean(case.case or "?"),
          clean(case.form or "?"), clean(said))
      end
    end
  end
  if #odd > MAX_ODD then
    odd[MAX_ODD] = ("and %d more of the kind"):format(#odd - MAX_ODD + 1)
  end
  return table.move(odd, 1, math.min(#odd, MAX_ODD), 1, {})
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

local SOURCE = { server = " (the server's own word)", tokenizer = " (comes with the tokenizer)",
  clock = " (this machine's clock)" }

--- What our side is made with, and where that was taken from.
function parity.made_with(entry)
  local sources = object(entry.sources)
  local function from(what)
    return SOURCE[text(sources[what]) or ""] or ""
  end
  local parts = { ("tokenizer %s%s"):format(clean(text(entry.tokenizer) or "?"), from "tokenizer") }
  if text(entry.renderer) then
    parts[2] = ("template %s%s"):format(clean(entry.renderer), from "renderer")
    if text(entry.now) then
      parts[3] = ("today %s%s"):format(clean(entry.now), from "now")
    end
  end
  return table.concat(parts, ", ")
end

--- The last line: what the comparisons prove.
function parity.closing(list)
  local worst, ids, by_count, compared = parity.worst(list), 0, 0, 0
  for _, entry in ipairs(object(list)) do
    compared = compared + (num(entry.compared) or 0)
    for _, case in ipairs(object(entry.cases)) do
      ids = ids + (case.verdict == "equal" and 1 or 0)
      by_count = by_count + (case.verdict == "count" and 1 or 0)
    end
  end
  if worst == "count" and ids > 0 then
    return ("Equal: the same ids in %s, and where servers gave none equal counts in %s."):format(
      words.counted(ids, "case"), words.counted(by_count, "case"))
  elseif worst == "unknown" and compared > 0 then
    return ("Not proven: %s could be compared, and nothing differs in them."):format(
      words.counted(compared, "case"))
  end
  return END[worst]
end

--- What `perigee parity` prints.
function parity.terminal(list)
  local out, first = {}, object(object(list)[1])
  out[#out + 1] = ("model %s, %s"):format(clean(text(first.model) or "?"), parity.made_with(first))
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
  local odd = parity.oddities(list)
  if #odd > 0 then
    out[#out + 1] = ""
    out[#out + 1] = "Odd answers, passed over"
    for _, line in ipairs(odd) do
      out[#out + 1] = "  " .. line
    end
  end
  out[#out + 1] = ""
  out[#out + 1] = parity.closing(list)
  return table.concat(out, "\n") .. "\n"
end

return parity
