/* Memory pressure: foreign content in the pool. */
#include "engine_requests.h"

#include "kv/engine_impl.h"

/* Runs one of n tokens from `first` to its end. */
static void run_whole(struct engine *e, struct test_request *t, uint32_t first, uint32_t n) {
  struct engine_step s;
  test_add(e, test_request(t, first, n, 1));
  while (t->req.finish == ENGINE_RUNNING)
    engine_step_run(e, 1, &s);
}

static uint32_t peek(const struct engine *e, uint32_t first, uint32_t n) {
  struct test_request t;
  test_request(&t, first, n, 1);
  return engine_peek(e, t.tokens, n, NULL, NULL);
}

static void it_evicts_what_was_used_longest_ago_with_its_events(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL); /* 12 blocks of 4 */
  struct test_request a, b, c;
  struct engine_step s;
  run_whole(e, &a, 100, 17); /* 4 full blocks, and one that is not */
  run_whole(e, &b, 200, 17);
  assert_int_equal(peek(e, 100, 17), 16);
  /* In front of the queue: the 4 blocks that were never full or never used, then a's, tail first.
   */
  assert_int_equal(engine_fill(e, 6, NULL), 6);
  assert_int_equal(peek(e, 100, 17), 8);
  assert_int_equal(peek(e, 200, 17), 16);
  assert_int_equal(engine_free_blocks(e), 12);

  test_add(e, test_request(&c, 300, 3, 1));
  engine_step_run(e, 2, &s);
  assert_int_equal(s.n_events, 4); /* two removed, one stored, and c takes a's next one */
  assert_int_equal(s.events[0].kind, ENGINE_REMOVED);
  assert_int_equal(s.events[1].kind, ENGINE_REMOVED);
  assert_int_equal(s.events[2].kind, ENGINE_STORED);
  assert_int_equal(s.events[2].n, 6);
  assert_int_equal(s.events[2].req->num_tokens, 24);
  assert_false(s.events[2].has_parent);
  assert_int_equal(s.events[3].kind, ENGINE_REMOVED);
  engine_delete(e);
}

static void the_new_content_is_the_last_to_go(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a, b;
  struct engine_totals t;
  run_whole(e, &a, 100, 17);
  assert_int_equal(engine_fill(e, 8, NULL), 8); /* what a left free: nothing of its goes */
  assert_int_equal(peek(e, 100, 17), 16);
  run_whole(e, &b, 200, 17);
  assert_int_equal(peek(e, 100, 17), 0); /* older than the foreign content */
  engine_get_totals(e, &t);
  assert_int_equal(t.removed, 5);
  assert_int_equal(t.stored, 4 + 8 + 4);
  engine_delete(e);
}

static void two_fills_are_different_content(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  assert_int_equal(engine_fill(e, 3, NULL), 3);
  assert_int_equal(engine_fill(e, 3, NULL), 3);
  assert_int_equal(e->pool.num_names, 6);
  engine_delete(e);
}

static void held_blocks_stay_in_use(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a;
  struct engine_step s;
  uint64_t hold = 0;
  assert_int_equal(engine_fill(e, 50, &hold), 12); /* no more than there are */
  assert_true(hold > 0);
  assert_int_equal(engine_free_blocks(e), 0);
  assert_int_equal(engine_fill(e, 1, NULL), 0);
  assert_false(engine_reset_cache(e, true));
  test_add(e, test_request(&a, 100, 9, 1));
  engine_step_run(e, 1, &s);
  assert_int_equal(s.n_scheduled, 0);
  assert_int_equal(s.n_events, 1);
  assert_true(engine_release_fill(e, hold));
  assert_false(engine_release_fill(e, hold));
  assert_false(engine_release_fill(e, 0));
  engine_step_run(e, 2, &s);
  assert_int_equal(s.n_scheduled, 1);
  assert_int_equal(a.req.finish, ENGINE_LENGTH);
  engine_delete(e);
}

/* Steps that tell of it do not forget who holds the blocks; and what it evicted is counted. */
static void it_is_held_for_as_many_steps_as_it_takes(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a, b;
  struct engine_step s;
  struct engine_totals t;
  uint64_t hold = 0;
  run_whole(e, &a, 100, 16);
  assert_int_equal(engine_fill(e, 10, &hold), 10); /* 8 never used, 2 of a */
  engine_get_totals(e, &t);
  assert_int_equal(t.removed, 2);
  run_whole(e, &b, 200, 5);
  for (uint64_t now = 3; now < 6; now++)
    engine_step_run(e, now, &s);
  assert_int_equal(engine_free_blocks(e), 2);
  assert_true(engine_release_fill(e, hold));
  assert_int_equal(engine_free_blocks(e), 12);
  assert_non_null(e->fills);
  for (uint64_t now = 6; now < 8; now++)
    engine_step_run(e, now, &s);
  assert_null(e->fills); /* pressure for days costs no memory */
  engine_delete(e);
}

static void one_that_is_held_at_the_end_is_freed(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  uint64_t hold;
  assert_int_equal(engine_fill(e, 2, &hold), 2);
  engine_delete(e);
}

static void without_a_cache_blocks_are_taken_and_no_names(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  struct engine_step s;
  c.enable_prefix_caching = false;
  struct engine *e = test_engine(c);
  assert_int_equal(engine_fill(e, 5, NULL), 5);
  engine_step_run(e, 1, &s);
  assert_int_equal(s.n_events, 0);
  assert_int_equal(e->pool.num_names, 0);
  engine_delete(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_evicts_what_was_used_longest_ago_with_its_events),
      cmocka_unit_test(the_new_content_is_the_last_to_go),
      cmocka_unit_test(two_fills_are_different_content),
      cmocka_unit_test(held_blocks_stay_in_use),
      cmocka_unit_test(it_is_held_for_as_many_steps_as_it_takes),
      cmocka_unit_test(one_that_is_held_at_the_end_is_freed),
      cmocka_unit_test(without_a_cache_blocks_are_taken_and_no_names),
  };
  return cmocka_run_group_tests_name("engine_fill", tests, NULL, NULL);
}
