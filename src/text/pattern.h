/* pattern.h: what normalizers, pre-tokenizers and decoders look for in a text: a string, characters
 * of a class, or a regular expression.
 *
 * Known expressions have hand-written matchers (splitter.h). Others are compiled with PCRE2, after
 * their classes (\p{L}, \s, \w, \d ...) were replaced by the reference engine's own ranges, since
 * PCRE2's Unicode data differ. What would mean something else in PCRE2 is refused. */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include "base/err.h"
#include "text/splitter.h"

enum pattern_kind { PATTERN_STRING, PATTERN_CLASS, PATTERN_SPLITTER, PATTERN_REGEX };

struct pattern {
  enum pattern_kind kind;
  char *string; /* owned */
  size_t len;
  uint8_t
      class_mask; /* of enum unicode_class: each such character is a match; 0: in these ranges */
  const uint32_t *ranges;
  size_t n_ranges;
  enum splitter splitter;
  void *regex; /* pcre2_code */
};

struct pattern pattern_string(const char *s, size_t len); /* copies */
struct pattern pattern_class(uint8_t mask);
struct pattern pattern_punctuation(void); /* each character of the pre-tokenizer Punctuation */
struct pattern pattern_splitter(enum splitter s);
/* From the text of a regular expression. ERR_INVALID: PCRE2 says where it is wrong;
 * ERR_UNSUPPORTED: names the construct that has no exact equal. */
NODISCARD int pattern_regex(struct pattern *p, const char *regex, size_t len, struct err *err);
void pattern_free(struct pattern *p);
/* Whether a match can be empty, in some text. */
bool pattern_may_be_empty(const struct pattern *p);

/* One walk over the matches of a text. */
struct pattern_search {
  const struct pattern *pattern;
  const char *text;
  size_t len, at, last;
  void *match_data; /* pcre2_match_data */
};
void pattern_begin(struct pattern_search *s, const struct pattern *p, const char *text,
                   size_t len); /* text: valid UTF-8, stays where it is until pattern_end */
void pattern_end(struct pattern_search *s);
/* 1 and the next match; 0 at the end; ERR_LIMIT when PCRE2 gives up. Matches may be empty; an empty
 * one right behind the last match is passed over. */
NODISCARD int pattern_next(struct pattern_search *s, size_t *start, size_t *end, struct err *err);

#endif
