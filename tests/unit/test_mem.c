/* test_mem.c: copies, growth, and that an overflowing size ends the process with a message. */
#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"

static void copies_and_grows(void **state) {
  (void)state;
  char *s = mem_strndup("hello", 3);
  assert_string_equal(s, "hel");
  mem_free(s);
  s = mem_dup(NULL, 0);
  assert_non_null(s);
  mem_free(s);
  int *array = NULL;
  size_t n = 0, cap = 0;
  for (int i = 0; i < 100; i++) {
    MEM_GROW(array, n, cap);
    array[n++] = i;
  }
  assert_true(cap >= 100);
  assert_int_equal(array[99], 99);
  mem_free(array);
}

static void overflow_aborts(void **state) {
  (void)state;
  pid_t pid = fork();
  if (pid == 0) {
    (void)!freopen("/dev/null", "w", stderr);
    signal(SIGABRT, SIG_DFL);
    volatile size_t huge = SIZE_MAX / 2;
    (void)mem_resize(NULL, huge, 4);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_and_grows),
      cmocka_unit_test(overflow_aborts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
