/* pubhash.c: two tables, of blocks and of chunks, from the engine's names to published hashes.
 *
 * Open addressing with linear probing, at most half full; an entry that goes is filled by those
 * behind it, so there are no tombstones. The parent of a block that is stored is held by the same
 * request, hence known. A chunk's parent may have been evicted: then the chain is hashed anew. */
#include "kv/pubhash.h"

#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Init: no allocation and no provider look-up per      \
                                       block */
#include <openssl/sha.h>
#include <string.h>

#include "base/mem.h"
#include "kv/blockhash_tuple.h"

struct entry {
  uint64_t name;
  uint32_t copies; /* 0: the slot is empty */
  uint8_t hash[PUBHASH_MAX_WIDTH];
};

struct table {
  struct entry *slots;
  size_t mask, n;
};

struct pubhash {
  enum tuple_hash hash;
  uint32_t width;        /* of what is published and chained */
  bool sglang;           /* pages of SGLang: no tuples, and no root without a salt */
  bool numbers;          /* digests are cut to numbers before they are chained (vLLM 0.10.0) */
  struct table of[2];    /* by enum engine_medium */
  uint32_t tokens_of[2]; /* tokens of a block, of a chunk */
  uint8_t root[PUBHASH_MAX_WIDTH];
  int64_t *wide; /* the tokens of one block */
  struct buf scratch, out;
  uint8_t parent[PUBHASH_MAX_WIDTH];
};

/* ---- tables ---- */

enum { FIRST_SLOTS = 64 };

static void table_init(struct table *t) {
  *t = (struct table){.mask = FIRST_SLOTS - 1};
  t->slots = mem_calloc(FIRST_SLOTS, sizeof *t->slots);
}

/* Where the name is, or the empty slot where it would go. Names are hashes themselves. */
static struct entry *find(const struct table *t, uint64_t name) {
  size_t i = (size_t)name & t->mask;
  while (t->slots[i].copies && t->slots[i].name != name)
    i = (i + 1) & t->mask;
  return &t->slots[i];
}

static void grow(struct table *t) {
  struct entry *old = t->slots;
  size_t n = t->mask + 1;
  t->mask = n * 2 - 1;
  t->slots = mem_calloc(n * 2, sizeof *t->slots);
  for (size_t i = 0; i < n; i++)
    if (old[i].copies)
      *find(t, old[i].name) = old[i];
  mem_free(old);
}

static void drop(struct table *t, struct entry *e) {
  size_t hole = (size_t)(e - t->slots), i = hole;
  t->n--;
  for (;;) {
    i = (i + 1) & t->mask;
    if (!t->slots[i].copies)
      break;
    size_t home = (size_t)t->slots[i].name & t->mask;
    if (((i - home) & t->mask) < ((i - hole) & t->mask))
      continue; /* it would stand before its home */
    t->slots[hole] = t->slots[i];
    hole = i;
  }
  t->slots[hole].copies = 0;
}

/* ---- open ---- */

static const struct {
  const char *scheme;
  enum tuple_hash hash;
  bool numbers;
} schemes[] = {{"vllm-sha256", TUPLE_SHA256, false},
               {"vllm-sha256-cbor", TUPLE_SHA256_CBOR, false},
               {"vllm-xxhash", TUPLE_XXHASH, false},
               {"vllm-xxhash-cbor", TUPLE_XXHASH_CBOR, false},
               {"vllm-sha256-cbor-64bit", TUPLE_SHA256_CBOR, true}};

static int unknown(const char *scheme, struct err *err) {
  const char *names[ARRAY_LEN(schemes)];
  for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
    names[i] = schemes[i].scheme;
  const char *near = err_nearest(scheme, names, ARRAY_LEN(names));
  return err_set(err, ERR_NOT_FOUND,
                 "\"%.40s\" is no hash that vLLM publishes%s%s%s; there are vllm-sha256, "
                 "vllm-sha256-cbor, vllm-xxhash, vllm-xxhash-cbor, vllm-sha256-cbor-64bit",
                 scheme, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

int pubhash_open(const struct pubhash_options *o, struct pubhash **out, struct err *err) {
  size_t at = 0;
  bool sglang = strcmp(o->scheme, PUBHASH_SGLANG) == 0;
  while (!sglang && at < ARRAY_LEN(schemes) && strcmp(schemes[at].scheme, o->scheme) != 0)
    at++;
  *out = NULL;
  if (at == ARRAY_LEN(schemes))
    return unknown(o->scheme, err);
  struct pubhash *p = MEM_NEW(struct pubhash);
  p->sglang = sglang;
  p->hash = schemes[at].hash; /* of SGLang: SHA-256, as wide */
  p->numbers = schemes[at].numbers;
  p->width = p->numbers ? 8 : tuple_width(p->hash);
  p->tokens_of[ENGINE_GPU] = o->block_size;
  p->tokens_of[ENGINE_CPU] = o->chunk_tokens;
  uint32_t most = o->block_size > o->chunk_tokens ? o->block_size : o->chunk_tokens;
  p->wide = mem_calloc(most, sizeof *p->wide);
  buf_init(&p->scratch, BUF_MAX_OWN);
  buf_init(&p->out, BUF_MAX_OWN);
  tuple_encode_text(&p->scratch, p->hash, (struct blockhash_text){o->seed, strlen(o->seed)});
  tuple_digest(p->hash, &p->scratch, p->root);
  if (p->numbers)
    memmove(p->root, p->root + tuple_width(p->hash) - 8, 8);
  table_init(&p->of[ENGINE_GPU]);
  table_init(&p->of[ENGINE_CPU]);
  *out = p;
  return 0;
}

void pubhash_delete(struct pubhash *p) {
  if (!p)
    return;
  mem_free(p->of[ENGINE_GPU].slots);
  mem_free(p->of[ENGINE_CPU].slots);
  mem_free(p->wide);
  buf_free(&p->scratch);
  buf_free(&p->out);
  mem_free(p);
}

static void empty(struct table *t) {
  mem_free(t->slots);
  table_init(t);
}

void pubhash_reset(struct pubhash *p) {
  empty(&p->of[ENGINE_GPU]);
  empty(&p->of[ENGINE_CPU]);
}

uint32_t pubhash_width(const struct pubhash *p) {
  return p->width;
}

size_t pubhash_count(const struct pubhash *p) {
  return p->of[ENGINE_GPU].n + p->of[ENGINE_CPU].n;
}

uint64_t pubhash_number(const uint8_t *hash, uint32_t width) {
  return blockhash_be64(hash + width - 8);
}

int64_t pubhash_sglang_number(const uint8_t *hash) {
  return (int64_t)blockhash_be64(hash);
}

/* ---- hashing ---- */

/* A page as SGLang hashes it for its events: the one before, or what a salt makes of it, then the
 * tokens; an adapter is not in it. */
static void hash_page(const struct engine_event *e, uint32_t index, uint32_t size,
                      const uint8_t *parent, uint8_t *out) {
  static const char salt_head[] = "sglang-cache-salt-v1"; /* with its NUL */
  const uint32_t *tokens = e->req->tokens + (size_t)index * size;
  const char *salt = e->medium == ENGINE_GPU ? e->req->salt : NULL;
  uint8_t root[SHA256_DIGEST_LENGTH];
  SHA256_CTX ctx;
  if (!index && salt) {
    SHA256_Init(&ctx);
    SHA256_Update(&ctx, salt_head, sizeof salt_head);
    SHA256_Update(&ctx, salt, strlen(salt));
    SHA256_Final(root, &ctx);
  }
  SHA256_Init(&ctx);
  if (index || salt)
    SHA256_Update(&ctx, index ? parent : root, sizeof root);
  SHA256_Update(&ctx, tokens, size * sizeof *tokens); /* little endian, as this machine is */
  SHA256_Final(out, &ctx);
}

/* Block or chunk `index` of the request's tokens behind `parent`; out may be parent. */
static void hash_one(struct pubhash *p, const struct engine_event *e, uint32_t index,
                     const uint8_t *parent, uint8_t *out) {
  uint32_t size = p->tokens_of[e->medium];
  if (p->sglang) {
    hash_page(e, index, size, parent, out);
    return;
  }
  const uint32_t *tokens = e->req->tokens + (size_t)index * size;
  for (uint32_t i = 0; i < size; i++)
    p->wide[i] = tokens[i];
  struct tuple_extra extra[2];
  struct tuple t = {.parent = p->numbers ? NULL : parent,
                    .parent_len = p->width,
                    .parent_number = p->numbers ? blockhash_be64(parent) : 0,
                    .tokens = p->wide,
                    .n_tokens = size,
                    .extra = extra};
  const char *adapter = e->req->adapter, *salt = index == 0 ? e->req->salt : NULL;
  if (e->medium == ENGINE_GPU && adapter)
    extra[t.n_extra++] =
        (struct tuple_extra){.kind = EXTRA_TEXT, .text = {adapter, strlen(adapter)}};
  if (e->medium == ENGINE_GPU && salt)
    extra[t.n_extra++] = (struct tuple_extra){.kind = EXTRA_TEXT, .text = {salt, strlen(salt)}};
  if (tuple_is_pickled(p->hash))
    tuple_encode_pickle(&p->scratch, &t);
  else
    tuple_encode_cbor(&p->scratch, &t);
  uint8_t digest[PUBHASH_MAX_WIDTH];
  tuple_digest(p->hash, &p->scratch, digest);
  memcpy(out, digest + tuple_width(p->hash) - p->width, p->width);
}

/* The hash before the event's first, into p->parent; false: it is the chain's first. */
static bool parent_of(struct pubhash *p, const struct engine_event *e, uint32_t first) {
  if (!e->has_parent)
    return false;
  const struct entry *known = find(&p->of[e->medium], e->parent);
  assert(known->copies || e->medium == ENGINE_CPU);
  if (known->copies) {
    memcpy(p->parent, known->hash, p->width);
    return true;
  }
  memcpy(p->parent, p->root, p->width);
  for (uint32_t i = 0; i < first; i++)
    hash_one(p, e, i, p->parent, p->parent);
  return true;
}

static void stored(struct pubhash *p, const struct engine_event *e, struct pubhash_said *said) {
  struct table *t = &p->of[e->medium];
  uint32_t first = e->first_block;
  if (e->medium == ENGINE_CPU)
    first = (uint32_t)((uint64_t)first * p->tokens_of[ENGINE_GPU] / p->tokens_of[ENGINE_CPU]);
  if (parent_of(p, e, first))
    said->parent = p->parent;
  const uint8_t *before = said->parent ? said->parent : p->root;
  uint8_t *out = (uint8_t *)buf_room(&p->out, (size_t)e->n * p->width);
  for (uint32_t i = 0; i < e->n; i++, out += p->width) {
    struct entry *entry = find(t, e->hashes[i]);
    if (!entry->copies) {
      if (++t->n * 2 > t->mask) {
        grow(t);
        entry = find(t, e->hashes[i]);
      }
      entry->name = e->hashes[i];
      hash_one(p, e, first + i, before, entry->hash);
    }
    if (!entry->copies || e->medium == ENGINE_GPU) /* a tier has a chunk once */
      entry->copies++;
    memcpy(out, entry->hash, p->width);
    before = out;
  }
  said->n = e->n;
  said->hashes = (const uint8_t *)p->out.data;
}

static void removed(struct pubhash *p, const struct engine_event *e, struct pubhash_said *said) {
  struct table *t = &p->of[e->medium];
  struct entry *entry = find(t, e->hashes[0]);
  assert(entry->copies);
  memcpy(buf_room(&p->out, p->width), entry->hash, p->width);
  said->n = 1;
  said->hashes = (const uint8_t *)p->out.data;
  if (--entry->copies == 0)
    drop(t, entry);
}

void pubhash_event(struct pubhash *p, const struct engine_event *e, struct pubhash_said *out) {
  *out = (struct pubhash_said){0};
  buf_reset(&p->out);
  if (e->kind == ENGINE_STORED)
    stored(p, e, out);
  else if (e->kind == ENGINE_REMOVED)
    removed(p, e, out);
  else
    empty(&p->of[ENGINE_GPU]);
}
