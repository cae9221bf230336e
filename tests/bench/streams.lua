--- Users that read chat streams, one after the other, and nothing else.
local perigee = require "perigee"

local users = perigee.param("users", 64)
local sessions = perigee.param("sessions", 64, "in all; each reads `requests` streams")
local requests = perigee.param("requests", 1, "streams of a session")
local query = perigee.param("query", "events=100", "what tests/bench/sse_server.c is asked for")
local stamped = perigee.param("stamped", false, "the server keeps the times of its writes")
local spread = perigee.param("spread", 0, "seconds over which the users start")

local function session(vu)
  if spread > 0 then
    vu:sleep(vu.rng:unit() * spread)
  end
  local path = "/v1/chat/completions?" .. query .. (stamped and "&id=" .. vu.session or "")
  for _ = 1, requests do
    vu:http { path = path, stream = "chat", json = { model = "bench", stream = true, messages = {} } }
  end
end

return perigee.plan { load = perigee.closed { users = users, sessions = sessions }, session = session }
