/* engine_place.c: content names, lookup, and placing tokens into blocks (rules P1 to P6).
 *
 * A content name is a 64-bit hash chained over the blocks before it: XXH3 of (name of the block
 * before, XXH3 of the block's tokens); salt and adapter are what stands before the first block.
 * (vLLM hashes the adapter into every block; in a chain that comes to the same.) Two different
 * contents can share a name. Among n contents that is expected n²/2⁶⁵ times: 3·10⁻⁸ for a million
 * blocks, 3·10⁻⁴ for a hundred million (1.6 billion tokens at block size 16). The harm would be
 * one wrong hit in a simulation, so it is accepted. XXH3 resists chance, not an adversary. */
#include "kv/engine_impl.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

uint64_t engine_chain_name(uint64_t parent, const uint32_t *tokens, uint32_t n) {
  uint64_t link[2] = {parent, XXH3_64bits(tokens, (size_t)n * sizeof *tokens)};
  return XXH3_64bits(link, sizeof link);
}

/* What stands before the first block or chunk. */
uint64_t engine_chain_root(const char *salt, const char *adapter) {
  uint64_t root = salt ? XXH3_64bits(salt, strlen(salt)) : 0;
  return adapter ? XXH3_64bits_withSeed(adapter, strlen(adapter), root + 1) : root;
}

/* Makes sure that the names of r's first n blocks are known. */
static void name_blocks(const struct engine *e, struct engine_request *r, uint32_t n) {
  struct engine_blocks *b = r->blocks;
  uint32_t block_size = e->config.block_size;
  for (; b->n_names < n; b->n_names++) {
    uint64_t parent =
        b->n_names ? b->names[b->n_names - 1] : engine_chain_root(r->salt, r->adapter);
    const uint32_t *tokens = r->tokens + (size_t)b->n_names * block_size;
    b->names[b->n_names] = engine_chain_name(parent, tokens, block_size);
  }
}

/* Names for the next blocks at once, and their table slots on the way into the CPU's caches before
 * the first is read. A miss among them wastes nothing: placement needs the names anyway. */
#define LOOKAHEAD 16
static void look_ahead(const struct engine *e, struct engine_request *r, uint32_t from,
                       uint32_t most) {
  uint32_t to = most - from > LOOKAHEAD ? from + LOOKAHEAD : most;
  name_blocks(e, r, to);
  for (uint32_t i = from; i < to; i++)
    pool_prefetch(&e->pool, r->blocks->names[i]);
}

uint32_t engine_lookup(struct engine *e, struct engine_request *r) {
  struct engine_blocks *b = r->blocks;
  assert(!b->n);
  if (!e->config.enable_prefix_caching || r->skip_lookup)
    return 0;
  uint32_t most = (r->num_tokens - 1) / e->config.block_size;
  uint32_t hits = 0;
  for (; hits < most; hits++) {
    if (hits % LOOKAHEAD == 0)
      look_ahead(e, r, hits, most);
    uint32_t id = pool_find(&e->pool, b->names[hits]);
    if (!id)
      break;
    b->ids[hits] = id;
  }
  return hits;
}

uint32_t engine_peek(const struct engine *e, const uint32_t *tokens, uint32_t n, const char *salt,
                     const char *adapter) {
  if (!e->config.enable_prefix_caching || !n)
    return 0;
  uint32_t block_size = e->config.block_size;
  uint32_t most = (n - 1) / block_size;
  uint64_t name = engine_chain_root(salt, adapter);
  uint32_t hits = 0;
  for (; hits < most; hits++) {
    name = engine_chain_name(name, tokens + (size_t)hits * block_size, block_size);
    if (!pool_find(&e->pool, name))
      break;
  }
  return hits * block_size;
}

struct engine_event *engine_event_add(struct engine *e, enum engine_event_kind kind) {
  MEM_GROW(e->events, e->n_events, e->cap_events);
  struct engine_event *event = &e->events[e->n_events++];
  *event = (struct engine_event){.kind = kind};
  return event;
}

bool engine_take_block(struct engine *e, uint32_t *id, uint64_t *lost) {
  bool named = pool_take(&e->pool, id, lost);
  if (e->life)
    blocklife_taken(e->life, *id);
  return named;
}

/* P5: `need` blocks from the front of the queue, behind those r has. */
static void take_blocks(struct engine *e, struct engine_request *r, uint32_t need) {
  struct engine_blocks *b = r->blocks;
  assert(need <= b->cap - b->n);
  for (; need; need--) {
    uint64_t lost;
    if (!engine_take_block(e, &b->ids[b->n++], &lost))
      continue;
    /* `hashes` is pointed at `parent` when the step is published: the array may still move. */
    struct engine_event *event = engine_event_add(e, ENGINE_REMOVED);
    event->parent = lost;
    event->n = 1;
    e->totals.removed++;
    r->num_evicted++;
  }
}

/* P6: blocks registered .. full−1 get their names, before the forward pass, so that requests looked
 * up later in this step hit them already. */
void engine_register(struct engine *e, struct engine_request *r, uint32_t full) {
  struct engine_blocks *b = r->blocks;
  name_blocks(e, r, full);
  for (uint32_t i = b->registered; i < full; i++)
    pool_prefetch(&e->pool, b->names[i]);
  struct engine_event *event = engine_event_add(e, ENGINE_STORED);
  event->has_parent = b->registered > 0;
  event->parent = event->has_parent ? b->names[b->registered - 1] : 0;
  event->hashes = &b->names[b->registered];
  event->n = full - b->registered;
  event->req = r;
  event->first_block = b->registered;
  e->totals.stored += event->n;
  for (; b->registered < full; b->registered++)
    pool_name(&e->pool, b->ids[b->registered], b->names[b->registered]);
}

static uint32_t blocks_for(const struct engine *e, uint64_t tokens) {
  return (uint32_t)((tokens + e->config.block_size - 1) / e->config.block_size);
}

/* Blocks beyond `have` that `tokens` tokens take. The product spares a decode the division. */
static uint32_t blocks_beyond(const struct engine *e, uint64_t tokens, uint32_t have) {
  if (tokens <= (uint64_t)have * e->config.block_size)
    return 0;
  return blocks_for(e, tokens) - have;
}

bool engine_place(struct engine *e, struct engine_request *r, uint32_t n, uint32_t hits,
                  enum engine_place_how how) {
  struct engine_blocks *b = r->blocks;
  uint32_t block_size = e->config.block_size;
  uint64_t end = (uint64_t)r->num_computed + (uint64_t)hits * block_size + n;
  uint32_t have = b->n + hits;
  uint64_t idle = 0; /* hits that are free now: they use up the queue just as new blocks do */
  for (uint32_t i = 0; i < hits; i++)
    idle += e->pool.blocks[b->ids[i]].refs == 0;

  if (how != ENGINE_PLACE_RUNNING && e->running.n)
    idle += e->config.watermark_blocks;
  uint32_t need = blocks_beyond(e, end, have); /* P1 */
  if (how != ENGINE_PLACE_RUNNING && e->config.reserve_full_isl &&
      blocks_beyond(e, r->num_tokens, have) + idle > e->pool.num_free)
    return false; /* P2 */
  if (need + idle > e->pool.num_free)
    return false; /* P3 */

  if (hits) { /* P4 */
    for (uint32_t i = 0; i < hits; i++)
      pool_touch(&e->pool, b->ids[i]);
    for (uint32_t i = 0; e->life && i < hits; i++)
      blocklife_touched(e->life, b->ids[i]);
    b->n = b->registered = hits;
  }
  if (need)
    take_blocks(e, r, need);
  if (how != ENGINE_PLACE_LOAD && e->config.enable_prefix_caching &&
      end >= ((uint64_t)b->registered + 1) * block_size) {
    uint64_t known = end < r->num_tokens ? end : r->num_tokens; /* what is pending is not */
    if (known / block_size > b->registered)
      engine_register(e, r, (uint32_t)(known / block_size));
  }
  return true;
}

void engine_release(struct engine *e, struct engine_request *r) {
  struct engine_blocks *b = r->blocks;
  pool_release(&e->pool, b->ids, b->n);
  b->n = b->registered = 0;
}
