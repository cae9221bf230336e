/* test_ledger.c: causes and classes, one rule of DESIGN.md at a time, and that they sum. */
#include "check.h"

#include "base/rng.h"
#include "out/ledger.h"

#define ABSENT LEDGER_ABSENT

/* A prompt of 1,000 tokens in blocks of 16, everything told. */
static struct ledger ledger(int64_t possible, int64_t available, int64_t captured,
                            int64_t delivered) {
  return (struct ledger){.prompt = 1000,
                         .block_size = 16,
                         .possible = possible,
                         .available = available,
                         .captured = captured,
                         .delivered = delivered,
                         .claimed = ABSENT};
}

/* "hbm 640, new 360 -> hbm" */
static void check(struct ledger l, const char *want) {
  char got[300] = "";
  int64_t causes[LEDGER_CAUSES], sum = 0;
  size_t len = 0;
  ledger_cap(&l);
  ledger_causes(&l, causes);
  for (int i = 0; i < LEDGER_CAUSES; i++) {
    sum += causes[i];
    if (causes[i])
      len += (size_t)snprintf(got + len, sizeof got - len, "%s%s %lld", len ? ", " : "",
                              ledger_cause_name(i), (long long)causes[i]);
  }
  snprintf(got + len, sizeof got - len, " -> %s", ledger_cause_name(ledger_class(&l)));
  assert_string_equal(got, want);
  assert_int_equal(sum, l.prompt);
}

static void test_each_cause(void **state) {
  (void)state;
  check(ledger(0, 0, 0, 0), "new 1000 -> cold");
  check(ledger(640, 640, 640, 640), "hbm 640, new 360 -> hbm");
  check(ledger(640, 640, 640, 160), "hbm 160, recomputed 480, new 360 -> recomputed");
  check(ledger(640, 640, 160, 160), "hbm 160, wrong_pod 480, new 360 -> wrong_pod");
  check(ledger(640, 160, 160, 160), "hbm 160, evicted 480, new 360 -> evicted");
  check(ledger(640, 0, 0, ABSENT), "unknown 1000 -> unknown");
  struct ledger l = ledger(640, 640, 0, 0);
  l.claimed = 640;
  check(l, "stale_index 640, new 360 -> stale_index");
}

static void test_where_delivered_tokens_come_from(void **state) {
  (void)state;
  struct ledger l = ledger(800, 800, 800, 800);
  l.offload = 256;
  l.shared = 512;
  check(l, "hbm 32, offload 256, shared 512, new 200 -> shared");
  l.shared = 0;
  l.transfer = 16;
  check(l, "hbm 528, offload 256, transfer 16, new 200 -> hbm");
  l.offload = l.shared = l.transfer = ABSENT;
  check(l, "cached 800, new 200 -> cached");
}

/* Warm from elsewhere, and filled while it waited: later figures are larger, and take their part.
 */
static void test_figures_beyond_the_one_before(void **state) {
  (void)state;
  check(ledger(0, 640, 640, 640), "hbm 640, new 360 -> cold");
  check(ledger(160, 640, 160, 160), "hbm 160, wrong_pod 480, new 360 -> hbm");
  check(ledger(640, 160, 160, 640), "hbm 640, new 360 -> hbm");
  check(ledger(320, 320, 640, 320), "hbm 320, recomputed 320, new 360 -> hbm");
}

static void test_caps(void **state) {
  (void)state;
  struct ledger l = ledger(1000, 1000, 1000, 999); /* never the last token: 62 blocks */
  check(l, "hbm 992, new 8 -> hbm");
  l.prompt = 992; /* whole blocks: the last one is computed */
  check(l, "hbm 976, new 16 -> hbm");
  l.prompt = 1;
  check(l, "new 1 -> cold");
  l = ledger(128, 0, 0, 0);
  check(l, "evicted 128, new 872 -> evicted"); /* 8 blocks and more than 10 % */
  check(ledger(112, 0, 0, 0), "evicted 112, new 888 -> cold");
  l = ledger(128, 0, 0, 0);
  l.prompt = 1281; /* under 10 % */
  check(l, "evicted 128, new 1153 -> cold");
  check(ledger(ABSENT, 640, 640, 640), "hbm 640, new 360 -> unknown");
}

/* Ties go to the first; every combination sums to the prompt. */
static void test_sums(void **state) {
  (void)state;
  struct rng r;
  rng_init(&r, 3, 1);
  check(ledger(640, 320, 320, 320), "hbm 320, evicted 320, new 360 -> hbm");
  for (int i = 0; i < 20000; i++) {
    int64_t causes[LEDGER_CAUSES], sum = 0;
    struct ledger l = {.prompt = rng_int(&r, 1, 300), .block_size = rng_int(&r, 1, 20)};
    int64_t *const figures[] = {&l.possible, &l.available, &l.captured, &l.delivered,
                                &l.claimed,  &l.offload,   &l.shared,   &l.transfer};
    for (size_t k = 0; k < ARRAY_LEN(figures); k++)
      *figures[k] = rng_int(&r, -1, 300);
    ledger_cap(&l);
    ledger_causes(&l, causes);
    for (int k = 0; k < LEDGER_CAUSES; k++) {
      assert_true(causes[k] >= 0);
      sum += causes[k];
    }
    assert_int_equal(sum, l.prompt);
    assert_true(ledger_class(&l) <= LEDGER_COLD);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_cause),
      cmocka_unit_test(test_where_delivered_tokens_come_from),
      cmocka_unit_test(test_figures_beyond_the_one_before),
      cmocka_unit_test(test_caps),
      cmocka_unit_test(test_sums),
  };
  return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
