/* unicode.h: what tokenizers need to know of characters: classes, normalization, lower case.
 *
 * Classes are those of the reference's regular expression engine (Unicode 16), normalization is
 * Unicode 9.0, as in the reference: other versions give other ids. The tables are made by
 * unicode_gen.py from tests/data/unicode. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include "base/buf.h"

enum unicode_class {
  UNICODE_LETTER = 1,      /* \p{L} */
  UNICODE_NUMBER = 2,      /* \p{N} */
  UNICODE_MARK = 4,        /* \p{M} */
  UNICODE_PUNCT = 8,       /* \p{P} or \p{S} */
  UNICODE_SPACE = 16,      /* \s, which is also White_Space */
  UNICODE_UPPER_LIKE = 32, /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
  UNICODE_LOWER_LIKE = 64, /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
  UNICODE_HAN = 128        /* the script Han */
};

/* The classes of a scalar value: bits of enum unicode_class. */
uint8_t unicode_class(uint32_t cp);

/* The tables behind unicode_class, for inner loops; block 0 is ASCII. */
extern const uint16_t unicode_class_index[];
extern const uint8_t unicode_class_data[];
static inline uint8_t unicode_class_fast(uint32_t cp) {
  return unicode_class_data[(size_t)unicode_class_index[cp >> 7] * 128 + (cp & 127)];
}

/* The ranges {first, last} of the class a pattern calls `name`: s L N Lu Lt Lm Lo Ll M P S Han d w,
 * and "punct", the pre-tokenizer Punctuation's own; NULL for others. *n is the number of ranges. */
const uint32_t *unicode_ranges(const char *name, size_t len, size_t *n);
/* Whether cp is in those ranges (n of them, ascending). */
bool unicode_in_ranges(const uint32_t *ranges, size_t n, uint32_t cp);

/* Canonical combining class; 0 for starters. */
uint8_t unicode_ccc(uint32_t cp);
/* Whether a text may change under NFC because it holds cp. */
bool unicode_nfc_suspect(uint32_t cp);
/* The full canonical decomposition in `out` (room for 4), its length; 1 when cp stays itself. */
unsigned unicode_decompose(uint32_t cp, uint32_t out[4]);
/* The primary composite of two characters, 0 when they have none. */
uint32_t unicode_compose(uint32_t first, uint32_t second);
/* Lower case; `more` gets the second character of the one mapping that has two (U+0130), else 0. */
uint32_t unicode_lower(uint32_t cp, uint32_t *more);

/* Length of the prefix of valid UTF-8 that NFC surely leaves alone (it may be more than that). */
size_t unicode_nfc_span(const char *s, size_t len);
/* Where unicode_nfc_span ended: the length of the stretch that has to be normalized by itself, 0 at
 * the end of the text. Behind it NFC begins anew. */
size_t unicode_nfc_stretch(const char *s, size_t len);
/* Appends the NFC or NFD form of valid UTF-8. Time is n log n for any text. */
void unicode_normalize(const char *s, size_t len, bool compose, struct buf *out);

#endif
