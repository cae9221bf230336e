/* check.h: cmocka with its includes in the right order, and a few words that print both values. */
#ifndef TESTS_UNIT_CHECK_H
#define TESTS_UNIT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Whether this is a sanitized build: five to twenty times as slow. It is for what the code touches,
 * so a test that only repeats itself may do so less often there; what is right or wrong is decided
 * in the plain build. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHECK_SANITIZED 1
#endif
#endif
#ifndef CHECK_SANITIZED
#define CHECK_SANITIZED 0
#endif

/* rc must be 0; prints the error's text when it is not. */
#define check_ok(rc, err)                                                                          \
  do {                                                                                             \
    int check_rc_ = (rc);                                                                          \
    if (check_rc_)                                                                                 \
      fail_msg("%s: rc=%d: %s", #rc, check_rc_, (err)->text);                                      \
  } while (0)

#define check_near(a, b, tolerance)                                                                \
  do {                                                                                             \
    double check_a_ = (a), check_b_ = (b);                                                         \
    if (!(check_a_ - check_b_ <= (tolerance) && check_b_ - check_a_ <= (tolerance)))               \
      fail_msg("%s = %.17g, expected %.17g within %g", #a, check_a_, check_b_,                     \
               (double)(tolerance));                                                               \
  } while (0)

/* Text `haystack` must contain `needle`. */
#define check_has(haystack, needle)                                                                \
  do {                                                                                             \
    const char *check_h_ = (haystack), *check_n_ = (needle);                                       \
    if (!strstr(check_h_, check_n_))                                                               \
      fail_msg("\"%s\" does not contain \"%s\"", check_h_, check_n_);                              \
  } while (0)

/* The bytes of a file below tests/data (or a path given whole); the caller frees. */
static inline char *check_read_file(const char *path, size_t *len) {
  FILE *f = fopen(path, "rb");
  if (!f)
    fail_msg("cannot open %s", path);
  size_t cap = 1 << 16, n = 0;
  char *data = malloc(cap + 1);
  for (size_t got; (got = fread(data + n, 1, cap - n, f)) > 0;) {
    n += got;
    if (n == cap)
      data = realloc(data, (cap *= 2) + 1);
  }
  fclose(f);
  data[n] = '\0';
  if (len)
    *len = n;
  return data;
}

#endif
