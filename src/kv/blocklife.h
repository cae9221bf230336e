/* blocklife.h: how long the KV blocks of a pool live: vLLM's --kv-cache-metrics.
 *
 * A block's life begins when it is taken for a request and ends when it is taken for another one: a
 * block that is never needed again has no end. A hit is an access; a life remembers the last four.
 * A share of the lives is looked at, drawn when they begin. Source: vLLM's kv_cache_metrics.py
 * (facts/interfaces.md §2.1). Pure: time is an argument, never going back. One thread. */
#ifndef KV_BLOCKLIFE_H
#define KV_BLOCKLIFE_H

#include "base/rng.h"

enum { BLOCKLIFE_ACCESSES = 4 };

struct blocklife_end {
  uint64_t lifetime_ns, idle_ns;            /* since its beginning, since its last access */
  uint64_t gaps_ns[BLOCKLIFE_ACCESSES - 1]; /* between accesses, the oldest first */
  uint32_t n_gaps;
};

struct blocklife {
  double share;    /* of the lives, 0..1 */
  uint64_t now_ns; /* set by the engine's owner, before it calls the engine */
  void (*on_end)(void *user, const struct blocklife_end *end);
  void *user;
  struct rng rng;
  struct blocklife_state *blocks; /* by id; memory of zeros until used */
  uint32_t num_blocks;
};

/* For blocks 0..num_blocks−1, none of which lives. */
void blocklife_init(struct blocklife *l, uint32_t num_blocks, double share, uint64_t seed);
void blocklife_free(struct blocklife *l);
/* The block's life ends, if it had one that is looked at (on_end), and another one begins. */
void blocklife_taken(struct blocklife *l, uint32_t id);
void blocklife_touched(struct blocklife *l, uint32_t id);
/* All lives are forgotten: the cache was reset. */
void blocklife_forget(struct blocklife *l);

#endif
