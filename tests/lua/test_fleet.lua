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
