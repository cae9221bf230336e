---@meta perigee.harmony

--- gpt-oss prompts in the Harmony format, as openai-harmony 0.0.8 renders them, ids included. Servers
--- differ: vLLM and TensorRT-LLM render natively, others with the model's Hugging Face template, which is
--- rendered by `perigee.template` and gives other text in places.
---@class perigee.harmony
local harmony = {}

---@class perigee.HarmonyJsonOptions
---@field tokenizer? string|table a name, the path of `o200k_base.tiktoken` or of gpt-oss's tokenizer.json, or what `perigee.tokenizer` loads; default: `o200k_harmony`, from what `make deps` fetches

--- Renders a conversation in Harmony's own JSON form: `{"messages": […], "mode": "completion"|"conversation"|
--- "training", "auto_drop_analysis": true}`.
---@param text perigee.TextLike
---@param opts? perigee.HarmonyJsonOptions
---@return integer[]? ids
---@return string text the prompt's text; the message when ids is nil
function harmony.render_json(text, opts) end

---@class perigee.HarmonyOptions
---@field date? string|false the day in the system message, `"2026-08-01"`: the server's `VLLM_SYSTEM_START_DATE`, else its own day; `false` for none. Needed here or in the call
---@field reasoning_effort? "low"|"medium"|"high" default medium
---@field model_identity? string default: Harmony's own
---@field call_content_type? string of tool calls; default `"json"`, as vLLM writes it
---@field tokenizer? string|table as in render_json

--- A renderer of chat messages, mapped to Harmony as vLLM (August 2026) does: a leading system or developer
--- message becomes the developer's instructions; tools the namespace `functions`; an assistant's `reasoning`
--- goes to the analysis channel, its tool calls to commentary, its content to final; analysis before the last
--- final answer is left out. Make it at the top of the script: there the tokenizer is read before the load
--- begins, once per state, and not while users wait.
---@param opts? perigee.HarmonyOptions
---@return perigee.HarmonyRenderer
function harmony.renderer(opts) end

---@class perigee.HarmonyRenderer
local HarmonyRenderer = {}

---@class perigee.HarmonyRenderOptions
---@field tools? table[] as in a chat request
---@field add_generation_prompt? boolean default true
---@field date? string|false over the renderer's
---@field now? string `"2026-08-01T12:00:00"`, for its date
---@field kwargs? { reasoning_effort?: string, model_identity?: string } over the renderer's
---@field special? table not used; templates have it
---@field for_run? boolean ids: an error where the run's tokenizer has another vocabulary (conversations ask for it)

--- The prompt of chat messages.
---@param messages table[]
---@param opts? perigee.HarmonyRenderOptions
---@return string? text
---@return string? message
function HarmonyRenderer:render(messages, opts) end

--- The prompt's token ids, and its text.
---@param messages table[]
---@param opts? perigee.HarmonyRenderOptions
---@return integer[]? ids
---@return string text the message when ids is nil
function HarmonyRenderer:render_ids(messages, opts) end

--- What the model said behind `<|start|>assistant`, special tokens written out: the analysis as reasoning, the
--- final answer (and commentary to nobody) as content, messages to `functions.NAME` as tool_calls. The last
--- message may be cut off.
---@param text perigee.TextLike
---@return { reasoning: string?, content: string?, tool_calls: { name: string, arguments: string }[] }? said
---@return string? message
function HarmonyRenderer:parse(text) end

return harmony
