/* test_printable.c: what a terminal would obey is gone, everything else stays. */
#include "check.h"

#include <string.h>

#include "base/printable.h"

static void check_text(const char *text, size_t len, const char *want) {
  char copy[128];
  assert_true(len < sizeof copy && strlen(want) == len);
  memcpy(copy, text, len);
  copy[len] = '\0';
  printable_make(copy, len);
  assert_string_equal(copy, want);
  printable_make(copy, len);
  assert_string_equal(copy, want);
}

#define CHECK(text, want) check_text(text, sizeof(text) - 1, want)

static void texts(void **state) {
  (void)state;
  CHECK("", "");
  CHECK("plain, ünï — 日本 🎉\ttab\nline", "plain, ünï — 日本 🎉\ttab\nline");
  CHECK("a\x1b[2Jb\x07\r\0c\x7f", "a [2Jb   c ");
  CHECK("\xc2\x9b"
        "31m \xc2\xa0",
        "  31m \xc2\xa0");
  CHECK("\x9b"
        "31m",
        "?31m");
  CHECK("\xff\xc3;\xe2\x82", "??;??");
  CHECK("\xed\xa0\x80 \xf4\x90\x80\x80 \xe0\x80\x80 \xc0\x80", "??? ???? ??? ??");
  CHECK("x\xe2\x80\xaey\xe2\x81\xa6z\xef\xbb\xbf\xe2\x80\x8b.", "x   y   z      .");
  CHECK("\xe2\x80\x94\xe2\x80\xa6", "\xe2\x80\x94\xe2\x80\xa6"); /* dash, ellipsis */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
