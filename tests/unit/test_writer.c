/* test_writer.c: rows reach the file and the table from several threads; a full disk. */
#include "check.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "out/recorder.h"
#include "out/writer.h"
#include "out_rows.h"
#include "text/json.h"

static char dir[] = "/tmp/perigee-writer-XXXXXX";
static char file[64], values[64];

static struct writer *start(const char *where) {
  struct writer_options o = {.dir = where, .run_id = "run-1", .with_itl = false};
  struct writer *w;
  struct err err;
  check_ok(writer_start(&o, &w, &err), &err);
  return w;
}

struct job {
  pthread_t thread;
  struct writer *writer;
  uint32_t number, rows;
};

static void *work(void *arg) {
  struct job *job = arg;
  struct recorder *r = recorder_new(job->writer, job->number);
  for (uint32_t i = 0; i < job->rows; i++) {
    uint64_t session = job->number * 100000 + i / 10;
    recorder_sample(r, row_tokens(row_ok(session, i % 10 + 1, i, 20, 100), 100, 11, 0));
    if (i % 10 == 9) {
      struct session_record s =
          row_session(session, 0, 1, i % 100 == 99 ? SAMPLE_SCRIPT : SAMPLE_OK);
      recorder_session_started(r);
      recorder_session(r, &s);
    }
    if (i % 7 == 0) {
      struct value_record v = {
          .name = "x", .value = 1, .tags = mem_strdup("{\"a\":1}"), .measured = true};
      recorder_value(r, &v);
    }
    recorder_set_probing(r, true);
    recorder_timer_late(r, 1000 + i);
    recorder_wakeup_busy(r, 5);
    recorder_read_error(r, 6);
    recorder_start_lag(r, 7);
    recorder_no_kernel_stamp(r);
    if (i % 100 == 0)
      recorder_flush(r);
  }
  recorder_cpu(r, 0.1 * job->number);
  recorder_delete(r);
  return NULL;
}

static void four_workers_one_file(void **state) {
  (void)state;
  enum { WORKERS = 4, ROWS = 3000 };
  struct writer *w = start(dir);
  struct job jobs[WORKERS];
  for (uint32_t i = 0; i < WORKERS; i++) {
    jobs[i] = (struct job){.writer = w, .number = i, .rows = ROWS};
    assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
  }
  struct live live;
  for (int i = 0; i < 20; i++) /* the live line reads while they write */
    writer_live(w, &live);
  for (uint32_t i = 0; i < WORKERS; i++)
    pthread_join(jobs[i].thread, NULL);
  struct err err;
  check_ok(writer_stop(w, &err), &err);
  writer_live(w, &live);
  assert_int_equal(live.requests, WORKERS * ROWS);
  assert_int_equal(live.ok, WORKERS * ROWS);
  assert_int_equal(live.output_tokens, WORKERS * ROWS * 11);
  assert_int_equal(live.sessions_started, WORKERS * ROWS / 10);
  assert_int_equal(live.sessions_ended, WORKERS * ROWS / 10);
  assert_int_equal(live.sessions_failed, WORKERS * ROWS / 100);
  assert_int_equal(live.backlog, 0);
  assert_int_equal(live.rows_written, WORKERS * ROWS);
  assert_int_equal(live.ttft_n, 512);
  check_near(live.ttft_p50_s, 0.020, 0.0);
  assert_false(live.write_failed);

  struct table *t = writer_table(w);
  assert_int_equal(t->n_rows, WORKERS * ROWS);
  assert_int_equal(t->n_sessions, WORKERS * ROWS / 10);
  assert_int_equal(t->n_values, WORKERS * ((ROWS + 6) / 7));
  assert_int_equal(t->n_clusters, WORKERS * ROWS / 10);
  assert_int_equal(t->probe.timer_late.n, WORKERS * ROWS);
  assert_int_equal(t->probe.start_lag.n, WORKERS * ROWS);
  assert_int_equal(t->probe.read_error.max, 6);
  assert_int_equal(t->probe.wakeup_busy.min, 5);
  assert_int_equal(t->probe.no_kernel_stamp, WORKERS * ROWS);
  assert_int_equal(t->probe.n_cpu, WORKERS);
  check_near(t->probe.cpu_max, 0.3, 1e-12);
  assert_int_equal(t->probe.cpu_worker, 3);
  writer_delete(w);

  size_t len, rows = 0;
  char *data = check_read_file(file, &len);
  for (char *line = data, *end; line < data + len; line = end + 1) {
    end = strchr(line, '\n');
    assert_non_null(end);
    struct value v;
    check_ok(json_parse(line, (size_t)(end - line), &v, &err), &err);
    assert_string_equal(value_to_string(value_get(&v, "run")), "run-1");
    value_free(&v);
    rows++;
  }
  assert_int_equal(rows, WORKERS * ROWS);
  free(data);
  data = check_read_file(values, &len);
  static const char row[] =
      "{\"v\":1,\"run\":\"run-1\",\"arm\":null,\"session\":0,\"measured\":true,"
      "\"t_ns\":0,\"metric\":\"x\",\"check\":null,\"value\":1.0,"
      "\"tags\":{\"a\":1}}\n";
  assert_int_equal(len, WORKERS * ((ROWS + 6) / 7) * (sizeof row - 1));
  for (size_t i = 0; i < len; i += sizeof row - 1)
    assert_memory_equal(data + i, row, sizeof row - 1);
  free(data);
}

static void a_full_disk_for_values(void **state) {
  (void)state;
  unlink(values);
  assert_int_equal(symlink("/dev/full", values), 0);
  struct writer *w = start(dir);
  log_set_stderr(false);
  struct recorder *r = recorder_new(w, 0);
  struct value_record v = {.name = "ok", .value = 1, .is_check = true};
  recorder_value(r, &v);
  recorder_sample(r, row_ok(1, 1, 0, 1, 1));
  recorder_delete(r);
  struct err err;
  assert_int_equal(writer_stop(w, &err), ERR_IO);
  log_set_stderr(true);
  check_has(err.text, "values.jsonl: No space left on device; 1 of 1 rows are missing");
  struct live live;
  writer_live(w, &live);
  assert_true(live.write_failed);
  assert_int_equal(live.rows_written, 1);
  writer_delete(w);
  unlink(values);
}

static void rows_are_on_disk_while_it_runs(void **state) {
  (void)state;
  struct writer *w = start(dir);
  struct recorder *r = recorder_new(w, 0);
  recorder_sample(r, row_ok(1, 1, 0, 1, 1));
  recorder_flush(r);
  struct live live = {0};
  writer_live(w, &live); /* what was handed over counts at once, and once */
  assert_int_equal(live.requests, 1);
  writer_live(w, &live);
  assert_int_equal(live.requests, 1);
  for (int i = 0; i < 2000 && !live.rows_written; i++) {
    clock_sleep_ns(MS);
    writer_live(w, &live);
  }
  assert_int_equal(live.rows_written, 1);
  assert_int_equal(live.requests, 1);
  size_t len;
  char *data = check_read_file(file, &len);
  assert_true(len > 100 && data[len - 1] == '\n');
  free(data);
  recorder_sample(r, row_failed(1, 1, 0, SAMPLE_RESET)); /* recorder_delete flushes the rest */
  recorder_delete(r);
  recorder_delete(NULL);
  struct err err;
  check_ok(writer_stop(w, &err), &err);
  assert_int_equal(writer_table(w)->n_rows, 2);
  writer_delete(w);
}

static void a_full_batch_goes_by_itself(void **state) {
  (void)state;
  struct writer *w = start(dir);
  struct recorder *r = recorder_new(w, 0);
  for (int i = 0; i < 300; i++)
    recorder_sample(r, row_ok((uint64_t)i, 1, 0, 1, 1));
  struct live live = {0};
  for (int i = 0; i < 2000 && !live.rows_written; i++) {
    clock_sleep_ns(MS);
    writer_live(w, &live);
  }
  assert_int_equal(live.rows_written, 256);
  recorder_delete(r);
  struct err err;
  check_ok(writer_stop(w, &err), &err);
  assert_int_equal(writer_table(w)->n_rows, 300);
  writer_delete(w);
}

/* Past RLIMIT_FSIZE a write fails as on a full disk. */
static void a_full_disk_is_said_once_and_the_run_goes_on(void **state) {
  (void)state;
  struct rlimit before, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 20000;
  struct writer *w = start(dir);
  log_set_stderr(false);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  struct recorder *r = recorder_new(w, 0);
  for (int i = 0; i < 1000; i++)
    recorder_sample(r, row_ok((uint64_t)i, 1, 0, 1, 1));
  recorder_delete(r);
  struct err err;
  assert_int_equal(writer_stop(w, &err), ERR_IO);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  log_set_stderr(true);
  assert_int_equal(writer_table(w)->n_rows, 1000);
  struct live live;
  writer_live(w, &live);
  assert_true(live.write_failed);
  assert_true(live.rows_written > 5 && live.rows_written < 30);
  writer_delete(w);

  size_t len;
  char *data = check_read_file(file, &len); /* whole rows only */
  assert_true(len > 10000 && len <= 20000);
  assert_int_equal(data[len - 1], '\n');
  uint64_t rows = 0;
  for (char *p = data; (p = strchr(p, '\n')); p++)
    rows++;
  assert_int_equal(rows, live.rows_written);
  free(data);
  char want[200];
  snprintf(want, sizeof want, "%s: File too large; %u of 1000 rows are missing from the file", file,
           (unsigned)(1000 - rows));
  check_has(err.text, want);
  check_has(err.text, "--out DIR");
}

static void dev_full(void **state) {
  (void)state;
  unlink(file);
  assert_int_equal(symlink("/dev/full", file), 0);
  struct writer *w = start(dir);
  log_set_stderr(false);
  struct recorder *r = recorder_new(w, 0);
  recorder_sample(r, row_ok(1, 1, 0, 1, 1));
  recorder_delete(r);
  struct err err;
  assert_int_equal(writer_stop(w, &err), ERR_IO);
  log_set_stderr(true);
  check_has(err.text, "No space left on device; 1 of 1 rows are missing from the file");
  writer_delete(w);
  unlink(file);
}

static void no_folder_no_writer(void **state) {
  (void)state;
  struct writer_options o = {.dir = "/tmp/perigee-not-there", .run_id = "x"};
  struct writer *w;
  struct err err;
  assert_int_equal(writer_start(&o, &w, &err), ERR_IO);
  check_has(err.text, "cannot create /tmp/perigee-not-there/samples.jsonl: No such file");
}

static void without_a_file(void **state) {
  (void)state;
  struct writer *w = start(NULL);
  struct live live;
  writer_live(w, &live);
  assert_int_equal(live.ttft_n, 0);
  assert_true(isnan(live.ttft_p50_s));
  struct recorder *r = recorder_new(w, 0);
  struct sample *s = row_failed(1, 1, 0, SAMPLE_HTTP_5XX);
  s->is_generation = false;
  recorder_sample(r, s);
  recorder_sample(r, row_failed(1, 1, 0, SAMPLE_INCOMPLETE));
  recorder_delete(r);
  struct err err;
  check_ok(writer_stop(w, &err), &err);
  writer_live(w, &live);
  assert_int_equal(live.requests, 1);
  assert_int_equal(live.failed, 0);
  assert_int_equal(live.other_requests, 1);
  assert_int_equal(live.other_failed, 1);
  assert_int_equal(writer_table(w)->n_rows, 2);
  writer_delete(w);
}

static int set_up(void **state) {
  (void)state;
  if (!mkdtemp(dir))
    return -1;
  snprintf(file, sizeof file, "%s/samples.jsonl", dir);
  snprintf(values, sizeof values, "%s/values.jsonl", dir);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  unlink(file);
  unlink(values);
  return rmdir(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(four_workers_one_file),
      cmocka_unit_test(rows_are_on_disk_while_it_runs),
      cmocka_unit_test(a_full_batch_goes_by_itself),
      cmocka_unit_test(a_full_disk_is_said_once_and_the_run_goes_on),
      cmocka_unit_test(dev_full),
      cmocka_unit_test(a_full_disk_for_values),
      cmocka_unit_test(no_folder_no_writer),
      cmocka_unit_test(without_a_file),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
