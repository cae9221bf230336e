--- Lesson 9: libraries and their tests.
-- `require` finds modules beside the script, in its lib/ folder, in $PERIGEE_PATH and in
-- lua_modules/ (LuaRocks). examples/lib/people.lua is one; examples/09_libraries_spec.lua tests it:
--   perigee test examples/09_libraries_spec.lua
-- examples/library/ is a whole one to share, with its rockspec.
local perigee = require "perigee"
local chat = require "perigee.chat"
local people = require "people"

return perigee.plan {
  load = perigee.closed { users = 4, duration = "6s" },
  session = function(vu)
    local conv = chat.new(vu)
    vu:check("everything was answered", people.chat(vu, conv, 3) == 3)
  end,
}
