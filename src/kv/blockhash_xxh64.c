/* blockhash_xxh64.c: schemes over XXH64: the endpoint picker's approximate prefix (tokens and
 * text), AIBrix, Mooncake's old conductor, production-stack.
 *
 * Source: shared/facts/block-hashing.md sections 3 and 7. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "kv/blockhash_scheme.h"

/* XXH64 of the bytes of two things, one behind the other. */
static uint64_t joined(struct buf *b, const void *a, size_t a_len, const void *z, size_t z_len,
                       uint64_t seed) {
  buf_reset(b);
  buf_put(b, a, a_len);
  buf_put(b, z, z_len);
  return XXH64(b->len ? b->data : "", b->len, seed);
}

/* ---- where the endpoint picker's chains start: model and salt, nothing between them ---- */

static int picker_open(struct blockhash_settings *s, struct err *err) {
  int rc =
      blockhash_settings_need(s, &s->model, "model", "the model's name as in the request", err);
  if (rc)
    return rc;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  s->init = joined(&b, s->model.data, s->model.len, s->cache_salt.data, s->cache_salt.len, 0);
  buf_free(&b);
  return 0;
}

/* ---- epp-approx-tokens: content hash, then the hash before; the last block may be short ---- */

#define MAX_PREFIX_TOKENS 131072

static int approx_tokens_open(struct blockhash_settings *s, struct err *err) {
  if (!s->cap)
    s->cap = MAX_PREFIX_TOKENS / s->block_size;
  if (!s->cap)
    s->cap = 1;
  return picker_open(s, err);
}

static uint64_t approx_token_block(const uint8_t *data, size_t len, uint64_t before) {
  uint64_t both[2] = {XXH64(data, len, 0), before};
  return XXH64(both, sizeof both, 0);
}

static void approx_tokens_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                              void *second) {
  (void)second;
  uint64_t *hashes = out;
  for (size_t i = 0; i < run->n; i++)
    c->last.number = hashes[i] =
        approx_token_block(run->data + i * run->each, run->each, c->last.number);
}

/* Text stands for tokens of four bytes, the last one padded with zeros. */
static bool approx_tokens_rest(struct blockhash_chain *c, const uint8_t *data, size_t len,
                               void *out, void *second) {
  (void)second;
  if (!len)
    return false;
  buf_reset(&c->scratch);
  buf_put(&c->scratch, data, len);
  while (c->scratch.len % 4)
    buf_putc(&c->scratch, '\0');
  *(uint64_t *)out =
      approx_token_block((const uint8_t *)c->scratch.data, c->scratch.len, c->last.number);
  return true;
}

/* ---- epp-approx-chars ---- */

#define APPROX_MAX_BLOCKS 256

static bool overwrites(const struct blockhash_settings *s) {
  return blockhash_text_is(s->variant, "gie-v1.0") || blockhash_text_is(s->variant, "gie-v0.5");
}

static int approx_chars_open(struct blockhash_settings *s, struct err *err) {
  int rc = blockhash_settings_need(
      s, &s->variant, "variant",
      "gie-v1.1-v1.5, llm-d-sched-2026-05, gie-v1.0 or gie-v0.5: the release that runs", err);
  if (rc)
    return rc;
  if (overwrites(s) && s->block_size < 8)
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: %s overwrites the 8 bytes behind each block, which is defined here for a "
                   "block_size of 8 or more",
                   s->scheme->name, s->variant.data);
  if (overwrites(s) && s->cache_salt.len)
    return err_set(err, ERR_INVALID, "%s: %s knows no cache_salt; leave it out", s->scheme->name,
                   s->variant.data);
  if (!s->cap)
    s->cap = APPROX_MAX_BLOCKS;
  s->lead = blockhash_text_is(s->variant, "gie-v0.5");
  return picker_open(s, err);
}

/* v0.5 and v1.0 append the parent's 8 bytes to the block in Go's sense: into the prompt itself,
 * over the beginning of the next block, which is hashed like that. */
static void approx_chars_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                             void *second) {
  (void)second;
  const struct blockhash_settings *s = c->settings;
  uint64_t *hashes = out;
  bool over = overwrites(s), model_first = blockhash_text_is(s->variant, "gie-v1.0");
  for (size_t i = 0; i < run->n; i++) {
    const uint8_t *block = run->data + i * run->each;
    uint64_t number = c->blocks + i, before = c->last.number;
    if (model_first && number == 0) {
      hashes[i] = joined(&c->scratch, s->model.data, s->model.len, block, run->each, 0);
    } else {
      buf_reset(&c->scratch);
      buf_put(&c->scratch, block, run->each);
      if (over && number > (model_first ? 1U : 0U))
        memcpy(c->scratch.data, &c->overwritten, sizeof c->overwritten);
      buf_put(&c->scratch, &before, sizeof before);
      hashes[i] = XXH64(c->scratch.data, c->scratch.len, 0);
      c->overwritten = before;
    }
    c->last.number = hashes[i];
  }
}

static bool approx_chars_rest(struct blockhash_chain *c, const uint8_t *data, size_t len, void *out,
                              void *second) {
  (void)second;
  if (!len || c->blocks == 0 || !blockhash_text_is(c->settings->variant, "llm-d-sched-2026-05"))
    return false;
  *(uint64_t *)out = joined(&c->scratch, data, len, &c->last.number, sizeof c->last.number, 0);
  return true;
}

/* ---- aibrix-xxh64: blocks of bytes; token ids are big endian ---- */

static int aibrix_open(struct blockhash_settings *s, struct err *err) {
  if (!s->seed.given)
    return err_set(
        err, ERR_INVALID,
        "%s: seed is missing: AIBRIX_PREFIX_CACHE_HASH_SEED of the server; unset it is 0 "
        "with AIBRIX_STATESYNC_ENABLED, else random, which no client can know",
        s->scheme->name);
  s->init = s->seed.value;
  s->stride = s->block_size;
  return 0;
}

static void aibrix_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                       void *second) {
  (void)second;
  uint64_t *hashes = out, seed = c->settings->seed.value;
  for (size_t i = 0; i < run->n; i++)
    c->last.number = hashes[i] = joined(&c->scratch, &c->last.number, sizeof c->last.number,
                                        run->data + i * run->each, run->each, seed);
}

/* ---- mooncake-conductor-xxh64 ---- */

static int mooncake_open(struct blockhash_settings *s, struct err *err) {
  (void)err;
  s->init = s->parent.given ? s->parent.value
                            : XXH64(s->additional_salt.len ? s->additional_salt.data : "",
                                    s->additional_salt.len, 0);
  return 0;
}

static void mooncake_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                         void *second) {
  (void)second;
  uint64_t *hashes = out;
  for (size_t i = 0; i < run->n; i++)
    c->last.number = hashes[i] = joined(&c->scratch, &c->last.number, sizeof c->last.number,
                                        run->data + i * run->each, run->each, 0);
}

/* ---- pstack-xxh64: pieces of 128 characters (Python) or bytes (Go), not chained ---- */

static int pstack_open(struct blockhash_settings *s, struct err *err) {
  return blockhash_settings_need(s, &s->variant, "variant",
                                 "python (the router: characters) or go (the picker: bytes)", err);
}

static size_t pstack_cut(const struct blockhash_settings *s, const uint8_t *data, size_t len) {
  if (s->variant.data[0] == 'g' && len >= s->block_size)
    return s->block_size;
  size_t chars = 0;
  if (len < s->block_size) /* no use counting */
    return 0;
  for (size_t i = 0; i < len; i++) {
    bool begins = (data[i] & 0xc0) != 0x80;
    if (begins && chars++ == s->block_size)
      return i;
  }
  return chars == s->block_size ? len : 0; /* whole characters are fed */
}

static void pstack_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                       void *second) {
  (void)c, (void)second;
  uint64_t *hashes = out;
  for (size_t i = 0; i < run->n; i++)
    hashes[i] = XXH64(run->data + i * run->each, run->each, 0);
}

static bool pstack_rest(struct blockhash_chain *c, const uint8_t *data, size_t len, void *out,
                        void *second) {
  (void)c, (void)second;
  if (!len || !data)
    return false;
  *(uint64_t *)out = XXH64(data, len, 0);
  return true;
}

static const struct blockhash_field init_fields[] = {{"init_hash", FORM_INIT, false},
                                                     {NULL, 0, false}};

const struct blockhash_scheme blockhash_schemes_xxh64[] = {
    {.name = "epp-approx-tokens",
     .about = "llm-d-router's approximate prefix",
     .fields = init_fields,
     .params = PARAM(MODEL) | PARAM(CACHE_SALT) | PARAM(MAX_BLOCKS),
     .block_size = 64,
     .takes = TAKES_TOKENS | TAKES_TEXT,
     .width = 8,
     .unit = 4,
     .open = approx_tokens_open,
     .run = approx_tokens_run,
     .rest = approx_tokens_rest},
    {.name = "epp-approx-chars",
     .about = "gateway-api-inference-extension v0.5 to v1.5, llm-d scheduler",
     .params = PARAM(MODEL) | PARAM(CACHE_SALT) | PARAM(VARIANT_EPP) | PARAM(MAX_BLOCKS),
     .block_size = 64,
     .takes = TAKES_TEXT,
     .width = 8,
     .unit = 1,
     .open = approx_chars_open,
     .run = approx_chars_run,
     .rest = approx_chars_rest},
    {.name = "aibrix-xxh64",
     .about = "AIBrix's prefix-cache policy; block_size in bytes",
     .params = PARAM(SEED_NUMBER),
     .block_size = 4,
     .takes = TAKES_TOKENS | TAKES_TEXT | TAKES_BIG_ENDIAN,
     .width = 8,
     .unit = 4,
     .open = aibrix_open,
     .run = aibrix_run},
    {.name = "mooncake-conductor-xxh64",
     .about = "Mooncake conductor, old",
     .params = PARAM(ADDITIONAL_SALT) | PARAM(PARENT_NUMBER),
     .block_size = 16,
     .takes = TAKES_TOKENS | TAKES_NEGATIVE,
     .width = 8,
     .unit = 4,
     .open = mooncake_open,
     .run = mooncake_run},
    {.name = "pstack-xxh64",
     .about = "vLLM production-stack: pieces of the text",
     .params = PARAM(VARIANT_PSTACK),
     .block_size = 128,
     .takes = TAKES_TEXT,
     .width = 8,
     .unit = 1,
     .open = pstack_open,
     .run = pstack_run,
     .rest = pstack_rest,
     .cut = pstack_cut},
    {.name = NULL},
};
