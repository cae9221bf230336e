--- Sessions that do nothing, at a rate: what remains is how late they start.
local perigee = require "perigee"

local rate = perigee.param("rate", 1000, "arrivals a second")
local seconds = perigee.param("seconds", 3)

return perigee.plan { load = perigee.open { rate = rate, duration = seconds }, session = function() end }
