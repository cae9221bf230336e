/* The scheduler through its public face: configuration and admission (engine_new.c), step counts,
 * preemption, abort, reset, totals. The fine print of order is tested by the golden traces
 * (test_engine_replay.c). */
#include "engine_requests.h"

#include <stdlib.h>

#include "engine_walk.h"
#include "kv/engine_impl.h"

static void check_refused(struct engine_config c, const char *text) {
  struct err err;
  struct engine *e = engine_new(&c, &err);
  assert_null(e);
  assert_int_equal(err.code, ERR_INVALID);
  check_has(err.text, text);
}

static void configurations_that_cannot_work(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  c.num_blocks = 1;
  check_refused(c, "num_blocks is 1: give 2 to 67108864");
  c.num_blocks = POOL_MAX_BLOCKS + 1;
  check_refused(c, "num_blocks is 67108865");
  c = CONFIG_SMALL;
  c.block_size = 0;
  check_refused(c, "block_size is 0");
  c = CONFIG_SMALL;
  c.max_num_seqs = 0;
  check_refused(c, "max_num_seqs is 0");
  c = CONFIG_SMALL;
  c.max_num_batched_tokens = 3;
  check_refused(c, "max_num_batched_tokens is 3, less than max_num_seqs (4)");
  c = CONFIG_SMALL;
  c.max_model_len = 1;
  check_refused(c, "max_model_len is 1");
  c = CONFIG_SMALL;
  c.max_model_len = 49; /* 12 usable blocks hold 48 */
  check_refused(c, "max_model_len is 49, but num_blocks 13 of block_size 4 hold 48 tokens");
  c.max_model_len = 48;
  engine_delete(test_engine(c));
  engine_delete(NULL);
}

static void requests_that_cannot_work(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request t;
  struct err err;
  assert_int_equal(engine_add(e, test_request(&t, 1, 0, 1), &err), ERR_INVALID);
  check_has(err.text, "the prompt is empty");
  assert_int_equal(engine_add(e, test_request(&t, 1, 4, 0), &err), ERR_INVALID);
  check_has(err.text, "max_output is 0");
  assert_int_equal(engine_add(e, test_request(&t, 1, 40, 1), &err), ERR_LIMIT);
  check_has(err.text, "the prompt has 40 tokens; with max_model_len 40 it can have 39");
  assert_false(engine_has_work(e));
  test_add(e, test_request(&t, 1, 39, UINT32_MAX)); /* the sum must not wrap */
  assert_true(engine_has_work(e));
  struct engine_step s;
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_finished, 1); /* the first sampled token reaches max_model_len */
  assert_int_equal(t.req.num_tokens, 40);
  assert_int_equal(t.req.num_output, 1);
  assert_int_equal(t.req.finish, ENGINE_LENGTH);
  engine_delete(e);
}

static void idle_step_does_nothing(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct engine_step s;
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_scheduled + s.n_admitted + s.n_preempted + s.n_sampled + s.n_finished, 0);
  assert_int_equal(s.n_events + s.prefill_tokens + s.decode_tokens + s.decode_context, 0);
  assert_int_equal(engine_free_blocks(e), 12);
  check_near(engine_usage(e), 0.0, 0.0);
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.steps, 1);
  engine_delete(e);
}

/* One request of 6 tokens beside one of 9 with a budget of 10: what each step says it did. */
static void a_request_step_by_step(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  c.max_num_batched_tokens = 10;
  struct engine *e = test_engine(c);
  struct test_request a, b;
  int sampled = 0;
  test_add(e, test_request(&a, 100, 6, 3));
  test_add(e, test_request(&b, 200, 9, 1));
  a.req.user = &sampled;
  assert_int_equal(a.req.num_cached, -1);
  assert_int_equal(engine_waiting(e), 2);

  struct engine_step s;
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_scheduled, 2);
  assert_ptr_equal(s.scheduled[0].req, &a.req);
  assert_int_equal(s.scheduled[0].tokens, 6);
  assert_int_equal(s.scheduled[1].tokens, 4);
  assert_int_equal(s.n_admitted, 2);
  assert_int_equal(s.admitted[1].cached, 0);
  assert_int_equal(s.n_sampled, 1);
  assert_ptr_equal(s.sampled[0], &a.req);
  assert_int_equal(sampled, 1);
  assert_int_equal(a.tokens[6], 9000);
  assert_int_equal(a.req.num_cached, 0);
  assert_int_equal(s.prefill_tokens, 10);
  assert_int_equal(s.decode_tokens, 0);
  assert_int_equal(engine_running(e), 2);
  assert_int_equal(engine_free_blocks(e), 12 - 2 - 1);
  check_near(engine_usage(e), 0.25, 1e-15);

  engine_step_run(e, 0, &s); /* a decodes, b finishes its prompt and with it itself */
  assert_int_equal(s.scheduled[0].tokens, 1);
  assert_int_equal(s.scheduled[1].tokens, 5);
  assert_int_equal(s.prefill_tokens, 5);
  assert_int_equal(s.decode_tokens, 1);
  assert_int_equal(s.decode_context, 6);
  assert_int_equal(s.n_admitted, 0);
  assert_int_equal(s.n_finished, 1);
  assert_ptr_equal(s.finished[0], &b.req);
  assert_null(b.req.blocks);

  engine_step_run(e, 0, &s);
  assert_int_equal(s.decode_context, 7);
  assert_int_equal(s.n_finished, 1);
  assert_false(engine_has_work(e));
  assert_int_equal(a.req.num_output, 3);
  assert_int_equal(a.req.num_computed, 8); /* the last sampled token has no KV */

  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.scheduled_tokens, 10 + 6 + 1);
  assert_int_equal(t.generated_tokens, 4);
  assert_int_equal(t.finished, 2);
  assert_int_equal(t.steps, 3);
  assert_int_equal(t.stored, 1 + 1 + 1 + 1); /* a0, b0 · b1 · a1 */
  assert_int_equal(t.prefix_queries, 15);
  engine_delete(e);
}

static void events_say_what_and_where(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  c.num_blocks = 4;
  c.max_model_len = 12;
  struct engine *e = test_engine(c);
  struct test_request a, b;
  struct engine_step s;
  test_add(e, test_request(&a, 100, 11, 1));
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_events, 1);
  assert_int_equal(s.events[0].kind, ENGINE_STORED);
  assert_int_equal(s.events[0].n, 2);
  assert_false(s.events[0].has_parent);
  assert_ptr_equal(s.events[0].req, &a.req);
  assert_int_equal(s.events[0].first_block, 0);
  uint64_t name[2] = {s.events[0].hashes[0], s.events[0].hashes[1]};
  assert_true(name[0] != name[1]);

  test_add(e, test_request(&b, 100, 8, 2)); /* hits block 0, recomputes block 1 */
  engine_step_run(e, 0, &s);
  assert_int_equal(s.admitted[0].cached, 4);
  /* The one new block is the nameless tail of a: nothing was lost. */
  assert_int_equal(s.n_events, 1);
  assert_true(s.events[0].has_parent);
  assert_int_equal(s.events[0].parent, name[0]);
  assert_int_equal(s.events[0].n, 1);
  assert_int_equal(s.events[0].hashes[0], name[1]);
  assert_int_equal(s.events[0].first_block, 1);

  engine_step_run(e, 0, &s); /* decode needs a block: the old copy of block 1 goes */
  assert_int_equal(s.n_events, 1);
  assert_int_equal(s.events[0].kind, ENGINE_REMOVED);
  assert_int_equal(s.events[0].n, 1);
  assert_int_equal(s.events[0].hashes[0], name[1]);
  assert_int_equal(engine_peek(e, b.tokens, 9, NULL, NULL), 8); /* the other copy is still there */
  engine_delete(e);
}

static void preemption_and_readmission(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  c.num_blocks = 5; /* 4 usable */
  c.max_model_len = 16;
  struct engine *e = test_engine(c);
  struct test_request a, b;
  struct engine_step s;
  test_add(e, test_request(&a, 100, 8, 5));
  test_add(e, test_request(&b, 200, 8, 5));
  engine_step_run(e, 0, &s);
  assert_int_equal(engine_free_blocks(e), 0);
  engine_step_run(e, 0, &s); /* a needs a third block: b goes */
  assert_int_equal(s.n_preempted, 1);
  assert_ptr_equal(s.preempted[0], &b.req);
  assert_int_equal(b.req.num_preemptions, 1);
  assert_int_equal(b.req.num_computed, 0);
  assert_int_equal(b.req.num_output, 1); /* what was sampled is kept */
  assert_int_equal(engine_waiting(e), 1);
  assert_int_equal(s.n_scheduled, 1);
  while (engine_running(e))
    engine_step_run(e, 0, &s);
  assert_int_equal(s.n_finished, 1);
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_admitted, 1);
  assert_int_equal(s.admitted[0].cached, 4); /* its second block was taken by a */
  assert_int_equal(b.req.num_cached, 0);     /* that of the first admission stands */
  assert_int_equal(s.prefill_tokens, 5);
  assert_int_equal(s.decode_tokens, 0);
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.preemptions, 1);
  assert_int_equal(t.prefix_queries, 16);
  assert_int_equal(t.prefix_hits, 0);
  assert_int_equal(t.preempted_queries, 9);
  assert_int_equal(t.preempted_hits, 4);
  engine_delete(e);
}

static void abort_wherever_it_is(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  c.max_num_seqs = 2;
  struct engine *e = test_engine(c);
  struct test_request r[4];
  struct engine_step s;
  for (uint32_t i = 0; i < 4; i++)
    test_add(e, test_request(&r[i], 100 * (i + 1), 8, i == 1 ? 1 : 5));
  engine_step_run(e, 0, &s);
  assert_int_equal(engine_running(e), 1); /* the second has finished */
  assert_false(engine_abort(e, &r[1].req));
  assert_int_equal(r[1].req.finish, ENGINE_LENGTH);
  assert_true(engine_abort(e, &r[2].req)); /* waiting, the head */
  assert_true(engine_abort(e, &r[0].req)); /* running */
  assert_false(engine_abort(e, &r[0].req));
  assert_int_equal(r[0].req.finish, ENGINE_ABORT);
  assert_int_equal(engine_running(e), 0);
  assert_int_equal(engine_waiting(e), 1);
  assert_int_equal(engine_free_blocks(e), 12);
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_scheduled, 1);
  assert_ptr_equal(s.scheduled[0].req, &r[3].req);
  assert_true(engine_abort(e, &r[3].req));
  assert_false(engine_has_work(e));
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.aborted, 3);
  assert_int_equal(t.finished, 1);
  engine_delete(e);
}

static void reset_both_ways(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a, b;
  struct engine_step s;
  assert_true(engine_reset_cache(e, false)); /* an empty cache too */
  test_add(e, test_request(&a, 100, 8, 5));
  test_add(e, test_request(&b, 200, 8, 5));
  engine_step_run(e, 0, &s);
  assert_int_equal(s.events[0].kind, ENGINE_CLEARED);
  assert_int_equal(s.n_events, 3);

  assert_false(engine_reset_cache(e, false));
  assert_int_equal(engine_peek(e, a.tokens, 9, NULL, NULL), 8);
  assert_true(engine_reset_cache(e, true));
  assert_true(engine_reset_cache(e, true)); /* once more in the same step: counted once */
  assert_int_equal(engine_peek(e, a.tokens, 9, NULL, NULL), 0);
  assert_int_equal(engine_waiting(e), 2);
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_preempted, 2); /* the last first */
  assert_ptr_equal(s.preempted[0], &b.req);
  assert_ptr_equal(s.preempted[1], &a.req);
  assert_int_equal(s.events[0].kind, ENGINE_CLEARED);
  assert_int_equal(s.events[1].kind, ENGINE_CLEARED);
  assert_int_equal(s.n_admitted, 2); /* in the same step, in their old order */
  assert_ptr_equal(s.admitted[0].req, &a.req);
  assert_int_equal(s.admitted[0].cached, 0);
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_preempted, 0);
  assert_int_equal(s.n_events, 0);
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.cleared, 2);
  engine_delete(e);
}

/* Once the load has been seen, further requests of that size take no new memory. */
static void steady_state_allocates_nothing(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct engine_step s;
  static struct test_request r[8];
  size_t n_blocks = 0, caps = 0;
  for (uint32_t round = 0; round < 50; round++) {
    for (uint32_t i = 0; i < 8; i++)
      test_add(e, test_request(&r[i], 1000 * round + 10 * i, 16, 12));
    while (engine_has_work(e))
      engine_step_run(e, 0, &s);
    size_t now = e->cap_scheduled + e->cap_admitted + e->cap_preempted + e->cap_sampled +
                 e->cap_finished + e->cap_events + e->cap_blocks;
    if (round >= 2) {
      assert_int_equal(now, caps);
      assert_int_equal(e->n_blocks, n_blocks);
    }
    caps = now;
    n_blocks = e->n_blocks;
  }
  assert_int_equal(n_blocks, 8);
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_true(t.preemptions > 0);
  assert_int_equal(t.generated_tokens, 50 * 8 * 12);
  engine_delete(e);
}

/* Deleting an engine with requests in it touches none of them: their memory may be gone. */
static void delete_with_requests_inside(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
  struct engine_step s;
  test_add(e, test_request(a, 1, 8, 4));
  engine_step_run(e, 0, &s);
  test_add(e, test_request(b, 1, 8, 4));
  free(a);
  free(b);
  engine_delete(e);
}

/* Random operations against the slow model, step by step. ENGINE_STEPS and ENGINE_SEED (the first
 * seed) change what is walked; a failure names its seed. */
/* A walk that never comes to a rule proves nothing of it. */
static void check_seen(const struct m_seen *seen, bool tiers, bool async, bool chosen) {
  const struct {
    const char *what;
    uint64_t times;
    bool needs_tiers, needs_async;
  } all[] = {{"preemptions", seen->preempted, false, false},
             {"preemptions in mid-prefill", seen->mid_prefill, false, false},
             {"hits after a preemption", seen->hit_after_preemption, false, false},
             {"resets", seen->resets, false, false},
             {"refused resets", seen->refused_resets, false, false},
             {"aborts", seen->aborts, false, false},
             {"second copies", seen->copies, false, false},
             {"hits behind a salt", seen->salt_hits, false, false},
             {"hits of an adapter", seen->adapter_hits, false, false},
             {"skipped lookups", seen->skipped, false, false},
             {"refusals by the gate alone", seen->gated, false, false},
             {"ends at max_model_len", seen->ended_by_length, false, false},
             {"fills", seen->fills, false, false},
             {"evictions by fills", seen->fill_evictions, false, false},
             {"fills that were held", seen->held_fills, false, false},
             {"releases of holds", seen->releases, false, false},
             {"transfers", seen->loads[ENGINE_TRANSFER], false, false},
             {"loads from CPU memory", seen->loads[ENGINE_OFFLOAD], true, false},
             {"loads from storage", seen->loads[ENGINE_SHARED], true, false},
             {"standstills", seen->standstills, true, false},
             {"blocks registered when a token came", seen->blocks_on_arrival, false, true},
             {"ends after a preemption", seen->ended_while_waiting, false, true}};
  for (size_t i = 0; i < ARRAY_LEN(all); i++) {
    print_message("  %s: %llu\n", all[i].what, (unsigned long long)all[i].times);
    if (!chosen && (tiers || !all[i].needs_tiers) && (async || !all[i].needs_async))
      assert_true(all[i].times >= 20);
  }
}

static void walk_many(bool tiers, bool async) {
  const char *steps = getenv("ENGINE_STEPS"), *first = getenv("ENGINE_SEED");
  uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
  uint64_t end = seed + (steps ? strtoull(steps, NULL, 10) : 200000) / W_STEPS / 2;
  struct walk *w = malloc(sizeof *w);
  struct m_seen seen = {0};
  print_message("seeds %llu to %llu\n", (unsigned long long)seed, (unsigned long long)end);
  for (; seed < end; seed++)
    walk_once(w, seed, tiers, async, &seen);
  free(w);
  check_seen(&seen, tiers, async, steps);
}

static void agrees_with_the_model(void **state) {
  (void)state;
  walk_many(false, false);
}

static void agrees_with_the_model_with_tiers(void **state) {
  (void)state;
  walk_many(true, false);
}

static void agrees_with_the_model_asynchronously(void **state) {
  (void)state;
  walk_many(false, true);
  walk_many(true, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(configurations_that_cannot_work),
      cmocka_unit_test(requests_that_cannot_work),
      cmocka_unit_test(idle_step_does_nothing),
      cmocka_unit_test(a_request_step_by_step),
      cmocka_unit_test(events_say_what_and_where),
      cmocka_unit_test(preemption_and_readmission),
      cmocka_unit_test(abort_wherever_it_is),
      cmocka_unit_test(reset_both_ways),
      cmocka_unit_test(steady_state_allocates_nothing),
      cmocka_unit_test(delete_with_requests_inside),
      cmocka_unit_test(agrees_with_the_model),
      cmocka_unit_test(agrees_with_the_model_with_tiers),
      cmocka_unit_test(agrees_with_the_model_asynchronously),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
