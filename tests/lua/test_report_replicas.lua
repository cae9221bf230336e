-- perigee.report_replicas: the tables of the replicas and of what failed.
local sections = require "sections"
local servers = require "perigee.report_replicas"

local texts = sections.texts

describe("replicas", function()
  local function notes(of, ...)
    local list = {}
    for i, n in ipairs { ... } do
      list[i] = { id = "r" .. i, requests = n, sessions = n, share = 0.1, failed = 0 }
    end
    return servers.replicas({ replicas = list, placements = { of = of, n = 9 },
      policies = { { policy = "session_hash", requests = 90 } } }).notes
  end

  it("say when a few sessions are uneven by chance", function()
    expect(notes("sessions", 1, 5, 3)[1]):contains "session_hash over 9 sessions: uneven by chance"
    expect(notes("sessions", 0, 0, 90)[1]):contains "more uneven than chance"
    expect(notes("sessions", 3, 3, 4)):eq {}
    expect(notes("requests", 1, 5, 3)):eq {}
  end)

  it("mark an idle replica and end a long list", function()
    local list = { { id = "r0", requests = 0, share = 0, failed = 0, output_tokens = 0 } }
    for i = 2, 40 do
      list[i] = { id = "r" .. i, requests = 1500, share = 0.025, failed = 1, ttft_n = 1499, ttft_p50 = 0.1,
        e2e_n = 1499, e2e_mean = i == 7 and 2 or 0.5, e2e_p95 = 1, cached_ratio = 0.5, output_tokens = 10000,
        sessions = 30 }
    end
    local s = servers.replicas({ replicas = list })
    expect(#s.rows):eq(24)
    expect(s.rows[1][2].mark):eq "bad"
    expect(texts(s.rows[2])):eq { "r2", "1,500", "2.50 %", "30", "1", "1,499", "100 ms", "500 ms", "1.00 s", "50.0 %",
      "10,000" }
    expect(s.notes[2]):eq "r7 is slow: its mean e2e is 4.0 times that of the others."
    expect(s.notes[1]):eq "… and 16 more in summary.json."
  end)

  it("count what no replica is known for", function()
    local s = servers.replicas({ requests = { ok = 10, failed = 2, incomplete = 1 },
      replicas = { { id = "x", requests = 3, failed = 0 } } })
    expect(texts(s.rows[2])[1]):eq "(not said)"
    expect(texts(s.rows[2])[2]):eq "10"
  end)

  it("say which percentiles had too few samples", function()
    local s = servers.replicas({ replicas = { { id = "a", requests = 9, ttft_n = 9, e2e_n = 9, e2e_mean = 0.1 } } })
    expect(texts(s.rows[1])):eq { "a", "9", "—", "—", "—", "9", "—", "100 ms", "—", "—", "—" }
    expect(s.notes):eq { "— too few samples: p50 needs 10, p95 needs 100." }
    expect(servers.replicas({ replicas = { { id = "a", requests = 0 } } }).notes):eq {}
  end)

  it("do not call a split uneven where requests failed: retries explain it", function()
    local list = { { id = "r0", sessions = 1, requests = 1 }, { id = "r1", sessions = 30, requests = 30 } }
    local s = servers.replicas({ replicas = list, placements = { of = "sessions" }, requests = { failed = 1 } })
    expect(s.notes):eq {}
  end)
end)

describe("slow replicas", function()
  -- The middle one of the others, as it is defined.
  local function slow(means)
    local said = {}
    for i, own in ipairs(means) do
      local others = {}
      for k, mean in ipairs(means) do
        others[#others + 1] = k ~= i and mean or nil
      end
      table.sort(others)
      local middle = others[(#others + 1) // 2]
      said[#said + 1] = #others >= 2 and own > 1.5 * middle and ("r%d is slow: its mean e2e is %.1f times "
        .. "that of the others."):format(i, own / middle) or nil
    end
    return said
  end

  local function notes(means)
    local list = {}
    for i, mean in ipairs(means) do
      list[i] = { id = "r" .. i, requests = 10, e2e_n = 10, e2e_mean = mean, rotation = 1 }
    end
    return servers.replicas({ replicas = list }).notes
  end

  it("are those beyond 1.5 times the middle one of the others", function()
    local rng = require("perigee.gen").rng(7, "means")
    for n = 1, 9 do
      for _ = 1, 40 do
        local means = {}
        for i = 1, n do
          means[i] = rng:int(1, 6)
        end
        local want = slow(means)
        expect(table.move(notes(means), 1, math.min(#want, 8), 1, {})):eq(table.move(want, 1, 8, 1, {}))
      end
    end
  end)

  it("are counted where they are many", function()
    local means = {}
    for i = 1, 4096 do
      means[i] = i <= 1000 and 100 or 1
    end
    expect(table.concat(notes(means), "\n")):contains "… and 992 more are slow."
  end)
end)

describe("failures", function()
  it("list failures by number with the first message of each class", function()
    local s = servers.failures({
      requests = { ok = 90, failed = 10, by_error = { reset = 2, http_429 = 6, connect = 2 },
        detail = { http_429 = "slow down" } },
      sessions = { ok = 9, failed = 1, by_error = { script = 1 }, detail = { script = "x.lua:3: oops" } },
      other_requests = { ok = 0, failed = 1, by_error = { http_4xx = 1 } },
    })
    expect(texts(s.rows[1])):eq { "http_429", "requests", "6", "6.00 %", "slow down" }
    expect(texts(s.rows[2])[1]):eq "connect"
    expect(texts(s.rows[3])[1]):eq "reset"
    expect(texts(s.rows[4])):eq { "script", "sessions", "1", "10.0 %", "x.lua:3: oops" }
    expect(texts(s.rows[5])):eq { "http_4xx", "plain HTTP", "1", "100 %", "" }
  end)

  it("say which replicas failed where there are several", function()
    local s = servers.failures({
      requests = { ok = 90, failed = 10, by_error = { reset = 8, connect = 2 },
        failed_at = { { error = "reset", replica = "r2", requests = 4 },
          { error = "reset", replica = "r0", requests = 1 },
          { error = "reset", replica = "r1", requests = 1 }, { error = "reset", replica = "r3", requests = 1 },
          { error = "reset", replica = "r4", requests = 1 } }, detail = { reset = "gone" } },
      replicas = { { id = "r1", requests = 1 }, { id = "r2", requests = 99 } },
    })
    expect(s.head[5]):eq "replicas"
    expect(texts(s.rows[1])):eq { "reset", "requests", "8", "8.00 %", "r2 4, r0 1, r1 1, 2 more", "gone" }
    expect(texts(s.rows[2])[5]):eq "—"
  end)

  it("are none where nothing failed", function()
    expect(servers.failures({ requests = { ok = 3, failed = 0, by_error = {} } }).rows):eq {}
    expect(servers.failures({}).rows):eq {}
  end)
end)
