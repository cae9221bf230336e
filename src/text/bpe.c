/* bpe.c: building a vocabulary: tokens, merges, and the tables that encoding looks things up in. */
#include "text/bpe.h"

#include "base/mem.h"
#include "text/bpe_impl.h"
#include "text/utf8.h"

#include <stdio.h>
#include <xxhash.h>

void bpe_init(struct bpe *b) {
  *b = (struct bpe){.unk = BPE_NONE};
  buf_init(&b->text, UINT32_MAX / 2);
  bpe_pairs_reserve(b, 0);
}

void bpe_free(struct bpe *b) {
  mem_free(b->start);
  mem_free(b->len);
  buf_free(&b->text);
  mem_free(b->by_text);
  mem_free(b->pairs);
  mem_free(b->firsts);
  mem_free(b->char_index);
  mem_free(b->char_ids);
  mem_free(b->inside);
  mem_free(b->edges);
  mem_free(b->plain);
  *b = (struct bpe){0};
}

int bpe_add(struct bpe *b, uint32_t id, const char *text, size_t len, struct err *err) {
  if (id >= BPE_MAX_IDS)
    return err_set(err, ERR_INVALID, "token \"%.*s\": id %u is too large (below %u)",
                   (int)(len < 40 ? len : 40), text, id, BPE_MAX_IDS);
  if (id >= b->n_ids) {
    uint32_t cap = b->n_ids ? b->n_ids : 1024;
    while (cap <= id)
      cap *= 2;
    b->start = mem_resize(b->start, cap, sizeof *b->start);
    b->len = mem_resize(b->len, cap, sizeof *b->len);
    for (uint32_t i = b->n_ids; i < cap; i++)
      b->len[i] = BPE_NONE;
    b->n_ids = cap;
  }
  if (b->len[id] != BPE_NONE)
    return err_set(err, ERR_INVALID, "token \"%.*s\": id %u is taken by \"%.*s\"",
                   (int)(len < 40 ? len : 40), text, id, (int)(b->len[id] < 40 ? b->len[id] : 40),
                   b->text.data + b->start[id]);
  b->start[id] = (uint32_t)b->text.len;
  b->len[id] = (uint32_t)len;
  b->n_tokens++;
  int rc = buf_add(&b->text, text, len);
  return rc ? err_set(err, rc, "the vocabulary has more than 2 GiB of text") : 0;
}

/* The place of a text in by_text: its own, or a free one. */
static uint32_t *text_slot(const struct bpe *b, const char *text, size_t len) {
  uint32_t i = (uint32_t)XXH3_64bits(text, len) & b->by_text_mask;
  for (;; i = (i + 1) & b->by_text_mask) {
    uint32_t id = b->by_text[i];
    if (!id--)
      return &b->by_text[i];
    if (b->len[id] == len && memcmp(b->text.data + b->start[id], text, len) == 0)
      return &b->by_text[i];
  }
}

/* Indexes the texts; `skip` (may be NULL) marks ids to leave out. Returns BPE_NONE, or an id whose
 * text another one has. */
static uint32_t index_texts(struct bpe *b, const bool *skip) {
  uint32_t size = 16, twice = BPE_NONE;
  while (size < b->n_tokens * 2)
    size *= 2;
  mem_free(b->by_text);
  b->by_text = mem_calloc(size, sizeof *b->by_text);
  b->by_text_mask = size - 1;
  for (uint32_t id = 0; id < b->n_ids; id++) {
    if (b->len[id] == BPE_NONE || (skip && skip[id]))
      continue;
    uint32_t *slot = text_slot(b, b->text.data + b->start[id], b->len[id]);
    if (*slot)
      twice = id;
    else
      *slot = id + 1;
  }
  return twice;
}

int bpe_seal(struct bpe *b, struct err *err) {
  buf_put(&b->text, "", 0);
  while (b->n_ids && b->len[b->n_ids - 1] == BPE_NONE)
    b->n_ids--;
  if (b->n_ids > 65536 && b->n_ids / 16 > b->n_tokens)
    return err_set(err, ERR_UNSUPPORTED, "ids up to %u for %u tokens: too many unused ones",
                   b->n_ids - 1, b->n_tokens);
  uint32_t twice = index_texts(b, NULL);
  if (twice == BPE_NONE)
    return 0;
  return err_set(err, ERR_INVALID, "token \"%.*s\": ids %u and %u have the same text",
                 (int)b->len[twice], b->text.data + b->start[twice],
                 bpe_find(b, b->text.data + b->start[twice], b->len[twice]), twice);
}

uint32_t bpe_find(const struct bpe *b, const char *text, size_t len) {
  return *text_slot(b, text, len) - 1; /* a free slot is 0: BPE_NONE */
}

const char *bpe_text(const struct bpe *b, uint32_t id, size_t *len) {
  if (id >= b->n_ids || b->len[id] == BPE_NONE)
    return NULL;
  *len = b->len[id];
  return b->text.data + b->start[id];
}

void bpe_pairs_reserve(struct bpe *b, size_t n) {
  size_t size = 16;
  while (size < n * 2)
    size *= 2;
  b->pairs = mem_resize(b->pairs, size, sizeof *b->pairs);
  memset(b->pairs, 0xff, size * sizeof *b->pairs);
  b->pair_mask = size - 1;
  b->n_pairs = 0;
}

void bpe_pairs_add(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id) {
  uint64_t key = (uint64_t)left << 32 | right, i = bpe_mix(key) & b->pair_mask;
  while (b->pairs[i].rank != BPE_NONE && b->pairs[i].key != key)
    i = (i + 1) & b->pair_mask;
  b->n_pairs += b->pairs[i].rank == BPE_NONE;
  assert(b->n_pairs <= b->pair_mask); /* one stays free */
  b->pairs[i] = (struct bpe_pair){key, rank, id};
}

const struct bpe_pair *bpe_pairs_find(const struct bpe *b, uint32_t left, uint32_t right) {
  return bpe_pair_at(b, left, right);
}

void bpe_pairs_from_ranks(struct bpe *b) {
  for (int pass = 0; pass < 2; pass++) { /* counted first: a pass costs less than a rehash */
    size_t n = 0;
    for (uint32_t id = 0; id < b->n_ids; id++) {
      const char *text = b->text.data + b->start[id];
      for (uint32_t cut = 1; b->len[id] != BPE_NONE && cut < b->len[id]; cut++) {
        uint32_t left = bpe_find(b, text, cut);
        if (left == BPE_NONE)
          continue;
        uint32_t right = bpe_find(b, text + cut, b->len[id] - cut);
        if (right == BPE_NONE)
          continue;
        n++;
        if (pass)
          bpe_pairs_add(b, left, right, id, id);
      }
    }
    if (!pass)
      bpe_pairs_reserve(b, n);
  }
}

/* The byte that a character of the byte-level alphabet stands for; -1 for other characters. GPT-2's
 * encoder.py: printable Latin-1 is itself, the 68 others follow one another from U+0100. */
static int alphabet_byte(uint32_t cp) {
  if ((cp >= 0x21 && cp <= 0x7e) || (cp >= 0xa1 && cp <= 0xac) || (cp >= 0xae && cp <= 0xff))
    return (int)cp;
  if (cp < 0x100 || cp > 0x143)
    return -1;
  uint32_t k = cp - 0x100;
  return (int)(k < 33 ? k : k < 67 ? k - 33 + 0x7f : 0xad);
}

static uint32_t byte_char(unsigned char byte) {
  uint32_t k = byte;
  if (alphabet_byte(k) >= 0)
    return k;
  return 0x100 + (k < 0x21 ? k : k < 0xa1 ? k - 0x7f + 33 : 67);
}

static bool is_plain(const struct bpe *b, uint32_t id) {
  uint32_t lo = 0, hi = b->n_plain;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (b->plain[mid] < id)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < b->n_plain && b->plain[lo] == id;
}

int bpe_put_name(const struct bpe *b, uint32_t id, struct buf *out) {
  size_t len;
  const char *text = bpe_text(b, id, &len);
  assert(text);
  if (!b->bytes || is_plain(b, id))
    return buf_add(out, text, len);
  int rc = 0;
  for (size_t i = 0; i < len && !rc; i++) {
    char one[4];
    rc = buf_add(out, one, utf8_encode(byte_char((unsigned char)text[i]), one));
  }
  return rc;
}

void bpe_to_bytes(struct bpe *b) {
  bool *skip = mem_calloc(b->n_ids, sizeof *skip);
  uint32_t cap = 0;
  for (uint32_t id = 0; id < b->n_ids; id++) {
    if (b->len[id] == BPE_NONE)
      continue;
    char *text = b->text.data + b->start[id];
    const char *p = text, *end = text + b->len[id];
    while (p < end && !skip[id])
      skip[id] = alphabet_byte(utf8_take(&p)) < 0;
    if (skip[id]) {
      MEM_GROW(b->plain, b->n_plain, cap);
      b->plain[b->n_plain++] = id;
      continue;
    }
    uint32_t n = 0;
    for (p = text; p < end;) /* in place: a character is never shorter than its byte */
      text[n++] = (char)alphabet_byte(utf8_take(&p));
    b->len[id] = n;
  }
  (void)index_texts(b, skip); /* the alphabet is one to one: no two become the same */
  mem_free(skip);
}

static void find_bytes(struct bpe *b) {
  b->fallback_all = true;
  for (int i = 0; i < 256; i++) {
    char name[8] = {(char)i};
    size_t n = 1;
    if (!b->bytes)
      n = (size_t)snprintf(name, sizeof name, "<0x%02X>", i);
    b->byte_id[i] = bpe_find(b, name, n);
    b->fallback_all = b->fallback_all && b->byte_id[i] != BPE_NONE;
  }
}

static void find_characters(struct bpe *b) {
  size_t blocks = 1, cap = 8;
  b->char_index = mem_calloc(0x110000 >> 7, sizeof *b->char_index);
  b->char_ids = mem_alloc(cap * 128 * sizeof *b->char_ids);
  memset(b->char_ids, 0xff, 128 * sizeof *b->char_ids);
  for (uint32_t id = 0; id < b->n_ids; id++) {
    uint32_t cp;
    size_t len;
    const char *text = bpe_text(b, id, &len);
    if (!text || !len || utf8_decode(text, text + len, &cp) != len)
      continue;
    if (!b->char_index[cp >> 7]) {
      if (blocks == cap) {
        cap *= 2;
        b->char_ids = mem_resize(b->char_ids, cap * 128, sizeof *b->char_ids);
      }
      memset(b->char_ids + blocks * 128, 0xff, 128 * sizeof *b->char_ids);
      b->char_index[cp >> 7] = (uint16_t)blocks++;
    }
    b->char_ids[(size_t)b->char_index[cp >> 7] * 128 + (cp & 127)] = id;
  }
}

static void inside_add(struct bpe *b, uint32_t left, uint32_t right) {
  unsigned l = bpe_small(left), r = bpe_small(right);
  uint64_t at = bpe_inside_bit(left, right);
  if (l < 129 && r < 129)
    b->small_inside[l][r >> 6] |= UINT64_C(1) << (r & 63);
  else
    b->inside[at >> 6] |= UINT64_C(1) << (at & 63);
}

static size_t valid_at(const char *p, const char *end, uint32_t *cp) {
  *cp = 0;
  return p < end ? utf8_decode(p, end, cp) : 0;
}

/* Notes what a merge's result has side by side. Its bytes may begin and end inside a character;
 * what cannot be part of a text (which is UTF-8) is of no interest. */
static void note_inside(struct bpe *b, const char *p, const char *end) {
  const char *first = p;
  uint32_t last, cp;
  while (p < end && ((unsigned char)*p & 0xc0) == 0x80)
    p++;
  if (p == end)
    return;
  size_t k = valid_at(p, end, &last);
  if (p > first && k)
    b->edges[last >> 2] |= (uint8_t)(2 << (last & 3) * 2);
  else if (p > first)
    b->partial[(unsigned char)p[-1]][(unsigned char)*p >> 3] |= (uint8_t)(1 << (*p & 7));
  for (; k; last = cp) {
    p += k;
    k = valid_at(p, end, &cp);
    if (k)
      inside_add(b, last, cp);
    else if (p < end)
      b->edges[last >> 2] |= (uint8_t)(1 << (last & 3) * 2);
  }
}

/* What two characters side by side may still be merged: those inside some merge's result. Cutting
 * anywhere else changes nothing, because every step's result is one of these tokens. It would if
 * byte tokens or the unknown token took part in merges, or bytes went missing: then there are no
 * cuts. */
static void find_cuts(struct bpe *b) {
  b->cuts = !b->bytes || b->fallback_all;
  b->inside = mem_calloc(BPE_INSIDE_BITS / 64, sizeof *b->inside);
  b->edges = mem_calloc(0x110000 / 4, 1);
  bool *special = mem_calloc((size_t)b->n_ids + 1, sizeof *special);
  for (int i = 0; i < 256; i++)
    if (!b->bytes && b->byte_fallback && b->byte_id[i] != BPE_NONE)
      special[b->byte_id[i]] = true;
  if (b->unk != BPE_NONE)
    special[b->unk] = true;
  for (uint64_t i = 0; i <= b->pair_mask && b->cuts; i++) {
    const struct bpe_pair *pair = &b->pairs[i];
    if (pair->rank == BPE_NONE)
      continue;
    if (special[pair->key >> 32] || special[pair->key & UINT32_MAX])
      b->cuts = false;
    size_t len = 0;
    const char *p = bpe_text(b, pair->id, &len);
    note_inside(b, p, p + len);
  }
  mem_free(special);
}

/* The table of pairs of first symbols: of bytes, else of ASCII and U+2581, whose ids are near one
 * another in every vocabulary known. */
static void find_firsts(struct bpe *b) {
  b->firsts_from = BPE_NONE;
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t id = b->bytes ? b->byte_id[i] : bpe_char_id(b, i < 128 ? i : 0x2581);
    if (id < b->firsts_from)
      b->firsts_from = id;
  }
  b->firsts = mem_alloc(65536 * sizeof *b->firsts);
  memset(b->firsts, 0xff, 65536 * sizeof *b->firsts);
  for (uint64_t i = 0; i <= b->pair_mask; i++) {
    const struct bpe_pair *p = &b->pairs[i];
    uint32_t left = (uint32_t)(p->key >> 32) - b->firsts_from,
             right = (uint32_t)p->key - b->firsts_from;
    if (p->rank != BPE_NONE && left < 256 && right < 256)
      b->firsts[left << 8 | right] = (struct bpe_made){p->rank, p->id};
  }
}

int bpe_finish(struct bpe *b, struct err *err) {
  find_bytes(b);
  if (b->bytes && b->byte_fallback && !b->fallback_all)
    return err_set(err, ERR_UNSUPPORTED,
                   "byte_fallback with a byte-level vocabulary that lacks some bytes");
  find_characters(b);
  find_firsts(b);
  find_cuts(b);
  return 0;
}
