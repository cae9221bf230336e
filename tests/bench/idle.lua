--- Users that each make one request at the same time, which takes a connection each, and then rest.
local perigee = require "perigee"

local users = perigee.param("users", 10000)
local rest = perigee.param("rest", 30, "seconds")

local function session(vu)
  vu:http { path = "/v1/chat/completions?whole=1&gather=" .. users, json = { model = "bench" } }
  vu:sleep(rest)
end

return perigee.plan { load = perigee.closed { users = users, sessions = users }, session = session }
