/* steptime.h: how long a step of a simulated engine takes, and the built-in hardware profiles.
 *
 * Pure arithmetic after shared/facts/interfaces.md §8.3. The caller steps the engine (engine.h),
 * asks for the time of what the step did, and lets that much time pass. One pass mixes prefill and
 * decode:
 *
 *   step = step_overhead
 *        + prefill_tokens / prefill_rate
 *        + (decode_seqs > 0: decode_base + decode_seqs · per_seq + decode_context · per_context)
 *
 * decode_base is the time to read the weights once; a pass that only prefills hides it behind its
 * computation. (So a prefill of very few tokens is a few ms too fast: the published figures say
 * nothing of that case.) Prefill is linear in tokens, taken at a mean context of 4,096. */
#ifndef KV_STEPTIME_H
#define KV_STEPTIME_H

#include "base/err.h"
#include "kv/engine.h"

struct steptime_profile {
  const char *name;    /* static text */
  const char *summary; /* one line for lists and reports, static text */
  /* The step. */
  double prefill_tokens_per_s; /* 0 = prefill takes no time */
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
};

#define STEPTIME_MAX_NS UINT64_C(100000000000000000) /* three years: whatever the settings say */

/* Time of one step in ns, rounded to the nearest, at most STEPTIME_MAX_NS; `decode_context` as in
 * struct engine_step. */
uint64_t steptime_step_ns(const struct steptime_profile *p, uint64_t prefill_tokens,
                          uint64_t decode_seqs, uint64_t decode_context);

/* The built-in profiles, n of them; static and constant. */
const struct steptime_profile *steptime_profiles(size_t *n);

/* A copy of the built-in profile of that name, to be changed at will. ERR_NOT_FOUND names those
 * that exist. */
NODISCARD int steptime_get(const char *name, struct steptime_profile *out, struct err *err);

/* Makes p a profile of fixed times: on an idle replica the first token comes `ttft_ns` after the
 * request, the others every `itl_ns`. Every step takes itl (a first token's step ttft, if that is
 * shorter); the rest of ttft passes before the request is scheduled, so that one request's prefill
 * never delays another's tokens. A request that arrives during a step waits for its end. */
void steptime_set_fixed(struct steptime_profile *p, uint64_t ttft_ns, uint64_t itl_ns);

/* The engine of this profile: prefix caching and admission gate on, no prefill threshold, one block
 * more than the budget (block 0 is the null block). */
struct engine_config steptime_engine_config(const struct steptime_profile *p);

#endif
