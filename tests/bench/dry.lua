-- A lean session for the speed of virtual time: one request of some 150 tokens (120 of them shared) for 50 more.
local perigee = require "perigee"
local HEAD = ("shared words of a prompt "):rep(5)
local OPTIONS = { include_usage = true }
return perigee.plan {
  load = perigee.open {
    rate = tonumber(perigee.param("per_second", "200", "sessions a second")),
    sessions = tonumber(perigee.param("count", "20000", "sessions in all")),
  },
  session = function(vu)
    vu:http {
      path = "/v1/completions", stream = "completions", replica = vu:pick_next("dry"), policy = "round_robin",
      json = { model = "sim-model", prompt = HEAD .. vu.session, max_tokens = 50, ignore_eos = true, stream = true,
        stream_options = OPTIONS },
    }
  end,
}
