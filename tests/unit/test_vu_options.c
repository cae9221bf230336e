/* test_vu_options.c: every option is found by its name, and nothing else is. */
#include "check.h"

#include "bind/vu_options.h"

static void all_are_found(void **state) {
  (void)state;
  for (unsigned i = 0; i < N_OPTIONS; i++) {
    assert_int_equal(vu_option_of(vu_option_names[i]), i);
    if (i) /* what is found by letters, and shown in messages, is in order */
      assert_true(strcmp(vu_option_names[i - 1], vu_option_names[i]) < 0);
  }
}

static void others_are_not(void **state) {
  (void)state;
  static const char *const none[] = {"",      "a",     "apis", "Body", "jso",
                                     "jsonx", "zebra", "{",    "k",    "urls"};
  for (size_t i = 0; i < ARRAY_LEN(none); i++)
    assert_int_equal(vu_option_of(none[i]), N_OPTIONS);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_are_found),
                                     cmocka_unit_test(others_are_not)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
