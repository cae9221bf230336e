/* test_rowfile.c: whole rows, whatever the disk says. */
#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "out/rowfile.h"

static char dir[] = "/tmp/perigee-rowfile-XXXXXX";
static char path[64];

static void rows_end_with_a_line_feed(void **state) {
  (void)state;
  struct rowfile f;
  struct err err = {0};
  rowfile_init(&f);
  check_ok(rowfile_open(&f, dir, "rows.jsonl", &err), &err);
  for (int i = 0; i < 3; i++) {
    assert_true(rowfile_takes(&f));
    buf_printf(&f.rows, "{\"i\":%d}", i);
    rowfile_row(&f);
  }
  assert_int_equal(f.written, 0);
  rowfile_write(&f);
  assert_int_equal(f.written, 3);
  rowfile_close(&f);
  check_ok(rowfile_result(&f, &err), &err);
  rowfile_free(&f);
  size_t len;
  char *data = check_read_file(path, &len);
  assert_string_equal(data, "{\"i\":0}\n{\"i\":1}\n{\"i\":2}\n");
  free(data);
}

static void much_is_written_before_it_is_asked(void **state) {
  (void)state;
  struct rowfile f;
  struct err err = {0};
  rowfile_init(&f);
  check_ok(rowfile_open(&f, dir, "rows.jsonl", &err), &err);
  char row[4096];
  memset(row, 'x', sizeof row);
  for (int i = 0; i < 256; i++) {
    buf_put(&f.rows, row, sizeof row);
    rowfile_row(&f);
  }
  assert_int_equal(f.written, 256);
  rowfile_free(&f);
}

static void a_full_disk_loses_whole_rows(void **state) {
  (void)state;
  unlink(path);
  assert_int_equal(symlink("/dev/full", path), 0);
  struct rowfile f;
  struct err err = {0};
  rowfile_init(&f);
  check_ok(rowfile_open(&f, dir, "rows.jsonl", &err), &err);
  log_set_stderr(false);
  buf_puts(&f.rows, "{}");
  rowfile_row(&f);
  rowfile_write(&f);
  log_set_stderr(true);
  assert_false(rowfile_takes(&f)); /* lost, and counted */
  assert_int_equal(f.lost, 2);
  rowfile_close(&f);
  assert_int_equal(rowfile_result(&f, &err), ERR_IO);
  check_has(err.text, path);
  check_has(err.text, "No space left on device; 2 of 2 rows are missing from the file");
  rowfile_free(&f);
  unlink(path);
}

static void no_file_no_rows(void **state) {
  (void)state;
  struct rowfile f;
  struct err err = {0};
  rowfile_init(&f);
  assert_false(rowfile_takes(&f));
  assert_int_equal(f.lost, 0);
  check_ok(rowfile_result(&f, &err), &err);
  assert_int_equal(rowfile_open(&f, "/tmp/perigee-not-there", "rows.jsonl", &err), ERR_IO);
  check_has(err.text, "cannot create /tmp/perigee-not-there/rows.jsonl: No such file");
  rowfile_free(&f);
}

static int set_up(void **state) {
  (void)state;
  if (!mkdtemp(dir))
    return -1;
  snprintf(path, sizeof path, "%s/rows.jsonl", dir);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  unlink(path);
  return rmdir(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_end_with_a_line_feed),
      cmocka_unit_test(much_is_written_before_it_is_asked),
      cmocka_unit_test(a_full_disk_loses_whole_rows),
      cmocka_unit_test(no_file_no_rows),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
