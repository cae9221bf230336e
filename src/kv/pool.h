/* pool.h: the KV block pool of one engine replica: who holds a block, which free one goes next,
 * and which blocks carry which content.
 *
 * Rules: shared/fixtures/engine/README.md, sections 2, 4 and 5 (vLLM's block pool). Blocks are
 * numbered; block 0 is the null block, never handed out. A block with a name is in the cache,
 * whether it is held or free; several blocks can carry one name (there is no de-duplication).
 * Every operation on one block takes constant time, and nothing allocates after pool_init. */
#ifndef KV_POOL_H
#define KV_POOL_H

#include "base/base.h"

/* More than any GPU node holds; bounds what a wrong configuration can ask for (4 GiB). */
#define POOL_MAX_BLOCKS (UINT32_C(1) << 26)

struct pool_block {
  uint64_t name;                 /* means something only while `named` */
  uint32_t next_diff, prev_diff; /* free queue, see pool.c; stale while held */
  uint32_t copy_prev, copy_next; /* other blocks of this name, oldest first: next of the last is 0,
                                    prev of the first is the last */
  uint32_t refs;                 /* requests that hold it; 0 = in the free queue */
  bool named;
};

/* Eight bytes, so that the tables of many replicas fit the CPU's caches; the rest of the name is in
 * the block. */
struct pool_slot {
  uint32_t tag;   /* low half of the name: home slot, and nearly always the verdict */
  uint32_t first; /* its oldest copy; 0 = the slot is empty */
};

struct pool {
  struct pool_block *blocks; /* num_blocks of them, [0] is the queue's sentinel */
  struct pool_slot *slots;   /* open addressing, linear probing */
  size_t slot_mask;
  uint32_t num_blocks; /* the null block included */
  uint32_t num_free;   /* length of the free queue */
  uint32_t num_names;  /* distinct names in the cache */
};

/* All blocks but 0 free, in the order of their numbers. 2 <= num_blocks <= POOL_MAX_BLOCKS. */
void pool_init(struct pool *p, uint32_t num_blocks);
void pool_free(struct pool *p);

/* The block registered first among the present copies of `name`; 0 when it is not in the cache. */
uint32_t pool_find(const struct pool *p, uint64_t name);

/* Adds a holder; a free block leaves the queue, wherever it stands. */
void pool_touch(struct pool *p, uint32_t id);

/* The front of the free queue, now held once and nameless; the queue must not be empty. True when
 * the block had a name: *lost is it (the content is still cached if other copies remain). */
NODISCARD bool pool_take(struct pool *p, uint32_t *id, uint64_t *lost);

/* Gives a held, nameless block its name and makes it the newest copy. */
void pool_name(struct pool *p, uint32_t id, uint64_t name);

/* Drops one holder of each of ids[0..n), last first. Those nobody holds any more become free:
 * nameless ones as a group before the whole queue, named ones behind it, both tail first. */
void pool_release(struct pool *p, const uint32_t *ids, uint32_t n);

/* Takes every name away; the queue keeps its order. False, and nothing done, while any block is
 * held. */
NODISCARD bool pool_clear(struct pool *p);

/* The free queue from front to back: pool_next(p, 0) is the front, 0 comes after the last. */
uint32_t pool_next(const struct pool *p, uint32_t id);

/* Fetches what pool_find and pool_name of this name will read, for callers that know their next
 * names: in a full pool nearly every access misses the CPU's caches. */
static inline void pool_prefetch(const struct pool *p, uint64_t name) {
  __builtin_prefetch(&p->slots[(size_t)name & p->slot_mask]);
}

#endif
