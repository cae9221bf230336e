/* simconfig.h: what a simulated replica is made of: a profile and the fields changed on top.
 *
 * A profile (kv/steptime.h) names a model on a machine: step times, KV budget, limits, tiers.
 * Single fields are set as on the command line, key=value, or read from a profile file
 * (simprofile.c):
 *
 *   kv_blocks or kv_tokens (the last one said counts), block_size, max_model_len,
 *   max_num_batched_tokens, max_num_seqs, reasoning_tokens     whole numbers
 *   tool_call_p                       share of the answers that are function calls where the model
 *                                     may choose (tool_choice "auto"), default 0
 *   tool_rounds, tool_result_tokens, tool_latency, tool_salt_lost   see gentools.h
 *   long_prefill_token_threshold      whole number, 0 = off
 *   prefix_caching                    on or off
 *   reserve_full_isl                  on or off: a request is let in only if blocks for its whole
 *                                     prompt are free (default on, as vLLM's)
 *   async_scheduling                  on or off: steps are scheduled one ahead (engine.h; default
 *                                     off)
 *   watermark                         share of the blocks that stay free when a request is admitted
 *                                     while others run (vLLM's, default 0)
 *   ttft, itl                         times, of profile `fixed` only
 *   prefill_tokens_per_s              a rate, 0 = prefill takes no time
 *   prefill_context, step_overhead, decode_base, decode_seq, decode_context, request_overhead times
 *   kv_bytes_per_token, chunk_tokens  what tiers and transfers move
 *   offload_tokens, shared_tokens     room of the tiers, 0 = no such tier
 *   offload_device, shared_device     dram, nvme, object: sets latency and bytes_per_s
 *   offload_latency, offload_bytes_per_s, the same of shared and transfer
 *   kv_events, kv_events_..., hash_scheme, hash_seed          kvconfig.h */
#ifndef SIM_SIMCONFIG_H
#define SIM_SIMCONFIG_H

#include "kv/engine.h"
#include "kv/steptime.h"
#include "sim/gentools.h"
#include "sim/kvconfig.h"

struct simconfig {
  struct steptime_profile time; /* its limits are those of `engine` from here on */
  struct engine_config engine;  /* num_blocks: with the null block, one more than kv_blocks */
  uint64_t kv_tokens;           /* the KV budget; 0 = engine.num_blocks was set */
  uint32_t shared_chunks;       /* by simconfig_check: capacity of shared storage; 0 = none */
  double watermark;             /* share of the blocks that admissions leave free */
  uint32_t reasoning_tokens;    /* thoughts before each answer */
  struct kvconfig events;       /* how KV events are published */
  struct gentools tools;
  bool max_model_len_set;
  bool max_model_len_lowered; /* by simconfig_check, to what the blocks can hold */
};

#define SIMCONFIG_DEFAULT_PROFILE "tiny"

/* The profile as it is. ERR_NOT_FOUND names those that exist. */
NODISCARD int simconfig_init(struct simconfig *c, const char *profile, struct err *err);
/* The names that simconfig_set knows, from 0 on; NULL behind the last one. */
const char *simconfig_field(size_t i);
/* "kv_blocks=500". ERR_INVALID names the key (and the nearest known one) or the value. */
NODISCARD int simconfig_set(struct simconfig *c, const char *text, struct err *err);
/* Settles what depends on several fields: a context that the blocks cannot hold is lowered to what
 * they can, unless it was set; then, and for other impossible mixtures, ERR_INVALID. */
NODISCARD int simconfig_check(struct simconfig *c, struct err *err);

/* A profile from what a profile file returned: a table of the fields above; `offload`, `shared` and
 * `transfer` may be tables of theirs. Besides: name, summary; base, the built-in profile that gives
 * what is not said; decode_steps, {{batch =, context =, time =}, ...}, measured decode steps that
 * decode_base, decode_seq and decode_context are fitted to. `file` names it in errors (ERR_INVALID)
 * and when it has no name. Checked as by simconfig_check, on a copy. */
struct value;
NODISCARD int simprofile_read(struct simconfig *c, const char *file, const struct value *table,
                              struct err *err);

#endif
