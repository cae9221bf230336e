/* bpe_merge.c: pieces of text to ids.
 *
 * A piece is looked up in the thread's memo first; else it becomes symbols (bytes or characters)
 * that are merged: in a small array while it is short, by bpe_long.c when it is long. Where a
 * vocabulary has no pre-tokenizer the text is cut at places no merge can reach across, so that the
 * memo works there too. Nothing is allocated per piece. */
#include "text/bpe.h"

#include "base/mem.h"
#include "text/bpe_impl.h"
#include "text/utf8.h"

#define SMALL 32            /* symbols up to which the array is scanned for the lowest rank */
#define MEMO_FIRST 11       /* bits: entries of 32 bytes that the memo begins with */
#define MEMO_LAST 17        /* and that it grows to */
#define MEMO_KEY 15         /* bytes of the longest piece in it */
#define MORE_MAX (1u << 18) /* ids kept for pieces of more than three */
#define AHEAD 16            /* pieces whose places in the memo are asked for at once */

/* A remembered piece. Free when hi is 0. */
struct memo {
  uint64_t lo, hi; /* the piece's bytes, its length in the top one */
  uint32_t n;
  uint32_t ids[3]; /* more than three: ids[0] is the place in `more` */
};

#define LONG_BITS 12 /* entries of 64 bytes */
#define LONG_KEY 31  /* bytes of the longest piece in them */

struct memo_long {
  uint64_t key[4]; /* the piece's bytes, its length in the top one */
  uint32_t n;
  uint32_t ids[7]; /* pieces of more ids are not remembered */
};

struct bpe_scratch {
  struct memo *memo; /* a hash table, at most half full; NULL: none */
  void *memo_memory; /* it begins on a cache line in there */
  unsigned memo_bits;
  size_t n_memo;
  struct memo_long *memo_long;
  uint32_t *more;
  size_t n_more, cap_more;
  struct bpe_long merging;
};

static void memo_open(struct bpe_scratch *s, unsigned bits) {
  s->memo_memory = mem_calloc(((size_t)1 << bits) + 2, sizeof *s->memo);
  s->memo = (struct memo *)(((uintptr_t)s->memo_memory + 63) & ~(uintptr_t)63);
  s->memo_bits = bits;
}

/* Where a piece is in the memo, or would be. */
static inline struct memo *memo_at(const struct bpe_scratch *s, uint64_t lo, uint64_t hi,
                                   uint64_t hash) {
  size_t i = hash >> (64 - s->memo_bits);
  while ((s->memo[i].lo != lo || s->memo[i].hi != hi) && s->memo[i].hi)
    i = (i + 1) & (((size_t)1 << s->memo_bits) - 1);
  return &s->memo[i];
}

static inline uint64_t memo_hash(uint64_t lo, uint64_t hi) {
  return (lo ^ (hi * UINT64_C(0xff51afd7ed558ccd))) * UINT64_C(0x9e3779b97f4a7c15);
}

struct bpe_scratch *bpe_scratch_new(const struct bpe *b, bool with_memo) {
  (void)b;
  struct bpe_scratch *s = MEM_NEW(struct bpe_scratch);
  bpe_long_init(&s->merging);
  if (with_memo) {
    memo_open(s, MEMO_FIRST);
    s->memo_long = mem_calloc((size_t)1 << LONG_BITS, sizeof *s->memo_long);
  }
  return s;
}

void bpe_scratch_delete(struct bpe_scratch *s) {
  if (!s)
    return;
  bpe_long_free(&s->merging);
  mem_free(s->memo_memory);
  mem_free(s->memo_long);
  mem_free(s->more);
  mem_free(s);
}

/* Unknown characters on their way to one token or several: the reference's rule, with its order. */
struct unknown {
  bool pending;
};

static size_t put_unknown(const struct bpe *b, struct unknown *u, uint32_t *ids, size_t n) {
  if (b->unk == BPE_NONE)
    return n;
  if (u->pending && !b->fuse_unk)
    ids[n++] = b->unk;
  u->pending = true;
  return n;
}

static size_t end_unknown(const struct bpe *b, struct unknown *u, uint32_t *ids, size_t n) {
  if (u->pending)
    ids[n++] = b->unk;
  u->pending = false;
  return n;
}

/* The byte tokens of a character, when all of them exist. */
static size_t put_fallback(const struct bpe *b, const char *p, unsigned len, uint32_t *ids,
                           size_t n) {
  for (unsigned i = 0; i < len; i++)
    if (b->byte_id[(unsigned char)p[i]] == BPE_NONE)
      return n;
  for (unsigned i = 0; i < len; i++)
    ids[n++] = b->byte_id[(unsigned char)p[i]];
  return n;
}

size_t bpe_symbols(const struct bpe *b, const char *piece, size_t len, uint32_t *ids) {
  const char *p = piece, *end = piece + len;
  struct unknown u = {0};
  size_t n = 0;
  if (b->bytes && b->fallback_all) {
    for (; n < len; n++)
      ids[n] = b->byte_id[(unsigned char)piece[n]];
    return n;
  }
  while (p < end) {
    const char *here = p;
    uint32_t id = b->bytes ? b->byte_id[(unsigned char)*p++] : bpe_char_id(b, utf8_take(&p));
    size_t before = n;
    if (id != BPE_NONE) {
      n = end_unknown(b, &u, ids, n);
      ids[n++] = id;
    } else if (b->bytes || !b->byte_fallback ||
               (n = put_fallback(b, here, (unsigned)(p - here), ids, n)) == before) {
      n = put_unknown(b, &u, ids, n);
    }
  }
  return end_unknown(b, &u, ids, n);
}

static inline uint32_t rank_of(const struct bpe *b, uint32_t left, uint32_t right, uint32_t *made) {
  struct bpe_made m = bpe_made_of(b, left, right);
  *made = m.id;
  return m.rank;
}

/* Merges n <= SMALL symbols in place; returns how many are left. */
static size_t merge_small(const struct bpe *b, uint32_t *ids, size_t n) {
  uint32_t ranks[SMALL], made[SMALL];
  if (n < 2)
    return n;
  for (size_t i = 0; i + 1 < n; i++)
    ranks[i] = rank_of(b, ids[i], ids[i + 1], &made[i]);
  while (n > 1) {
    size_t at = 0;
    uint32_t best = ranks[0];
    for (size_t i = 1; i + 1 < n; i++)
      if (ranks[i] < best) {
        best = ranks[i];
        at = i;
      }
    if (best == BPE_NONE)
      break;
    ids[at] = made[at];
    n--;
    size_t tail = n - at - 1; /* symbols behind the new one */
    memmove(ids + at + 1, ids + at + 2, tail * sizeof *ids);
    if (tail) {
      memmove(ranks + at + 1, ranks + at + 2, (tail - 1) * sizeof *ranks);
      memmove(made + at + 1, made + at + 2, (tail - 1) * sizeof *made);
      ranks[at] = rank_of(b, ids[at], ids[at + 1], &made[at]);
    }
    if (at)
      ranks[at - 1] = rank_of(b, ids[at - 1], ids[at], &made[at - 1]);
  }
  return n;
}

/* Symbols and merges, nothing remembered. `whole`: a piece, not a part that was cut out of one. */
static void encode_fresh(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                         bool whole, struct tokens_list *out) {
  if (whole && b->ignore_merges) {
    uint32_t id = bpe_find(b, piece, len);
    if (id != BPE_NONE) {
      out->ids[out->n++] = id;
      return;
    }
  }
  if (len <= SMALL) {
    uint32_t *ids = out->ids + out->n; /* room for len was made */
    size_t n = bpe_symbols(b, piece, len, ids);
    out->n += merge_small(b, ids, n);
    return;
  }
  uint32_t *symbols = bpe_long_symbols(&s->merging, len);
  size_t n = bpe_symbols(b, piece, len, symbols);
  out->n += bpe_merge_long(b, &s->merging, symbols, n, out->ids + out->n);
}

/* Makes room for a piece of n ids: a larger memo, or, when it is as large as it gets, an empty one:
 * what is in use comes back. */
static void memo_grow(struct bpe_scratch *s, size_t n) {
  bool full = s->n_memo * 2 >= (size_t)1 << s->memo_bits;
  if (s->n_more + n > MORE_MAX || (full && s->memo_bits == MEMO_LAST)) {
    memset(s->memo, 0, sizeof *s->memo << s->memo_bits);
    s->n_more = s->n_memo = 0;
  } else if (full) {
    struct memo *old = s->memo;
    void *memory = s->memo_memory;
    size_t size = (size_t)1 << s->memo_bits;
    memo_open(s, s->memo_bits + 1);
    for (size_t i = 0; i < size; i++)
      if (old[i].hi)
        *memo_at(s, old[i].lo, old[i].hi, memo_hash(old[i].lo, old[i].hi)) = old[i];
    mem_free(memory);
  }
}

static void remember(struct bpe_scratch *s, uint64_t lo, uint64_t hi, uint64_t hash,
                     const uint32_t *ids, size_t n) {
  struct memo fresh = {.lo = lo, .hi = hi, .n = (uint32_t)n};
  memo_grow(s, n);
  if (n <= 3) {
    memcpy(fresh.ids, ids, n * sizeof *ids);
  } else {
    if (s->n_more + n > s->cap_more) {
      s->cap_more = s->cap_more ? s->cap_more * 2 : 1024;
      s->more = mem_resize(s->more, s->cap_more, sizeof *s->more);
    }
    memcpy(s->more + s->n_more, ids, n * sizeof *ids);
    fresh.ids[0] = (uint32_t)s->n_more;
    s->n_more += n;
  }
  *memo_at(s, lo, hi, hash) = fresh;
  s->n_memo++;
}

struct key {
  uint64_t lo, hi, hash;
};

/* The memo's key of a piece of 1..MEMO_KEY bytes; bytes may be read up to `end`. A part is not the
 * same entry as a piece where pieces that are tokens are left alone. */
static inline struct key key_of(const struct bpe *b, const char *piece, size_t len, bool whole,
                                const char *end) {
#define ONES(n) (~UINT64_C(0) >> (64 - 8 * (n)))
  static const uint64_t low[16] = {0,       ONES(1), ONES(2), ONES(3), ONES(4), ONES(5),
                                   ONES(6), ONES(7), ONES(8), ONES(8), ONES(8), ONES(8),
                                   ONES(8), ONES(8), ONES(8), ONES(8)},
                        high[16] = {0,       0,       0,       0,       0,       0,
                                    0,       0,       0,       ONES(1), ONES(2), ONES(3),
                                    ONES(4), ONES(5), ONES(6), ONES(7)};
#undef ONES
  struct key k;
  char copy[16];
  if (end - piece < 16) {
    memset(copy, 0, sizeof copy);
    piece = memcpy(copy, piece, len);
  }
  memcpy(&k.lo, piece, 8);
  memcpy(&k.hi, piece + 8, 8);
  k.lo &= low[len];
  k.hi &= high[len];
  k.hi |= (uint64_t)(len | (whole || !b->ignore_merges ? 0 : 0x80)) << 56;
  k.hash = memo_hash(k.lo, k.hi);
  return k;
}

/* A piece or part of that key; `out` has room for len + 3. */
static inline void encode_short(const struct bpe *b, struct bpe_scratch *s, const char *piece,
                                size_t len, bool whole, const struct key *k,
                                struct tokens_list *out) {
  const struct memo *m = memo_at(s, k->lo, k->hi, k->hash);
  uint32_t *ids = out->ids + out->n;
  if (!m->hi) {
    encode_fresh(b, s, piece, len, whole, out);
    remember(s, k->lo, k->hi, k->hash, ids, (size_t)(out->ids + out->n - ids));
    return;
  }
  if (m->n <= 3) {
    ids[0] = m->ids[0];
    ids[1] = m->ids[1];
    ids[2] = m->ids[2];
  } else {
    memcpy(ids, s->more + m->ids[0], m->n * sizeof *ids);
  }
  out->n += m->n;
}

static void encode_long(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                        const char *end, struct tokens_list *out);
static void encode_medium(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                          bool whole, const char *end, struct tokens_list *out);
static void encode_piece(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                         const char *end, struct tokens_list *out);

/* A piece or part that is not cut further; bytes may be read up to `end`. */
static inline void encode_part(const struct bpe *b, struct bpe_scratch *s, const char *piece,
                               size_t len, bool whole, const char *end, struct tokens_list *out) {
  if (out->cap - out->n < len + 3)
    tokens_list_reserve(out, len + 3);
  if (len > MEMO_KEY || !s->memo) {
    encode_fresh(b, s, piece, len, whole, out);
  } else {
    struct key k = key_of(b, piece, len, whole, end);
    encode_short(b, s, piece, len, whole, &k, out);
  }
}

/* A part that was cut out. */
static inline void encode_cut_part(const struct bpe *b, struct bpe_scratch *s, const char *part,
                                   size_t len, const char *end, struct tokens_list *out) {
  if (len > MEMO_KEY && len <= LONG_KEY && s->memo_long)
    encode_medium(b, s, part, len, false, end, out);
  else
    encode_part(b, s, part, len, false, end, out);
}

/* At most AHEAD pieces, or parts of one: where the memo has them is worked out for all before the
 * first is looked at, so that the processor fetches what is not near while it goes on. */
static void encode_ahead(const struct bpe *b, struct bpe_scratch *s, const char *text,
                         const char *end, size_t from, const uint32_t *ends, size_t n, bool whole,
                         struct tokens_list *out) {
  struct key keys[AHEAD];
  size_t start = from, longest = s->memo ? MEMO_KEY : 0;
  for (size_t i = 0; i < n; start = ends[i++]) {
    size_t len = ends[i] - start;
    if (len > longest)
      continue;
    keys[i] = key_of(b, text + start, len, whole, end);
    __builtin_prefetch(&s->memo[keys[i].hash >> (64 - s->memo_bits)]);
  }
  for (size_t i = 0; i < n; from = ends[i++]) {
    size_t len = ends[i] - from;
    if (len > longest) {
      if (whole)
        encode_piece(b, s, text + from, len, end, out);
      else
        encode_cut_part(b, s, text + from, len, end, out);
      continue;
    }
    if (out->cap - out->n < len + 3)
      tokens_list_reserve(out, len + 3);
    encode_short(b, s, text + from, len, whole, &keys[i], out);
  }
}

/* A long piece, cut where nothing can be merged across. A character without a token keeps its
 * neighbours unless it surely becomes byte tokens. */
static void encode_cut(const struct bpe *b, struct bpe_scratch *s, const char *text, size_t len,
                       const char *readable, struct tokens_list *out) {
  if (b->ignore_merges) {
    uint32_t id = bpe_find(b, text, len);
    if (id != BPE_NONE) {
      tokens_list_reserve(out, 1);
      out->ids[out->n++] = id;
      return;
    }
  }
  const char *p = text, *end = text + len;
  uint32_t ends[AHEAD];
  size_t n = 0, done = 0;
  bool sure = b->fallback_all && (b->bytes || b->byte_fallback);
  uint32_t last = utf8_take(&p);
  bool last_known = sure || bpe_char_id(b, last) != BPE_NONE;
  while (p < end) {
    const char *here = p;
    uint32_t cp = utf8_take(&p);
    bool known = sure || bpe_char_id(b, cp) != BPE_NONE;
    if (known && last_known && bpe_may_cut(b, last, cp, here)) {
      ends[n++] = (uint32_t)(here - text);
      if (n == AHEAD) {
        encode_ahead(b, s, text, readable, done, ends, n, false, out);
        done = ends[n - 1];
        n = 0;
      }
    }
    last = cp;
    last_known = known;
  }
  ends[n++] = (uint32_t)len;
  if (!done && n == 1) /* nothing to cut: the piece itself, which is no token */
    encode_part(b, s, text, len, true, readable, out);
  else
    encode_ahead(b, s, text, readable, done, ends, n, false, out);
}

/* A piece longer than the first memo takes. */
static void encode_long(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                        const char *end, struct tokens_list *out) {
  if (b->cuts)
    encode_cut(b, s, piece, len, end, out);
  else
    encode_part(b, s, piece, len, true, end, out);
}

/* A piece or part that the second memo takes. */
static void encode_medium(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                          bool whole, const char *end, struct tokens_list *out) {
  uint64_t key[4] = {0};
  memcpy(key, piece, len);
  key[3] |= (uint64_t)(len | (whole || !b->ignore_merges ? 0 : 0x80)) << 56;
  uint64_t hash = (key[0] * 3 ^ key[1] * 5 ^ key[2] * 7 ^ key[3]) * UINT64_C(0x9e3779b97f4a7c15);
  struct memo_long *m = &s->memo_long[hash >> (64 - LONG_BITS)];
  tokens_list_reserve(out, len + 7);
  if (memcmp(m->key, key, sizeof key) == 0) {
    memcpy(out->ids + out->n, m->ids, sizeof m->ids);
    out->n += m->n;
    return;
  }
  size_t before = out->n;
  if (whole)
    encode_long(b, s, piece, len, end, out);
  else
    encode_fresh(b, s, piece, len, false, out);
  if (out->n - before > 7)
    return;
  memcpy(m->key, key, sizeof key);
  m->n = (uint32_t)(out->n - before);
  memcpy(m->ids, out->ids + before, m->n * sizeof *m->ids);
}

static void encode_piece(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                         const char *end, struct tokens_list *out) {
  if (len <= MEMO_KEY)
    encode_part(b, s, piece, len, true, end, out);
  else if (len <= LONG_KEY && s->memo_long)
    encode_medium(b, s, piece, len, true, end, out);
  else
    encode_long(b, s, piece, len, end, out);
}

void bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                struct tokens_list *out) {
  if (len)
    encode_piece(b, s, piece, len, piece + len, out);
}

void bpe_encode_pieces(const struct bpe *b, struct bpe_scratch *s, const char *text, size_t len,
                       size_t from, const uint32_t *ends, size_t n, struct tokens_list *out) {
  for (size_t i = 0, k; i < n; i += k) {
    k = n - i < AHEAD ? n - i : AHEAD;
    encode_ahead(b, s, text, text + len, from, ends + i, k, true, out);
    from = ends[i + k - 1];
  }
}

void bpe_encode_plain(const struct bpe *b, const char *piece, size_t len, struct tokens_list *out) {
  tokens_list_reserve(out, len);
  uint32_t *ids = out->ids + out->n, whole = b->ignore_merges ? bpe_find(b, piece, len) : BPE_NONE;
  if (whole != BPE_NONE) {
    out->ids[out->n++] = whole;
    return;
  }
  size_t n = bpe_symbols(b, piece, len, ids);
  for (;;) {
    const struct bpe_pair *best = NULL;
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; i++) {
      const struct bpe_pair *p = bpe_pairs_find(b, ids[i], ids[i + 1]);
      if (p && (!best || p->rank < best->rank)) {
        best = p;
        at = i;
      }
    }
    if (!best)
      break;
    ids[at] = best->id;
    memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
    n--;
  }
  out->n += n;
}
