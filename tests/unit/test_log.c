/* test_log.c: levels, one line per call, the sink. */
#include "check.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static void writes_whole_lines(void **state) {
  (void)state;
  int pipe_fds[2];
  assert_int_equal(pipe(pipe_fds), 0);
  log_set_stderr(false);
  log_set_sink(pipe_fds[1]);
  log_set_level(LOG_WARN);
  log_info("not seen");
  log_warn("two\nlines n=%d", 5);
  log_set_level(LOG_DEBUG);
  log_debug("seen");
  char long_text[4000];
  memset(long_text, 'x', sizeof long_text - 1);
  long_text[sizeof long_text - 1] = '\0';
  log_error("%s", long_text);
  log_keep("printed", 7);
  log_keep("with its end\n", 13);
  log_set_zero(clock_ns() - 2 * NS_PER_S);
  log_keep("stamped", 7);
  log_set_zero(clock_ns() + NS_PER_S);
  log_debug("before it");
  char out[8192];
  ssize_t n = read(pipe_fds[0], out, sizeof out - 1);
  assert_true(n > 0);
  out[n] = '\0';
  check_has(out, "perigee: level=warn two lines n=5\nperigee: level=debug seen\n"
                 "perigee: level=error xxx");
  check_has(out, "\nprinted\nwith its end\n[2.0");
  check_has(out, "] stamped\n[0.000] perigee: level=debug before it\n");
  assert_null(strstr(out, "not seen"));
  assert_int_equal(out[n - 1], '\n');
  log_set_sink(-1);
  log_set_stderr(true);
  log_set_level(LOG_WARN);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(writes_whole_lines)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
