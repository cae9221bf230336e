/* Sections by content: what is found is what was put, within the bound. */
#include "check.h"

#include "base/rng.h"
#include "text/sectionmemo.h"

static void test_put_and_get(void **state) {
  (void)state;
  struct sectionmemo m;
  struct tokens_list out = {0};
  sectionmemo_init(&m, 1 << 16);
  assert_false(sectionmemo_get(&m, "abc", 3, false, &out));
  sectionmemo_put(&m, "abc", 3, false, (const uint32_t[]){1, 2}, 2);
  sectionmemo_put(&m, "abc", 3, true, (const uint32_t[]){9}, 1);
  sectionmemo_put(&m, "nothing", 7, true, NULL, 0);
  assert_true(sectionmemo_get(&m, "abc", 3, false, &out));
  assert_true(sectionmemo_get(&m, "abc", 3, true, &out));
  assert_true(sectionmemo_get(&m, "nothing", 7, true, &out));
  assert_false(sectionmemo_get(&m, "nothing", 7, false, &out));
  assert_int_equal(out.n, 3);
  assert_int_equal(out.ids[0], 1);
  assert_int_equal(out.ids[1], 2);
  assert_int_equal(out.ids[2], 9);
  sectionmemo_free(&m);
  tokens_list_free(&out);
}

static void test_the_bound(void **state) {
  (void)state;
  struct sectionmemo m;
  struct tokens_list out = {0};
  struct rng rng;
  sectionmemo_init(&m, 40000);
  rng_init(&rng, 1, 1);
  for (uint32_t i = 0; i < 20000; i++) {
    char text[32];
    uint32_t n = (uint32_t)rng_int(&rng, 0, 900), ids[3] = {n, n + 1, n + 2};
    size_t len = (size_t)snprintf(text, sizeof text, "section %u", n);
    out.n = 0;
    if (sectionmemo_get(&m, text, len, false, &out)) {
      assert_int_equal(out.n, 3);
      assert_int_equal(out.ids[2], n + 2);
    } else {
      sectionmemo_put(&m, text, len, false, ids, 3);
    }
    assert_true(m.young.bytes + m.old.bytes <= 40000);
  }
  assert_true(m.found > 5000 && m.made > 900);
  sectionmemo_put(&m, "kept", 4, false, NULL, 0);
  for (uint32_t i = 0; i < 5000; i++) { /* what is used stays */
    char text[32];
    size_t len = (size_t)snprintf(text, sizeof text, "other %u", i);
    sectionmemo_put(&m, text, len, false, &i, 1);
    assert_true(sectionmemo_get(&m, "kept", 4, false, &out));
  }
  char *large = calloc(1, 20000);
  sectionmemo_put(&m, large, 20000, false, NULL, 0);
  assert_false(sectionmemo_get(&m, large, 20000, false, &out));
  free(large);
  sectionmemo_free(&m);
  tokens_list_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_put_and_get),
      cmocka_unit_test(test_the_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
