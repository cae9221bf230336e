-- perigee.openai: the golden streams of tests/data/sse say what they are known to say.
local gen = require "perigee.gen"
local json = require "perigee.json"
local openai = require "perigee.openai"

local FOLDER = "tests/data/sse/"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

describe("openai.parse_stream", function()
  local expected = json.decode(read(FOLDER .. "expected.json"), { drop_null = true })

  for name, want in pairs(expected) do
    it("reads " .. name, function()
      local api = want.api
      want.server, want.api, want.bytes, want.sha256 = nil, nil, nil, nil
      expect(openai.parse_stream(read(FOLDER .. name), { api = api })):eq(want)
    end)
  end

  it("reads text handles, and chat when nothing is said", function()
    local stream = 'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\ndata: [DONE]\n\n'
    expect(openai.parse_stream(gen.from(stream)).text):eq "hi"
    expect(openai.parse_stream("").complete):eq(false)
  end)

  it("refuses misuse", function()
    expect(function() openai.parse_stream(1) end):errors "the bytes must be a string or a text"
    expect(function() openai.parse_stream("", { api = "chatt" }) end):errors "did you mean 'chat'"
    expect(function() openai.parse_stream("", { api = "mmmmmmmmmmmm" }) end)
      :errors "known: chat, completions, responses"
    expect(function() openai.parse_stream("", { apy = "chat" }) end):errors "did you mean 'api'"
    expect(function() openai.parse_stream("", { api = 1 }) end):errors "api must be a string, got number"
  end)
end)

describe("openai.parse_reply", function()
  it("reads a whole reply", function()
    local reply = openai.parse_reply([[{"choices":[{"index":0,"message":{"role":"assistant","content":"yes",
      "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
      "finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}]],
      { api = "chat" })
    expect(reply.text):eq "yes"
    expect(reply.finish_reason):eq "stop"
    expect(reply.usage.prompt):eq(3)
    expect(reply.tool_calls[1].name):eq "f"
  end)
end)
