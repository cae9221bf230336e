/* blocklife.c: see blocklife.h. */
#include "kv/blocklife.h"

#include <string.h>

#include "base/mem.h"

struct blocklife_state {
  bool followed;
  uint8_t n;                                         /* accesses that are remembered */
  uint64_t born_ns, accesses_ns[BLOCKLIFE_ACCESSES]; /* the oldest first */
};

static size_t bytes_of(const struct blocklife *l) {
  return l->num_blocks * sizeof *l->blocks;
}

void blocklife_init(struct blocklife *l, uint32_t num_blocks, double share, uint64_t seed) {
  *l = (struct blocklife){.share = share, .num_blocks = num_blocks};
  rng_init(&l->rng, seed, UINT64_C(0x626c6f636b));
  l->blocks = mem_pages(bytes_of(l));
}

void blocklife_free(struct blocklife *l) {
  if (l->blocks)
    mem_pages_free(l->blocks, bytes_of(l));
  *l = (struct blocklife){0};
}

static void end(const struct blocklife *l, const struct blocklife_state *s) {
  uint64_t last = s->n ? s->accesses_ns[s->n - 1] : s->born_ns;
  struct blocklife_end e = {.lifetime_ns = l->now_ns - s->born_ns, .idle_ns = l->now_ns - last};
  for (uint32_t i = 1; i < s->n; i++)
    e.gaps_ns[e.n_gaps++] = s->accesses_ns[i] - s->accesses_ns[i - 1];
  l->on_end(l->user, &e);
}

void blocklife_taken(struct blocklife *l, uint32_t id) {
  struct blocklife_state *s = &l->blocks[id];
  assert(id < l->num_blocks);
  if (s->followed)
    end(l, s);
  *s = (struct blocklife_state){.born_ns = l->now_ns, .followed = rng_unit(&l->rng) < l->share};
}

void blocklife_touched(struct blocklife *l, uint32_t id) {
  struct blocklife_state *s = &l->blocks[id];
  assert(id < l->num_blocks);
  if (!s->followed)
    return;
  if (s->n == BLOCKLIFE_ACCESSES) {
    memmove(s->accesses_ns, s->accesses_ns + 1, sizeof s->accesses_ns - sizeof *s->accesses_ns);
    s->n--;
  }
  s->accesses_ns[s->n++] = l->now_ns;
}

void blocklife_forget(struct blocklife *l) {
  memset(l->blocks, 0, bytes_of(l));
}
