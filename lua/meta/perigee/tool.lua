---@meta perigee.tool

--- Simulated tools: how long they take, how much they answer, how often they fail.
---@class perigee.tool
local tool = {}

---@class perigee.ToolOptions
---@field name string
---@field description? string
---@field parameters? table a JSON schema; default: an object without properties
---@field arguments? fun(rng: perigee.Rng): table what a call is given, for `set:pick`
---@field latency? perigee.Quantity|perigee.Distribution s; default 0
---@field result_tokens? number|perigee.Distribution size of the answer; default 50
---@field result? fun(vu: perigee.Vu, arguments: table?): perigee.TextLike makes the answer, instead of `result_tokens`
---@field failure? perigee.Quantity how often it fails, 0..1; default 0
---@field error? string what it answers then
---@field weight? number how often `set:pick` chooses it; default 1

--- A simulated tool.
---@param opts perigee.ToolOptions
---@return perigee.Tool
function tool.new(opts) end

--- Several tools as an agent has them.
---@param tools perigee.Tool[]
---@return perigee.ToolSet
function tool.set(tools) end

--- A simulated tool; may stand among the `tools` of a conversation.
---@class perigee.Tool
---@field name string
---@field schema table as the chat API takes it
local Tool = {}

--- Waits as long as the tool would and answers. Draws from `vu.rng`: whether it fails, how long it takes, how
--- much it answers, in this order.
---@param vu perigee.Vu
---@param arguments? table handed to `result`
---@return perigee.TextLike text
---@return boolean ok false when it failed
function Tool:run(vu, arguments) end

--- Arguments for a call.
---@param rng perigee.Rng
---@return table
function Tool:arguments(rng) end

--- Tools by name.
---@class perigee.ToolSet
---@field schemas table[] for a conversation's `tools`
---@field names string[]
local ToolSet = {}

--- The call an agent makes next, by weight.
---@param vu perigee.Vu
---@return string name
---@return table arguments
function ToolSet:pick(vu) end

--- Runs the tool of that name, as `tool:run`.
---@param vu perigee.Vu
---@param name string
---@param arguments? table
---@return perigee.TextLike text
---@return boolean ok
function ToolSet:run(vu, name, arguments) end

return tool
