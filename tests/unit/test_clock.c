/* test_clock.c: clocks go forward and agree with each other; no bound on how fast anything is. */
#include "check.h"

#include "base/clock.h"

static void clocks_agree(void **state) {
  (void)state;
  uint64_t before = clock_ns();
  clock_sleep_ns(2000000);
  uint64_t after = clock_ns();
  assert_true(after - before >= 2000000);
  int64_t offset = clock_realtime_offset_ns();
  uint64_t mono = clock_ns(), wall = clock_wall_ns();
  int64_t diff = (int64_t)wall - (int64_t)mono - offset;
  assert_true(diff >= -1000000 && diff < INT64_C(10000000000));
  char text[32];
  clock_format_utc(UINT64_C(1795963096) * NS_PER_S, text, sizeof text);
  assert_string_equal(text, "2026-11-29T14:38:16Z");
  uint64_t coarse = clock_coarse_ns();
  assert_true(coarse <= clock_ns());
  clock_sleep_ns(40 * NS_PER_MS); /* its steps are 1 to 10 ms */
  assert_true(clock_coarse_ns() >= coarse + 20 * NS_PER_MS);
  uint64_t cpu = clock_thread_cpu_ns();
  assert_true(cpu > 0);
  uint64_t of_thread;
  assert_true(clock_cpu_of_thread(pthread_self(), &of_thread));
  assert_true(of_thread >= cpu && of_thread <= clock_thread_cpu_ns());
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(clocks_agree)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
