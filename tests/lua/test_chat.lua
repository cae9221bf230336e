-- perigee.chat: what goes over the wire, what stays in the history, turns, steps, branches.
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local json = require "perigee.json"
local route = require "perigee.route"
local test = require "perigee.test"
local tool = require "perigee.tool"

local function last(vu)
  return vu.requests[#vu.requests]
end

local function roles(request)
  local list = {}
  for i, message in ipairs(request.json.messages) do
    list[i] = message.role
  end
  return table.concat(list, " ")
end

describe("a conversation", function()
  it("sends its history, and settings that fix the answer's length", function()
    local vu = test.vu()
    local conv = chat.new(vu, { system = "be brief", model = "m" })
    conv:user "hello"
    conv:send { max_tokens = 7 }
    expect(last(vu).body):eq('{"model":"m","messages":[{"role":"system","content":"be brief"},'
      .. '{"role":"user","content":"hello"}],"ignore_eos":true,"max_tokens":7,"min_tokens":7,'
      .. '"stream":true,"stream_options":{"include_usage":true}}')
    expect(last(vu).path):eq "/v1/chat/completions"
    expect(last(vu).method):eq "POST"
    expect(last(vu).stream):eq "chat"
    expect(last(vu).api):is_nil()
  end)

  it("keeps a canned answer of the declared length, the same for the same session", function()
    local function second_request()
      local vu = test.vu { session = 5 }
      local conv = chat.new(vu)
      conv:user "a"
      conv:send { max_tokens = 30 }
      conv:user "b"
      conv:send { max_tokens = 30 }
      return last(vu)
    end
    local answer = second_request().json.messages[2]
    expect(answer.role):eq "assistant"
    expect(#answer.content):eq(30)
    expect(second_request().body):eq(second_request().body)
    local other = test.vu { session = 6 }
    local conv = chat.new(other)
    conv:user "a"
    conv:send { max_tokens = 30 }
    expect(conv:message(2).content):ne(answer.content)
  end)

  it("keeps the model's own answer when it is live", function()
    local vu = test.vu { replies = { "the model's words" } }
    local conv = chat.new(vu, { history = "live" })
    conv:user "a"
    local reply = conv:send()
    expect(reply.text):eq "the model's words"
    expect(conv:message(2)):eq { role = "assistant", content = "the model's words" }
    expect(last(vu).json.ignore_eos):is_nil()
    expect(last(vu).json.max_tokens):is_nil()
  end)

  it("counts turns, steps and messages", function()
    local vu = test.vu()
    local conv = chat.new(vu, { system = "s" })
    conv:user "1"
    conv:send { max_tokens = 1 }
    conv:send { max_tokens = 1 }
    conv:user "2"
    conv:send { max_tokens = 1 }
    local seen = {}
    for i, r in ipairs(vu.requests) do
      seen[i] = { r.turn, r.step, r.branch }
    end
    expect(seen):eq { { 1, 1, 0 }, { 1, 2, 0 }, { 2, 1, 0 } }
    expect(conv.messages):eq(6)
    expect(#conv):eq(6)
  end)

  it("escapes what it sends", function()
    local vu = test.vu()
    local conv = chat.new(vu)
    conv:user "line\n\"quoted\" é \1"
    conv:send { max_tokens = 1 }
    expect(last(vu).json.messages[1].content):eq "line\n\"quoted\" é \1"
  end)

  it("takes settings for all its requests, and for one", function()
    local vu = test.vu()
    local conv = chat.new(vu, { max_tokens = 9, temperature = 0, cache_salt = "t1", priority = 2,
      headers = { ["x-a"] = "b" }, timeout = "3s", stop = { "END" } })
    conv:user "a"
    conv:send()
    local body = last(vu).json
    expect({ body.max_tokens, body.temperature, body.cache_salt, body.priority, body.stop }):eq { 9, 0,
      "t1", 2, { "END" } }
    expect(last(vu).headers):eq { ["x-a"] = "b" }
    expect(last(vu).timeout):eq "3s"
    conv:send { max_tokens = 2.6, stream = false, extra = { seed = 4, temperature = 1 }, timeout = 1 }
    body = last(vu).json
    expect({ body.max_tokens, body.seed, body.temperature, body.stream }):eq { 3, 4, 1, false }
    expect(body.stream_options):is_nil()
    expect(last(vu).api):eq "chat"
    expect(last(vu).stream):is_nil()
    conv:send { ignore_eos = false }
    expect(last(vu).json.ignore_eos):is_nil()
    expect(last(vu).json.min_tokens):is_nil()
  end)

  it("counts the tokens of its text", function()
    local conv = chat.new(test.vu(), { system = "12345" })
    conv:user(gen.text { tokens = 20, seed = "x" })
    expect(conv:tokens()):eq(25)
  end)

  it("says what was wrong, at the author's line", function()
    local vu = test.vu()
    local conv = chat.new(vu)
    expect(function() chat.new() end):errors "test_chat.lua:%d+: chat.new: the first argument is the virtual"
    expect(function() chat.new(vu, { sistem = "a" }) end):errors "did you mean 'system'"
    expect(function() chat.new(vu, { history = "life" }) end):errors "unknown history 'life' %(did you mean 'live'"
    expect(function() conv:send {} end):errors "test_chat.lua:%d+: conv:send: max_tokens is missing"
    expect(function() conv:send { max_token = 3 } end):errors "did you mean 'max_tokens'"
    expect(function() conv:send { max_tokens = 3, extra = { messages = {} } } end):errors "cannot hold messages"
    expect(function() conv:user(12) end):errors "conv:user: the text must be a string or a text, got number"
    expect(function() chat.new(vu, { route = "random" }) end):errors "must be a function: route = route.random%(%)"
    expect(function() chat.new(vu, { tools = { {} } }) end):errors "entry 1 has neither a type nor a name"
    expect(#vu.requests):eq(0)
  end)

  it("wants its methods called with a colon, and knows its names", function()
    local conv = chat.new(test.vu())
    expect(function() conv.user "hi" end)
      :errors "test_chat.lua:%d+: conv:user: call it with a colon, conv:user%(text%)$"
    expect(function() conv.send { max_tokens = 3 } end):errors "conv:send: call it with a colon, conv:send%(opts%)$"
    expect(function() conv.tokens() end):errors "conv:tokens: call it with a colon, conv:tokens%(%)$"
    expect(function() conv:usr "hi" end):errors "test_chat.lua:%d+: conv has no 'usr' %(did you mean 'user'%?%)"
    expect(function() return conv.trun end):errors "conv has no 'trun' %(did you mean 'turn'%?%)"
    expect(conv.parent):is_nil()
    expect(#conv):eq(0)
  end)

  it("sends nothing without a user message", function()
    local vu = test.vu()
    local missing = "test_chat.lua:%d+: conv:send: the conversation has no user message yet; conv:user%(text%) first"
    local conv = chat.new(vu, { max_tokens = 1 })
    expect(function() conv:send() end):errors(missing)
    conv:system "be brief"
    expect(function() conv:try_send() end):errors(missing)
    conv:user "a"
    conv:truncate(1)
    expect(function() conv:send() end):errors(missing)
    expect(#vu.requests):eq(0)
  end)

  it("adds user messages of either kind as turns, and no tool's answers", function()
    local vu = test.vu()
    local conv = chat.new(vu)
    conv:add("user", "a")
    conv:send { max_tokens = 1 }
    expect({ last(vu).turn, last(vu).step }):eq { 1, 1 }
    expect(function() conv:add("tool", "x") end):errors "conv:add: a tool's answer belongs to a call; conv:tool%(text%)"
    expect(function() conv:add("usr", "x") end):errors "conv:add: unknown role 'usr' %(did you mean 'user'%?%)"
  end)

  it("refuses tools, numbers and policies that are none", function()
    local vu = test.vu()
    expect(function() chat.new(vu, { tools = { name = "f" } }) end)
      :errors "test_chat.lua:%d+: tools must be a list, this table has the key 'name'"
    expect(function() chat.new(vu, { tools = tool.new { name = "f" } }) end):errors "a single tool is { t }"
    local conv = chat.new(vu, { tools = { { name = "read" } } })
    conv:user "a"
    expect(function() conv:send { max_tokens = 1, tool_call = { name = "raed" } } end)
      :errors "test_chat.lua:%d+: conv:send: tool_call: the conversation has no tool 'raed' %(did you mean 'read'%?%)"
    expect(function() conv:send { max_tokens = 1, tool_call = { name = "x" } } end):errors "%(it has: read%)"
    expect(function() conv:send { max_tokens = 0 } end):errors "conv:send: max_tokens must be above 0, got 0"
    expect(function() conv:send { max_tokens = -3 } end):errors "max_tokens must be above 0, got %-3"
    expect(function() chat.new(vu, { max_tokens = "9" }) end):errors 'max_tokens must be a number, got the string "9"'
    expect(function() conv:send { max_tokens = 1, temperature = "hot" } end)
      :errors 'conv:send: temperature must be a number, got the string "hot"'
    expect(function() chat.new(vu, { priority = true }) end):errors "chat.new: priority must be a number, got true"
    expect(function() chat.new(vu, { route = route.round_robin }) end)
      :errors "test_chat.lua:%d+: chat.new: route: call it: route = route.round_robin%(%)$"
    expect(#vu.requests):eq(0)
  end)

  it("of the parent is no child's", function()
    local vu = test.vu()
    local conv = chat.new(vu, { max_tokens = 1 })
    conv:user "a"
    local wrong = "conv:send: the conversation belongs to another virtual user than the one that runs; "
      .. "conv:fork%(child%) makes one"
    vu:all({ 1 }, function(child)
      expect(function() conv:send() end):errors(wrong)
      conv:fork(child):send()
    end)
    conv:send()
    expect(#vu.requests):eq(2)
  end)
end)

describe("failures", function()
  it("end the session, or are values", function()
    local vu = test.vu { replies = { { class = "timeout_total", detail = "after 1 s" }, { class = "http_5xx" } } }
    local conv = chat.new(vu)
    conv:user "a"
    local reply, class, detail = conv:try_send { max_tokens = 4 }
    expect(reply):is_nil()
    expect(class):eq "timeout_total"
    expect(detail):eq "after 1 s"
    expect(conv.messages):eq(1)
    expect(function() conv:send { max_tokens = 4 } end):errors "http_5xx"
    conv:send { max_tokens = 4 }
    expect(last(vu).step):eq(3)
    expect(conv.messages):eq(2)
  end)

  it("do not change what a session says later", function()
    local function answer(replies)
      local conv = chat.new(test.vu { replies = replies })
      conv:user "a"
      while not conv:try_send { max_tokens = 40 } do end
      return conv:message(2).content
    end
    expect(answer { { class = "reset" }, { class = "reset" } }):eq(answer {})
  end)
end)

describe("tool calls", function()
  local tools = { { name = "read", description = "d", parameters = { type = "object", properties = {} } } }

  it("are written by the script and answered oldest first", function()
    local vu = test.vu()
    local conv = chat.new(vu, { tools = tools })
    conv:user "fix it"
    conv:send { max_tokens = 10, tool_call = { name = "read", arguments = { path = "a.c", line = 3 } } }
    local call = conv:message(2).tool_calls[1]
    expect(call["function"]):eq { name = "read", arguments = '{"line":3,"path":"a.c"}' }
    expect(call.id):matches "^[0-9a-z]+$"
    expect(#call.id):eq(9)
    conv:tool "int main"
    expect(conv:message(3)):eq { role = "tool", tool_call_id = call.id, content = "int main" }
    conv:send { max_tokens = 5 }
    expect(roles(last(vu))):eq "user assistant tool"
    expect(last(vu).step):eq(2)
    expect(last(vu).json.tools):eq { { type = "function", ["function"] = tools[1] } }
  end)

  it("take arguments as text, none, and give each call its own id", function()
    local conv = chat.new(test.vu())
    conv:user "a"
    conv:send { max_tokens = 1, tool_call = { name = "f", arguments = '{"z":1}' } }
    conv:tool "one"
    conv:send { max_tokens = 1, tool_call = { name = "g" } }
    local first, second = conv:message(2).tool_calls[1], conv:message(4).tool_calls[1]
    expect(first["function"].arguments):eq '{"z":1}'
    expect(second["function"].arguments):eq "{}"
    expect(first.id):ne(second.id)
  end)

  it("must all be answered, in any order, before the next request", function()
    local calls = { { id = "c1", name = "f", arguments = "{}" }, { id = "c2", name = "f", arguments = "{}" } }
    local vu = test.vu { replies = { { text = "", tool_calls = calls } } }
    local conv = chat.new(vu, { history = "live" })
    conv:user "a"
    conv:send()
    expect(function() conv:send() end)
      :errors "test_chat.lua:%d+: conv:send: the tool call 'c1' has no answer yet, and 1 more; conv:tool%(text%) first"
    conv:tool("late", "c2")
    expect(function() conv:send() end):errors "the tool call 'c1' has no answer yet; conv:tool"
    conv:tool "early"
    expect(conv:message(4).tool_call_id):eq "c1"
    conv:send()
    expect(#vu.requests):eq(2)
  end)

  it("come from the model when it is live", function()
    local vu = test.vu { replies = { { text = "", tool_calls = { { id = "c1", name = "f", arguments = "{}" } },
      finish_reason = "tool_calls" } } }
    local conv = chat.new(vu, { history = "live" })
    conv:user "a"
    local reply = conv:send { max_tokens = 5 }
    expect(reply.tool_calls[1].name):eq "f"
    expect(conv.core:message(2)):eq('{"role":"assistant","content":null,"tool_calls":[{"id":"c1",'
      .. '"type":"function","function":{"name":"f","arguments":"{}"}}]}')
    conv:tool "result"
    expect(conv:message(3).tool_call_id):eq "c1"
  end)

  it("raise when none is open", function()
    local conv = chat.new(test.vu())
    conv:user "a"
    expect(function() conv:tool "x" end):errors "no tool call is open"
    conv:send { max_tokens = 1, tool_call = { name = "f" } }
    expect(function() conv:tool("x", "nope") end):errors "no open call has the id 'nope'"
    expect(function() conv:send { max_tokens = 1, tool_call = { arguments = {} } } end):errors "needs the tool's name"
    expect(function() conv:send { max_tokens = 1, tool_call = { name = "f", args = {} } } end)
      :errors "unknown option 'args'"
  end)
end)

describe("forks", function()
  it("share the history and go their own ways", function()
    local vu = test.vu()
    local trunk = chat.new(vu, { system = "s" })
    trunk:user "1"
    trunk:send { max_tokens = 20 }
    local branches = vu:all({ "a", "b" }, function(child, idea)
      local branch = trunk:fork(child)
      branch:user(idea)
      branch:send { max_tokens = 20 }
      return branch
    end)
    trunk:user "2"
    trunk:send { max_tokens = 20 }
    local a, b, t = vu.requests[2], vu.requests[3], vu.requests[4]
    expect({ a.turn, a.step, a.branch, a.parent }):eq { 2, 1, 1, 0 }
    expect({ b.turn, b.step, b.branch, b.parent }):eq { 2, 1, 2, 0 }
    expect({ t.turn, t.step, t.branch }):eq { 2, 1, 0 }
    expect(a.json.messages[3].content):eq(t.json.messages[3].content)
    expect(a.json.messages[4].content):eq "a"
    expect(branches[1]:message(5).content):ne(branches[2]:message(5).content)
    expect(trunk.messages):eq(5)
  end)

  it("can stay on the same virtual user", function()
    local vu = test.vu()
    local trunk = chat.new(vu)
    trunk:user "1"
    local fork = trunk:fork(vu)
    fork:send { max_tokens = 1 }
    expect(last(vu).branch):eq(1)
    expect(last(vu).parent):eq(0)
    expect(function() trunk:fork() end):errors "conv:fork: the first argument is the virtual user"
  end)

  it("carry open tool calls", function()
    local vu = test.vu()
    local trunk = chat.new(vu)
    trunk:user "1"
    trunk:send { max_tokens = 1, tool_call = { name = "f" } }
    local fork = trunk:fork(vu)
    fork:tool "fork's"
    trunk:tool "trunk's"
    expect(fork:message(3).content):eq "fork's"
    expect(trunk:message(3).content):eq "trunk's"
  end)
end)

describe("edit and truncate", function()
  local function long()
    local vu = test.vu()
    local conv = chat.new(vu, { system = "s" })
    for i = 1, 3 do
      conv:user("question " .. i)
      conv:send { max_tokens = 10 }
    end
    return conv, vu
  end

  it("edit changes one message only", function()
    local conv, vu = long()
    local fork = conv:fork(vu)
    conv:edit(2, "another question")
    expect(conv:message(2)):eq { role = "user", content = "another question" }
    expect(conv:message(1).content):eq "s"
    conv:edit(1, "t")
    conv:edit(-1, "last")
    expect(conv:message(7).content):eq "last"
    conv:send { max_tokens = 1 }
    expect(last(vu).json.messages[2].content):eq "another question"
    expect(fork:message(2).content):eq "question 1"
    expect(conv:tokens()):eq(1 + 16 + 10 + 10 + 10 + 10 + 4 + 1)
  end)

  it("truncate takes turns back", function()
    local conv, vu = long()
    conv:truncate(3)
    expect(conv.messages):eq(3)
    expect(conv.turn):eq(1)
    expect(conv.step):eq(1)
    conv:user "again"
    conv:send { max_tokens = 10 }
    expect(roles(last(vu))):eq "system user assistant user"
    expect(last(vu).turn):eq(2)
    expect(last(vu).step):eq(1)
    conv:truncate(0)
    expect(conv:tokens()):eq(0)
    conv:user "first of all"
    expect(json.encode(conv:message(1))):eq '{"role":"user","content":"first of all"}'
  end)

  it("truncate opens calls again", function()
    local conv = chat.new(test.vu())
    conv:user "a"
    conv:send { max_tokens = 1, tool_call = { name = "f" } }
    conv:tool "1"
    conv:send { max_tokens = 1 }
    conv:truncate(2)
    conv:tool "2"
    expect(conv:message(3).content):eq "2"
    expect(function() conv:tool "3" end):errors "no tool call is open"
  end)

  it("an answer given again is another one", function()
    local conv = chat.new(test.vu())
    conv:user "a"
    conv:send { max_tokens = 30 }
    local first = conv:message(2).content
    conv:truncate(1)
    conv:send { max_tokens = 30 }
    expect(conv:message(2).content):ne(first)
  end)

  it("refuse messages that are not there", function()
    local conv = long()
    expect(function() conv:edit(8, "x") end):errors "conv:edit: message 8 of 7"
    expect(function() conv:message(0) end):errors "message 0 of 7"
    expect(function() conv:truncate(8) end):errors "conv:truncate: 8 messages of 7"
  end)
end)

describe("shared prompts", function()
  it("are the same bytes in every conversation and place", function()
    local system = gen.text { tokens = 500, seed = "sys" }
    local vu = test.vu()
    local one, two = chat.new(vu, { system = system }), chat.new(vu, { system = system })
    expect(one.core:message(1)):eq(two.core:message(1))
    one:user(system)
    one:assistant(system)
    expect(one:message(2)):eq { role = "user", content = tostring(system) }
    expect(one:message(3)):eq { role = "assistant", content = tostring(system) }
    one:user "x"
    one:send { max_tokens = 1 }
    expect(roles(last(vu))):eq "system user assistant user"
  end)
end)
