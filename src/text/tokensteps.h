/* tokensteps.h: the steps around a vocabulary: normalizers, pre-tokenizers, decoders.
 *
 * A tokenizer has a list of each, run in order. They are made by tokenparts.c from the components
 * of a tokenizer file and hold no state of their own: what a run needs is passed in. */
#ifndef TEXT_TOKENSTEPS_H
#define TEXT_TOKENSTEPS_H

#include "base/buf.h"
#include "text/bpe.h"
#include "text/pattern.h"

/* ---- normalizers: the text of a section before it is cut ---- */
enum norm_kind { NORM_NFC, NORM_NFD, NORM_LOWER, NORM_REPLACE, NORM_PREPEND, NORM_STRIP };

struct normstep {
  enum norm_kind kind;
  struct pattern pattern; /* of NORM_REPLACE */
  char *content;          /* what replaces it, or is put in front; owned */
  size_t content_len;
  bool left, right; /* of NORM_STRIP */
};

struct normsteps {
  struct normstep *steps;
  size_t n, cap;
};
void normsteps_free(struct normsteps *n);

/* The normalized form of valid UTF-8: *out is the text itself where nothing changed, or lies in one
 * of the buffers. *first is cleared when what it begins with does not stand for the text's first
 * character: white space that was stripped, or a replaced match of several characters. */
NODISCARD int normsteps_run(const struct normsteps *n, const char *text, size_t len,
                            struct buf bufs[2], const char **out, size_t *out_len, bool *first,
                            struct err *err);

/* ---- pre-tokenizers: a section into pieces, which are encoded as they come ---- */
enum pre_behavior {
  PRE_ISOLATED,
  PRE_REMOVED,
  PRE_MERGED_WITH_PREVIOUS,
  PRE_MERGED_WITH_NEXT,
  PRE_CONTIGUOUS
};
/* What happens to a piece before it is split. */
enum pre_change { PRE_AS_IS, PRE_SPACE_FIRST, PRE_META_ALWAYS, PRE_META_FIRST, PRE_META_NEVER };

struct prestep {
  enum pre_change change;
  char meta[5]; /* what stands for a space */
  bool splits;
  struct pattern pattern;
  enum pre_behavior behavior;
  bool invert;
};

#define PRESTEPS_MAX 16
struct presteps {
  struct prestep steps[PRESTEPS_MAX];
  size_t n;
};
void presteps_free(struct presteps *p);

struct prerun {
  const struct presteps *steps;
  const struct bpe *bpe;
  struct bpe_scratch *scratch;
  struct buf *bufs; /* one per step */
  struct tokens_list *out;
  struct err *err;
};
/* Cuts valid UTF-8 and appends its ids. `first`: it begins where the whole text begins. */
NODISCARD int presteps_run(const struct prerun *r, const char *text, size_t len, bool first);

/* ---- decoders: the texts of tokens into one text ---- */
enum deco_kind { DECO_REPLACE, DECO_FALLBACK, DECO_FUSE, DECO_STRIP, DECO_META };

struct decostep {
  enum deco_kind kind;
  struct pattern pattern;
  char *content; /* owned; of DECO_STRIP and DECO_META one character */
  size_t content_len;
  size_t start, stop; /* of DECO_STRIP: at most so many characters from either end */
  bool drop_first;    /* of DECO_META: the first token loses it instead of getting spaces */
};

struct decosteps {
  struct decostep *steps;
  size_t n, cap;
};
void decosteps_free(struct decosteps *d);

/* A list of token texts on its way: piece i is text.data[ends[i - 1] .. ends[i]). */
struct decopieces {
  struct buf text;
  size_t *ends;
  size_t n, cap;
};
void decopieces_init(struct decopieces *d, size_t max);
void decopieces_free(struct decopieces *d);
NODISCARD int decopieces_add(struct decopieces *d, const char *text, size_t len);
/* Runs the steps; what is left in `pieces->text` is the decoded text. ERR_LIMIT past its max. */
NODISCARD int decosteps_run(const struct decosteps *d, struct decopieces *pieces, struct err *err);

#endif
