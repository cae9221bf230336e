/* blockhash.c: the `ic-xxh3` block-hash chain.
 *
 * Tokens are hashed where they lie: a machine that is not little endian would need them turned, so
 * it is refused at compile time. */
#include "kv/blockhash.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tokens are hashed as they lie in memory");

uint64_t blockhash_content(uint64_t seed, const uint32_t *tokens, uint32_t block_size) {
  return XXH3_64bits_withSeed(tokens, (size_t)block_size * sizeof *tokens, seed);
}

uint64_t blockhash_link(uint64_t seed, uint64_t parent, uint64_t content) {
  uint64_t both[2] = {parent, content};
  return XXH3_64bits_withSeed(both, sizeof both, seed);
}

void blockhash_init(struct blockhash *h, struct blockhash_options options) {
  assert(options.block_size);
  *h = (struct blockhash){.options = options};
}

void blockhash_free(struct blockhash *h) {
  mem_free(h->hashes);
  mem_free(h->tail);
  *h = (struct blockhash){0};
}

static void add_block(struct blockhash *h, const uint32_t *tokens) {
  const struct blockhash_options *o = &h->options;
  uint64_t hash = blockhash_content(o->seed, tokens, o->block_size);
  if (h->n || o->has_parent)
    hash = blockhash_link(o->seed, h->n ? h->hashes[h->n - 1] : o->parent, hash);
  MEM_GROW(h->hashes, h->n, h->cap);
  h->hashes[h->n++] = hash;
}

/* Moves tokens behind the tail, at most as many as fill its block; returns how many. */
static size_t fill_tail(struct blockhash *h, const uint32_t *tokens, size_t n) {
  size_t room = h->options.block_size - h->n_tail;
  size_t take = n < room ? n : room;
  if (!h->tail)
    h->tail = mem_calloc(h->options.block_size, sizeof *h->tail);
  memcpy(h->tail + h->n_tail, tokens, take * sizeof *tokens);
  h->n_tail += (uint32_t)take;
  return take;
}

void blockhash_extend(struct blockhash *h, const uint32_t *tokens, size_t n) {
  uint32_t block_size = h->options.block_size;
  if (h->n_tail && n) {
    size_t taken = fill_tail(h, tokens, n);
    tokens += taken;
    n -= taken;
    if (h->n_tail < block_size)
      return;
    add_block(h, h->tail);
    h->n_tail = 0;
  }
  for (; n >= block_size; tokens += block_size, n -= block_size)
    add_block(h, tokens);
  if (n)
    fill_tail(h, tokens, n);
}
