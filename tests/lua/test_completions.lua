-- perigee.completions: text and token-id prompts.
local completions = require "perigee.completions"
local gen = require "perigee.gen"
local test = require "perigee.test"

local function last(vu)
  return vu.requests[#vu.requests]
end

describe("completions", function()
  it("send text", function()
    local vu = test.vu()
    local client = completions.new(vu, { model = "m" })
    local reply = client:send { prompt = "once \"upon\"", max_tokens = 4 }
    expect(reply.status):eq(200)
    expect(last(vu).path):eq "/v1/completions"
    expect(last(vu).stream):eq "completions"
    expect(last(vu).body):eq('{"ignore_eos":true,"max_tokens":4,"min_tokens":4,"model":"m","stream":true,'
      .. '"stream_options":{"include_usage":true},"prompt":"once \\"upon\\""}')
  end)

  it("join a list of texts, each escaped once", function()
    local vu, prefix = test.vu(), gen.text { tokens = 300, seed = "p" } .. "\n"
    local client = completions.new(vu)
    for i = 1, 2 do
      client:send { prompt = { prefix, "question " .. i, gen.from "!" }, max_tokens = 1 }
      expect(last(vu).json.prompt):eq(tostring(prefix) .. "question " .. i .. "!")
    end
  end)

  it("send token ids", function()
    local vu = test.vu()
    completions.new(vu, { stream = false }):send { prompt = { 1, 2, 300 } }
    expect(last(vu).json.prompt):eq { 1, 2, 300 }
    expect(last(vu).api):eq "completions"
    expect(last(vu).json.ignore_eos):is_nil() -- no declared length, nothing to fix
  end)

  it("count each request as a turn", function()
    local vu = test.vu()
    local client = completions.new(vu)
    client:send { prompt = "a", max_tokens = 1 }
    client:send { prompt = "a", max_tokens = 1 }
    expect({ last(vu).turn, last(vu).step, last(vu).branch }):eq { 2, 1, 0 }
  end)

  it("fail as values or end the session", function()
    local vu = test.vu { replies = { { class = "http_429" }, { class = "reset" } } }
    local client = completions.new(vu)
    local reply, class = client:try_send { prompt = "a" }
    expect(reply):is_nil()
    expect(class):eq "http_429"
    expect(function() client:send { prompt = "a" } end):errors "reset"
  end)

  it("want their methods called with a colon, on the user that runs", function()
    local vu = test.vu()
    local client = completions.new(vu)
    expect(function() client.send { prompt = "a" } end)
      :errors "test_completions.lua:%d+: client:send: call it with a colon, client:send%(opts%)$"
    expect(function() client:sned { prompt = "a" } end):errors "client has no 'sned' %(did you mean 'send'%?%)"
    expect(function() client:send { prompt = "a", temperature = "hot" } end):errors "temperature must be a number"
    vu:all({ 1 }, function()
      expect(function() client:send { prompt = "a" } end):errors "the client belongs to another virtual user"
    end)
  end)

  it("refuse what is no prompt", function()
    local client = completions.new(test.vu())
    for _, bad in ipairs { 1, {}, { {} }, { 1.5 }, true } do
      expect(function() client:send { prompt = bad } end):errors "prompt must be a text"
    end
    expect(function() client:send { promt = "a" } end):errors "did you mean 'prompt'"
    expect(function() client:send { prompt = { "a", 1 } } end):errors "the prompt must be a string or a text"
  end)
end)
