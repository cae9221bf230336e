/* tokens.c: the table of tokenizers and the one that is built in; see tokens.h. */
#include "text/tokens.h"

#include "base/mem.h"

#include <string.h>

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

static int bytes_encode(const struct tokens *t, const char *text, size_t len,
                        const struct tokens_options *options, struct tokens_list *out,
                        struct err *err) {
  (void)t, (void)options, (void)err;
  tokens_list_reserve(out, len);
  for (size_t i = 0; i < len; i++)
    out->ids[out->n + i] = (unsigned char)text[i];
  out->n += len;
  return 0;
}

static int bytes_count(const struct tokens *t, const char *text, size_t len,
                       const struct tokens_options *options, size_t *out, struct err *err) {
  (void)t, (void)text, (void)options, (void)err;
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

int tokens_open(const char *name, const struct tokens **out, struct err *err) {
  *out = NULL;
  for (size_t i = 0; i < ARRAY_LEN(builtin); i++)
    if (strcmp(name, builtin[i].name) == 0)
      *out = &builtin[i];
  if (*out)
    return 0;
  return err_set(err, ERR_UNSUPPORTED,
                 "tokenizer \"%s\": this version knows \"bytes\" alone (one byte, one token)",
                 name);
}

void tokens_close(const struct tokens *t) {
  if (t && t->ops->close)
    t->ops->close((struct tokens *)t);
}

static const struct tokens_options off = {0};

int tokens_encode(const struct tokens *t, const char *text, size_t len,
                  const struct tokens_options *options, struct tokens_list *out, struct err *err) {
  return t->ops->encode(t, text, len, options ? options : &off, out, err);
}

int tokens_count(const struct tokens *t, const char *text, size_t len,
                 const struct tokens_options *options, size_t *out, struct err *err) {
  return t->ops->count(t, text, len, options ? options : &off, out, err);
}

int tokens_decode(const struct tokens *t, const uint32_t *ids, size_t n, struct buf *out,
                  struct err *err) {
  return t->ops->decode(t, ids, n, out, err);
}
