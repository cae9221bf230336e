/* test_rundir.c: the folder's name, files whole or not at all. */
#include "check.h"
#include <fcntl.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "out/rundir.h"

#define WALL (UINT64_C(1795876696) * NS_PER_S) /* 2026-11-28 14:38:16 UTC */

static char base[] = "/tmp/perigee-rundir-XXXXXX";

static struct rundir create(const char *label) {
  char parent[64];
  snprintf(parent, sizeof parent, "%s/some/results", base);
  struct rundir d;
  struct err err;
  check_ok(rundir_create(parent, label, WALL, &d, &err), &err);
  return d;
}

static void names(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"demo", "demo-20261128-143816"},
      {"demo", "demo-20261128-143816-2"}, /* nothing is overwritten */
      {"demo", "demo-20261128-143816-3"},
      {NULL, "run-20261128-143816"},
      {"", "run-20261128-143816-2"},
      {"a/../b c;ü", "a-..-b-c----20261128-143816"},
      {"..", "-.-20261128-143816"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct rundir d = create(cases[i][0]);
    assert_string_equal(d.id, cases[i][1]);
    struct stat st;
    assert_int_equal(stat(d.path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    check_has(d.path, "/some/results/");
    rundir_free(&d);
  }
}

static void check_file(const struct rundir *d, const char *name, const char *want) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", d->path, name);
  char *data = check_read_file(path, NULL);
  assert_string_equal(data, want);
  free(data);
  snprintf(path, sizeof path, "%s/%s.part", d->path, name);
  assert_int_equal(access(path, F_OK), -1);
}

static void files(void **state) {
  (void)state;
  struct rundir d = create("files");
  struct err err;
  check_ok(rundir_write(&d, "report.md", "one", 3, &err), &err);
  check_ok(rundir_write(&d, "report.md", "two!", 4, &err), &err);
  check_file(&d, "report.md", "two!");
  struct value v = value_object();
  value_set(&v, "valid", value_bool(true));
  check_ok(rundir_write_value(&d, "summary.json", &v, &err), &err);
  check_file(&d, "summary.json", "{\n  \"valid\": true\n}\n");
  value_free(&v);
  check_ok(rundir_write(&d, "scripts/lib/x.lua", "three", 5, &err), &err);
  check_file(&d, "scripts/lib/x.lua", "three");
  check_ok(rundir_write(&d, "empty", NULL, 0, &err), &err);
  check_file(&d, "empty", "");
  rundir_free(&d);
}

static void a_full_disk(void **state) {
  (void)state;
  struct rundir d = create("full");
  struct err err;
  check_ok(rundir_write(&d, "summary.json", "old", 3, &err), &err);
  struct rlimit before, small;
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  small.rlim_cur = 1000;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  char big[5000] = {0};
  int rc = rundir_write(&d, "summary.json", big, sizeof big, &err);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
  assert_int_equal(rc, ERR_IO);
  check_has(err.text, "/summary.json: File too large; free space there, or choose another place");
  check_file(&d, "summary.json", "old"); /* what was there stays, no half file beside it */
  rundir_free(&d);
}

static void room_is_kept_and_given_back(void **state) {
  (void)state;
  struct rundir d = create("room");
  struct err err;
  check_ok(rundir_reserve(&d, 300000, &err), &err);
  assert_true(d.has_room);
  struct stat held;
  assert_int_equal(fstat(d.room_fd, &held), 0);
  assert_true(held.st_blocks * 512 >= 300000);
  assert_int_equal(held.st_nlink, 0);
  assert_int_equal(rmdir(d.path), 0); /* nothing is in it */
  int fd = d.room_fd;
  rundir_release(&d);
  assert_int_equal(fcntl(fd, F_GETFD), -1);
  rundir_release(&d);
  rundir_free(&d);
}

static void where_files_cannot_be_that_long_none_is_kept(void **state) {
  (void)state;
  struct rundir d = create("short");
  struct err err;
  struct rlimit before, small;
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  small.rlim_cur = 1000;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  int rc = rundir_reserve(&d, 300000, &err);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
  check_ok(rc, &err);
  assert_false(d.has_room);
  rundir_free(&d);
}

static void places_that_cannot_be(void **state) {
  (void)state;
  struct rundir d;
  struct err err;
  char path[128];
  snprintf(path, sizeof path, "%s/file", base);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fclose(f);
  snprintf(path, sizeof path, "%s/file/results", base);
  assert_int_equal(rundir_create(path, "x", WALL, &d, &err), ERR_IO);
  check_has(err.text, "cannot make the folder ");
  check_has(err.text, "Not a directory; choose another place with --out DIR");
  assert_null(d.path);
  rundir_free(&d);
}

static void what_is_there(void **state) {
  (void)state;
  struct rundir d;
  struct err err = {0};
  check_ok(rundir_create(base, "there", WALL, &d, &err), &err);
  struct value v = rundir_names(&d);
  assert_int_equal(value_count(&v), 0);
  value_free(&v);
  check_ok(rundir_write(&d, "scripts/a.lua", "x", 1, &err), &err);
  v = rundir_names(&d);
  assert_int_equal(value_count(&v), 1);
  assert_string_equal(value_to_string(value_at(&v, 0)), "scripts/");
  value_free(&v);
  check_ok(rundir_write(&d, "run.json", "x", 1, &err), &err);
  v = rundir_names(&d);
  assert_int_equal(value_count(&v), 2);
  value_free(&v);
  rundir_free(&d);
}

static int set_up(void **state) {
  (void)state;
  return mkdtemp(base) ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  char command[80];
  snprintf(command, sizeof command, "rm -r '%s'", base);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names),
      cmocka_unit_test(files),
      cmocka_unit_test(a_full_disk),
      cmocka_unit_test(room_is_kept_and_given_back),
      cmocka_unit_test(where_files_cannot_be_that_long_none_is_kept),
      cmocka_unit_test(places_that_cannot_be),
      cmocka_unit_test(what_is_there),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
