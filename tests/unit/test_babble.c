/* test_babble.c: the simulated model's words. */
#include "check.h"

#include "sim/babble.h"

static const uint32_t prompt[] = {104, 101, 108, 108, 111};

static void test_equal_prompts_give_equal_text(void **state) {
  (void)state;
  char a[300], b[300];
  uint64_t key = babble_key(prompt, 5, 1);
  babble_text(key, a, sizeof a);
  babble_text(babble_key(prompt, 5, 1), b, sizeof b);
  assert_memory_equal(a, b, sizeof a);
  assert_true(babble_key(prompt, 4, 1) != key);
  assert_true(babble_key(prompt, 5, 2) != key);
  babble_text(babble_key(prompt, 4, 1), b, sizeof b);
  assert_memory_not_equal(a, b, sizeof a);
}

static void test_a_longer_text_begins_with_a_shorter_one(void **state) {
  (void)state;
  char all[200], part[200];
  babble_text(42, all, sizeof all);
  for (size_t n = 0; n <= sizeof part; n++) {
    memset(part, '#', sizeof part);
    babble_text(42, part, n);
    assert_memory_equal(part, all, n);
    for (size_t i = n; i < sizeof part; i++)
      assert_int_equal(part[i], '#');
  }
}

static void test_only_words(void **state) {
  (void)state;
  char text[5000];
  babble_text(7, text, sizeof text);
  for (size_t i = 0; i < sizeof text; i++)
    if (!((text[i] >= 'a' && text[i] <= 'z') || text[i] == ' ' || text[i] == '.'))
      fail_msg("byte %zu is %d", i, text[i]);
  assert_non_null(memmem(text, sizeof text, ". ", 2));
}

static void test_lengths_are_spread(void **state) {
  (void)state;
  uint32_t least = UINT32_MAX, most = 0;
  double sum = 0;
  for (uint64_t k = 0; k < 10000; k++) {
    uint32_t n = babble_length(k * UINT64_C(0x9e3779b97f4a7c15));
    least = n < least ? n : least;
    most = n > most ? n : most;
    sum += n;
  }
  assert_int_equal(least, 16);
  assert_int_equal(most, 271);
  check_near(sum / 10000, 143.5, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_prompts_give_equal_text),
      cmocka_unit_test(test_a_longer_text_begins_with_a_shorter_one),
      cmocka_unit_test(test_only_words),
      cmocka_unit_test(test_lengths_are_spread),
  };
  return cmocka_run_group_tests_name("babble", tests, NULL, NULL);
}
