-- perigee.request: what conversations and completions share.
local request = require "perigee.request"
local test = require "perigee.test"

local function sender(opts)
  return request.sender({}, test.vu(), opts or {}, "here")
end

describe("request.body_options", function()
  it("takes the request's settings over the sender's", function()
    local body, tokens = request.body_options(sender { max_tokens = 5, temperature = 1 },
      { max_tokens = 7.4, priority = 3 }, "here", false)
    expect(tokens):eq(7)
    expect(body):eq { max_tokens = 7, temperature = 1, priority = 3, stream = true,
      stream_options = { include_usage = true } }
  end)

  it("fixes the length only when it has to be as declared", function()
    local fixed = request.body_options(sender(), { max_tokens = 3 }, "here", true)
    expect({ fixed.ignore_eos, fixed.min_tokens }):eq { true, 3 }
    local free = request.body_options(sender { ignore_eos = false }, { max_tokens = 3 }, "here", true)
    expect({ free.ignore_eos, free.min_tokens }):eq {}
  end)

  it("lets extra fields win, but for those with a place of their own", function()
    local body = request.body_options(sender(), { extra = { min_tokens = 1, seed = 2 }, max_tokens = 9 }, "here", true)
    expect({ body.min_tokens, body.seed }):eq { 1, 2 }
    for _, name in ipairs { "messages", "model", "prompt", "stream", "tools" } do
      expect(function() request.body_options(sender(), { extra = { [name] = 1 } }, "here", false) end)
        :errors("here: extra cannot hold " .. name)
    end
  end)
end)

describe("request.sender", function()
  it("wants a virtual user", function()
    for _, bad in ipairs { 1, "vu", {}, print } do
      expect(function() request.sender({}, bad, {}, "here") end):errors "here: the first argument is the virtual user"
    end
  end)

  it("names the model of the fleet unless told another", function()
    expect(sender().model):eq "test-model"
    expect(sender({ model = "m" }).model):eq "m"
  end)
end)

describe("request.list", function()
  it("joins lists of names", function()
    expect(request.list({ "a" }, {}, { "b", "c" })):eq { "a", "b", "c" }
  end)
end)

describe("numbers that make no sense", function()
  it("are refused before anything is sent", function()
    local inf, nan = 1 / 0, 0 / 0
    for says, opts in pairs {
      ["here: max_tokens must be a number up to 1e9, got %-?nan"] = { max_tokens = nan },
      ["here: max_tokens must be a number up to 1e9, got inf"] = { max_tokens = inf },
      ["here: max_tokens must be above 0, got %-3"] = { max_tokens = -3 },
      ["here: max_tokens must be a number, got the string"] = { max_tokens = "5%" },
      ["here: temperature must be a finite number"] = { temperature = nan },
      ["here: temperature must be a number, got the string"] = { temperature = "1" },
      ["here: priority must be a finite number, got inf"] = { priority = inf },
    } do
      expect(function() request.body_options(sender(), opts, "here", false) end):errors(says)
    end
  end)
end)
