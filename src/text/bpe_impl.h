/* bpe_impl.h: what bpe.c (building) and bpe_merge.c (encoding) share, inline for speed. */
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

/* The token of a character; BPE_NONE. */
static inline uint32_t bpe_char_id(const struct bpe *b, uint32_t cp) {
  return b->char_ids[(size_t)b->char_index[cp >> 7] * 128 + (cp & 127)];
}

static inline unsigned bpe_small(uint32_t cp) {
  return cp < 128 ? cp : cp == 0x2581 ? 128 : 129;
}

/* Whether a merge may have these two side by side. */
static inline bool bpe_is_inside(const struct bpe *b, uint32_t left, uint32_t right) {
  unsigned l = bpe_small(left), r = bpe_small(right);
  if (l < 129 && r < 129)
    return b->small_inside[l][r >> 6] >> (r & 63) & 1;
  uint64_t key = (uint64_t)left << 21 | right;
  for (uint64_t i = bpe_mix(key) & b->inside_mask;; i = (i + 1) & b->inside_mask)
    if (b->inside[i] == key || b->inside[i] == UINT64_MAX)
      return b->inside[i] == key;
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

#endif
