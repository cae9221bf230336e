/* openai_json.h: a pull scanner over one JSON text: the caller walks to the fields it wants, all
 * else is skipped, and everything is checked on the way. Private to openai*.c.
 *
 * Nothing is allocated and nothing copied: strings are views of the source, still escaped. Grammar
 * is RFC 8259 with one liberty: bytes above ASCII pass unchecked, because a server may cut a
 * character in two between events. After a mistake every call answers "no more", so a walk needs
 * one check of `bad`, at its end. */
#ifndef TEXT_OPENAI_JSON_H
#define TEXT_OPENAI_JSON_H

#include "base/buf.h"

#include <string.h>

struct scan {
  const char *p, *end;
  unsigned depth;
  bool bad;
  bool cut;        /* bad, because the text ended too early */
  struct buf *key; /* room for a key that is written with escapes */
};

/* A string's content between its quotes; `there` is false for null and for anything else. */
struct scan_str {
  const char *p;
  size_t len;
  bool escaped, there;
};

#define SCAN_IS(str, literal)                                                                      \
  ((str).len == sizeof(literal) - 1 && memcmp((str).p, literal, sizeof(literal) - 1) == 0)

/* `key` must outlive the scan. */
void scan_init(struct scan *s, const char *text, size_t len, struct buf *key);
/* After the top value: white space may follow, anything else is a mistake. */
void scan_end(struct scan *s);
/* Gives up: as after a mistake. */
void scan_stop(struct scan *s);

/* Enters the array ('[') or object ('{') that stands here. False, with the value skipped, when it
 * is something else. */
bool scan_enter(struct scan *s, char open);
/* The next member of an entered object: its key (unescaped, valid until the next scan_key), the
 * scanner standing at its value, which must be read or skipped. False at the object's end. `first`
 * starts as true. */
bool scan_key(struct scan *s, bool *first, struct scan_str *key);
/* The next item of an entered array, the scanner standing at it. False at the array's end. */
bool scan_item(struct scan *s, bool *first);

void scan_skip(struct scan *s);
/* Reads the value that stands here; sets out->there only for a string. */
void scan_string(struct scan *s, struct scan_str *out);
/* A whole number that is not negative; `absent` for everything else, whose value is skipped. */
int64_t scan_count(struct scan *s, int64_t absent);
/* Any number that fits, also when written as a string of digits. */
int64_t scan_code(struct scan *s, int64_t absent, struct scan_str *text);

/* Appends the string's characters; lone surrogates become U+FFFD. ERR_LIMIT from the buffer. */
NODISCARD int scan_unescape(const struct scan_str *str, struct buf *out);
bool scan_equals_escaped(const struct scan_str *str, const char *word, size_t len);
/* Whether the unescaped string is this one. */
static inline bool scan_equals(const struct scan_str *str, const char *word) {
  size_t len = strlen(word);
  if (!str->there)
    return false;
  return str->escaped ? scan_equals_escaped(str, word, len)
                      : str->len == len && memcmp(str->p, word, len) == 0;
}

#endif
