---@meta perigee.chat

--- Conversations over chat completions. The history lives outside the Lua heap and nothing of it is copied
--- when a turn is sent, so sessions may be long and many.
---@class perigee.chat
local chat = {}

---@class perigee.ChatOptions
---@field system? perigee.TextLike a first message of the system
---@field tools? (table|perigee.Tool)[] schemas the model is told of: `{ type = "function", ["function"] = … }`, `{ name =, description =, parameters = }`, or tools of `perigee.tool`
---@field history? "scripted"|"live" what an answer leaves in the history: canned text of the declared length (default; every run sends the same bytes, and `ignore_eos` and `min_tokens` hold the model to that length), or the model's own words and calls
---@field model? string default: the fleet's
---@field route? perigee.Policy default: the plan's
---@field headers? table<string, string>
---@field cache_salt? string keeps its blocks apart from those of other salts
---@field priority? integer
---@field max_tokens? number default for each `send`
---@field temperature? number default for each `send`
---@field stop? string|string[] default for each `send`
---@field stream? boolean default for each `send`
---@field ignore_eos? boolean default for each `send`
---@field timeout? perigee.Quantity|table default for each `send`
---@field extra? table default for each `send`

--- A new conversation of a virtual user.
---@param vu perigee.Vu who sends it
---@param opts? perigee.ChatOptions
---@return perigee.Conversation
function chat.new(vu, opts) end

--- A conversation. A *turn* is counted by user messages from 1, a *step* by requests within a turn from 1;
--- both are tags of the rows. Message indices count from 1; negative ones from the end.
---@class perigee.Conversation
---@field messages integer how many there are, as `#conv`
---@field turn integer
---@field step integer requests sent in this turn
---@field branch integer 0 for the trunk
---@field parent integer? the branch it was forked from
---@field history "scripted"|"live"
---@field model string?
---@field vu perigee.Vu who sends it
local Conversation = {}

--- Adds a user message: a new turn begins.
---@param text perigee.TextLike
---@return perigee.Conversation self
function Conversation:user(text) end

--- Adds an assistant message that was not asked of the server.
---@param text perigee.TextLike
---@return perigee.Conversation self
function Conversation:assistant(text) end

--- Adds a system message.
---@param text perigee.TextLike
---@return perigee.Conversation self
function Conversation:system(text) end

---@class perigee.SendOptions
---@field max_tokens? number length of the answer, tokens (above 0, rounded to at least 1); needed unless the history is live
---@field tool_call? { name: string, arguments?: table|string } the answer becomes a call of this tool (one of `tools`, where there are some), with a deterministic id; arguments are a table or a JSON text
---@field temperature? number
---@field stop? string|string[]
---@field stream? boolean default true
---@field ignore_eos? boolean false: do not hold the model to the declared length
---@field timeout? perigee.Quantity|table as in `vu:http`
---@field headers? table<string, string>
---@field cache_salt? string
---@field priority? integer
---@field extra? table further fields of the request's body, over those above (`messages`, `tools`, `prompt`, `model` and `stream` have places of their own)

--- Sends the conversation, waits for the answer and keeps it in the history. A failure ends the session.
---
--- Errors: raises without a user message, while a tool call has no answer, and on another user than the one
--- that runs (`conv:fork(child)` makes a conversation for a child).
---@param opts? perigee.SendOptions
---@return perigee.Reply reply what the model really said, whatever the history keeps
function Conversation:send(opts) end

--- The same; a failure is `nil, class, detail, response`, and leaves the history as it was.
---@param opts? perigee.SendOptions
---@return perigee.Reply? reply
---@return perigee.ErrorClass? class
---@return string? detail
---@return perigee.FailedReply? response
function Conversation:try_send(opts) end

--- Answers an open tool call: the oldest, or the one with this id.
---
--- Errors: raises when no call is open.
---@param text perigee.TextLike the tool's result
---@param id? string
---@return perigee.Conversation self
function Conversation:tool(text, id) end

--- A conversation that shares this history and goes its own way, on another user or (as a new branch) on
--- the same one. Turns go on from the fork.
---@param vu perigee.Vu
---@return perigee.Conversation
function Conversation:fork(vu) end

--- Message i as a table: role, content, and what else it has.
---@param i integer
---@return table
function Conversation:message(i) end

--- Gives message i another text; its role, ids and calls stay. Forks keep theirs.
---@param i integer
---@param text perigee.TextLike
---@return perigee.Conversation self
function Conversation:edit(i, text) end

--- Keeps the first n messages; turn, step and open calls are those of that moment.
---@param n integer
---@return perigee.Conversation self
function Conversation:truncate(n) end

--- The tools the model is told of from now on; nil for none.
---@param tools? (table|perigee.Tool)[]
---@return perigee.Conversation self
function Conversation:set_tools(tools) end

--- Who makes the prompt's text, written by hand: a table with `render`, which gives the whole text (or list of
--- token ids) of all messages each time, or with `render_more`, which gives what is new; one of them is enough.
--- The bytes must depend on the arguments alone: a renderer whose fields changed is set anew.
---
--- `render_more(self, messages, from, opts)` gives the text of the messages from number `from` on that stays, and
--- the ending that the next call replaces, such as the beginning of the answer; both may be lists of token ids.
--- From 1 on it is the whole. `messages` is a list of all of them that decodes those that are looked at (`#`,
--- `ipairs`, `pairs` and indexing work; `next` does not); `opts.tools` is decoded when it is read. What stays
--- must not change with messages that come later; where the last ones are written otherwise, a third value says
--- up to which message the text stays, and the rest belongs to the ending; below 1 none stays, and the next call
--- begins with 1 again, with what stands before message 1 (tools) too:
---
---     function renderer:render_more(messages, from)
---       local parts = {}
---       for i = from, #messages do
---         parts[#parts + 1] = ("<%s>%s"):format(messages[i].role, messages[i].content or "")
---       end
---       return table.concat(parts), "<assistant>"
---     end
---
--- An edit, a cut or a fork goes back to the last call whose messages are as they were; other tools or kwargs,
--- or another renderer in between, begin with 1. A conversation's first four calls, the first two that go back,
--- and one each time it has twice as many messages are held against the whole (`render` where there is one,
--- else `render_more` from 1): a difference raises, with the renderer's `name` or line and the first differing
--- byte. Those calls cost as much as the whole (`render_ns`).
---
--- A renderer may wait (`vu:sleep`, `vu:http`): its time is the row's `render_ns`. While one of its functions is at
--- work, its conversation can be read (`conv:message`, `#conv`) and nothing else: the renderer itself, and other
--- tasks, raise where they change, fork, render or send it.
---
--- `messages` are those of a chat request, as the conversation has them: `role`; `content`, a text, nil where an
--- answer is a tool call alone; `tool_calls`, each `{ id=, type="function", ["function"]={ name=, arguments= } }`
--- with the arguments as JSON text; `tool_call_id` of a tool's message; `reasoning` of a live answer
--- that had some. `opts.tools` are the request's, each `{ type="function", ["function"]={ name=, description=,
--- parameters= } }`, nil for none.
---@class perigee.Renderer
---@field parse? fun(self: perigee.Renderer, text: string): { content: string?, reasoning: string?, tool_calls: { id: string?, name: string, arguments: string }[]? }?, string? takes the model's raw words apart; requests then ask for special tokens in the text (`skip_special_tokens = false`). Nil and a message: `reply.parse_error` says it and the text stays as it came; anything else than these fields and types raises
---@field render? fun(self: perigee.Renderer, messages: table[], opts: { tools: table[]?, kwargs: table?, now: string?, add_generation_prompt: boolean }): perigee.TextLike|integer[]|nil, string?
---@field render_more? fun(self: perigee.Renderer, messages: table[], from: integer, opts: { tools: table[]?, kwargs: table?, now: string?, add_generation_prompt: boolean }): (perigee.TextLike|integer[])?, (perigee.TextLike|integer[])?, integer? text that stays, the ending, the last message whose text stays (default: the last); nil and a message for a failure
---@field name? string what errors call it

---@class perigee.RendererOptions
---@field kwargs? table further variables of the template, as `chat_template_kwargs` of a server; a renderer in Lua gets a copy for each call
---@field now? string what the template's `strftime_now` tells, as "2026-08-01T12:00:00"; default: the run's `--now`
---@field tokenizer? perigee.Tokenizer what `perigee.tokenizer` loads, for a model other than the run's; default: the run's. One with another vocabulary than the run's is an error where the conversation's model is the run's

--- From now on the prompt is made on this side and sent to `/v1/completions` as token ids, by the run's
--- tokenizer (`--tokenizer`); nil: the server renders again. A template of `perigee.template` gets messages and
--- tools as vLLM gives them to it; a `perigee.harmony` renderer gives ids by the run's tokenizer where that is
--- gpt-oss's, else its own, and takes answers apart: with `history = "live"` analysis, answer and tool calls
--- stay in the history as Harmony wants them. A string is what `--template` takes ("harmony" with the run's
--- `--now` as its date). Answers, tools and history go on as before; another renderer in mid-session is one
--- line, and `survived_tokens` of the next reply and row says how many leading tokens the prompt still has in
--- common with the last one; nil for the first, and where the last one was the server's.
---
--- Harmony, and renderers in Lua that have `render_more`, render only what is new. Of a template, those rounds of its
--- loops over the messages run that would do something else than the turn before; passing over the others, and what
--- it does outside them (`messages[1:]` copies the list), costs tens to hundreds of nanoseconds a message each turn.
--- Templates whose rounds hang on what each other did render everything each turn (20 of 166 in use, among them those
--- of mistral-common). A renderer in Lua that has only `render` gets all messages as tables each time. Whoever
--- rendered, text up to the last special token in what both prompts have in common is not tokenized again (and what
--- lies between two special tokens only once): a text in which the tokenizer finds none is tokenized whole each time.
---
--- Errors: raises for what is no renderer, and in a function of the conversation's own renderer. `send` raises when
--- the renderer fails, or the tokenizer is not known.
---@param renderer? perigee.Template|perigee.HarmonyRenderer|perigee.Renderer|string
---@param opts? perigee.RendererOptions
---@return perigee.Conversation self
function Conversation:set_renderer(renderer, opts) end

--- With a renderer: tokens of the prompt as it is now. Without: of the messages' text by the run's tokenizer
--- (an estimate of 4 bytes a token where it is not known), what the server's chat template adds not in it.
---@return integer
function Conversation:tokens() end

--- Block hashes of the prompt as it is now, as `blockhash.hash` of its tokens with these options; the chain
--- goes on from turn to turn. Needs a renderer. Scheme and block size default to what the fleet file says
--- (`hash_scheme`, `block_size`), or a simulated fleet of its blocks.
---@param opts? perigee.HashOptions
---@return perigee.Hashes
function Conversation:hashes(opts) end

--- Adds a message; `user`, `assistant` and `system` are the usual ways, `tool` answers tool calls. A user
--- message begins a new turn.
---@param role "system"|"user"|"assistant"
---@param text perigee.TextLike
---@return perigee.Conversation self
function Conversation:add(role, text) end

return chat
