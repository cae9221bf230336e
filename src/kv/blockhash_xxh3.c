/* blockhash_xxh3.c: schemes over XXH3-64: inference-cache, NVIDIA Dynamo, SMG's prefix hash.
 *
 * Sources: shared/facts/block-hashing.md sections 1 and 4. */
#include <inttypes.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kv/blockhash_scheme.h"

static inline uint64_t link_of(uint64_t parent, uint64_t content, uint64_t seed) {
  uint64_t both[2] = {parent, content};
  return XXH3_64bits_withSeed(both, sizeof both, seed);
}

/* ---- ic-xxh3: the content's hash, chained to the block before when there is one ---- */

static int ic_open(struct blockhash_settings *s, struct err *err) {
  (void)err;
  if (!s->seed.given)
    s->seed.value = 1337;
  s->init = s->parent.value;
  return 0;
}

static void ic_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                   void *second) {
  const struct blockhash_settings *s = c->settings;
  uint64_t *hashes = out, *contents = second, seed = s->seed.value, last = c->last.number;
  const uint8_t *p = run->data;
  size_t i = 0;
  if (c->blocks == 0 && !s->parent.given && run->n) {
    last = hashes[0] = contents[0] = XXH3_64bits_withSeed(p, run->each, seed);
    p += run->each;
    i = 1;
  }
  for (; i < run->n; i++, p += run->each) {
    contents[i] = XXH3_64bits_withSeed(p, run->each, seed);
    last = hashes[i] = link_of(last, contents[i], seed);
  }
  c->last.number = last;
}

/* ---- dynamo: local hashes under a salted seed, chained under the plain one ---- */

#define DYNAMO_SEED 1337

static int dynamo_open(struct blockhash_settings *s, struct err *err) {
  (void)err;
  s->init = DYNAMO_SEED;
  if (s->lora_name.len)
    s->init += XXH3_64bits_withSeed(s->lora_name.data, s->lora_name.len, 0);
  if (s->cache_namespace.len)
    s->init += XXH3_64bits_withSeed(s->cache_namespace.data, s->cache_namespace.len, 1);
  s->overlap = s->is_eagle;
  return 0;
}

/* The first multimodal hash of a block in the sorted list. */
static size_t first_mm(const struct blockhash_settings *s, uint64_t block) {
  size_t lo = 0, hi = s->n_block_mm;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (s->block_mm[mid].block < block)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

static uint64_t dynamo_local(struct blockhash_chain *c, uint64_t block, const uint8_t *data,
                             size_t len) {
  const struct blockhash_settings *s = c->settings;
  size_t m = s->n_block_mm ? first_mm(s, block) : 0;
  if (m == s->n_block_mm || s->block_mm[m].block != block)
    return XXH3_64bits_withSeed(data, len, s->init);
  buf_reset(&c->scratch);
  buf_put(&c->scratch, data, len);
  for (; m < s->n_block_mm && s->block_mm[m].block == block; m++)
    buf_put(&c->scratch, &s->block_mm[m].hash, sizeof s->block_mm[m].hash);
  return XXH3_64bits_withSeed(c->scratch.data, c->scratch.len, s->init);
}

static void dynamo_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                       void *second) {
  const struct blockhash_settings *s = c->settings;
  uint64_t *locals = out, *sequence = second, last = c->last.number;
  size_t window = run->each + (size_t)s->overlap * s->unit;
  const uint8_t *p = run->data;
  for (size_t i = 0; i < run->n; i++, p += run->each) {
    locals[i] = s->n_block_mm ? dynamo_local(c, c->blocks + i, p, window)
                              : XXH3_64bits_withSeed(p, window, s->init);
    last = c->blocks + i ? link_of(last, locals[i], DYNAMO_SEED) : locals[i];
    sequence[i] = last;
  }
  c->last.number = last;
}

/* ---- smg-prefix-hash: one hash of the first tokens ---- */

static int prefix_open(struct blockhash_settings *s, struct err *err) {
  uint64_t n = s->prefix.given ? s->prefix.value : 256;
  if (n < 1 || n > BLOCKHASH_MAX_BLOCK)
    return err_set(err, ERR_INVALID,
                   "%s: prefix_token_count is %" PRIu64 "; it must be from 1 to 1048576",
                   s->scheme->name, n);
  s->stride = (size_t)n * s->unit;
  s->cap = 1;
  return 0;
}

static void prefix_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                       void *second) {
  (void)second;
  uint64_t *hashes = out;
  for (size_t i = 0; i < run->n; i++)
    c->last.number = hashes[i] = XXH3_64bits_withSeed(run->data + i * run->each, run->each, 0);
}

static bool prefix_rest(struct blockhash_chain *c, const uint8_t *data, size_t len, void *out,
                        void *second) {
  (void)c, (void)second;
  *(uint64_t *)out = len ? XXH3_64bits_withSeed(data, len, 0) : 0;
  return len > 0;
}

static const struct blockhash_field ic_fields[] = {{"content_hashes", FORM_SECOND, false},
                                                   {NULL, 0, false}};
static const struct blockhash_field dynamo_fields[] = {
    {"sequence_hashes", FORM_SECOND, false}, {"seed", FORM_INIT_DEC, false}, {NULL, 0, false}};

const struct blockhash_scheme blockhash_schemes_xxh3[] = {
    {.name = "ic-xxh3",
     .about = "inference-cache, SMG's event tree, Mooncake RFC #1527 (seed 1337 unless given)",
     .fields = ic_fields,
     .params = PARAM(SEED_NUMBER) | PARAM(PARENT_PREFIX),
     .block_size = 16,
     .takes = TAKES_TOKENS,
     .width = 8,
     .second = 8,
     .unit = 4,
     .open = ic_open,
     .run = ic_run},
    {.name = "dynamo",
     .about = "NVIDIA Dynamo: local and sequence hashes",
     .fields = dynamo_fields,
     .params = PARAM(LORA_NAME) | PARAM(CACHE_NAMESPACE) | PARAM(BLOCK_MM) | PARAM(IS_EAGLE),
     .block_size = 16,
     .takes = TAKES_TOKENS,
     .width = 8,
     .second = 8,
     .unit = 4,
     .open = dynamo_open,
     .run = dynamo_run},
    {.name = "smg-prefix-hash",
     .about = "SMG's prefix_hash policy: one hash of the first tokens",
     .params = PARAM(PREFIX_TOKEN_COUNT),
     .takes = TAKES_TOKENS,
     .width = 8,
     .unit = 4,
     .open = prefix_open,
     .run = prefix_run,
     .rest = prefix_rest},
    {.name = NULL},
};
