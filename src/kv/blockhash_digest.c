/* blockhash_digest.c: schemes over plain SHA-256 and BLAKE3: SGLang, LMCache's multiprocess server,
 * SMG's path ids, the benchmark's historic sha256-8.
 *
 * Source: shared/facts/block-hashing.md sections 1, 5 and 6. */
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Init: no allocation and no provider look-up per      \
                                       block */
#include <openssl/sha.h>

#include "kv/blockhash_scheme.h"

/* ---- sglang ---- */

static void add_key(SHA256_CTX *ctx, struct blockhash_text key) {
  uint8_t head = key.data != NULL;
  uint64_t len = key.len;
  SHA256_Update(ctx, &head, 1);
  if (!key.data)
    return;
  SHA256_Update(ctx, &len, sizeof len);
  SHA256_Update(ctx, key.data, key.len);
}

/* With root_len 0 the first page has nothing before its tokens. */
static int sglang_open(struct blockhash_settings *s, struct err *err) {
  static const char salt_head[] = "sglang-cache-salt-v1"; /* with its NUL */
  static const char storage_head[] = "sglang-cache-namespace-v1";
  (void)err;
  SHA256_CTX ctx;
  SHA256_Init(&ctx);
  if (blockhash_text_is(s->chain, "storage")) {
    SHA256_Update(&ctx, storage_head, sizeof storage_head - 1);
    add_key(&ctx, s->extra_key);
    add_key(&ctx, s->cache_salt);
    s->root_len = s->extra_key.data || s->cache_salt.data ? sizeof s->root : 0;
  } else {
    SHA256_Update(&ctx, salt_head, sizeof salt_head);
    SHA256_Update(&ctx, s->cache_salt.data, s->cache_salt.len);
    s->root_len = s->cache_salt.len ? sizeof s->root : 0;
  }
  SHA256_Final(s->root, &ctx);
  s->overlap = s->bigram;
  return 0;
}

/* The digest of a page of `len` bytes, the overlap behind them aside. */
static void sglang_page(const struct blockhash_chain *c, const uint8_t *data, size_t len,
                        uint64_t block, uint8_t *out) {
  SHA256_CTX ctx;
  SHA256_Init(&ctx);
  if (block || c->settings->root_len)
    SHA256_Update(&ctx, c->last.digest, sizeof c->last.digest);
  if (!c->settings->bigram) {
    SHA256_Update(&ctx, data, len);
  } else {
    for (size_t i = 0; i < len; i += sizeof(uint32_t)) /* each token with the one behind it */
      SHA256_Update(&ctx, data + i, 2 * sizeof(uint32_t));
  }
  SHA256_Final(out, &ctx);
}

static void sglang_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                       void *second) {
  (void)second;
  uint8_t *hashes = out;
  for (size_t i = 0; i < run->n; i++, hashes += sizeof c->last.digest) {
    sglang_page(c, run->data + i * run->each, run->each, c->blocks + i, hashes);
    memcpy(c->last.digest, hashes, sizeof c->last.digest);
  }
}

static bool sglang_rest(struct blockhash_chain *c, const uint8_t *data, size_t len, void *out,
                        void *second) {
  (void)second;
  size_t overlap = (size_t)c->settings->overlap * c->settings->unit;
  if (len <= overlap || !blockhash_text_is(c->settings->partial, "hash"))
    return false;
  sglang_page(c, data, len - overlap, c->blocks, out);
  return true;
}

/* ---- sha256-8 ---- */

static int sha8_open(struct blockhash_settings *s, struct err *err) {
  (void)err;
  s->init = s->parent.value;
  return 0;
}

static void sha8_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                     void *second) {
  (void)second;
  uint64_t *hashes = out;
  for (size_t i = 0; i < run->n; i++) {
    uint8_t digest[32];
    uint64_t before = __builtin_bswap64(c->last.number);
    SHA256_CTX ctx;
    SHA256_Init(&ctx);
    SHA256_Update(&ctx, &before, sizeof before);
    SHA256_Update(&ctx, run->data + i * run->each, run->each);
    SHA256_Final(digest, &ctx);
    c->last.number = hashes[i] = blockhash_be64(digest);
  }
}

/* ---- lmcache-blake3 ---- */

static int blake_open(struct blockhash_settings *s, struct err *err) {
  static const uint8_t nothing[12] = {0}; /* what is hashed when vLLM's NONE_HASH is not there */
  s->root_len = sizeof s->root;
  if (!s->none_hash.data)
    blake3(nothing, sizeof nothing, s->root);
  else if (!blockhash_from_hex(s->none_hash, s->root, sizeof s->root))
    return err_set(err, ERR_INVALID, "%s: none_hash is \"%.80s\"; it must be 64 hex digits",
                   s->scheme->name, s->none_hash.data);
  return 0;
}

static void blake_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                      void *second) {
  (void)second;
  uint8_t *hashes = out;
  for (size_t i = 0; i < run->n; i++, hashes += BLAKE3_DIGEST) {
    struct blake3 h;
    blake3_init(&h);
    blake3_add(&h, c->last.digest, sizeof c->last.digest);
    blake3_add(&h, run->data + i * run->each, run->each);
    blake3_digest(&h, hashes);
    memcpy(c->last.digest, hashes, BLAKE3_DIGEST);
  }
}

/* ---- smg-path-hash: one hash of everything ---- */

static bool path_rest(struct blockhash_chain *c, const uint8_t *data, size_t len, void *out,
                      void *second) {
  (void)data, (void)len, (void)second;
  uint8_t digest[BLAKE3_DIGEST];
  uint64_t low;
  blake3_digest(c->running, digest);
  memcpy(&low, digest, sizeof low);
  *(uint64_t *)out = low ? low : 1;
  return true;
}

static const struct blockhash_field sglang_fields[] = {{"event_i64", FORM_FIRST8, true},
                                                       {NULL, 0, false}};
static const struct blockhash_field blake_fields[] = {{"none_hash", FORM_ROOT, false},
                                                      {NULL, 0, false}};

const struct blockhash_scheme blockhash_schemes_digest[] = {
    {.name = "sglang",
     .about = "SGLang's events and HiCache storage; block_size is the page size",
     .fields = sglang_fields,
     .params = PARAM(BIGRAM) | PARAM(PARTIAL) | PARAM(CHAIN) | PARAM(EXTRA_KEY) | PARAM(CACHE_SALT),
     .block_size = 1,
     .takes = TAKES_TOKENS,
     .width = 32,
     .unit = 4,
     .open = sglang_open,
     .run = sglang_run,
     .rest = sglang_rest},
    {.name = "lmcache-blake3",
     .about = "LMCache's multiprocess server",
     .fields = blake_fields,
     .params = PARAM(NONE_HASH),
     .block_size = 256,
     .takes = TAKES_TOKENS | TAKES_BIG_ENDIAN,
     .width = 32,
     .unit = 4,
     .open = blake_open,
     .run = blake_run},
    {.name = "smg-path-hash",
     .about = "SMG's mesh and tree path ids: one hash of the whole",
     .takes = TAKES_TOKENS | TAKES_TEXT,
     .width = 8,
     .unit = 4,
     .rest = path_rest},
    {.name = "sha256-8",
     .about = "the inference-cache benchmark in June 2026 (matches no server of today)",
     .params = PARAM(PARENT_HEX),
     .block_size = 16,
     .takes = TAKES_TOKENS,
     .width = 8,
     .unit = 4,
     .open = sha8_open,
     .run = sha8_run},
    {.name = NULL},
};
