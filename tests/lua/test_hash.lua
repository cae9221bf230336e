-- perigee hash: its arguments and its input; the command as a whole: tests/e2e/test_hash.py.
local hash = require "perigee.hash"

describe("hash.read_args", function()
  it("takes options in both forms, and the rest as input", function()
    local opts = hash.read_args { "--scheme=sglang", "--block-size", "4", "1", "-2", "--param", "chain=event",
      "--param=partial=hash", "--event", "--", "--text" }
    expect(opts):eq {
      scheme = "sglang", block_size = "4", input = { "1", "-2", "--text" }, event = true,
      params = { { name = "chain", text = "event" }, { name = "partial", text = "hash" } },
    }
    expect(hash.read_args {}):eq { params = {}, input = {} }
    expect(select(2, hash.read_args { "--param", "seed=1", "--param=seed=2" }))
      :eq "--param seed is given twice: 1 and 2"
    expect(hash.read_args({ "1", "-h", "--nonsense" }).help):eq(true)
  end)

  it("names what is wrong", function()
    local function message(...)
      local _, text = hash.read_args { ... }
      return text
    end
    expect(message "--sheme"):eq "unknown option --sheme (did you mean --scheme?); see `perigee hash --help`"
    expect(message "--zzzzzzzzz"):eq "unknown option --zzzzzzzzz; see `perigee hash --help`"
    expect(message "-x"):eq "unknown option -x; see `perigee hash --help`"
    expect(message "--scheme"):eq "--scheme needs a value"
    expect(message "--json=yes"):eq "--json takes no value"
    expect(message("--param", "seed")):eq "--param seed: write NAME=VALUE"
  end)
end)

describe("hash.read_ids", function()
  it("reads lists and numbers", function()
    expect(hash.read_ids "1 2,3\n 4"):eq { 1, 2, 3, 4 }
    expect(hash.read_ids " [1, 2]\n"):eq { 1, 2 }
    expect(hash.read_ids "-1"):eq { -1 }
    expect(hash.read_ids ""):eq {}
  end)

  it("names the token that is none", function()
    local _, message = hash.read_ids "1 two"
    expect(message):contains 'token 2 is "two", not a whole number'
    _, message = hash.read_ids("nofile.json", true)
    expect(message):contains 'token 1 is "nofile.json", not a whole number; a file? perigee hash <nofile.json'
    _, message = hash.read_ids "nofile.json"
    expect(message:find("a file?", 1, true)):is_nil()
    _, message = hash.read_ids("1.5", true)
    expect(message:find("a file?", 1, true)):is_nil()
    _, message = hash.read_ids "[1, 2.5]"
    expect(message):eq "token 2 of the list is no whole number"
    _, message = hash.read_ids "[1, 2"
    expect(message):contains "the token ids are no JSON list: line 1"
    _, message = hash.read_ids "99999999999999999999"
    expect(message):contains "not a whole number"
  end)
end)

describe("hash.usage", function()
  it("lists every scheme", function()
    local usage = hash.usage()
    for _, name in ipairs(require "perigee.blockhash".schemes()) do
      expect(usage):contains("\n  " .. name .. ": ")
    end
    for _, name in ipairs(require "perigee.blockhash".schemes()) do
      local own = hash.usage(name)
      for _, param in ipairs(require "perigee.blockhash".scheme(name).params) do
        expect(type(hash.PARAMS[param.name])):eq "string"
        expect(own):contains(("\n  %-20s "):format(param.name))
        expect(usage):contains(("\n  %-20s "):format(param.name))
      end
    end
    expect(hash.usage "smg-path-hash"):contains "It has no parameters."
    expect(usage):contains "  vllm-sha256: vLLM's default: SHA-256 of a pickle\n      block size 16, tokens; seed none"
  end)
end)
