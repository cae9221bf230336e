/* test_router.c: picks are exact also with four threads. */
#include "check.h"

#include <pthread.h>

#include "run/router.h"

static void next_takes_turns_per_counter(void **state) {
  (void)state;
  struct router *r = router_new(3);
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
  struct router *r = router_new(3);
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
    struct router *r = router_new(3);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(next_takes_turns_per_counter),
      cmocka_unit_test(least_prefers_few_then_longest_ago),
      cmocka_unit_test(four_threads_share_exactly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
