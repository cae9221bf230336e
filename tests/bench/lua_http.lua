--- Sessions that do what scripts do with plain HTTP: build headers and a JSON body, decode the reply.
local perigee = require "perigee"
local json = require "perigee.json"

local users = perigee.param("users", 16, "connections, each with its user")
local seconds = perigee.param("seconds", 3, "length of the measurement")

local PROMPT = "Which of the three replicas keeps the longest prefix of this conversation in its cache, and why?"

local function session(vu)
  for i = 1, 50 do
    local reply = vu:http {
      path = "/v1/chat/completions",
      headers = {
        ["Authorization"] = "Bearer bench",
        ["X-Request-Id"] = ("%d-%d"):format(vu.session, i),
        ["X-Session"] = tostring(vu.session),
      },
      json = {
        model = "bench",
        messages = {
          { role = "system", content = "You are a helpful assistant." },
          { role = "user", content = PROMPT },
        },
        max_tokens = 64,
        temperature = 0.5,
        stream = false,
      },
    }
    local value = json.decode(reply.body)
    if value.choices[1].message.content == nil then
      vu:fail("bad_json", "no content in the reply")
    end
  end
end

return perigee.plan {
  load = perigee.closed { users = users, duration = seconds },
  drain = 0, -- what ends later is not counted
  session = session,
}
