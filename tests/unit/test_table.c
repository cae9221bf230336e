/* test_table.c: what a row keeps, gaps and their bound, sessions as clusters, the window. */
#include "check.h"

#include <math.h>

#include "out_rows.h"

static void set_gaps(struct sample *s, const uint64_t *gaps, const int32_t *tokens, size_t n) {
  s->n_gaps = n;
  s->gaps_ns = mem_dup(gaps, n * sizeof *gaps);
  s->gap_tokens = tokens ? mem_dup(tokens, n * sizeof *tokens) : NULL;
}

static void a_row_keeps_its_facts(void **state) {
  (void)state;
  assert_int_equal(sizeof(struct table_row), 200); /* table.h promises it */
  struct table *t = table_new(0);
  struct sample *s = row_tokens(row_ok(7, 2, 100, 50, 200), 1000, 20, 800);
  s->arm = "a";
  s->served = mem_strdup("r1");
  s->chosen = mem_strdup("r0");
  s->render_ns = 5;
  s->hash_ns = 7;
  s->policy = "lookup";
  s->fallback = true;
  s->first_tokens = INT64_C(1) << 40;
  row_add(t, row_tags(s, "{\"tier\":\"gold\"}"));
  const struct table_row *r = &t->rows[0];
  assert_int_equal(r->first_token - r->start, 50 * MS);
  assert_int_equal(r->overhead_ns, 12);
  assert_int_equal(r->prompt_tokens, 1000);
  assert_int_equal(r->output_local, -1);
  assert_int_equal(r->cached_tokens, 800);
  assert_int_equal(r->first_tokens, INT32_MAX);
  assert_string_equal(t->arms.items[r->arm], "a");
  assert_string_equal(t->replicas.items[r->replica], "r1");
  assert_int_equal(r->flags, ROW_MEASURED | ROW_GENERATION | ROW_ROUTED | ROW_FALLBACK |
                                 ROW_STREAMED | ROW_STREAM_ASKED);
  assert_string_equal(t->tags.items[r->tags], "{\"tier\":\"gold\"}");

  s = row_failed(8, 1, 0, SAMPLE_CONNECT);
  s->error_detail = mem_strdup("first");
  row_add(t, s);
  s = row_failed(8, 1, 0, SAMPLE_CONNECT);
  s->error_detail = mem_strdup("second");
  row_add(t, s);
  assert_string_equal(t->detail[SAMPLE_CONNECT], "first");
  assert_int_equal(t->rows[1].arm, TABLE_NO_ARM);
  assert_int_equal(t->rows[1].replica, TABLE_NO_REPLICA);
  assert_int_equal(t->rows[1].overhead_ns, SAMPLE_ABSENT);
  table_free(t);
  table_free(NULL);
}

static void broken_tags_are_no_tags(void **state) {
  (void)state;
  struct table *t = table_new(0);
  row_add(t, row_tags(row_ok(1, 1, 0, 1, 1), "[1]"));
  row_add(t, row_tags(row_ok(1, 1, 0, 1, 1), "{oops"));
  assert_int_equal(t->n_tag_values, 2);
  assert_int_equal(value_count(&t->tag_values[0]), 0);
  assert_int_equal(t->tag_values[1].kind, VALUE_OBJECT);
  table_free(t);
}

static void gaps_of_good_measured_requests_are_kept(void **state) {
  (void)state;
  struct table *t = table_new(0);
  static const uint64_t gaps[] = {20000000, 10000000, 30000000};
  static const int32_t tokens[] = {1, 2, -1};
  struct sample *s = row_ok(1, 1, 0, 1, 60);
  set_gaps(s, gaps, NULL, 3);
  row_add(t, s);
  assert_null(t->gap_tokens);
  s = row_ok(1, 2, 0, 1, 60);
  set_gaps(s, gaps, tokens, 3);
  row_add(t, s);
  s = row_ok(1, 3, 0, 1, 60);
  set_gaps(s, gaps, tokens, 3);
  s->measured = false; /* warm-up */
  row_add(t, s);
  s = row_ok(1, 3, 0, 1, 60);
  set_gaps(s, gaps, tokens, 3);
  s->error = SAMPLE_TRUNCATED;
  row_add(t, s);
  s = row_ok(1, 3, 0, 1, 60);
  set_gaps(s, gaps, tokens, 3);
  s->streamed = false; /* several choices of a whole reply: no gap was seen */
  row_add(t, s);
  assert_int_equal(t->n_gaps, 6);
  assert_int_equal(t->rows[1].gaps, 3);
  assert_int_equal(t->rows[1].n_gaps, 3);
  check_near(t->gaps[4], 1e7, 0.0);
  static const uint16_t want[] = {0, 0, 0, 1, 2, 0};
  assert_memory_equal(t->gap_tokens, want, sizeof want);
  uint64_t many[3000]; /* the array grows, and what is behind it before is anything */
  for (size_t i = 0; i < ARRAY_LEN(many); i++)
    many[i] = i + 1;
  s = row_ok(1, 4, 0, 1, 60);
  set_gaps(s, many, NULL, ARRAY_LEN(many));
  row_add(t, s);
  assert_int_equal(t->n_gaps, 6 + ARRAY_LEN(many));
  assert_memory_equal(t->gap_tokens, want, sizeof want);
  for (size_t i = 0; i < ARRAY_LEN(many); i++)
    assert_int_equal(t->gap_tokens[6 + i], 0);
  table_free(t);
}

static void too_many_gaps_become_a_histogram(void **state) {
  (void)state;
  struct table *t = table_new(1000);
  for (int i = 0; i < 400; i++) {
    uint64_t gaps[4];
    int32_t tokens[4] = {2, 2, 2, -1};
    for (int k = 0; k < 4; k++)
      gaps[k] = (uint64_t)(i * 4 + k + 1) * 10000;
    struct sample *s = row_ok(1, 1, 0, 1, 1);
    s->arm = i % 2 ? "a" : NULL;
    set_gaps(s, gaps, tokens, 4);
    row_add(t, s);
    assert_int_equal(t->gaps_dropped, i >= 250); /* 1,000 fit */
  }
  assert_null(t->gaps);
  assert_int_equal(t->n_arm_hists, 2);
  assert_int_equal(t->arm_hists[0]->itl.n, 800);
  assert_int_equal(t->arm_hists[1]->itl.n, 800);
  assert_int_equal(t->arm_hists[0]->itl_token.n, 600);
  assert_int_equal(t->arm_hists[0]->itl.min, 10000);
  assert_int_equal(t->arm_hists[1]->itl.max, 16000000);
  struct sample *odd = row_ok(1, 1, 0, 1, 1);
  odd->arm = "b";
  set_gaps(odd, (const uint64_t[]){5}, (const int32_t[]){2}, 1);
  row_add(t, odd);
  assert_int_equal(t->arm_hists[2]->itl_token.max, 3); /* 2.5 ns */
  check_near(hist_mean(&t->arm_hists[0]->itl_token) * 2, hist_mean(&t->arm_hists[0]->itl), 15000);
  table_free(t);
}

static void sessions_are_numbered_by_id(void **state) {
  (void)state;
  struct table *t = table_new(0);
  static const uint64_t ids[] = {900, 5, UINT64_MAX, 5, 7};
  static const uint32_t want[] = {2, 0, 3, 0, 1};
  for (size_t i = 0; i < 5; i++)
    row_add(t, row_ok(ids[i], 1, 0, 1, 1));
  struct session_record s = row_session(7, 0, 1, SAMPLE_OK);
  table_add_session(t, &s);
  row_value(t, 6, "x", 1, NULL, false);
  table_finish(t);
  assert_int_equal(t->n_clusters, 5);
  for (size_t i = 0; i < 5; i++)
    assert_int_equal(t->rows[i].cluster, want[i] + (ids[i] > 6));
  assert_int_equal(t->sessions[0].cluster, 2);
  assert_int_equal(t->values[0].cluster, 1);
  table_free(t);
}

/* The bootstrap draws among clusters: sessions of the warm-up have no value to draw. */
static void only_measured_sessions_are_numbered(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 5; i++) {
    struct sample *s = row_ok(i < 3 ? i : 50 + i, 1, 0, 1, 1);
    s->measured = i >= 3;
    row_add(t, s);
  }
  struct session_record warm = row_session(1, 0, 1, SAMPLE_OK), good = row_session(60, 0, 1, 0);
  warm.measured = false;
  table_add_session(t, &warm);
  table_add_session(t, &good);
  struct value_record v = {.session = 2, .name = "x", .value = 1};
  table_add_value(t, &v);
  table_finish(t);
  assert_int_equal(t->n_clusters, 3);
  assert_int_equal(t->rows[0].cluster, TABLE_NO_CLUSTER);
  assert_int_equal(t->rows[3].cluster, 0); /* 53 */
  assert_int_equal(t->rows[4].cluster, 1); /* 54 */
  assert_int_equal(t->sessions[0].cluster, TABLE_NO_CLUSTER);
  assert_int_equal(t->sessions[1].cluster, 2);
  assert_int_equal(t->values[0].cluster, TABLE_NO_CLUSTER);
  table_free(t);
}

/* What a class says is what its first measured request said, whichever row came first. */
static void details_are_of_measured_requests(void **state) {
  (void)state;
  struct table *t = table_new(0);
  static const char *const said[] = {"warm-up", "late", "first", "plain"};
  for (int i = 0; i < 4; i++) {
    struct sample *s = row_failed(1, 1, i == 1 ? 500 : i, SAMPLE_HTTP_429);
    s->measured = i > 0;
    s->is_generation = i < 3;
    s->error_detail = mem_strdup(said[i]);
    row_add(t, s);
  }
  assert_string_equal(t->detail[SAMPLE_HTTP_429], "first");
  assert_string_equal(t->other_detail[SAMPLE_HTTP_429], "plain");
  struct session_record r = row_session(1, 0, 5, SAMPLE_SCRIPT);
  snprintf(r.detail, sizeof r.detail, "warm-up");
  r.measured = false;
  table_add_session(t, &r);
  assert_null(t->session_detail[SAMPLE_SCRIPT]);
  snprintf(r.detail, sizeof r.detail, "measured");
  r.measured = true;
  table_add_session(t, &r);
  assert_string_equal(t->session_detail[SAMPLE_SCRIPT], "measured");
  table_free(t);
}

static struct sample *cached(const char *replica, uint64_t session, int64_t tokens) {
  struct sample *s = row_tokens(row_ok(session, 1, 0, 1, 1), 100, 5, tokens);
  s->chosen = replica ? mem_strdup(replica) : NULL;
  return s;
}

/* A cold miss before the replica's first report is a zero too, once it is known to report. */
static void a_report_later_on_explains_what_was_not_said(void **state) {
  (void)state;
  struct table *t = table_new(0);
  row_add(t, cached("r0", 1, SAMPLE_ABSENT));
  row_add(t, cached("r1", 1, SAMPLE_ABSENT)); /* never reports */
  row_add(t, cached(NULL, 1, SAMPLE_ABSENT));
  struct sample *s = cached("r0", 2, SAMPLE_ABSENT); /* no usage at all: nothing is known */
  s->prompt_tokens = s->output_tokens = SAMPLE_ABSENT;
  row_add(t, s);
  s = cached("r0", 3, 40);
  s->measured = false; /* the warm-up tells as well as any other */
  row_add(t, s);
  table_finish(t);
  assert_int_equal(t->rows[0].cached_state, CACHED_INFERRED_ZERO);
  assert_int_equal(t->rows[0].cached_tokens, 0);
  assert_int_equal(t->rows[1].cached_state, CACHED_ABSENT);
  assert_int_equal(t->rows[1].cached_tokens, -1);
  assert_int_equal(t->rows[2].cached_state, CACHED_ABSENT);
  assert_int_equal(t->rows[3].cached_state, CACHED_ABSENT);
  row_add(t, cached(NULL, 4, 0)); /* a gateway, with no name per replica */
  table_finish(t);
  assert_int_equal(t->rows[2].cached_state, CACHED_INFERRED_ZERO);
  assert_int_equal(t->rows[1].cached_state, CACHED_ABSENT);
  table_free(t);
}

static void numbers_may_have_holes(void **state) {
  (void)state;
  struct table *t = table_new(0);
  static const uint64_t ids[] = {0, 1, 3, 4};
  for (size_t i = 0; i < 4; i++)
    row_add(t, row_ok(ids[i], 1, 0, 1, 1));
  table_finish(t);
  for (uint32_t i = 0; i < 4; i++)
    assert_int_equal(t->rows[i].cluster, i);
  table_free(t);
}

static void the_window_clips(void **state) {
  (void)state;
  struct table *t = table_new(0);
  table_add_window(t, NULL, 1000 * MS, 3000 * MS);
  check_near(table_window_seconds(t, TABLE_NO_ARM), 2, 0.0);
  check_near(table_window_seconds(t, 3), 2, 0.0);
  assert_true(table_in_window(t, 0, 1000 * MS));
  assert_true(table_in_window(t, 0, 3000 * MS));
  assert_false(table_in_window(t, 0, 3000 * MS + 1));
  assert_false(table_in_window(t, 0, SAMPLE_NEVER));
  /* first token at 500 ms, last at 1500 ms: half of its 100 tokens lie inside */
  row_add(t, row_tokens(row_ok(1, 1, 400, 100, 1000), 1, 100, 0));
  check_near(table_window_tokens(t, &t->rows[0]), 50, 1e-9);
  row_add(t, row_tokens(row_ok(1, 1, 1000, 100, 1000), 1, 100, 0));
  check_near(table_window_tokens(t, &t->rows[1]), 100, 1e-9);
  struct sample *s = row_tokens(row_ok(1, 1, 400, 100, 1000), 1, 100, 0);
  s->window_tokens = 37; /* stamped one by one */
  row_add(t, s);
  check_near(table_window_tokens(t, &t->rows[2]), 37, 0.0);
  row_add(t, row_tokens(row_ok(1, 1, 2000, 1, 0), 1, 9, 0)); /* all at once */
  check_near(table_window_tokens(t, &t->rows[3]), 9, 0.0);
  row_add(t, row_failed(1, 1, 2000, SAMPLE_RESET));
  check_near(table_window_tokens(t, &t->rows[4]), 0, 0.0);
  table_free(t);
}

static void arms_have_their_own_windows(void **state) {
  (void)state;
  struct table *t = table_new(0);
  table_add_window(t, "a", 0, 1000 * MS);
  table_add_window(t, "b", 1000 * MS, 3000 * MS);
  table_add_window(t, "a", 3000 * MS, 3500 * MS);
  check_near(table_window_seconds(t, 0), 1.5, 0.0);
  check_near(table_window_seconds(t, 1), 2, 0.0);
  check_near(table_window_seconds(t, TABLE_NO_ARM), 3.5, 0.0);
  assert_false(table_in_window(t, 0, 2000 * MS));
  assert_true(table_in_window(t, 1, 2000 * MS));
  table_free(t);
}

static void probes_merge(void **state) {
  (void)state;
  struct probe *a = mem_alloc(sizeof *a), *b = mem_alloc(sizeof *b);
  probe_init(a);
  probe_init(b);
  assert_true(isnan(a->cpu_max));
  hist_add(&a->timer_late, 5);
  hist_add(&b->timer_late, 9);
  a->no_kernel_stamp = 1;
  b->no_kernel_stamp = 2;
  b->cpu_max = 0.4;
  b->cpu_worker = 1;
  b->n_cpu = 1;
  probe_merge(a, b);
  check_near(a->cpu_max, 0.4, 0.0);
  b->cpu_max = 0.2;
  b->cpu_worker = 2;
  probe_merge(a, b);
  check_near(a->cpu_max, 0.4, 0.0);
  assert_int_equal(a->cpu_worker, 1);
  assert_int_equal(a->n_cpu, 2);
  assert_int_equal(a->timer_late.n, 3);
  assert_int_equal(a->no_kernel_stamp, 5);
  mem_free(a);
  mem_free(b);
}

static void rotation_of_replicas(void **state) {
  (void)state;
  struct table *t = table_new(0);
  table_add_replica(t, "r0", 0.25);
  table_add_replica(t, "spare", -1); /* never in it, and got nothing */
  assert_int_equal(t->replicas.n, 1);
  struct sample *s = row_ok(1, 1, 0, 5, 5);
  s->served = mem_strdup("asked");
  row_add(t, s);
  table_add_replica(t, "asked", -1);
  table_add_replica(t, "r1", 1);
  const double rotation[] = {0.25, 0, 1};
  for (size_t i = 0; i < 3; i++)
    check_near(table_replica_rotation(t, i), rotation[i], 0.0);
  assert_int_equal(t->replica_flags[1], REPLICA_USED);
  check_near(table_replica_rotation(t, 3), 1, 0.0);
  table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rotation_of_replicas),
      cmocka_unit_test(a_row_keeps_its_facts),
      cmocka_unit_test(broken_tags_are_no_tags),
      cmocka_unit_test(gaps_of_good_measured_requests_are_kept),
      cmocka_unit_test(too_many_gaps_become_a_histogram),
      cmocka_unit_test(sessions_are_numbered_by_id),
      cmocka_unit_test(only_measured_sessions_are_numbered),
      cmocka_unit_test(details_are_of_measured_requests),
      cmocka_unit_test(a_report_later_on_explains_what_was_not_said),
      cmocka_unit_test(numbers_may_have_holes),
      cmocka_unit_test(the_window_clips),
      cmocka_unit_test(arms_have_their_own_windows),
      cmocka_unit_test(probes_merge),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
