-- The completions API: text or token-id prompts, without a chat template. Each request is a turn of
-- its own; what is said before it is the script's business.
local core = require "perigee.core"
local bodies = require "perigee.completions.core"
local make = require "perigee.gen.core"
local object = require "perigee.object"
local request = require "perigee.request"

local completions = {}

local Client = {}
Client.__name = "completions"

local SEND_OPTIONS = request.list(request.send_options, { "prompt" })

--- A sender of prompts on a virtual user.
function completions.new(vu, opts)
  opts = core.options(opts, "completions.new", request.sender_options)
  local client = setmetatable(request.sender({}, vu, opts, "completions.new"), Client)
  client.turn = 0
  client.branch, client.parent = vu.branch_id or 0, vu.parent_branch
  return client
end

-- "text", "texts" or "ids"
local function kind_of(prompt)
  if type(prompt) == "string" or make.is_text(prompt) then
    return "text"
  elseif type(prompt) == "table" and #prompt > 0 then
    local first = prompt[1]
    if math.type(first) == "integer" then
      return "ids"
    elseif type(first) == "string" or make.is_text(first) then
      return "texts"
    end
  end
  core.raise("completions: prompt must be a text, a list of texts or a list of token ids, not empty")
end

local function send(client, verb, opts)
  opts = core.options(opts, "completions:send", SEND_OPTIONS)
  local kind = kind_of(opts.prompt)
  request.check_runs(client.vu, "client:send: the client", "completions.new(child)")
  local options, _, asked = request.body_options(client, opts, "completions:send", opts.max_tokens ~= nil)
  options.model = client.model
  local body
  if kind == "ids" then
    options.prompt = opts.prompt
    body = options
  else
    body = bodies.body(options, kind == "text" and { opts.prompt } or opts.prompt)
  end
  client.turn = client.turn + 1
  local prompt = {
    api = "completions",
    caller = "completions:send",
    prompt = opts.prompt,
    turn = client.turn,
    step = 1,
    branch = client.branch,
    parent = client.parent,
    asked_tokens = kind ~= "texts" and asked or nil,
  }
  return request.send(client, client.vu, verb, prompt, body, opts)
end

--- Sends a prompt and waits; a failure ends the session.
function Client:send(opts)
  return send(self, "http", opts)
end

--- The same; a failure is nil, class, detail, response.
function Client:try_send(opts)
  return send(self, "try_http", opts)
end

object.class(Client, "client", { "branch", "model", "parent", "route", "turn", "vu" })

return core.named(completions, "completions")
