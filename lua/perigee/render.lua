-- `perigee render`: the text a model's chat template makes of a conversation.
local core = require "perigee.core"
local json = require "perigee.json"
local template = require "perigee.template"

local render = {}

local USAGE = [[
Usage: perigee render --template PATH|NAME [options] [FILE]

Executes a model's own chat template and prints the text byte for byte. FILE (default: standard input) is
JSON: a list of messages, or an object with messages and, as in a chat request, tools,
add_generation_prompt, chat_template_kwargs (or kwargs), special, now; options add what it does not say.

The template gets messages and tools as they are, as from apply_chat_template of transformers. Servers
prepare a request first: with --served the text is what vLLM renders of it.

  --template PATH|NAME      chat_template.jinja, tokenizer_config.json, the folder they are in; qwen3 (from
                            `make deps`); harmony: gpt-oss's own format, as vLLM renders it
  --served                  FILE is a chat request: content parts are joined, arguments of tool calls parsed,
                            tools completed, documents and reasoning_effort handed on, as vLLM does
  --tools FILE              JSON list of tools
  --kwargs JSON             further template variables, '{"enable_thinking":false}'
  --special JSON            special tokens, '{"bos_token":"<s>"}'; default: those of tokenizer_config.json,
                            else of special_tokens_map.json beside the template
  --no-generation-prompt    without the start of the assistant's answer
  --continue-final-message  the last message stays open
  --now TIME                what strftime_now tells, and Harmony's date: 2026-08-22T12:34:56; default: the
                            local time
  --json                    {"text":…,"bytes":N} instead of the text

Examples:
  echo '[{"role":"user","content":"Hi"}]' | perigee render --template Qwen3/
  perigee render --template chat_template.jinja --tools tools.json --kwargs '{"thinking":true}' chat.json
]]

local VALUES = { ["--template"] = "template", ["--tools"] = "tools", ["--kwargs"] = "kwargs",
  ["--special"] = "special", ["--now"] = "now" }
local FLAGS = { ["--no-generation-prompt"] = "no_prompt", ["--continue-final-message"] = "continue",
  ["--served"] = "served", ["--json"] = "json" }

--- What --help prints.
function render.usage()
  return USAGE
end

local function fail(status, text)
  io.stderr:write("perigee render: ", text, "\n")
  return status
end

local function unknown(name)
  local names = { "--help" }
  for _, known in ipairs { VALUES, FLAGS } do
    for option in pairs(known) do
      names[#names + 1] = option
    end
  end
  return nil, core.unknown_option("render", name, names)
end

-- One option at args[i]; the next index, or nil and what is wrong.
local function read_option(opts, args, i)
  local name, value = args[i]:match "^(%-%-[^=]+)=(.*)$"
  name = name or args[i]
  if FLAGS[name] then
    if value then
      return nil, name .. " takes no value"
    end
    opts[FLAGS[name]] = true
    return i + 1
  elseif not VALUES[name] then
    return unknown(name)
  end
  if not value then
    i = i + 1
    value = args[i]
  end
  if not value or value == "" then
    return nil, name .. " needs a value"
  end
  opts[VALUES[name]] = value
  return i + 1
end

--- The arguments as a table: template, tools, kwargs, special, now, input, and flags. nil, message.
function render.read_args(args)
  local opts, i, rest = {}, 1, false
  while i <= #args do
    local arg = args[i]
    if not rest and (arg == "--help" or arg == "-h") then
      return { help = true }
    elseif not rest and arg == "--" then
      rest, i = true, i + 1
    elseif not rest and arg:find "^%-." then
      local next_index, message = read_option(opts, args, i)
      if not next_index then
        return nil, message
      end
      i = next_index
    elseif opts.input then
      return nil, ("one FILE at a time, not %s and %s"):format(opts.input, arg)
    else
      opts.input, i = arg, i + 1
    end
  end
  if not opts.template then
    return nil, "--template is missing: chat_template.jinja, tokenizer_config.json or their folder"
  elseif opts.continue and opts.no_prompt then
    return nil, "--continue-final-message already goes without a generation prompt"
  end
  return opts
end

local function read_file(path)
  local file <close>, message = io.open(path, "rb")
  if not file then
    return nil, message
  end
  local text = file:read "a"
  if not text then
    return nil, path .. ": it cannot be read (is it a folder?)"
  end
  return text
end

-- The text itself when it is JSON of the wanted kind: what is rendered keeps its key order and its numbers.
local function checked(what, text, kind)
  local value, message = json.decode(text)
  if message then
    return nil, ("%s is no JSON: %s"):format(what, message)
  end
  local first = text:match "^%s*(.)"
  if type(value) ~= "table" or first ~= (kind == "list" and "[" or "{") then
    return nil, ("%s must be a JSON %s"):format(what, kind)
  end
  return text
end

-- What the options say, as the fields of a JSON object.
local function option_fields(opts)
  local parts = {}
  if opts.tools then
    local text, message = read_file(opts.tools)
    if text then
      text, message = checked(opts.tools, text, "list")
    end
    if not text then
      return nil, message
    end
    parts[#parts + 1] = '"tools":' .. text
  end
  for _, name in ipairs { "kwargs", "special" } do
    if opts[name] then
      local text, message = checked("--" .. name, opts[name], "object")
      if not text then
        return nil, message
      end
      parts[#parts + 1] = ('"%s":%s'):format(name, text)
    end
  end
  if opts.no_prompt or opts.continue then
    parts[#parts + 1] = '"add_generation_prompt":false'
  end
  if opts.continue then
    parts[#parts + 1] = '"continue_final_message":true'
  end
  if opts.now then
    parts[#parts + 1] = '"now":' .. json.encode(opts.now)
  end
  return parts
end

local LONG = { no_prompt = "no-generation-prompt", continue = "continue-final-message" }

-- What an option says and the object already does.
local function said_twice(opts, what, chat)
  for option, fields in pairs { tools = { "tools" }, kwargs = { "kwargs", "chat_template_kwargs" },
    special = { "special" }, now = { "now" }, no_prompt = { "add_generation_prompt" },
    continue = { "continue_final_message", "add_generation_prompt" } } do
    for _, field in ipairs(opts[option] and fields or {}) do
      if chat[field] ~= nil then
        return ("%s says %s, and --%s does too: leave one out"):format(what, field, LONG[option] or option)
      end
    end
  end
end

-- What is read of the object; with --served a chat request's other fields are, too.
local FIELDS = { "add_generation_prompt", "chat_template_kwargs", "context", "continue_final_message",
  "kwargs", "messages", "now", "special", "tools" }

-- Says which fields of the object are not looked at.
local function note_unknown(opts, what, chat)
  local known, unread = {}, {}
  for _, name in ipairs(FIELDS) do
    known[name] = true
  end
  for name in pairs(opts.served and {} or chat) do
    if not known[name] then
      local near = core.nearest(name, FIELDS)
      unread[#unread + 1] = near and ("%s (did you mean %s?)"):format(name, near) or name
    end
  end
  if #unread > 0 then
    table.sort(unread)
    io.stderr:write(("perigee render: note: %s: not looked at: %s; with --served a whole chat request is "
      .. "read\n"):format(what, table.concat(unread, ", ")))
  end
end

local function read_row(opts)
  local text, message
  if opts.input and opts.input ~= "-" then
    text, message = read_file(opts.input)
  else
    text = io.read "a" or ""
  end
  if not text then
    return nil, message
  end
  local what = opts.input or "standard input"
  local fields
  fields, message = option_fields(opts)
  if not fields then
    return nil, message
  end
  if not text:find "^%s*{" then
    text, message = checked(what, text, "list")
    if not text then
      return nil, (message:gsub("must be a JSON list$", "%0 of messages, or an object with messages"))
    end
    table.insert(fields, 1, '"messages":' .. text)
    return "{" .. table.concat(fields, ",") .. "}"
  end
  text, message = checked(what, text, "object")
  local chat = text and json.decode(text)
  if chat then
    message = said_twice(opts, what, chat)
    if chat.now ~= nil and type(chat.now) ~= "string" then
      message = ("%s: now must be a time as \"2026-08-22T12:34:56\", got %s"):format(what,
        core.shown(chat.now))
    end
    note_unknown(opts, what, chat)
  end
  if message then
    return nil, message
  end
  return "{" .. table.concat(fields, ",") .. (#fields > 0 and "," or "") .. text:match "^%s*{(.*)$"
end

-- gpt-oss's own format. What only templates have is refused.
local function harmony_text(row)
  local chat = json.decode(row)
  if chat.continue_final_message then
    return nil, "harmony has no continue_final_message"
  elseif chat.special and next(chat.special) then
    return nil, "harmony has its own special tokens"
  end
  local now = type(chat.now) == "string" and chat.now or os.date "%Y-%m-%d"
  local ok, text, message = pcall(function()
    local renderer = require "perigee.harmony".renderer { date = now:sub(1, 10) }
    return renderer:render(chat.messages, {
      tools = chat.tools, kwargs = chat.kwargs or chat.chat_template_kwargs,
      add_generation_prompt = chat.add_generation_prompt,
    })
  end)
  if not ok then
    return nil, tostring(text)
  end
  return text, message
end

-- A special token that the template names and nobody gave is "" in Jinja: said, for it is rarely meant.
local function warn_unset(tpl, row)
  local unset = tpl.core:unset()
  local chat = unset and json.decode(row) or {}
  local kwargs = chat.kwargs or chat.chat_template_kwargs
  if unset and not (chat.special and chat.special[unset]) and not (kwargs and kwargs[unset])
      and not chat.context then
    io.stderr:write("perigee render: note: the template names ", unset,
      ", and nothing says what that is: it is empty (--special gives it)\n")
  end
end

-- What a server does to a request first can change the text: said where it does.
local function note_served(text, served, refusal)
  if text == served then
    return
  end
  io.stderr:write("perigee render: note: ", served
    and "a server prepares messages and tools before the template sees them, and renders another text: "
      .. "--served\n"
    or "a server refuses this request: " .. refusal .. "\n")
end

local function render_row(opts, row, tpl)
  if opts.template == "harmony" then
    return harmony_text(row)
  end
  warn_unset(tpl, row)
  local text, message = tpl:render_json(row, opts.served)
  if not opts.served and not json.decode(row).context then
    note_served(text, tpl:render_json(row, true))
  end
  return text, message
end

--- The command.
function render.main(args)
  local opts, message = render.read_args(args)
  if not opts then
    return fail(2, message)
  elseif opts.help then
    io.write(USAGE)
    return 0
  end
  local tpl, row, text
  if opts.template ~= "harmony" then
    tpl, message = template.load(opts.template)
    if not tpl then
      return fail(1, message)
    end
  end
  row, message = read_row(opts)
  if not row then
    return fail(message:find "^%-%-" and 2 or 1, message) -- an option's value is usage
  end
  text, message = render_row(opts, row, tpl)
  if not text then
    if message:find "^messages" then -- about what was read, not about the template
      message = (opts.input or "standard input") .. ": " .. message
    end
    return fail(opts.now and message:find(json.encode(opts.now), 1, true) and 2 or 1, message)
  end
  if opts.json then
    text = json.encode(json.object { { "text", text }, { "bytes", #text } }) .. "\n"
  end
  io.write(text)
  return 0
end

return render
