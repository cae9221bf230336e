/* splitter.h: the pre-tokenizer patterns of known models, written by hand.
 *
 * A pattern is recognised by its exact text. Each splitter does what the reference's backtracking
 * engine does with that pattern, with its Unicode 16 classes, several times faster. All of them
 * take valid UTF-8 only (they do not check it) and keep no state. */
#ifndef TEXT_SPLITTER_H
#define TEXT_SPLITTER_H

#include "base/base.h"

enum splitter {
  SPLITTER_NONE,
  SPLITTER_CL100K,     /* GPT-4, Llama 3, GLM-4, Phi-4, OLMo 2: numbers in threes */
  SPLITTER_CL100K_NEW, /* tiktoken's later text of it, with possessive quantifiers */
  SPLITTER_QWEN2,      /* the same with single digits */
  SPLITTER_QWEN35,     /* and with marks as letters */
  SPLITTER_O200K,      /* GPT-4o, gpt-oss, Llama 4 */
  SPLITTER_TEKKEN,     /* the same without contractions, single digits */
  SPLITTER_KIMI,       /* the same with Han apart */
  SPLITTER_GPT2,
  SPLITTER_DEEPSEEK_TEXT, /* from here on a pattern may leave text between its matches */
  SPLITTER_DEEPSEEK_CJK,
  SPLITTER_NUMBERS3
};

/* The splitter for a pattern, SPLITTER_NONE when it is not a known one. */
enum splitter splitter_for(const char *pattern, size_t len);

/* Whether its matches follow one another without gaps, whatever the text. */
static inline bool splitter_tiles(enum splitter s) {
  return s != SPLITTER_NONE && s < SPLITTER_DEEPSEEK_TEXT;
}

/* For those that tile: the ends of the next matches from `from` on, as offsets into text, at most
 * `max` of them; returns how many. 0 only at the end of the text. len < 4 GiB. */
size_t splitter_ends(enum splitter s, const char *text, size_t len, size_t from, uint32_t *ends,
                     size_t max);

/* The leftmost match at or after `from`; false when there is none. Matches are never empty. */
bool splitter_find(enum splitter s, const char *text, size_t len, size_t from, size_t *start,
                   size_t *end);

#endif
