/* test_recorder.c: when lateness is kept, what of it counts as a standstill, and what giving up a
 * recorder's thread keeps. */
#include "check.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "out/recorder.h"
#include "out/writer.h"
#include "out_rows.h"

static struct writer *start(size_t max_queue_bytes) {
  struct err err;
  struct writer *w;
  const struct writer_options options = {.run_id = "r", .max_queue_bytes = max_queue_bytes};
  check_ok(writer_start(&options, &w, &err), &err);
  return w;
}

static struct table *stop(struct writer *w) {
  struct err err;
  check_ok(writer_stop(w, &err), &err);
  return writer_table(w);
}

static void lateness(struct recorder *r, uint64_t ns) {
  recorder_timer_late(r, ns);
  recorder_wakeup_busy(r, ns);
  recorder_read_error(r, ns);
  recorder_start_lag(r, ns);
  recorder_no_kernel_stamp(r);
}

static void lateness_is_kept_while_probing(void **state) {
  (void)state;
  struct writer *w = start(0);
  struct recorder *r = recorder_new(w, 0);
  lateness(r, 1000000000); /* the warm-up */
  recorder_set_probing(r, true);
  lateness(r, 50);
  lateness(r, 60);
  recorder_set_probing(r, false);
  lateness(r, 2000000000); /* what comes after */
  recorder_delete(r);
  const struct probe *p = &stop(w)->probe;
  const struct hist *all[] = {&p->timer_late, &p->wakeup_busy, &p->read_error, &p->start_lag};
  for (size_t i = 0; i < ARRAY_LEN(all); i++) {
    assert_int_equal(all[i]->n, 2);
    assert_int_equal(all[i]->min, 50);
    assert_int_equal(all[i]->max, 60);
  }
  assert_int_equal(p->no_kernel_stamp, 2);
  writer_delete(w);
}

struct lost {
  struct recorder *recorder;
  pthread_t thread;
  bool stop;
  uint64_t given; /* atomic */
};

/* A script that goes on recording, whatever happens to its recorder. */
static void *go_on(void *arg) {
  struct lost *l = arg;
  while (!__atomic_load_n(&l->stop, __ATOMIC_RELAXED)) {
    struct value_record v = {
        .name = "x", .value = 1, .tags = mem_strdup("{\"a\":1}"), .measured = true};
    recorder_value(l->recorder, &v);
    recorder_sample(l->recorder, row_ok(1, 1, 0, 20, 100));
    recorder_flush(l->recorder);
    __atomic_fetch_add(&l->given, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void giving_up_keeps_what_was_taken(void **state) {
  (void)state;
  struct writer *w = start(0);
  struct lost l = {.recorder = recorder_new(w, 3)};
  recorder_set_probing(l.recorder, true);
  lateness(l.recorder, 70);
  assert_int_equal(pthread_create(&l.thread, NULL, go_on, &l), 0);
  while (__atomic_load_n(&l.given, __ATOMIC_RELAXED) < 1000)
    clock_sleep_ns(NS_PER_MS);
  struct session_record s = row_session(7, 0, 1, SAMPLE_INCOMPLETE);
  recorder_session(l.recorder, &s);
  recorder_abandon(l.recorder);
  uint64_t given = __atomic_load_n(&l.given, __ATOMIC_RELAXED);
  while (__atomic_load_n(&l.given, __ATOMIC_RELAXED) < given + 1000) /* dropped */
    clock_sleep_ns(NS_PER_MS);
  recorder_session(l.recorder, &s);
  struct table *t = stop(w); /* no recorder is missing */
  __atomic_store_n(&l.stop, true, __ATOMIC_RELAXED);
  pthread_join(l.thread, NULL);
  assert_int_equal(t->n_sessions, 1);
  assert_true(t->n_rows >= 1000 && t->n_rows <= given + 1);
  assert_true(t->n_values >= 1000 && t->n_values <= given + 1);
  assert_int_equal(t->probe.timer_late.n, 1);
  writer_delete(w);
  mem_free(l.recorder); /* a run never does: its thread is still there */
}

static void a_full_queue_makes_workers_wait(void **state) {
  (void)state;
  struct writer *w = start(1); /* any batch fills it */
  struct recorder *r = recorder_new(w, 0);
  for (uint32_t i = 0; i < 20000; i++) {
    recorder_sample(r, row_ok(i, 1, i, 20, 100));
    recorder_flush(r);
  }
  struct live live;
  writer_live(w, &live);
  assert_true(live.backlog <= 1);
  assert_true(live.hand_waits > 0);
  recorder_delete(r);
  struct table *t = stop(w);
  assert_int_equal(t->n_rows, 20000);
  writer_live(w, &live);
  assert_int_equal(live.backlog, 0);
  writer_delete(w);
}

/* ---- standstills ---- */

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
      cmocka_unit_test(lateness_is_kept_while_probing),
      cmocka_unit_test(giving_up_keeps_what_was_taken),
      cmocka_unit_test(a_full_queue_makes_workers_wait),
      cmocka_unit_test(short_ones_are_none),
      cmocka_unit_test(stopped_while_it_slept),
      cmocka_unit_test(stopped_while_it_worked),
      cmocka_unit_test(several),
      cmocka_unit_test(not_before_the_window),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
