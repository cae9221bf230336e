/* blockhash_chain.c: cuts what is fed into blocks and keeps their hashes in counted chunks, so that
 * a fork shares them.
 *
 * A hash of 8 bytes lies in memory as a native number, a wider one as its bytes. */
#include "kv/blockhash_chain.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "kv/blockhash_scheme.h"
#include "text/json.h"

#define CHUNK 128 /* hashes */

struct blockhash_chunk {
  uint32_t refs, unused;
  _Alignas(8) uint8_t data[]; /* CHUNK hashes, then CHUNK of the second column */
};

/* ---- open, fork, delete ---- */

/* Whether `scheme` begins as `given` does, which may be written with other dashes: llm-d, vLLM. */
static bool begins_as(const char *scheme, const char *given) {
  size_t n = 0;
  for (; *given; given++) {
    if (!isalnum((unsigned char)*given))
      continue;
    while (*scheme && !isalnum((unsigned char)*scheme))
      scheme++;
    if (tolower((unsigned char)*given) != *scheme++)
      return false;
    n++;
  }
  return n >= 2;
}

static int unknown_scheme(const char *name, struct err *err) {
  const char *names[64];
  const struct blockhash_scheme *s;
  char family[512] = "";
  size_t n = 0, len = 0;
  for (; n < ARRAY_LEN(names) && (s = blockhash_scheme_at(n)); n++) {
    names[n] = s->name;
    if (begins_as(s->name, name) && len < sizeof family)
      len += (size_t)snprintf(family + len, sizeof family - len, "%s%s", len ? ", " : "", s->name);
  }
  const char *near = err_nearest(name, names, n);
  if (len)
    return err_set(err, ERR_NOT_FOUND, "unknown scheme \"%s\"; there are %s", name, family);
  if (near)
    return err_set(err, ERR_NOT_FOUND, "unknown scheme \"%s\" (did you mean \"%s\"?)", name, near);
  return err_set(err, ERR_NOT_FOUND,
                 "unknown scheme \"%s\"; `perigee hash --help` lists the %zu there are", name, n);
}

int blockhash_chain_open(const char *name, const struct value *options,
                         struct blockhash_chain **out, struct err *err) {
  const struct blockhash_scheme *scheme = blockhash_scheme_find(name);
  *out = NULL;
  if (!scheme)
    return unknown_scheme(name, err);
  struct blockhash_settings *s = MEM_NEW(struct blockhash_settings);
  s->refs = 1;
  s->scheme = scheme;
  s->width = scheme->width;
  s->unit = scheme->unit;
  int rc = blockhash_settings_read(s, options, err);
  if (!rc) {
    s->stride = (size_t)s->block_size * (scheme->takes & TAKES_TOKENS ? s->unit : 1);
    rc = scheme->open ? scheme->open(s, err) : 0;
  }
  if (rc) {
    blockhash_settings_unref(s);
    return rc;
  }
  struct blockhash_chain *c = MEM_NEW(struct blockhash_chain);
  c->settings = s;
  buf_init(&c->tail, BUF_MAX_OWN);
  buf_init(&c->scratch, BUF_MAX_OWN);
  if (s->root_len)
    memcpy(c->last.digest, s->root, s->root_len);
  else
    c->last.number = s->init;
  if (!scheme->run) { /* no blocks: one hash over everything */
    c->running = MEM_NEW(struct blake3);
    blake3_init(c->running);
  }
  *out = c;
  return 0;
}

void blockhash_chain_delete(struct blockhash_chain *c) {
  if (!c)
    return;
  for (size_t i = 0; i < c->n_chunks; i++)
    if (--c->chunks[i]->refs == 0)
      mem_free(c->chunks[i]);
  mem_free(c->chunks);
  buf_free(&c->tail);
  buf_free(&c->scratch);
  mem_free(c->running);
  blockhash_settings_unref(c->settings);
  mem_free(c);
}

struct blockhash_chain *blockhash_chain_fork(const struct blockhash_chain *c) {
  struct blockhash_chain *f = mem_dup(c, sizeof *c);
  f->settings->refs++;
  f->chunks = c->n_chunks ? mem_dup(c->chunks, c->n_chunks * sizeof *c->chunks) : NULL;
  f->cap_chunks = c->n_chunks;
  for (size_t i = 0; f->chunks && i < f->n_chunks; i++)
    f->chunks[i]->refs++;
  buf_init(&f->tail, BUF_MAX_OWN);
  if (c->tail.len)
    buf_put(&f->tail, c->tail.data, c->tail.len);
  buf_init(&f->scratch, BUF_MAX_OWN);
  if (c->running)
    f->running = mem_dup(c->running, sizeof *c->running);
  return f;
}

/* ---- chunks ---- */

static size_t chunk_bytes(const struct blockhash_settings *s) {
  return sizeof(struct blockhash_chunk) + CHUNK * ((size_t)s->width + s->scheme->second);
}

/* The chunk that hash number c->n goes into, with no other owner. */
static struct blockhash_chunk *open_chunk(struct blockhash_chain *c) {
  size_t at = c->n / CHUNK, bytes = chunk_bytes(c->settings);
  assert(at <= c->n_chunks && (c->chunks || at == 0));
  if (at == c->n_chunks) {
    MEM_GROW(c->chunks, c->n_chunks, c->cap_chunks);
    c->chunks[c->n_chunks] = mem_alloc(bytes);
    c->chunks[c->n_chunks++]->refs = 1;
  } else if (c->chunks[at]->refs > 1) {
    struct blockhash_chunk *own = mem_dup(c->chunks[at], bytes);
    own->refs = 1;
    c->chunks[at]->refs--;
    c->chunks[at] = own;
  }
  return c->chunks[at];
}

static void *entry(struct blockhash_chunk *k, const struct blockhash_settings *s, bool second,
                   size_t i) {
  return second ? k->data + CHUNK * (size_t)s->width + i * s->scheme->second
                : k->data + i * s->width;
}

/* Hash i of a column, the incomplete block's included. */
static const void *hash_at(const struct blockhash_chain *c, bool second, size_t i) {
  if (i < c->n)
    return entry(c->chunks[i / CHUNK], c->settings, second, i % CHUNK);
  assert(i == c->n && c->rest == REST_KNOWN);
  return second ? c->rest_second.digest : c->rest_hash.digest;
}

/* ---- feeding ---- */

/* n blocks of `each` bytes, as many as their chunks hold at a time. */
static void add_blocks(struct blockhash_chain *c, const uint8_t *data, size_t n, size_t each) {
  const struct blockhash_settings *s = c->settings;
  if (n && s->lead && c->n == 0) {
    struct blockhash_chunk *k = open_chunk(c);
    memcpy(entry(k, s, false, 0), &s->init, sizeof s->init);
    c->n = 1;
  }
  while (n) {
    struct blockhash_chunk *k = open_chunk(c);
    size_t at = c->n % CHUNK, room = CHUNK - at;
    struct blockhash_run run = {data, n < room ? n : room, each};
    s->scheme->run(c, &run, entry(k, s, false, at), entry(k, s, true, at));
    c->n += run.n;
    c->blocks += run.n;
    data += run.n * each;
    n -= run.n;
  }
}

static bool is_full(const struct blockhash_chain *c) {
  return c->settings->cap && c->blocks == c->settings->cap;
}

/* Full blocks at the beginning of data; returns the bytes that they took. */
static size_t add_full(struct blockhash_chain *c, const uint8_t *data, size_t len) {
  const struct blockhash_settings *s = c->settings;
  size_t taken = 0;
  if (s->scheme->cut) {
    for (size_t each; !is_full(c) && (each = s->scheme->cut(s, data + taken, len - taken));
         taken += each)
      add_blocks(c, data + taken, 1, each);
    return taken;
  }
  size_t overlap = (size_t)s->overlap * s->unit;
  size_t n = len < s->stride + overlap ? 0 : (len - overlap) / s->stride;
  if (s->cap && n > s->cap - c->blocks)
    n = (size_t)(s->cap - c->blocks);
  add_blocks(c, data, n, s->stride);
  return n * s->stride;
}

/* The longest piece of input that has to lie in one place to be a block. */
static size_t block_bytes(const struct blockhash_settings *s) {
  return s->scheme->cut ? (size_t)4 * s->block_size : s->stride + (size_t)s->overlap * s->unit;
}

static void feed(struct blockhash_chain *c, const uint8_t *data, size_t len) {
  const struct blockhash_settings *s = c->settings;
  if (!len || is_full(c))
    return;
  c->rest = REST_UNKNOWN;
  if (c->running) {
    blake3_add(c->running, data, len);
    return;
  }
  if (s->stride == 0)
    return;
  while (c->tail.len && len && !is_full(c)) { /* complete the block that has begun */
    size_t want = block_bytes(s), missing = want > c->tail.len ? want - c->tail.len : 1;
    size_t take = len < missing ? len : missing, before = c->tail.len;
    buf_put(&c->tail, data, take);
    size_t taken = add_full(c, (const uint8_t *)c->tail.data, c->tail.len);
    if (taken >= before) { /* what follows lies in `data` */
      data += taken - before;
      len -= taken - before;
      buf_reset(&c->tail);
      break;
    }
    buf_drop(&c->tail, taken);
    data += take;
    len -= take;
  }
  if (is_full(c)) {
    buf_reset(&c->tail);
    return;
  }
  if (c->tail.len == 0 && len) {
    size_t taken = add_full(c, data, len);
    if (!is_full(c))
      buf_put(&c->tail, data + taken, len - taken);
  }
}

static int check_input(struct blockhash_chain *c, unsigned input, struct err *err) {
  const struct blockhash_scheme *s = c->settings->scheme;
  bool text = input == INPUT_TEXT;
  if (!(s->takes & (text ? TAKES_TEXT : TAKES_TOKENS)))
    return err_set(err, ERR_INVALID,
                   text ? "%s hashes token ids, not text: tokenize it first"
                        : "%s hashes the prompt's text, not token ids: give the text",
                   s->name);
  if (c->input != INPUT_NONE && c->input != input)
    return err_set(err, ERR_INVALID, "%s: a chain is made of %s alone; it began with %s", s->name,
                   text ? "text" : "tokens", text ? "tokens" : "text");
  return 0;
}

#define PIECE 512 /* ids that are widened at a time */

static void feed_swapped(struct blockhash_chain *c, const uint32_t *ids, size_t n) {
  uint32_t swapped[PIECE];
  for (size_t take; n; ids += take, n -= take) {
    take = n < PIECE ? n : PIECE;
    for (size_t i = 0; i < take; i++)
      swapped[i] = __builtin_bswap32(ids[i]);
    feed(c, (const uint8_t *)swapped, take * sizeof *swapped);
  }
}

int blockhash_chain_add(struct blockhash_chain *c, const uint32_t *ids, size_t n, struct err *err) {
  int rc = check_input(c, INPUT_TOKENS, err);
  if (rc || !n)
    return rc;
  c->input = INPUT_TOKENS;
  if (c->settings->scheme->takes & TAKES_BIG_ENDIAN) {
    feed_swapped(c, ids, n);
    return 0;
  }
  if (c->settings->unit == 4) {
    feed(c, (const uint8_t *)ids, n * sizeof *ids);
    return 0;
  }
  int64_t wide[PIECE];
  while (n) {
    size_t take = n < PIECE ? n : PIECE;
    for (size_t i = 0; i < take; i++)
      wide[i] = ids[i];
    feed(c, (const uint8_t *)wide, take * sizeof *wide);
    ids += take;
    n -= take;
  }
  return 0;
}

int blockhash_chain_add_signed(struct blockhash_chain *c, const int64_t *ids, size_t n,
                               struct err *err) {
  const struct blockhash_scheme *s = c->settings->scheme;
  int64_t least = s->takes & TAKES_NEGATIVE ? INT32_MIN : 0;
  int rc = check_input(c, INPUT_TOKENS, err);
  if (rc)
    return rc;
  for (size_t i = 0; i < n; i++)
    if (ids[i] < least || ids[i] > UINT32_MAX)
      return err_set(err, ERR_INVALID,
                     "token %zu is %" PRId64 "; ids of %s lie between %" PRId64 " and %" PRIu32,
                     i + 1, ids[i], s->name, least, UINT32_MAX);
  if (!n)
    return 0;
  c->input = INPUT_TOKENS;
  if (c->settings->unit == 8) {
    feed(c, (const uint8_t *)ids, n * sizeof *ids);
    return 0;
  }
  uint32_t narrow[PIECE];
  while (n) {
    size_t take = n < PIECE ? n : PIECE;
    for (size_t i = 0; i < take; i++)
      narrow[i] = (uint32_t)ids[i];
    rc = blockhash_chain_add(c, narrow, take, err);
    assert(rc == 0); /* checked above */
    ids += take;
    n -= take;
  }
  return 0;
}

int blockhash_chain_add_text(struct blockhash_chain *c, const char *text, size_t len,
                             struct err *err) {
  const struct blockhash_scheme *s = c->settings->scheme;
  int rc = check_input(c, INPUT_TEXT, err);
  if (rc)
    return rc;
  size_t valid = c->settings->scheme->cut ? json_utf8_valid(text, len) : len;
  if (valid < len)
    return err_set(
        err, ERR_INVALID,
        "%s counts characters, and the text is not UTF-8 at byte %zu (a text is added by "
        "whole characters)",
        s->name, valid + 1);
  if (len)
    c->input = INPUT_TEXT;
  feed(c, (const uint8_t *)text, len);
  return 0;
}

/* ---- reading ---- */

const struct blockhash_scheme *blockhash_chain_scheme(const struct blockhash_chain *c) {
  return c->settings->scheme;
}

size_t blockhash_chain_count(struct blockhash_chain *c) {
  const struct blockhash_scheme *s = c->settings->scheme;
  if (c->rest == REST_UNKNOWN)
    c->rest = s->rest && !is_full(c) &&
                      s->rest(c, (const uint8_t *)c->tail.data, c->tail.len, &c->rest_hash,
                              &c->rest_second)
                  ? REST_KNOWN
                  : REST_NONE;
  return c->n + (c->rest == REST_KNOWN);
}

size_t blockhash_chain_bytes(struct blockhash_chain *c, size_t i,
                             uint8_t out[BLOCKHASH_MAX_WIDTH]) {
  size_t width = c->settings->width;
  const void *at = i < blockhash_chain_count(c) ? hash_at(c, false, i) : NULL;
  assert(at);
  memcpy(out, at, width);
  if (width == sizeof(uint64_t)) {
    uint64_t x = blockhash_be64(out);
    memcpy(out, &x, sizeof x);
  }
  return width;
}

int blockhash_chain_field(const struct blockhash_chain *c, const char *name, int *field, bool *list,
                          struct err *err) {
  const struct blockhash_scheme *s = c->settings->scheme;
  const char *names[16] = {"block_hashes"};
  size_t n = 1;
  *field = 0;
  *list = true;
  if (strcmp(name, names[0]) == 0)
    return 0;
  char known[256] = "block_hashes";
  for (const struct blockhash_field *f = s->fields; f && f->name; f++) {
    if (strcmp(f->name, name) == 0) {
      *field = (int)n;
      *list = f->form < FORM_ROOT;
      return 0;
    }
    names[n++] = f->name;
    size_t len = strlen(known);
    snprintf(known + len, sizeof known - len, ", %s", f->name);
  }
  const char *near = err_nearest(name, names, n);
  return err_set(err, ERR_NOT_FOUND, "%s has no field '%s'%s%s%s (it has: %s)", s->name, name,
                 near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "", known);
}

int blockhash_chain_event_field(const struct blockhash_chain *c) {
  int i = 1;
  for (const struct blockhash_field *f = c->settings->scheme->fields; f && f->name; f++, i++)
    if (f->published)
      return i;
  return 0;
}

static size_t put_hex(char *out, const uint8_t *bytes, size_t n) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15];
  }
  out[2 * n] = '\0';
  return 2 * n;
}

static size_t put_hex64(char *out, uint64_t x) {
  x = __builtin_bswap64(x);
  return put_hex(out, (const uint8_t *)&x, sizeof x);
}

/* A column's entry; native numbers are 8 bytes wide. */
static size_t put_entry(char *out, const void *at, size_t width) {
  uint64_t x;
  memcpy(&x, at, sizeof x);
  return width == sizeof x ? put_hex64(out, x) : put_hex(out, at, width);
}

size_t blockhash_chain_text(struct blockhash_chain *c, int field, size_t i,
                            char out[BLOCKHASH_MAX_TEXT]) {
  const struct blockhash_settings *s = c->settings;
  enum blockhash_form form = field ? s->scheme->fields[field - 1].form : FORM_SECOND;
  const void *at = form >= FORM_ROOT              ? NULL
                   : i < blockhash_chain_count(c) ? hash_at(c, field && form == FORM_SECOND, i)
                                                  : NULL;
  assert(at || form >= FORM_ROOT);
  uint64_t x = 0;
  if (at)
    memcpy(&x, at, sizeof x);
  switch (form) {
  case FORM_SECOND:
    return put_entry(out, at, field ? s->scheme->second : s->width);
  case FORM_LAST8:
    return put_hex(out, (const uint8_t *)at + s->width - 8, 8);
  case FORM_FIRST8:
    x = __builtin_bswap64(x);
    /* fall through */
  case FORM_SIGNED:
    return (size_t)snprintf(out, BLOCKHASH_MAX_TEXT, "%" PRId64, (int64_t)x);
  case FORM_ROOT:
    return s->root_len ? put_hex(out, s->root, s->root_len) : put_hex64(out, s->init);
  case FORM_INIT:
    return put_hex64(out, s->init);
  case FORM_INIT_DEC:
    return (size_t)snprintf(out, BLOCKHASH_MAX_TEXT, "%" PRIu64, s->init);
  }
  assert(0 && "no such form");
  return 0;
}
