---@meta perigee
-- The rest stands in perigee/, in the order of the reference:
-- vu chat completions route tool gen json stats fleet openai blockhash template harmony tokenizer test
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

--- Plans, loads and parameters: what a scenario script returns.
---@class perigee
---@field version string of this perigee, "1.2.3"
local perigee = {}

--- Something that is done to the simulated fleet while the load runs: `action`, one of the methods of `perigee.fleet`,
--- with its fields beside it, or `run`, a function that waits as it likes. Times count from the start of the measured
--- window, as the load's `duration` does: a longer warm-up moves nothing. The report compares what requests were like
--- before, during and after; an action that takes longer than the load lasts is refused, and one that fails, or that the
--- load's end overtakes, makes the run not valid (check `timeline`).
---@class perigee.TimelineEntry
---@field at perigee.Quantity when; before the load's `duration`
---@field action? "restart"|"kill"|"add"|"drain"|"pressure"|"reset_cache"|"fault"|"clear_faults"|"delay_events"|"drop_events"
---@field run? fun(fleet: perigee.Fleet, vu: perigee.Vu) instead of an action; ends with the load
---@field every? perigee.Quantity again and again so far apart, until the load's end
---@field times? integer so often in all, with `every`
---@field window? perigee.Quantity how long before and after are; default 10 s, or as long as the action when that is longer
---@field replica? string id of the replica, or `"*"`
---@field down? perigee.Quantity restart
---@field start? perigee.Quantity add
---@field after? "down"|"keep" drain
---@field timeout? perigee.Quantity drain
---@field share? number|string pressure
---@field blocks? integer pressure
---@field tokens? integer pressure
---@field lasts? perigee.Quantity pressure, fault, delay_events, drop_events
---@field reset_running? boolean reset_cache
---@field fault? string fault
---@field delay? perigee.Quantity delay_events
---@field p? number|string drop_events
---@field count? integer drop_events

---@class perigee.PlanOptions
---@field load perigee.Load who arrives: `perigee.open`, `closed` or `ramp`
---@field session fun(vu: perigee.Vu) one user's story, told top to bottom
---@field name? string what reports call it; the file's name otherwise
---@field description? string one line
---@field expect? (string|(fun(results: table): boolean, string?)|{ [1]: string, [2]: fun(results: table): boolean, string? })[] what must hold, as in `"ttft p95 < 400ms"`, `"checks{check=parsed} share > 99%"`; times and sizes with their unit
---@field metrics? table<string, string> what the script records with `vu:record`: name = unit; their `rate` is the sum of the values given inside the window, per second
---@field params? table<string, any> parameters: name = default, or name = { default =, doc = }
---@field setup? fun(vu: perigee.Vu): any runs once before the load; its value (plain data or texts) is `vu.shared`
---@field teardown? fun(vu: perigee.Vu) runs once after the load
---@field route? perigee.Policy where requests go; default: the gateway, the only replica, or `route.session_hash`
---@field target? string|string[] URL or URLs of the servers, when the command line names none
---@field slo? table<string, string> upper bounds per request that make it count as goodput: metric = bound, as in `{ ttft = "400ms" }`; of ttft, ttft_sched, ttft_sent, first_visible, tpot, e2e
---@field timeline? perigee.TimelineEntry[] what is done to the simulated fleet, and when
---@field drain? perigee.Quantity how long sessions may finish after the window; default 60 s

--- Checks a plan and returns it, so that a script can end with `return perigee.plan { … }`.
---
--- Errors: raises for unknown fields and wrong types.
---@param plan perigee.PlanOptions
---@return perigee.PlanOptions plan
function perigee.plan(plan) end

--- What varies, and its values: `{ "replicas", { 1, 2, 4 } }`. By name it is
---
--- - `replicas` (how many the built-in fleet has), `profile` (what one is), or a setting that `perigee sim --set`
---   takes (`kv_blocks`, `block_size`, `max_num_seqs`, …): the fleet of the point;
--- - `route`: policies with names of your choice, `{ { "sticky", route.session_hash() }, { "spread",
---   route.round_robin() } }` in that order, or `{ sticky = …, spread = … }` by name;
--- - a parameter that the script declares (`perigee.param`, or the plan's `params`);
--- - a figure of the load, as `--set` takes it: `users`, `rate`, `duration`, `sessions`, `warmup`.
---
--- Where a parameter and a figure of the load have the same name the parameter is meant, as with `--set`.
---@class perigee.SweepAxis
---@field [1] string its name
---@field [2] (number|string|boolean)[]|{ [1]: string, [2]: perigee.Policy }[]|table<string, perigee.Policy>

---@class perigee.SweepOptions
---@field plan perigee.PlanOptions what is run at each point: `perigee.plan { … }`, or `require "chat_multi_turn"`
---@field over perigee.SweepAxis[] the axes, in the order in which they vary: the last one fastest
---@field name? string what reports call it; default: the plan's
---@field description? string one line; default: the plan's
---@field limit? integer how many points are allowed; default 10,000

--- One plan at every point of a grid, for scripts to end with: `return perigee.sweep { plan = …, over = { … } }`.
--- Each point is a run of its own, one after another, on a fleet of its own where the built-in fleet is used, with
--- the same seed: its sessions are the same, byte for byte, unless a parameter changes what the script says. Every
--- expectation of the plan is judged at every point. `perigee run FILE.lua --plan` lists the points, `--point N` runs
--- one alone, `--over kv_blocks=500,1000` gives an axis other values.
---
--- Errors: raises for unknown fields, an axis without values, and values of the wrong kind. The command refuses
--- unknown axes, values out of range, and settings of the built-in fleet where servers of your own are given.
---@param sweep perigee.SweepOptions
---@return perigee.Sweep sweep its `plan` is the plan
function perigee.sweep(sweep) end

---@class perigee.Sweep
---@field plan perigee.PlanOptions

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
--- expectation too, and `{ "what it says", function }` is one with a name; `results` is what `summary.json` holds.

return perigee
