/* test_prefixset.c: the longest leading run of blocks that were seen before, against a slow model
 * that keeps every token sequence. */
#include "check.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kv/prefixset.h"

enum { B = 4, MANY = 300, LONGEST = 60 };

static void test_runs(void **state) {
  (void)state;
  struct prefixset *s = prefixset_new(B);
  const uint32_t a[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const uint32_t b[] = {1, 2, 3, 4, 5, 6, 7, 0, 9};
  assert_int_equal(prefixset_add(s, a, 9, NULL, NULL), 0);
  assert_int_equal(prefixset_blocks(s), 2);
  assert_int_equal(prefixset_add(s, a, 9, NULL, NULL), 8);
  assert_int_equal(prefixset_add(s, a, 8, NULL, NULL), 4); /* one token is always left */
  assert_int_equal(prefixset_add(s, a, 4, NULL, NULL), 0);
  assert_int_equal(prefixset_add(s, b, 9, NULL, NULL), 4); /* its second block is new */
  assert_int_equal(prefixset_blocks(s), 3);
  assert_int_equal(prefixset_add(s, a + 4, 5, NULL, NULL), 0); /* the same tokens elsewhere */
  assert_int_equal(prefixset_add(s, a, 9, "salt", NULL), 0);
  assert_int_equal(prefixset_add(s, a, 9, "salt", NULL), 8);
  assert_int_equal(prefixset_add(s, a, 9, NULL, "lora"), 0);
  assert_int_equal(prefixset_add(s, a, 3, NULL, NULL), 0);
  assert_int_equal(prefixset_add(s, a, 0, NULL, NULL), 0);
  prefixset_delete(s);
  prefixset_delete(NULL);
}

struct sequence {
  uint32_t tokens[LONGEST], n;
};

static uint32_t common(const struct sequence *a, const struct sequence *b) {
  uint32_t n = 0, most = a->n < b->n ? a->n : b->n;
  while (n < most && a->tokens[n] == b->tokens[n])
    n++;
  return n / B * B;
}

/* Two letters only, so that much is shared; more than the first table holds. */
static void test_against_model(void **state) {
  (void)state;
  struct prefixset *s = prefixset_new(B);
  struct sequence *all = mem_calloc(MANY, sizeof *all);
  struct rng rng;
  rng_init(&rng, 7, 1);
  for (int i = 0; i < MANY; i++) {
    struct sequence *q = &all[i];
    q->n = (uint32_t)(rng_u64(&rng) % LONGEST) + 1;
    for (uint32_t k = 0; k < q->n; k++)
      q->tokens[k] = rng_u64(&rng) % 8 == 0;
    uint32_t want = 0, most = (q->n - 1) / B * B;
    for (int j = 0; j < i; j++)
      if (common(q, &all[j]) > want)
        want = common(q, &all[j]);
    assert_int_equal(prefixset_add(s, q->tokens, q->n, NULL, NULL), want < most ? want : most);
  }
  assert_true(prefixset_blocks(s) > 1024);
  assert_true(prefixset_bytes(s) >= 8 * prefixset_blocks(s));
  assert_true(prefixset_bytes(s) <= 24 * prefixset_blocks(s));
  mem_free(all);
  prefixset_delete(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_runs),
      cmocka_unit_test(test_against_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
