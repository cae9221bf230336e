--- A conversation of 200 turns that grows to 128 KiB (which the bytes tokenizer calls 128k tokens), and the process's
--- CPU time of its turns 2 to 6 and 196 to 200. One user, so what is counted between two readings is that turn's.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"

local sessions = perigee.param("sessions", 10)

-- os.clock is not for sessions, as it counts all of them; here there is only one.
local _, clock = debug.getupvalue(os.clock, 1)

local function session(vu)
  local conv = chat.new(vu, {})
  for turn = 1, 200 do
    local text = gen.text { tokens = 400, rng = vu.rng }
    local before = clock()
    conv:user(text)
    conv:send { max_tokens = 180 }
    local used = clock() - before
    if turn >= 2 and turn <= 6 then
      vu:record("turn_2", used)
    elseif turn >= 196 then
      vu:record("turn_200", used)
    end
  end
end

return perigee.plan {
  load = perigee.closed { users = 1, sessions = sessions },
  session = session,
  metrics = { turn_2 = "s", turn_200 = "s" },
}
