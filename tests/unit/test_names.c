/* test_names.c: numbers for strings, and the bound. */
#include "check.h"

#include "out/names.h"

static void numbers_are_stable(void **state) {
  (void)state;
  struct names s;
  names_init(&s, 1000);
  assert_int_equal(names_find(&s, "a"), -1);
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 500; i++) {
      char text[16];
      snprintf(text, sizeof text, "r%d", i);
      assert_int_equal(names_intern(&s, text), i);
    }
  assert_int_equal(s.n, 500);
  assert_int_equal(names_find(&s, "r499"), 499);
  assert_string_equal(s.items[499], "r499");
  names_free(&s);
}

static void what_comes_after_the_bound_shares_a_name(void **state) {
  (void)state;
  struct names s;
  names_init(&s, 3);
  assert_int_equal(names_intern(&s, "a"), 0);
  assert_int_equal(names_intern(&s, "b"), 1);
  assert_int_equal(names_intern(&s, "c"), 2);
  assert_int_equal(names_intern(&s, "d"), 2);
  assert_int_equal(names_intern(&s, "a"), 0);
  assert_int_equal(s.n, 3);
  assert_string_equal(s.items[2], "(other)");
  names_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_stable),
      cmocka_unit_test(what_comes_after_the_bound_shares_a_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
