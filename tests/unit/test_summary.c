/* test_summary.c: summary.json (summary.c, summary_group.c) from tables whose
 * answers are known. */
#include "check.h"

#include <math.h>

#include "base/rng.h"
#include "summary_check.h"
#include "text/json.h"

/* 600 good requests of 100 sessions (6 turns): ttft = 1 … 600 ms in a scrambled order, replica r0
 * two times of three; then 40 failed, 3 incomplete, 2 cancelled, 5 in the warm-up. */
static struct table *make_table(void) {
  struct table *t = table_new(0);
  table_add_replica(t, "r10", 1);
  table_add_replica(t, "r1", 1);
  table_add_replica(t, "r0", 1);
  for (uint32_t i = 0; i < 600; i++) {
    uint32_t ms = (i * 7) % 600 + 1, turn = i / 100 + 1;
    struct sample *s = row_tokens(row_ok(i % 100, turn, i, ms, 200), 1000, 21, turn > 1 ? 800 : 0);
    s->served = mem_strdup(i % 3 ? "r0" : "r1");
    row_add(t, s);
  }
  for (uint32_t i = 0; i < 45; i++) {
    struct sample *s = row_failed(i, 1, i,
                                  i < 30   ? SAMPLE_EMPTY_STREAM
                                  : i < 40 ? SAMPLE_HTTP_429
                                  : i < 43 ? SAMPLE_INCOMPLETE
                                           : SAMPLE_CANCELLED);
    s->error_detail = mem_strdup(i < 30 ? "nothing came" : "slow down");
    row_add(t, s);
  }
  for (uint32_t i = 0; i < 5; i++) {
    struct sample *s = row_ok(500 + i, 1, 0, 9000, 1);
    s->measured = false;
    row_add(t, s);
  }
  for (uint32_t i = 0; i < 100; i++) {
    struct session_record r = row_session(i, 0, 1000 + i,
                                          i < 95   ? SAMPLE_OK
                                          : i < 99 ? SAMPLE_SCRIPT
                                                   : SAMPLE_INCOMPLETE);
    snprintf(r.detail, sizeof r.detail, "x.lua:%u: oops", i);
    table_add_session(t, &r);
  }
  table_add_window(t, NULL, 0, 10 * NS_PER_S);
  row_value(t, 1, "parsed", 1, NULL, true);
  row_value(t, 2, "parsed", 0, NULL, true);
  row_value(t, 3, "parsed", 1, NULL, true);
  table_finish(t);
  return t;
}

static void counts(void **state) {
  (void)state;
  struct table *t = make_table();
  struct value s = build(t, NULL, 0);
  check_num(&s, "v", 1);
  assert_string_equal(value_to_string(at(&s, "run")), "demo-1");
  assert_true(at(&s, "simulated")->u.boolean);
  assert_true(!at(&s, "interrupted")->u.boolean);
  check_null(&s, "write_error");
  check_num(&s, "requests.ok", 600);
  check_num(&s, "requests.failed", 40);
  check_num(&s, "requests.incomplete", 3);
  check_num(&s, "requests.cancelled", 2);
  check_num(&s, "requests.outside_window", 5);
  check_num(&s, "requests.by_error.empty_stream", 30);
  check_num(&s, "requests.by_error.http_429", 10);
  assert_int_equal(value_count(at(&s, "requests.by_error")), 2);
  assert_string_equal(value_to_string(at(&s, "requests.detail.http_429")), "slow down");
  check_num(&s, "other_requests.ok", 0);
  check_num(&s, "sessions.ok", 95);
  check_num(&s, "sessions.failed", 4);
  check_num(&s, "sessions.incomplete", 1);
  check_num(&s, "sessions.by_error.script", 4);
  assert_string_equal(value_to_string(at(&s, "sessions.detail.script")), "x.lua:95: oops");
  check_num(&s, "cached.value", 500);
  check_num(&s, "cached.zero", 100);
  check_num(&s, "cached.inferred_zero", 0);
  check_num(&s, "cached.absent", 0);
  check_num(&s, "answers.declared", 0);
  check_num(&s, "answers.own", 600);
  check_num(&s, "script_checks.parsed.passed", 2);
  check_num(&s, "script_checks.parsed.failed", 1);
  check_num(&s, "values", 3);
  check_num(&s, "throughput.window_s", 10);
  check_num(&s, "throughput.output_tokens_per_s", (600 * 21) / 10.0);
  check_num(&s, "throughput.requests_per_s", 60.5); /* 600 and 5 of the warm-up */
  check_num(&s, "throughput.failed_per_s", 4);
  check_num(&s, "throughput.sessions_per_s", 9.5);
  assert_int_equal(value_count(at(&s, "causes")), 0);
  assert_int_equal(value_count(at(&s, "arms")), 0);
  assert_false(at(&s, "valid")->u.boolean); /* 30 of 640 were empty 200s */
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, &s); /* no NAN, no infinity: what is read back is equal */
  struct value back;
  struct err err;
  check_ok(json_parse(b.data, b.len, &back, &err), &err);
  assert_true(value_equal(&s, &back));
  value_free(&back);
  buf_free(&b);
  value_free(&s);
  table_free(t);
}

static void distributions(void **state) {
  (void)state;
  struct table *t = make_table();
  struct value s = build(t, NULL, 0);
  assert_string_equal(value_to_string(at(&s, "metrics.ttft.unit")), "s");
  check_num(&s, "metrics.ttft.n", 600);
  check_num(&s, "metrics.ttft.mean", 0.3005);
  check_num(&s, "metrics.ttft.min", 0.001);
  check_num(&s, "metrics.ttft.max", 0.6);
  check_num(&s, "metrics.ttft.p50", 0.3005);
  check_num(&s, "metrics.ttft.p90", 0.5401);
  check_num(&s, "metrics.ttft.p95", 0.57005);
  check_num(&s, "metrics.ttft.p99", 0.59401);
  check_num(&s, "metrics.ttft.sd", sqrt((600.0 * 600 - 1) / 12 * 600 / 599) / 1000);
  check_num(&s, "metrics.ttft.failed", 40);
  check_num(&s, "metrics.ttft.incomplete", 3);
  check_num(&s, "metrics.ttft.sessions", 100);
  assert_string_equal(value_to_string(at(&s, "metrics.ttft.method")), "exact");
  assert_int_equal(value_count(at(&s, "metrics.ttft.refused")), 0);
  static const char *const intervals[] = {"mean", "p50", "p90", "p95"};
  for (size_t i = 0; i < ARRAY_LEN(intervals); i++) {
    char path[64];
    snprintf(path, sizeof path, "metrics.ttft.ci95.%s.0", intervals[i]);
    double lo = num(&s, path);
    snprintf(path, sizeof path, "metrics.ttft.ci95.%s.1", intervals[i]);
    double hi = num(&s, path);
    snprintf(path, sizeof path, "metrics.ttft.%s", intervals[i]);
    double x = num(&s, path);
    assert_true(lo < x && x < hi && hi - lo < 0.1);
  }
  check_null(&s, "metrics.ttft.ci95.p99"); /* of 200 sessions on */
  check_num(&s, "metrics.tpot.mean", 0.010);
  check_num(&s, "metrics.tpot.first_tokens_assumed", 600);
  check_num(&s, "metrics.output_tokens.sum", 600 * 21);
  check_num(&s, "metrics.failed.share", 40.0 / 640);
  check_num(&s, "metrics.failed.count", 40);
  check_num(&s, "metrics.failed.n", 640);
  assert_true(num(&s, "metrics.failed.ci95.mean.0") < 40.0 / 640);
  check_num(&s, "metrics.requests.count", 645);
  check_num(&s, "metrics.requests.rate", 60.5); /* 600, and 5 of the warm-up */
  check_num(&s, "metrics.failed.rate", 4);
  check_num(&s, "metrics.tpot.same_read", 0);
  check_num(&s, "metrics.cached_ratio.mean", 0.8 * 500 / 600);
  check_num(&s, "metrics.itl.n", 0);
  check_null(&s, "metrics.itl.mean");
  check_null(&s, "metrics.itl.ci95.mean");
  check_num(&s, "metrics.itl.refused.p50", 10);
  check_null(&s, "metrics.goodput.share");
  assert_null(value_get(at(&s, "metrics"), "matched_tokens"));
  /* 600 values, 40 failed and 3 cut off, which are infinite: rank 642 p */
  check_num(&s, "as_infinity.ttft.p50", 0.322);
  check_num(&s, "as_infinity.ttft.p90", 0.5788);
  check_null(&s, "as_infinity.ttft.p95");
  assert_string_equal(value_to_string(at(&s, "as_infinity.ttft.reason.p95")), "infinite");
  check_num(&s, "as_infinity.ttft.n", 643);
  check_num(&s, "as_infinity.ttft.failed", 40);
  check_num(&s, "as_infinity.ttft.incomplete", 3);
  check_null(&s, "as_infinity.e2e.p99");
  value_free(&s);
  table_free(t);
}

static void turns_and_replicas(void **state) {
  (void)state;
  struct table *t = make_table();
  struct value s = build(t, NULL, 0);
  assert_int_equal(value_count(at(&s, "turns")), 6);
  assert_string_equal(value_to_string(at(&s, "turns.0.turn")), "1");
  assert_string_equal(value_to_string(at(&s, "turns.2.turn")), "3");
  check_num(&s, "turns.0.from", 1);
  check_num(&s, "turns.0.to", 1);
  check_num(&s, "turns.0.requests", 145);
  check_num(&s, "turns.0.failed", 40);
  check_num(&s, "turns.0.incomplete", 3);
  check_num(&s, "turns.1.requests", 100);
  check_num(&s, "turns.2.requests", 100);
  check_num(&s, "turns.2.from", 3);
  check_num(&s, "turns.2.to", 3);
  check_num(&s, "turns.0.ttft.n", 100);
  check_num(&s, "turns.2.ttft.n", 100);
  check_num(&s, "turns.0.cached_ratio.mean", 0);
  check_num(&s, "turns.1.cached_ratio.mean", 0.8);
  check_num(&s, "turns.1.cached_ratio.ci95.mean.0", 0.8);
  check_null(&s, "turns.0.ttft.p99");
  assert_int_equal(value_count(at(&s, "replicas")), 3);
  assert_string_equal(value_to_string(at(&s, "replicas.1.id")), "r1");
  assert_string_equal(value_to_string(at(&s, "replicas.2.id")), "r10"); /* not between r1 and r2 */
  check_num(&s, "replicas.0.requests", 400);
  check_num(&s, "replicas.1.share", 200.0 / 600);
  check_num(&s, "replicas.1.cached_ratio", 0.8 * 166 / 200); /* 34 of its 200 are first turns */
  check_num(&s, "replicas.1.output_tokens", 200 * 21);
  check_num(&s, "replicas.2.requests", 0);
  check_null(&s, "replicas.2.ttft_p50");
  check_null(&s, "replicas.2.e2e_mean");
  check_num(&s, "replicas.2.e2e_n", 0);
  check_num(&s, "replicas.1.e2e_n", 200);
  assert_true(num(&s, "replicas.1.e2e_mean") > num(&s, "metrics.e2e.min"));
  assert_true(num(&s, "replicas.1.e2e_mean") < num(&s, "replicas.1.e2e_p95"));
  value_free(&s);
  table_free(t);
}

static void few_samples_refuse_percentiles(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 60; i++)
    row_add(t, row_ok(i, 1, 0, i + 1, 1));
  table_finish(t);
  struct value s = build(t, NULL, 0);
  check_num(&s, "metrics.ttft.p50", 0.0305);
  check_num(&s, "metrics.ttft.p90", 0.0541);
  check_null(&s, "metrics.ttft.p95");
  check_null(&s, "metrics.ttft.p99");
  check_null(&s, "metrics.ttft.ci95.p95");
  check_num(&s, "metrics.ttft.refused.p95", 100);
  check_num(&s, "metrics.ttft.refused.p99", 500);
  assert_string_equal(value_to_string(at(&s, "as_infinity.ttft.reason.p99")), "too few samples");
  value_free(&s);
  table_free(t);
}

static void exactly_enough_samples_are_enough(void **state) {
  (void)state;
  static const struct {
    uint32_t n;
    const char *path;
  } cases[] = {{10, "metrics.ttft.p50"},
               {50, "metrics.ttft.p90"},
               {100, "metrics.ttft.p95"},
               {500, "metrics.ttft.p99"}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++)
    for (uint32_t less = 0; less < 2; less++) {
      struct table *t = table_new(0);
      for (uint32_t k = 0; k < cases[i].n - less; k++)
        row_add(t, row_ok(k, 1, 0, k + 1, 1));
      table_finish(t);
      struct value s = build(t, NULL, 0);
      if (less)
        check_null(&s, cases[i].path);
      else
        assert_true(num(&s, cases[i].path) > 0);
      value_free(&s);
      table_free(t);
    }
}

static void failures_count_as_samples_and_have_no_ratio(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 99; i++) {
    struct sample *s = i < 95 ? row_tokens(row_ok(i, 1, 0, i + 1, 1), 100, 5, 50)
                              : row_failed(i, 1, 0, SAMPLE_RESET);
    s->chosen = mem_strdup("r0");
    row_add(t, s);
  }
  row_add(t, row_failed(3, 1, 0, SAMPLE_RESET));
  table_finish(t);
  struct value s = build(t, NULL, 0);
  check_num(&s, "as_infinity.ttft.n", 100); /* 95 good ones alone give no p95 */
  check_num(&s, "as_infinity.ttft.p90", 0.0901);
  assert_string_equal(value_to_string(at(&s, "as_infinity.ttft.reason.p95")), "infinite");
  check_num(&s, "replicas.0.requests", 99);
  check_num(&s, "replicas.0.failed", 4);
  check_num(&s, "replicas.0.cached_ratio", 0.5);
  value_free(&s);
  table_free(t);
}

/* The end of the run cuts requests off; only metrics that leave those out say so. */
static void what_was_cut_off_is_told_where_it_is_missing(void **state) {
  (void)state;
  static const char *const texts[] = {"start_lag p50 < 1s", "requests count > 1", "e2e p50 < 1s"};
  struct expect expects[3];
  struct err err;
  for (size_t i = 0; i < 3; i++)
    check_ok(expect_parse(texts[i], &metrics, NULL, 0, &expects[i], &err), &err);
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 40; i++)
    row_add(t, i < 20 ? row_ok(i, 1, 0, i + 1, 1) : row_failed(i, 1, 0, SAMPLE_INCOMPLETE));
  table_finish(t);
  struct value s = build(t, expects, 3);
  check_null(&s, "expectations.0.reason");
  check_null(&s, "expectations.1.reason");
  check_has(value_to_string(at(&s, "expectations.2.reason")), "20 of 40 requests");
  value_free(&s);
  table_free(t);
  for (size_t i = 0; i < 3; i++)
    expect_free(&expects[i]);
}

/* Two measured sessions, and `warm` of the warm-up beside them. */
static struct value two_sessions(uint64_t warm) {
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 40 + warm; i++) {
    struct sample *s = i < 40 ? row_tokens(row_ok(i % 2, 1, 0, (double)i + 10, 5), 100, 9, 0)
                              : row_ok((UINT64_C(1) << 32) + i, 1, 0, 500, 5);
    s->measured = i < 40;
    row_add(t, s);
  }
  table_finish(t);
  struct value s = build(t, NULL, 0);
  table_free(t);
  return s;
}

static void the_warm_up_does_not_widen_intervals(void **state) {
  (void)state;
  struct value alone = two_sessions(0), among = two_sessions(235);
  check_num(&alone, "metrics.ttft.sessions", 2);
  assert_int_equal(at(&alone, "metrics.ttft.ci95.mean")->kind, VALUE_ARRAY);
  assert_true(value_equal(at(&alone, "metrics"), at(&among, "metrics")));
  value_free(&alone);
  value_free(&among);
}

/* 20 tokens in one read have no time between them: left out of tpot, and counted. */
static void replies_of_one_read_are_counted(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 5; i++)
    row_add(t, row_tokens(row_ok(i, 1, 0, 5, i < 3 ? 0 : 190), 100, i ? 20 : 1, 0));
  struct sample *s = row_tokens(row_ok(9, 1, 0, 5, 0), 100, 20, 0);
  s->streamed = false;
  row_add(t, s);
  s = row_tokens(row_ok(9, 1, 0, 5, 0), 100, 20, 0);
  s->error = SAMPLE_TRUNCATED;
  row_add(t, s);
  table_finish(t);
  struct value v = build(t, NULL, 0);
  check_num(&v, "metrics.tpot.n", 2);
  check_num(&v, "metrics.tpot.same_read", 2); /* not the reply of one token */
  check_num(&v, "metrics.output_rate.n", 2);
  assert_null(value_get(at(&v, "metrics.ttft"), "same_read"));
  value_free(&v);
  table_free(t);
}

static void an_empty_run_is_still_a_summary(void **state) {
  (void)state;
  struct table *t = table_new(0);
  table_finish(t);
  struct value s = build(t, NULL, 0);
  check_num(&s, "requests.ok", 0);
  check_null(&s, "metrics.ttft.p50");
  check_null(&s, "metrics.requests.rate");
  check_null(&s, "throughput.requests_per_s");
  assert_int_equal(value_count(at(&s, "turns")), 0);
  value_free(&s);
  table_free(t);
}

static void expectations_are_in_it(void **state) {
  (void)state;
  struct table *t = make_table();
  static const char *const texts[] = {"ttft p95 < 400ms", "failed share < 10%",
                                      "output_tokens mean > 5", "ttft p99.9 < 1s"};
  struct expect e[4];
  struct err err;
  for (int i = 0; i < 4; i++)
    check_ok(expect_parse(texts[i], &metrics, NULL, 0, &e[i], &err), &err);
  struct value s = build(t, e, 4);
  assert_string_equal(value_to_string(at(&s, "expectations.0.text")), "ttft p95 < 400ms");
  assert_true(!at(&s, "expectations.0.met")->u.boolean);
  check_num(&s, "expectations.0.value", 0.57005);
  check_num(&s, "expectations.0.bound", 0.4);
  assert_string_equal(value_to_string(at(&s, "expectations.0.shown")), "570 ms");
  assert_string_equal(value_to_string(at(&s, "expectations.0.reason")), "570 ms is not < 400 ms");
  assert_true(at(&s, "expectations.1.met")->u.boolean);
  assert_string_equal(value_to_string(at(&s, "expectations.1.reason")),
                      "met; 3 of 643 requests (0.467 %) never ended and are not in it");
  check_null(&s, "expectations.2.reason");
  assert_string_equal(value_to_string(at(&s, "expectations.2.shown")), "21 tokens");
  check_null(&s, "expectations.3.value");
  assert_string_equal(value_to_string(at(&s, "expectations.3.shown")), "—");
  value_free(&s);
  for (int i = 0; i < 4; i++)
    expect_free(&e[i]);
  table_free(t);
}

/* Beyond the limit of its check, what was cut off is named beside each judgement it is missing
 * from, of those that the expectation is about. */
static void expectations_name_what_was_cut_off(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 42; i++) {
    row_add(t, i < 11 ? row_failed(i, 1, 0, SAMPLE_INCOMPLETE) : row_ok(i, 1, 0, 5, 5));
    row_add(t, row_ok(i, 2, 0, 5, 5));
    struct session_record r = row_session(i, 0, 1, i < 3 ? SAMPLE_INCOMPLETE : SAMPLE_OK);
    table_add_session(t, &r);
  }
  table_finish(t);
  static const struct {
    const char *text, *reason;
  } cases[] = {
      {"ttft p50 < 400ms", "met; 11 of 84 requests (13.1 %) never ended and are not in it"},
      {"ttft{turn=1} p50 < 1ms",
       "5.00 ms is not < 1.00 ms; 11 of 42 requests (26.2 %) never ended and are not in it"},
      {"ttft{turn=2} p50 < 400ms", NULL},
      {"incomplete share < 50%", NULL},
      {"session_time mean < 1s", "met; 3 of 42 sessions (7.14 %) never ended and are not in it"},
      {"ttft{turn=2} p50 <= ttft{turn=1} p50",
       "met; 11 of 42 requests (26.2 %) never ended and are not in it"},
  };
  struct expect e[ARRAY_LEN(cases)];
  struct err err;
  for (size_t i = 0; i < ARRAY_LEN(cases); i++)
    check_ok(expect_parse(cases[i].text, &metrics, NULL, 0, &e[i], &err), &err);
  struct value s = build(t, e, ARRAY_LEN(cases));
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    const struct value *v = value_at(at(&s, "expectations"), i);
    const char *reason = value_to_string(value_get(v, "reason"));
    if (!cases[i].reason)
      assert_null(reason);
    else
      assert_string_equal(reason, cases[i].reason);
    expect_free(&e[i]);
  }
  value_free(&s);
  table_free(t);
}

/* Requests of two arms with gaps, added in the order of `order`. */
static struct value shuffled(const uint32_t *order, uint32_t n) {
  struct table *t = table_new(0);
  for (uint32_t k = 0; k < n; k++) {
    struct rng rng;
    rng_init(&rng, 77, order[k]);
    uint32_t i = order[k];
    struct sample *s = row_tokens(row_ok(i / 5, i % 5 + 1, i, rng_lognormal(&rng, 4, 1), 100), 100,
                                  20, (int64_t)(i % 7) * 10);
    s->arm = i % 2 ? "a" : "b";
    s->n_gaps = 19;
    s->gaps_ns = mem_calloc(19, sizeof *s->gaps_ns);
    for (int g = 0; g < 19; g++)
      s->gaps_ns[g] = (uint64_t)rng_lognormal(&rng, 16, 0.5);
    s->chosen = mem_strdup(i % 3 ? "r0" : "r1");
    row_add(t, s);
  }
  table_add_replica(t, "r0", 1);
  table_add_window(t, NULL, 0, 5 * NS_PER_S);
  table_finish(t);
  struct value s = build(t, NULL, 0);
  table_free(t);
  return s;
}

/* However many workers measured, in whatever order rows came: the same metrics, bit for bit. */
static void four_shards_equal_one(void **state) {
  (void)state;
  enum { N = 2000 };
  uint32_t one[N], four[N];
  for (uint32_t i = 0; i < N; i++) {
    one[i] = i;
    four[i] = i % 500 * 4 + i / 500; /* worker 0's rows, then worker 1's … */
  }
  struct value a = shuffled(one, N), b = shuffled(four, N);
  assert_true(value_equal(at(&a, "metrics"), at(&b, "metrics")));
  assert_true(value_equal(at(&a, "turns"), at(&b, "turns")));
  assert_true(value_equal(at(&a, "as_infinity"), at(&b, "as_infinity")));
  assert_true(value_equal(at(&a, "arms.a.metrics"), at(&b, "arms.a.metrics")));
  check_num(&a, "arms.a.requests.ok", 1000);
  check_num(&a, "metrics.itl.n", 19 * N);
  assert_null(value_get(at(&a, "arms.a.metrics"), "wake_lag"));
  value_free(&a);
  value_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts),
      cmocka_unit_test(distributions),
      cmocka_unit_test(turns_and_replicas),
      cmocka_unit_test(few_samples_refuse_percentiles),
      cmocka_unit_test(exactly_enough_samples_are_enough),
      cmocka_unit_test(failures_count_as_samples_and_have_no_ratio),
      cmocka_unit_test(what_was_cut_off_is_told_where_it_is_missing),
      cmocka_unit_test(the_warm_up_does_not_widen_intervals),
      cmocka_unit_test(replies_of_one_read_are_counted),
      cmocka_unit_test(an_empty_run_is_still_a_summary),
      cmocka_unit_test(expectations_are_in_it),
      cmocka_unit_test(expectations_name_what_was_cut_off),
      cmocka_unit_test(four_shards_equal_one),
  };
  return cmocka_run_group_tests(tests, summary_set_up, summary_tear_down);
}
