/* tokens.c: opening tokenizers, the calls that dispatch, and the one that is built in; see
 * tokens.h. */
#include "text/tokens.h"

#include <pthread.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "text/tokenizer.h"

#define SHORT_TEXT 4096 /* bytes up to which a passing encoder does without a memo */

void tokens_list_reserve(struct tokens_list *list, size_t n) {
  if (n <= list->cap - list->n)
    return;
  assert(n <= SIZE_MAX / 2 - list->n);
  size_t cap = list->cap ? list->cap * 2 : 64;
  if (cap < list->n + n)
    cap = list->n + n;
  list->ids = mem_resize(list->ids, cap, sizeof *list->ids);
  list->cap = cap;
}

void tokens_list_free(struct tokens_list *list) {
  mem_free(list->ids);
  *list = (struct tokens_list){0};
}

static int bytes_encode(const struct tokens *t, struct tokens_encoder *e, const char *text,
                        size_t len, const struct tokens_options *options, struct tokens_list *out,
                        struct err *err) {
  (void)t, (void)e, (void)options, (void)err;
  tokens_list_reserve(out, len);
  for (size_t i = 0; i < len; i++)
    out->ids[out->n + i] = (unsigned char)text[i];
  out->n += len;
  return 0;
}

static int bytes_count(const struct tokens *t, struct tokens_encoder *e, const char *text,
                       size_t len, const struct tokens_options *options, size_t *out,
                       struct err *err) {
  (void)t, (void)e, (void)text, (void)options, (void)err;
  *out = len;
  return 0;
}

static int bytes_decode(const struct tokens *t, const uint32_t *ids, size_t n, struct buf *out,
                        struct err *err) {
  for (size_t i = 0; i < n; i++)
    if (ids[i] >= t->vocab_size)
      return err_set(err, ERR_INVALID,
                     "token %zu: id %u is not in the vocabulary of \"%s\" (0..%u)", i, ids[i],
                     t->name, t->vocab_size - 1);
  int rc = buf_reserve(out, n);
  if (rc)
    return err_set(err, rc, "decoding %zu tokens: more than %zu bytes", n, out->max);
  for (size_t i = 0; i < n; i++)
    out->data[out->len + i] = (char)ids[i];
  out->len += n;
  out->data[out->len] = '\0';
  return 0;
}

static const struct tokens_ops bytes_ops = {
    .encode = bytes_encode, .count = bytes_count, .decode = bytes_decode};

static const struct tokens builtin[] = {
    {.kind = TOKENS_BYTES, .ops = &bytes_ops, .name = "bytes", .vocab_size = 256}};

int tokens_open(const char *name, const struct tokens_load_options *options,
                const struct tokens **out, struct err *err) {
  *out = NULL;
  for (size_t i = 0; i < ARRAY_LEN(builtin) && (!options || !options->family); i++)
    if (strcmp(name, builtin[i].name) == 0)
      *out = &builtin[i];
  if (*out)
    return 0;
  return tokens_load(name, options, out, err);
}

static uint64_t hash_of(const char *text, size_t len, const char *family) {
  return XXH3_64bits_withSeed(text, len, family ? XXH3_64bits(family, strlen(family)) : 0);
}

int tokens_load_text(const char *name, const char *text, size_t len, const char *family,
                     const struct tokens **out, struct err *err) {
  struct tokenizer *t = tokenizer_new(name);
  *out = NULL;
  int rc = family ? rankfile_load(t, text, len, family, err) : tokenjson_load(t, text, len, err);
  if (!rc)
    rc = tokenizer_finish(t, err);
  if (!rc) {
    t->base.hash = hash_of(text, len, family);
    *out = &t->base;
    return 0;
  }
  (void)err_prefix(err, "%s", name);
  tokens_close(&t->base);
  return rc;
}

/* ---- loaded once ---- */

struct tokens_shared {
  pthread_mutex_t mutex;
  const struct tokens **items;
  size_t n, cap;
};

struct tokens_shared *tokens_shared_new(void) {
  struct tokens_shared *s = MEM_NEW(struct tokens_shared);
  int rc = pthread_mutex_init(&s->mutex, NULL);
  assert(rc == 0);
  (void)rc;
  return s;
}

void tokens_shared_delete(struct tokens_shared *s) {
  if (!s)
    return;
  for (size_t i = 0; i < s->n; i++)
    tokens_close(s->items[i]);
  mem_free(s->items);
  pthread_mutex_destroy(&s->mutex);
  mem_free(s);
}

static void drop_unused(struct tokens_shared *s) {
  size_t kept = 0;
  for (size_t i = 0; i < s->n; i++) {
    if (tokenizer_has_owners(s->items[i]))
      s->items[kept++] = s->items[i];
    else
      tokens_close(s->items[i]);
  }
  s->n = kept;
}

int tokens_share_text(struct tokens_shared *s, const char *name, const char *text, size_t len,
                      const char *family, const struct tokens **out, struct err *err) {
  uint64_t hash = s ? hash_of(text, len, family) : 0;
  int rc = 0;
  *out = NULL;
  if (!s)
    return tokens_load_text(name, text, len, family, out, err);
  pthread_mutex_lock(&s->mutex);
  for (size_t i = 0; i < s->n && !*out; i++)
    if (s->items[i]->hash == hash && strcmp(s->items[i]->name, name) == 0)
      *out = tokens_ref(s->items[i]);
  if (!*out) {
    drop_unused(s);
    rc = tokens_load_text(name, text, len, family, out, err);
    if (!rc) {
      MEM_GROW(s->items, s->n, s->cap);
      s->items[s->n++] = tokens_ref(*out);
    }
  }
  pthread_mutex_unlock(&s->mutex);
  return rc;
}

bool tokens_agree(const struct tokens *a, const struct tokens *b) {
  uint32_t n = a->vocab_size > b->vocab_size ? a->vocab_size : b->vocab_size, alone = 0;
  bool agree = true;
  struct buf of_a, of_b;
  struct err err;
  if (a == b || a->kind != b->kind || a->hash == b->hash)
    return a->kind == b->kind;
  buf_init(&of_a, BUF_MAX_OWN);
  buf_init(&of_b, BUF_MAX_OWN);
  for (uint32_t id = 0; id < n && agree; id++) {
    buf_reset(&of_a);
    buf_reset(&of_b);
    bool in_a = tokens_decode(a, &id, 1, &of_a, &err) == 0;
    bool in_b = tokens_decode(b, &id, 1, &of_b, &err) == 0;
    if (in_a && in_b)
      agree = of_a.len == of_b.len && (!of_a.len || memcmp(of_a.data, of_b.data, of_a.len) == 0);
    alone += in_a != in_b;
  }
  buf_free(&of_a);
  buf_free(&of_b);
  return agree && alone <= n / 100;
}

const struct tokens *tokens_ref(const struct tokens *t) {
  if (t->ops->ref)
    t->ops->ref((struct tokens *)t);
  return t;
}

void tokens_close(const struct tokens *t) {
  if (t && t->ops->close)
    t->ops->close((struct tokens *)t);
}

/* Kinds without an encoder of their own get the plain one. */
static struct tokens_encoder *encoder_for(const struct tokens *t, bool lasting) {
  if (t->ops->encoder_new)
    return t->ops->encoder_new(t, lasting);
  struct tokens_encoder *e = MEM_NEW(struct tokens_encoder);
  e->tokens = t;
  return e;
}

struct tokens_encoder *tokens_encoder_new(const struct tokens *t) {
  return encoder_for(t, true);
}

void tokens_encoder_delete(struct tokens_encoder *e) {
  if (e && e->tokens->ops->encoder_delete)
    e->tokens->ops->encoder_delete(e);
  else
    mem_free(e);
}

static const struct tokens_options off = {0};

int tokens_encoder_encode(struct tokens_encoder *e, const char *text, size_t len,
                          const struct tokens_options *options, struct tokens_list *out,
                          struct err *err) {
  return e->tokens->ops->encode(e->tokens, e, text, len, options ? options : &off, out, err);
}

int tokens_encoder_count(struct tokens_encoder *e, const char *text, size_t len,
                         const struct tokens_options *options, size_t *out, struct err *err) {
  return e->tokens->ops->count(e->tokens, e, text, len, options ? options : &off, out, err);
}

int tokens_encode(const struct tokens *t, const char *text, size_t len,
                  const struct tokens_options *options, struct tokens_list *out, struct err *err) {
  if (!t->ops->encoder_new)
    return t->ops->encode(t, NULL, text, len, options ? options : &off, out, err);
  struct tokens_encoder *e = encoder_for(t, len > SHORT_TEXT);
  int rc = tokens_encoder_encode(e, text, len, options, out, err);
  tokens_encoder_delete(e);
  return rc;
}

int tokens_count(const struct tokens *t, const char *text, size_t len,
                 const struct tokens_options *options, size_t *out, struct err *err) {
  if (!t->ops->encoder_new)
    return t->ops->count(t, NULL, text, len, options ? options : &off, out, err);
  struct tokens_encoder *e = encoder_for(t, len > SHORT_TEXT);
  int rc = tokens_encoder_count(e, text, len, options, out, err);
  tokens_encoder_delete(e);
  return rc;
}

int tokens_decode(const struct tokens *t, const uint32_t *ids, size_t n, struct buf *out,
                  struct err *err) {
  return t->ops->decode(t, ids, n, out, err);
}

int tokens_name(const struct tokens *t, uint32_t id, struct buf *out, struct err *err) {
  return t->ops->name ? t->ops->name(t, id, out, err) : tokens_decode(t, &id, 1, out, err);
}
