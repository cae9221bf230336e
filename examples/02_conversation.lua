--- Lesson 2: a conversation, and what a prefix cache does with it.
-- Every turn sends the whole history again. The server has computed most of it before: the report's
-- cached_ratio says how much of each prompt it could take from its cache.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

-- A text is a handle: made once, for the tokenizer of the run, and shared by everyone who sends it.
local SYSTEM = gen.text { tokens = 600, seed = "lesson-2" }

local function session(vu)
  local conv = chat.new(vu, { system = SYSTEM })
  for turn = 1, 4 do
    conv:user("Question " .. turn .. ": tell me more.")
    conv:send { max_tokens = 50 }
    vu:sleep "200ms" -- reading; quantities are numbers in seconds or strings with a unit
  end
  -- By default the history keeps a canned answer of the declared length, so that every run sends
  -- the same bytes. chat.new(vu, { history = "live" }) keeps what the model really said.
end

return perigee.plan {
  load = perigee.closed { users = 4, duration = "6s" },
  session = session,
}
