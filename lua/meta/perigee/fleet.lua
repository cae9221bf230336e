---@meta perigee.fleet

--- The simulated fleet's own parts, without sockets. What they say is simulated.
---@class perigee.fleet
local fleet = {}

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
