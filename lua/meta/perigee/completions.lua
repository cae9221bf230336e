---@meta perigee.completions

--- Prompts of text or token ids over the completions API, without a chat template.
---@class perigee.completions
local completions = {}

---@class perigee.CompletionsOptions
---@field model? string default: the fleet's
---@field route? perigee.Policy default: the plan's
---@field headers? table<string, string>
---@field cache_salt? string
---@field priority? integer
---@field max_tokens? number default for each `send`
---@field temperature? number default for each `send`
---@field stop? string|string[] default for each `send`
---@field stream? boolean default for each `send`
---@field ignore_eos? boolean default for each `send`
---@field timeout? perigee.Quantity|table default for each `send`
---@field extra? table default for each `send`

--- A sender of prompts.
---@param vu perigee.Vu
---@param opts? perigee.CompletionsOptions
---@return perigee.Completions
function completions.new(vu, opts) end

--- A sender of prompts; each request is a turn of its own.
---@class perigee.Completions
---@field turn integer requests so far
local Completions = {}

---@class perigee.PromptOptions
---@field prompt perigee.TextLike|perigee.TextLike[]|integer[] a text, texts to be joined (a shared one is escaped once), or token ids
---@field max_tokens? number tokens; when given the answer is held to this length (`ignore_eos = false`: not)
---@field temperature? number
---@field stop? string|string[]
---@field stream? boolean default true
---@field ignore_eos? boolean
---@field timeout? perigee.Quantity|table as in `vu:http`
---@field headers? table<string, string>
---@field cache_salt? string
---@field priority? integer
---@field extra? table further fields of the request's body

--- Sends a prompt and waits for the answer. A failure ends the session.
---@param opts perigee.PromptOptions
---@return perigee.Reply
function Completions:send(opts) end

--- The same; a failure is `nil, class, detail, response`.
---@param opts perigee.PromptOptions
---@return perigee.Reply? reply
---@return perigee.ErrorClass? class
---@return string? detail
---@return perigee.FailedReply? response
function Completions:try_send(opts) end

return completions
