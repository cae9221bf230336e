---@meta perigee.template

--- A model's own chat template, executed as Jinja2 does under transformers' settings.
---@class perigee.template
local template = {}

--- Loads a template: the path of a `chat_template.jinja`, of a `tokenizer_config.json` (its `chat_template` is
--- text, or a list of which `tool_use` is taken for conversations with tools), or of the folder they are in; the
--- name of a tokenizer that came with one (`"qwen3"`, from `make deps`); or the template's own text. A
--- configuration (for a Jinja file: the `tokenizer_config.json` or `special_tokens_map.json` beside it) also gives
--- the special tokens.
---@param path_or_source string
---@return perigee.Template?
---@return string? message the template's line and what is wrong with it
function template.load(path_or_source) end

---@class perigee.Template
local Template = {}

---@class perigee.RenderOptions
---@field tools? table[] as in a chat request; key order is kept in json objects
---@field add_generation_prompt? boolean default true
---@field continue_final_message? boolean the last message stays open; default false
---@field kwargs? table further template variables, as a request's `chat_template_kwargs`
---@field special? table<string, string> special tokens (`bos_token`, …); default: the configuration's
---@field now? string what `strftime_now` tells, `"2026-08-22T12:34:56"`; default: the local time; in a run there is none, and a template that asks for it fails: say `now =`
---@field served? boolean messages and tools are a chat request's: the very bytes that a server (vLLM) with this
--- template renders, which joins content parts, parses the arguments of tool calls and completes tools before
--- the template sees them. Default false: the template gets them as they are

--- The text of a conversation, as `apply_chat_template` of transformers makes it of the same messages.
---@param messages table[]
---@param opts? perigee.RenderOptions
---@return string? text
---@return string? message template, line and the error Python would raise
function Template:render(messages, opts) end

--- The same from one JSON object with `messages` and those fields; key order and large numbers stay as written.
--- An object with `context` renders with exactly those variables.
---@param text perigee.TextLike
---@param served? boolean as a server renders that request (see `perigee.RenderOptions`)
---@return string? text
---@return string? message
function Template:render_json(text, served) end

return template
