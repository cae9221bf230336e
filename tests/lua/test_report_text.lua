-- perigee.report_text: text from outside, and counts.
local words = require "perigee.report_text"

describe("clean", function()
  local cases = {
    { "plain text, ünïcödé — 日本 🎉", "plain text, ünïcödé — 日本 🎉" },
    { "a\r\n\tb\0c\27[31md\127e", "a b c [31md e" },
    { "8-bit \u{9b}31m and \u{85}next", "8-bit  31m and  next" },
    { "not \xff UTF-8 \xc3( \xe2\x82", "not \u{FFFD} UTF-8 \u{FFFD}( \u{FFFD}\u{FFFD}" },
    { "raw C1 \x9b31m", "raw C1 \u{FFFD}31m" },
    { "surrogate \xed\xa0\x80", "surrogate \u{FFFD}\u{FFFD}\u{FFFD}" },
    { "admin\u{202E}txt.exe\u{2066}\u{200B}\u{FEFF}", "admintxt.exe" },
    { "two\u{2028}lines\u{2029}", "two lines " },
    { "", "" },
    { 12, "12" },
  }
  for i, case in ipairs(cases) do
    it(("makes case %d harmless"):format(i), function()
      local s = words.clean(case[1])
      expect(s):eq(case[2])
      expect(utf8.len(s)):is_a "number"
      expect(words.clean(s)):eq(s)
    end)
  end
end)

describe("counts", function()
  it("have a singular", function()
    expect(words.counted(1, "request")):eq "1 request"
    expect(words.counted(0, "request")):eq "0 requests"
    expect(words.counted(12345, "request")):eq "12,345 requests"
    expect(words.counted(nil, "request")):eq "— requests"
    expect(words.quantity(1, "tokens")):eq "1 token"
    expect(words.quantity(1.5, "tokens")):eq "1.50 tokens"
  end)

  it("have their thousands in notes too", function()
    expect(words.grouped "127 of 624917 reads on pod-12345"):eq "127 of 624,917 reads on pod-12345"
  end)
end)
