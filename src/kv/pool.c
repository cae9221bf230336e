/* pool.c: free queue, copies per name, and the table that finds them.
 *
 * The free queue is a ring of block numbers through block 0. Links are kept as differences from the
 * neighbours of the initial order, so memory of zeros *is* the initial queue: a pool costs only the
 * pages that were really used, which matters when a dry run steps a thousand replicas. The table
 * has at least two slots per block and therefore never grows. */
#include "kv/pool.h"

#include <string.h>

#include "base/mem.h"

uint32_t pool_next(const struct pool *p, uint32_t id) {
  return id + 1 + p->blocks[id].next_diff;
}

static uint32_t queue_prev(const struct pool *p, uint32_t id) {
  return id - 1 + p->blocks[id].prev_diff;
}

static void queue_join(struct pool *p, uint32_t left, uint32_t right) {
  p->blocks[left].next_diff = right - left - 1;
  p->blocks[right].prev_diff = left - right + 1;
}

static void queue_insert_after(struct pool *p, uint32_t where, uint32_t id) {
  uint32_t right = pool_next(p, where);
  queue_join(p, where, id);
  queue_join(p, id, right);
  p->num_free++;
}

static void queue_remove(struct pool *p, uint32_t id) {
  queue_join(p, queue_prev(p, id), pool_next(p, id));
  p->num_free--;
}

void pool_init(struct pool *p, uint32_t num_blocks) {
  assert(num_blocks >= 2 && num_blocks <= POOL_MAX_BLOCKS);
  size_t num_slots = 4;
  while (num_slots < (size_t)num_blocks * 2)
    num_slots *= 2;
  *p = (struct pool){.blocks = mem_pages(num_blocks * sizeof(struct pool_block)),
                     .slots = mem_pages(num_slots * sizeof(struct pool_slot)),
                     .slot_mask = num_slots - 1,
                     .num_blocks = num_blocks,
                     .num_free = num_blocks - 1};
  queue_join(p, num_blocks - 1, 0); /* closes the ring; all other links are right as zeros */
}

void pool_free(struct pool *p) {
  mem_pages_free(p->blocks, p->num_blocks * sizeof(struct pool_block));
  mem_pages_free(p->slots, (p->slot_mask + 1) * sizeof(struct pool_slot));
  *p = (struct pool){0};
}

/* The slot of `name`, or the empty one where it would go. Names are hashes, so their low bits serve
 * as they are; the mask never has more than 32 (POOL_MAX_BLOCKS). */
static struct pool_slot *slot_find(const struct pool *p, uint64_t name) {
  size_t i = (size_t)name & p->slot_mask;
  while (p->slots[i].first &&
         (p->slots[i].tag != (uint32_t)name || p->blocks[p->slots[i].first].name != name))
    i = (i + 1) & p->slot_mask;
  return &p->slots[i];
}

/* Empties a slot and moves later ones of its cluster up, so that no search stops early. */
static void slot_remove(struct pool *p, struct pool_slot *slot) {
  size_t i = (size_t)(slot - p->slots);
  for (size_t j = (i + 1) & p->slot_mask; p->slots[j].first; j = (j + 1) & p->slot_mask) {
    size_t home = p->slots[j].tag & p->slot_mask;
    if (((j - home) & p->slot_mask) >= ((j - i) & p->slot_mask)) {
      p->slots[i] = p->slots[j];
      i = j;
    }
  }
  p->slots[i].first = 0;
  p->num_names--;
}

uint32_t pool_find(const struct pool *p, uint64_t name) {
  return slot_find(p, name)->first;
}

void pool_name(struct pool *p, uint32_t id, uint64_t name) {
  struct pool_block *b = &p->blocks[id];
  assert(id && b->refs && !b->named);
  struct pool_slot *slot = slot_find(p, name);
  b->name = name;
  b->named = true;
  b->copy_next = 0;
  if (slot->first) {
    struct pool_block *first = &p->blocks[slot->first];
    b->copy_prev = first->copy_prev;
    p->blocks[first->copy_prev].copy_next = id;
    first->copy_prev = id;
  } else {
    *slot = (struct pool_slot){.tag = (uint32_t)name, .first = id};
    b->copy_prev = id;
    p->num_names++;
  }
}

static void lose_name(struct pool *p, uint32_t id) {
  struct pool_block *b = &p->blocks[id];
  struct pool_slot *slot = slot_find(p, b->name);
  b->named = false;
  if (slot->first == id && !b->copy_next) {
    slot_remove(p, slot);
    return;
  }
  if (slot->first == id)
    slot->first = b->copy_next;
  else
    p->blocks[b->copy_prev].copy_next = b->copy_next;
  /* Who comes after b, or, when b was the last, the first, points back past b. */
  p->blocks[b->copy_next ? b->copy_next : slot->first].copy_prev = b->copy_prev;
}

void pool_touch(struct pool *p, uint32_t id) {
  assert(id && id < p->num_blocks);
  if (!p->blocks[id].refs++)
    queue_remove(p, id);
}

bool pool_take(struct pool *p, uint32_t *id, uint64_t *lost) {
  assert(p->num_free);
  *id = pool_next(p, 0);
  struct pool_block *b = &p->blocks[*id];
  queue_remove(p, *id);
  b->refs = 1;
  /* The next front is in the cache now (it was just linked); what its turn will read is not. */
  uint32_t front = pool_next(p, 0);
  __builtin_prefetch(&p->blocks[pool_next(p, front)]);
  pool_prefetch(p, p->blocks[front].name);
  if (!b->named)
    return false;
  *lost = b->name;
  lose_name(p, *id);
  return true;
}

void pool_release(struct pool *p, const uint32_t *ids, uint32_t n) {
  uint32_t nameless_end = 0; /* the last of the group at the front */
  while (n) {
    uint32_t id = ids[--n];
    if (n >= 8)
      __builtin_prefetch(&p->blocks[ids[n - 8]]);
    struct pool_block *b = &p->blocks[id];
    assert(id && b->refs);
    if (--b->refs)
      continue;
    if (b->named) {
      queue_insert_after(p, queue_prev(p, 0), id);
    } else {
      queue_insert_after(p, nameless_end, id);
      nameless_end = id;
    }
  }
}

bool pool_clear(struct pool *p) {
  if (p->num_free != p->num_blocks - 1)
    return false;
  if (!p->num_names)
    return true;
  for (size_t i = 0; i <= p->slot_mask; i++)
    for (uint32_t id = p->slots[i].first; id; id = p->blocks[id].copy_next)
      p->blocks[id].named = false;
  memset(p->slots, 0, (p->slot_mask + 1) * sizeof *p->slots);
  p->num_names = 0;
  return true;
}
