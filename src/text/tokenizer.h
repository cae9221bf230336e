/* tokenizer.h: a model's tokenizer: added tokens, normalizers, pre-tokenizers, a BPE vocabulary,
 * decoders. Loaders fill one in; tokens.h is how it is used. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "text/addedtokens.h"
#include "text/bpe.h"
#include "text/jsonwalk.h"
#include "text/tokens.h"
#include "text/tokensteps.h"
#include "text/value.h"

/* An added token's text by id, for decoding. */
struct added_text {
  uint32_t id;
  char *text; /* owned */
  size_t len;
};

enum deco_way {
  DECO_WAY_SPACES, /* no decoder: texts with a space between, as the reference does */
  DECO_WAY_BYTES,  /* the tokens' bytes */
  DECO_WAY_STEPS
};

struct tokenizer {
  struct tokens base;
  uint32_t refs; /* atomic */
  struct bpe bpe;
  struct addedtokens raw, normalized; /* looked for before and after the normalizers */
  struct added_text *added;           /* sorted by id once finished */
  size_t n_added, cap_added;
  struct normsteps norm;
  struct presteps pre;
  struct decosteps deco;
  enum deco_way deco_way;
  struct tokens_list before, after; /* the ids of add_special */
};

/* An empty one with one owner; tokens_close frees it also half made. */
struct tokenizer *tokenizer_new(const char *name);
/* An added token: text and flags are copied. `normalized`: it is looked for in normalized text. */
NODISCARD int tokenizer_add(struct tokenizer *t, const char *text, size_t len,
                            const struct added_token *flags, bool normalized, struct err *err);
/* To be called once everything is in. */
NODISCARD int tokenizer_finish(struct tokenizer *t, struct err *err);

/* Whether somebody else owns it, too. */
bool tokenizer_has_owners(const struct tokens *t);

static inline const struct tokenizer *tokenizer_of(const struct tokens *t) {
  assert(t->kind == TOKENS_BPE);
  return CONTAINER_OF(t, struct tokenizer, base);
}
/* Appends the ids of valid UTF-8 in which no raw added token is, special tokens found. `first`: the
 * whole text begins with it. Sections are independent: the ids of a text are those of its sections
 * and of the added tokens between them. */
NODISCARD int tokenizer_encode_section(struct tokens_encoder *e, const char *text, size_t len,
                                       bool first, struct tokens_list *out, struct err *err);

/* Loaders: fill a new tokenizer from a whole file's text. Messages lack the file's name. */
NODISCARD int tokenjson_load(struct tokenizer *t, const char *text, size_t len, struct err *err);
NODISCARD int rankfile_load(struct tokenizer *t, const char *text, size_t len, const char *family,
                            struct err *err);
/* "cl100k_base, o200k_base, …" */
const char *rankfile_families(void);
/* Whose rank file a family uses ("o200k_base" for o200k_harmony); NULL for unknown families. */
const char *rankfile_file(const char *family);

/* The whole of a file into `out`; ERR_NOT_FOUND, ERR_IO, ERR_LIMIT at out->max. (tokenfile.c) */
NODISCARD int tokenfile_read(const char *path, struct buf *out, struct err *err);
/* Folder i (from 0) that names are looked for in, into `b`; false behind the last.
 * $PERIGEE_TOKENIZERS stands for all others. */
bool tokenfile_folder(int i, struct buf *b);
/* Where `file` lies beside the named tokenizer's own (tokens_load), into `path`; false: nowhere. */
bool tokenfile_find(const char *name, const char *file, struct buf *path);

/* The steps around the vocabulary, from the components of a tokenizer.json (NULL or null: none).
 * ERR_UNSUPPORTED names component and value. (tokenparts.c) */
NODISCARD int tokenparts_normalizer(struct tokenizer *t, const struct value *v, struct err *err);
NODISCARD int tokenparts_pre_tokenizer(struct tokenizer *t, const struct value *v, struct err *err);
NODISCARD int tokenparts_decoder(struct tokenizer *t, const struct value *v, struct err *err);
NODISCARD int tokenparts_post_processor(struct tokenizer *t, const struct value *v,
                                        struct err *err);

#endif
