/* prefixset.c: an open table of content names (engine_place.c says what they are). */
#include "kv/prefixset.h"

#include "base/mem.h"
#include "kv/engine_impl.h"

#define FIRST_SLOTS 1024

struct prefixset {
  uint64_t *slots; /* 0: empty */
  size_t mask;
  uint64_t n;
  uint32_t block_size;
};

struct prefixset *prefixset_new(uint32_t block_size) {
  assert(block_size);
  struct prefixset *s = MEM_NEW(struct prefixset);
  s->block_size = block_size;
  s->mask = FIRST_SLOTS - 1;
  s->slots = mem_calloc(FIRST_SLOTS, sizeof *s->slots);
  return s;
}

void prefixset_delete(struct prefixset *s) {
  if (!s)
    return;
  mem_free(s->slots);
  mem_free(s);
}

/* Names are hashes: their low bits serve as they are. */
static bool put(struct prefixset *s, uint64_t name) {
  size_t i = (size_t)name & s->mask;
  for (; s->slots[i]; i = (i + 1) & s->mask)
    if (s->slots[i] == name)
      return false;
  s->slots[i] = name;
  s->n++;
  return true;
}

static void grow(struct prefixset *s) {
  uint64_t *old = s->slots;
  size_t n = s->mask + 1;
  s->slots = mem_calloc(2 * n, sizeof *s->slots);
  s->mask = 2 * n - 1;
  s->n = 0;
  for (size_t i = 0; i < n; i++)
    if (old[i])
      put(s, old[i]);
  mem_free(old);
}

uint32_t prefixset_add(struct prefixset *s, const uint32_t *tokens, uint32_t n, const char *salt,
                       const char *adapter) {
  uint64_t name = engine_chain_root(salt, adapter);
  uint32_t known = 0, full = n / s->block_size;
  for (uint32_t i = 0; i < full; i++) {
    name = engine_chain_name(name, tokens + (size_t)i * s->block_size, s->block_size);
    if (4 * (s->n + 1) > 3 * (s->mask + 1))
      grow(s);
    bool there = !put(s, name ? name : 1);
    known += there && known == i; /* the run ends where one is missing */
  }
  uint32_t most = n ? (n - 1) / s->block_size : 0;
  return (known < most ? known : most) * s->block_size;
}

uint64_t prefixset_blocks(const struct prefixset *s) {
  return s->n;
}

size_t prefixset_bytes(const struct prefixset *s) {
  return (s->mask + 1) * sizeof *s->slots;
}
