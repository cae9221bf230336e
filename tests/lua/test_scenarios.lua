-- The shipped scenarios and lessons, one session of each on a virtual user that pretends: they run,
-- a session says the same bytes again, and two sessions differ.
local core = require "perigee.core"
local runtime = require "perigee.runtime"
local test = require "perigee.test"

local FOLDERS = { "scenarios", "examples", "examples/library" }

local function load_plan(folder, file)
  local saved = package.path
  package.path = ("%s/?.lua;%s/lib/?.lua;%s"):format(folder, folder, saved)
  local plan = assert(loadfile(folder .. "/" .. file))()
  package.path = saved
  if getmetatable(plan) == runtime.sweep_type() then
    return plan.plan, plan
  end
  return plan
end

-- Everything a session did that a server or a report would see.
local function story(plan, session)
  local fleet = { replicas = { { id = "r0" }, { id = "r1" }, { id = "r2" } } }
  local vu = test.session(plan, { session = session, fleet = fleet })
  local said = {}
  for i, r in ipairs(vu.requests) do
    said[i] = table.concat({ r.path, r.turn, r.step, r.branch, r.body }, " ")
  end
  return said, vu
end

for _, folder in ipairs(FOLDERS) do
  for _, file in ipairs(core.files(folder)) do
    if file:find "%.lua$" and not file:find "_spec%.lua$" and file ~= "agent_mix.lua" then
      describe(folder .. "/" .. file, function()
        it("tells a session", function()
          local plan = load_plan(folder, file)
          local said, vu = story(plan, 3)
          expect(#said):above(0)
          for _, r in ipairs(vu.requests) do
            expect((r.json or {}).model):eq(r.path:find "/v1/c" and "test-model" or nil)
          end
          for _, r in ipairs(vu.requests) do
            local prompt = r.json and r.json.prompt
            expect(not r.json or prompt or r.json.messages[1].content):is_a(not r.json and "boolean"
              or type(prompt) == "table" and "table" or "string")
          end
          expect(story(plan, 3)):eq(said)
          for _, record in ipairs(vu.records) do
            expect(plan.metrics[record.metric]):is_a "string"
          end
        end)
      end)
    end
  end
end

describe("renderer_change", function()
  local plan = load_plan("scenarios", "renderer_change.lua")

  it("says what survived the change, and before and after it everything does", function()
    local _, vu = story(plan, 1)
    expect(#vu.requests):eq(6)
    for turn, r in ipairs(vu.requests) do
      expect(r.path):eq "/v1/completions"
      if turn == 1 or turn == 4 then
        expect(r.survived_tokens):eq(turn == 4 and 0 or nil)
      else
        expect(r.survived_tokens):eq(vu.requests[turn - 1].prompt_tokens)
      end
    end
    expect(vu.records):eq { { metric = "survived", value = 0 } }
    expect(utf8.char(table.unpack(vu.requests[3].json.prompt, 1, 12))):eq "<|im_start|>"
    expect(utf8.char(table.unpack(vu.requests[4].json.prompt, 1, 8))):eq "SYSTEM: "
  end)
end)

describe("tool_loop_branching", function()
  local plan = load_plan("scenarios", "tool_loop_branching.lua")

  it("branches three times from one prefix and goes on", function()
    local _, vu = story(plan, 1)
    local branches, trunk = {}, {}
    for _, r in ipairs(vu.requests) do
      if r.branch > 0 then
        branches[r.branch] = branches[r.branch] or r
        expect(r.parent):eq(0)
        expect(r.turn):eq(2)
      elseif r.turn == 1 then
        trunk[#trunk + 1] = r
      end
    end
    expect(#branches):eq(3)
    local shared = trunk[#trunk].json.messages
    for _, r in ipairs(branches) do
      expect(table.move(r.json.messages, 1, #shared, 1, {})):eq(shared)
    end
    local last = vu.requests[#vu.requests]
    expect({ last.branch, last.turn, last.step }):eq { 0, 2, 1 }
    expect(last.json.messages[#last.json.messages].content):eq "Summarise what you did."
  end)

  it("answers each call it made", function()
    local _, vu = story(plan, 2)
    local calls, answers = {}, {}
    for _, message in ipairs(vu.requests[#vu.requests].json.messages) do
      if message.tool_calls then
        calls[#calls + 1] = message.tool_calls[1].id
      elseif message.role == "tool" then
        answers[#answers + 1] = message.tool_call_id
      end
    end
    expect(#calls):above(2)
    expect(answers):eq(calls)
  end)

  it("differs between sessions", function()
    local one, two = story(plan, 1), story(plan, 2)
    expect(one[1]):ne(two[1])
  end)
end)

describe("chat_multi_turn", function()
  it("shares its system prompt and repeats its history", function()
    local _, vu = story(load_plan("scenarios", "chat_multi_turn.lua"), 5)
    local requests = vu.requests
    expect(#requests):above(3)
    expect(#requests):below(9)
    expect(#requests[1].json.messages[1].content):eq(800)
    for i = 2, #requests do
      local before, now = requests[i - 1].json.messages, requests[i].json.messages
      expect(#now):eq(#before + 2)
      expect(table.move(now, 1, #before, 1, {})):eq(before)
      expect(#now[#before + 1].content):eq(200)
    end
  end)
end)

describe("capacity_sweep", function()
  local plan, sweep = load_plan("scenarios", "capacity_sweep.lua")

  it("has the axes and the working set that its comment counts with", function()
    local axes = {}
    for i, axis in ipairs(sweep.axes) do
      axes[i] = axis.name .. "=" .. table.concat(axis.values, ",")
    end
    expect(axes):eq { "replicas=1,2,4", "kv_blocks=150,300,600", "route=spread,sticky" }
    expect(plan.load.users):eq(8)
    local _, vu = story(plan, 5)
    expect(#vu.requests):eq(5)
    for step, r in ipairs(vu.requests) do
      expect(#r.json.messages):eq(2 * step)
      expect(#r.json.messages[1].content):eq(800)
      expect(#r.json.messages[2 * step].content):eq(120)
    end
    local _, other = story(plan, 7) -- of the same team
    expect(other.requests[1].json.messages[1].content):eq(vu.requests[1].json.messages[1].content)
  end)
end)
