--- A conversation of 200 turns that grows to about 128k tokens, and the thread's CPU time of its turns 2 to 6
--- and 196 to 200. One user, so what is counted between two readings is that turn's. Without `renderer` the
--- messages are sent, with it the token ids that it renders to, and block hashes are asked for as well: a
--- template's path, "harmony", "lua" (ChatML by hand, which gives what is new) or "whole" (the same, all of it).
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

local sessions = perigee.param("sessions", 10)
local renderer = perigee.param("renderer", "")
local turns = perigee.param("turns", 200)

-- The thread's CPU time (cpuclock.c). It counts all sessions; here there is only one.
package.cpath = perigee.param("modules", ".") .. "/?.so;" .. package.cpath
local clock = require "cpuclock"

local function chatml(messages, from)
  local parts = {}
  for i = from, #messages do
    local message = messages[i]
    parts[#parts + 1] = "<|im_start|>" .. message.role .. "\n" .. message.content .. "<|im_end|>\n"
  end
  return table.concat(parts)
end

local ANSWER = "<|im_start|>assistant\n"
local by_hand = {
  lua = { render_more = function(_, messages, from) return chatml(messages, from), ANSWER end },
  whole = { render = function(_, messages) return chatml(messages, 1) .. ANSWER end },
}

local function session(vu)
  local conv = chat.new(vu, {})
  local rendered = renderer ~= ""
  if rendered then
    conv:set_renderer(by_hand[renderer] or renderer)
  end
  for turn = 1, turns do
    local text = gen.text { tokens = 450, rng = vu.rng }
    local before = clock()
    conv:user(text)
    if rendered then
      conv:hashes()
    end
    local ready = clock()
    conv:send { max_tokens = 180 }
    local used = clock() - before
    if turn >= 2 and turn <= 6 then
      vu:record("turn_2", used)
      vu:record("ready_2", ready - before)
    elseif turn > turns - 5 then
      vu:record("turn_200", used)
      vu:record("ready_200", ready - before)
    end
  end
end

return perigee.plan {
  load = perigee.closed { users = 1, sessions = sessions },
  session = session,
  metrics = { turn_2 = "s", turn_200 = "s", ready_2 = "s", ready_200 = "s" },
}
