/* engine_prefix.c by hand; against the other two ways to ask, in random histories, it is held by
 * the walks of engine_walk.h (test_engine.c). Evictions by request, too. */
#include "engine_requests.h"

#include "kv/engine_impl.h"

static void run_alone(struct engine *e, struct test_request *t, uint32_t first, uint32_t n,
                      uint32_t outputs) {
  struct engine_step s;
  test_add(e, test_request(t, first, n, outputs));
  while (t->req.finish == ENGINE_RUNNING)
    engine_step_run(e, 0, &s);
}

static void one_prompt_on_two_engines(void **state) {
  (void)state;
  struct engine_config c = CONFIG_SMALL;
  struct engine *a = test_engine(c), *b = test_engine(c);
  struct test_request r;
  struct engine_prefix p;
  run_alone(a, &r, 100, 20, 1); /* 5 blocks */
  run_alone(b, &r, 100, 9, 1);  /* 2 */
  test_request(&r, 100, 20, 1);
  engine_prefix_init(&p, &c, r.tokens, 20, NULL, NULL);
  assert_int_equal(p.n_blocks, 5);
  assert_int_equal(p.n_chunks, 0);
  assert_int_equal(engine_peek_prefix(a, &p, false), 16); /* never all of a prompt */
  assert_int_equal(engine_peek_prefix(b, &p, true), 8);
  engine_prefix_free(&p);
  engine_prefix_init(&p, &c, r.tokens, 20, "salt", NULL);
  assert_int_equal(engine_peek_prefix(a, &p, true), 0);
  engine_prefix_free(&p);
  engine_prefix_init(&p, &c, r.tokens, 0, NULL, NULL);
  assert_int_equal(engine_peek_prefix(a, &p, true), 0);
  engine_prefix_free(&p);
  engine_delete(a);
  engine_delete(b);
}

/* 12 blocks. Who takes a block with content evicts it; nameless blocks go first. */
static void evictions_are_the_requests_that_caused_them(void **state) {
  (void)state;
  struct engine *e = test_engine(CONFIG_SMALL);
  struct test_request a, b, d;
  struct engine_totals t;
  run_alone(e, &a, 100, 20, 1); /* 5 blocks with names; 7 were never used */
  assert_int_equal(a.req.num_evicted, 0);
  run_alone(e, &b, 200, 28, 1); /* 7: those */
  assert_int_equal(b.req.num_evicted, 0);
  run_alone(e, &d, 300, 10, 1); /* 3, of which the last has no name at its end */
  assert_int_equal(d.req.num_evicted, 3);
  run_alone(e, &b, 400, 8, 1); /* 2: that one first, then one with content */
  assert_int_equal(b.req.num_evicted, 1);
  engine_get_totals(e, &t);
  assert_int_equal(t.removed, 4);
  test_add(e, test_request(&b, 500, 4, 1));
  assert_int_equal(b.req.num_evicted, 0);
  engine_delete(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_prompt_on_two_engines),
      cmocka_unit_test(evictions_are_the_requests_that_caused_them),
  };
  return cmocka_run_group_tests_name("engine_prefix", tests, NULL, NULL);
}
