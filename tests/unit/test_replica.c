/* test_replica.c: the engine stepped in time, without sockets and without a clock. */
#include "check.h"

#include "sim/replica.h"

enum { MAX = 64 };

struct job {
  struct replica_seq seq;
  uint32_t tokens[512];
  uint64_t at[MAX]; /* when each token came */
  uint32_t n;
  bool last, gone;
  struct job *abort; /* this one's first token aborts that one */
  struct replica *replica;
};

static uint32_t sample(void *user, const struct engine_request *req, uint32_t index) {
  (void)user;
  (void)req;
  return 1000 + index;
}

static void on_token(struct replica_seq *seq, bool last, uint64_t now_ns) {
  struct job *j = CONTAINER_OF(seq, struct job, seq);
  assert_false(j->last || j->gone);
  assert_int_equal(seq->engine.tokens[seq->engine.num_tokens - 1], 1000 + j->n);
  j->at[j->n++] = now_ns;
  j->last = last;
  if (j->abort && j->n == 1)
    replica_abort(j->replica, &j->abort->seq);
}

static void on_gone(struct replica_seq *seq) {
  struct job *j = CONTAINER_OF(seq, struct job, seq);
  assert_false(j->gone);
  j->gone = true;
}

static struct replica *make(const char *profile, uint32_t blocks) {
  struct err err = {0};
  struct steptime_profile p;
  check_ok(steptime_get(profile, &p, &err), &err);
  struct engine_config e = steptime_engine_config(&p);
  e.num_blocks = blocks + 1;
  e.max_model_len = blocks * 16;
  struct replica *r = replica_new(&e, &p, 1760000000, &err);
  assert_non_null(r);
  return r;
}

static void add(struct replica *r, struct job *j, uint32_t prompt, uint32_t output, uint32_t first,
                uint64_t now) {
  *j = (struct job){.replica = r};
  for (uint32_t i = 0; i < prompt; i++)
    j->tokens[i] = first + i;
  j->seq.engine.tokens = j->tokens;
  j->seq.engine.prompt_len = prompt;
  j->seq.engine.max_output = output;
  j->seq.engine.sample = sample;
  j->seq.on_token = on_token;
  j->seq.on_gone = on_gone;
  j->seq.finish = METER_LENGTH;
  j->seq.max_tokens = output;
  j->seq.received_ns = j->seq.queued_ns = now;
  struct err err = {0};
  check_ok(replica_add(r, &j->seq, &err), &err);
}

/* Steps until nothing is left to do, from `now` on; returns the time after. */
static uint64_t run(struct replica *r, uint64_t now) {
  uint64_t due;
  while (replica_begin(r, now, &due))
    replica_end(r, now = due);
  return now;
}

static double metric(struct replica *r, const char *series) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  replica_write_metrics(r, &(struct replica_state){.model = "m"}, &b);
  const char *at = strstr(b.data, series);
  if (!at)
    fail_msg("no series %s", series);
  double x = strtod(at + strlen(series), NULL);
  buf_free(&b);
  return x;
}

#define M "{engine=\"0\",model_name=\"m\"} "

static void test_times_of_a_request(void **state) {
  (void)state;
  struct replica *r = make("llama-3.1-8b", 1000);
  struct job j;
  add(r, &j, 300, 3, 0, 500);
  uint64_t ns, start = 1000;
  assert_true(replica_begin(r, start, &ns));
  struct steptime_profile p;
  struct err err;
  assert_int_equal(steptime_get("llama-3.1-8b", &p, &err), 0);
  assert_int_equal(ns, start + steptime_step_ns(&p, 300, 0, 0));
  assert_true(replica_in_step(r));
  assert_false(replica_begin(r, start, &ns));
  assert_int_equal(j.n, 0); /* nothing before the step's end */
  uint64_t first = start + steptime_step_ns(&p, 300, 0, 0);
  replica_end(r, first);
  assert_int_equal(j.n, 1);
  uint64_t end = run(r, first);
  assert_true(j.last);
  assert_int_equal(j.n, 3);
  assert_int_equal(j.at[0], first);
  assert_int_equal(j.at[1], first + steptime_step_ns(&p, 0, 1, 300));
  assert_int_equal(j.at[2], j.at[1] + steptime_step_ns(&p, 0, 1, 301));
  assert_int_equal(end, j.at[2]);
  assert_int_equal(j.seq.scheduled_ns, 1000);
  assert_int_equal(j.seq.first_ns, j.at[0]);
  assert_int_equal(j.seq.last_ns, j.at[2]);
  check_near(metric(r, "vllm:time_to_first_token_seconds_sum" M), (double)(first - 500) / 1e9,
             1e-12);
  check_near(metric(r, "vllm:request_queue_time_seconds_sum" M), 500e-9, 1e-15);
  check_near(metric(r, "vllm:request_decode_time_seconds_sum" M), (double)(j.at[2] - j.at[0]) / 1e9,
             1e-12);
  replica_delete(r);
}

static void test_requests_share_steps(void **state) {
  (void)state;
  struct replica *r = make("fixed", 1000);
  struct job a, b;
  add(r, &a, 20, 4, 0, 0);
  uint64_t ns;
  assert_true(replica_begin(r, 0, &ns));
  add(r, &b, 20, 2, 100, 1); /* arrives in the middle: counts for the next step */
  replica_end(r, ns);
  assert_int_equal(a.n, 1);
  assert_int_equal(b.n, 0);
  run(r, ns);
  assert_int_equal(b.at[0], a.at[1]);
  assert_int_equal(b.at[1], a.at[2]);
  assert_int_equal(b.seq.scheduled_ns, ns);
  check_near(metric(r, "vllm:iteration_tokens_total_count" M), 4, 0);
  check_near(metric(r, "vllm:iteration_tokens_total_sum" M), 46, 0);
  replica_delete(r);
}

/* Steps in a chain begin when the last was due, however late its timer was; not after a pause. */
static void test_lateness_does_not_add_up(void **state) {
  (void)state;
  struct replica *r = make("fixed", 1000);
  const uint64_t step = 10 * NS_PER_MS, late = 3 * NS_PER_MS;
  struct job a;
  uint64_t due, now = NS_PER_S;
  add(r, &a, 20, 5, 0, now);
  assert_true(replica_begin(r, now, &due));
  assert_int_equal(due, now + step);
  for (uint64_t i = 2; i <= 4; i++) {
    replica_end(r, due + late);
    assert_true(replica_begin(r, due + late, &due));
    assert_int_equal(due, now + i * step);
  }
  uint64_t held_up = due + REPLICA_CATCH_UP_NS;
  replica_end(r, held_up);
  assert_true(replica_begin(r, held_up, &due));
  assert_int_equal(due, held_up + step);
  replica_end(r, due);
  assert_true(a.last);
  assert_false(replica_begin(r, due, &now));
  uint64_t later = due + NS_PER_MS; /* a new arrival after a pause begins at once */
  add(r, &a, 20, 1, 0, later);
  assert_true(replica_begin(r, later, &due));
  assert_int_equal(due, later + step);
  replica_delete(r);
}

static void test_gauges_are_those_of_the_last_step(void **state) {
  (void)state;
  struct replica *r = make("fixed", 1000);
  struct job a;
  uint32_t running, waiting;
  double usage;
  uint64_t ns;
  add(r, &a, 20, 3, 0, 0);
  assert_true(replica_begin(r, 0, &ns));
  replica_gauges(r, &running, &waiting, &usage);
  assert_int_equal(running, 0); /* the step is under way: nothing published yet */
  replica_end(r, 10);
  replica_gauges(r, &running, &waiting, &usage);
  assert_int_equal(running, 1);
  assert_int_equal(waiting, 0);
  check_near(usage, 2 / 1000.0, 1e-12);
  run(r, 10);
  replica_gauges(r, &running, &waiting, &usage);
  assert_int_equal(running, 0);
  check_near(usage, 0, 0);
  replica_delete(r);
}

static void test_abort_waiting_running_and_in_a_step(void **state) {
  (void)state;
  struct replica *r = make("fixed", 1000);
  struct job a, b, c;
  uint64_t ns;
  add(r, &a, 20, 9, 0, 0);
  add(r, &b, 20, 9, 100, 0);
  add(r, &c, 20, 9, 200, 0);
  replica_abort(r, &c.seq); /* waiting */
  assert_true(c.gone);
  assert_true(replica_begin(r, 0, &ns));
  replica_abort(r, &b.seq);
  assert_false(b.gone); /* it sampled in this step: gone at its end */
  replica_end(r, ns);
  assert_true(b.gone);
  assert_int_equal(b.n, 0);
  assert_int_equal(a.n, 1);
  replica_abort(r, &a.seq); /* running, between steps */
  assert_true(a.gone);
  assert_false(replica_begin(r, ns, &ns));
  assert_int_equal(engine_free_blocks(replica_engine(r)), 1000);
  check_near(metric(r, "finished_reason=\"abort\",model_name=\"m\"} "), 3, 0);
  replica_delete(r);
}

/* A token's callback may abort a request that stands later in the same step. */
static void test_abort_of_another_from_on_token(void **state) {
  (void)state;
  struct replica *r = make("fixed", 1000);
  struct job a, b;
  add(r, &a, 20, 2, 0, 0);
  add(r, &b, 20, 2, 100, 0);
  a.abort = &b;
  run(r, 0);
  assert_int_equal(a.n, 2);
  assert_int_equal(b.n, 0);
  assert_true(b.gone);
  replica_delete(r);
}

static void test_last_token_of_an_aborted_step(void **state) {
  (void)state;
  struct replica *r = make("fixed", 1000);
  struct job a;
  uint64_t ns;
  add(r, &a, 20, 1, 0, 0);
  assert_true(replica_begin(r, 0, &ns)); /* it is over in the engine already */
  replica_abort(r, &a.seq);
  replica_end(r, ns);
  assert_true(a.gone);
  assert_int_equal(a.n, 0);
  replica_delete(r);
}

/* Two that do not fit together: one is preempted, both end, counters say so. */
static void test_preemption(void **state) {
  (void)state;
  struct replica *r = make("fixed", 8);
  struct job a, b;
  add(r, &a, 60, 40, 0, 900);
  add(r, &b, 60, 40, 100, 900);
  run(r, 1000);
  assert_true(a.last && b.last);
  assert_int_equal(a.n, 40);
  assert_int_equal(b.n, 40);
  assert_true(b.seq.engine.num_preemptions > 0);
  assert_int_equal(b.seq.scheduled_ns, 1000); /* the first scheduling counts */
  assert_true(metric(r, "vllm:num_preemptions_total" M) > 0);
  check_near(metric(r, "vllm:request_success_total{engine=\"0\",finished_reason=\"length\","
                       "model_name=\"m\"} "),
             2, 0);
  replica_delete(r);
}

static void test_cache_and_reset(void **state) {
  (void)state;
  struct replica *r = make("instant", 1000);
  struct job a;
  add(r, &a, 100, 1, 0, 0);
  run(r, 0);
  assert_int_equal(a.seq.engine.num_cached, 0);
  add(r, &a, 100, 1, 0, 0);
  run(r, 0);
  assert_int_equal(a.seq.engine.num_cached, 96);
  assert_true(replica_reset_cache(r, false));
  add(r, &a, 100, 1, 0, 0);
  run(r, 0);
  assert_int_equal(a.seq.engine.num_cached, 0);
  check_near(metric(r, "vllm:prefix_cache_hits_total" M), 96, 0);
  check_near(metric(r, "vllm:prompt_tokens_cached_total" M), 96, 0);
  replica_delete(r);
}

static void test_bad_configuration(void **state) {
  (void)state;
  struct err err = {0};
  struct steptime_profile p;
  check_ok(steptime_get("tiny", &p, &err), &err);
  struct engine_config e = steptime_engine_config(&p);
  e.num_blocks = 2;
  assert_null(replica_new(&e, &p, 0, &err));
  assert_int_equal(err.code, ERR_INVALID);
  check_has(err.text, "max_model_len");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_times_of_a_request),
      cmocka_unit_test(test_requests_share_steps),
      cmocka_unit_test(test_lateness_does_not_add_up),
      cmocka_unit_test(test_gauges_are_those_of_the_last_step),
      cmocka_unit_test(test_abort_waiting_running_and_in_a_step),
      cmocka_unit_test(test_abort_of_another_from_on_token),
      cmocka_unit_test(test_last_token_of_an_aborted_step),
      cmocka_unit_test(test_preemption),
      cmocka_unit_test(test_cache_and_reset),
      cmocka_unit_test(test_bad_configuration),
  };
  return cmocka_run_group_tests_name("replica", tests, NULL, NULL);
}
