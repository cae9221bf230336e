/* bpe_impl.h: what bpe.c (building), bpe_merge.c (encoding) and bpe_long.c (long pieces) share,
 * inline for speed. */
#ifndef TEXT_BPE_IMPL_H
#define TEXT_BPE_IMPL_H

#include "text/bpe.h"

static inline uint64_t bpe_mix(uint64_t x) {
  x *= UINT64_C(0x9e3779b97f4a7c15);
  return x ^ (x >> 32);
}

static inline const struct bpe_pair *bpe_pair_at(const struct bpe *b, uint32_t left,
                                                 uint32_t right) {
  uint64_t key = (uint64_t)left << 32 | right;
  for (uint64_t i = bpe_mix(key) & b->pair_mask;; i = (i + 1) & b->pair_mask) {
    const struct bpe_pair *p = &b->pairs[i];
    if (p->key == key)
      return p->rank == BPE_NONE ? NULL : p;
    if (p->rank == BPE_NONE)
      return NULL;
  }
}

/* What a pair becomes, once bpe_finish was there. */
static inline struct bpe_made bpe_made_of(const struct bpe *b, uint32_t left, uint32_t right) {
  uint32_t l = left - b->firsts_from, r = right - b->firsts_from;
  if ((l | r) < 256)
    return b->firsts[l << 8 | r];
  const struct bpe_pair *p = bpe_pair_at(b, left, right);
  return p ? (struct bpe_made){p->rank, p->id} : (struct bpe_made){BPE_NONE, BPE_NONE};
}

/* The token of a character; BPE_NONE. */
static inline uint32_t bpe_char_id(const struct bpe *b, uint32_t cp) {
  return b->char_ids[(size_t)b->char_index[cp >> 7] * 128 + (cp & 127)];
}

static inline unsigned bpe_small(uint32_t cp) {
  return cp < 128 ? cp : cp == 0x2581 ? 128 : 129;
}

#define BPE_INSIDE_BITS (1u << 21)

/* The bit of two characters in bpe.inside. */
static inline uint64_t bpe_inside_bit(uint32_t left, uint32_t right) {
  return ((uint64_t)left << 21 | right) * UINT64_C(0x9e3779b97f4a7c15) >> 43;
}

/* Whether a merge may have these two side by side. */
static inline bool bpe_is_inside(const struct bpe *b, uint32_t left, uint32_t right) {
  unsigned l = bpe_small(left), r = bpe_small(right);
  if (l < 129 && r < 129)
    return b->small_inside[l][r >> 6] >> (r & 63) & 1;
  uint64_t at = bpe_inside_bit(left, right);
  return b->inside[at >> 6] >> (at & 63) & 1;
}

/* Whether a text may be cut between two characters, the second of which is at p: no merge makes
 * something that reaches across. With symbols of bytes also tokens that begin or end inside a
 * character count: after some characters, before some, and between some pairs of bytes. */
static inline bool bpe_may_cut(const struct bpe *b, uint32_t left, uint32_t right, const char *p) {
  if (b->bytes &&
      ((b->edges[left >> 2] >> (left & 3) * 2 & 1) ||
       (b->edges[right >> 2] >> (right & 3) * 2 & 2) ||
       (b->partial[(unsigned char)p[-1]][(unsigned char)p[0] >> 3] >> ((unsigned char)p[0] & 7) &
        1)))
    return false;
  return !bpe_is_inside(b, left, right);
}

/* The first symbols of a piece into ids (room for len of them); returns how many. */
size_t bpe_symbols(const struct bpe *b, const char *piece, size_t len, uint32_t *ids);

/* A thread's memory for merging many symbols (bpe_long.c). */
struct bpe_node;
struct bpe_token;
struct bpe_long {
  size_t window; /* symbols merged at once; tests make it small */
  struct bpe_node *nodes;
  uint64_t *tree;
  struct bpe_token *tokens[2]; /* of two windows */
  size_t cap;                  /* symbols that nodes, tree and tokens have room for */
  uint32_t *symbols;
  size_t cap_symbols;
};
void bpe_long_init(struct bpe_long *l);
void bpe_long_free(struct bpe_long *l);
/* Room for the n symbols of a piece, valid until the next bpe_merge_long. */
uint32_t *bpe_long_symbols(struct bpe_long *l, size_t n);
/* Merges n symbols (below 2^32) into `out`, which has room for n; returns how many are left. The
 * time is proportional to n but for windows that cannot be joined (see bpe_long.c). */
size_t bpe_merge_long(const struct bpe *b, struct bpe_long *l, const uint32_t *symbols, size_t n,
                      uint32_t *out);

#endif
