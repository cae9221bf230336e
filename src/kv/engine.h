/* engine.h: one vLLM replica as a pure state machine: block pool, prefix cache, step scheduler.
 *
 * Follows shared/facts/interfaces.md §8.1–8.2b and shared/fixtures/engine/README.md rule by rule
 * (rule names S1…S6, P1…P6 in the code refer to that file). Knows no sockets and no clock: the
 * caller says when a step happens and decides how long it takes. Deterministic. One thread owns it.
 */
#ifndef KV_ENGINE_H
#define KV_ENGINE_H

#include "base/err.h"

struct engine_config {
  uint32_t num_blocks; /* physical, block 0 is the null block */
  uint32_t block_size; /* tokens */
  uint32_t max_num_batched_tokens;
  uint32_t max_num_seqs;
  uint32_t long_prefill_token_threshold; /* 0 = off */
  uint32_t max_model_len;                /* prompt + output, tokens */
  bool enable_prefix_caching;
  bool reserve_full_isl;
};

/* Where the model's next token comes from: called in S5 when a request samples; index counts from
 * 0. Must not call the engine. */
struct engine_request;
typedef uint32_t engine_sample_fn(void *user, const struct engine_request *req, uint32_t index);

enum engine_finish { ENGINE_RUNNING, ENGINE_LENGTH, ENGINE_ABORT };

struct engine_request {
  /* Set by the caller before engine_add; the engine reads them only. */
  uint32_t *tokens; /* prompt; the engine appends sampled ones: room for prompt_len + max_output */
  uint32_t prompt_len;
  uint32_t max_output; /* tokens to sample, >= 1 */
  const char *salt;    /* NULL or not empty; lives as long as the request */
  const char *adapter; /* the LoRA adapter it runs with; the same */
  void *user;
  engine_sample_fn *sample;
  /* The engine's own. Read-only for the caller. */
  uint32_t num_tokens; /* prompt + sampled */
  uint32_t num_computed;
  uint32_t num_output;
  uint32_t num_preemptions;
  int64_t num_cached; /* of the first admission; −1 before it */
  enum engine_finish finish;
  struct engine_request *prev, *next;
  struct engine_blocks *blocks; /* NULL once it has ended */
};

enum engine_event_kind { ENGINE_STORED, ENGINE_REMOVED, ENGINE_CLEARED };

/* One KV event. Hashes are the engine's own 64-bit content names (chained; salt and adapter in
 * block 0). */
struct engine_event {
  enum engine_event_kind kind;
  uint64_t parent; /* stored: hash of the block before; has_parent false for a chain's first */
  bool has_parent;
  const uint64_t *hashes; /* stored: n of them; removed: one. Dies at the next engine call that
                             is not a question */
  uint32_t n;
  const struct engine_request *req; /* stored: whose tokens */
  uint32_t first_block;             /* stored: index in that request's chain */
};

/* What one step did. Arrays die at the next engine_step_run or engine_reset_cache. */
struct engine_scheduled {
  struct engine_request *req;
  uint32_t tokens;
};
struct engine_admitted {
  struct engine_request *req;
  uint32_t cached;
};
struct engine_step {
  const struct engine_scheduled *scheduled;
  size_t n_scheduled;
  const struct engine_admitted *admitted;
  size_t n_admitted;
  struct engine_request *const *preempted;
  size_t n_preempted; /* by resets since the step before first, then by this step */
  struct engine_request *const *sampled; /* one new token each, in S5 order */
  size_t n_sampled;
  struct engine_request *const *finished; /* ENGINE_LENGTH, blocks already released */
  size_t n_finished;
  const struct engine_event *events; /* since the step before, resets and aborts included */
  size_t n_events;
  /* For the step-time model. A decode computes the one token that was sampled last; all other
   * tokens are prefill, also those recomputed after a preemption. */
  uint32_t prefill_tokens, decode_tokens;
  uint64_t decode_context; /* Σ over the decodes of the tokens that had KV before this step */
};

struct engine;
/* NULL with ERR_INVALID when the configuration cannot work; the text says which field. */
struct engine *engine_new(const struct engine_config *config, struct err *err);
void engine_delete(struct engine *e); /* requests are the caller's */

/* To the back of waiting. Not added: ERR_LIMIT when prompt_len >= max_model_len, ERR_INVALID for an
 * empty prompt or no output. The request and its tokens stay where they are until it has ended. */
NODISCARD int engine_add(struct engine *e, struct engine_request *req, struct err *err);
/* Takes a request that was added out wherever it is (running or waiting) and releases its blocks;
 * ended already: no effect, false. */
bool engine_abort(struct engine *e, struct engine_request *req);
/* reset_prefix_cache: false when refused because blocks are in use. reset_running preempts all
 * first. */
bool engine_reset_cache(struct engine *e, bool reset_running);
bool engine_has_work(const struct engine *e); /* something runs or waits */
/* S2 to S5. */
void engine_step_run(struct engine *e, struct engine_step *out);

uint32_t engine_running(const struct engine *e);
uint32_t engine_waiting(const struct engine *e);
uint32_t engine_free_blocks(const struct engine *e);
double engine_usage(const struct engine *e); /* 1 − free / (num_blocks − 1) */
/* Longest leading run of the prompt that is in the cache now, in tokens (cap n − 1 applied),
 * without touching anything: the ground truth "available". `salt`, `adapter`: NULL or not empty. */
uint32_t engine_peek(const struct engine *e, const uint32_t *tokens, uint32_t n, const char *salt,
                     const char *adapter);

struct engine_totals {
  uint64_t scheduled_tokens, generated_tokens, preemptions, finished, aborted, steps;
  uint64_t prefix_queries, prefix_hits, preempted_queries, preempted_hits; /* tokens */
  uint64_t stored, removed, cleared;
};
void engine_get_totals(const struct engine *e, struct engine_totals *out);

/* Runs a trace (tests/data/engine/README.md; `name`, `about` and `expect` are not looked at) and
 * appends {"expect":{…}} in its form (perigee.fleet.replay). On failure nothing is appended:
 * ERR_INVALID with the place in the trace, ERR_UNSUPPORTED for what the model does not cover,
 * ERR_LIMIT when `out` has no room. */
struct buf;
NODISCARD int engine_replay(const char *trace_json, size_t len, struct buf *out, struct err *err);

#endif
