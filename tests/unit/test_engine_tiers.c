/* What stands behind the pool: CPU memory, shared storage, transfers between replicas. */
#include "engine_requests.h"

#include "kv/engine_impl.h"
#include "kv/tierstore.h"

/* Blocks of 4, chunks of 8; a token of KV takes 1 µs from CPU memory and 10 µs from storage. */
static struct engine_config config_tiers(uint32_t offload_chunks, struct tierstore *shared) {
  struct engine_config c = CONFIG_SMALL;
  c.tiers =
      (struct engine_tiers){.chunk_tokens = 8,
                            .kv_bytes_per_token = 1000,
                            .offload_chunks = offload_chunks,
                            .shared = shared,
                            .links = {[ENGINE_OFFLOAD] = {.latency_ns = 100, .bytes_per_s = 1e9},
                                      [ENGINE_SHARED] = {.latency_ns = 5000, .bytes_per_s = 1e8},
                                      [ENGINE_TRANSFER] = {.latency_ns = 70, .bytes_per_s = 2e9}}};
  return c;
}

/* Runs a request to its end; its chunks are behind the pool then. */
static void run_whole(struct engine *e, struct test_request *t, uint32_t first, uint32_t n,
                      uint64_t now) {
  struct engine_step s;
  test_add(e, test_request(t, first, n, 1));
  while (t->req.finish == ENGINE_RUNNING) {
    engine_step_run(e, now, &s);
    now = s.wake_ns > now ? s.wake_ns : now;
  }
}

static uint32_t loaded(const struct test_request *t, enum engine_source source) {
  return t->req.num_loaded[source];
}

static void configurations_that_cannot_work(void **state) {
  (void)state;
  struct err err;
  struct engine_config c = config_tiers(4, NULL);
  c.tiers.chunk_tokens = 6;
  assert_null(engine_new(&c, &err));
  check_has(err.text, "chunk_tokens is 6: give a multiple of block_size (4)");
  c.tiers.chunk_tokens = 0;
  assert_null(engine_new(&c, &err));
  check_has(err.text, "chunk_tokens is 0");
}

static void a_load_takes_its_time(void **state) {
  (void)state;
  struct engine *e = test_engine(config_tiers(16, NULL));
  struct test_request a, b;
  struct engine_step s;
  run_whole(e, &a, 100, 21, 0); /* 5 blocks, 2 chunks */
  assert_int_equal(engine_offload_chunks(e), 2);
  assert_true(engine_reset_cache(e, false));

  test_add(e, test_request(&b, 100, 21, 2));
  engine_step_run(e, 1000, &s);
  assert_int_equal(s.n_scheduled, 0);
  assert_int_equal(s.n_loads, 1);
  assert_ptr_equal(s.loads[0].req, &b.req);
  assert_int_equal(s.loads[0].tokens[ENGINE_OFFLOAD], 16);
  assert_int_equal(s.loads[0].ready_ns, 1000 + 16000 + 100);
  assert_int_equal(s.wake_ns, 17100);
  assert_int_equal(engine_waiting(e), 1);
  assert_int_equal(engine_loading(e), 1);
  assert_int_equal(engine_free_blocks(e), 12 - 4); /* held from the start */
  assert_int_equal(engine_peek(e, b.tokens, 21, NULL, NULL), 0);
  assert_int_equal(engine_peek_tiers(e, b.tokens, 21, NULL, NULL), 16);
  assert_false(engine_reset_cache(e, false)); /* in use */

  engine_step_run(e, 17099, &s);
  assert_int_equal(s.n_scheduled + s.n_admitted + s.n_loads, 0);
  assert_int_equal(s.wake_ns, 17100);
  engine_step_run(e, 17100, &s);
  assert_int_equal(s.wake_ns, 0);
  assert_int_equal(s.n_admitted, 1);
  assert_int_equal(s.admitted[0].cached, 16);
  assert_int_equal(s.scheduled[0].tokens, 5);
  assert_int_equal(s.prefill_tokens, 5);
  assert_int_equal(s.prefill_context, 16 + 17 + 18 + 19 + 20);
  assert_int_equal(b.req.num_cached, 16);
  assert_int_equal(loaded(&b, ENGINE_OFFLOAD), 16);
  assert_int_equal(s.n_events, 2); /* the loaded blocks, then the computed one */
  assert_int_equal(s.events[0].kind, ENGINE_STORED);
  assert_int_equal(s.events[0].medium, ENGINE_GPU);
  assert_int_equal(s.events[0].n, 4);
  assert_int_equal(s.events[1].first_block, 4);
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.prefix_queries, 42);
  assert_int_equal(t.prefix_hits, 0);
  assert_int_equal(t.external_queries, 42);
  assert_int_equal(t.external_hits[ENGINE_OFFLOAD], 16);
  engine_delete(e);
}

/* Whole chunks alone can be loaded; of the last block at least one token is computed; what the pool
 * has is not loaded. */
static void what_can_be_loaded(void **state) {
  (void)state;
  static const struct {
    uint32_t tokens, pool, load;
  } cases[] = {{8, 0, 4}, /* the cap n − 1, rounded down to blocks: half of the chunk */
               {9, 0, 8},   {15, 0, 8},               /* the second chunk is not whole */
               {16, 0, 12}, {17, 0, 16}, {30, 0, 24}, /* of four chunks three were stored */
               {17, 4, 12},                           /* the pool ends within a chunk */
               {17, 8, 8},  {17, 16, 0}, {7, 0, 0},   {8, 4, 0}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct engine *e = test_engine(config_tiers(16, NULL));
    struct test_request a, b, c;
    struct engine_step s;
    run_whole(e, &a, 100, 31, 0);
    assert_true(engine_reset_cache(e, false));
    if (cases[i].pool) { /* another chain in CPU memory, one with the same blocks in the pool */
      engine_delete(e);
      struct engine_config config = config_tiers(16, NULL);
      e = test_engine(config);
      run_whole(e, &a, 100, 31, 0);
      assert_true(engine_reset_cache(e, false));
      tierstore_clear(e->offload);
      run_whole(e, &c, 100, cases[i].pool + 1, 0);
      struct engine *other = test_engine(config);
      run_whole(other, &a, 100, 31, 0);
      tierstore_delete(e->offload);
      e->offload = other->offload;
      other->offload = NULL;
      engine_delete(other);
    }
    test_add(e, test_request(&b, 100, cases[i].tokens, 1));
    assert_int_equal(engine_peek_tiers(e, b.tokens, cases[i].tokens, NULL, NULL),
                     cases[i].pool + cases[i].load);
    engine_step_run(e, 1000, &s);
    if (cases[i].load) {
      assert_int_equal(s.n_loads, 1);
      assert_int_equal(s.loads[0].tokens[ENGINE_OFFLOAD], cases[i].load);
      engine_step_run(e, s.wake_ns, &s);
    }
    assert_int_equal(b.req.num_cached, cases[i].pool + cases[i].load);
    engine_delete(e);
  }
}

static void salts_are_ignored_adapters_are_not(void **state) {
  (void)state;
  struct engine *e = test_engine(config_tiers(16, NULL));
  struct test_request a;
  run_whole(e, &a, 100, 17, 0);
  assert_int_equal(engine_peek(e, a.tokens, 17, "salt", NULL), 0);
  assert_int_equal(engine_peek_tiers(e, a.tokens, 17, "salt", NULL), 16);
  assert_int_equal(engine_peek_tiers(e, a.tokens, 17, NULL, "adapter"), 0);
  engine_delete(e);
}

static void generated_tokens_are_stored_too(void **state) {
  (void)state;
  struct engine *e = test_engine(config_tiers(16, NULL));
  struct test_request a;
  struct engine_step s;
  test_add(e, test_request(&a, 100, 12, 6)); /* the last of 18 tokens has no KV: 17 do */
  for (int i = 0; i < 4; i++)
    engine_step_run(e, 0, &s);
  assert_int_equal(engine_offload_chunks(e), 1);
  engine_step_run(e, 0, &s); /* computes the sixteenth */
  assert_int_equal(a.req.num_computed, 16);
  assert_int_equal(engine_offload_chunks(e), 2);
  assert_int_equal(s.n_events, 2);
  assert_int_equal(s.events[1].medium, ENGINE_CPU);
  assert_int_equal(s.events[1].kind, ENGINE_STORED);
  assert_int_equal(s.events[1].n, 1);
  assert_int_equal(s.events[1].first_block, 2);
  assert_true(s.events[1].has_parent);
  assert_ptr_equal(s.events[1].req, &a.req);
  engine_delete(e);
}

/* A full tier loses the ends of old chains before their heads, and a chain longer than the tier
 * keeps its head in it. */
static void what_gives_way(void **state) {
  (void)state;
  struct engine *e = test_engine(config_tiers(3, NULL));
  struct test_request a;
  run_whole(e, &a, 100, 33, 0); /* four chunks: three are kept */
  assert_int_equal(engine_offload_chunks(e), 3);
  assert_true(engine_reset_cache(e, false));
  assert_int_equal(engine_peek_tiers(e, a.tokens, 33, NULL, NULL), 24);
  struct test_request b;
  run_whole(e, &b, 500, 9, 0); /* one chunk: the last of the other chain goes */
  assert_int_equal(engine_peek_tiers(e, a.tokens, 33, NULL, NULL), 16);
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.chunks_stored, 4);
  assert_int_equal(t.chunks_evicted, 1);
  engine_reset_offload(e);
  assert_int_equal(engine_peek_tiers(e, a.tokens, 33, NULL, NULL), 0);
  engine_delete(e);
}

static void storage_is_shared_by_replicas(void **state) {
  (void)state;
  struct tierstore *shared = tierstore_new(100);
  struct engine *one = test_engine(config_tiers(0, shared));
  struct engine *two = test_engine(config_tiers(1, shared));
  struct test_request a, b;
  struct engine_step s;
  run_whole(one, &a, 100, 21, 0);
  assert_int_equal(tierstore_count(shared), 2);
  run_whole(two, &b, 100, 10, 0); /* loads chunk 0 and has it in its CPU memory from then on */
  assert_int_equal(loaded(&b, ENGINE_SHARED), 8);
  assert_int_equal(engine_offload_chunks(two), 1);
  assert_true(engine_reset_cache(two, false));
  test_add(two, test_request(&b, 100, 21, 1));
  engine_step_run(two, 1000000, &s);
  assert_int_equal(s.n_loads, 1);
  assert_int_equal(s.loads[0].tokens[ENGINE_OFFLOAD], 8);
  assert_int_equal(s.loads[0].tokens[ENGINE_SHARED], 8);
  assert_int_equal(s.wake_ns, 1000000 + 80000 + 5000); /* the slower of the two */
  engine_step_run(two, s.wake_ns, &s);
  assert_int_equal(b.req.num_cached, 16);
  assert_int_equal(engine_offload_chunks(two), 1); /* no room behind the head */
  struct engine_totals t;
  engine_get_totals(two, &t);
  assert_int_equal(t.external_hits[ENGINE_OFFLOAD], 8);
  assert_int_equal(t.external_hits[ENGINE_SHARED], 16);
  engine_delete(one);
  engine_delete(two);
  tierstore_delete(shared);
}

/* Bytes on one path follow each other; latencies overlap. Who is behind is not held up by a load.
 */
static void loads_follow_each_other(void **state) {
  (void)state;
  struct engine *e = test_engine(config_tiers(16, NULL));
  struct test_request a, b, c, d;
  struct engine_step s;
  run_whole(e, &a, 100, 17, 0);
  run_whole(e, &a, 300, 17, 0);
  assert_true(engine_reset_cache(e, false));
  test_add(e, test_request(&b, 100, 17, 1));
  test_add(e, test_request(&c, 300, 9, 1));
  test_add(e, test_request(&d, 700, 9, 1));
  engine_step_run(e, 1000, &s);
  assert_int_equal(s.n_loads, 2);
  assert_int_equal(s.loads[0].ready_ns, 1000 + 16000 + 100);
  assert_int_equal(s.loads[1].ready_ns, 1000 + 16000 + 8000 + 100);
  assert_int_equal(s.n_scheduled, 1);
  assert_ptr_equal(s.scheduled[0].req, &d.req);
  engine_step_run(e, 17100, &s);
  assert_ptr_equal(s.scheduled[0].req, &b.req);
  assert_int_equal(s.wake_ns, 25100);
  engine_step_run(e, 25100, &s);
  assert_ptr_equal(s.scheduled[0].req, &c.req);
  assert_false(engine_has_work(e));
  engine_delete(e);
}

/* A load needs the blocks of the whole prompt to be free (the gate), and stops the queue if not. */
static void a_load_that_does_not_fit(void **state) {
  (void)state;
  struct engine *e = test_engine(config_tiers(16, NULL));
  struct test_request a, b, c, hold;
  struct engine_step s;
  run_whole(e, &a, 100, 17, 0);
  assert_true(engine_reset_cache(e, false));
  test_add(e, test_request(&hold, 500, 32, 8)); /* 8 of 12 blocks, then 9 */
  engine_step_run(e, 0, &s);
  test_add(e, test_request(&b, 100, 20, 1)); /* 5 blocks, 4 of them to be loaded */
  test_add(e, test_request(&c, 900, 4, 1));
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_loads, 0);
  assert_int_equal(s.n_scheduled, 1);
  assert_true(engine_abort(e, &hold.req));
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_loads, 1);
  assert_ptr_equal(s.scheduled[0].req, &c.req);
  assert_true(engine_abort(e, &b.req)); /* while it loads: its blocks are free again */
  assert_int_equal(engine_free_blocks(e), 12);
  assert_int_equal(engine_peek(e, b.tokens, 20, NULL, NULL), 0); /* and were never registered */
  engine_delete(e);
}

/* Two requests have loaded and hold what the other needs; nothing runs. The later one gives up. */
static void a_standstill_is_broken(void **state) {
  (void)state;
  struct engine_config c = config_tiers(16, NULL);
  c.num_blocks = 10; /* 9 usable */
  c.max_model_len = 36;
  c.reserve_full_isl = false;
  struct engine *e = test_engine(c);
  struct test_request a, b;
  struct engine_step s;
  run_whole(e, &a, 100, 17, 0);
  run_whole(e, &a, 300, 17, 0);
  assert_true(engine_reset_cache(e, false));
  test_add(e, test_request(&a, 100, 30, 1)); /* 4 blocks loaded, 8 needed */
  test_add(e, test_request(&b, 300, 30, 1));
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_loads, 2);
  engine_step_run(e, 1000000, &s);
  assert_int_equal(s.n_preempted, 1);
  assert_ptr_equal(s.preempted[0], &b.req);
  assert_ptr_equal(s.scheduled[0].req, &a.req);
  assert_int_equal(a.req.finish, ENGINE_LENGTH);
  for (uint64_t now = 2000000; engine_has_work(e); now = s.wake_ns ? s.wake_ns : now)
    engine_step_run(e, now, &s);
  assert_int_equal(b.req.finish, ENGINE_LENGTH);
  assert_int_equal(engine_free_blocks(e), 9);
  engine_delete(e);
}

/* P/D: the prefill leg samples one token and holds its blocks; the decode leg loads the whole
 * prompt and computes its last token again. */
static void prefill_here_decode_there(void **state) {
  (void)state;
  struct engine *prefill = test_engine(config_tiers(0, NULL));
  struct engine *decode = test_engine(config_tiers(0, NULL));
  struct test_request p, d;
  struct engine_step s;
  test_request(&p, 100, 16, 1);
  p.req.hold = true;
  test_add(prefill, &p.req);
  engine_step_run(prefill, 0, &s);
  assert_int_equal(s.n_finished, 1);
  assert_int_not_equal(p.req.hold_id, 0);
  assert_null(p.req.blocks);
  assert_false(engine_has_work(prefill));
  assert_int_equal(engine_free_blocks(prefill), 12 - 4);
  assert_false(engine_reset_cache(prefill, true)); /* in use */
  assert_false(engine_release_hold(prefill, p.req.hold_id + 1));
  assert_true(engine_release_hold(prefill, p.req.hold_id));
  assert_false(engine_release_hold(prefill, p.req.hold_id));
  assert_int_equal(engine_free_blocks(prefill), 12);
  assert_int_equal(engine_peek(prefill, p.tokens, 17, NULL, NULL), 16); /* and can be hit */

  test_request(&d, 100, 16, 3);
  d.req.remote_tokens = 16;
  test_add(decode, &d.req);
  engine_step_run(decode, 0, &s);
  assert_int_equal(s.loads[0].tokens[ENGINE_TRANSFER], 16);
  assert_int_equal(s.wake_ns, 8000 + 70);
  engine_step_run(decode, 8070, &s);
  assert_int_equal(s.scheduled[0].tokens, 1);
  assert_int_equal(s.admitted[0].cached, 15);
  assert_int_equal(loaded(&d, ENGINE_TRANSFER), 15);
  assert_int_equal(s.n_sampled, 1);
  assert_int_equal(engine_peek(decode, d.tokens, 17, NULL, NULL), 16);
  struct engine_totals t;
  engine_get_totals(decode, &t);
  assert_int_equal(t.loaded_recomputed, 1);
  assert_int_equal(t.external_queries, 16);
  assert_int_equal(t.external_hits[ENGINE_TRANSFER], 15);
  while (engine_has_work(decode))
    engine_step_run(decode, 9000, &s);

  test_request(&d, 100, 20, 1); /* what the pool has is not fetched */
  d.req.remote_tokens = 20;
  test_add(decode, &d.req);
  engine_step_run(decode, 10000, &s);
  assert_int_equal(s.loads[0].tokens[ENGINE_TRANSFER], 4);
  engine_step_run(decode, s.wake_ns, &s);
  assert_int_equal(d.req.num_cached, 19);
  engine_delete(prefill);
  engine_delete(decode);
}

/* Caching off: no tiers, but transfers. */
static void caching_off(void **state) {
  (void)state;
  struct engine_config c = config_tiers(16, NULL);
  c.enable_prefix_caching = false;
  struct engine *e = test_engine(c);
  struct test_request a;
  struct engine_step s;
  run_whole(e, &a, 100, 17, 0);
  assert_int_equal(engine_offload_chunks(e), 0);
  test_request(&a, 100, 17, 1);
  a.req.remote_tokens = 12;
  test_add(e, &a.req);
  engine_step_run(e, 0, &s);
  assert_int_equal(s.n_loads, 1);
  engine_step_run(e, s.wake_ns, &s);
  assert_int_equal(s.scheduled[0].tokens, 5);
  assert_int_equal(s.n_events, 0);
  engine_delete(e);
}

/* A request that was preempted is looked up behind the pool again. */
static void preempted_requests_load_again(void **state) {
  (void)state;
  struct engine_config c = config_tiers(16, NULL);
  c.num_blocks = 8; /* 7 usable */
  c.max_model_len = 28;
  struct engine *e = test_engine(c);
  struct test_request a, b;
  struct engine_step s;
  test_add(e, test_request(&a, 100, 12, 9));
  test_add(e, test_request(&b, 300, 16, 4));
  engine_step_run(e, 0, &s);
  engine_step_run(e, 0, &s); /* a needs a fourth block: b goes, its chunks are in CPU memory */
  assert_int_equal(s.n_preempted, 1);
  for (int i = 0; i < 20 && !s.n_loads; i++)
    engine_step_run(e, 0, &s);
  assert_int_equal(s.loads[0].tokens[ENGINE_OFFLOAD], 8); /* a took two of its four blocks */
  while (engine_has_work(e))
    engine_step_run(e, 1000000, &s);
  assert_int_equal(b.req.num_cached, 0);
  assert_int_equal(loaded(&b, ENGINE_OFFLOAD), 0);
  struct engine_totals t;
  engine_get_totals(e, &t);
  assert_int_equal(t.external_hits[ENGINE_OFFLOAD], 0); /* of requests never preempted */
  engine_delete(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(configurations_that_cannot_work),
      cmocka_unit_test(a_load_takes_its_time),
      cmocka_unit_test(what_can_be_loaded),
      cmocka_unit_test(salts_are_ignored_adapters_are_not),
      cmocka_unit_test(generated_tokens_are_stored_too),
      cmocka_unit_test(what_gives_way),
      cmocka_unit_test(storage_is_shared_by_replicas),
      cmocka_unit_test(loads_follow_each_other),
      cmocka_unit_test(a_load_that_does_not_fit),
      cmocka_unit_test(a_standstill_is_broken),
      cmocka_unit_test(prefill_here_decode_there),
      cmocka_unit_test(caching_off),
      cmocka_unit_test(preempted_requests_load_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
