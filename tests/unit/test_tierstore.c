/* The chunks of a tier: order of use, what gives way, and the table against a plain list. */
#include "check.h"

#include "base/rng.h"
#include "kv/tierstore.h"

static void check_order(const struct tierstore *s, const uint64_t *want, uint32_t n) {
  assert_int_equal(tierstore_count(s), n);
  for (uint32_t i = 0; i < n; i++)
    if (tierstore_at(s, i) != want[i])
      fail_msg("place %u: %llu, expected %llu", i, (unsigned long long)tierstore_at(s, i),
               (unsigned long long)want[i]);
}
#define CHECK_ORDER(s, ...)                                                                        \
  do {                                                                                             \
    const uint64_t want_[] = {__VA_ARGS__};                                                        \
    check_order((s), want_, (uint32_t)ARRAY_LEN(want_));                                           \
  } while (0)

static void the_least_recently_used_gives_way(void **state) {
  (void)state;
  struct tierstore *s = tierstore_new(3);
  uint64_t lost = 99;
  assert_int_equal(tierstore_capacity(s), 3);
  for (uint64_t name = 0; name < 3; name++) /* 0 is a name like any other */
    assert_int_equal(tierstore_put(s, name, &lost), TIERSTORE_ADDED);
  CHECK_ORDER(s, 0, 1, 2);
  assert_true(tierstore_touch(s, 0));
  assert_false(tierstore_touch(s, 7));
  CHECK_ORDER(s, 1, 2, 0);
  assert_int_equal(tierstore_put(s, 1, &lost), TIERSTORE_KNOWN);
  CHECK_ORDER(s, 2, 0, 1);
  assert_int_equal(lost, 99);
  assert_int_equal(tierstore_put(s, 8, &lost), TIERSTORE_EVICTED);
  assert_int_equal(lost, 2);
  CHECK_ORDER(s, 0, 1, 8);
  assert_false(tierstore_has(s, 2));
  assert_true(tierstore_has(s, 0));
  tierstore_clear(s);
  assert_int_equal(tierstore_count(s), 0);
  assert_false(tierstore_has(s, 0));
  assert_int_equal(tierstore_put(s, 2, &lost), TIERSTORE_ADDED);
  CHECK_ORDER(s, 2);
  tierstore_delete(s);
  tierstore_delete(NULL);
}

static void one_place(void **state) {
  (void)state;
  struct tierstore *s = tierstore_new(1);
  uint64_t lost;
  assert_int_equal(tierstore_put(s, 5, &lost), TIERSTORE_ADDED);
  assert_int_equal(tierstore_put(s, 6, &lost), TIERSTORE_EVICTED);
  assert_int_equal(lost, 5);
  assert_int_equal(tierstore_put(s, 6, &lost), TIERSTORE_KNOWN);
  CHECK_ORDER(s, 6);
  tierstore_delete(s);
}

enum { CAPACITY = 40, NAMES = 64 };

/* Names with few different low bits, so that the table's clusters are long and wrap. */
static uint64_t crowded(uint64_t k) {
  return k / 4 * 4096 + 4095 - k % 4;
}

static void agrees_with_a_plain_list(void **state) {
  (void)state;
  struct rng r;
  rng_init(&r, 7, 1);
  struct tierstore *s = tierstore_new(CAPACITY);
  uint64_t list[CAPACITY];
  uint32_t n = 0;
  for (int step = 0; step < 20000; step++) {
    uint64_t name = crowded((uint64_t)rng_int(&r, 0, NAMES - 1)), lost = 0;
    uint32_t at = 0;
    while (at < n && list[at] != name)
      at++;
    bool there = at<n, put = rng_int(&r, 0, 2)> 0;
    assert_int_equal(tierstore_has(s, name), there);
    if (!put) {
      assert_int_equal(tierstore_touch(s, name), there);
    } else {
      enum tierstore_put want = there          ? TIERSTORE_KNOWN
                                : n < CAPACITY ? TIERSTORE_ADDED
                                               : TIERSTORE_EVICTED;
      assert_int_equal(tierstore_put(s, name, &lost), want);
      if (want == TIERSTORE_EVICTED) {
        assert_int_equal(lost, list[0]);
        at = 0;
      }
      if (want == TIERSTORE_ADDED)
        at = n++;
    }
    if (there || put) {
      memmove(&list[at], &list[at + 1], (n - at - 1) * sizeof *list);
      list[n - 1] = name;
    }
    check_order(s, list, n);
    if (step == 10000) {
      tierstore_clear(s);
      n = 0;
    }
  }
  tierstore_delete(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_least_recently_used_gives_way),
      cmocka_unit_test(one_place),
      cmocka_unit_test(agrees_with_a_plain_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
