/* Names, lookup, placement and peek, rule by rule (P1 to P6 of tests/data/engine/README.md). */
#include "engine_requests.h"

#include "kv/engine_impl.h"

static void run_alone(struct engine *e, struct test_request *t, uint32_t first, uint32_t n,
                      const char *salt) {
  struct engine_step s;
  test_request(t, first, n, 1);
  t->req.salt = salt;
  test_add(e, &t->req);
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_finished, 1);
}

static void peek_caps_at_all_but_one(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a;
  uint32_t longer[20] = {0};
  run_alone(e, &a, 100, 12, NULL); /* blocks 0, 1, 2 */
  assert_int_equal(engine_peek(e, a.tokens, 0, NULL, NULL), 0);
  assert_int_equal(engine_peek(e, a.tokens, 1, NULL, NULL), 0);
  assert_int_equal(engine_peek(e, a.tokens, 4, NULL, NULL), 0);
  assert_int_equal(engine_peek(e, a.tokens, 5, NULL, NULL), 4);
  assert_int_equal(engine_peek(e, a.tokens, 11, NULL, NULL), 8);
  assert_int_equal(engine_peek(e, a.tokens, 12, NULL, NULL), 8);
  memcpy(longer, a.tokens, 12 * sizeof *longer);
  assert_int_equal(engine_peek(e, longer, 20, NULL, NULL), 12);
  longer[5]++;
  assert_int_equal(engine_peek(e, longer, 20, NULL, NULL), 4);
  longer[0]++;
  assert_int_equal(engine_peek(e, longer, 20, NULL, NULL), 0);
  engine_delete(e);
}

static void peek_touches_nothing(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a;
  run_alone(e, &a, 100, 12, NULL);
  uint32_t before[12], n = 0;
  for (uint32_t id = pool_next(&e->pool, 0); id; id = pool_next(&e->pool, id))
    before[n++] = id;
  assert_int_equal(n, 12);
  assert_int_equal(engine_peek(e, a.tokens, 12, NULL, NULL), 8);
  n = 0;
  for (uint32_t id = pool_next(&e->pool, 0); id; id = pool_next(&e->pool, id))
    assert_int_equal(before[n++], id);
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.prefix_queries, 12); /* the request's own */
  engine_delete(e);
}

/* The salt stands in the first block only, and thereby in the whole chain. */
static void salts_make_chains_of_their_own(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a, b;
  run_alone(e, &a, 100, 9, "x");
  assert_int_equal(engine_peek(e, a.tokens, 9, "x", NULL), 8);
  assert_int_equal(engine_peek(e, a.tokens, 9, "y", NULL), 0);
  assert_int_equal(engine_peek(e, a.tokens, 9, NULL, NULL), 0);
  run_alone(e, &b, 100, 9, NULL);
  assert_int_equal(engine_peek(e, a.tokens, 9, NULL, NULL), 8);
  assert_int_equal(engine_peek(e, a.tokens, 9, "x", NULL), 8);
  engine_delete(e);
}

/* So does an adapter; neither is mistaken for the other. */
static void adapters_make_chains_of_their_own(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a;
  struct engine_step s;
  test_request(&a, 100, 9, 1);
  a.req.adapter = "x";
  test_add(e, &a.req);
  engine_step_run(e, 0, &s);
  assert_int_equal(engine_peek(e, a.tokens, 9, NULL, "x"), 8);
  assert_int_equal(engine_peek(e, a.tokens, 9, NULL, "y"), 0);
  assert_int_equal(engine_peek(e, a.tokens, 9, NULL, NULL), 0);
  assert_int_equal(engine_peek(e, a.tokens, 9, "x", NULL), 0);
  assert_int_equal(engine_peek(e, a.tokens, 9, "x", "x"), 0);
  engine_delete(e);
}

/* Equal tokens behind different blocks have different names; order within a block counts. */
static void names_are_chained(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  c.block_size = 2;
  c.num_blocks = 40;
  struct engine *e = test_engine(c);
  struct test_request a = {0};
  struct engine_step s;
  const uint32_t tokens[] = {7, 8, 7, 8, 8, 7, 7, 8};
  memcpy(a.tokens, tokens, sizeof tokens);
  a.req = (struct engine_request){
      .tokens = a.tokens, .prompt_len = 8, .max_output = 1, .sample = test_sample};
  test_add(e, &a.req);
  engine_step_run(e, 0, &s);
  assert_int_equal(s.events[0].n, 4);
  for (uint32_t i = 0; i < 4; i++)
    for (uint32_t k = 0; k < i; k++)
      assert_true(s.events[0].hashes[i] != s.events[0].hashes[k]);
  assert_int_equal(engine_peek(e, tokens, 3, NULL, NULL), 2);
  assert_int_equal(engine_peek(e, tokens + 4, 4, NULL, NULL), 0);
  engine_delete(e);
}

static void caching_off_knows_nothing(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  c.enable_prefix_caching = false;
  struct engine *e = test_engine(c);
  struct test_request a;
  struct engine_step s;
  run_alone(e, &a, 100, 12, NULL);
  assert_int_equal(engine_peek(e, a.tokens, 12, NULL, NULL), 0);
  test_add(e, test_request(&a, 100, 12, 1));
  engine_step_run(e, 0, &s);
  assert_int_equal(s.admitted[0].cached, 0);
  assert_int_equal(s.n_events, 0);
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.prefix_queries + t.prefix_hits + t.stored + t.removed, 0);
  engine_delete(e);
}

/* P2: the whole prompt must fit although one chunk is placed; without the gate the chunk decides.
 */
static void the_gate_counts_the_whole_sequence(void **state) {
  (void)state;
  for (int gate = 0; gate < 2; gate++) {
    struct engine_config c = CONFIG_SMALL;
    c.max_num_batched_tokens = 20;
    c.reserve_full_isl = gate;
    struct engine *e = test_engine(c);
    struct test_request a, b;
    struct engine_step s;
    test_add(e, test_request(&a, 100, 16, 3)); /* 4 blocks, 5 after the first decode */
    test_add(e, test_request(&b, 200, 33, 1)); /* 9 blocks of the 8 left; chunk of 4: 1 block */
    engine_step_run(e, 0, &s);
    assert_int_equal(s.n_admitted, gate ? 1 : 2);
    assert_int_equal(engine_free_blocks(e), gate ? 8 : 7);
    engine_delete(e);
  }
}

/* Blocks that must stay free count only while something runs, and only for admissions. */
static void the_watermark_is_kept_while_others_run(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL; /* 12 blocks */
  c.watermark_blocks = 3;
  struct engine *e = test_engine(c);
  struct test_request a, b, d;
  struct engine_step s;
  test_add(e, test_request(&a, 100, 38, 2)); /* 10 blocks: nothing runs, so it is let in */
  engine_step_run(e, 0, &s);
  assert_int_equal(engine_free_blocks(e), 2);
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_finished, 1);

  test_add(e, test_request(&a, 200, 16, 20)); /* 4 blocks */
  test_add(e, test_request(&b, 400, 24, 1));  /* 6 of the 8 left: 2 would stay free */
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_admitted, 1);
  assert_true(engine_abort(e, &b.req));
  test_add(e, test_request(&d, 400, 16, 20)); /* a has 5 by now: 4 of 7, and 3 stay */
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_admitted, 1);
  assert_int_equal(engine_free_blocks(e), 3);
  for (int i = 0; i < 2; i++) /* who runs may use them */
    engine_step_run(e, 0, &s);
  assert_true(engine_free_blocks(e) < 3);
  assert_int_equal(s.n_preempted, 0);
  engine_delete(e);
}

/* prompt_logprobs: nothing is looked up, but what is computed is registered. */
static void a_request_may_skip_the_lookup(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a, b;
  struct engine_step s;
  run_alone(e, &a, 100, 12, NULL);
  test_request(&b, 100, 12, 1);
  b.req.skip_lookup = true;
  test_add(e, &b.req);
  engine_step_run(e, 0, &s);
  assert_int_equal(s.admitted[0].cached, 0);
  assert_int_equal(s.events[0].n, 3);
  engine_delete(e);
}

/* P3: hits that are free use up free blocks, hits that are held do not. */
static void idle_hits_use_up_the_queue(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  c.num_blocks = 9; /* 8 usable */
  c.max_model_len = 32;
  struct engine *e = test_engine(c);
  struct test_request a, hold, b;
  struct engine_step s;
  run_alone(e, &a, 100, 17, NULL);              /* blocks 0 to 3 named, all free */
  test_add(e, test_request(&hold, 500, 8, 10)); /* holds 2 blocks, then 3 */
  engine_step_run(e, 0, &s);
  engine_step_run(e, 0, &s);
  assert_int_equal(engine_free_blocks(e), 5);
  test_add(e, test_request(&b, 100, 17, 1)); /* 4 hits, all idle, and 1 new: 5 */
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_admitted, 1);
  assert_int_equal(s.admitted[0].cached, 16);

  test_add(e, test_request(&b, 100, 24, 1)); /* 4 idle hits and 2 new: 6 of 5 */
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_admitted, 0);
  assert_true(engine_abort(e, &b.req));
  assert_int_equal(engine_peek(e, b.tokens, 24, NULL, NULL), 16);
  engine_delete(e);
}

/* A failed attempt changes nothing: no counts, no order, no events. */
static void a_failed_placement_changes_nothing(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  c.num_blocks = 9;
  c.max_model_len = 32;
  struct engine *e = test_engine(c);
  struct test_request a, b;
  run_alone(e, &a, 100, 17, NULL);
  test_add(e, test_request(&b, 100, 30, 1));
  uint32_t hits = engine_lookup(e, &b.req);
  assert_int_equal(hits, 4);
  e->pool.num_free = 7; /* as if one were held: 8 would be needed */
  assert_false(engine_place(e, &b.req, 14, hits, ENGINE_PLACE_ADMISSION));
  assert_false(engine_place(e, &b.req, 14, hits, ENGINE_PLACE_RUNNING));
  e->pool.num_free = 8;
  assert_int_equal(b.req.blocks->n, 0);
  for (uint32_t id = 1; id < 9; id++)
    assert_int_equal(e->pool.blocks[id].refs, 0);
  assert_true(engine_place(e, &b.req, 14, hits, ENGINE_PLACE_ADMISSION));
  assert_int_equal(b.req.blocks->n, 8);
  assert_int_equal(b.req.blocks->registered, 7); /* 30 tokens: 7 full blocks */
  assert_int_equal(e->pool.num_free, 0);
  engine_delete(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(peek_caps_at_all_but_one),
      cmocka_unit_test(peek_touches_nothing),
      cmocka_unit_test(salts_make_chains_of_their_own),
      cmocka_unit_test(adapters_make_chains_of_their_own),
      cmocka_unit_test(names_are_chained),
      cmocka_unit_test(caching_off_knows_nothing),
      cmocka_unit_test(the_gate_counts_the_whole_sequence),
      cmocka_unit_test(the_watermark_is_kept_while_others_run),
      cmocka_unit_test(a_request_may_skip_the_lookup),
      cmocka_unit_test(idle_hits_use_up_the_queue),
      cmocka_unit_test(a_failed_placement_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
