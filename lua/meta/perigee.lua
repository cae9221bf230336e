---@meta perigee
--- # perigee for scenario authors
---
--- A scenario is a Lua 5.4 file that returns a plan: who arrives (a load) and what each of them does
--- (a session). This page lists everything a script can use. `perigee types` tells your editor the
--- same; `examples/` is the tour.
---
--- Rules that hold everywhere:
---
--- - **What can wait is a method of `vu`**, or of an object made from one, such as a conversation. A
---   module function returns at once.
--- - **Expected failure is a value**: `try_x` returns `nil, class, detail` (and of a request `response`: its
---   status, `retry_after` and headers); `x` ends the session, which is counted under its class, and the run goes on. Misuse (an unknown option, a wrong type) raises at
---   once, names the line and the nearest known word.
--- - **Functions that read data** (`decode`, `parse_stream`) return `nil, message` for bad data and raise
---   only for misuse.
--- - **Quantities** are numbers in base units (seconds, tokens, bytes, ratios 0..1) or strings with a
---   unit: `"50ms"`, `"2m"`, `"64KiB"`, `"5%"`. What a run is judged by says its unit: `slo` and
---   expectations refuse a time or a size without one.
--- - **Randomness** comes from `vu.rng`. `math.random` and `os.time` raise in a session, and `pairs` walks
---   sorted keys, so a session says the same bytes on every machine and with any number of workers.
--- - **Sessions share nothing that changes.** A session that assigns a global is ended with its line (write
---   `local`). The script's own locals at top level are one copy per Lua state, of which a run has several, so
---   do not count in them: what all users read comes from `perigee.shared` or from `setup` (`vu.shared`), what
---   is counted goes to `vu:record`, and what belongs to one user is a local of `session`.

--- A number in base units, or a string with a unit: `"50ms"`, `"2m"`, `"64KiB"`, `"5%"`, `"30/m"`.
---@alias perigee.Quantity number|string

--- A string or a text handle.
---@alias perigee.TextLike string|perigee.Text

--- A function that draws a number from a generator; the functions of `perigee.gen` make them.
---@alias perigee.Distribution fun(rng: perigee.Rng): number

--- Decides where a request goes. It must not draw from `vu.rng`: the same session says the same bytes
--- under every policy.
---@alias perigee.Policy fun(vu: perigee.Vu, prompt: perigee.Prompt): perigee.Route

--- Why a request did not succeed; the first that holds.
---@alias perigee.ErrorClass "cancelled"|"incomplete"|"resolve"|"connect"|"tls"|"reset"|"timeout_connect"|"timeout_first_byte"|"timeout_idle"|"timeout_total"|"http_429"|"http_4xx"|"http_5xx"|"not_sse"|"stream_error"|"empty_stream"|"truncated"|"bad_json"|"no_visible_output"|"script"

-- -------------------------------------------------------------------------------------- perigee

--- Plans, loads and parameters: what a scenario script returns.
---@class perigee
---@field version string of this perigee, "1.2.3"
local perigee = {}

---@class perigee.PlanOptions
---@field load perigee.Load who arrives: `perigee.open`, `closed` or `ramp`
---@field session fun(vu: perigee.Vu) one user's story, told top to bottom
---@field name? string what reports call it; the file's name otherwise
---@field description? string one line
---@field expect? (string|fun(results: table): boolean, string?)[] what must hold, as in `"ttft p95 < 400ms"`, `"checks{check=parsed} share > 99%"`; times and sizes with their unit
---@field metrics? table<string, string> what the script records with `vu:record`: name = unit; their `rate` is the sum of the values given inside the window, per second
---@field params? table<string, any> parameters: name = default, or name = { default =, doc = }
---@field setup? fun(vu: perigee.Vu): any runs once before the load; its value (plain data or texts) is `vu.shared`
---@field teardown? fun(vu: perigee.Vu) runs once after the load
---@field route? perigee.Policy where requests go; default: the gateway, the only replica, or `route.session_hash`
---@field target? string|string[] URL or URLs of the servers, when the command line names none
---@field slo? table<string, string> upper bounds per request that make it count as goodput: metric = bound, as in `{ ttft = "400ms" }`; of ttft, ttft_sched, ttft_sent, first_visible, tpot, e2e
---@field drain? perigee.Quantity how long sessions may finish after the window; default 60 s

--- Checks a plan and returns it, so that a script can end with `return perigee.plan { … }`.
---
--- Errors: raises for unknown fields and wrong types.
---@param plan perigee.PlanOptions
---@return perigee.PlanOptions plan
function perigee.plan(plan) end

---@class perigee.OpenOptions
---@field rate perigee.Quantity new sessions per second (`2`, `"30/m"`)
---@field arrival? "poisson"|"constant" spacing of arrivals; default poisson
---@field duration? perigee.Quantity how long sessions arrive, s
---@field sessions? integer how many arrive; `duration` or `sessions` must be there
---@field warmup? perigee.Quantity time that comes before `duration` and is kept out of the numbers, s; default 0

--- Sessions that arrive at a rate, whatever the system does (an open load).
---@param opts perigee.OpenOptions
---@return perigee.Load
function perigee.open(opts) end

---@class perigee.ClosedOptions
---@field users integer how many tell sessions at the same time
---@field duration? perigee.Quantity how long sessions are started, s
---@field sessions? integer how many are started; `duration` or `sessions` must be there
---@field warmup? perigee.Quantity time that comes before `duration` and is kept out of the numbers, s; default 0

--- A fixed number of users, each of which starts its next session when the last one ended.
---@param opts perigee.ClosedOptions
---@return perigee.Load
function perigee.closed(opts) end

---@class perigee.RampOptions
---@field rate? { [1]: perigee.Quantity, [2]: perigee.Quantity }[] points { time, sessions per second }
---@field users? { [1]: perigee.Quantity, [2]: integer }[] points { time, users }; `rate` or `users`, not both
---@field arrival? "poisson"|"constant" for a ramp of rate; default poisson
---@field duration? perigee.Quantity default: the last point's time
---@field sessions? integer ends the load earlier
---@field warmup? perigee.Quantity time before the points begin, kept out of the numbers, s; default 0

--- A load that changes in straight lines between points: `ramp { rate = { { 0, 1 }, { "2m", 10 } } }`.
---@param opts perigee.RampOptions
---@return perigee.Load
function perigee.ramp(opts) end

--- The path of a file beside the script (or the library) that asks, whatever the working folder is.
---
--- `io.lines(perigee.beside "prompts.jsonl")`
---@param name string a file, as in `"prompts.jsonl"` or `"data/a.json"`; an absolute path stays what it is
---@return string path
function perigee.beside(name) end

--- A parameter that `--set name=value` overrides. It takes its kind from the default: a number accepts
--- a quantity, `true` or `false` also `yes`, `no`, `on`, `off`. In a session it is `vu.params.name` too.
---@generic T: number|string|boolean|nil
---@param name string letters, digits and _
---@param default T
---@param doc? string what it is; `perigee run --plan` shows it
---@return T value
function perigee.param(name, default, doc) end

--- Plain data or texts that `make` makes once per process and every state may read, for what is large: a
--- corpus, a trace. Tables come back read-only.
---@generic T
---@param name string names it in the process
---@param make fun(): T
---@return T
function perigee.shared(name, make) end

--- Raises when this perigee does not have API number `n`; the present one is 1.
---@param n integer
function perigee.require_api(n) end

--- What `perigee.open`, `closed` and `ramp` return.
---@class perigee.Load

-- ------------------------------------------------------------------------------------------- vu

--- The virtual user whose session runs: every `session(vu)` has its own. Everything that can wait is here.
---@class perigee.Vu
---@field id integer number of the user within its worker's state, for logs
---@field session integer? number of the session in the run, from 0; nil in setup and teardown
---@field arm string? name of the arm, in a comparison; nil: this version makes none. Compare variants by a tag: `vu:tag("variant", "a")`, then `"ttft{variant=a} p50 < ttft{variant=b} p50"`
---@field rng perigee.Rng this user's generator: depends on (seed, session, spawn path) alone
---@field params table<string, any> values of the parameters, read-only; a name that is not declared raises
---@field shared any what `setup` returned, read-only
---@field fleet perigee.Fleet the servers, read-only
---@field route perigee.Policy? the plan's policy
---@field branch_id integer the user's branch: 0 for the session's own user, a number for each child (`vu:branch`)
---@field parent_branch integer? the branch it was spawned from; nil for the session's own user
local Vu = {}

---@class perigee.Fleet
---@field replicas { id: string, url: string }[] in the order of the command line
---@field gateway string? its URL
---@field model string? the model to name in requests
---@field tenant string?
---@field tokenizer string? what `--tokenizer` named, "bytes" for the built-in fleet
---@field template string? where `--template` is, or "harmony"
---@field now string? the servers' present for templates and Harmony's date: `--now`, or what a simulated fleet says
---@field hash_scheme string? how its engines hash blocks, of a fleet file: the default of `conv:hashes`
---@field block_size integer? tokens of a block of its engines' caches: of a fleet file, or what a simulated fleet says
---@field verify boolean whether the run counts prompts on this side too (`--verify`)
---@field simulated boolean whether this is the built-in fleet

--- Waits. Counted from the end of what this user waited for last, so work in between does not shift the
--- schedule. `vu:sleep(0)` lets others go first; a session that does nothing else for as long as --runaway allows is stopped.
---@param time perigee.Quantity s, at least 0
function Vu:sleep(time) end

--- Seconds since the run's zero.
---@return number
function Vu:now() end

---@class perigee.HttpOptions
---@field url? string a whole URL, or
---@field path? string a path on the fleet, as "/v1/models"
---@field replica? integer|string which replica (index or id); default: the gateway, else the first
---@field method? string default: POST with a body, else GET
---@field headers? table<string, string>
---@field body? perigee.TextLike|table bytes to send; a table is sent as canonical JSON
---@field json? table a value to send as canonical JSON, instead of `body`
---@field timeout? perigee.Quantity|{ connect?: perigee.Quantity, first_byte?: perigee.Quantity, idle?: perigee.Quantity, total?: perigee.Quantity } s; a single one is the total. Default: connect 10 s, first byte 300 s, idle 120 s, no total
---@field stream? "chat"|"completions"|"responses" an event stream of that kind is expected
---@field api? "chat"|"completions"|"responses" a whole JSON reply of that kind is expected
---@field sched? number when it was due, on the clock of `vu:now()`; default: the end of what this user waited for
---@field max_body? integer limit of a plain reply's body, bytes; default 64 MiB
---@field redirects? boolean follow them (uses the slower transport); to another origin only Accept, Content- and User-Agent headers go along
---@field compressed? boolean accept compression (uses the slower transport)
---@field tags? table<string, string|number|boolean> for this row, over those of `vu:tag`
---@field turn? integer kept by conversations
---@field step? integer kept by conversations
---@field branch? integer kept by conversations
---@field parent? integer kept by conversations
---@field policy? string name of the routing policy
---@field chosen? string id of the replica the policy chose
---@field route_reason? string
---@field fallback? boolean the policy's first choice was not available
---@field prompt_tokens? integer our own count of the prompt's tokens
---@field asked_tokens? integer output tokens the server was told to give, whole (`ignore_eos`): the check `short_answers` holds the reply against it; kept by conversations
---@field render_ns? integer time spent on our side
---@field tokenize_ns? integer
---@field hash_ns? integer

---@class perigee.Usage
---@field prompt_tokens integer?
---@field completion_tokens integer?
---@field total_tokens integer?
---@field cached_tokens integer? absent when the server did not say (vLLM says it with `--enable-prompt-tokens-details`, SGLang with `--enable-cache-report`)
---@field reasoning_tokens integer?

---@class perigee.ToolCall
---@field id string
---@field name string
---@field arguments string JSON as the model wrote it

---@class perigee.Reply
---@field status integer HTTP status
---@field headers table<string, string> names in lower case
---@field served string? id of the replica that answered
---@field e2e number s from start to end
---@field body string? of a plain reply
---@field text string? visible text of choice 0, with `stream` or `api` (as all that follows)
---@field reasoning string? "" when there was none
---@field tool_calls perigee.ToolCall[]? the model's own; empty when it made none
---@field finish_reason string?
---@field usage perigee.Usage? as the server reported it
---@field output_tokens integer?
---@field ttft number? s from start to the first generated token
---@field response_id string? of the Responses API
---@field prompt_tokens_local integer? of a conversation with a renderer: the prompt's tokens
---@field survived_tokens integer? and how many leading ones its last prompt had too
---@field raw_text string? of a renderer that parses (`perigee.harmony`): the model's words as they came; text, reasoning and tool_calls are what was found in them
---@field parse_error string? why nothing was: text is as it came

--- What came with a failure; a failure that is raised has it as `response`.
---@class perigee.FailedReply
---@field status integer? HTTP status; nil when none came
---@field retry_after number? s, of a Retry-After header that says seconds
---@field headers table<string, string> names in lower case; empty when none came

--- Sends a request, waits for the whole reply, and keeps a row of it. A status of 400 and above, a broken
--- stream or a timeout is a failure and ends the session (`try_http` returns it).
---@param opts perigee.HttpOptions
---@return perigee.Reply
function Vu:http(opts) end

--- The same; a failure is `nil, class, detail, response`.
---@param opts perigee.HttpOptions
---@return perigee.Reply? reply
---@return perigee.ErrorClass? class
---@return string? detail
---@return perigee.FailedReply? response
function Vu:try_http(opts) end

--- Runs `fn` for every item at the same time, each on a child user, and waits for all of them. A child that
--- fails ends the others and then this user.
---@generic T, R
---@param list T[]
---@param fn fun(child: perigee.Vu, item: T, i: integer): R
---@return R[] results in the order of the list
function Vu:all(list, fn) end

--- Starts `fn` on a child user and goes on. A task that nobody joins is waited for at the session's end.
---@param fn fun(child: perigee.Vu): ...
---@return perigee.Task
function Vu:spawn(fn) end

--- Keeps a value of a metric that the plan declares in `metrics`, under the tags of `vu:tag` and those given here: expectations
--- and the report split it by them, and the run's values.jsonl has each one.
---@param metric string
---@param value number finite
---@param tags? table<string, string|number|boolean>
function Vu:record(metric, value, tags) end

--- Counts whether something held; the report shows how often each check passed and failed. Checks have names of their own: one
--- that is called like a metric of the plan does not count into it, and expectations say `checks{check=NAME}`.
---@param name string
---@param ok any true unless nil or false
---@return boolean ok
function Vu:check(name, ok) end

--- A tag for every row and value of this user (and of children it spawns) from here on; nil removes it.
--- `turn` and `step` are kept by conversations.
---@param key string
---@param value string|number|boolean|nil
function Vu:tag(key, value) end

--- A line on the terminal and in the run's log.txt, with the session's number (`session=5`, `warm-up=2`); in
--- the file also with the seconds since the run's zero.
---@param ... any
function Vu:log(...) end

--- Raises an expected failure, for libraries that find one: it ends the session, counted under its class,
--- unless a `pcall` catches it (a table with `class` and `detail`; that of a request has `response` too).
---@param class perigee.ErrorClass
---@param detail? string
function Vu:fail(class, detail) end

--- A new branch number of the session: what `conv:fork` takes for a fork on the same user. Numbers follow from
--- who forks, in which order, whatever runs beside it: the trunk gives 1, 2, 3 …, branch b gives b × 1000 + 1,
--- + 2 … (2003 is the third of branch 2); beyond 999 of one user or three levels, a number from 10^9 on.
---@return integer
function Vu:branch() end

--- For routing policies: the next replica in turn, exact over all workers.
---@param counter string names the turn; each name has its own
---@return integer replica index
function Vu:pick_next(counter) end

--- For routing policies: the replica with the fewest of this run's requests in flight. It counts as in
--- flight at once; the user's next request to it takes the count over.
---@return integer replica index
function Vu:pick_least() end

--- For routing policies: counts one request in flight on a replica; the user's next request to it takes the
--- count over. Requests that were not picked count themselves.
---@param replica integer index
function Vu:pick(replica) end

--- Requests of this run in flight on a replica.
---@param replica integer index
---@return integer
function Vu:inflight(replica) end

--- What `vu:spawn` returns.
---@class perigee.Task
local Task = {}

--- Waits for the task; returns what its function returned. A task that failed fails the joining user.
---@return ...
function Task:join() end

-- ------------------------------------------------------------------------------------------ rng

--- A generator of random draws, the same on every machine: `vu.rng`, or `gen.rng(seed)` outside a
--- session. Arguments may be quantities with units; results are in base units.
---@class perigee.Rng
local Rng = {}

--- A whole number from lo to hi, both included; `int(n)` draws from 1 to n.
---@param lo integer
---@param hi? integer
---@return integer
function Rng:int(lo, hi) end

--- Uniform in [0, 1).
---@return number
function Rng:unit() end

--- Uniform in [lo, hi).
---@param lo perigee.Quantity
---@param hi perigee.Quantity
---@return number
function Rng:uniform(lo, hi) end

--- Exponential with the given mean: waiting times.
---@param mean perigee.Quantity at least 0
---@return number
function Rng:exp(mean) end

--- Normal.
---@param mean perigee.Quantity
---@param sd perigee.Quantity standard deviation, at least 0
---@return number
function Rng:normal(mean, sd) end

--- Log-normal: half of the draws lie below the median; sigma is the spread of the logarithm (0.5 mild,
--- 1 heavy).
---@param median perigee.Quantity above 0
---@param sigma number at least 0
---@return number
function Rng:lognormal(median, sigma) end

--- True with probability p.
---@param p? perigee.Quantity 0..1; default 0.5
---@return boolean
function Rng:bool(p) end

--- One element of a list, each alike.
---@generic T
---@param list T[] not empty
---@return T
function Rng:choice(list) end

--- Puts a list in random order, in place, and returns it.
---@generic T
---@param list T[]
---@return T[]
function Rng:shuffle(list) end

--- A generator of its own: depends on this one's identity and on how many were split off before, not on
--- draws.
---@return perigee.Rng
function Rng:split() end

-- ----------------------------------------------------------------------------------------- text

--- A text handle: bytes outside the Lua heap, shared by everything that refers to them. Works wherever a
--- string does in this API. `#text` is its length in bytes, `..` joins, `==` compares bytes, `tostring`
--- gives a string. Between a text and a string `==` is always false (Lua's rule for values of two kinds):
--- compare `tostring(text) == "…"`. Generated text is made at first use, for the run's tokenizer.
---@class perigee.Text
---@operator concat(perigee.TextLike): perigee.Text
---@operator len: integer
local Text = {}

--- A part as a string, with the indices of `string.sub`.
---@param i integer
---@param j? integer
---@return string
function Text:sub(i, j) end

-- ----------------------------------------------------------------------------------------- chat

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

--- Who makes the prompt's text, written by hand: a table with this method gives a text, or a list of token
--- ids. Its bytes should depend on the arguments alone.
---
--- `messages` are those of a chat request, as the conversation has them: `role`; `content`, a text, nil where an
--- answer is a tool call alone; `tool_calls`, each `{ id=, type="function", ["function"]={ name=, arguments= } }`
--- with the arguments as JSON text; `tool_call_id` of a tool's message; `reasoning` of a live answer
--- that had some. `opts.tools` are the request's, each `{ type="function", ["function"]={ name=, description=,
--- parameters= } }`, nil for none.
---@class perigee.Renderer
---@field parse? fun(self: perigee.Renderer, text: string): { content: string?, reasoning: string?, tool_calls: { id: string?, name: string, arguments: string }[]? }?, string? takes the model's raw words apart; requests then ask for special tokens in the text (`skip_special_tokens = false`)
---@field render fun(self: perigee.Renderer, messages: table[], opts: { tools: table[]?, kwargs: table?, now: string?, add_generation_prompt: boolean }): perigee.TextLike|integer[]|nil, string?

---@class perigee.RendererOptions
---@field kwargs? table further variables of the template, as `chat_template_kwargs` of a server
---@field now? string what the template's `strftime_now` tells, as "2026-08-01T12:00:00"; default: the run's `--now`
---@field tokenizer? perigee.Tokenizer what `perigee.tokenizer` loads, for a model other than the run's; default: the run's. One with another vocabulary than the run's is an error where the conversation's model is the run's

--- From now on the prompt is made on this side and sent to `/v1/completions` as token ids, by the run's
--- tokenizer (`--tokenizer`); nil: the server renders again. A template of `perigee.template` gets messages and
--- tools as vLLM gives them to it; a `perigee.harmony` renderer gives ids by the run's tokenizer where that is
--- gpt-oss's, else its own, and takes answers apart: with `history = "live"` analysis, answer and tool calls
--- stay in the history as Harmony wants them. A string is what `--template` takes ("harmony" with the run's
--- `--now` as its date). Answers, tools and history go on as before; another renderer in mid-session is one
--- line, and `survived_tokens` of the next reply and row says how many leading tokens the prompt still has in
--- common with the last one.
---
--- Only what is new is tokenized. A template in C renders in microseconds; a renderer in Lua gets all messages
--- as tables each time.
---
--- Errors: raises for what is no renderer. `send` raises when the renderer fails, or the tokenizer is not known.
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

-- ---------------------------------------------------------------------------------- completions

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

-- ---------------------------------------------------------------------------------------- route

--- Routing policies, for a plan's or a conversation's `route`. A function of yours is a policy too.
---@class perigee.route
local route = {}

---@class perigee.Prompt
---@field api "chat"|"completions"
---@field conversation perigee.Conversation? for chat
---@field prompt any for completions: what was asked to be sent
---@field turn integer
---@field step integer
---@field branch integer
---@field parent integer?

---@class perigee.Route
---@field replica integer? index of `vu.fleet.replicas`; nil: the gateway
---@field policy string name, for the rows
---@field reason string? why, for the rows
---@field fallback boolean? the first choice was not available

--- One replica, by index or id; without an argument the gateway, else the first replica.
---@param replica? integer|string
---@return perigee.Policy
function route.direct(replica) end

---@class perigee.RoundRobinOptions
---@field counter? string policies with the same name share a turn; default "round_robin"

--- Each replica in turn, exact over all workers.
---@param opts? perigee.RoundRobinOptions
---@return perigee.Policy
function route.round_robin(opts) end

--- Any replica alike, by a hash of session, branch, turn and step: the same in every run.
---@return perigee.Policy
function route.random() end

--- The replica with the fewest of this run's requests in flight, over all workers; ties go to the one that
--- was picked longest ago.
---@return perigee.Policy
function route.least_inflight() end

--- A session stays on one replica, by a hash of its number.
---@return perigee.Policy
function route.session_hash() end

--- What is used when nobody says: the gateway, the only replica, or `session_hash`.
---@return perigee.Policy
function route.default() end

-- ----------------------------------------------------------------------------------------- tool

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

-- ------------------------------------------------------------------------------------------ gen

--- Generated text of exactly so many tokens, and distributions. What is drawn is drawn when the script
--- asks; the bytes are made later, at first use.
---@class perigee.gen
local gen = {}

---@class perigee.TextOptions
---@field tokens number|perigee.Distribution rounded, at least 1
---@field seed? string|integer names the text: the same bytes in every session, run and machine
---@field rng? perigee.Rng draws the text; `seed` or `rng` must be there

--- Text of exactly n tokens for the run's tokenizer, counted alone (`--tokenizer`; bytes on the built-in fleet;
--- 4 bytes a token where the target's is not known). It reads like words and ends in no space. Joined with
--- other text it may be a token more or less, where the tokenizer's pieces meet.
---@param opts perigee.TextOptions
---@return perigee.Text
function gen.text(opts) end

---@class perigee.WordsOptions
---@field words number|perigee.Distribution rounded, at least 1
---@field seed? string|integer
---@field rng? perigee.Rng `seed` or `rng` must be there

--- Text of exactly n words in lower case.
---@param opts perigee.WordsOptions
---@return perigee.Text
function gen.words(opts) end

---@class perigee.CorpusOptions
---@field documents integer how many
---@field tokens number|perigee.Distribution of each
---@field seed string names the corpus

--- A list of texts, the same everywhere: documents to choose from.
---@param opts perigee.CorpusOptions
---@return perigee.Text[]
function gen.corpus(opts) end

--- A text handle over a string's bytes.
---@param text perigee.TextLike
---@return perigee.Text
function gen.from(text) end

--- Texts joined into one.
---@param texts perigee.TextLike[]
---@param separator? perigee.TextLike
---@return perigee.Text
function gen.join(texts, separator) end

--- Tokens of a text.
---@param text perigee.TextLike
---@return integer tokens
---@return boolean exact false when the tokenizer is not known and 4 bytes a token were assumed
function gen.count(text) end

--- A generator named by a seed, for the top level of a script and for tests; in a session there is `vu.rng`.
---@param seed string|integer
---@return perigee.Rng
function gen.rng(seed) end

--- The number that a number, a quantity or a distribution stands for.
---@param value perigee.Quantity|perigee.Distribution
---@param rng? perigee.Rng needed for a distribution
---@return number
function gen.draw(value, rng) end

---@class perigee.Bounds
---@field min? perigee.Quantity draws below become this
---@field max? perigee.Quantity draws above become this

--- Always the same value.
---@param value perigee.Quantity
---@return perigee.Distribution
function gen.fixed(value) end

--- Uniform in [lo, hi).
---@param lo perigee.Quantity
---@param hi perigee.Quantity
---@return perigee.Distribution
function gen.uniform(lo, hi) end

--- Exponential: waiting times.
---@param mean perigee.Quantity
---@param bounds? perigee.Bounds
---@return perigee.Distribution
function gen.exp(mean, bounds) end

--- Normal.
---@param mean perigee.Quantity
---@param sd perigee.Quantity
---@param bounds? perigee.Bounds
---@return perigee.Distribution
function gen.normal(mean, sd, bounds) end

--- Log-normal by its median and the spread of the logarithm: sizes and service times with a long tail.
---@param median perigee.Quantity
---@param sigma number
---@param bounds? perigee.Bounds
---@return perigee.Distribution
function gen.lognormal(median, sigma, bounds) end

--- Ranks 1..n, rank k with weight 1 / k^s: popularity.
---@param n integer
---@param s? number default 1
---@return fun(rng: perigee.Rng): integer
function gen.zipf(n, s) end

--- One element of a list, by weight.
---@generic T
---@param list T[]
---@param weights? number[] default: all alike
---@return fun(rng: perigee.Rng): T
function gen.choice(list, weights) end

-- ----------------------------------------------------------------------------------------- json

--- JSON that keeps integers, key order, and the difference between `{}` and `[]`. Every request body goes
--- through it, so equal values are equal bytes.
---@class perigee.json
---@field null userdata stands for null
local json = {}

---@class perigee.DecodeOptions
---@field drop_null? boolean members of objects that are null are left out; default false

--- Reads one JSON text (RFC 8259, strict). Objects and arrays come as tables that remember what they are;
--- null comes as `json.null`.
---@param text perigee.TextLike
---@param opts? perigee.DecodeOptions
---@return any value nil for bad text
---@return string? message with line and column
function json.decode(text, opts) end

---@class perigee.EncodeOptions
---@field pretty? boolean two-space indentation, for people; default false

--- Canonical JSON: no spaces, numbers as Python prints them, keys of plain tables sorted. A plain table with
--- keys 1..n is an array, any other an object, also when empty; texts are strings.
---
--- Errors: raises, with the path of the culprit, for functions, NaN, infinities and keys that JSON does not have.
---@param value any
---@param opts? perigee.EncodeOptions
---@return string
function json.encode(value, opts) end

--- An object that keeps its key order: first the pairs of the list, then named fields in sorted order, then
--- what is assigned later: `object { { "b", 1 }, { "a", 2 } }`.
---@param fields? table
---@return table
function json.object(fields) end

--- An array, also when it is empty.
---@param items? any[] without holes; `json.null` for an absent one
---@return table
function json.array(items) end

--- What perigee.json made of a table.
---@param value any
---@return "object"|"array"|nil
function json.kind(value) end

-- ---------------------------------------------------------------------------------------- stats

--- Statistics as the reports compute them.
---@class perigee.stats
local stats = {}

--- The p-quantile with linear interpolation (numpy's default).
---@param list number[]
---@param p perigee.Quantity 0..1, or "95%"
---@return number? value nil for an empty list
---@return boolean enough whether there are enough values to trust it: 5 / (1 - p), 5 / p below the median; never for 0 and 1
function stats.quantile(list, p) end

---@class perigee.MeanOptions
---@field level? perigee.Quantity of the interval, default 0.95
---@field by? any[] the group of each value, as its session: values of a group are not independent

--- Mean and its interval: Student's t; with `by` over groups, as the reports do with sessions.
---@param list number[]
---@param opts? perigee.MeanOptions
---@return number? mean nil for an empty list
---@return number? low nil for fewer than two values (groups)
---@return number? high
---@return integer n values, or groups
function stats.mean_ci(list, opts) end

---@class perigee.HistOptions
---@field bins? integer equal ones over the range; default 10
---@field edges? number[] rising, instead of `bins`

---@class perigee.Histogram
---@field n integer
---@field edges number[] one more than counts
---@field counts integer[] edges[i] <= x < edges[i + 1]; the last bin holds its upper edge too
---@field below integer
---@field above integer

--- A histogram.
---@param list number[]
---@param opts? perigee.HistOptions
---@return perigee.Histogram
function stats.hist(list, opts) end

-- ---------------------------------------------------------------------------------------- fleet

--- The simulated fleet's own parts, without sockets. What they say is simulated.
---@class perigee.fleet
local fleet = {}

--- Steps the engine model over a trace and says what happened in every step. Both texts are JSON in the form of
--- `tests/data/engine/README.md` (which is also the list of the engine's rules): the trace has `config`, `requests` and
--- `resets`, the result is `{"expect": {"steps": …, "names": …, "totals": …}}`. A request may also name an `"adapter"`.
---
--- ```lua
--- local f <close> = assert(io.open("trace.json"))
--- local result = json.decode(assert(fleet.replay(f:read "a")))
--- print(#result.expect.steps, result.expect.totals.preemptions)
--- ```
---@param trace_json perigee.TextLike
---@return string? result_json
---@return string? message when it is no trace: what is wrong, and where
function fleet.replay(trace_json) end

--- A link that KV is loaded over.
---@class perigee.ProfileLink
---@field latency? number|string of a load, however small: seconds, or `"1us"`
---@field bytes_per_s? number|string `"20GB"`; 0: no time beyond the latency
---@field device? "dram"|"nvme"|"object" sets both (of `offload` and `shared`): 20 GB/s and 1 µs, 7 GB/s and 80 µs, 1 GB/s and 30 ms
---@field tokens? integer of `offload` and `shared`: room for the KV of so many tokens; 0 = there is no such tier

--- A measured decode step.
---@class perigee.ProfileStep
---@field batch number sequences that decode
---@field context number tokens of KV that each of them has
---@field time number|string seconds, or `"6.9ms"`

--- What a profile file returns: a model on a machine, for `perigee sim --profile FILE.lua` and `perigee run --profile
--- FILE.lua`. A step takes `step_overhead`, the prefill of its tokens, and, with sequences that decode, `decode_base` and
--- `decode_seq` for each and `decode_context` for each token of their KV.
---
--- ```lua
--- local profile = require("perigee.fleet").profiles()["llama-3.1-8b"]
--- profile.name, profile.kv_tokens = "half the memory", 200000
--- return profile
--- ```
---@class perigee.Profile
---@field name? string default: the file's name
---@field summary? string one line
---@field base? string the built-in profile that gives what is not said; without it prefill_tokens_per_s, decode_steps (or decode_base) and kv_tokens (or kv_blocks) must be
---@field prefill_tokens_per_s? number 0: prefill takes no time
---@field prefill_context? number|string more time for each prefill token, for each token before it
---@field step_overhead? number|string every step
---@field decode_base? number|string every step with a sequence that decodes
---@field decode_seq? number|string
---@field decode_context? number|string
---@field decode_steps? perigee.ProfileStep[] instead of the three above: they are fitted to these, and a step that is more than 25 % off is an error
---@field request_overhead? number|string of each request, before it is queued
---@field kv_tokens? integer the KV budget
---@field kv_blocks? integer the same, in blocks
---@field block_size? integer default 16
---@field max_model_len? integer default: what the model has, as far as the blocks hold it
---@field max_num_batched_tokens? integer default 8192
---@field max_num_seqs? integer default 1024
---@field long_prefill_token_threshold? integer 0 = off
---@field prefix_caching? boolean default true
---@field kv_bytes_per_token? integer|string `131072` or `"128KiB"`: what loads take is computed from it
---@field chunk_tokens? integer what tiers keep as one piece (256), a multiple of block_size
---@field offload? perigee.ProfileLink CPU memory of the replica
---@field shared? perigee.ProfileLink storage that all replicas share
---@field transfer? perigee.ProfileLink from a prefill replica to a decode replica

--- The built-in profiles: fresh tables, by name.
---@return table<string, perigee.Profile>
function fleet.profiles() end

-- --------------------------------------------------------------------------------------- openai

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

-- ------------------------------------------------------------------------------------ blockhash

--- Block hashes of KV-cache routers and engines, byte for byte. `perigee hash --help` lists the schemes.
---@class perigee.blockhash
local blockhash = {}

--- Options of a chain; which of them a scheme knows, `perigee hash --help` says. One that it does not know
--- raises.
---@class perigee.HashOptions
---@field scheme? string default `"ic-xxh3"`
---@field block_size? integer tokens (bytes or characters where the scheme hashes text); default: the scheme's own, 16 for most
---@field seed? string|integer vLLM: the text of the server's `PYTHONHASHSEED`, never assumed; ic-xxh3 and AIBrix: a number
---@field none_hash? string NONE_HASH itself, in hex
---@field pythonhashseed? string what NONE_HASH is made from
---@field none_hash_string? string lmcache-builtin: the text that is hashed, when it is not the seed's
---@field hash_seed? string llm-d: the index's seed
---@field model? string llm-d and the endpoint picker: the model's name
---@field parent? string the hash before the first block: 16 hex digits (Mooncake: decimal)
---@field parent_prefix? string the same for ic-xxh3
---@field additional_salt? string Mooncake's conductor
---@field cache_salt? string
---@field lora_name? string
---@field mm? { identifier: string, offset: integer, length: integer }[] multimodal items and the tokens they lie over
---@field mm_form? "tuple"|"bare" how vLLM writes them: since March 2026 with their offset
---@field prompt_embeds_sha256? string[] of each block
---@field cache_namespace? string Dynamo
---@field block_mm? table<string, string[]> Dynamo: block number from 0 -> multimodal hashes
---@field is_eagle? boolean Dynamo: windows of one token more
---@field bigram? boolean SGLang: pairs of tokens
---@field partial? "drop"|"hash" SGLang: an incomplete page; default drop
---@field chain? "event"|"storage" SGLang; default event
---@field extra_key? string SGLang's storage chain
---@field variant? string epp-approx-chars: the release; pstack-xxh64: `python` or `go`
---@field max_blocks? integer
---@field prefix_token_count? integer smg-prefix-hash; default 256
---@field prefix_token_length? integer ranvier-fnv1a; default 128
---@field algorithm? "sha256"|"sha256_cbor"|"xxhash"|"xxhash_cbor" lmcache-vllm-hash
---@field save_unfull_chunk? boolean LMCache: hash the incomplete last chunk

--- The block hashes of a prompt: a list of token ids, or a text for schemes that hash text.
---
--- Errors: raises for wrong options, and for a vLLM scheme without a seed; `nil, message` for ids out of
--- range and for text where ids are wanted.
---@param prompt integer[]|perigee.TextLike
---@param opts? perigee.HashOptions
---@return perigee.Hashes? hashes
---@return string? message
function blockhash.hash(prompt, opts) end

--- The names of all schemes.
---@return string[]
function blockhash.schemes() end

---@class perigee.HashScheme
---@field name string
---@field about string whose it is
---@field input "tokens"|"text"|"tokens or text"
---@field block_size integer the default; 0: one hash of the whole
---@field params { name: string, json: boolean }[] `json`: a flag, a list or an object
---@field fields string[]

--- What a scheme takes and has.
---@param name string
---@return perigee.HashScheme? scheme nil when there is none of that name
function blockhash.scheme(name) end

--- A chain of block hashes. `#hashes` is their number, `hashes[i]` the bytes of one. Extending it costs the
--- work of what is new, a fork shares what is there.
---@class perigee.Hashes
---@operator len: integer
local Hashes = {}

--- Every hash in hex.
---@return string[]
function Hashes:hex() end

--- Every hash as the scheme's engine publishes it in its KV events: vLLM the last 8 bytes in hex, SGLang the
--- first 8 as a signed number, others the hash itself.
---@return string[]
function Hashes:event() end

--- Another field of the scheme: `content_hashes`, `sequence_hashes`, `digests` (lists), `none_hash`,
--- `init_hash`, `seed` (one text).
---@param name string
---@return string[]|string
function Hashes:field(name) end

--- Appends more tokens, or text; returns the same hashes.
---@param more integer[]|perigee.TextLike
---@return perigee.Hashes? hashes
---@return string? message
function Hashes:extend(more) end

--- A chain that goes on by itself from here.
---@return perigee.Hashes
function Hashes:fork() end

-- ------------------------------------------------------------------------------------- template

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
---@field now? string what `strftime_now` tells, `"2026-08-22T12:34:56"`; default: the local time
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

-- -------------------------------------------------------------------------------------- harmony

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

-- ------------------------------------------------------------------------------------ tokenizer

--- Exact tokenizers: the ids a server's tokenizer gives, from the model's own file. `perigee tokenize` does the same
--- from a shell.
---@class perigee.tokenizer
local tokenizer = {}

---@class perigee.TokenizerFile
---@field family? "cl100k_base"|"o200k_base"|"o200k_harmony"|"llama4"|"kimi_k2" whose rank file it is; a rank file needs it

--- Loads a tokenizer: a Hugging Face `tokenizer.json` or the folder that holds one (BPE models: byte-level, and
--- SentencePiece-style with byte fallback), a tiktoken rank file, `"bytes"` (a byte is a token), or a name that
--- `make deps` fetched: `"qwen3"`, `"o200k_base"`, `"o200k_harmony"`, `"cl100k_base"`. Names are looked for in
--- `$PERIGEE_TOKENIZERS`, else in `~/.cache/perigee/tokenizers` and in `share/perigee/tokenizers` of an installation.
---
--- Errors: `nil, message` when the file is missing, broken, or has a component that is not done exactly, which is
--- named.
---@param path string
---@param opts? perigee.TokenizerFile
---@return perigee.Tokenizer? tok
---@return string? message
function tokenizer.load(path, opts) end

--- A loaded tokenizer. It belongs to the state that loaded it; load it once, not per turn: it takes tenths of a second.
---@class perigee.Tokenizer
---@field name string the file's path, or the name given to `load`
---@field vocab_size integer every id is below it
local Tokenizer = {}

---@class perigee.TokenizeOptions
---@field add_special? boolean put the model's first (and last) tokens around the text; default false
---@field special? boolean special tokens written out in the text become their ids; default true

--- The ids of a text. Bytes that are not UTF-8 count as U+FFFD, as a server's JSON reader has them.
---
--- Errors: `nil, message` for texts of 800 MiB and more.
---@param text perigee.TextLike
---@param opts? perigee.TokenizeOptions
---@return integer[]? ids
---@return string? message
function Tokenizer:encode(text, opts) end

--- How many ids `encode` would give, without making the list.
---@param text perigee.TextLike
---@param opts? perigee.TokenizeOptions
---@return integer? n
---@return string? message
function Tokenizer:count(text, opts) end

--- The text of ids. A token may be part of a character: its bytes come as they are, so texts of parts can be joined.
---
--- Errors: `nil, message` for an id that the vocabulary does not have.
---@param ids integer[]
---@return string? text
---@return string? message
function Tokenizer:decode(ids) end

-- ----------------------------------------------------------------------------------------- test

--- Specs of scripts: `perigee test FILE…`. A spec file sees `describe(name, fn)`, `it(name, fn)`,
--- `before_each(fn)`, `after_each(fn)` and `expect(value)` as globals, and finds modules in its own folder, the
--- folder above, and `lib/` in both.
---@class perigee.test
local test = {}

---@class perigee.FakeOptions
---@field replies? (string|table|false)[]|fun(request: table): string|table|nil what comes back: a text; a table with fields of perigee.Reply, or `{ class =, detail =, status =, retry_after =, headers = }` for a failure; otherwise a default of `max_tokens` tokens
---@field session? integer number of the session; default 0
---@field seed? integer|string default 1
---@field params? table values of `vu.params`; what `perigee.param` gave when the module was loaded stays
---@field shared? any
---@field fleet? table model, gateway, replicas
---@field route? perigee.Policy

--- A virtual user that only pretends, in virtual time. What happened is in its fields: `requests` (options,
--- `body`, and `json`, the decoded body), `slept`, `records`, `checks`, `logs`, `tags`. Children of `all`
--- and `spawn` run one after the other, each on a clock of its own.
---@param opts? perigee.FakeOptions
---@return perigee.Vu
function test.vu(opts) end

--- Runs one session of a plan on such a user and returns the user.
---@param plan perigee.PlanOptions
---@param opts? perigee.FakeOptions
---@return perigee.Vu
function test.session(plan, opts) end

--- A value to be judged: the global `expect` of spec files.
---@param value any
---@return perigee.Expectation
function test.expect(value) end

---@class perigee.RunOptions
---@field stress? boolean the collector runs all the time
---@field out? { write: fun(self: any, ...: string) } default: standard output
---@field runaway? number|string CPU time that one test may take, 10 s when absent (with stress 200 s)

--- Runs spec files, prints a line for each test and `N passed, N failed`.
---@param files string[]
---@param opts? perigee.RunOptions
---@return integer passed
---@return integer failed
function test.run(files, opts) end

--- The command `perigee test`.
---@param args string[]
---@return integer status
function test.main(args) end

--- What `expect(value)` returns. Each method raises with both values when it does not hold, and returns the
--- expectation.
---@class perigee.Expectation
local Expectation = {}

--- Equal: tables by content, texts by bytes, JSON objects and arrays apart.
---@param expected any
function Expectation:eq(expected) end

--- Not equal.
---@param other any
function Expectation:ne(other) end

--- A number within `tolerance` (default 1e-9).
---@param expected number
---@param tolerance? number
function Expectation:near(expected, tolerance) end

--- A number above the bound.
---@param bound number
function Expectation:above(bound) end

--- A number below the bound.
---@param bound number
function Expectation:below(bound) end

--- A text that matches a Lua pattern.
---@param pattern string
function Expectation:matches(pattern) end

--- A text with this part, or a list with this element.
---@param part any
function Expectation:contains(part) end

--- nil.
function Expectation:is_nil() end

--- A value of this type, "integer" and "float" included.
---@param kind string
function Expectation:is_a(kind) end

--- Neither nil nor false.
function Expectation:truthy() end

--- nil or false.
function Expectation:falsy() end

--- A function that raises; the message, or "class: detail" of a failure, matches the pattern.
---@param pattern? string a Lua pattern
function Expectation:errors(pattern) end

--- ## Data sets
---
--- Files are read at the top of a script, before the load; in a session nobody may wait for a disk. What all
--- users read is made once per process with `perigee.shared`, whatever the number of workers:
---
---     local prompts = perigee.shared("prompts", function()
---       local list = {}
---       for line in io.lines(perigee.beside "prompts.jsonl") do -- beside the script, from any folder
---         list[#list + 1] = require "perigee.json".decode(line).prompt
---       end
---       return list
---     end)
---
--- In a session, `prompts[vu.session % #prompts + 1]` takes them in order, `prompts[vu.rng:int(1, #prompts)]`
--- at random, the same for any number of workers. A name without `perigee.beside` is one of the working folder.
--- What was read is not copied into the run's folder; only scripts and their libraries are.

--- ## Expectations
---
--- An expectation of a plan is a line of text:
---
---     metric[{tag=value, tag=a..b}] stat OP bound
---     A = B within 2%
---
--- - `stat`: `mean` `min` `max` `sum` `count` `share` `rate` `p50` `p90` `p95` `p99` `p99.9`. A share is a part
---   of requests, a rate is per second of the window, by what happened inside it: of `checks` those that were true,
---   of the plan's own metrics the sum of the values.
--- - `OP`: `<` `<=` `>` `>=`.
--- - `bound`: a quantity (`400ms`, `75%`, `2/s`, `100 tokens`, `20 tokens/s`; a time or a size without its unit
---   is refused), `n * other`, or `other + quantity`, where `other` is another
---   `metric stat`. `%` after `+` means points for ratios and shares, and relative otherwise.
--- - `A = B within 2%` is a claim of equivalence, judged on intervals; other bounds use point estimates.
--- - Tags: `turn step branch trial_block status error replica` are facts of a request; every other name is a tag
---   of the script. `a..b` includes both ends; one of them may be left out.
--- - `checks share` is the part of `vu:check`'s calls that were true, `checks{check=NAME} share` of those of a name.
--- - There are no arms in this version: what is to be compared gets a tag, `vu:tag("variant", "a")`, and
---   `ttft{variant=a} p50 < 0.8 * ttft{variant=b} p50` compares.
---
--- No data, undecided, or too few samples (a percentile p needs 5 / (1 - p)) is *not met*, with the reason. A
--- name that does not exist is an error before anything starts. A function `(results) -> ok, text` is an
--- expectation too; `results` is what `summary.json` holds.

return perigee
