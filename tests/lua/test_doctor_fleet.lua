-- perigee.doctor_fleet: replicas that are not alike, and this machine.
local fleet = require "perigee.doctor_fleet"
local pretend = require "doctor_server"

local said = pretend.said

local function compare(...)
  local servers = {}
  for i, replies in ipairs { ... } do
    servers[i] = { replies = replies }
  end
  return fleet.comparison(pretend.examine(servers))
end

describe("doctor_fleet.comparison", function()
  it("says nothing of one server, or of two of which one is gone", function()
    expect(#compare {}):eq(0)
    expect(#compare({}, { dial = { step = "connect", code = "refused", reason = "" } })):eq(0)
  end)

  it("says what is the same", function()
    local list = compare({}, {}, {})
    expect(#list):eq(1)
    expect(list[1].level):eq "ok"
    expect(list[1].text):eq("the same on 3 replicas: models, max_model_len, kind of server, version, block_size, "
      .. "number of blocks, prefix caching, reporting of cached_tokens, tokens of one and the same prompt")
  end)

  it("warns of each difference and says who has what", function()
    local list = compare({}, { metrics = pretend.metrics { block_size = "32", num_gpu_blocks = "1000" } }, {})
    expect(said(list, "cache")):eq("warn: block_size not the same: r0 r2: 16; r1: 32 -> a router's block hashes fit"
      .. " one"
      .. " size only: the same --block-size everywhere")
    list = compare({}, { version = pretend.body { version = "0.9" } })
    expect(said(list, "server")):contains "r0: 0.20.1; r1: 0.9"
    list = compare({}, { models = pretend.body { data = { { id = "other", owned_by = "vllm",
      max_model_len = 9000 } } } })
    expect(said(list, "models")):contains "models not the same: r0: m; r1: other"
    expect(said(list, "models")):contains "max_model_len not the same: r0: 32,768; r1: 9,000"
    list = compare({}, { cold = pretend.stream { prompt = 451, completion = 8 } })
    expect(said(list, "tokens")):contains "chat templates differ"
    list = compare({}, { warm = pretend.body { usage = { prompt_tokens = 450 } }, ids = pretend.stream {} })
    expect(said(list, "cached")):contains "r0: reported; r1: absent"
  end)

  it("does not say that all are alike where some said nothing", function()
    local list = compare({}, {}, { warm = pretend.body {}, ids = false })
    expect(said(list, "cached")):contains "reporting of cached_tokens not the same: r0 r1: reported; "
    expect(said(list, "cached")):contains "r2: no usage at all"
    list = compare({}, {}, { version = false })
    expect(said(list, "alike")):contains "the same on 3 replicas: models"
    expect(said(list, "alike")):contains "version (of 2)"
  end)

  it("counts blocks as each replica's own line does", function()
    local list = compare({}, { metrics = pretend.metrics { num_gpu_blocks = "1001" } })
    expect(said(list, "cache")):contains "number of blocks not the same"
    expect(said(list, "cache")):contains "r1: 1,000"
  end)

  it("leaves a gateway out", function()
    local facts = pretend.examine { { id = "gateway", role = "gateway",
      replies = { version = pretend.body { version = "9" } } }, { id = "a" }, { id = "b" } }
    expect(#fleet.comparison(facts)):eq(1)
  end)

  it("does not list a hundred names", function()
    local servers = {}
    for i = 1, 9 do
      servers[i] = { replies = i == 9 and { version = pretend.body { version = "x" } } or nil }
    end
    expect(said(fleet.comparison(pretend.examine(servers)), "server")):contains "r0 r1 r2 r3 r4 … (8 replicas): 0.20.1"
  end)
end)

describe("doctor_fleet.client", function()
  local function client(fields, options)
    local c = { descriptors = 20000, descriptors_hard = 20000, kernel_stamps = true, cpus = 2, cpus_online = 4,
      versions = "v", tokenizers = { { path = "/t", names = { "qwen3" } }, { path = "/u", names = {} } } }
    for key, value in pairs(fields or {}) do
      c[key] = value
    end
    return fleet.client { client = c, options = options or {} }
  end

  it("is fine on a fine machine", function()
    local list = client { governor = "performance" }
    for _, check in ipairs(list) do
      expect(check.level):eq "ok"
    end
    expect(said(list, "processors")):eq "ok: 2 processors of 4 may be used; governor performance"
    expect(said(list, "tokenizers")):eq "ok: /t (qwen3); /u (nothing there)"
  end)

  it("warns of few descriptors, no stamps, a slow governor, no verification", function()
    expect(said(client { descriptors = 1024 }, "descriptors")):matches "^warn: 1,024 .*ulimit"
    expect(said(client { kernel_stamps = false }, "timestamps")):matches "^warn"
    expect(said(client { governor = "powersave" }, "processors")):contains "cpupower"
    expect(said(client(nil, { insecure = true }), "tls")):matches "^warn"
    expect(said(client { tokenizers = {} }, "tokenizers")):contains "make deps"
  end)
end)
