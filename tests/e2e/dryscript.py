"""A scenario that `perigee run` and `perigee dry` both do, for what holds one against the other."""

from harness import RELAXED

SCRIPT = """
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"
local policies = { round_robin = route.round_robin, random = route.random, session_hash = route.session_hash,
                   direct = route.direct, least_inflight = route.least_inflight }
local policy, load = perigee.param("policy", "session_hash"), perigee.param("load", "one")
local SYSTEM = gen.text { tokens = 600, seed = "s" }
local loads = {
  one = perigee.closed { users = 1, sessions = 5 },
  open = perigee.open { rate = 0.5, arrival = "constant", sessions = 4 },
  many = perigee.open { rate = 40, sessions = 600 },
}
return perigee.plan {
  load = loads[load],
  route = policies[policy](),
  session = function(vu)
    local conv = chat.new(vu, { system = SYSTEM })
    for _ = 1, vu.rng:int(2, 4) do
      conv:user(gen.text { tokens = vu.rng:normal(300, 80), rng = vu.rng })
      conv:send { max_tokens = vu.rng:int(20, 50) }
      vu:sleep(0.01)
    end
  end,
}
"""


def both(work, *args, script=SCRIPT):
    """The real run, whose client may be slowed down by whatever else this machine does, and the dry one."""
    path = work.write("s.lua", script)
    results = []
    for command in ("run", "dry"):
        r = work.perigee(command, path, "--quiet", "--label", command, *RELAXED, *args)
        assert r.folder and r.folder.split("/")[-1].startswith(command), r.err
        results.append(r)
    return results
