/* pattern.c: the kinds of patterns and the walk over their matches; see pattern.h.
 *
 * A regular expression is rewritten before PCRE2 sees it (tokenregex.c). The walk steps as the
 * reference's does, also over empty matches. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <pcre2.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "text/tokenregex.h"
#include "text/unicode.h"
#include "text/utf8.h"

struct pattern pattern_string(const char *s, size_t len) {
  return (struct pattern){.kind = PATTERN_STRING, .string = mem_strndup(s, len), .len = len};
}

struct pattern pattern_class(uint8_t mask) {
  return (struct pattern){.kind = PATTERN_CLASS, .class_mask = mask};
}

struct pattern pattern_punctuation(void) {
  struct pattern p = {.kind = PATTERN_CLASS};
  p.ranges = unicode_ranges("punct", 5, &p.n_ranges);
  return p;
}

struct pattern pattern_splitter(enum splitter s) {
  return (struct pattern){.kind = PATTERN_SPLITTER, .splitter = s};
}

int pattern_regex(struct pattern *p, const char *regex, size_t len, struct err *err) {
  *p = (struct pattern){.kind = PATTERN_SPLITTER, .splitter = splitter_for(regex, len)};
  if (p->splitter != SPLITTER_NONE)
    return 0;
  struct buf exact;
  buf_init(&exact, 8 << 20);
  int rc = tokenregex_rewrite(regex, len, &exact, err);
  if (!rc) {
    int code;
    PCRE2_SIZE at;
    PCRE2_UCHAR text[120];
    p->kind = PATTERN_REGEX;
    p->regex = pcre2_compile((PCRE2_SPTR)exact.data, exact.len,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
    if (!p->regex) {
      pcre2_get_error_message(code, text, sizeof text);
      rc = err_set(err, ERR_INVALID, "pattern \"%.*s\": %s", (int)(len < 300 ? len : 300), regex,
                   (char *)text);
    } else {
      (void)pcre2_jit_compile(p->regex, PCRE2_JIT_COMPLETE); /* without it it is only slower */
    }
  }
  buf_free(&exact);
  return rc;
}

bool pattern_may_be_empty(const struct pattern *p) {
  uint32_t empty = 0;
  if (p->kind == PATTERN_REGEX)
    (void)pcre2_pattern_info(p->regex, PCRE2_INFO_MATCHEMPTY, &empty);
  return empty || (p->kind == PATTERN_STRING && !p->len);
}

void pattern_free(struct pattern *p) {
  mem_free(p->string);
  pcre2_code_free(p->regex);
  *p = (struct pattern){0};
}

void pattern_begin(struct pattern_search *s, const struct pattern *p, const char *text,
                   size_t len) {
  *s = (struct pattern_search){.pattern = p, .text = text, .len = len, .last = SIZE_MAX};
  if (p->kind == PATTERN_REGEX) {
    s->match_data = pcre2_match_data_create(1, NULL);
    assert(s->match_data);
  }
}

void pattern_end(struct pattern_search *s) {
  pcre2_match_data_free(s->match_data);
  s->match_data = NULL;
}

static int next_regex(struct pattern_search *s, size_t *start, size_t *end, struct err *err) {
  while (s->at <= s->len) {
    int rc = pcre2_match(s->pattern->regex, (PCRE2_SPTR)s->text, s->len, s->at, PCRE2_NO_UTF_CHECK,
                         s->match_data, NULL);
    if (rc == PCRE2_ERROR_NOMATCH)
      return 0;
    if (rc < 0) {
      PCRE2_UCHAR why[120];
      pcre2_get_error_message(rc, why, sizeof why);
      return err_set(err, ERR_LIMIT,
                     "the pattern's search from byte %zu on tries too many ways to match (PCRE2: "
                     "%s); other texts may do",
                     s->at, (char *)why);
    }
    const PCRE2_SIZE *where = pcre2_get_ovector_pointer(s->match_data);
    *start = where[0];
    *end = where[1];
    s->at = *end;
    if (*start != *end || *end != s->last) {
      s->last = *end;
      return 1;
    }
    const char *p = s->text + s->at;
    if (s->at < s->len)
      (void)utf8_take(&p);
    else
      p++;
    s->at = (size_t)(p - s->text);
  }
  return 0;
}

static bool next_class(struct pattern_search *s, size_t *start, size_t *end) {
  for (const char *p = s->text + s->at, *stop = s->text + s->len; p < stop;) {
    *start = (size_t)(p - s->text);
    uint32_t cp = utf8_take(&p);
    const struct pattern *class = s->pattern;
    if (class->ranges ? unicode_in_ranges(class->ranges, class->n_ranges, cp)
                      : (unicode_class_fast(cp) & class->class_mask) != 0) {
      *end = (size_t)(p - s->text);
      return true;
    }
  }
  return false;
}

int pattern_next(struct pattern_search *s, size_t *start, size_t *end, struct err *err) {
  const struct pattern *p = s->pattern;
  const char *hit;
  bool found = false;
  switch (p->kind) {
  case PATTERN_REGEX:
    return next_regex(s, start, end, err);
  case PATTERN_SPLITTER:
    found = splitter_find(p->splitter, s->text, s->len, s->at, start, end);
    break;
  case PATTERN_CLASS:
    found = next_class(s, start, end);
    break;
  case PATTERN_STRING:
    hit = p->len == 1   ? memchr(s->text + s->at, p->string[0], s->len - s->at)
          : p->len == 0 ? NULL
                        : memmem(s->text + s->at, s->len - s->at, p->string, p->len);
    if (hit) {
      found = true;
      *start = (size_t)(hit - s->text);
      *end = *start + p->len;
    }
    break;
  }
  if (found)
    s->at = *end;
  return found;
}
