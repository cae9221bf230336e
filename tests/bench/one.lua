--- One request.
local perigee = require "perigee"

return perigee.plan {
  load = perigee.closed { users = 1, sessions = 1 },
  session = function(vu)
    vu:http { path = "/", json = { model = "bench" } }
  end,
}
