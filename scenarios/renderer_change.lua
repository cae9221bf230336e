--- What a change of renderer, template or tools in mid-session costs the cache: how many leading tokens
-- of the prompt survive it. Sessions render their prompts on this side and send token ids; after `at`
-- turns one thing changes, and the rest of the session goes on with it.
--
--   perigee run scenarios/renderer_change.lua                        another renderer: nothing survives
--   perigee run scenarios/renderer_change.lua --set change=template  another beginning of the answer
--   perigee run scenarios/renderer_change.lua --set change=tools     one more tool, which stands in front
--   perigee run scenarios/renderer_change.lua --set change=none      the baseline: every token survives
--
-- The fleet's token is a byte; with `--tokenizer qwen3` (after `make deps`) both sides use the model's.
--
-- `survived` is a ratio of the prompt before the change; each row has `survived_tokens`.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local template = require "perigee.template"

local change = perigee.param("change", "renderer", "what changes: renderer, template, tools or none")
local users = perigee.param("users", 4, "sessions at the same time")
local sessions = perigee.param("sessions", 24, "sessions in all")
local turns = perigee.param("turns", 6, "user messages per session")
local at = perigee.param("at", 4, "the turn before which it changes")
local system = perigee.param("system", 600, "tokens of the system prompt")

-- A template as models have them; `opens` is what the answer begins with.
local function chatml(opens)
  local source = [[
{%- if tools %}<|im_start|>tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
OPENS{% endif %}]]
  return assert(template.load((source:gsub("OPENS", opens))))
end

-- A renderer by hand is a table with `render`, which gives the whole text, or `render_more`, which gives
-- what the messages from `from` on add, and the ending that the next turn replaces.
local plain = {}
function plain:render_more(messages, from) -- luacheck: no self
  local lines = {}
  for i = from, #messages do
    lines[#lines + 1] = messages[i].role:upper() .. ": " .. (messages[i].content or "") .. "\n\n"
  end
  return table.concat(lines), "ASSISTANT:"
end

local SYSTEM = gen.text { tokens = system, seed = "renderer-change" }
local WEATHER = { name = "weather", description = "Tells the weather.", parameters = { type = "object" } }
local SEARCH = { name = "search", description = "Searches the web.", parameters = { type = "object" } }
local TEMPLATE, THINKING = chatml "", chatml "<think>\n"

-- The one line that each of them is.
local changes = {
  renderer = function(conv) conv:set_renderer(plain) end,
  template = function(conv) conv:set_renderer(THINKING) end,
  tools = function(conv) conv:set_tools { WEATHER, SEARCH } end,
  none = function() end,
}
if not changes[change] then
  error("change is renderer, template, tools or none, not '" .. change .. "'")
end

local function session(vu)
  local conv = chat.new(vu, { system = SYSTEM, tools = { WEATHER } })
  conv:set_renderer(TEMPLATE)
  local before = 0
  for turn = 1, turns do
    conv:user(gen.text { tokens = vu.rng:normal(80, 20), rng = vu.rng })
    vu:tag("phase", turn < at and "before" or turn == at and "change" or "after")
    if turn == at then
      changes[change](conv)
    end
    local reply = conv:send { max_tokens = 60 }
    if turn == at then
      vu:record("survived", reply.survived_tokens / before)
    end
    before = reply.prompt_tokens_local
    vu:sleep(vu.rng:exp "100ms")
  end
end

return perigee.plan {
  description = "what survives a change in mid-session",
  load = perigee.closed { users = users, sessions = sessions },
  session = session,
  metrics = { survived = "ratio" },
  expect = {
    "failed share < 1%",
    change == "none" and "survived min > 99%" or change == "template" and "survived min > 90%"
      or "survived max < 60%",
  },
}
