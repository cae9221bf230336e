/* Asynchronous scheduling: what differs from a step at a time (facts §8.2b.12). That nothing else
 * does is walked through in test_engine.c. */
#include "engine_requests.h"

static struct engine *make(uint32_t max_num_seqs) {
  struct engine_config c = CONFIG_SMALL;
  c.async_scheduling = true;
  c.max_num_seqs = max_num_seqs;
  return test_engine(c);
}

static void ahead(struct engine *e, struct engine_step *s, size_t scheduled) {
  engine_step_ahead(e, 0, s);
  assert_int_equal(s->n_scheduled, scheduled);
  assert_int_equal(s->n_sampled + s->n_finished, 0);
}

static void done(struct engine *e, struct engine_step *s, size_t sampled, size_t finished) {
  engine_step_done(e, s);
  assert_int_equal(s->n_sampled, sampled);
  assert_int_equal(s->n_finished, finished);
  assert_int_equal(s->n_scheduled + s->n_admitted + s->prefill_tokens + s->decode_tokens, 0);
}

/* The block that the first sampled token completes, in three ways: it is there when the step that
 * computes it is done, not when that step is placed. */
static void a_block_is_registered_when_its_token_is_known(void **state) {
  (void)state;
  struct engine *e = make(4);
  struct test_request a;
  struct engine_step s;
  test_add(e, test_request(&a, 100, 7, 4)); /* blocks of 4 */
  ahead(e, &s, 1);
  assert_int_equal(s.n_events, 1); /* the prompt's only whole block, at placement */
  assert_int_equal(s.prefill_tokens, 7);
  assert_int_equal(a.req.num_computed, 7);
  assert_int_equal(a.req.num_pending, 1);
  ahead(e, &s, 1); /* computes the eighth token, which nobody knows yet */
  assert_int_equal(s.decode_tokens, 1);
  assert_int_equal(s.decode_context, 7);
  assert_int_equal(s.n_events, 0);
  assert_int_equal(engine_steps_under_way(e), 2);
  assert_int_equal(a.req.num_pending, 2);
  assert_int_equal(a.req.num_tokens, 7);
  done(e, &s, 1, 0);
  assert_int_equal(s.n_events, 0);
  assert_int_equal(a.req.num_tokens, 8);
  assert_int_equal(a.tokens[7], 9000);
  ahead(e, &s, 1); /* the ninth: now the second block is known */
  assert_int_equal(s.n_events, 1);
  assert_int_equal(s.events[0].kind, ENGINE_STORED);
  assert_int_equal(s.events[0].first_block, 1);
  done(e, &s, 1, 0);
  ahead(e, &s,
        1); /* the fourth token of four is under way: nothing of it is scheduled after that */
  done(e, &s, 1, 0);
  ahead(e, &s, 0);
  assert_int_equal(engine_steps_under_way(e), 1);
  assert_int_equal(engine_running(e), 1);
  done(e, &s, 1, 1);
  assert_ptr_equal(s.finished[0], &a.req);
  assert_int_equal(a.req.num_computed, 10); /* the last sampled token has no KV */
  assert_false(engine_has_work(e));
  assert_int_equal(engine_free_blocks(e), 12);
  engine_delete(e);
}

/* The last block of a request that ends: registered before it is released. */
static void the_last_block_can_be_hit(void **state) {
  (void)state;
  struct engine *e = make(4);
  struct test_request a;
  struct engine_step s;
  test_add(e, test_request(&a, 100, 7, 2));
  ahead(e, &s, 1);
  ahead(e, &s, 1);
  done(e, &s, 1, 0);
  assert_int_equal(engine_peek(e, a.tokens, 9, NULL, NULL), 4);
  ahead(e, &s, 0);
  done(e, &s, 1, 1);
  assert_int_equal(s.n_events, 1);
  assert_int_equal(s.events[0].first_block, 1);
  assert_int_equal(engine_peek(e, a.tokens, 9, NULL, NULL), 8);
  engine_delete(e);
}

/* Who ends keeps its place until that is known: the next one comes a step later. */
static void a_place_is_free_a_step_later(void **state) {
  (void)state;
  struct engine *e = make(1);
  struct test_request a, b;
  struct engine_step s;
  test_add(e, test_request(&a, 100, 5, 1));
  test_add(e, test_request(&b, 200, 5, 1));
  ahead(e, &s, 1);
  ahead(e, &s, 0); /* a is still in its place */
  assert_int_equal(engine_free_blocks(e), 10);
  done(e, &s, 1, 1);
  assert_int_equal(engine_free_blocks(e), 12);
  ahead(e, &s, 1);
  assert_ptr_equal(s.scheduled[0].req, &b.req);
  done(e, &s, 1, 1);
  engine_delete(e);
}

/* A reset that preempts drops what is under way; an abort does, too. */
static void what_is_under_way_can_be_dropped(void **state) {
  (void)state;
  struct engine *e = make(4);
  struct test_request a, b;
  struct engine_step s;
  test_add(e, test_request(&a, 100, 7, 3));
  test_add(e, test_request(&b, 200, 7, 3));
  ahead(e, &s, 2);
  ahead(e, &s, 2);
  assert_true(engine_abort(e, &b.req));
  assert_true(engine_reset_cache(e, true));
  assert_int_equal(a.req.num_pending, 0);
  done(e, &s, 0, 0);
  assert_int_equal(s.n_preempted, 1);
  ahead(e, &s, 1); /* from the beginning, with the other step still under way */
  assert_int_equal(s.prefill_tokens, 7);
  done(e, &s, 0, 0);
  assert_int_equal(a.req.num_output, 0);
  done(e, &s, 1, 0);
  assert_int_equal(a.tokens[7], 9000);
  assert_int_equal(b.req.num_output, 0);
  engine_delete(e);
}

/* A request that is preempted while its token is under way gets it, and ends with it if it was the
 * last: out of the queue. */
static void a_victim_still_gets_its_token(void **state) {
  (void)state;
  for (uint32_t outputs = 1; outputs <= 2; outputs++) {
    struct engine_config c = CONFIG_SMALL;
    c.async_scheduling = true;
    c.num_blocks = 5; /* 4 usable */
    c.max_model_len = 16;
    struct engine *e = test_engine(c);
    struct test_request a, b;
    struct engine_step s;
    test_add(e, test_request(&a, 100, 8, 5));
    test_add(e, test_request(&b, 200, 8, outputs));
    ahead(e, &s, 2);
    ahead(e, &s, 1); /* a needs a third block */
    assert_int_equal(s.n_preempted, 1);
    assert_ptr_equal(s.preempted[0], &b.req);
    assert_int_equal(engine_waiting(e), 1);
    done(e, &s, 2, outputs == 1);
    assert_int_equal(b.req.num_output, 1);
    assert_int_equal(engine_waiting(e), outputs - 1);
    assert_int_equal(b.req.finish, outputs == 1 ? ENGINE_LENGTH : ENGINE_RUNNING);
    while (engine_has_work(e)) {
      if (engine_steps_under_way(e) < 2)
        engine_step_ahead(e, 0, &s);
      engine_step_done(e, &s);
    }
    assert_int_equal(b.req.num_output, outputs);
    assert_int_equal(a.req.num_output, 5);
    engine_delete(e);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_is_registered_when_its_token_is_known),
      cmocka_unit_test(the_last_block_can_be_hit),
      cmocka_unit_test(a_place_is_free_a_step_later),
      cmocka_unit_test(what_is_under_way_can_be_dropped),
      cmocka_unit_test(a_victim_still_gets_its_token),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
