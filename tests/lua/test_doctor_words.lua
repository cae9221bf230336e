-- perigee.doctor_words: levels, quoting, what is wrong with an answer.
local say = require "perigee.doctor_words"
local pretend = require "doctor_server"

local function facts(has_key)
  return { options = { has_key = has_key } }
end

describe("doctor_words", function()
  it("makes checks of three levels", function()
    expect(say.ok("n", "%d of %s", 1, "a").text):eq "1 of a"
    expect(say.ok("n", "x").fix):is_nil()
    local w, f = say.warn("n", "do that", "x"), say.fail("n", "do this", "%s", "100 %d")
    expect(w.level .. w.fix):eq "warndo that"
    expect(f.level .. f.text):eq "FAIL100 %d"
  end)

  it("quotes outside text on one line, cut between characters", function()
    expect(say.quoted "a\n\27[31mb"):eq "a [31mb"
    expect(say.quoted(("é"):rep(100), 10)):eq(("é"):rep(10) .. "…")
    expect(say.quoted(nil)):eq ""
    expect(say.quoted("\xff\xfe", 10)):eq "\u{FFFD}\u{FFFD}"
  end)

  it("says what is wrong with an answer and the way out", function()
    expect(say.trouble(facts(), pretend.status(200))):is_nil()
    local what, fix = say.trouble(facts(false), pretend.status(401))
    expect(what):eq "HTTP 401"
    expect(fix):contains "--api-key-env"
    what, fix = say.trouble(facts(true), pretend.status(403))
    expect(what .. fix):contains "not the one"
    what, fix = say.trouble(facts(), pretend.status(301, { location = "http://x/\27y" }))
    expect(what):eq "HTTP 301, a redirect to http://x/ y"
    expect(fix):eq "give the final address"
    what, fix = say.trouble(facts(), pretend.status(429))
    expect(what .. fix):contains "wait"
    what, fix = say.trouble(facts(), { status = 500, detail = "GET http://h/x: HTTP 500: out of memory" })
    expect(what):eq "HTTP 500: out of memory"
    expect(fix):is_nil()
    what, fix = say.trouble(facts(), { status = 0, detail = "GET http://h/x: no answer within 5 s" })
    expect(what):contains "within 5 s"
    expect(fix):contains "--timeout"
    what = say.trouble(facts(), { status = 200, error = "truncated", detail = "cut off" })
    expect(what):eq "cut off"
    expect((say.trouble(facts(), { status = 0, detail = "" }))):eq "no answer"
    expect((say.trouble(facts(), { status = 418, detail = "" }))):eq "HTTP 418"
  end)

  it("says of a missing endpoint that it is not there", function()
    expect(say.said(pretend.status(404))):eq "not there (HTTP 404)"
    expect(say.said(pretend.status(500))):eq "HTTP 500"
    expect(say.said { status = 0, detail = "gone" }):eq "gone"
  end)

  it("finds the version where there is one", function()
    local function version(replies)
      return say.version { replies = replies }
    end
    expect(version { version = pretend.body { version = "0.20\27[0m" } }):eq "0.20 [0m"
    expect(version { version = pretend.status(404), props = pretend.body { build_info = "b9864" } }):eq "b9864"
    expect(version { version = pretend.body { version = 3 } }):is_nil()
    expect(version {}):is_nil()
  end)
end)
