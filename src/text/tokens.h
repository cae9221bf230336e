/* tokens.h: tokenizers: text to token ids and back.
 *
 * A tokenizer is read-only once opened and may be used from any thread. `bytes` is built in: a
 * token is a byte, its id the byte's value. It is what the simulated fleet serves, and exact for
 * it. Tokenizers of real models are further tables of `struct tokens_ops`. */
#ifndef TEXT_TOKENS_H
#define TEXT_TOKENS_H

#include "base/buf.h"
#include "base/err.h"

enum tokens_kind { TOKENS_BYTES };

/* A growing list of ids: zero-initialised is empty; free with tokens_list_free. */
struct tokens_list {
  uint32_t *ids;
  size_t n, cap;
};

/* What to do with a text beyond cutting it: both false for `bytes`, which has no special tokens. */
struct tokens_options {
  bool add_special; /* put the model's first (and last) tokens around it */
  bool special;     /* special tokens written out in the text become their ids */
};

struct tokens;

/* What every tokenizer can do. Sizes in bytes of UTF-8, or any bytes for `bytes`. */
struct tokens_ops {
  /* Appends the ids of text; on error `out` is as before. */
  int (*encode)(const struct tokens *t, const char *text, size_t len,
                const struct tokens_options *options, struct tokens_list *out, struct err *err);
  /* How many ids encode would append. */
  int (*count)(const struct tokens *t, const char *text, size_t len,
               const struct tokens_options *options, size_t *out, struct err *err);
  /* Appends the ids' bytes; ERR_INVALID names the first id that is not in the vocabulary. */
  int (*decode)(const struct tokens *t, const uint32_t *ids, size_t n, struct buf *out,
                struct err *err);
  void (*close)(struct tokens *t); /* NULL for a built-in one */
};

struct tokens {
  enum tokens_kind kind;
  const struct tokens_ops *ops;
  const char *name;
  uint32_t vocab_size; /* ids are below it */
};

/* The tokenizer of that name ("bytes"), to be given back to tokens_close. ERR_UNSUPPORTED for
 * another name, with the known ones. */
NODISCARD int tokens_open(const char *name, const struct tokens **out, struct err *err);
/* NULL is allowed. */
void tokens_close(const struct tokens *t);

/* The calls of tokens_ops; `options` may be NULL: both off. */
NODISCARD int tokens_encode(const struct tokens *t, const char *text, size_t len,
                            const struct tokens_options *options, struct tokens_list *out,
                            struct err *err);
NODISCARD int tokens_count(const struct tokens *t, const char *text, size_t len,
                           const struct tokens_options *options, size_t *out, struct err *err);
NODISCARD int tokens_decode(const struct tokens *t, const uint32_t *ids, size_t n, struct buf *out,
                            struct err *err);

/* Room for `n` more ids behind ids + list->n; the caller then adds to list->n itself. */
void tokens_list_reserve(struct tokens_list *list, size_t n);
void tokens_list_free(struct tokens_list *list);

#endif
