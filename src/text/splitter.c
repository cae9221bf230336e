/* splitter.c: hand-written matchers, one per pattern; see splitter.h.
 *
 * A matcher takes a place in the text and returns the end of the match there, trying the pattern's
 * alternatives in their order. What backtracking would find is worked out beforehand: a greedy run
 * followed by something it may have to give back is scanned once, with the last place worth
 * returning to kept in mind. */
#include "text/splitter.h"

#include "text/unicode.h"

#include <string.h>

typedef const unsigned char *at; /* a place in the text */

enum {
  L = UNICODE_LETTER,
  N = UNICODE_NUMBER,
  M = UNICODE_MARK,
  PS = UNICODE_PUNCT,
  S = UNICODE_SPACE,
  U = UNICODE_UPPER_LIKE,
  W = UNICODE_LOWER_LIKE,
  HAN = UNICODE_HAN
};

static inline uint8_t class_more(at p, unsigned *n) {
  if (p[0] < 0xe0) {
    *n = 2;
    return unicode_class_fast((uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3fu));
  }
  if (p[0] < 0xf0) {
    *n = 3;
    return unicode_class_fast((uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 |
                              (p[2] & 0x3fu));
  }
  *n = 4;
  return unicode_class_fast((uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
                            (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3fu));
}

/* The classes of the character at p, and its length in bytes. */
static inline uint8_t class_at(at p, unsigned *n) {
  if (p[0] < 0x80) {
    *n = 1;
    return unicode_class_data[p[0]];
  }
  return class_more(p, n);
}

#define EACH(byte) ((byte)*UINT64_C(0x0101010101010101))

/* Behind the run of ASCII letters at p, eight bytes at a time; `fold` 0x20: of either case, 0:
 * lower case. */
static inline at ascii_letters(at p, at end, unsigned fold) {
  for (; end - p >= 8; p += 8) {
    uint64_t x, y;
    memcpy(&x, p, 8);
    y = (x | EACH(fold)) & EACH(0x7f);
    uint64_t letter = (y + EACH(0x80 - 'a')) & ~(y + EACH(0x7f - 'z')) & ~x & EACH(0x80);
    if (letter != EACH(0x80))
      return p + __builtin_ctzll(letter ^ EACH(0x80)) / 8;
  }
  while (p < end && (unsigned char)((*p | fold) - 'a') < 26)
    p++;
  return p;
}

/* Behind the run of characters that have a class of `mask`. */
static inline at run_of(at p, at end, uint8_t mask) {
  unsigned n;
  if (mask & L) {
    p = ascii_letters(p, end, 0x20);
    if (p < end && *p < 0x80 && !(unicode_class_data[*p] & mask))
      return p;
  }
  while (p < end && (class_at(p, &n) & mask))
    p += n;
  return p;
}

/* Behind the run of characters that have none. */
static inline at run_without(at p, at end, uint8_t mask) {
  unsigned n;
  while (p < end && !(class_at(p, &n) & mask))
    p += n;
  return p;
}

/* \p{N}{1,max}, the first of them being there; max 0 means no bound. */
static inline at numbers(at p, at end, unsigned max) {
  unsigned n, seen = 0;
  while (p < end && (class_at(p, &n) & N)) {
    p += n;
    if (++seen == max)
      break;
  }
  return p;
}

static inline at newlines(at p, at end, bool slash) {
  while (p < end && (*p == '\n' || *p == '\r' || (slash && *p == '/')))
    p++;
  return p;
}

/* Behind s, t, m, d, re, ve or ll at p (which follows an apostrophe); NULL when there is none. The
 * long s (U+017F) is an s when case does not matter. */
static inline at contraction(at p, at end, bool any_case) {
  if (p >= end)
    return NULL;
  unsigned char fold = any_case ? 0x20 : 0, c = *p | fold;
  if (c == 's' || c == 't' || c == 'm' || c == 'd')
    return p + 1;
  if (end - p < 2)
    return NULL;
  unsigned char d = p[1] | fold;
  if (((c == 'r' || c == 'v') && d == 'e') || (c == 'l' && d == 'l'))
    return p + 2;
  return any_case && p[0] == 0xc5 && p[1] == 0xbf ? p + 2 : NULL;
}

/* White space at p: `\s*[\r\n]+|\s+(?!\S)|\s+`; with `to_end`, `\s+$` goes before. */
static inline at spaces(at p, at end, bool lines, bool to_end) {
  at q = p, last = p, behind_line = NULL;
  unsigned n;
  uint64_t x;
  for (; end - q >= 8 && memcpy(&x, q, 8) && x == EACH(' '); q += 8) /* indented lines */
    last = q + 7;
  while (q < end && (class_at(q, &n) & S)) {
    if (lines && (*q == '\n' || *q == '\r'))
      behind_line = q + 1;
    last = q;
    q += n;
  }
  if (behind_line && !(to_end && q == end))
    return behind_line;
  return q == end || last == p ? q : last; /* the last one goes with what follows */
}

/* The family of cl100k. */
static inline __attribute__((always_inline)) at match_cl100k(at p, at end, unsigned digits,
                                                             uint8_t letters, bool to_end) {
  unsigned n, m = 0;
  uint8_t c = class_at(p, &n);
  if (c & letters)
    return run_of(p + n, end, letters);
  if (c & N)
    return numbers(p, end, digits);
  at q = p + n, e;
  if (*p == '\'' && (e = contraction(q, end, true)))
    return e;
  uint8_t d = q < end ? class_at(q, &m) : S;
  if ((d & letters) && *p != '\n' && *p != '\r')
    return run_of(q + m, end, letters);
  uint8_t taken = S | N | letters;
  if (!(c & S))
    return newlines(run_without(q, end, taken), end, false);
  if (*p == ' ' && !(d & taken))
    return newlines(run_without(q + m, end, taken), end, false);
  return spaces(p, end, true, to_end);
}

/* `[U]*[W]+` at p, else `[U]+[W]*` when `upper`; NULL when there is no match. `skip`: characters of
 * these classes end both runs. */
static at cased_word(at p, at end, uint8_t skip, bool upper) {
  at q = p, given_back = NULL; /* behind the last character of the run that is in W too */
  unsigned n;
  while (q < end) {
    uint8_t c = class_at(q, &n);
    if (!(c & U) || (c & skip))
      break;
    q += n;
    if (c & W)
      given_back = q;
  }
  if (q < end) {
    uint8_t c = class_at(q, &n);
    if ((c & W) && !(c & skip)) {
      do
        q += n;
      while (q < end && ((c = class_at(q, &n)) & W) && !(c & skip));
      return q;
    }
  }
  if (given_back || !upper)
    return given_back;
  return q > p ? q : NULL;
}

/* The same with `upper` for words that mostly are of ASCII. */
static inline at cased_word_near(at p, at end, uint8_t skip) {
  at q = p;
  while (q < end && (unsigned char)(*q - 'A') < 26)
    q++;
  q = ascii_letters(q, end, 0);
  if (q < end && *q >= 0x80)
    return cased_word(p, end, skip, true);
  return q > p ? q : NULL;
}

/* The family of o200k. The optional first character is taken when it can be, so a mark, which may
 * also begin the word, is tried in both places. */
static inline __attribute__((always_inline)) at
match_o200k(at p, at end, unsigned digits, bool contractions, bool han, bool slash) {
  unsigned n, m = 0;
  uint8_t c = class_at(p, &n);
  uint8_t skip = han ? HAN : 0;
  if (c & skip)
    return run_of(p + n, end, HAN);
  at q = p + n, e = NULL;
  bool prefix = !(c & (L | N)) && *p != '\n' && *p != '\r' && q < end;
  if (c & M) {
    at words[2] = {prefix ? q : NULL, p};
    for (int i = 0; i < 4 && !e; i++)
      if (words[i & 1])
        e = cased_word(words[i & 1], end, skip, i >= 2);
  } else if (prefix || (c & L)) {
    e = cased_word_near(prefix ? q : p, end, skip);
  }
  if (e) {
    at f = contractions && e < end && *e == '\'' ? contraction(e + 1, end, true) : NULL;
    return f ? f : e;
  }
  if (c & N)
    return numbers(p, end, digits);
  uint8_t taken = S | L | N, d = q < end ? class_at(q, &m) : S;
  if (!(c & S))
    return newlines(run_without(q, end, taken), end, slash);
  if (*p == ' ' && !(d & taken))
    return newlines(run_without(q + m, end, taken), end, slash);
  return spaces(p, end, true, false);
}

static inline __attribute__((always_inline)) at match_gpt2(at p, at end) {
  at e, q = p + (*p == ' ');
  if (*p == '\'' && (e = contraction(p + 1, end, false)))
    return e;
  if (q < end) {
    unsigned n;
    uint8_t c = class_at(q, &n);
    if (c & L)
      return run_of(q + n, end, L);
    if (c & N)
      return run_of(q + n, end, N);
    if (!(c & S))
      return run_without(q + n, end, S | L | N);
  }
  return spaces(p, end, false, false);
}

static inline bool ascii_letter(unsigned char c) {
  return (unsigned char)((c | 0x20) - 'a') < 26;
}

/* The third pattern of DeepSeek; NULL when nothing matches at p. */
static inline __attribute__((always_inline)) at match_deepseek(at p, at end) {
  unsigned n, m = 0;
  uint8_t c = class_at(p, &n);
  at q = p + n;
  if (n == 1 && (c & PS) && q < end && ascii_letter(*q)) {
    while (q < end && ascii_letter(*q))
      q++;
    return q;
  }
  if (c & (L | M))
    return run_of(q, end, L | M);
  uint8_t d = q < end ? class_at(q, &m) : 0;
  if (!(c & PS) && (d & (L | M)) && *p != '\n' && *p != '\r')
    return run_of(q + m, end, L | M);
  if (c & PS)
    return newlines(run_of(q, end, PS), end, false);
  if (*p == ' ' && (d & PS))
    return newlines(run_of(q + m, end, PS), end, false);
  return c & S ? spaces(p, end, true, false) : NULL;
}

/* [一-龥぀-ゟ゠-ヿ]: three bytes each. */
static inline bool deepseek_cjk(at p) {
  if ((p[0] & 0xf0) != 0xe0)
    return false;
  unsigned cp = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
  return (cp >= 0x4e00 && cp <= 0x9fa5) || (cp >= 0x3040 && cp <= 0x30ff);
}

static at match_at(enum splitter s, at p, at end) {
  unsigned n;
  at q = p;
  switch (s) {
  case SPLITTER_CL100K:
    return match_cl100k(p, end, 3, L, false);
  case SPLITTER_CL100K_NEW:
    return match_cl100k(p, end, 3, L, true);
  case SPLITTER_QWEN2:
    return match_cl100k(p, end, 1, L, false);
  case SPLITTER_QWEN35:
    return match_cl100k(p, end, 1, L | M, false);
  case SPLITTER_O200K:
    return match_o200k(p, end, 3, true, false, true);
  case SPLITTER_TEKKEN:
    return match_o200k(p, end, 1, false, false, true);
  case SPLITTER_KIMI:
    return match_o200k(p, end, 3, true, true, false);
  case SPLITTER_GPT2:
    return match_gpt2(p, end);
  case SPLITTER_DEEPSEEK_TEXT:
    return match_deepseek(p, end);
  case SPLITTER_DEEPSEEK_CJK:
    while (q < end && deepseek_cjk(q))
      q += 3;
    return q > p ? q : NULL;
  case SPLITTER_NUMBERS3:
    return class_at(p, &n) & N ? numbers(p, end, 3) : NULL;
  case SPLITTER_NONE:
    break;
  }
  return NULL;
}

#define ENDS(match)                                                                                \
  while (p < end && n < max) {                                                                     \
    p = match;                                                                                     \
    assert(p); /* they tile */                                                                     \
    ends[n++] = (uint32_t)(p - base);                                                              \
  }                                                                                                \
  return n;

size_t splitter_ends(enum splitter s, const char *text, size_t len, size_t from, uint32_t *ends,
                     size_t max) {
  at base = (at)text, end = base + len, p = base + from;
  size_t n = 0;
  assert(splitter_tiles(s) && len < UINT32_MAX);
  switch (s) { /* a loop for each, so that each matcher is compiled into its own */
  case SPLITTER_CL100K:
    ENDS(match_cl100k(p, end, 3, L, false))
  case SPLITTER_QWEN2:
    ENDS(match_cl100k(p, end, 1, L, false))
  case SPLITTER_O200K:
    ENDS(match_o200k(p, end, 3, true, false, true))
  case SPLITTER_GPT2:
    ENDS(match_gpt2(p, end))
  default:
    ENDS(match_at(s, p, end))
  }
}

bool splitter_find(enum splitter s, const char *text, size_t len, size_t from, size_t *start,
                   size_t *end) {
  if (from >= len)
    return false;
  assert(text);
  at base = (at)text, stop = base + len;
  unsigned n;
  for (at p = base + from; p < stop; p += n) {
    at e = match_at(s, p, stop);
    if (e) {
      *start = (size_t)(p - base);
      *end = (size_t)(e - base);
      return true;
    }
    class_at(p, &n);
  }
  return false;
}

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define OTHERS " ?[^\\s\\p{L}\\p{N}]+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"

static const struct {
  const char *pattern;
  enum splitter splitter;
} known[] = {
    {CONTRACTIONS "|" PREFIX "\\p{L}+|\\p{N}{1,3}|" OTHERS "[\\r\\n]*|" SPACES, SPLITTER_CL100K},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\"
     "n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     SPLITTER_CL100K},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     SPLITTER_CL100K_NEW},
    {CONTRACTIONS "|" PREFIX "\\p{L}+|\\p{N}|" OTHERS "[\\r\\n]*|" SPACES, SPLITTER_QWEN2},
    {CONTRACTIONS "|" PREFIX "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
     SPLITTER_QWEN35},
    {PREFIX UPPER "*" LOWER "+" CONTRACTIONS "?|" PREFIX UPPER "+" LOWER "*" CONTRACTIONS
                  "?|\\p{N}{1,3}|" OTHERS "[\\r\\n/]*|" SPACES,
     SPLITTER_O200K},
    {PREFIX UPPER "*" LOWER "+|" PREFIX UPPER "+" LOWER "*|\\p{N}|" OTHERS "[\\r\\n/]*|" SPACES,
     SPLITTER_TEKKEN},
    {"[\\p{Han}]+|" PREFIX KIMI_UPPER "*" KIMI_LOWER "+" CONTRACTIONS "?|" PREFIX KIMI_UPPER
     "+" KIMI_LOWER "*" CONTRACTIONS "?|\\p{N}{1,3}|" OTHERS "[\\r\\n]*|" SPACES,
     SPLITTER_KIMI},
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" OTHERS "|\\s+(?!\\S)|\\s+", SPLITTER_GPT2},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}"
     "]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     SPLITTER_DEEPSEEK_TEXT},
    {"[一-龥\u3040-ゟ゠-ヿ]+", SPLITTER_DEEPSEEK_CJK},
    {"\\p{N}{1,3}", SPLITTER_NUMBERS3},
};

enum splitter splitter_for(const char *pattern, size_t len) {
  for (size_t i = 0; i < ARRAY_LEN(known); i++)
    if (strlen(known[i].pattern) == len && memcmp(known[i].pattern, pattern, len) == 0)
      return known[i].splitter;
  return SPLITTER_NONE;
}
