/* test_metrics_row.c: DESIGN.md's definitions on rows made by hand. */
#include "check.h"

#include <math.h>

#include "out/metrics.h"
#include "out_rows.h"

static struct metrics metrics;

static double of(struct sample *s, enum metric_id id) {
  struct table *t = table_new(0);
  row_add(t, s);
  const struct metric *metric = metrics_get(&metrics, id);
  double x = metrics_of_row(&metrics, metric, &t->rows[0]) / metrics_divisor(metric);
  table_free(t);
  return x;
}

/* due 100 ms, started 105, sent 110, first token 155, visible 180, last 455, done 460 */
static struct sample *plain(void) {
  struct sample *s = row_tokens(row_ok(1, 1, 105, 50, 300), 1000, 31, 750);
  s->t[STAMP_SCHED] = 100 * MS;
  s->t[STAMP_SENT] = 110 * MS;
  s->t[STAMP_DONE] = 460 * MS;
  s->first_visible = 180 * MS;
  s->first_tokens = 1;
  return s;
}

static void times(void **state) {
  (void)state;
  check_near(of(plain(), METRIC_TTFT), 0.050, 0.0);
  check_near(of(plain(), METRIC_TTFT_SCHED), 0.055, 0.0);
  check_near(of(plain(), METRIC_TTFT_SENT), 0.045, 0.0);
  check_near(of(plain(), METRIC_FIRST_VISIBLE), 0.075, 0.0);
  check_near(of(plain(), METRIC_E2E), 0.355, 0.0);
  check_near(of(plain(), METRIC_START_LAG), 0.005, 0.0);
  check_near(of(plain(), METRIC_TPOT), 0.010, 0.0); /* 300 ms ÷ (31 − 1) */
  check_near(of(plain(), METRIC_OUTPUT_RATE), 100, 1e-9);
  struct sample *s = plain();
  s->first_visible = SAMPLE_NEVER; /* tool calls only */
  assert_true(isnan(of(s, METRIC_FIRST_VISIBLE)));
}

/* A whole reply has no event: only its end is a time of its own. */
static void whole_replies_have_only_an_end(void **state) {
  (void)state;
  static const enum metric_id none[] = {METRIC_TTFT,      METRIC_TTFT_SCHED,
                                        METRIC_TTFT_SENT, METRIC_FIRST_VISIBLE,
                                        METRIC_TPOT,      METRIC_OUTPUT_RATE};
  for (size_t i = 0; i < ARRAY_LEN(none); i++) {
    struct sample *s = plain();
    s->streamed = false;
    assert_true(isnan(of(s, none[i])));
  }
  struct sample *s = plain();
  s->streamed = false;
  check_near(of(s, METRIC_E2E), 0.355, 0.0);
  s = plain();
  s->streamed = false;
  check_near(of(s, METRIC_CACHED_RATIO), 0.75, 0.0);
}

static void tpot_is_absent_when_undefined(void **state) {
  (void)state;
  struct sample *s = plain();
  s->first_tokens = 8; /* the case of facts/peers.md 4.K, star 3: 64 tokens in chunks of 8 */
  s->output_tokens = 64;
  s->t[STAMP_LAST_TOKEN] = s->t[STAMP_FIRST_TOKEN] + 700 * MS;
  check_near(of(s, METRIC_TPOT), 0.0125, 0.0);
  s = plain();
  s->first_tokens = SAMPLE_ABSENT; /* taken as 1 */
  check_near(of(s, METRIC_TPOT), 0.010, 0.0);
  s = plain();
  s->output_tokens = 1;
  assert_true(isnan(of(s, METRIC_TPOT)));
  s = plain();
  s->first_tokens = 31;
  assert_true(isnan(of(s, METRIC_TPOT)));
  s = plain();
  s->t[STAMP_LAST_TOKEN] = s->t[STAMP_FIRST_TOKEN]; /* never 0 */
  assert_true(isnan(of(s, METRIC_TPOT)));
  assert_true(isnan(of(row_ok(1, 1, 0, 1, 10), METRIC_TPOT))); /* no count at all */
}

static void tokens(void **state) {
  (void)state;
  check_near(of(plain(), METRIC_PROMPT_TOKENS), 1000, 0.0);
  check_near(of(plain(), METRIC_CACHED_TOKENS), 750, 0.0);
  check_near(of(plain(), METRIC_CACHED_RATIO), 0.75, 0.0);
  struct sample *s = plain();
  s->cached_state = CACHED_INFERRED_ZERO;
  check_near(of(s, METRIC_CACHED_RATIO), 0, 0.0);
  s = plain();
  s->cached_state = CACHED_ABSENT;
  assert_true(isnan(of(s, METRIC_CACHED_RATIO)));
  assert_true(isnan(of(s = plain(), METRIC_TOKEN_COUNT_DIFF)));
  s = plain();
  s->output_tokens_local = 33;
  check_near(of(s, METRIC_TOKEN_COUNT_DIFF), -2, 0.0);
  s = plain();
  s->output_tokens = SAMPLE_ABSENT; /* no usage: the tokenizer's count */
  s->output_tokens_local = 33;
  check_near(of(s, METRIC_OUTPUT_TOKENS), 33, 0.0);
}

static void failures_have_no_latency(void **state) {
  (void)state;
  static const enum metric_id ids[] = {METRIC_TTFT,          METRIC_TTFT_SCHED,    METRIC_TTFT_SENT,
                                       METRIC_TPOT,          METRIC_FIRST_VISIBLE, METRIC_E2E,
                                       METRIC_OUTPUT_TOKENS, METRIC_CACHED_RATIO};
  static const enum sample_error errors[] = {SAMPLE_TRUNCATED, SAMPLE_INCOMPLETE, SAMPLE_CANCELLED};
  for (size_t e = 0; e < ARRAY_LEN(errors); e++)
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
      struct sample *s = plain();
      s->error = errors[e];
      assert_true(isnan(of(s, ids[i])));
    }
}

static double flag(enum sample_error error, enum metric_id id) {
  struct sample *s = plain();
  s->error = error;
  return of(s, id);
}

static void shares(void **state) {
  (void)state;
  check_near(flag(SAMPLE_OK, METRIC_FAILED), 0, 0.0);
  check_near(flag(SAMPLE_TLS, METRIC_FAILED), 1, 0.0);
  assert_true(isnan(flag(SAMPLE_INCOMPLETE, METRIC_FAILED))); /* how it would have ended is open */
  assert_true(isnan(flag(SAMPLE_CANCELLED, METRIC_FAILED)));
  check_near(flag(SAMPLE_OK, METRIC_INCOMPLETE), 0, 0.0);
  check_near(flag(SAMPLE_INCOMPLETE, METRIC_INCOMPLETE), 1, 0.0);
  assert_true(isnan(flag(SAMPLE_CANCELLED, METRIC_INCOMPLETE)));
  check_near(flag(SAMPLE_CANCELLED, METRIC_REQUESTS), 1, 0.0);
  struct sample *s = plain();
  assert_true(isnan(of(s, METRIC_ROUTE_FALLBACK)));
  s = plain();
  s->policy = "lookup";
  check_near(of(s, METRIC_ROUTE_FALLBACK), 0, 0.0);
  s = plain();
  s->policy = "lookup";
  s->fallback = true;
  check_near(of(s, METRIC_ROUTE_FALLBACK), 1, 0.0);
}

static void goodput_needs_every_objective(void **state) {
  (void)state;
  assert_true(isnan(of(plain(), METRIC_GOODPUT))); /* no slo */
  struct err err;
  check_ok(metrics_add_slo(&metrics, "ttft", "50ms", &err), &err);
  check_ok(metrics_add_slo(&metrics, "tpot", "20ms", &err), &err);
  check_near(of(plain(), METRIC_GOODPUT), 1, 0.0); /* 50 ms is not above 50 ms */
  struct sample *s = plain();
  s->t[STAMP_FIRST_TOKEN] += 1;
  check_near(of(s, METRIC_GOODPUT), 0, 0.0);
  s = plain();
  s->output_tokens = 1; /* no tpot: no objection */
  check_near(of(s, METRIC_GOODPUT), 1, 0.0);
  s = plain();
  s->t[STAMP_LAST_TOKEN] += 400 * MS;
  check_near(of(s, METRIC_GOODPUT), 0, 0.0);
  check_near(flag(SAMPLE_RESET, METRIC_GOODPUT), 0, 0.0);
  assert_true(isnan(flag(SAMPLE_INCOMPLETE, METRIC_GOODPUT)));
}

static void cost_on_our_side(void **state) {
  (void)state;
  assert_true(isnan(of(plain(), METRIC_CLIENT_OVERHEAD)));
  assert_true(isnan(of(plain(), METRIC_MEASUREMENT_ERROR)));
  struct sample *s = plain();
  s->tokenize_ns = 2000;
  s->hash_ns = 3000;
  check_near(of(s, METRIC_CLIENT_OVERHEAD), 5e-6, 0.0);
  s = plain();
  s->error_ns = 4000;
  check_near(of(s, METRIC_MEASUREMENT_ERROR), 4e-6, 0.0);
}

static int set_up(void **state) {
  (void)state;
  metrics_init(&metrics);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  metrics_free(&metrics);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(times),
      cmocka_unit_test(whole_replies_have_only_an_end),
      cmocka_unit_test(tpot_is_absent_when_undefined),
      cmocka_unit_test(tokens),
      cmocka_unit_test(failures_have_no_latency),
      cmocka_unit_test(shares),
      cmocka_unit_test(goodput_needs_every_objective),
      cmocka_unit_test(cost_on_our_side),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
