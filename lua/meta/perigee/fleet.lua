---@meta perigee.fleet

--- The simulated fleet: what can be done to it while it runs, and its own parts, without sockets. What they say is
--- simulated.
---
--- What is done to it needs the built-in fleet (`perigee run` without servers of your own, `perigee dry`), or a
--- `perigee sim` whose admin port the fleet file names: `admin = { url =, token = }`; replicas have that file's names,
--- and are found by their URLs. `vu.fleet` has the same methods.
--- They wait, so they are for setup, session, teardown and functions of a plan's `timeline`; each returns when the
--- action has ended, what it lasts included, and raises when it is wrong or the replica is not in the state for it.
--- Everything that was done is on the run's timeline (summary.json, report). Fields go in a table; the first of them
--- may stand in front of it, or alone. Times are quantities; `replica` is an id, the place in `vu.fleet.replicas`, or
--- `"*"` for all.
---
--- ```lua
--- fleet:restart("r1", { down = "2s" })
--- fleet:pressure { share = "50%", lasts = "10s" }
--- ```
---@class perigee.fleet
local fleet = {}

--- What an action's fields have in common.
---@class perigee.ActionFields
---@field replica? string|integer which one; where it may be left out, all of them

--- What the fleet says of an action that has ended.
---@class perigee.ActionAnswer
---@field action string its name
---@field id integer number of the action
---@field replicas string[] ids of those it was done to
---@field done boolean true
---@field url? string of a replica that was added
---@field note? string of one that gets no requests: why
---@field blocks? table<string, integer> pressure: blocks that were taken, by replica
---@field evicted_blocks? table<string, integer> pressure: blocks that lost what they held, by replica
---@field reset? string[] reset_cache: replicas whose cache is empty now
---@field refused? table<string, string> reset_cache, pressure: those that refused, with the reason, as in "12 blocks in use", "down"

--- Ends a replica's process, and starts it again after `down` with an empty cache. Requests that it has are cut off. One
--- that was killed is started; one that was drained is in rotation again.
---@param replica string|integer|{ replica: string|integer, down?: perigee.Quantity }
---@param fields? { down?: perigee.Quantity } `down`: default 2 s
---@return perigee.ActionAnswer
function fleet:restart(replica, fields) end

--- Ends a replica's process. It stays away until a restart.
---@param replica string|integer|{ replica: string|integer }
---@return perigee.ActionAnswer
function fleet:kill(replica) end

--- Adds a replica, which is up after `start`, and then in rotation: the next spare (`--spares N`; what a plan's timeline
--- adds is counted). Without one it runs, and no policy of this run knows it.
---@param start? perigee.Quantity|{ start?: perigee.Quantity } default 0 s
---@return perigee.ActionAnswer
function fleet:add(start) end

--- Takes a replica out of rotation, waits until it has nothing open any more, and then ends its process (`after = "down"`) or leaves it as it is
--- (`"keep"`). After `timeout` it ends with what is open.
---@param replica string|integer|{ replica: string|integer, after?: "down"|"keep", timeout?: perigee.Quantity }
---@param fields? { after?: "down"|"keep", timeout?: perigee.Quantity } default: down, without a timeout
---@return perigee.ActionAnswer
function fleet:drain(replica, fields) end

--- Fills blocks of the cache with content of others, which evicts what was used longest ago. With `lasts` they stay in
--- use for so long. Say how much in one way: share, blocks or tokens. A replica that is down has no cache.
---@param share number|string|{ share?: number|string, blocks?: integer, tokens?: integer, lasts?: perigee.Quantity, replica?: string|integer }
---@param fields? { lasts?: perigee.Quantity, replica?: string|integer }
---@return perigee.ActionAnswer
function fleet:pressure(share, fields) end

--- Empties the prefix cache, as vLLM does: refused by a replica with blocks in use, unless `reset_running`. Raises when
--- all of them refuse.
---@param replica? string|integer|{ replica?: string|integer, reset_running?: boolean }
---@param fields? { reset_running?: boolean }
---@return perigee.ActionAnswer
function fleet:reset_cache(replica, fields) end

--- Adds a fault (`perigee sim --help` has the grammar), which ends by itself with `lasts`.
---@param fault string|{ fault: string, lasts?: perigee.Quantity, replica?: string|integer } as in `"empty p=0.3"`
---@param fields? { lasts?: perigee.Quantity, replica?: string|integer }
---@return perigee.ActionAnswer
function fleet:fault(fault, fields) end

--- Ends all faults.
---@param replica? string|integer|perigee.ActionFields
---@return perigee.ActionAnswer
function fleet:clear_faults(replica) end

--- KV events leave so much later; 0 ends it. The fleet must publish them: `--sim-set kv_events=on`.
---@param delay perigee.Quantity|{ delay: perigee.Quantity, lasts?: perigee.Quantity, replica?: string|integer }
---@param fields? { lasts?: perigee.Quantity, replica?: string|integer }
---@return perigee.ActionAnswer
function fleet:delay_events(delay, fields) end

--- KV events, which the fleet must publish (`--sim-set kv_events=on`), are lost: each with probability `p` (default 1; 0 ends it), or the next `count`.
---@param p? number|string|{ p?: number|string, count?: integer, lasts?: perigee.Quantity, replica?: string|integer }
---@param fields? { lasts?: perigee.Quantity, replica?: string|integer }
---@return perigee.ActionAnswer
function fleet:drop_events(p, fields) end

--- Steps the engine model over a trace and says what happened in every step. Both texts are JSON in the form of
--- `tests/data/engine/README.md` (which is also the list of the engine's rules): the trace has `config`, `requests` and
--- `resets`, the result is `{"expect": {"steps": …, "names": …, "totals": …}}`. A request may also name an `"adapter"`,
--- and the config `"watermark_blocks"`.
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

return fleet
