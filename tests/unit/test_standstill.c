/* test_standstill.c: what of a client's lateness recorder.c counts as a standstill. */
#include "check.h"

#include "base/mem.h"
#include "out/recorder.h"
#include "out/writer.h"
#include "out_rows.h"

struct wakeup {
  uint64_t late_ms, busy_ms; /* late 0: no timer fired */
};

static void expect_stalls(const struct wakeup *list, size_t n, bool probing, uint64_t total_ms,
                          uint64_t longest_ms) {
  struct writer_options options = {.run_id = "x"};
  struct writer *w;
  struct err err;
  check_ok(writer_start(&options, &w, &err), &err);
  struct recorder *r = recorder_new(w, 0);
  recorder_set_probing(r, probing);
  for (size_t i = 0; i < n; i++) {
    if (list[i].late_ms) {
      recorder_timer_late(r, list[i].late_ms * MS);
      recorder_timer_late(r, MS); /* one that came due later: the same standstill */
    }
    recorder_wakeup_busy(r, list[i].busy_ms * MS);
  }
  recorder_delete(r);
  check_ok(writer_stop(w, &err), &err);
  const struct probe *p = &writer_table(w)->probe;
  assert_int_equal(p->stalled_ns, total_ms * MS);
  assert_int_equal(p->longest_stall_ns, longest_ms * MS);
  writer_delete(w);
}

#define EXPECT(total_ms, longest_ms, ...)                                                          \
  do {                                                                                             \
    const struct wakeup list[] = {__VA_ARGS__};                                                    \
    expect_stalls(list, sizeof list / sizeof *list, true, total_ms, longest_ms);                   \
  } while (0)

static void short_ones_are_none(void **state) {
  (void)state;
  EXPECT(0, 0, {1, 1}, {19, 1}, {0, 20}, {2, 18});
}

static void stopped_while_it_slept(void **state) {
  (void)state;
  EXPECT(1900, 1900, {1, 1}, {1901, 0}, {1, 1});
}

/* The timers of that wake-up, and of the next, are late by the same time: it counts once. */
static void stopped_while_it_worked(void **state) {
  (void)state;
  EXPECT(1900, 1900, {1, 1}, {0, 1900}, {1880, 2});
  EXPECT(1900, 1900, {1, 1}, {1890, 1900}, {1, 1});
}

static void several(void **state) {
  (void)state;
  EXPECT(30 + 26 + 300, 300, {0, 30}, {56, 5}, {0, 1}, {301, 0});
}

static void not_before_the_window(void **state) {
  (void)state;
  const struct wakeup one = {0, 500};
  expect_stalls(&one, 1, false, 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(short_ones_are_none),     cmocka_unit_test(stopped_while_it_slept),
      cmocka_unit_test(stopped_while_it_worked), cmocka_unit_test(several),
      cmocka_unit_test(not_before_the_window),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
