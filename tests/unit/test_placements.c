/* test_placements.c: what counts as one placement, and how likely an idle replica is. */
#include "check.h"

#include "base/mem.h"
#include "out/placements.h"
#include "out_rows.h"

static void send(struct table *t, uint64_t session, const char *replica, const char *policy) {
  struct sample *s = row_ok(session, 1, 0, 5, 5);
  s->chosen = mem_strdup(replica);
  s->policy = policy;
  row_add(t, s);
}

static void sessions_that_stay_are_placed_once(void **state) {
  (void)state;
  struct table *t = table_new(0);
  table_add_replica(t, "r0", 1);
  table_add_replica(t, "r1", 1);
  table_add_replica(t, "r2", 1);
  for (uint64_t i = 0; i < 12; i++)
    send(t, i % 4, i % 4 == 3 ? "r1" : "r0", "session_hash");
  struct sample *warm = row_ok(99, 1, 0, 5, 5);
  warm->chosen = mem_strdup("r2");
  warm->measured = false;
  row_add(t, warm);
  struct placements p;
  placements_count(&p, t, NULL);
  assert_true(p.sticky);
  assert_int_equal(p.n, 4);
  assert_int_equal(p.sessions[0], 3);
  assert_int_equal(p.sessions[1], 1);
  assert_int_equal(p.sessions[2], 0);
  placements_free(&p);
  send(t, 0, "r1", "session_hash"); /* it moved: every request was placed */
  placements_count(&p, t, NULL);
  assert_false(p.sticky);
  assert_int_equal(p.n, 13);
  assert_int_equal(p.sessions[1], 2);
  placements_free(&p);
  table_free(t);
}

static void some_policies_place_requests_whatever_they_did(void **state) {
  (void)state;
  static const char *const names[] = {"round_robin", "random", "least_inflight"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++) {
    struct table *t = table_new(0);
    for (uint64_t k = 0; k < 6; k++)
      send(t, k / 3, "r0", names[i]);
    struct placements p;
    placements_count(&p, t, NULL);
    assert_false(p.sticky);
    assert_int_equal(p.n, 6);
    placements_free(&p);
    table_free(t);
  }
}

static void nothing_is_placed_nowhere(void **state) {
  (void)state;
  struct table *t = table_new(0);
  struct placements p;
  placements_count(&p, t, NULL);
  assert_int_equal(p.n, 0);
  assert_false(p.sticky);
  placements_free(&p);
  table_free(t);
}

static void chance(void **state) {
  (void)state;
  check_near(placements_idle_chance(3, 3), 8.0 / 27, 1e-15);
  check_near(placements_idle_chance(0, 3), 1, 0.0);
  check_near(placements_idle_chance(5, 1), 0, 0.0);
  check_near(placements_idle_chance(5, 0), 0, 0.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sessions_that_stay_are_placed_once),
      cmocka_unit_test(some_policies_place_requests_whatever_they_did),
      cmocka_unit_test(nothing_is_placed_nowhere),
      cmocka_unit_test(chance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
