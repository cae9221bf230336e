--- A conversation of 200 turns that grows to about 128k tokens, and the thread's CPU time of its turns 2 to 6
--- and 196 to 200. One user, so what is counted between two readings is that turn's. Without `template` the
--- messages are sent, with it the token ids that it renders to, and block hashes are asked for as well.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

local sessions = perigee.param("sessions", 10)
local template = perigee.param("template", "")

-- The thread's CPU time (cpuclock.c). It counts all sessions; here there is only one.
package.cpath = perigee.param("modules", ".") .. "/?.so;" .. package.cpath
local clock = require "cpuclock"

local function session(vu)
  local conv = chat.new(vu, {})
  local rendered = template ~= ""
  if rendered then
    conv:set_renderer(template)
  end
  for turn = 1, 200 do
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
    elseif turn >= 196 then
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
