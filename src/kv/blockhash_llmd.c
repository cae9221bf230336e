/* blockhash_llmd.c: llm-d's precise prefix index (llm-d-kv-cache, llm-d-router), which hashes the
 * tokens of engine events again by rules of its own.
 *
 * Source: shared/facts/block-hashing.md section 3. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kv/blockhash_scheme.h"
#include "kv/blockhash_tuple.h"

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static uint64_t fnv1a(const void *data, size_t len) {
  const uint8_t *p = data;
  uint64_t h = FNV_OFFSET;
  for (size_t i = 0; i < len; i++)
    h = (h ^ p[i]) * FNV_PRIME;
  return h;
}

#define MODEL_WHY                                                                                  \
  "the model's name as the router knows it; for a LoRA adapter the adapter's name in its place"

static int need_model(struct blockhash_settings *s, struct err *err) {
  if (!s->parent.given)
    return blockhash_settings_need(s, &s->model, "model", MODEL_WHY, err);
  s->init = s->parent.value; /* replaces the root, model and all */
  return 0;
}

/* ---- FNV-64a over CBOR ---- */

/* CBOR's null, or what stands for it. */
static void put_null(struct buf *b) {
  buf_putc(b, (char)0xf6);
}

static int fnv_open(struct blockhash_settings *s, struct err *err) {
  int rc = need_model(s, err);
  if (rc || s->parent.given)
    return rc;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  tuple_cbor_head(&b, 4, 3);
  tuple_cbor_head(&b, 0, fnv1a(s->hash_seed.data, s->hash_seed.len));
  put_null(&b);
  tuple_cbor_text(&b, s->model);
  s->init = fnv1a(b.data, b.len);
  buf_free(&b);
  return 0;
}

static int fnv_nomodel_open(struct blockhash_settings *s, struct err *err) {
  (void)err;
  s->init = fnv1a(s->hash_seed.data, s->hash_seed.len);
  return 0;
}

/* null, or an array of {"Hash": id} for the items over this block. */
static void put_items(struct buf *b, const struct blockhash_settings *s, uint64_t block) {
  size_t n = 0;
  for (size_t i = 0; i < s->n_mm; i++)
    n += blockhash_mm_in_block(s, &s->mm[i], block);
  if (!n) {
    put_null(b);
    return;
  }
  tuple_cbor_head(b, 4, n);
  for (size_t i = 0; i < s->n_mm; i++) {
    if (!blockhash_mm_in_block(s, &s->mm[i], block))
      continue;
    tuple_cbor_head(b, 5, 1);
    tuple_cbor_text(b, (struct blockhash_text){"Hash", 4});
    tuple_cbor_text(b, s->mm[i].id);
  }
}

static void fnv_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                    void *second) {
  (void)second;
  uint64_t *hashes = out;
  struct buf *b = &c->scratch;
  for (size_t i = 0; i < run->n; i++) {
    buf_reset(b);
    tuple_cbor_head(b, 4, 3);
    tuple_cbor_head(b, 0, c->last.number);
    tuple_cbor_tokens(b, (const int64_t *)(const void *)(run->data + i * run->each),
                      run->each / sizeof(int64_t));
    put_items(b, c->settings, c->blocks + i);
    c->last.number = hashes[i] = fnv1a(b->data, b->len);
  }
}

/* ---- XXH64 over plain bytes ---- */

static uint64_t xxh64(const struct buf *b) {
  assert(b->data);
  return XXH64(b->data, b->len, 0);
}

static void put_counted(struct buf *b, struct blockhash_text text) {
  uint64_t len = text.len;
  buf_put(b, &len, sizeof len);
  buf_put(b, text.data, text.len);
}

static int xxh64_open(struct blockhash_settings *s, struct err *err) {
  int rc = need_model(s, err);
  if (rc || s->parent.given)
    return rc;
  uint64_t seed = XXH64(s->hash_seed.len ? s->hash_seed.data : "", s->hash_seed.len, 0);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_put(&b, &seed, sizeof seed);
  put_counted(&b, s->model);
  s->init = xxh64(&b);
  buf_free(&b);
  return 0;
}

static void xxh64_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                      void *second) {
  (void)second;
  const struct blockhash_settings *s = c->settings;
  uint64_t *hashes = out;
  struct buf *b = &c->scratch;
  for (size_t i = 0; i < run->n; i++) {
    buf_reset(b);
    buf_put(b, &c->last.number, sizeof c->last.number);
    buf_put(b, run->data + i * run->each, run->each);
    for (size_t m = 0; m < s->n_mm; m++)
      if (blockhash_mm_in_block(s, &s->mm[m], c->blocks + i))
        put_counted(b, s->mm[m].id);
    c->last.number = hashes[i] = xxh64(b);
  }
}

static const struct blockhash_field init_fields[] = {{"init_hash", FORM_INIT, false},
                                                     {NULL, 0, false}};

#define PRECISE (PARAM(HASH_SEED) | PARAM(MODEL) | PARAM(PARENT_HEX) | PARAM(MM))

const struct blockhash_scheme blockhash_schemes_llmd[] = {
    {.name = "llmd-cbor-fnv",
     .about = "llm-d-kv-cache since December 2025, llm-d-router",
     .fields = init_fields,
     .params = PRECISE,
     .block_size = 16,
     .takes = TAKES_TOKENS,
     .width = 8,
     .unit = 8,
     .open = fnv_open,
     .run = fnv_run},
    {.name = "llmd-xxh64",
     .about = "llm-d-router with hashAlgorithm xxh64",
     .fields = init_fields,
     .params = PRECISE,
     .block_size = 16,
     .takes = TAKES_TOKENS,
     .width = 8,
     .unit = 4,
     .open = xxh64_open,
     .run = xxh64_run},
    {.name = "llmd-cbor-fnv-nomodel",
     .about = "llm-d-kv-cache a378f5b, December 2025",
     .fields = init_fields,
     .params = PARAM(HASH_SEED),
     .block_size = 16,
     .takes = TAKES_TOKENS,
     .width = 8,
     .unit = 8,
     .open = fnv_nomodel_open,
     .run = fnv_run},
    {.name = NULL},
};
