/* test_chainlog.c: chains are told once, and a reader gets them back. */
#include "check.h"

#include "base/mem.h"
#include "base/rng.h"
#include "sim/chainlog.h"

static void check_told(struct chainlog *c, const uint64_t *names, uint32_t n, uint32_t after,
                       uint32_t fresh) {
  struct chainlog_told told = chainlog_tell(c, names, n);
  assert_int_equal(told.after, after);
  assert_int_equal(told.fresh, fresh);
}

static void what_is_known_is_not_told_again(void **state) {
  (void)state;
  struct chainlog c;
  const uint64_t a[] = {10, 11, 12, 13}, b[] = {10, 11, 22, 23}, d[] = {30};
  chainlog_init(&c);
  check_told(&c, a, 0, 0, 0);
  check_told(&c, a, 3, 0, 3); /* 1 2 3 */
  check_told(&c, a, 3, 3, 0);
  check_told(&c, a, 2, 2, 0); /* part of it */
  check_told(&c, b, 4, 2, 2); /* 4 5 behind 2 */
  check_told(&c, a, 4, 3, 1); /* 6 behind 3 */
  check_told(&c, b, 4, 5, 0);
  check_told(&c, d, 1, 0, 1);
  assert_int_equal(c.n, 7);
  chainlog_free(&c);
}

/* Names that share their low bits, and more than the table begins with. */
static void names_that_collide(void **state) {
  (void)state;
  struct chainlog c;
  chainlog_init(&c);
  for (uint64_t i = 0; i < 5000; i++) {
    uint64_t name = (i << 32) + 7;
    check_told(&c, &name, 1, 0, 1);
  }
  for (uint64_t i = 0; i < 5000; i += 7) {
    uint64_t name = (i << 32) + 7;
    check_told(&c, &name, 1, (uint32_t)i + 1, 0);
  }
  chainlog_free(&c);
}

/* A tree of random chains is told and read back: the parent of each number, and the name it had. */
static void a_reader_has_the_same_chains(void **state) {
  (void)state;
  enum { CHAINS = 400, LONGEST = 30 };
  static uint64_t names[CHAINS][LONGEST];
  static uint32_t parent[CHAINS * LONGEST + 1];
  static uint64_t name_of[CHAINS * LONGEST + 1];
  struct chainlog c;
  struct rng r;
  chainlog_init(&c);
  rng_init(&r, 5, 1);
  uint32_t n_read = 0;
  for (uint32_t i = 0; i < CHAINS; i++) {
    uint32_t n = (uint32_t)rng_int(&r, 1, LONGEST);
    uint32_t from = i ? (uint32_t)rng_int(&r, 0, i - 1) : 0, shared = (uint32_t)rng_int(&r, 0, n);
    for (uint32_t k = 0; k < n; k++) {
      bool same = i && k < shared && names[from][k];
      if (!same)
        shared = k;
      names[i][k] = same ? names[from][k] : rng_u64(&r) | 1;
    }
    struct chainlog_told told = chainlog_tell(&c, names[i], n);
    uint32_t at = told.after;
    for (uint32_t k = 0; k < told.fresh; k++) {
      parent[++n_read] = at;
      name_of[n_read] = names[i][n - told.fresh + k];
      at = n_read;
    }
    for (uint32_t k = n; k; k--, at = parent[at])
      assert_true(at && name_of[at] == names[i][k - 1]);
    assert_int_equal(at, 0);
  }
  assert_int_equal(n_read, c.n);
  chainlog_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_known_is_not_told_again),
      cmocka_unit_test(names_that_collide),
      cmocka_unit_test(a_reader_has_the_same_chains),
  };
  return cmocka_run_group_tests_name("chainlog", tests, NULL, NULL);
}
