-- perigee.report_draw: a terminal's lines and Markdown, whatever the texts are.
local draw = require "perigee.report_draw"

local SECTION = { title = "T", head = { "name", "n", "why" }, align = "lrl", flexible = 3,
  rows = { { { "a_b", code = true }, "1", ("word "):rep(30) }, { "c", { "22", sub = "±3", range = "19–25" }, "" } },
  notes = { "note" } }

local function lines(screen)
  local list = {}
  for line in screen:text():gmatch "([^\n]*)\n" do
    list[#list + 1] = line
  end
  return list
end

describe("a screen", function()
  it("is no wider than asked for, with words kept whole", function()
    local screen = draw.screen { width = 50 }
    screen:section(SECTION)
    screen:pairs { { "key", ("value "):rep(20) } }
    screen:verdict("PASSED", "ok", ("because "):rep(20))
    for _, line in ipairs(lines(screen)) do
      expect(draw.columns(line)):below(51)
    end
    expect(lines(screen)[2]):eq "T"
    expect(screen:text()):contains "±3"
  end)

  it("is between 40 and 100 columns, and has colours only when asked", function()
    expect(draw.screen({}).width):eq(100)
    expect(draw.screen({ width = 7 }).width):eq(40)
    expect(draw.screen({ width = 300 }).width):eq(100)
    expect(draw.screen({ color = true }):paint("x", "bad")):eq "\27[31mx\27[0m"
    expect(draw.screen({}):paint("x", "bad")):eq "x"
  end)

  it("wraps the column that may be, also where none is flexible", function()
    local screen = draw.screen { width = 40 }
    screen:section { title = "T", head = { "name", "n" }, align = "lr", wraps = 1,
      rows = { { ("word "):rep(12), "1" } }, notes = {} }
    expect(#lines(screen)):eq(5)
    expect(screen:text()):contains "word word"
    expect(screen:text():find("…", 1, true)):is_nil()
  end)

  it("has the verdict's reason beside its word", function()
    local screen = draw.screen { width = 40 }
    screen:verdict("FAILED", "bad", "one two three four five six seven eight nine")
    expect(lines(screen)):eq { "FAILED  one two three four five six", "        seven eight nine", "" }
  end)
end)

describe("cut and wrap", function()
  it("count characters, not bytes", function()
    expect(draw.cut("größer", 6)):eq "größer"
    expect(draw.cut("größer", 4)):eq "grö…"
    expect(draw.wrap("a " .. ("x"):rep(10), 8)):eq { "a", "xxxxxxxx", "xx" }
    expect(draw.columns "größer"):eq(6)
  end)
end)

describe("Markdown", function()
  it("escapes what would be markup", function()
    expect(draw.escape "a|b *c* <b> x_y &amp; < 3"):eq "a\\|b \\*c\\* &lt;b> x_y &amp;amp; < 3"
    expect(draw.code("a`b|c", true)):eq "`a'b\\|c`"
    expect(draw.prose "see `x|y` *z*"):eq "see `x|y` \\*z\\*"
  end)

  it("has tables, pairs and fences", function()
    local out = {}
    draw.table(out, { head = { "name", "n" }, align = "lr", rows = SECTION.rows })
    expect(out):eq { "| name | n |", "| --- | ---: |", "| `a_b` | 1 |", "| c | 22 (19–25) |" }
    out = {}
    draw.pairs(out, { { "k", "v|w" } })
    draw.fenced(out, "perigee run x ```")
    expect(out):eq { "- **k:** v\\|w", "```sh", "perigee run x '", "```" }
  end)
end)
