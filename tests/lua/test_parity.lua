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
