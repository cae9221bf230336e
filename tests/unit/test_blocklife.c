/* test_blocklife.c: lives of KV blocks, alone and behind an engine. */
#include "check.h"

#include "kv/blocklife.h"
#include "kv/engine.h"

struct seen {
  struct blocklife_end ends[64];
  size_t n;
};

static void note(void *user, const struct blocklife_end *end) {
  struct seen *s = user;
  assert_true(s->n < ARRAY_LEN(s->ends));
  s->ends[s->n++] = *end;
}

static void follow(struct blocklife *l, struct seen *s, uint32_t n, double share) {
  *s = (struct seen){0};
  blocklife_init(l, n, share, 1);
  l->on_end = note;
  l->user = s;
}

static void test_a_life(void **state) {
  (void)state;
  struct blocklife l;
  struct seen s;
  follow(&l, &s, 8, 1);
  l.now_ns = 100;
  blocklife_touched(&l, 3); /* not taken yet: nobody's */
  blocklife_taken(&l, 3);
  assert_int_equal(s.n, 0);
  for (uint64_t t = 110; t <= 160; t += 10) { /* six accesses, of which four are remembered */
    l.now_ns = t;
    blocklife_touched(&l, 3);
  }
  l.now_ns = 175;
  blocklife_taken(&l, 3);
  assert_int_equal(s.n, 1);
  assert_int_equal(s.ends[0].lifetime_ns, 75);
  assert_int_equal(s.ends[0].idle_ns, 15);
  assert_int_equal(s.ends[0].n_gaps, 3);
  for (int i = 0; i < 3; i++)
    assert_int_equal(s.ends[0].gaps_ns[i], 10);
  l.now_ns = 180;
  blocklife_taken(&l, 3); /* never accessed: idle all its life */
  assert_int_equal(s.ends[1].lifetime_ns, 5);
  assert_int_equal(s.ends[1].idle_ns, 5);
  assert_int_equal(s.ends[1].n_gaps, 0);
  blocklife_forget(&l);
  blocklife_taken(&l, 3);
  assert_int_equal(s.n, 2);
  blocklife_free(&l);
}

static void test_a_share_of_them(void **state) {
  (void)state;
  enum { ROUNDS = 4000 };
  static const double shares[] = {0, 0.25, 1};
  for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
    struct blocklife l;
    struct seen s;
    size_t n = 0;
    follow(&l, &s, 4, shares[i]);
    for (int k = 0; k < ROUNDS; k++) {
      blocklife_taken(&l, 2);
      n += s.n;
      s.n = 0;
    }
    assert_in_range(n, (size_t)(shares[i] * (ROUNDS - 1) * 0.9),
                    (size_t)(shares[i] * ROUNDS * 1.1));
    blocklife_free(&l);
  }
}

static uint32_t sample(void *user, const struct engine_request *req, uint32_t index) {
  (void)user;
  (void)req;
  return index;
}

/* One request of `n` tokens that all are `token`, at a time. */
static void serve(struct engine *e, struct blocklife *l, uint64_t now_ns, uint32_t token,
                  uint32_t n) {
  uint32_t tokens[64];
  struct engine_request r = {.tokens = tokens, .prompt_len = n, .max_output = 1, .sample = sample};
  struct engine_step step;
  struct err err;
  for (uint32_t i = 0; i < n; i++)
    tokens[i] = token;
  check_ok(engine_add(e, &r, &err), &err);
  l->now_ns = now_ns;
  engine_step_run(e, now_ns, &step);
  assert_int_equal(r.finish, ENGINE_LENGTH);
}

/* Four blocks of 4 tokens: a prompt of 9 tokens takes three, hits two when it is repeated, and
 * another one of three blocks takes the one that was never used and the tail of the first. */
static void test_behind_an_engine(void **state) {
  (void)state;
  struct engine_config c = {.num_blocks = 5,
                            .block_size = 4,
                            .max_num_batched_tokens = 64,
                            .max_num_seqs = 4,
                            .max_model_len = 16,
                            .enable_prefix_caching = true};
  struct err err;
  struct blocklife l;
  struct seen s;
  struct engine *e = engine_new(&c, &err);
  follow(&l, &s, c.num_blocks, 1);
  engine_follow_blocks(e, &l);
  serve(e, &l, 1000, 7, 9);
  serve(e, &l, 1500, 7, 9); /* two are touched; its third block is the first one's third again */
  assert_int_equal(s.n, 1);
  assert_int_equal(s.ends[0].lifetime_ns, 500);
  serve(e, &l, 2500, 8, 9); /* the same block again, the one that was never used, and a tail */
  assert_int_equal(s.n, 3);
  assert_int_equal(s.ends[1].lifetime_ns, 1000);
  assert_int_equal(s.ends[1].idle_ns, 1000);
  assert_int_equal(s.ends[2].lifetime_ns, 1500);
  assert_int_equal(s.ends[2].idle_ns, 1000); /* since its hit */
  assert_int_equal(s.ends[2].n_gaps, 0);     /* one access is no gap */
  assert_true(engine_reset_cache(e, false));
  serve(e, &l, 3000, 9, 9);
  assert_int_equal(s.n, 3); /* forgotten with the reset */
  uint64_t hold;
  l.now_ns = 3700;
  assert_int_equal(engine_fill(e, 4, &hold), 4);
  assert_int_equal(s.n, 6);
  for (size_t i = 3; i < 6; i++)
    assert_int_equal(s.ends[i].lifetime_ns, 700);
  engine_delete(e);
  blocklife_free(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_life),
      cmocka_unit_test(test_a_share_of_them),
      cmocka_unit_test(test_behind_an_engine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
