/* blockhash_vllm.c: vLLM's block hashes and those that repeat them: LMCache with a vLLM hash,
 * llm-d's kv-cache-manager up to 0.4.
 *
 * Each block hashes (parent, tokens, extra keys); the first parent is NONE_HASH, the hash of a seed
 * text that only the server's operator knows, so it is never guessed. Source:
 * shared/facts/block-hashing.md sections 2, 3 and 6. */
#include "base/mem.h"
#include "kv/blockhash_scheme.h"
#include "kv/blockhash_tuple.h"

#define SEED_WHY                                                                                   \
  "give seed = the text of the server's PYTHONHASHSEED, or none_hash = NONE_HASH itself in hex. "  \
  "Newest vLLM with PYTHONHASHSEED unset and sha256 or sha256_cbor uses seed = "                   \
  "\"vllm-none-hash\"; every other vLLM with it unset starts from random bytes, which no client "  \
  "can know: set it on the server"

/* ---- where the chain starts ---- */

static int seed_of(struct blockhash_settings *s, struct blockhash_text *out, struct err *err) {
  struct blockhash_text a = s->seed_text, b = s->pythonhashseed;
  if (a.data && b.data && (a.len != b.len || memcmp(a.data, b.data, a.len) != 0))
    return err_set(err, ERR_INVALID,
                   "%s: seed and pythonhashseed are the same thing and differ; give one",
                   s->scheme->name);
  *out = a.data ? a : b;
  return blockhash_settings_need(s, out, "seed", SEED_WHY, err);
}

/* NONE_HASH into settings->root, from none_hash or from a seed text. */
static int open_root(struct blockhash_settings *s, bool may_be_zero, struct err *err) {
  struct blockhash_text seed = {NULL, 0};
  s->width = s->root_len = tuple_width(s->hash);
  if (s->none_hash.data) {
    if (may_be_zero && blockhash_text_is(s->none_hash, "0")) {
      s->root_len = 0; /* the number 0 */
      return 0;
    }
    if (blockhash_from_hex(s->none_hash, s->root, s->root_len))
      return 0;
    return err_set(err, ERR_INVALID, "%s: none_hash is \"%.80s\"; it must be %d hex digits%s",
                   s->scheme->name, s->none_hash.data, 2 * s->root_len,
                   may_be_zero ? ", or \"0\" where vLLM could not be imported" : "");
  }
  int rc = seed_of(s, &seed, err);
  if (rc)
    return rc;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  tuple_encode_text(&b, s->hash, seed);
  tuple_digest(s->hash, &b, s->root);
  buf_free(&b);
  return 0;
}

static bool same_text(struct blockhash_text a, struct blockhash_text b) {
  return a.data && b.data && a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Whether two items, b behind a, lie over one and the same block. */
static bool share_block(const struct blockhash_settings *s, const struct blockhash_mm *a,
                        const struct blockhash_mm *b) {
  return b->offset / s->block_size <= (a->offset + a->length - 1) / s->block_size;
}

/* Equal texts in one pickled tuple: whether the engine has one string object or two decides the
 * bytes, and no client can know. */
static int refuse_twins(const struct blockhash_settings *s, struct err *err) {
  static const char why[] = "the pickle of such a block depends on whether vLLM holds one string "
                            "object or two, so its hash cannot be known; sha256_cbor has no such "
                            "gap";
  if (!tuple_is_pickled(s->hash))
    return 0;
  if (s->lora_name.len && same_text(s->lora_name, s->cache_salt))
    return err_set(err, ERR_UNSUPPORTED, "%s: lora_name and cache_salt are the same text: %s",
                   s->scheme->name, why);
  for (size_t i = 0; i < s->n_mm; i++) {
    const struct blockhash_mm *m = &s->mm[i];
    if (m->id.len && (same_text(m->id, s->lora_name) ||
                      (same_text(m->id, s->cache_salt) && blockhash_mm_in_block(s, m, 0))))
      return err_set(err, ERR_UNSUPPORTED,
                     "%s: a multimodal identifier equals lora_name or cache_salt: %s",
                     s->scheme->name, why);
    for (size_t k = i + 1; k < s->n_mm; k++)
      if (same_text(m->id, s->mm[k].id) && share_block(s, m, &s->mm[k]))
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: the same multimodal identifier twice in one block: %s", s->scheme->name,
                       why);
  }
  return 0;
}

static int vllm_open(struct blockhash_settings *s, enum tuple_hash hash, struct err *err) {
  s->hash = hash;
  int rc = open_root(s, false, err);
  if (!rc && s->mm_form.data && !s->n_mm)
    rc = err_set(err, ERR_INVALID, "%s: mm_form says how mm is written, and there is no mm",
                 s->scheme->name);
  if (!rc && s->n_mm)
    rc = blockhash_settings_need(s, &s->mm_form, "mm_form",
                                 "\"tuple\" for vLLM since March 2026 (PR #36708: identifier and "
                                 "offset), \"bare\" for older ones (the identifier alone)",
                                 err);
  return rc ? rc : refuse_twins(s, err);
}

static int open_sha256(struct blockhash_settings *s, struct err *err) {
  return vllm_open(s, TUPLE_SHA256, err);
}
static int open_sha256_cbor(struct blockhash_settings *s, struct err *err) {
  return vllm_open(s, TUPLE_SHA256_CBOR, err);
}
static int open_xxhash(struct blockhash_settings *s, struct err *err) {
  return vllm_open(s, TUPLE_XXHASH, err);
}
static int open_xxhash_cbor(struct blockhash_settings *s, struct err *err) {
  return vllm_open(s, TUPLE_XXHASH_CBOR, err);
}

static uint64_t last8(const uint8_t *digest, size_t width) {
  return blockhash_be64(digest + width - 8);
}

/* vLLM 0.10.0 and 0.10.1: every digest cut to its low 64 bits at once. */
static int open_cbor_64bit(struct blockhash_settings *s, struct err *err) {
  s->hash = TUPLE_SHA256_CBOR;
  if (s->none_hash.data) {
    uint8_t bytes[8];
    if (!blockhash_from_hex(s->none_hash, bytes, sizeof bytes))
      return err_set(err, ERR_INVALID, "%s: none_hash is \"%.80s\"; it must be 16 hex digits",
                     s->scheme->name, s->none_hash.data);
    s->init = blockhash_be64(bytes);
    return 0;
  }
  int rc = open_root(s, false, err);
  s->init = last8(s->root, s->root_len);
  s->root_len = 0;
  s->width = 8;
  return rc;
}

static void llmd_root(struct blockhash_settings *s) {
  struct err err;
  s->hash = TUPLE_SHA256_CBOR;
  s->seed_text = s->hash_seed.data ? s->hash_seed : (struct blockhash_text){"", 0};
  int rc = open_root(s, false, &err);
  assert(rc == 0);
  s->width = 8;
}

static int open_llmd_cbor(struct blockhash_settings *s, struct err *err) {
  (void)err;
  llmd_root(s);
  return 0;
}

static int open_llmd_cbor_64bit(struct blockhash_settings *s, struct err *err) {
  (void)err;
  llmd_root(s);
  s->init = last8(s->root, s->root_len);
  s->root_len = 0;
  return 0;
}

static int open_lmcache(struct blockhash_settings *s, struct err *err) {
  int rc = blockhash_settings_need(s, &s->algorithm, "algorithm",
                                   "sha256, sha256_cbor, xxhash or xxhash_cbor, as in LMCache's "
                                   "pre_caching_hash_algorithm (its default, builtin, is the "
                                   "scheme lmcache-builtin)",
                                   err);
  if (rc)
    return rc;
  s->hash = tuple_hash_from(s->algorithm);
  return open_root(s, true, err);
}

/* ---- blocks ---- */

#define FEW_EXTRAS 16

struct extras {
  struct tuple_extra few[FEW_EXTRAS], *all;
  size_t n;
};

/* LoRA, multimodal items, salt in the first block, embeds: in this order. */
static void extras_of(const struct blockhash_settings *s, uint64_t block, struct extras *e) {
  size_t most = s->n_mm + 3;
  e->all = most > FEW_EXTRAS ? mem_calloc(most, sizeof *e->all) : e->few;
  e->n = 0;
  if (s->lora_name.len)
    e->all[e->n++] = (struct tuple_extra){.kind = EXTRA_TEXT, .text = s->lora_name};
  bool bare = blockhash_text_is(s->mm_form, "bare");
  for (size_t i = 0; i < s->n_mm; i++)
    if (blockhash_mm_in_block(s, &s->mm[i], block))
      e->all[e->n++] = (struct tuple_extra){.kind = bare ? EXTRA_TEXT : EXTRA_PAIR,
                                            .text = s->mm[i].id,
                                            .offset = (int64_t)s->mm[i].offset -
                                                      (int64_t)(block * s->block_size)};
  if (s->cache_salt.len && block == 0)
    e->all[e->n++] = (struct tuple_extra){.kind = EXTRA_TEXT, .text = s->cache_salt};
  if (block < s->n_embeds)
    e->all[e->n++] = (struct tuple_extra){
        .kind = EXTRA_BYTES, .text = {(const char *)s->embeds[block], sizeof s->embeds[block]}};
}

static void extras_done(struct extras *e) {
  if (e->all != e->few)
    mem_free(e->all);
}

/* The digest of the block `data`, whose parent is a digest or, with width 0, a number. */
static void hash_block(struct blockhash_chain *c, const uint8_t *data, size_t len, uint64_t block,
                       bool parent_is_number, uint8_t *out) {
  const struct blockhash_settings *s = c->settings;
  struct tuple t = {.parent = parent_is_number ? NULL : c->last.digest,
                    .parent_len = tuple_width(s->hash),
                    .parent_number = c->last.number,
                    .tokens = (const int64_t *)(const void *)data,
                    .n_tokens = len / sizeof(int64_t)};
  struct extras e = {.n = 0};
  bool any = s->lora_name.len || s->n_mm || s->cache_salt.len || s->n_embeds;
  if (any) {
    extras_of(s, block, &e);
    t.extra = e.all;
    t.n_extra = e.n;
  }
  if (tuple_is_pickled(s->hash))
    tuple_encode_pickle(&c->scratch, &t);
  else
    tuple_encode_cbor(&c->scratch, &t);
  tuple_digest(s->hash, &c->scratch, out);
  if (any)
    extras_done(&e);
}

static void digest_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                       void *second) {
  (void)second;
  const struct blockhash_settings *s = c->settings;
  uint8_t *hashes = out;
  for (size_t i = 0; i < run->n; i++, hashes += s->width) {
    /* LMCache without vLLM starts from the number 0. */
    hash_block(c, run->data + i * run->each, run->each, c->blocks + i,
               s->root_len == 0 && c->blocks + i == 0, hashes);
    memcpy(c->last.digest, hashes, s->width);
  }
}

static bool digest_rest(struct blockhash_chain *c, const uint8_t *data, size_t len, void *out,
                        void *second) {
  (void)second;
  if (!len || !c->settings->save_unfull_chunk)
    return false;
  hash_block(c, data, len, c->blocks, c->settings->root_len == 0 && c->blocks == 0, out);
  return true;
}

static void number_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                       void *second) {
  (void)second;
  uint64_t *hashes = out;
  for (size_t i = 0; i < run->n; i++) {
    uint8_t digest[32];
    hash_block(c, run->data + i * run->each, run->each, c->blocks + i, true, digest);
    c->last.number = hashes[i] = last8(digest, sizeof digest);
  }
}

/* Keys are the digests' last bytes; the digests themselves are chained. */
static void key_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                    void *second) {
  uint64_t *keys = out;
  uint8_t *digests = second;
  for (size_t i = 0; i < run->n; i++, digests += 32) {
    hash_block(c, run->data + i * run->each, run->each, c->blocks + i, false, digests);
    memcpy(c->last.digest, digests, 32);
    keys[i] = last8(digests, 32);
  }
}

static const struct blockhash_field vllm_fields[] = {
    {"event_hashes", FORM_LAST8, true}, {"none_hash", FORM_ROOT, false}, {NULL, 0, false}};
static const struct blockhash_field root_fields[] = {{"none_hash", FORM_ROOT, false},
                                                     {NULL, 0, false}};
static const struct blockhash_field key_fields[] = {
    {"digests", FORM_SECOND, false}, {"none_hash", FORM_ROOT, false}, {NULL, 0, false}};

#define SEEDS (PARAM(SEED_TEXT) | PARAM(NONE_HASH) | PARAM(PYTHONHASHSEED))
#define VLLM_PARAMS                                                                                \
  (SEEDS | PARAM(CACHE_SALT) | PARAM(LORA_NAME) | PARAM(MM) | PARAM(MM_FORM) | PARAM(PROMPT_EMBEDS))
#define VLLM(id, text, bytes, open_fn)                                                             \
  {                                                                                                \
    .name = (id), .about = (text), .fields = vllm_fields, .params = VLLM_PARAMS, .block_size = 16, \
    .takes = TAKES_TOKENS | TAKES_NEGATIVE, .width = (bytes), .unit = 8, .open = (open_fn),        \
    .run = digest_run                                                                              \
  }

const struct blockhash_scheme blockhash_schemes_vllm[] = {
    VLLM("vllm-sha256", "vLLM's default: SHA-256 of a pickle", 32, open_sha256),
    VLLM("vllm-sha256-cbor", "vLLM sha256_cbor, as llm-d's guides set it", 32, open_sha256_cbor),
    VLLM("vllm-xxhash", "vLLM xxhash: XXH3-128 of a pickle", 16, open_xxhash),
    VLLM("vllm-xxhash-cbor", "vLLM xxhash_cbor", 16, open_xxhash_cbor),
    {.name = "vllm-sha256-cbor-64bit",
     .about = "vLLM 0.10.0 and 0.10.1: sha256_cbor_64bit",
     .fields = root_fields,
     .params = SEEDS | PARAM(CACHE_SALT) | PARAM(LORA_NAME),
     .block_size = 16,
     .takes = TAKES_TOKENS | TAKES_NEGATIVE,
     .width = 8,
     .unit = 8,
     .open = open_cbor_64bit,
     .run = number_run},
    {.name = "llmd-sha256-cbor",
     .about = "llm-d kv-cache-manager v0.3.1 to v0.4.0",
     .fields = key_fields,
     .params = PARAM(HASH_SEED),
     .block_size = 16,
     .takes = TAKES_TOKENS,
     .width = 8,
     .second = 32,
     .unit = 8,
     .open = open_llmd_cbor,
     .run = key_run},
    {.name = "llmd-sha256-cbor-64bit",
     .about = "llm-d kv-cache-manager v0.2.0 to v0.3.0",
     .fields = root_fields,
     .params = PARAM(HASH_SEED),
     .block_size = 16,
     .takes = TAKES_TOKENS,
     .width = 8,
     .unit = 8,
     .open = open_llmd_cbor_64bit,
     .run = number_run},
    {.name = "lmcache-vllm-hash",
     .about = "LMCache with one of vLLM's hashes",
     .fields = root_fields,
     .params = SEEDS | PARAM(ALGORITHM) | PARAM(SAVE_UNFULL_CHUNK),
     .block_size = 256,
     .takes = TAKES_TOKENS | TAKES_NEGATIVE,
     .width = 32,
     .unit = 8,
     .open = open_lmcache,
     .run = digest_run,
     .rest = digest_rest},
    {.name = NULL},
};
