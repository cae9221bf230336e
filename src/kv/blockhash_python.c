/* blockhash_python.c: LMCache's `builtin` hash, which is CPython's hash() of a tuple, and Ranvier's
 * FNV-1a.
 *
 * Tuples and strings hash as in CPython from 3.12 on (before, hash(None) was an address). Source:
 * shared/facts/block-hashing.md sections 6 and 7. */
#include <inttypes.h>

#include "base/mem.h"
#include "kv/blockhash_scheme.h"
#include "text/utf8.h"

/* ---- CPython's hash() ---- */

#define NONE_HASH_VALUE UINT64_C(0xFCA86420)
#define INT_MODULUS ((UINT64_C(1) << 61) - 1)

/* hash(i): the magnitude modulo 2^61 − 1 with i's sign; −1 means an error and becomes −2. */
static int64_t int_hash(int64_t i) {
  uint64_t magnitude = i < 0 ? -(uint64_t)i : (uint64_t)i;
  int64_t h = (int64_t)(magnitude % INT_MODULUS);
  if (i < 0)
    h = -h;
  return h == -1 ? -2 : h;
}

#define LANE_1 UINT64_C(11400714785074694791)
#define LANE_2 UINT64_C(14029467366897019727)
#define LANE_5 UINT64_C(2870177450012600261)

static inline uint64_t rotl(uint64_t x, unsigned n) {
  return x << n | x >> (64 - n);
}

static inline uint64_t lane(uint64_t acc, uint64_t value) {
  return rotl(acc + value * LANE_2, 31) * LANE_1;
}

static uint64_t tuple_end(uint64_t acc, uint64_t n) {
  acc += n ^ (LANE_5 ^ UINT64_C(3527539));
  return acc == UINT64_MAX ? UINT64_C(1546275796) : acc;
}

/* hash((prefix, (token, …), None)) */
static int64_t chunk_hash(int64_t prefix, const int64_t *tokens, size_t n) {
  uint64_t inner = LANE_5;
  for (size_t i = 0; i < n; i++)
    inner = lane(inner, (uint64_t)int_hash(tokens[i]));
  inner = tuple_end(inner, n);
  uint64_t acc = lane(LANE_5, (uint64_t)int_hash(prefix));
  acc = lane(acc, inner);
  acc = lane(acc, NONE_HASH_VALUE);
  return (int64_t)tuple_end(acc, 3);
}

/* The secret of PYTHONHASHSEED, as its two SipHash keys: 0 is no secret at all. */
static void hash_secret(uint32_t seed, uint64_t key[2]) {
  uint8_t bytes[16] = {0};
  uint32_t x = seed;
  for (size_t i = 0; seed && i < sizeof bytes; i++) {
    x = x * 214013 + 2531011;
    bytes[i] = (uint8_t)(x >> 16);
  }
  memcpy(key, bytes, sizeof bytes);
}

static inline void sip_round(uint64_t v[4]) {
  v[0] += v[1];
  v[1] = rotl(v[1], 13) ^ v[0];
  v[0] = rotl(v[0], 32);
  v[2] += v[3];
  v[3] = rotl(v[3], 16) ^ v[2];
  v[0] += v[3];
  v[3] = rotl(v[3], 21) ^ v[0];
  v[2] += v[1];
  v[1] = rotl(v[1], 17) ^ v[2];
  v[2] = rotl(v[2], 32);
}

static uint64_t siphash13(const uint64_t key[2], const uint8_t *data, size_t len) {
  uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                   key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
  uint64_t last = (uint64_t)len << 56;
  for (; len >= 8; data += 8, len -= 8) {
    uint64_t word;
    memcpy(&word, data, sizeof word);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
  }
  for (size_t i = 0; i < len; i++)
    last |= (uint64_t)data[i] << 8 * i;
  v[3] ^= last;
  sip_round(v);
  v[0] ^= last;
  v[2] ^= 0xff;
  for (int i = 0; i < 3; i++)
    sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* hash(str): over the string as CPython holds it, one, two or four bytes a character. */
static int64_t str_hash(struct blockhash_text text, const uint64_t key[2]) {
  const char *end = text.data + text.len;
  uint32_t cp = 0, widest = 0;
  for (const char *p = text.data; p < end; p += utf8_decode(p, end, &cp), widest |= cp)
    ;
  size_t width = widest < 0x100 ? 1 : widest < 0x10000 ? 2 : 4, n = 0;
  uint8_t *units = mem_alloc(text.len * width);
  for (const char *p = text.data; p < end; n += width) {
    p += utf8_decode(p, end, &cp);
    memcpy(units + n, &cp, width);
  }
  uint64_t h = n ? siphash13(key, units, n) : 0;
  mem_free(units);
  return h == UINT64_MAX ? -2 : (int64_t)h;
}

/* ---- lmcache-builtin ---- */

static bool decimal(struct blockhash_text text, int64_t *out) {
  bool minus = text.len && text.data[0] == '-';
  uint64_t x = 0, limit = (uint64_t)INT64_MAX + minus;
  for (size_t i = minus; i < text.len; i++) {
    unsigned digit = (unsigned)(text.data[i] - '0');
    if (digit > 9 || x > (limit - digit) / 10)
      return false;
    x = x * 10 + digit;
  }
  *out = (int64_t)(minus ? -x : x);
  return text.len > minus;
}

static int hashed_seed(struct blockhash_settings *s, struct err *err) {
  int64_t seed;
  if (!decimal(s->pythonhashseed, &seed) || seed < 0 || seed > UINT32_MAX)
    return err_set(
        err, ERR_INVALID,
        "%s: pythonhashseed is \"%.40s\"; it must be a whole number from 0 to 4294967295 "
        "(with \"random\" no client can know the hashes)",
        s->scheme->name, s->pythonhashseed.data);
  uint64_t key[2];
  hash_secret((uint32_t)seed, key);
  s->init =
      (uint64_t)str_hash(s->none_hash_string.data ? s->none_hash_string : s->pythonhashseed, key);
  return 0;
}

static int builtin_open(struct blockhash_settings *s, struct err *err) {
  int64_t number;
  bool from_seed = blockhash_text_is(s->none_hash, "pythonhashseed");
  if (!s->none_hash.data || from_seed) {
    int rc = blockhash_settings_need(
        s, &s->pythonhashseed, "pythonhashseed",
        "give the server's PYTHONHASHSEED, or none_hash = the number the chain starts from (\"0\" "
        "where vLLM could not be imported); without PYTHONHASHSEED no client can know it",
        err);
    return rc ? rc : hashed_seed(s, err);
  }
  if (!decimal(s->none_hash, &number))
    return err_set(err, ERR_INVALID,
                   "%s: none_hash is \"%.40s\"; it must be a whole number in decimal, or "
                   "\"pythonhashseed\"",
                   s->scheme->name, s->none_hash.data);
  s->init = (uint64_t)number;
  return 0;
}

static void builtin_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                        void *second) {
  (void)second;
  uint64_t *hashes = out;
  for (size_t i = 0; i < run->n; i++)
    c->last.number = hashes[i] = (uint64_t)chunk_hash(
        (int64_t)c->last.number, (const int64_t *)(const void *)(run->data + i * run->each),
        run->each / sizeof(int64_t));
}

static bool builtin_rest(struct blockhash_chain *c, const uint8_t *data, size_t len, void *out,
                         void *second) {
  (void)second;
  if (!len || !c->settings->save_unfull_chunk)
    return false;
  *(int64_t *)out = chunk_hash((int64_t)c->last.number, (const int64_t *)(const void *)data,
                               len / sizeof(int64_t));
  return true;
}

/* ---- ranvier-fnv1a: one hash of the first tokens, a whole number of alignments of them ---- */

static int ranvier_open(struct blockhash_settings *s, struct err *err) {
  uint64_t n = s->prefix.given ? s->prefix.value : 128;
  if (n < 1 || n > BLOCKHASH_MAX_BLOCK)
    return err_set(err, ERR_INVALID,
                   "%s: prefix_token_length is %" PRIu64 "; it must be from 1 to 1048576",
                   s->scheme->name, n);
  if (n >= s->block_size)
    n -= n % s->block_size;
  s->stride = (size_t)n * s->unit;
  s->cap = 1;
  return 0;
}

static uint64_t fnv1a(const uint8_t *p, size_t len) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < len; i++)
    h = (h ^ p[i]) * UINT64_C(0x100000001b3);
  return h;
}

static void ranvier_run(struct blockhash_chain *c, const struct blockhash_run *run, void *out,
                        void *second) {
  (void)second;
  uint64_t *hashes = out;
  for (size_t i = 0; i < run->n; i++)
    c->last.number = hashes[i] = fnv1a(run->data + i * run->each, run->each);
}

static bool ranvier_rest(struct blockhash_chain *c, const uint8_t *data, size_t len, void *out,
                         void *second) {
  (void)second;
  size_t align = (size_t)c->settings->block_size * c->settings->unit;
  *(uint64_t *)out = fnv1a(data, len < align ? len : len - len % align);
  return true;
}

static const struct blockhash_field builtin_fields[] = {{"int_hashes", FORM_SIGNED, true},
                                                        {NULL, 0, false}};

const struct blockhash_scheme blockhash_schemes_python[] = {
    {.name = "lmcache-builtin",
     .about = "LMCache's default, Python's hash(), on CPython 3.12 or later",
     .fields = builtin_fields,
     .params = PARAM(NONE_HASH) | PARAM(NONE_HASH_STRING) | PARAM(PYTHONHASHSEED) |
               PARAM(SAVE_UNFULL_CHUNK),
     .block_size = 256,
     .takes = TAKES_TOKENS,
     .width = 8,
     .unit = 8,
     .open = builtin_open,
     .run = builtin_run,
     .rest = builtin_rest},
    {.name = "ranvier-fnv1a",
     .about = "Ranvier's X-Ranvier-Prefix-Hash; block_size is its block_alignment",
     .params = PARAM(PREFIX_TOKEN_LENGTH),
     .block_size = 16,
     .takes = TAKES_TOKENS,
     .width = 8,
     .unit = 4,
     .open = ranvier_open,
     .run = ranvier_run,
     .rest = ranvier_rest},
    {.name = NULL},
};
