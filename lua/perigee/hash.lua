-- `perigee hash`: block hashes of a prompt, from token ids or text.
local blockhash = require "perigee.blockhash"
local core = require "perigee.core"
local json = require "perigee.json"

local hash = {}

local USAGE = [[
Usage: perigee hash [options] [--] [INPUT]...

Block hashes as KV-cache routers and engines compute them. INPUT is token ids (numbers, or a JSON
list), or text where the scheme hashes text; without INPUT it is read from standard input, text
byte for byte. One hash a line, in hex.

  --scheme NAME       one of those below; default ic-xxh3
  --block-size N      tokens of a block (bytes or characters where text is hashed)
  --param NAME=VALUE  a parameter of the scheme, each once. Flags, lists and objects as JSON
  --event             the form that the engine publishes in its KV events
  --field NAME        another field of the scheme
  --text              INPUT is text, for schemes that take both
  --json              everything as one JSON object

Examples:
  perigee hash 1 2 3 4 --block-size 4
  perigee hash --scheme vllm-sha256-cbor --param seed=0 --event <ids.json
  perigee hash --scheme dynamo --param 'block_mm={"0":["f9a38a66df902915"]}' <ids.json

Schemes, with default block size, what they hash, their parameters and fields:
]]

local DEFAULT = "ic-xxh3"

-- What each parameter is, with its values: DESIGN's facts on block hashing have the sources.
hash.PARAMS = {
  additional_salt = "text; Mooncake's additional_salt, the chain's start is its hash (default none)",
  algorithm = "sha256, sha256_cbor, xxhash or xxhash_cbor: LMCache's pre_caching_hash_algorithm (needed)",
  bigram = "true: SGLang with EAGLE hashes pairs of neighbouring tokens",
  block_mm = "multimodal hashes by block: {\"0\":[\"16 hex digits\"]}",
  cache_namespace = "text; Dynamo's cache namespace, part of the seed (default none)",
  cache_salt = "text; the request's cache_salt (default none)",
  chain = "event (default): as SGLang's events; storage: as HiCache's storage keys",
  extra_key = "text; SGLang's extra_key, in the storage chain alone; \"\" is not the same as none",
  hash_seed = "text; hashSeed of llm-d's indexer (default empty)",
  is_eagle = "true: Dynamo with EAGLE, a block looks at one token of the next",
  lora_name = "text; name of the LoRA adapter (default none)",
  max_blocks = "whole number; blocks behind it are not hashed (default: the router's own limit)",
  mm = "multimodal items: [{\"identifier\":\"…\",\"offset\":TOKEN,\"length\":TOKENS}]",
  mm_form = "tuple: items with their offset, vLLM since March 2026; bare: without (needed with mm)",
  model = "text; the model's name as requests say it (llm-d: a LoRA's name instead; needed)",
  none_hash = "hex digits; the hash before the first block, where it is known itself",
  none_hash_string = "text of LMCache's seed, hashed by Python for the first prefix",
  parent = "hash before the first block: 16 hex digits, or a decimal number, as the scheme prints its own",
  parent_prefix = "16 hex digits; the hash before the first block (default none; 0 is one)",
  partial = "drop (default): whole pages alone; hash: the last one too",
  prefix_token_count = "whole number; tokens that are hashed (default 256)",
  prefix_token_length = "whole number; tokens that are hashed, cut to whole blocks (default 128)",
  prompt_embeds_sha256 = "list of 64 hex digits, one for each block",
  pythonhashseed = "text; PYTHONHASHSEED of the server",
  save_unfull_chunk = "true: LMCache hashes the last part of a chunk as well",
  seed = "vLLM, LMCache: the text that NONE_HASH is made of (PYTHONHASHSEED; unset since August 2026: "
    .. "vllm-none-hash); ic-xxh3, AIBrix: a whole number",
  variant = "gie-v1.1-v1.5, llm-d-sched-2026-05, gie-v1.0 or gie-v0.5; production-stack: python, go; needed",
}

-- Two lines on a scheme.
local function about(name)
  local scheme, params = blockhash.scheme(name), {}
  for i, param in ipairs(scheme.params) do
    params[i] = param.name
  end
  return ("  %s: %s\n      %s, %s%s; %s\n"):format(name, scheme.about,
    scheme.block_size > 0 and "block size " .. scheme.block_size or "no blocks", scheme.input,
    #params > 0 and "; " .. table.concat(params, " ") or "", table.concat(scheme.fields, " ")), params
end

local function describe(parts, params)
  for _, name in ipairs(params) do
    parts[#parts + 1] = ("  %-20s %s\n"):format(name, hash.PARAMS[name])
  end
end

--- What --help prints: of one scheme where one is named.
function hash.usage(scheme)
  if scheme and blockhash.scheme(scheme) then
    local text, params = about(scheme)
    local parts = { text, #params > 0 and "Its parameters (--param NAME=VALUE):\n"
      or "It has no parameters.\n" }
    describe(parts, params)
    return table.concat(parts)
  end
  local parts, names = { USAGE }, {}
  for _, name in ipairs(blockhash.schemes()) do
    parts[#parts + 1] = (about(name))
  end
  for name in pairs(hash.PARAMS) do
    names[#names + 1] = name
  end
  parts[#parts + 1] = "\nParameters (--param NAME=VALUE; of one scheme: perigee hash --scheme NAME --help):\n"
  table.sort(names)
  describe(parts, names)
  return table.concat(parts)
end

local function fail(text)
  io.stderr:write("perigee hash: ", text, "\n")
  return 2
end

-- Options with a value, and what becomes of it.
local VALUES = {
  ["--scheme"] = function(opts, value) opts.scheme = value end,
  ["--block-size"] = function(opts, value) opts.block_size = value end,
  ["--field"] = function(opts, value) opts.field = value end,
  ["--param"] = function(opts, value)
    local name, text = value:match "^([^=]+)=(.*)$"
    if not name then
      return nil, ("--param %s: write NAME=VALUE"):format(value)
    end
    for _, param in ipairs(opts.params) do
      if param.name == name then
        return nil, ("--param %s is given twice: %s and %s"):format(name, param.text, text)
      end
    end
    opts.params[#opts.params + 1] = { name = name, text = text }
  end,
}

local FLAGS = { ["--event"] = "event", ["--text"] = "text", ["--json"] = "json" }

local function unknown(name)
  local names = { "--help" }
  for known in pairs(VALUES) do
    names[#names + 1] = known
  end
  for known in pairs(FLAGS) do
    names[#names + 1] = known
  end
  return nil, core.unknown_option("hash", name, names)
end

-- One option at args[i]; returns the next index, or nil and what is wrong.
local function read_option(opts, args, i)
  local name, value = args[i]:match "^(%-%-[^=]+)=(.*)$"
  name = name or args[i]
  if FLAGS[name] and not value then
    opts[FLAGS[name]] = true
    return i + 1
  elseif FLAGS[name] then
    return nil, name .. " takes no value"
  elseif not VALUES[name] then
    return unknown(name)
  end
  if not value then
    i = i + 1
    value = args[i]
    if not value then
      return nil, name .. " needs a value"
    end
  end
  local _, message = VALUES[name](opts, value)
  if message then
    return nil, message
  end
  return i + 1
end

--- The arguments as a table: scheme, block_size, params, input (a list), and flags. nil, message.
function hash.read_args(args)
  local opts, i, rest = { params = {}, input = {} }, 1, false
  while i <= #args do
    local arg = args[i]
    if not rest and (arg == "--help" or arg == "-h") then
      opts.help = true
      for k = i + 1, #args do -- what else stands behind it does not matter
        opts.scheme = args[k]:match "^%-%-scheme=(.*)" or args[k] == "--scheme" and args[k + 1] or opts.scheme
      end
      return opts
    elseif not rest and arg == "--" then
      rest, i = true, i + 1
    elseif not rest and arg:find "^%-" and not arg:find "^%-%d" then
      local next_index, message = read_option(opts, args, i)
      if not next_index then
        return nil, message
      end
      i = next_index
    else
      opts.input[#opts.input + 1] = arg
      i = i + 1
    end
  end
  return opts
end

-- The scheme's options: texts as they are, the rest read as JSON.
local function chain_options(opts, scheme)
  local out, is_json = { scheme = opts.scheme, block_size = opts.block_size }, {}
  for _, param in ipairs(scheme and scheme.params or {}) do
    is_json[param.name] = param.json
  end
  for _, param in ipairs(opts.params) do
    out[param.name] = param.text
    if is_json[param.name] then
      local value, message = json.decode(param.text)
      if message then
        return nil, ("--param %s: it must be JSON: %s"):format(param.name, message)
      end
      out[param.name] = value
    end
  end
  return out
end

--- Token ids of a text: a JSON list, or numbers with blanks or commas between them. nil, message.
--- `is_argument`: it was given on the command line, where a file's name may have slipped in.
function hash.read_ids(text, is_argument)
  if text:find "^%s*%[" then
    local ids, message = json.decode(text)
    if not ids then
      return nil, "the token ids are no JSON list: " .. message
    end
    for i, id in ipairs(ids) do
      if math.type(id) ~= "integer" then
        return nil, ("token %d of the list is no whole number"):format(i)
      end
    end
    return ids
  end
  local ids = {}
  for word in text:gmatch "[^%s,]+" do
    local id = word:find "^%-?%d+$" and math.tointeger(tonumber(word))
    if not id and is_argument and word:find "^[%w_./~][%w_./~-]*$" and word:find "%a" then
      return nil, ('token %d is "%s", not a whole number; a file? perigee hash <%s (a text? --text, and a '
        .. "scheme that takes it)"):format(#ids + 1, word:sub(1, 40), word)
    elseif not id then
      return nil, ('token %d is "%s", not a whole number (for a text: --text, and a scheme that takes it)')
        :format(#ids + 1, word:sub(1, 40))
    end
    ids[#ids + 1] = id
  end
  return ids
end

local function write_json(h, opts, scheme)
  local out = json.object { { "scheme", opts.scheme } }
  for _, name in ipairs(scheme.fields) do
    local value = h:field(name)
    out[name] = type(value) == "table" and json.array(value) or value
  end
  io.write(json.encode(out), "\n")
  return 0
end

local function run(opts)
  opts.scheme = opts.scheme or DEFAULT
  local scheme = blockhash.scheme(opts.scheme)
  local options, message = chain_options(opts, scheme)
  if not options then
    return fail(message)
  end
  local input = table.concat(opts.input, " ")
  if #opts.input == 0 then
    input = io.read "a" or ""
  end
  if scheme and scheme.input ~= "text" and not opts.text then
    input, message = hash.read_ids(input, #opts.input > 0)
    if not input then
      return fail(message)
    end
  end
  local ok, h, why = pcall(blockhash.hash, input, options)
  if not ok or not h then
    return fail((tostring(not ok and h or why):gsub("^.-blockhash%.hash: ", "")))
  end
  if opts.json then
    return write_json(h, opts, scheme)
  end
  local list
  if opts.field then
    ok, list = pcall(h.field, h, opts.field)
    if not ok then
      return fail((tostring(list):gsub("^.-hashes:field: ", "")))
    end
  else
    list = opts.event and h:event() or h:hex()
  end
  for _, line in ipairs(type(list) == "table" and list or { list }) do
    io.write(line, "\n")
  end
  if type(list) == "table" and #list == 0 then
    local size = tonumber(opts.block_size) or scheme.block_size
    io.stderr:write("perigee hash: no hash: ", #input == 0 and "the input is empty"
      or ("the input (%d %s) is shorter than one block (%d); --block-size N sets it"):format(#input,
        type(input) == "table" and "tokens" or "bytes", size), "\n")
  end
  return 0
end

--- The command.
function hash.main(args)
  local opts, message = hash.read_args(args)
  if not opts then
    return fail(message)
  elseif opts.help then
    io.write(hash.usage(opts.scheme))
    return 0
  elseif opts.json and (opts.event or opts.field) or opts.event and opts.field then
    return fail "--json, --event and --field: one of them at a time (--json has every field)"
  end
  return run(opts)
end

return hash
