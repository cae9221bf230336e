---@meta _

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

--- The servers as data; what can be done to a simulated fleet are the methods of `perigee.fleet`: `vu.fleet:restart("r1")`.
---@class perigee.Fleet: perigee.fleet
---@field replicas { id: string, url: string, spare?: boolean }[] in the order of the command line; `spare`: down until it is added (`--spares`), the last ones
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
---@field replica? integer|string which replica (index or id), in rotation or not; default: the gateway, else the first in rotation
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
---@field refused? string why it is not sent: it fails as `connect` with this text (nothing in rotation)
---@field prompt_tokens? integer our own count of the prompt's tokens
---@field asked_tokens? integer output tokens the server was told to give, whole (`ignore_eos`): the check `short_answers` holds the reply against it; kept by conversations
---@field harmony? boolean the reply of `/v1/completions` is a gpt-oss model's raw words, which the caller takes apart: the row's `first_visible` is the first byte of its answer, not of its analysis; kept by conversations with a Harmony renderer
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
---@field survived_tokens integer? and how many leading ones its last prompt had too; nil where that was the server's
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

--- For routing policies: whether a replica is in rotation, so may be sent to. One that a plan's `timeline` drains is
--- not, nor is a spare before it is added.
---@param replica integer|string index or id
---@return boolean
function Vu:in_rotation(replica) end

--- For routing policies: the replica itself while it is in rotation, else the next one that is, in the fleet's order and
--- round its end. What a policy chooses goes through this.
---@param replica integer|string index or id
---@return integer? replica index; nil: none is in rotation
function Vu:stand_in(replica) end

--- For routing policies: the next replica in turn, exact over all workers; one out of rotation has none.
---@param counter string names the turn; each name has its own
---@return integer? replica index; nil: none is in rotation
function Vu:pick_next(counter) end

--- For routing policies: the replica in rotation with the fewest of this run's requests in flight. It counts as in
--- flight at once; the user's next request to it takes the count over.
---@return integer? replica index; nil: none is in rotation
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
