/* err.c: filling `struct err`, and finding the word a person probably meant. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define WORD_KEPT 160 /* bytes that are left of a word at least */

static const char gap[3] = {'\xe2', '\x80', '\xa6'}; /* "…" */

/* Cuts a UTF-8 string that vsnprintf truncated in the middle of a character. */
static void trim_utf8(char *text) {
  size_t len = strlen(text);
  size_t back = 0;
  while (back < len && back < 4 && ((unsigned char)text[len - 1 - back] & 0xC0) == 0x80)
    back++;
  if (back == len || back == 4)
    return;
  unsigned char lead = (unsigned char)text[len - 1 - back];
  size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (want > back + 1)
    text[len - 1 - back] = '\0';
}

/* Where the next blank is, or the end. */
static size_t word_end(const char *text, size_t at) {
  return at + strcspn(text + at, " \t\n");
}

static bool inside(char c) {
  return ((unsigned char)c & 0xC0) == 0x80;
}

/* Takes the middle out of the longest word, down to `most` bytes in all; false: none is long. */
static bool shorten(char *text, size_t *len, size_t most) {
  size_t from = 0, size = 0;
  for (size_t at = 0, end; at < *len; at = end + 1) {
    end = word_end(text, at);
    if (end - at > size) {
      from = at;
      size = end - at;
    }
  }
  if (size < WORD_KEPT + 16) /* what goes is longer than its mark */
    return false;
  size_t too_many = *len - most + sizeof gap, left = size > too_many ? size - too_many : 0;
  left = left > WORD_KEPT ? left : WORD_KEPT;
  size_t head = from + left * 2 / 3, tail = from + size - left / 3;
  while (head > from && inside(text[head]))
    head--;
  while (inside(text[tail]))
    tail++;
  memcpy(text + head, gap, sizeof gap);
  head += sizeof gap;
  memmove(text + head, text + tail, *len - tail + 1);
  *len -= tail - head;
  return true;
}

/* A person's text, quoted, may be of any length, and the way out stands behind it: so long words
 * lose their middle first. Frees `text`. */
static void take(struct err *err, char *text) {
  size_t len = strlen(text), most = sizeof err->text - 1;
  while (len > most && shorten(text, &len, most)) {
  }
  bool cut = len > most;
  len = cut ? most : len;
  memcpy(err->text, text, len);
  err->text[len] = '\0';
  if (cut)
    trim_utf8(err->text);
  mem_free(text);
}

/* Free with mem_free. */
static char *format(const char *fmt, va_list args) PRINTF_LIKE(1, 0);
static char *format(const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  size_t size = n < 0 ? 1 : (size_t)n + 1;
  char *text = mem_alloc(size);
  text[0] = '\0';
  vsnprintf(text, size, fmt, args);
  return text;
}

int err_set(struct err *err, int code, const char *fmt, ...) {
  assert(code < 0);
  if (!err)
    return code;
  char small[sizeof err->text]; /* the arguments may point into err->text */
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(small, sizeof small, fmt, args);
  va_end(args);
  if (n < (int)sizeof small) {
    memcpy(err->text, small, sizeof small);
  } else {
    va_start(args, fmt);
    char *text = format(fmt, args);
    va_end(args);
    take(err, text);
  }
  err->code = code;
  return code;
}

int err_prefix(struct err *err, const char *fmt, ...) {
  if (!err)
    return ERR_INVALID;
  va_list args;
  va_start(args, fmt);
  char *prefix = format(fmt, args);
  va_end(args);
  size_t size = strlen(prefix) + 2 + strlen(err->text) + 1;
  char *text = mem_alloc(size);
  snprintf(text, size, "%s: %s", prefix, err->text);
  mem_free(prefix);
  take(err, text);
  return err->code;
}

const char *err_name(int code) {
  static const char *const names[] = {"ok",      "invalid", "not_found", "io",
                                      "limit",   "closed",  "cancelled", "timeout",
                                      "resolve", "connect", "tls",       "unsupported"};
  if (code > 0 || (size_t)-code >= ARRAY_LEN(names))
    return "unknown";
  return names[-code];
}

static void lower(const char *word, size_t n, char *out) {
  for (size_t i = 0; i < n; i++)
    out[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
}

/* Edit distance with adjacent swaps, small and capital letters alike, words cut at 63 bytes. */
static size_t edits(const char *word, const char *name) {
  size_t na = strnlen(word, 63), nb = strnlen(name, 63);
  char a[64], b[64];
  lower(word, na, a);
  lower(name, nb, b);
  size_t row[3][64];
  for (size_t j = 0; j <= nb; j++)
    row[0][j] = j;
  for (size_t i = 1; i <= na; i++) {
    size_t *cur = row[i % 3], *prev = row[(i + 2) % 3], *prev2 = row[(i + 1) % 3];
    cur[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      size_t best = prev[j - 1] + (a[i - 1] != b[j - 1]);
      if (prev[j] + 1 < best)
        best = prev[j] + 1;
      if (cur[j - 1] + 1 < best)
        best = cur[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && prev2[j - 2] + 1 < best)
        best = prev2[j - 2] + 1;
      cur[j] = best;
    }
  }
  return row[na % 3][nb];
}

const char *err_nearest(const char *word, const char *const *names, size_t n) {
  const char *best = NULL;
  size_t best_edits = strlen(word) < 4 ? 2 : 3 + strlen(word) / 6;
  for (size_t i = 0; i < n; i++) {
    size_t d = edits(word, names[i]);
    size_t len = strlen(names[i]);
    if (d < best_edits && d < len) {
      best = names[i];
      best_edits = d;
    }
  }
  if (best)
    return best;
  for (size_t i = 0; i < n && strlen(word) >= 3; i++) /* "cached" means cached_ratio, say */
    if (strcasestr(names[i], word))
      return names[i];
  for (size_t i = 0; i < n; i++) { /* and "expectations" means expect */
    size_t len = strlen(names[i]);
    if (len >= 4 && strncasecmp(word, names[i], len) == 0)
      return names[i];
  }
  return NULL;
}
