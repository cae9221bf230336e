/* err.c: filling `struct err`, and finding the word a person probably meant. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

int err_set(struct err *err, int code, const char *fmt, ...) {
  assert(code < 0);
  if (!err)
    return code;
  char text[sizeof err->text]; /* the arguments may point into err->text */
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (n >= (int)sizeof text)
    trim_utf8(text);
  memcpy(err->text, text, sizeof text);
  err->code = code;
  return code;
}

int err_prefix(struct err *err, const char *fmt, ...) {
  if (!err)
    return ERR_INVALID;
  char prefix[sizeof err->text];
  va_list args;
  va_start(args, fmt);
  vsnprintf(prefix, sizeof prefix, fmt, args);
  va_end(args);
  size_t have = strlen(prefix);
  if (have + 2 < sizeof prefix) {
    prefix[have++] = ':';
    prefix[have++] = ' ';
    size_t room = sizeof prefix - 1 - have;
    size_t add = strlen(err->text);
    if (add > room)
      add = room;
    memcpy(prefix + have, err->text, add);
    prefix[have + add] = '\0';
    trim_utf8(prefix);
  }
  memcpy(err->text, prefix, sizeof prefix);
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
