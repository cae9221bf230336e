/* test_mem.c: copies, growth, and that an overflowing size ends the process with a message. */
#include "check.h"

#include <signal.h>
#include <sys/resource.h>
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

/* Under a sanitizer there is no limit of address space. */
#define LIMITED (!CHECK_SANITIZED)

#define MB ((size_t)1 << 20)

/* In a child with 64 MiB left: what it returns is its exit status. */
static int with_little_memory(int (*fn)(void)) {
  pid_t pid = fork();
  if (pid == 0) {
    (void)!freopen("/dev/null", "w", stderr);
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%zu", &pages) != 1)
      _exit(100);
    fclose(f);
    rlim_t limit = pages * (size_t)sysconf(_SC_PAGESIZE) + 64 * MB;
    if (setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}))
      _exit(101);
    _exit(fn());
  }
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int use_the_reserve(void) {
  mem_keep_reserve(32 * MB, 77);
  if (mem_is_low() || !mem_probe(8 * MB) || mem_is_low())
    return 1;
  size_t n = 0;
  while (!mem_is_low() && n < 1000) {
    mem_alloc(MB); /* kept */
    n++;
  }
  if (n < 20 || n > 40) /* 64 − 32 */
    return 2;
  for (int i = 0; i < 20; i++) /* in the reserve */
    mem_alloc(MB);
  mem_free_reserve();
  if (mem_probe(32 * MB) || !mem_is_low())
    return 3;
  for (;;)
    mem_resize(NULL, 1, MB); /* ends with 77 */
}

static int grow_until_there_is_no_more(void) {
  uint64_t *array = NULL;
  size_t n = 0, cap = 0;
  for (;;) {
    uint64_t *more = mem_try_grow(array, n, &cap, sizeof *array);
    if (!more)
      break;
    array = more;
    array[n] = n;
    n++;
  }
  bool whole = mem_is_low() && n == cap && n * sizeof *array > 40 * MB;
  for (size_t i = 0; i < n; i++)
    whole = whole && array[i] == i;
  return whole ? 0 : 1;
}

static void running_out_ends_in_two_steps(void **state) {
  (void)state;
  if (!LIMITED)
    skip();
  assert_int_equal(with_little_memory(use_the_reserve), 77);
}

static void large_arrays_take_what_there_is(void **state) {
  (void)state;
  size_t cap = 0;
  char *p = mem_try_grow(NULL, 0, &cap, 1);
  assert_int_equal(cap, 8);
  p = mem_try_grow(p, 8, &cap, 1);
  assert_int_equal(cap, 16);
  assert_ptr_equal(mem_try_grow(p, 15, &cap, 1), p);
  mem_free(p);
  if (LIMITED)
    assert_int_equal(with_little_memory(grow_until_there_is_no_more), 0);
}

/* 64 GiB of address space, a few pages of memory. */
static void pages_cost_what_is_touched(void **state) {
  (void)state;
  size_t bytes = LIMITED ? (size_t)1 << 36 : (size_t)1 << 20;
  char *p = mem_pages(bytes);
  assert_int_equal(p[0], 0);
  assert_int_equal(p[bytes - 1], 0);
  p[bytes / 2] = 1;
  mem_pages_free(p, bytes);
  p = mem_pages(0);
  mem_pages_free(p, 0);
  mem_pages_free(NULL, 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_and_grows),
      cmocka_unit_test(overflow_aborts),
      cmocka_unit_test(running_out_ends_in_two_steps),
      cmocka_unit_test(pages_cost_what_is_touched),
      cmocka_unit_test(large_arrays_take_what_there_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
