-- perigee.report_verify: the sections of a run with --verify, and the text of `perigee verify`.
local sections = require "sections"
local tables = require "perigee.report_tables"
local verify = require "perigee.report_verify"

local texts = sections.texts

local LEDGER = { source = "truth", requests = 10, prompt_tokens = 4000, foreign_tokens = 16,
  gained_in_queue_tokens = 320,
  causes = { hbm = 3000, offload = 0, wrong_pod = 600, new = 400 }, classes = { hbm = 8, wrong_pod = 1, cold = 1 } }

local VERIFY = { rows = 12, lines = 11, joined = 10, rows_alone = { connect = 2 }, lines_alone = { ["no row"] = 1 },
  errors = { ttft = { n = 600, p50 = 4e-6, p90 = 7e-6, p99 = 2e-5, max = 3e-5,
    signed = { min = -1e-6, p50 = 4e-6, max = 3e-5 } },
    e2e = { n = 0 } },
  counts = { prompt_tokens = { compared = 10, differ = 1 }, output_tokens = { compared = 10, differ = 0 },
    cached_tokens = { compared = 9, differ = 0 }, output_events = { compared = 10, differ = 0 } },
  first = { { request_id = "id-1", session = 3, turn = 2, step = 1, what = "prompt_tokens", row = 10, truth = 11 } },
  replicas = { compared = 10, served_elsewhere = 1, chosen = 10, chosen_elsewhere = 2 } }

describe("the ledger's table", function()
  it("has the causes there are, in their order, with shares of tokens and of requests", function()
    local s = verify.ledger { ledger = LEDGER }
    expect(#s.rows):eq(4)
    expect({ table.unpack(texts(s.rows[1]), 1, 5) }):eq { "hbm", "3,000", "75.0 %", "8", "80.0 %" }
    expect({ table.unpack(texts(s.rows[2]), 1, 5) }):eq { "wrong_pod", "600", "15.0 %", "1", "10.0 %" }
    expect({ table.unpack(texts(s.rows[3]), 1, 5) }):eq { "new", "400", "10.0 %", "", "" }
    expect({ table.unpack(texts(s.rows[4]), 1, 5) }):eq { "cold", "", "", "1", "10.0 %" }
  end)

  it("says what was warm from elsewhere, and what came while a request waited", function()
    local notes = table.concat(verify.ledger { ledger = LEDGER }.notes, "\n")
    expect(notes):contains "4,000 prompt tokens of 10 requests"
    expect(notes):contains "16 tokens were resident that this run had not sent before"
    expect(notes):contains "320 tokens came into the cache"
  end)

  it("stands before the latencies, and is not there without a ledger", function()
    local list = tables.sections { ledger = LEDGER, metrics = { ttft = { n = 1, unit = "s", mean = 1 } } }
    expect(list[1].title):eq "Where prompts came from"
    expect(list[2].title):eq "Results"
    expect(#tables.sections {}):eq(0)
    expect(#tables.sections { ledger = require("perigee.json").null }):eq(0)
  end)
end)

describe("the measurement error", function()
  it("has a row per stamp that was compared", function()
    local s = verify.accuracy { verify = VERIFY }
    expect(#s.rows):eq(1)
    expect(texts(s.rows[1])):eq { "ttft", "µs", "600", "4.00", "7.00", "20.0", "30.0", "-1.00", "4.00", "30.0",
      "first event with output" }
  end)

  it("says who stayed alone, which counts differ and where, and who answered", function()
    local notes = table.concat(verify.accuracy { verify = VERIFY }.notes, "\n")
    expect(notes):contains "10 of 12 generation requests joined with the fleet's log by request_id; "
    expect(notes):contains "without a line there: 2 connect; lines without a row: 1 no row."
    expect(notes):contains "prompt_tokens differ in 1 of 10"
    expect(notes):contains "prompt_tokens of session 3, turn 2, step 1 (id-1): 10 in the row, 11 in the log"
    expect(notes):contains "1 request answered by another replica than the row says, 2 by another than was chosen."
  end)

  it("is none in virtual time", function()
    local said = table.concat(verify.accuracy { verify = VERIFY }.notes, "\n")
    expect(said):contains "An error is the client's stamp less"
    said = table.concat(verify.accuracy { verify = VERIFY, virtual_time = true }.notes, "\n")
    expect(said):contains "In virtual time nothing lies between"
    expect(said:find("loopback", 1, true)):eq(nil)
  end)

  it("says where not every error was kept", function()
    local v = { joined = 1, errors = { ttft = { n = 5, every = 1 }, itl = { n = 9000000, every = 4 },
      last_token = { n = 5000000, every = 2 } } }
    local notes = table.concat(verify.accuracy { verify = v }.notes, "\n")
    expect(notes):contains "percentiles of last_token are of one error in 2, percentiles of itl are of one error in 4."
    expect(notes:find("percentiles of ttft", 1, true)):eq(nil)
  end)

  it("is also a text of its own, with the checks", function()
    local text = verify.text(VERIFY, { { name = "ground_truth", figure = 1, limit = 0, unit = "requests", ok = false,
      note = "why" }, { name = "measurement_error_p99", figure = 2e-5, limit = 1e-3, unit = "s", ok = true } })
    expect(text):contains "ttft           µs        600      4.00      7.00      20.0      30.0      4.00"
    expect(text):contains "NOT  ground_truth: 1.00 requests (limit 0 requests); why"
    expect(text):contains "ok   measurement_error_p99: 20.0 µs (limit 1.00 ms)"
  end)
end)
