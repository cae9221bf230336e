/* test_paritydate.c: the date that a text holds at some place. */
#include "check.h"

#include "base/base.h"
#include "text/parity_impl.h"

/* `want` NULL: none there. */
static void check_date(const char *text, size_t near, const char *want, int year, int month,
                       int day) {
  struct paritydate d;
  bool found = paritydate_find(text, strlen(text), near, &d);
  if (!want) {
    if (found)
      fail_msg("\"%s\" at %zu: found \"%.*s\"", text, near, (int)d.len, text + d.start);
    return;
  }
  if (!found)
    fail_msg("\"%s\" at %zu: nothing found", text, near);
  assert_int_equal(d.len, strlen(want));
  assert_memory_equal(text + d.start, want, d.len);
  assert_int_equal(d.time.year, year);
  assert_int_equal(d.time.month, month);
  assert_int_equal(d.time.day, day);
  assert_int_equal(d.time.hour, 0);
}

static void test_forms(void **state) {
  (void)state;
  check_date("Current date: 2026-11-29\n", 22, "2026-11-29", 2026, 11, 29);
  check_date("Today Date: 26 Jul 2024\n\n", 12, "26 Jul 2024", 2024, 7, 26);
  check_date("Today Date: 26 Jul 2024\n\n", 22, "26 Jul 2024", 2024, 7, 26);
  check_date("it is 1 September 2026.", 7, "1 September 2026", 2026, 9, 1);
  check_date("Today's date: September 30, 2026.", 20, "September 30, 2026", 2026, 9, 30);
  check_date("May 5, 1999", 4, "May 5, 1999", 1999, 5, 5);
  check_date("01 Mar 2026", 0, "01 Mar 2026", 2026, 3, 1);
}

static void test_place(void **state) {
  (void)state;
  const char *two = "2026-11-29 and then some more text, 2025-01-02 at the end";
  check_date(two, 9, "2026-11-29", 2026, 11, 29);
  check_date(two, 40, "2025-01-02", 2025, 1, 2);
  check_date(two, 24, NULL, 0, 0, 0);
  check_date(two, 0, "2026-11-29", 2026, 11, 29);
  check_date("2026-11-29", 10, "2026-11-29", 2026, 11, 29); /* just behind it */
}

static void test_none(void **state) {
  (void)state;
  check_date("", 0, NULL, 0, 0, 0);
  check_date("2026-13-29", 5, NULL, 0, 0, 0);
  check_date("2026-11-32", 5, NULL, 0, 0, 0);
  check_date("0026-11-29", 5, NULL, 0, 0, 0);
  check_date("2026-11-291", 5, NULL, 0, 0, 0);
  check_date("12026-11-29", 5, NULL, 0, 0, 0); /* a longer number */
  check_date("26 Jux 2024", 5, NULL, 0, 0, 0);
  check_date("26 Jul 202", 5, NULL, 0, 0, 0);
  check_date("short", 99, NULL, 0, 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forms),
      cmocka_unit_test(test_place),
      cmocka_unit_test(test_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
