/* test_router.c: picks are exact also with four threads. */
#include "check.h"

#include <pthread.h>

#include "run/router.h"

static void next_takes_turns_per_counter(void **state) {
  (void)state;
  struct router *r = router_new(3, 0);
  assert_int_equal(router_replicas(r), 3);
  assert_int_equal(router_next(r, "a"), 0);
  assert_int_equal(router_next(r, "a"), 1);
  assert_int_equal(router_next(r, "b"), 0);
  assert_int_equal(router_next(r, "a"), 2);
  assert_int_equal(router_next(r, "a"), 0);
  assert_int_equal(router_next(r, "b"), 1);
  assert_int_equal(router_picked(r, 0), 0); /* a turn is not a pick */
  router_delete(r);
}

static void least_prefers_few_then_longest_ago(void **state) {
  (void)state;
  struct router *r = router_new(3, 0);
  assert_int_equal(router_take_least(r), 0);
  assert_int_equal(router_take_least(r), 1);
  assert_int_equal(router_take_least(r), 2);
  router_done(r, 1);
  router_done(r, 0);
  assert_int_equal(router_take_least(r), 0); /* both at 0: 0 was picked longest ago */
  assert_int_equal(router_take_least(r), 1);
  router_take(r, 1);
  router_done(r, 2);
  assert_int_equal(router_inflight(r, 1), 2);
  assert_int_equal(router_take_least(r), 2);
  assert_int_equal(router_inflight(r, 2), 1);
  assert_int_equal(router_picked(r, 0), 2);
  assert_int_equal(router_picked(r, 1), 3);
  assert_int_equal(router_picked(r, 2), 2);
  router_delete(r);
}

struct job {
  struct router *router;
  int picks, turns;
  size_t counts[3];
};

static void *pick(void *arg) {
  struct job *job = arg;
  for (int i = 0; i < job->picks; i++)
    router_take_least(job->router);
  for (int i = 0; i < job->turns; i++)
    job->counts[router_next(job->router, "rr")]++;
  return NULL;
}

static void four_threads_share_exactly(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    struct router *r = router_new(3, 0);
    struct job jobs[4];
    pthread_t threads[4];
    const int picks[4] = {8, 8, 7, 7}; /* 30 in all */
    for (int i = 0; i < 4; i++) {
      jobs[i] = (struct job){.router = r, .picks = picks[i], .turns = picks[i]};
      assert_int_equal(pthread_create(&threads[i], NULL, pick, &jobs[i]), 0);
    }
    size_t counts[3] = {0};
    for (int i = 0; i < 4; i++) {
      pthread_join(threads[i], NULL);
      for (int k = 0; k < 3; k++)
        counts[k] += jobs[i].counts[k];
    }
    for (size_t k = 0; k < 3; k++) {
      assert_int_equal(router_picked(r, k), 10);
      assert_int_equal(router_inflight(r, k), 10);
      assert_int_equal(counts[k], 10);
    }
    router_delete(r);
  }
}

/* ---- rotation ---- */

static void those_out_lose_their_turns(void **state) {
  (void)state;
  struct router *r = router_new(4, 0);
  assert_int_equal(router_next(r, "a"), 0);
  assert_true(router_set_in_rotation(r, 1, false));
  assert_false(router_set_in_rotation(r, 1, false)); /* no change */
  assert_int_equal(router_n_in_rotation(r), 3);
  const size_t without[] = {2, 3, 0, 2, 3, 0, 2};
  for (size_t i = 0; i < ARRAY_LEN(without); i++)
    assert_int_equal(router_next(r, "a"), without[i]);
  assert_true(router_set_in_rotation(r, 1, true)); /* its turn is behind 0 */
  const size_t with[] = {3, 0, 1, 2, 3};
  for (size_t i = 0; i < ARRAY_LEN(with); i++)
    assert_int_equal(router_next(r, "a"), with[i]);
  router_set_in_rotation(r, 0, false); /* the one whose turn it is */
  assert_int_equal(router_next(r, "a"), 1);
  assert_int_equal(router_next(r, "b"), 1);
  router_delete(r);
}

static void least_looks_at_those_in_rotation(void **state) {
  (void)state;
  struct router *r = router_new(3, 1);
  assert_int_equal(router_take_least(r), 0);
  assert_int_equal(router_take_least(r), 1);
  assert_int_equal(router_take_least(r), 0); /* 2 is a spare */
  router_set_in_rotation(r, 2, true);
  assert_int_equal(router_take_least(r), 2); /* the emptiest */
  router_set_in_rotation(r, 2, false);
  assert_int_equal(router_inflight(r, 2), 1); /* what it has it keeps */
  router_done(r, 0);
  router_done(r, 0);
  router_set_in_rotation(r, 0, false);
  assert_int_equal(router_take_least(r), 1);
  router_done(r, 2);
  router_take(r, 2); /* who asks for it by name gets it */
  assert_int_equal(router_inflight(r, 2), 1);
  router_delete(r);
}

static void nothing_in_rotation_is_said(void **state) {
  (void)state;
  struct router *r = router_new(2, 2);
  assert_int_equal(router_n_in_rotation(r), 0);
  assert_int_equal(router_next(r, "a"), ROUTER_NONE);
  assert_int_equal(router_take_least(r), ROUTER_NONE);
  assert_int_equal(router_stand_in(r, 1), ROUTER_NONE);
  assert_int_equal(router_picked(r, 0) + router_picked(r, 1), 0);
  router_set_in_rotation(r, 1, true);
  assert_int_equal(router_next(r, "a"), 1);
  assert_int_equal(router_take_least(r), 1);
  router_delete(r);
}

static void the_next_one_stands_in(void **state) {
  (void)state;
  struct router *r = router_new(4, 1);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(router_stand_in(r, i), i);
  assert_int_equal(router_stand_in(r, 3), 0); /* round the end */
  router_set_in_rotation(r, 1, false);
  assert_int_equal(router_stand_in(r, 1), 2);
  router_set_in_rotation(r, 0, false);
  assert_int_equal(router_stand_in(r, 3), 2);
  assert_int_equal(router_stand_in(r, 0), 2);
  assert_true(router_in_rotation(r, 2));
  assert_false(router_in_rotation(r, 3));
  router_delete(r);
}

static void the_share_is_of_all_picks(void **state) {
  (void)state;
  struct router *r = router_new(3, 2);
  assert_float_equal(router_rotation_share(r, 0), 1, 0); /* before any */
  assert_float_equal(router_rotation_share(r, 1), -1, 0);
  for (int i = 0; i < 6; i++)
    router_take(r, 0);
  router_set_in_rotation(r, 1, true);
  assert_float_equal(router_rotation_share(r, 1), 0, 0); /* in, with nothing to show for it */
  for (int i = 0; i < 2; i++)
    router_take_least(r);
  router_set_in_rotation(r, 1, false);
  router_take(r, 0);
  router_set_in_rotation(r, 1, true);
  router_take(r, 0);
  assert_float_equal(router_rotation_share(r, 0), 1, 0);
  assert_float_equal(router_rotation_share(r, 1), 3.0 / 10, 1e-15);
  assert_float_equal(router_rotation_share(r, 2), -1, 0); /* never */
  router_delete(r);
}

struct flipper {
  struct router *router;
  _Atomic bool *over;
  size_t index;
  int flips;
};

static void *flip(void *arg) {
  struct flipper *f = arg;
  while (!*f->over || f->flips < 50) {
    assert_true(router_set_in_rotation(f->router, f->index, f->flips++ % 2));
    assert_int_equal(router_in_rotation(f->router, f->index), (f->flips - 1) % 2);
  }
  return NULL;
}

struct picker {
  struct router *router;
  uint64_t picks[5], turns[5], none;
};

static void *pick_while_flipping(void *arg) {
  struct picker *p = arg;
  for (int i = 0; i < 2000; i++) {
    size_t least = router_take_least(p->router), next = router_next(p->router, "rr");
    size_t other = router_stand_in(p->router, (size_t)i % 5);
    assert_true(least < 4 && next < 4 && other < 4); /* 0 is always in, 4 never */
    p->picks[least]++;
    p->turns[next]++;
    router_done(p->router, least);
  }
  return NULL;
}

/* 1, 2 and 3 come and go under two pickers; each is flipped by a thread of its own. */
static void flips_under_picks_lose_nothing(void **state) {
  (void)state;
  struct router *r = router_new(5, 1);
  _Atomic bool over = false;
  struct flipper flippers[3];
  struct picker pickers[2];
  pthread_t flipping[3], picking[2];
  for (size_t i = 0; i < 3; i++) {
    flippers[i] = (struct flipper){.router = r, .over = &over, .index = i + 1};
    assert_int_equal(pthread_create(&flipping[i], NULL, flip, &flippers[i]), 0);
  }
  for (size_t i = 0; i < 2; i++) {
    pickers[i] = (struct picker){.router = r};
    assert_int_equal(pthread_create(&picking[i], NULL, pick_while_flipping, &pickers[i]), 0);
  }
  for (size_t i = 0; i < 2; i++)
    pthread_join(picking[i], NULL);
  over = true;
  size_t in = 1;
  for (size_t i = 0; i < 3; i++) {
    pthread_join(flipping[i], NULL);
    assert_int_equal(router_in_rotation(r, i + 1), flippers[i].flips % 2 == 0);
    in += flippers[i].flips % 2 == 0;
  }
  assert_int_equal(router_n_in_rotation(r), in);
  uint64_t picked = 0;
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(router_inflight(r, i), 0);
    assert_int_equal(router_picked(r, i), pickers[0].picks[i] + pickers[1].picks[i]);
    picked += router_picked(r, i);
  }
  assert_int_equal(picked, 4000);
  assert_int_equal(router_picked(r, 4), 0);
  router_delete(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(next_takes_turns_per_counter),
      cmocka_unit_test(least_prefers_few_then_longest_ago),
      cmocka_unit_test(four_threads_share_exactly),
      cmocka_unit_test(those_out_lose_their_turns),
      cmocka_unit_test(least_looks_at_those_in_rotation),
      cmocka_unit_test(nothing_in_rotation_is_said),
      cmocka_unit_test(the_next_one_stands_in),
      cmocka_unit_test(the_share_is_of_all_picks),
      cmocka_unit_test(flips_under_picks_lose_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
