-- perigee.fleet: the golden traces of tests/data/engine, replayed as a script replays them.
local fleet = require "perigee.fleet"
local gen = require "perigee.gen"
local json = require "perigee.json"

local FOLDER = "tests/data/engine/"
local TRACES = 40

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function trace_names()
  local names = {}
  for line in read(FOLDER .. "README.md"):gmatch "\n| (%d%d%-[%w-]+) |" do
    names[#names + 1] = line
  end
  return names
end

-- The whole of `expect` as one text without white space: both sides write their keys in one order.
local function expected(trace)
  return '{"expect":' .. trace:match '"expect":%s*(.*)}%s*$':gsub("%s+", "") .. "}"
end

local CONFIG = '"config":{"num_blocks":9,"block_size":4,"max_num_batched_tokens":32,"max_num_seqs":4,'
  .. '"enable_prefix_caching":true,"max_model_len":32}'

describe("fleet.replay", function()
  local names = trace_names()

  it("knows all traces", function() expect(#names):eq(TRACES) end)

  for _, name in ipairs(names) do
    it("does in every step what " .. name .. " says", function()
      local trace = read(FOLDER .. name .. ".json")
      local result = assert(fleet.replay(trace))
      expect(result == expected(trace)):eq(true)
    end)
  end

  it("takes text handles", function()
    local trace = read(FOLDER .. "01-single-request.json")
    expect(fleet.replay(gen.from(trace))):eq(fleet.replay(trace))
  end)

  it("keeps the caches of adapters apart", function()
    local request = '{"id":"%s","arrival_step":%d,"prompt":[1,2,3,4,5,6],"output":[7]%s}'
    local requests = {}
    for i, more in ipairs { "", ',"adapter":"x"', ',"salt":"x"', ',"adapter":"x"', ',"adapter":null' } do
      requests[i] = request:format("r" .. i, i, more)
    end
    local trace = "{" .. CONFIG .. ',"requests":[' .. table.concat(requests, ",") .. "]}"
    local result = assert(fleet.replay(trace))
    local cached = {}
    for i, row in ipairs(json.decode(result).expect.totals.per_request) do
      cached[i] = row[2]
    end
    expect(cached):eq { 0, 0, 0, 4, 4 }
  end)

  it("says what is wrong with a trace, and where", function()
    local none, message = fleet.replay "[]"
    expect(none):eq(nil)
    expect(message):eq "trace: not an object"
    expect(select(2, fleet.replay("{" .. CONFIG .. ',"requests":[{"arrival_stp":0}]}')))
      :eq 'trace: requests[0]: unknown key "arrival_stp"; did you mean "arrival_step"?'
    expect(function() fleet.replay(1) end):errors "the trace must be a string or a text"
  end)
end)

describe("fleet.profiles", function()
  it("are tables that a profile file may return", function()
    local llama = fleet.profiles()["llama-3.1-8b"]
    expect(llama.prefill_tokens_per_s):eq(30000)
    expect(llama.kv_tokens):eq(420800)
    expect(llama.offload.tokens):eq(0)
    expect(llama.transfer.bytes_per_s):eq(25e9)
    expect(llama.decode_base):near(0.00567, 1e-9)
    llama.kv_tokens = 1
    expect(fleet.profiles()["llama-3.1-8b"].kv_tokens):eq(420800)
  end)

  it("are all there", function()
    local names = {}
    for name, profile in pairs(fleet.profiles()) do
      names[#names + 1] = name
      expect(profile.name):eq(name)
    end
    table.sort(names)
    expect(table.concat(names, " ")):eq "adr-04 fixed gpt-oss-20b instant llama-3.1-8b qwen3-32b tiny"
  end)
end)
