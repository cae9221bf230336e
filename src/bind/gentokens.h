/* gentokens.h: generated text that a model's tokenizer makes exactly n tokens of. */
#ifndef BIND_GENTOKENS_H
#define BIND_GENTOKENS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "text/tokens.h"

#define TEXT_WORDS_COUNT 256

/* What words cost alone, in tokens, behind a space and with a capital letter; 0: not known yet.
 * Zero-initialised is empty; of one tokenizer. */
struct gen_costs {
  uint8_t of[TEXT_WORDS_COUNT][2];
};

/* A run of words and sentence ends drawn from a generator (gen.c). */
struct text_words {
  struct rng *rng;
  uint64_t bits;
  int left;
};
unsigned text_next_word(struct text_words *w, bool *sentence_ends);
void text_put_word(struct buf *b, unsigned word, bool capital);

/* Appends words of which tokenizing them alone, special tokens not added, gives exactly n >= 1 ids.
 * The same for the same n, generator and tokenizer, whoever makes it. `costs` is the caller's, for
 * this tokenizer. Time: one count of the text, rarely some more. ERR_UNSUPPORTED: no such text was
 * found; nothing is appended then. */
NODISCARD int text_write_tokens(struct buf *b, size_t n, struct rng *rng, struct tokens_encoder *e,
                                struct gen_costs *costs, struct err *err);

#endif
