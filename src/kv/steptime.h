/* steptime.h: how long a step of a simulated engine takes, and the built-in hardware profiles.
 *
 * Pure arithmetic after shared/facts/interfaces.md §8.3. The caller steps the engine (engine.h),
 * asks for the time of what the step did, and lets that much time pass. One pass mixes prefill and
 * decode:
 *
 *   step = step_overhead
 *        + prefill_tokens / prefill_rate + prefill_context · per_prefill_context
 *        + (decode_seqs > 0: decode_base + decode_seqs · per_seq + decode_context · per_context)
 *
 * decode_base is the time to read the weights once; a pass that only prefills hides it behind its
 * computation. (So a prefill of very few tokens is a few ms too fast: the published figures say
 * nothing of that case.) The built-in H100 profiles take prefill as linear in tokens, at
 * a mean context of 4,096; where per_prefill_context is set, the rate is that of an empty context.
 *
 * A profile also says what stands behind the block pool (engine.h, struct engine_tiers). */
#ifndef KV_STEPTIME_H
#define KV_STEPTIME_H

#include "base/err.h"
#include "kv/engine.h"
#include "text/value.h"

/* A slower memory. */
struct steptime_tier {
  uint64_t tokens; /* room for the KV of so many; 0 = there is none */
  struct engine_link link;
};

struct steptime_profile {
  char name[40];
  char summary[120]; /* one line for lists and reports */
  /* The step. */
  double prefill_tokens_per_s; /* 0 = prefill takes no time */
  double prefill_context_ns;   /* each prefill token, for each token before it */
  double step_overhead_ns;     /* every step: kernel launches, scheduling */
  double decode_base_ns;       /* every step with a decode */
  double decode_seq_ns;        /* each decoding sequence */
  double decode_context_ns;    /* each token of KV that the decodes read */
  /* Once per request, before it enters the engine: HTTP, tokenizing, queueing to the core. */
  uint64_t request_overhead_ns;
  /* The replica. */
  uint32_t kv_tokens; /* KV budget; a multiple of block_size */
  uint32_t block_size;
  uint32_t max_num_batched_tokens;
  uint32_t max_num_seqs;
  uint32_t max_model_len;
  /* Behind the pool. */
  uint32_t kv_bytes_per_token;
  uint32_t chunk_tokens;                /* a multiple of block_size */
  struct steptime_tier offload, shared; /* CPU memory of the replica; storage of all replicas */
  struct engine_link transfer;          /* from a prefill replica to a decode replica */
};

#define STEPTIME_MAX_NS UINT64_C(100000000000000000) /* three years: whatever the settings say */

/* Time of one step in ns, rounded to the nearest, at most STEPTIME_MAX_NS; `decode_context` as in
 * struct engine_step. */
uint64_t steptime_step_ns(const struct steptime_profile *p, uint64_t prefill_tokens,
                          uint64_t decode_seqs, uint64_t decode_context);

/* The same for what the engine did in a step. */
uint64_t steptime_engine_ns(const struct steptime_profile *p, const struct engine_step *step);

/* Known memories by name: dram (20 GB/s, 1 µs), nvme (7 GB/s, 80 µs), object (1 GB/s, 30 ms).
 * False: none of them. */
NODISCARD bool steptime_device(const char *name, struct engine_link *link);

/* The built-in profiles, n of them; static and constant. */
const struct steptime_profile *steptime_profiles(size_t *n);

/* A copy of the built-in profile of that name, to be changed at will. ERR_NOT_FOUND names those
 * that exist. */
NODISCARD int steptime_get(const char *name, struct steptime_profile *out, struct err *err);

/* The profile as a table of the fields that a profile file has (sim/simconfig.h); times in seconds.
 * The caller frees it. */
struct value steptime_describe(const struct steptime_profile *p);

/* Makes p a profile of fixed times: on an idle replica the first token comes `ttft_ns` after the
 * request, the others every `itl_ns`. Every step takes itl (a first token's step ttft, if that is
 * shorter); the rest of ttft passes before the request is scheduled, so that one request's prefill
 * never delays another's tokens. A request that arrives during a step waits for its end. */
void steptime_set_fixed(struct steptime_profile *p, uint64_t ttft_ns, uint64_t itl_ns);

/* The engine of this profile: prefix caching and admission gate on, no prefill threshold, one block
 * more than the budget (block 0 is the null block); its CPU memory. Shared storage is made by
 * whoever has the replicas. */
struct engine_config steptime_engine_config(const struct steptime_profile *p);

#endif
