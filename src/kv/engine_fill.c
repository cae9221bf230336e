/* engine_fill.c: memory pressure: foreign content takes blocks of the pool, as if requests of
 * others had run, in no time.
 *
 * Blocks come from the front of the free queue, so that what is evicted, in which order and with
 * which events is what a request of that size would have caused. The tiers behind the pool are left
 * alone. */
#include <string.h>

#include "base/mem.h"
#include "kv/engine_impl.h"

struct engine_fill {
  uint64_t hold_id; /* 0 = released */
  uint32_t *ids;
  uint32_t n;
  /* What the stored event points to, until then. */
  uint64_t *names;
  struct engine_request req;
  struct engine_fill *next;
};

/* Tokens that nobody else sends: numbers from the top down, then from the fill's own number. */
static uint32_t *foreign_tokens(uint64_t number, size_t n) {
  uint32_t *tokens = mem_calloc(n, sizeof *tokens);
  for (size_t i = 0; i < n; i++)
    tokens[i] = UINT32_MAX - (uint32_t)(i & 0xffff);
  tokens[0] = (uint32_t)number;
  return tokens;
}

static void delete_fill(struct engine_fill *f) {
  mem_free(f->ids);
  mem_free(f->names);
  mem_free(f->req.tokens);
  mem_free(f);
}

static void name_all(struct engine *e, struct engine_fill *f) {
  uint32_t block_size = e->config.block_size;
  f->req.tokens = foreign_tokens(e->last_fill, (size_t)f->n * block_size);
  f->req.prompt_len = f->req.num_tokens = f->n * block_size;
  f->names = mem_calloc(f->n, sizeof *f->names);
  uint64_t name = engine_chain_root("perigee pressure", NULL);
  for (uint32_t i = 0; i < f->n; i++) {
    name = engine_chain_name(name, f->req.tokens + (size_t)i * block_size, block_size);
    f->names[i] = name;
    pool_name(&e->pool, f->ids[i], name);
  }
  struct engine_event *event = engine_event_add(e, ENGINE_STORED);
  event->hashes = f->names;
  event->n = f->n;
  event->req = &f->req;
  e->totals.stored += f->n;
}

uint32_t engine_fill(struct engine *e, uint32_t blocks, uint64_t *hold_id) {
  engine_step_open(e);
  if (blocks > e->pool.num_free)
    blocks = e->pool.num_free;
  if (hold_id)
    *hold_id = 0;
  if (!blocks)
    return 0;
  struct engine_fill *f = MEM_NEW(struct engine_fill);
  f->req.salt = "perigee pressure";
  f->ids = mem_calloc(blocks, sizeof *f->ids);
  for (; f->n < blocks; f->n++) {
    uint64_t lost;
    if (!engine_take_block(e, &f->ids[f->n], &lost))
      continue;
    struct engine_event *event = engine_event_add(e, ENGINE_REMOVED);
    event->parent = lost;
    event->n = 1;
    e->totals.removed++;
  }
  e->last_fill++;
  if (e->config.enable_prefix_caching)
    name_all(e, f);
  if (hold_id)
    f->hold_id = *hold_id = e->last_fill;
  else
    pool_release(&e->pool, f->ids, f->n);
  f->next = e->fills;
  e->fills = f;
  return f->n;
}

bool engine_release_fill(struct engine *e, uint64_t hold_id) {
  for (struct engine_fill *f = e->fills; f && hold_id; f = f->next)
    if (f->hold_id == hold_id) {
      pool_release(&e->pool, f->ids, f->n);
      f->hold_id = 0;
      return true;
    }
  return false;
}

void engine_fills_told(struct engine *e, bool all) {
  for (struct engine_fill **at = &e->fills; *at;) {
    struct engine_fill *f = *at;
    if (!all && f->hold_id) {
      at = &f->next;
      continue;
    }
    *at = f->next;
    delete_fill(f);
  }
}
