/* tokens.h: tokenizers: text to token ids and back.
 *
 * A tokenizer is read-only once opened and may be used from any thread. `bytes` is built in: a
 * token is a byte, its id the byte's value. It is what the simulated fleet serves, and exact for
 * it. Tokenizers of real models are loaded from their files: a Hugging Face tokenizer.json (BPE,
 * byte-level or with characters), or a tiktoken rank file with the name of its family.
 *
 * What one thread keeps between texts (a memo of pieces, buffers) is a `struct tokens_encoder`;
 * calls without one make one for the time being. */
#ifndef TEXT_TOKENS_H
#define TEXT_TOKENS_H

#include "base/buf.h"
#include "base/err.h"

enum tokens_kind { TOKENS_BYTES, TOKENS_BPE };

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

/* A thread's memory of one tokenizer; kinds that need more put it behind. */
struct tokens_encoder {
  const struct tokens *tokens;
};

/* What every tokenizer can do. Sizes in bytes of UTF-8, or any bytes for `bytes`. */
struct tokens_ops {
  /* Appends the ids of text; on error `out` is as before. `e` is NULL for kinds that have none. */
  int (*encode)(const struct tokens *t, struct tokens_encoder *e, const char *text, size_t len,
                const struct tokens_options *options, struct tokens_list *out, struct err *err);
  /* How many ids encode would append; NULL: counted by encoding. */
  int (*count)(const struct tokens *t, struct tokens_encoder *e, const char *text, size_t len,
               const struct tokens_options *options, size_t *out, struct err *err);
  /* Appends the ids' bytes; ERR_INVALID names the first id that is not in the vocabulary. */
  int (*decode)(const struct tokens *t, const uint32_t *ids, size_t n, struct buf *out,
                struct err *err);
  /* Appends how the vocabulary writes an id; NULL: as it is decoded. */
  int (*name)(const struct tokens *t, uint32_t id, struct buf *out, struct err *err);
  /* NULL for kinds without. `lasting`: it will see more than a short text. */
  struct tokens_encoder *(*encoder_new)(const struct tokens *t, bool lasting);
  void (*encoder_delete)(struct tokens_encoder *e);
  void (*ref)(struct tokens *t);   /* NULL for a built-in one */
  void (*close)(struct tokens *t); /* NULL for a built-in one */
};

struct tokens {
  enum tokens_kind kind;
  const struct tokens_ops *ops;
  const char *name;
  uint32_t vocab_size; /* ids are below it */
  uint64_t hash;       /* of what it was loaded from, the family included; 0: built in */
};

/* Tokenizers of a process that are not to be loaded twice: by content, family and name. What nobody
 * else owns any more goes when another is loaded. Any thread; who loads makes others wait. */
struct tokens_shared;
struct tokens_shared *tokens_shared_new(void);
void tokens_shared_delete(struct tokens_shared *s); /* NULL is allowed */

struct tokens_load_options {
  const char *family; /* of a rank file: cl100k_base, o200k_base, o200k_harmony, llama4, kimi_k2 */
  struct tokens_shared *shared; /* NULL: loaded anew */
};

/* "bytes", or what tokens_load makes of the name or path; to be given back to tokens_close. With a
 * family only the latter. `options` may be NULL. */
NODISCARD int tokens_open(const char *name, const struct tokens_load_options *options,
                          const struct tokens **out, struct err *err);
/* The tokenizer of a file, of a folder that holds a tokenizer.json, or of a name that `make deps`
 * or `make install` put in place: qwen3, o200k_base, o200k_harmony, cl100k_base. Names are looked
 * for in $PERIGEE_TOKENIZERS, else in ~/.cache/perigee/tokenizers and ../share/perigee/tokenizers
 * beside the binary's folder. `options` may be NULL. The tokenizer's name is the file's path, or
 * the name. Reads the whole file; a second or less for the largest. Truncation and padding that a
 * file asks for are not done: servers set their own. ERR_NOT_FOUND, ERR_IO; ERR_INVALID: not such a
 * file; ERR_UNSUPPORTED: a component or flag that is not done exactly, named. */
NODISCARD int tokens_load(const char *path, const struct tokens_load_options *options,
                          const struct tokens **out, struct err *err);
/* The same from the text of a tokenizer.json, or of a rank file of `family`. */
NODISCARD int tokens_load_text(const char *name, const char *text, size_t len, const char *family,
                               const struct tokens **out, struct err *err);
/* The same, unless `shared` (NULL is allowed) has it. */
NODISCARD int tokens_share_text(struct tokens_shared *shared, const char *name, const char *text,
                                size_t len, const char *family, const struct tokens **out,
                                struct err *err);
/* Whether two tokenizers have one vocabulary: loaded from the same bytes, or every id that both
 * know stands for the same bytes and neither knows many (one in a hundred) that the other does not:
 * the reserved special tokens of rank files are no difference. Walks both vocabularies unless their
 * hashes are equal: some milliseconds. */
bool tokens_agree(const struct tokens *a, const struct tokens *b);
/* One more owner; each gives it back to tokens_close. Any thread. */
const struct tokens *tokens_ref(const struct tokens *t);
/* NULL is allowed. The last owner's call frees. */
void tokens_close(const struct tokens *t);

/* For one thread that encodes many texts with `t`, which must outlive it. */
struct tokens_encoder *tokens_encoder_new(const struct tokens *t);
void tokens_encoder_delete(struct tokens_encoder *e); /* NULL is allowed */

/* The calls of tokens_ops; `options` may be NULL: both off. Text that is not UTF-8 is encoded as if
 * each wrong sequence were U+FFFD, which is what a server's JSON reader makes of it (`bytes` takes
 * any bytes). ERR_LIMIT for texts of 800 MiB and more. */
NODISCARD int tokens_encode(const struct tokens *t, const char *text, size_t len,
                            const struct tokens_options *options, struct tokens_list *out,
                            struct err *err);
NODISCARD int tokens_count(const struct tokens *t, const char *text, size_t len,
                           const struct tokens_options *options, size_t *out, struct err *err);
/* The bytes the ids stand for. A token may hold part of a character: the bytes are as they are, so
 * that the texts of parts can be joined. Special tokens are written out. */
NODISCARD int tokens_decode(const struct tokens *t, const uint32_t *ids, size_t n, struct buf *out,
                            struct err *err);
/* Appends how the vocabulary writes an id, as transformers' convert_ids_to_tokens gives it and
 * servers show it: "Ġthe" for " the" in byte-level models, "▁the" or "<0x0A>" in others, special
 * tokens as they are. ERR_INVALID: not in the vocabulary. With `bytes` the byte itself. */
NODISCARD int tokens_name(const struct tokens *t, uint32_t id, struct buf *out, struct err *err);
/* The same with the thread's encoder. */
NODISCARD int tokens_encoder_encode(struct tokens_encoder *e, const char *text, size_t len,
                                    const struct tokens_options *options, struct tokens_list *out,
                                    struct err *err);
NODISCARD int tokens_encoder_count(struct tokens_encoder *e, const char *text, size_t len,
                                   const struct tokens_options *options, size_t *out,
                                   struct err *err);

/* Room for `n` more ids behind ids + list->n; the caller then adds to list->n itself. */
void tokens_list_reserve(struct tokens_list *list, size_t n);
void tokens_list_free(struct tokens_list *list);

#endif
