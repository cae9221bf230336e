-- perigee.parity: comparisons of token ids in words.
local parity = require "perigee.parity"
local json = require "perigee.json"

local function entry(fields)
  local e = { arm = json.null, server = "r0", url = "http://x", model = "m", tokenizer = "t", renderer = "tpl",
    verdict = "equal", compared = 1, differ = 0, by_count = 0, reason = json.null, cases = {} }
  for key, value in pairs(fields) do
    e[key] = value
  end
  return e
end

local function case(fields)
  local c = { case = "plain", form = "prompt", evidence = "tokenize", local_tokens = 1234, server_tokens = 1234,
    verdict = "equal", reason = json.null, difference = json.null, causes = {} }
  for key, value in pairs(fields) do
    c[key] = value
  end
  return c
end

local BOS = { { name = "double_bos", text = "twice", test = "ids with the first twice", strength = "exact" } }
local FIRST = { index = 1, local_id = 5, server_id = json.null, same_text = false, before = '"<s>"',
  ["local"] = '"Hi"', server = '""' }

local function differing()
  return { entry { verdict = "differs", differ = 2, cases = {
    case { verdict = "differs", server_tokens = 1235, difference = FIRST, causes = BOS },
    case { case = "code", verdict = "differs", difference = FIRST, causes = BOS },
    case { case = "user", form = "messages", verdict = "skipped", evidence = json.null, local_tokens = json.null,
      server_tokens = json.null, reason = "no chat template is known here (--template)" },
  } } }
end

describe("rows", function()
  it("have a mark, both counts and a verdict", function()
    local rows = parity.rows(differing())
    expect(#rows):eq(3)
    expect(rows[1].mark):eq "✗"
    expect(rows[1].here):eq "1,234"
    expect(rows[1].there):eq "1,235"
    expect(rows[1].words):eq "DIFFERS at token 1"
    expect(rows[3].mark):eq "·"
    expect(rows[3].here):eq "—"
    expect(rows[3].words):eq "not compared"
    expect(parity.rows { entry { cases = { case {} } } }[1].words):eq "equal ids"
  end)
end)

describe("findings", function()
  it("tell what differs and why, the same causes once", function()
    local found = parity.findings(differing())
    expect(#found):eq(1)
    expect(found[1].title):eq "r0, tpl: plain (prompt)"
    local all = table.concat(found[1].lines, "\n")
    expect(all):contains 'the first token is equal; then, behind "<s>"'
    expect(all):contains 'here   token 5  "Hi"'
    expect(all):contains 'server (ended)  ""'
    expect(all):contains "cause double_bos: twice (tried: ids with the first twice)"
    expect(all):contains "the same: code (prompt)"
  end)

  it("say that no cause was found", function()
    local found = parity.findings { entry { verdict = "differs", cases = { case { verdict = "differs" } } } }
    expect(found[1].lines[1]):contains "no cause is known"
  end)
end)

describe("findings, case by case", function()
  local function found(cases, more)
    local e = entry { verdict = "differs", cases = cases }
    for key, value in pairs(more or {}) do
      e[key] = value
    end
    return parity.findings { e }
  end
  local function differs(fields)
    fields.verdict, fields.form = "differs", fields.form or "messages"
    return case(fields)
  end
  local function lines(finding)
    return table.concat(finding.lines, "\n")
  end

  it("give the way out of each cause, and tell two causes that hold together once", function()
    local both = { { name = "date", text = "the date; and another", test = "t", strength = "exact", fix = "--now D" },
      { name = "renderer", text = "the date; and another", test = "t", strength = "exact", fix = "--template X" } }
    local all = lines(found({ differs { causes = both } })[1])
    expect(all):contains "cause date and renderer: the date; and another (tried: t)\n-> --now D\n-> --template X"
    expect(select(2, all:gsub("cause ", ""))):eq(1)
  end)

  it("name the same case of another way of asking by that", function()
    local list = found { differs { case = "user", causes = BOS },
      differs { case = "user", evidence = "inference", causes = BOS } }
    expect(list[1].title):eq "r0, tpl: user (messages)"
    expect(lines(list[1])):contains "the same: user (messages, inference)"
  end)

  it("say when only /tokenize, or only inference, makes other ids", function()
    local equal = case { case = "user", form = "messages", evidence = "inference" }
    expect(lines(found({ differs { case = "user", causes = BOS }, equal })[1])):contains
      "only /tokenize says so: inference of the same request runs the ids made here"
    equal = case { case = "user", form = "messages" }
    expect(lines(found({ equal, differs { case = "user", evidence = "usage", causes = BOS } })[1])):contains
      "only inference says so"
  end)

  it("fold what differs in the same way without a cause, and give the next step", function()
    local d = { index = 1, local_id = 5, server_id = 6, before = '"x"', ["local"] = '"a"', server = '"b"' }
    local list = found({ case {}, differs { case = "user", difference = d },
      differs { case = "system", difference = d } },
      { announced = { template = "/srv/t.jinja", tokenizer = "qwen3" } })
    expect(#list):eq(1)
    local all = lines(list[1])
    expect(all):contains "no cause is known"
    expect(all):contains "-> prompts are equal, so it is not the tokenizer but what renders"
    expect(all):contains "--template (it names /srv/t.jinja)"
    expect(all):contains "--renderer harmony"
    expect(all):contains "the same: system (messages)"
    expect(all):contains "the server says of itself: tokenizer qwen3, template /srv/t.jinja"
    expect(lines(found({ differs { form = "prompt" } })[1])):contains "-> give the server's own tokenizer"
  end)

  it("do not read ids of another vocabulary with ours", function()
    local cause = { { name = "vocabulary", text = "another", test = "t", strength = "exact", fix = "--tokenizer" } }
    local all = lines(found({ differs { causes = cause, difference = { index = 0, local_id = 5, server_id = 6,
      before = '""', ["local"] = '"Hi"', server = '"mojibake"' } } })[1])
    expect(all):contains "server token 6"
    expect(all:find "mojibake"):eq(nil)
  end)
end)

describe("the worst case", function()
  it("is the first with a cause, and says what to do", function()
    local e = entry { cases = { case { verdict = "differs" }, case { case = "user", verdict = "differs",
      causes = { { name = "date", text = "the date", fix = "--now D" } } } } }
    local worst = parity.worst_case(e)
    expect(worst.name):eq "user (prompt)"
    expect(worst.text):eq "the date"
    expect(worst.fix):eq "--now D"
    expect(parity.worst_case(entry { cases = { case {} } })):eq(nil)
  end)

  it("is what the server counts alone, or not", function()
    local usage = case { verdict = "differs", causes = { { name = "usage" } } }
    expect(parity.only_usage { entry { cases = { case {}, usage } } }):eq(true)
    expect(parity.only_usage { entry { cases = { usage, case { verdict = "differs" } } } }):eq(false)
    expect(parity.only_usage {}):eq(false)
  end)
end)

describe("what our side is made with", function()
  it("says where it was taken from", function()
    local e = entry { now = "2026-08-22", sources = { tokenizer = "option", renderer = "tokenizer", now = "clock" } }
    expect(parity.made_with(e)):eq(
      "tokenizer t, template tpl (comes with the tokenizer), today 2026-08-22 (this machine's clock)")
    e.sources = { tokenizer = "server", renderer = "server", now = "server" }
    expect(parity.made_with(e)):contains "tokenizer t (the server's own word), template tpl (the server's own word)"
    e.renderer = json.null
    expect(parity.made_with(e)):eq "tokenizer t (the server's own word)"
  end)
end)

describe("gaps", function()
  it("name server and reason once", function()
    local list = differing()
    local cases = list[1].cases
    cases[#cases + 1] = cases[3]
    expect(#parity.gaps(list)):eq(1)
    expect(parity.gaps(list)[1]):eq "r0, user (messages): no chat template is known here (--template)"
  end)
end)

describe("the worst verdict", function()
  it("is what counts", function()
    expect(parity.worst {}):eq "unknown"
    expect(parity.worst { entry {} }):eq "equal"
    expect(parity.worst { entry {}, entry { verdict = "count" } }):eq "count"
    expect(parity.worst { entry { verdict = "unknown" }, entry { verdict = "count" } }):eq "unknown"
    expect(parity.worst { entry { verdict = "differs" }, entry { verdict = "unknown" } }):eq "differs"
  end)
end)

describe("the report's section", function()
  it("is empty where everything is equal", function()
    expect(#parity.section({}).rows):eq(0)
    expect(#parity.section({ parity = { comparisons = { entry { cases = { case {} } } },
      counts = { { compared = 9, differ = 0, largest = 0 } } } }).rows):eq(0)
  end)

  it("has what differs, before the load and over the run", function()
    local s = parity.section { parity = { comparisons = differing(), counts = {
      { arm = json.null, compared = 90, differ = 12, largest = 2,
        first = { session = 3, turn = 1, step = 1, ["local"] = 100, server = 102 } } } } }
    expect(#s.rows):eq(3)
    expect(s.rows[1][2]):eq "r0"
    expect(s.rows[1][8]):eq "DIFFERS at token 1"
    expect(s.rows[3][8]):eq "DIFFERS in 12 of 90 prompts"
    expect(s.notes[1]):contains "cause double_bos"
    expect(s.notes[2]):contains "by up to 2; the first: session 3, turn 1, step 1, 100 here, 102 there."
    expect(#s.rows[1]):eq(#s.head)
    expect(#s.rows[3]):eq(#s.head)
  end)
end)

describe("the terminal's text", function()
  it("has table, findings, gaps and an end", function()
    local text = parity.terminal(differing())
    expect(text):contains "model m, tokenizer t"
    expect(text):contains "✗  r0      tpl       plain  prompt    tokenize  1,234     1,235  DIFFERS at token 1"
    expect(text):contains "Not compared"
    expect(text):contains "DIFFERS: figures"
    expect(parity.terminal { entry { cases = { case {} } } }):contains "Equal: the server makes the same token ids"
  end)

  it("is harmless whatever a server says", function()
    local text = parity.terminal { entry { server = "r0\27[31m", verdict = "unknown", cases = {
      case { verdict = "error", reason = "bad\27]0;x\7" } } } }
    expect(text:find "\27"):eq(nil)
    expect(text):contains "Not proven"
  end)
end)
