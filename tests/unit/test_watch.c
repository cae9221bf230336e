/* test_watch.c: going in and out of Lua as others see it, and what claiming a thread means. */
#include "check.h"

#include <pthread.h>

#include "base/clock.h"
#include "run/watch.h"

static void the_outermost_stay_counts(void **state) {
  (void)state;
  struct watch w = {0};
  struct watch_place place = {{0}, 0, 0};
  uint64_t entry, again;
  assert_false(watch_inside(&w, &entry));
  assert_false(watch_claim(&w, entry));
  watch_enter(&w, WATCH_RUNNING, 3, 17, &place);
  assert_true(watch_inside(&w, &entry));
  watch_enter(&w, WATCH_COLLECTING, 0, WATCH_NO_SESSION, NULL); /* inside: nothing new */
  assert_true(watch_inside(&w, &again) && again == entry);
  assert_int_equal(w.what, WATCH_RUNNING);
  assert_int_equal(w.kind, 3);
  assert_int_equal(w.session, 17);
  assert_ptr_equal(w.place, &place);
  watch_leave(&w);
  assert_true(watch_inside(&w, &again) && again == entry);
  watch_leave(&w);
  assert_false(watch_inside(&w, &again));
  assert_false(watch_claim(&w, entry)); /* it left */
  watch_enter(&w, WATCH_LOADING, 0, WATCH_NO_SESSION, NULL);
  assert_true(watch_inside(&w, &again) && again != entry);
  assert_false(watch_claim(&w, entry)); /* another stay */
  assert_true(watch_claim(&w, again));
  assert_false(watch_claim(&w, again)); /* once */
  assert_false(watch_inside(&w, &again));
  watch_enter(NULL, WATCH_LOADING, 0, 0, NULL);
  watch_leave(NULL);
  watch_block(NULL, true);
}

static void places_are_read_whole(void **state) {
  (void)state;
  struct watch_place p = {{0}, 0, 0};
  char text[100];
  assert_false(watch_read_place(&p, text, sizeof text));
  assert_string_equal(text, "");
  assert_false(watch_read_place(NULL, text, sizeof text));
  assert_string_equal(text, "");
  watch_set_place(&p, "s.lua", 12, true);
  assert_true(watch_read_place(&p, text, sizeof text));
  assert_string_equal(text, "s.lua:12");
  watch_set_place(&p, "0123456789012345678901234567890123456789012345678901234567890123456789", 7,
                  false);
  assert_false(watch_read_place(&p, text, sizeof text));
  assert_string_equal(text, "012345678901234567890123456789012345678901234567890123456789012:7");
  watch_set_place(&p, "x", -1, false); /* a C function has no line */
  watch_read_place(&p, text, sizeof text);
  assert_string_equal(text, "");
}

struct claimed {
  struct watch watch;
  int before, after; /* plain: claiming is what orders them */
  bool inside, go_on;
};

static void *be_claimed(void *arg) {
  struct claimed *c = arg;
  c->before = 1;
  watch_enter(&c->watch, WATCH_RUNNING, 0, 1, NULL);
  while (!__atomic_load_n(&c->go_on, __ATOMIC_RELAXED))
    clock_sleep_ns(NS_PER_MS);
  watch_leave(&c->watch);
  c->after = 1;
  return NULL;
}

static void a_claimed_thread_stops_on_its_way_out(void **state) {
  (void)state;
  static struct claimed c;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, be_claimed, &c), 0);
  uint64_t entry;
  while (!watch_inside(&c.watch, &entry))
    clock_sleep_ns(NS_PER_MS);
  assert_true(watch_claim(&c.watch, entry));
  assert_int_equal(c.before, 1);
  __atomic_store_n(&c.go_on, true, __ATOMIC_RELAXED);
  clock_sleep_ns(50 * NS_PER_MS);
  assert_int_equal(c.after, 0);
  pthread_cancel(thread); /* pause is where it stands */
  pthread_join(thread, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_outermost_stay_counts),
      cmocka_unit_test(places_are_read_whole),
      cmocka_unit_test(a_claimed_thread_stops_on_its_way_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
