/* engine_prefix.c: what several engines have of one prompt: its names are made once, each engine
 * only looks them up.
 *
 * Salt and adapter are in the first name, so a block's name stands for all that is before it, too.
 * The names are those of engine_place.c and engine_tiers.c. */
#include <string.h>

#include "base/mem.h"
#include "kv/engine_impl.h"

static uint64_t *name_all(const uint32_t *tokens, uint32_t n, uint32_t size, uint64_t root) {
  uint64_t *names = mem_resize(NULL, n, sizeof *names);
  for (uint32_t i = 0; i < n; i++)
    names[i] = engine_chain_name(i ? names[i - 1] : root, tokens + (size_t)i * size, size);
  return names;
}

void engine_prefix_init(struct engine_prefix *p, const struct engine_config *config,
                        const uint32_t *tokens, uint32_t n, const char *salt, const char *adapter) {
  const struct engine_tiers *t = &config->tiers;
  bool tiers = t->offload_chunks || t->shared;
  *p = (struct engine_prefix){.n = n,
                              .block_size = config->block_size,
                              .chunk_tokens = tiers ? t->chunk_tokens : 0,
                              .n_blocks = n / config->block_size};
  p->blocks = name_all(tokens, p->n_blocks, p->block_size, engine_chain_root(salt, adapter));
  if (!p->chunk_tokens)
    return;
  p->n_chunks = n / p->chunk_tokens;
  p->chunks = name_all(tokens, p->n_chunks, p->chunk_tokens, engine_chain_root(NULL, adapter));
}

void engine_prefix_free(struct engine_prefix *p) {
  mem_free(p->blocks);
  mem_free(p->chunks);
  *p = (struct engine_prefix){0};
}

uint32_t engine_peek_prefix(const struct engine *e, const struct engine_prefix *p, bool tiers) {
  if (!e->config.enable_prefix_caching || !p->n)
    return 0;
  uint32_t most = (p->n - 1) / p->block_size, hits = 0;
  while (hits < most && pool_find(&e->pool, p->blocks[hits]))
    hits++;
  uint32_t end = hits * p->block_size;
  if (!tiers)
    return end;
  enum engine_source source;
  most *= p->block_size;
  for (uint32_t chunk = 0; chunk < p->n_chunks && end < most; chunk++) {
    uint32_t to = (chunk + 1) * p->chunk_tokens;
    if (to <= end)
      continue;
    if (!engine_in_tier(e, p->chunks[chunk], &source))
      break;
    end = to < most ? to : most;
  }
  return end;
}
