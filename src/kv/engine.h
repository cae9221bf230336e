/* engine.h: one vLLM replica as a pure state machine: block pool, prefix cache, step scheduler, and
 * what can stand behind the pool: CPU memory, storage shared by replicas, KV from a prefill
 * replica.
 *
 * Follows shared/facts/interfaces.md §8.1–8.2b and shared/fixtures/engine/README.md rule by rule
 * (rule names S1…S6, P1…P6 in the code refer to that file). Knows no sockets and no clock: the
 * caller says when a step happens and decides how long it takes; only loads compare times.
 * Deterministic. One thread owns it.
 */
#ifndef KV_ENGINE_H
#define KV_ENGINE_H

#include "base/err.h"

/* Where KV can be loaded from. */
enum engine_source {
  ENGINE_OFFLOAD,  /* the replica's own CPU memory */
  ENGINE_SHARED,   /* storage that all replicas share */
  ENGINE_TRANSFER, /* the replica that did the prefill (P/D disaggregation) */
  ENGINE_SOURCES
};

/* A path on which KV comes; loads on one path follow each other. */
struct engine_link {
  uint64_t latency_ns; /* of a load, however small */
  double bytes_per_s;  /* 0 = no more than the latency */
};

/* What stands behind the pool; all zero = nothing. Chunks are stored when all of their tokens have
 * been computed, prompt and generated alike, in CPU memory and in shared storage at once (writing
 * takes no time); a chunk has no salt, but an adapter. What shared storage gives is put into CPU
 * memory as well. Details: engine_tiers.c. */
struct tierstore;
struct engine_tiers {
  uint32_t chunk_tokens;       /* stored and loaded as one piece: a multiple of block_size (256) */
  uint32_t kv_bytes_per_token; /* what loads take is computed from */
  uint32_t offload_chunks;     /* capacity of CPU memory; 0 = no such tier */
  struct tierstore *shared;    /* borrowed, outlives the engine, same thread; NULL = no such tier */
  struct engine_link links[ENGINE_SOURCES];
};

struct engine_config {
  uint32_t num_blocks; /* physical, block 0 is the null block */
  uint32_t block_size; /* tokens */
  uint32_t max_num_batched_tokens;
  uint32_t max_num_seqs;
  uint32_t long_prefill_token_threshold; /* 0 = off */
  uint32_t max_model_len;                /* prompt + output, tokens */
  bool enable_prefix_caching;            /* off: no tiers either */
  bool reserve_full_isl;
  bool async_scheduling;     /* steps go through engine_step_ahead and engine_step_done */
  uint32_t watermark_blocks; /* must stay free when a request is admitted while others run; vLLM's
                                watermark · num_blocks, rounded down */
  struct engine_tiers tiers;
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
  engine_sample_fn *sample; /* NULL: what will be sampled stands behind the prompt already */
  bool skip_lookup;         /* no hits and no loads from tiers (a request with prompt_logprobs) */
  uint32_t remote_tokens; /* P/D, decode leg: so many leading tokens have KV on another replica, to
                             be loaded over ENGINE_TRANSFER at the first admission; 0 = none */
  bool hold;              /* P/D, prefill leg: at the end its blocks stay held, see hold_id */
  /* The engine's own. Read-only for the caller. */
  uint32_t num_tokens; /* prompt + sampled */
  uint32_t num_computed;
  uint32_t num_pending; /* tokens that steps under way will sample: asynchronous scheduling only */
  uint32_t num_output;
  uint32_t num_preemptions;
  uint32_t num_evicted; /* blocks of cached content that its own blocks took the place of */
  int64_t num_cached;   /* of the first admission, loaded tokens included; −1 before it */
  uint32_t num_loaded[ENGINE_SOURCES]; /* of those */
  uint64_t hold_id;                    /* not 0: ended with blocks held, engine_release_hold */
  enum engine_finish finish;
  struct engine_request *prev, *next;
  struct engine_blocks *blocks; /* NULL once it has ended */
};

enum engine_event_kind { ENGINE_STORED, ENGINE_REMOVED, ENGINE_CLEARED };

enum engine_medium { ENGINE_GPU, ENGINE_CPU };

/* One KV event. ENGINE_GPU: hashes are the engine's own 64-bit content names (chained; salt and
 * adapter in block 0). ENGINE_CPU: the same for the chunks of CPU memory, one chunk an event,
 * first_block being the block that the chunk begins with; there is no cleared of that kind. */
struct engine_event {
  enum engine_event_kind kind;
  enum engine_medium medium;
  uint64_t parent; /* stored: hash of the block before; has_parent false for a chain's first */
  bool has_parent;
  const uint64_t *hashes; /* stored: n of them; removed: one. Dies at the next engine call that
                             is not a question */
  uint32_t n;
  const struct engine_request *req; /* stored: whose tokens */
  uint32_t first_block;             /* stored: index in that request's chain */
};

/* A request that has its blocks and waits for KV to arrive in them. It counts as waiting. */
struct engine_load {
  struct engine_request *req;
  uint32_t tokens[ENGINE_SOURCES];
  uint64_t ready_ns;
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
  const struct engine_load *loads; /* begun in this step */
  size_t n_loads;
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
  uint64_t decode_context;  /* Σ over the decodes of the tokens that had KV before this step */
  uint64_t prefill_context; /* Σ over prefill tokens of the tokens that stand before each */
  /* When the next load is complete; 0 = none is under way. After a step that scheduled nothing,
   * nothing happens before then, unless blocks that are held are released. */
  uint64_t wake_ns;
};

struct engine;
struct blocklife;
/* NULL with ERR_INVALID when the configuration cannot work; the text says which field. */
struct engine *engine_new(const struct engine_config *config, struct err *err);
void engine_delete(struct engine *e); /* requests are the caller's */

/* Tells of what becomes of the blocks (blocklife.h; borrowed, of as many blocks); NULL: nobody. */
void engine_follow_blocks(struct engine *e, struct blocklife *life);

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
/* S2 to S5 at the time now_ns, which never goes back; it decides which loads are complete. */
void engine_step_run(struct engine *e, uint64_t now_ns, struct engine_step *out);
/* The same in two halves, for asynchronous scheduling (vLLM's default where it is supported): a
 * step is scheduled while the one before it is still under way, so who arrives then waits for one
 * step more. Of `out` the first half (S2 to S4) fills what was scheduled and the figures of the
 * pass, the second (S5, of the oldest step under way) who sampled and ended; each has the events
 * since the last half. What a step samples is not known before it is done: its blocks are
 * registered a step later, and who ends with it keeps its blocks and its place among max_num_seqs
 * until then. A step that schedules nothing is not under way. At most two are. A reset that
 * preempts drops what the steps under way would have sampled. */
void engine_step_ahead(struct engine *e, uint64_t now_ns, struct engine_step *out);
void engine_step_done(struct engine *e, struct engine_step *out);
uint32_t engine_steps_under_way(const struct engine *e);

/* The KV of a prefill leg has been fetched, or nobody will: its blocks become free. False when
 * there is no such hold (any more). */
bool engine_release_hold(struct engine *e, uint64_t hold_id);
/* The ids of the blocks that are held, n of them; NULL when there is no such hold (any more). */
const uint32_t *engine_hold_blocks(const struct engine *e, uint64_t hold_id, uint32_t *n);
/* Empties CPU memory (not shared storage, which is its owner's). */
void engine_reset_offload(struct engine *e);

/* Pressure: content of others takes up to `blocks` blocks from the front of the free queue, as one
 * request with it would in no time: what was cached in them is evicted, the new content is cached
 * (both with their events), and the blocks are then the most recently used ones. With `hold_id`
 * they stay in use until engine_release_fill(*hold_id). Returns how many there were: at most the
 * free ones. Nothing is put into the tiers. */
uint32_t engine_fill(struct engine *e, uint32_t blocks, uint64_t *hold_id);
/* False when nothing is held under that id (any more). */
bool engine_release_fill(struct engine *e, uint64_t hold_id);

uint32_t engine_running(const struct engine *e);
uint32_t engine_waiting(const struct engine *e); /* those that load included */
uint32_t engine_loading(const struct engine *e);
uint32_t engine_offload_chunks(const struct engine *e); /* in CPU memory now */
uint32_t engine_free_blocks(const struct engine *e);
double engine_usage(const struct engine *e); /* 1 − free / (num_blocks − 1) */
/* Longest leading run of the prompt that is in the cache now, in tokens (cap n − 1 applied),
 * without touching anything: the ground truth "available". `salt`, `adapter`: NULL or not empty.
 * Blocks of the pool alone; engine_peek_tiers: with what CPU memory and shared storage would add.
 */
uint32_t engine_peek(const struct engine *e, const uint32_t *tokens, uint32_t n, const char *salt,
                     const char *adapter);
uint32_t engine_peek_tiers(const struct engine *e, const uint32_t *tokens, uint32_t n,
                           const char *salt, const char *adapter);

/* The names of a prompt's whole blocks and chunks, made once to ask several engines of one
 * configuration (engine_prefix.c). */
struct engine_prefix {
  uint64_t *blocks, *chunks;
  uint32_t n_blocks, n_chunks; /* of the n tokens, also one that ends with the last of them */
  uint32_t n, block_size, chunk_tokens;
};
/* The tokens are not kept. `salt`, `adapter` as above. */
void engine_prefix_init(struct engine_prefix *p, const struct engine_config *config,
                        const uint32_t *tokens, uint32_t n, const char *salt, const char *adapter);
void engine_prefix_free(struct engine_prefix *p);
/* engine_peek, or engine_peek_tiers with `tiers`, of the prompt of its first n tokens. */
uint32_t engine_peek_prefix(const struct engine *e, const struct engine_prefix *p, bool tiers);

struct engine_totals {
  uint64_t scheduled_tokens, generated_tokens, preemptions, finished, aborted, steps;
  uint64_t prefix_queries, prefix_hits, preempted_queries, preempted_hits; /* tokens */
  uint64_t stored, removed, cleared;                                       /* blocks; resets */
  /* Of requests never preempted before, where anything stands behind the pool: tokens that the pool
   * did not have, and those of them that were loaded, by source. */
  uint64_t external_queries, external_hits[ENGINE_SOURCES];
  uint64_t chunks_stored, chunks_evicted; /* of CPU memory */
  uint64_t chunks_shared;                 /* that were new in shared storage */
  uint64_t loaded_recomputed; /* tokens computed although they had been loaded: a prompt's last */
};
void engine_get_totals(const struct engine *e, struct engine_totals *out);

/* Runs a trace (tests/data/engine/README.md; `name`, `about` and `expect` are not looked at) and
 * appends {"expect":{…}} in its form (perigee.fleet.replay). On failure nothing is appended:
 * ERR_INVALID with the place in the trace, ERR_UNSUPPORTED for what the model does not cover,
 * ERR_LIMIT when `out` has no room. */
struct buf;
NODISCARD int engine_replay(const char *trace_json, size_t len, struct buf *out, struct err *err);

#endif
