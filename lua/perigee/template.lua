-- perigee.template: a model's own chat template, rendered as transformers and vLLM would.
local core = require "perigee.template.core"
local json = require "perigee.json"
local native = require "perigee.core"

local template = {}

local Template = {}
Template.__index = Template

local RENDER_OPTIONS = { "add_generation_prompt", "continue_final_message", "kwargs", "now", "served",
  "special", "tools" }

local function read(path)
  local file <close> = io.open(path, "rb")
  if not file then
    return nil
  end
  return (file:read "a") -- nil for a folder
end

local function is_folder(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil and file:read(0) == nil and select(2, file:read "a") ~= nil
end

local function new(name, source, tools_source, config)
  local made, message = core.new(name, source, tools_source, config)
  if not made then
    return nil, message
  end
  return setmetatable({ core = made, name = name }, Template)
end

-- As transformers looks: chat_template.jinja goes before what tokenizer_config.json holds, which gives
-- the special tokens in any case.
local function load_folder(path)
  local source = read(path .. "/chat_template.jinja")
  local config = read(path .. "/tokenizer_config.json") or source and read(path .. "/special_tokens_map.json")
  if not config and not source then
    return nil, path
      .. ": neither chat_template.jinja nor tokenizer_config.json is in this folder"
  end
  local tools = read(path .. "/additional_chat_templates/tool_use.jinja")
  local name = path .. (source and "/chat_template.jinja" or "/tokenizer_config.json")
  return new(name, source, tools, config)
end

-- A text that is no file: a template names itself by its braces or lines.
local function looks_like_source(text)
  return text == "" or text:find "[{}\n\r%z ]" ~= nil
end

local function load_file(path, text)
  if path:find "%.json$" then
    return new(path, nil, nil, text)
  end
  local folder = path:match "^(.*/)" or ""
  local config = read(folder .. "tokenizer_config.json") or read(folder .. "special_tokens_map.json")
  return new(path, text, nil, config)
end

--- Loads a template: the path of a chat_template.jinja, of a tokenizer_config.json or of the folder they
--- are in, the name of a tokenizer that came with one (qwen3), or the template's own text.
function template.load(path_or_source)
  if type(path_or_source) ~= "string" then
    error(("template.load: a path or a template's text must be a string, got %s")
      :format(type(path_or_source)), 2)
  end
  local may_be_path = #path_or_source < 4096 and not path_or_source:find "[\n\r%z]"
    and path_or_source ~= ""
  if may_be_path then
    if is_folder(path_or_source) then
      return load_folder(path_or_source)
    end
    local text = read(path_or_source)
    if text then
      return load_file(path_or_source, text)
    end
  end
  if looks_like_source(path_or_source) then
    return new("template", path_or_source)
  end
  local found = core.find(path_or_source)
  if found then
    return load_folder(found)
  end
  return nil, path_or_source .. ": no such file or folder, no tokenizer that came with a template (`make "
    .. "deps` fetches qwen3), and no template's text either (it has no braces)"
end

local function check_options(opts)
  for name in pairs(opts) do
    local known = false
    for _, each in ipairs(RENDER_OPTIONS) do
      known = known or each == name
    end
    if not known then
      local near = native.nearest(tostring(name), RENDER_OPTIONS)
      error(("template:render: unknown option %s%s"):format(name,
        near and (" (did you mean %s?)"):format(near) or "; known: " .. table.concat(RENDER_OPTIONS, ", ")),
        3)
    end
  end
end

-- An empty plain table is an object to perigee.json; these are lists.
local function as_list(t)
  return type(t) == "table" and next(t) == nil and json.array {} or t
end

local function check_self(self, method)
  if getmetatable(self) ~= Template then
    error(("template:%s: its methods are called with a colon, of a template"):format(method), 3)
  end
end

-- nil in a run, whose scripts have no local time: a template that asks for it says so.
local function local_time()
  local there, now = pcall(os.date, "%Y-%m-%dT%H:%M:%S")
  return there and now or nil
end

--- The text of a conversation, or nil and what is wrong with it.
function Template:render(messages, opts)
  check_self(self, "render")
  opts = opts or {}
  if type(messages) ~= "table" then
    error(("template:render: messages must be a list, got %s"):format(type(messages)), 2)
  end
  if type(opts) ~= "table" then
    error(("template:render: options must be a table, got %s"):format(type(opts)), 2)
  end
  check_options(opts)
  local row = { messages = as_list(messages), tools = as_list(opts.tools), kwargs = opts.kwargs,
    special = opts.special, add_generation_prompt = opts.add_generation_prompt,
    continue_final_message = opts.continue_final_message }
  return self.core:render(row, opts.now or local_time(), opts.served)
end

--- The same from one JSON text with these fields, in which key order is kept; a field `context` renders
--- with exactly those variables. served: as a server renders that request.
function Template:render_json(text, served)
  check_self(self, "render_json")
  return self.core:render_json(text, local_time(), served)
end

return require "perigee.core".named(template, "template")
