/* test_linefile.c: lines of a file and the fields of a line. */
#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "out/linefile.h"

static struct jsonslice slice(const char *text) {
  return (struct jsonslice){text, text + strlen(text)};
}

static char *file_with(const char *text) {
  static char path[64];
  snprintf(path, sizeof path, "/tmp/test_linefile.%d", (int)getpid());
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  return path;
}

static void test_lines(void **state) {
  (void)state;
  struct linefile f;
  struct jsonslice line;
  struct err err;
  size_t at = 0;
  check_ok(linefile_open(&f, file_with("one\n\nthree\nunfinished"), &err), &err);
  assert_true(linefile_next(&f, &at, &line));
  assert_memory_equal(line.p, "one", 3);
  assert_int_equal(line.end - line.p, 3);
  assert_true(linefile_next(&f, &at, &line));
  assert_int_equal(line.end - line.p, 0);
  assert_true(linefile_next(&f, &at, &line));
  assert_int_equal(line.end - line.p, 5);
  assert_false(linefile_next(&f, &at, &line));
  assert_true(linefile_is_cut(&f));
  linefile_close(&f);
  at = 0;
  check_ok(linefile_open(&f, file_with(""), &err), &err);
  assert_false(linefile_next(&f, &at, &line));
  assert_false(linefile_is_cut(&f));
  linefile_close(&f);
  check_ok(linefile_open(&f, file_with("whole\n"), &err), &err);
  assert_false(linefile_is_cut(&f));
  linefile_close(&f);
  unlink(file_with(""));
}

static void test_files_that_are_none(void **state) {
  (void)state;
  struct linefile f;
  struct err err;
  assert_int_equal(linefile_open(&f, "/nowhere/x", &err), ERR_IO);
  check_has(err.text, "cannot read /nowhere/x: No such file");
  assert_int_equal(linefile_open(&f, "/tmp", &err), ERR_IO);
  check_has(err.text, "cannot read /tmp: it is no regular file");
  /* nobody writes into it: that must not be waited for */
  const char *fifo = file_with("");
  unlink(fifo);
  assert_int_equal(mkfifo(fifo, 0600), 0);
  assert_int_equal(linefile_open(&f, fifo, &err), ERR_IO);
  check_has(err.text, "it is no regular file");
  unlink(fifo);
}

static void test_fields(void **state) {
  (void)state;
  const struct jsonslice none = {0};
  assert_int_equal(linefile_stamp(slice("18446744073709551615"), 1), UINT64_MAX);
  assert_int_equal(linefile_stamp(slice("18446744073709551616"), 1), 1);
  assert_int_equal(linefile_stamp(slice("null"), 7), 7);
  assert_int_equal(linefile_stamp(none, 7), 7);
  assert_int_equal(linefile_int(slice("-12"), 0), -12);
  assert_int_equal(linefile_int(slice("9223372036854775807"), 0), INT64_MAX);
  assert_int_equal(linefile_int(slice("9223372036854775808"), -1), -1);
  assert_int_equal(linefile_int(slice("1.5"), -1), -1);
  assert_int_equal(linefile_int(none, -1), -1);
  assert_true(linefile_true(slice("true")));
  assert_false(linefile_true(slice("false")));
  assert_false(linefile_true(none));
  struct jsonslice a = linefile_string(slice("\"abc\"")), b = linefile_string(slice("\"abd\""));
  assert_int_equal(a.end - a.p, 3);
  assert_true(linefile_same(a, linefile_string(slice("\"abc\""))));
  assert_false(linefile_same(a, b));
  assert_null(linefile_string(slice("null")).p);
  assert_false(linefile_same(none, none));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_files_that_are_none),
      cmocka_unit_test(test_fields),
  };
  return cmocka_run_group_tests_name("linefile", tests, NULL, NULL);
}
