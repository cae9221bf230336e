---@meta perigee.openai

--- What the response of an OpenAI-style server says, by the parser that times a run's requests.
---@class perigee.openai
local openai = {}

---@class perigee.ParseOptions
---@field api? "chat"|"completions"|"responses" default chat

---@class perigee.StreamResult
---@field sse_events integer events with data; `[DONE]` counts
---@field comments integer
---@field ttft_event_index integer? from 0: the first event with any generated output
---@field first_visible_event_index integer? from 0: the first with visible text
---@field output_events integer
---@field token_ids_total integer?
---@field text string of choice 0
---@field texts table<string, string> by choice
---@field reasoning string
---@field tool_calls table[] index, id, name, arguments
---@field usage table? prompt, completion, total, cached, reasoning
---@field finish_reason string?
---@field finish_reasons table<string, string>
---@field response_id string?
---@field error table? kind, message, type, code
---@field complete boolean
---@field done_marker boolean
---@field eof_flush boolean

--- What an event stream says.
---@param bytes perigee.TextLike
---@param opts? perigee.ParseOptions
---@return perigee.StreamResult? result
---@return string? message when a limit was reached
function openai.parse_stream(bytes, opts) end

--- What a whole JSON reply says, in the same form.
---@param bytes perigee.TextLike
---@param opts? perigee.ParseOptions
---@return perigee.StreamResult? result
---@return string? message
function openai.parse_reply(bytes, opts) end

return openai
