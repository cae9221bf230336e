/* test_replica.c: the engine stepped in time, without sockets and without a clock. */
#include "check.h"

#include "sim/replica.h"

enum { MAX = 64 };

struct job {
  struct replica_seq seq;
  uint32_t tokens[10000];
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

static struct replica *make_with(const char *profile, uint32_t blocks, bool async) {
  struct err err = {0};
  struct steptime_profile p;
  check_ok(steptime_get(profile, &p, &err), &err);
  struct engine_config e = steptime_engine_config(&p);
  e.num_blocks = blocks + 1;
  e.max_model_len = blocks * 16;
  e.async_scheduling = async;
  struct replica *r = replica_new(&e, &p, METERS_VLLM, 1760000000, &err);
  assert_non_null(r);
  return r;
}

static struct replica *make(const char *profile, uint32_t blocks) {
  return make_with(profile, blocks, false);
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

/* A prompt of two steps, of which the second has its only token. */
static void test_one_token_of_a_long_prompt(void **state) {
  (void)state;
  struct replica *r = make("llama-3.1-8b", 1000);
  static struct job j;
  add(r, &j, 9000, 1, 0, 1000);
  uint64_t ns;
  assert_true(replica_begin(r, 1000, &ns));
  replica_end(r, ns);
  assert_int_equal(j.n, 0);
  check_near(metric(r, "vllm:iteration_tokens_total_count" M), 0, 0);
  run(r, ns);
  assert_int_equal(j.n, 1);
  check_near(metric(r, "vllm:iteration_tokens_total_count" M), 1, 0);
  check_near(metric(r, "vllm:iteration_tokens_total_sum" M), 9001, 0);
  check_near(metric(r, "vllm:request_time_per_output_token_seconds_count" M), 1, 0);
  check_near(metric(r, "vllm:request_time_per_output_token_seconds_sum" M), 0, 0);
  add(r, &j, 20, 3, 50000, j.at[0]);
  run(r, j.at[0]);
  check_near(metric(r, "vllm:request_time_per_output_token_seconds_count" M), 2, 0);
  check_near(metric(r, "vllm:request_time_per_output_token_seconds_sum" M),
             (double)(j.at[2] - j.at[0]) / 2e9, 1e-12);
  replica_delete(r);
}

static void test_time_per_token_of_tgi(void **state) {
  (void)state;
  struct err err = {0};
  struct steptime_profile p;
  check_ok(steptime_get("fixed", &p, &err), &err);
  struct engine_config e = steptime_engine_config(&p);
  struct replica *r = replica_new(&e, &p, METERS_TGI, 1760000000, &err);
  assert_non_null(r);
  struct job j;
  uint64_t since = 1000, inference = 0;
  for (uint32_t n = 1; n <= 4; n += 3, since = j.seq.last_ns) {
    add(r, &j, 20, n, n * 100, since);
    run(r, since);
    inference += (j.seq.last_ns - j.seq.scheduled_ns) / n;
  }
  check_near(metric(r, "\ntgi_request_mean_time_per_token_duration_count "), 2, 0);
  check_near(metric(r, "\ntgi_request_mean_time_per_token_duration_sum "), (double)inference / 1e9,
             1e-9);
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

static void on_quiet(struct replica_seq *seq, bool last, uint64_t now_ns) {
  struct job *j = CONTAINER_OF(seq, struct job, seq);
  j->at[j->n++] = now_ns;
  j->last = last;
}

/* Who is quiet hears of the first token and the last; the others are stamped all the same, in steps
 * in which nobody is told anything and in those of others' ends. */
static void test_quiet_requests(void **state) {
  (void)state;
  struct replica *r = make("llama-3.1-8b", 1000);
  struct job a, b, c;
  struct job *const jobs[] = {&a, &b, &c};
  uint64_t stamps[3][10], due, now = 0, ends[10];
  for (uint32_t i = 0; i < 3; i++) {
    add(r, jobs[i], 20, 10 - 2 * i, 100 * i, 0);
    jobs[i]->seq.on_token = on_quiet;
    jobs[i]->seq.quiet = true;
    jobs[i]->seq.stamps = stamps[i];
  }
  size_t n = 0;
  for (; replica_begin(r, now, &due); n++)
    replica_end(r, ends[n] = now = due);
  assert_int_equal(n, 10);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(jobs[i]->seq.n_stamps, 10 - 2 * i);
    assert_memory_equal(stamps[i], ends, (10 - 2 * i) * sizeof *ends);
    assert_int_equal(jobs[i]->n, 2);
    assert_true(jobs[i]->last);
    assert_int_equal(jobs[i]->at[1], ends[9 - 2 * i]);
    assert_int_equal(jobs[i]->seq.last_ns, ends[9 - 2 * i]);
  }
  check_near(metric(r, "vllm:inter_token_latency_seconds_count" M), 9 + 7 + 5, 0);
  check_near(metric(r, "vllm:inter_token_latency_seconds_sum" M),
             (double)(ends[9] + ends[7] + ends[5] - 3 * ends[0]) / 1e9, 1e-12);
  check_near(metric(r, "vllm:generation_tokens_total" M), 24, 0);
  replica_delete(r);
}

/* Asynchronous scheduling: alone a request is as fast; who comes in the middle of a step waits for
 * the next one too, and may leave while both are under way. */
static void test_steps_scheduled_ahead(void **state) {
  (void)state;
  struct replica *r = make_with("fixed", 1000, true);
  const uint64_t step = 10 * NS_PER_MS;
  struct job a, b, c;
  add(r, &a, 20, 5, 0, 0);
  uint64_t ns;
  assert_true(replica_begin(r, 0, &ns));
  assert_int_equal(ns, step);
  add(r, &b, 20, 2, 100, 1); /* the second step is scheduled already */
  add(r, &c, 20, 9, 200, 1);
  replica_end(r, ns);
  assert_int_equal(a.n, 1);
  assert_true(replica_begin(r, ns, &ns));
  replica_end(r, ns); /* b's first step is scheduled behind it */
  assert_int_equal(b.n, 0);
  assert_int_equal(b.seq.scheduled_ns, step);
  assert_true(replica_begin(r, ns, &ns));
  replica_abort(r, &c.seq);
  assert_true(c.gone);
  replica_end(r, ns);
  assert_int_equal(b.n, 1);
  assert_int_equal(run(r, ns), 5 * step);
  assert_true(a.last && b.last);
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(a.at[i], (i + 1) * step);
  assert_int_equal(b.at[0], 3 * step);
  assert_int_equal(b.at[1], 4 * step);
  assert_int_equal(c.n, 0);
  check_near(metric(r, "vllm:num_requests_running" M), 0, 0);
  check_near(metric(r, "vllm:generation_tokens_total" M), 7, 0);
  add(r, &c, 20, 1, 300, 60 * NS_PER_MS); /* all that is under way goes, and something else comes */
  assert_true(replica_begin(r, 60 * NS_PER_MS, &ns));
  replica_abort(r, &c.seq);
  replica_end(r, ns);
  assert_false(replica_begin(r, ns, &ns));
  add(r, &b, 20, 2, 400, 80 * NS_PER_MS);
  assert_true(replica_begin(r, 80 * NS_PER_MS, &ns));
  replica_abort(r, &b.seq); /* the step behind is empty now, and is run all the same */
  replica_end(r, ns);
  add(r, &a, 20, 3, 500, 91 * NS_PER_MS);
  assert_int_equal(run(r, ns), 90 * NS_PER_MS + 4 * step);
  assert_int_equal(a.n, 3);
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

static struct steptime_profile profile_of(const char *name) {
  struct steptime_profile p;
  struct err err;
  check_ok(steptime_get(name, &p, &err), &err);
  return p;
}

/* A load is no step: the replica sleeps until it is complete, or until somebody else comes. */
static void test_a_load_wakes_the_replica(void **state) {
  (void)state;
  struct steptime_profile p = profile_of("llama-3.1-8b");
  p.offload.tokens = 100000;
  struct engine_config e = steptime_engine_config(&p);
  struct err err;
  struct replica *r = replica_new(&e, &p, METERS_VLLM, 0, &err);
  struct job a, b, c;
  uint64_t due, now;
  add(r, &a, 1000, 1, 0, 0); /* three chunks of 256 */
  now = run(r, 0);
  assert_true(replica_reset_cache(r, false));
  add(r, &b, 1000, 1, 0, now);
  assert_false(replica_begin(r, now, &due));
  /* 768 tokens of 131,072 bytes at 20 GB/s, and 1 us */
  uint64_t ready = now + 5033165 + 1000;
  assert_int_equal(replica_wake_ns(r), ready);
  check_near(metric(r, "vllm:num_requests_waiting" M), 1, 0);
  check_near(metric(r, "vllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"m\",reason="
                       "\"deferred\"} "),
             1, 0);
  add(r, &c, 10, 1, 5000, now); /* who is behind runs meanwhile */
  assert_true(replica_begin(r, now, &due));
  assert_int_equal(replica_wake_ns(r), 0);
  replica_end(r, due);
  assert_true(c.last);
  assert_false(replica_begin(r, due, &due));
  assert_int_equal(replica_wake_ns(r), ready);
  assert_true(replica_begin(r, ready, &due));
  replica_end(r, due);
  assert_true(b.last);
  assert_int_equal(due, ready + steptime_step_ns(&p, 232, 0, 0));
  check_near(metric(r, "vllm:external_prefix_cache_hits_total" M), 768, 0);
  check_near(metric(r, "vllm:prompt_tokens_by_source_total{engine=\"0\",model_name=\"m\",source="
                       "\"external_kv_transfer\"} "),
             768, 0);
  assert_int_equal(replica_wake_ns(r), 0);
  replica_delete(r);
}

static void test_a_released_hold_lets_others_in(void **state) {
  (void)state;
  struct replica *r = make("tiny", 8);
  struct job a, b;
  uint64_t due;
  add(r, &a, 100, 1, 0, 0);
  a.seq.engine.hold = true;
  run(r, 0);
  add(r, &b, 100, 1, 500, 0);
  assert_false(replica_begin(r, 10, &due));
  assert_int_equal(replica_wake_ns(r), 0);
  assert_true(replica_release_hold(r, a.seq.engine.hold_id));
  assert_false(replica_release_hold(r, a.seq.engine.hold_id));
  assert_true(replica_begin(r, 20, &due));
  replica_end(r, due);
  assert_true(b.last);
  replica_delete(r);
}

/* What facts §8.3 asks of every profile: at idle TTFT(cold) − TTFT(warm) = uncached tokens ÷ rate,
 * within 5 %; a prompt of several steps too. */
static void test_what_a_hit_saves(void **state) {
  (void)state;
  static const char *const names[] = {"llama-3.1-8b", "qwen3-32b", "gpt-oss-20b"};
  static const uint32_t prompts[] = {2000, 6653, 9999};
  for (size_t i = 0; i < ARRAY_LEN(names); i++)
    for (size_t k = 0; k < ARRAY_LEN(prompts); k++) {
      struct steptime_profile p = profile_of(names[i]);
      struct replica *r = make(names[i], 2000);
      struct job cold, warm;
      add(r, &cold, prompts[k], 1, 0, 0);
      uint64_t now = run(r, 0);
      add(r, &warm, prompts[k], 1, 0, now);
      run(r, now);
      double saved = (double)cold.seq.first_ns - (double)(warm.seq.first_ns - now);
      double cached = (double)warm.seq.engine.num_cached;
      assert_int_equal(warm.seq.engine.num_cached, (prompts[k] - 1) / 16 * 16);
      check_near(saved / 1e9, cached / p.prefill_tokens_per_s,
                 0.05 * cached / p.prefill_tokens_per_s);
      replica_delete(r);
    }
}

/* Turn k hits min(floor((n_k − 1) / B) · B, floor((n_{k−1} + output − 1) / B) · B). */
static void test_hits_of_a_linear_session(void **state) {
  (void)state;
  struct replica *r = make("llama-3.1-8b", 600);
  struct job j;
  uint64_t now = 0;
  uint32_t before = 0, n = 37, outputs = 29;
  uint32_t text[4000];
  for (uint32_t i = 0; i < ARRAY_LEN(text); i++)
    text[i] = i;
  for (int turn = 0; turn < 12; turn++) {
    add(r, &j, n, outputs, 0, now);
    memcpy(j.tokens, text, n * sizeof *text);
    now = run(r, now);
    uint32_t by_prompt = (n - 1) / 16 * 16, by_turn = turn ? (before + outputs - 1) / 16 * 16 : 0;
    assert_int_equal(j.seq.engine.num_cached, by_prompt < by_turn ? by_prompt : by_turn);
    memcpy(text, j.tokens, (n + outputs) * sizeof *text);
    before = n;
    n += outputs + 11 * (uint32_t)(turn % 3);
    n += n == before + outputs; /* at least one new token */
  }
  replica_delete(r);
}

/* Saturated decoding: tokens a second = batch ÷ step. */
static void test_saturated_decoding(void **state) {
  (void)state;
  enum { BATCH = 32 };
  struct steptime_profile p = profile_of("qwen3-32b");
  struct replica *r = make("qwen3-32b", 4000);
  static struct job jobs[BATCH];
  for (uint32_t i = 0; i < BATCH; i++)
    add(r, &jobs[i], 100, 50, 1000 * i, 0);
  run(r, 0);
  double seconds = (double)(jobs[0].at[49] - jobs[0].at[9]) / 1e9, tokens = 40 * BATCH;
  double step = (double)steptime_step_ns(&p, 0, BATCH, BATCH * 130) / 1e9;
  check_near(tokens / seconds, BATCH / step, 0.01 * BATCH / step);
  replica_delete(r);
}

static void test_bad_configuration(void **state) {
  (void)state;
  struct err err = {0};
  struct steptime_profile p;
  check_ok(steptime_get("tiny", &p, &err), &err);
  struct engine_config e = steptime_engine_config(&p);
  e.num_blocks = 2;
  assert_null(replica_new(&e, &p, METERS_VLLM, 0, &err));
  assert_int_equal(err.code, ERR_INVALID);
  check_has(err.text, "max_model_len");
}

/* ---- KV events ---- */

struct follower {
  char log[400]; /* S3 R2 C: events; P: published; T: a token */
  uint64_t at;
  size_t n_told;
};

static void note(struct follower *f, const char *what, uint32_t n) {
  size_t len = strlen(f->log);
  snprintf(f->log + len, sizeof f->log - len, n ? "%s%u " : "%s ", what, n);
}

static void on_events(void *user, const struct engine_event *events, size_t n) {
  struct follower *f = user;
  static const char *const words[] = {"S", "R", "C"};
  for (size_t i = 0; i < n; i++) {
    if (events[i].kind == ENGINE_STORED) /* pointers are alive */
      assert_int_equal(events[i].req->tokens[0], events[i].req->tokens[1] - 1);
    note(f, words[events[i].kind], events[i].n);
  }
  f->n_told++;
}

static void on_publish(void *user, uint64_t now_ns) {
  struct follower *f = user;
  note(f, "P", 0);
  f->at = now_ns;
}

static struct follower *follower_of;
static void token_noted(struct replica_seq *seq, bool last, uint64_t now_ns) {
  note(follower_of, "T", 0);
  on_token(seq, last, now_ns);
}

/* One publication a step, when it ends and before its tokens; a reset's goes with the next step. */
static void test_events_are_published_at_the_end(void **state) {
  (void)state;
  struct replica *r = make("llama-3.1-8b", 4);
  struct follower f = {.log = ""};
  struct job a, b;
  uint64_t due;
  follower_of = &f;
  replica_listen(r, (struct replica_listener){on_events, on_publish, &f});
  assert_true(replica_reset_cache(r, false));
  assert_false(replica_begin(r, 5, &due)); /* idle: nothing is published */
  assert_string_equal(f.log, "");
  add(r, &a, 40, 12, 0, 10);
  a.seq.on_token = token_noted;
  assert_true(replica_begin(r, 10, &due));
  assert_string_equal(f.log, "C S2 ");
  assert_int_equal(f.n_told, 1);
  replica_end(r, due);
  assert_string_equal(f.log, "C S2 P T ");
  assert_int_equal(f.at, due);
  f.log[0] = '\0';
  uint64_t now = run(r, due); /* its third block becomes full with the eighth token */
  assert_string_equal(f.log, "T T T T T T T S1 P T T T T ");
  f.log[0] = '\0';
  add(r, &b, 60, 1, 500, now);
  assert_true(replica_begin(r, now, &due));
  assert_string_equal(f.log, "R1 R1 R1 S3 ");
  replica_abort(r, &b.seq); /* what is pending names nothing of it */
  replica_end(r, due);
  assert_string_equal(f.log, "R1 R1 R1 S3 P ");
  replica_delete(r);
}

/* A step that schedules nothing is published at once. */
static void test_events_without_a_step(void **state) {
  (void)state;
  struct err err = {0};
  struct steptime_profile p;
  check_ok(steptime_get("llama-3.1-8b", &p, &err), &err);
  struct engine_config c = steptime_engine_config(&p);
  c.num_blocks = 101;
  c.max_model_len = 1600;
  c.tiers = (struct engine_tiers){.chunk_tokens = 256,
                                  .kv_bytes_per_token = 1000,
                                  .offload_chunks = 10,
                                  .links = {[ENGINE_OFFLOAD] = {.latency_ns = 1000000}}};
  struct replica *r = replica_new(&c, &p, METERS_VLLM, 0, &err);
  struct follower f = {.log = ""};
  struct job a, b;
  uint64_t due;
  replica_listen(r, (struct replica_listener){on_events, on_publish, &f});
  add(r, &a, 600, 1, 0, 10);
  uint64_t now = run(r, 10);
  assert_string_equal(f.log, "S37 S1 S1 P "); /* blocks, then two chunks */
  assert_true(replica_reset_cache(r, false));
  f.log[0] = '\0';
  add(r, &b, 600, 1, 0, now);
  assert_false(replica_begin(r, now, &due)); /* it waits for CPU memory */
  assert_string_equal(f.log, "C P ");
  assert_int_equal(f.at, now);
  now = replica_wake_ns(r);
  assert_true(replica_begin(r, now, &due));
  assert_string_equal(f.log, "C P S32 S5 ");
  replica_end(r, due);
  assert_string_equal(f.log, "C P S32 S5 P ");
  replica_delete(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_times_of_a_request),
      cmocka_unit_test(test_events_are_published_at_the_end),
      cmocka_unit_test(test_events_without_a_step),
      cmocka_unit_test(test_steps_scheduled_ahead),
      cmocka_unit_test(test_one_token_of_a_long_prompt),
      cmocka_unit_test(test_time_per_token_of_tgi),
      cmocka_unit_test(test_requests_share_steps),
      cmocka_unit_test(test_quiet_requests),
      cmocka_unit_test(test_lateness_does_not_add_up),
      cmocka_unit_test(test_gauges_are_those_of_the_last_step),
      cmocka_unit_test(test_abort_waiting_running_and_in_a_step),
      cmocka_unit_test(test_abort_of_another_from_on_token),
      cmocka_unit_test(test_last_token_of_an_aborted_step),
      cmocka_unit_test(test_preemption),
      cmocka_unit_test(test_cache_and_reset),
      cmocka_unit_test(test_a_load_wakes_the_replica),
      cmocka_unit_test(test_a_released_hold_lets_others_in),
      cmocka_unit_test(test_what_a_hit_saves),
      cmocka_unit_test(test_hits_of_a_linear_session),
      cmocka_unit_test(test_saturated_decoding),
      cmocka_unit_test(test_bad_configuration),
  };
  return cmocka_run_group_tests_name("replica", tests, NULL, NULL);
}
