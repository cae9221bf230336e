/* test_verify.c: small made histories of a run and its fleet: the join, the errors, the counts
 * (verify.c, verify_errors.c, rowlog.c, truthlog.c), and the token ledger (verify_ledger.c). */
#include "check.h"

#include <math.h>
#include <unistd.h>

#include "out/checks.h"
#include "out/metrics.h"
#include "out/rowlog.h"
#include "out/verify.h"
#include "out_rows.h"
#include "text/json.h"

#define ZERO UINT64_C(7000000000000)
#define BLOCK 16

static char folder[] = "/tmp/perigee-verify-XXXXXX";
static char samples[64], truth[64];

/* One request as the client saw it (ms since the zero) and as the fleet had it. */
struct request {
  const char *id, *replica;
  double start_ms, done_ms;
  int prompt, output, cached; /* usage */
  /* the fleet's */
  int after, fresh; /* its chain */
  int available, captured, delivered, offload, shared;
  enum sample_error error;
  bool no_line, no_row;
};

static void check_write_file(const char *path, const char *data, size_t len) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, len, f), len);
  assert_int_equal(fclose(f), 0);
}

static void write_files(const struct request *r, size_t n) {
  struct buf rows, lines;
  buf_init(&rows, BUF_MAX_OWN);
  buf_init(&lines, BUF_MAX_OWN);
  for (size_t i = 0; i < n; i++) {
    struct sample *s = row_ok(i, 1, r[i].start_ms, r[i].done_ms - r[i].start_ms - 2, 1);
    row_tokens(s, r[i].prompt, r[i].output, r[i].cached);
    s->error = r[i].error;
    s->output_events = 2;
    s->n_gaps = 1;
    s->gaps_ns = mem_dup(&(uint64_t){MS}, 8);
    s->served = mem_strdup("r0");
    s->chosen = mem_strdup("r0");
    if (r[i].id)
      s->request_id = mem_strdup(r[i].id);
    if (!r[i].no_row) {
      sample_write(&rows, s, "run", true);
      buf_putc(&rows, '\n');
    }
    uint64_t first = ZERO + s->t[STAMP_FIRST_TOKEN], last = ZERO + s->t[STAMP_LAST_TOKEN];
    if (!r[i].no_line)
      buf_printf(
          &lines,
          "{\"replica\":\"%s\",\"request_id\":%s%s%s,\"stream\":true,\"fault\":null,"
          "\"received_ns\":%llu,\"scheduled_ns\":%llu,\"prompts\":1,\"prompt_tokens\":%d,"
          "\"output_tokens\":%d,\"cached_tokens\":%d,\"offload_tokens\":%d,\"shared_tokens\":%d,"
          "\"transfer_tokens\":0,\"block_size\":16,\"captured_tokens\":%d,\"available_tokens\":%d,"
          "\"chains\":[[%d,%d]],\"first_visible_ns\":%llu,\"writes\":[{\"ns\":%llu,\"bytes\":0,"
          "\"kind\":\"headers\"},{\"ns\":%llu,\"bytes\":9,\"kind\":\"role\"},{\"ns\":%llu,"
          "\"bytes\":"
          "9,\"kind\":\"content\"},{\"ns\":%llu,\"bytes\":9,\"kind\":\"finish\"},{\"ns\":%llu,"
          "\"bytes\":9,\"kind\":\"done\"}]}\n",
          r[i].replica ? r[i].replica : "r0", r[i].id ? "\"" : "", r[i].id ? r[i].id : "null",
          r[i].id ? "\"" : "", (unsigned long long)(ZERO + s->t[STAMP_SENT] + 1000),
          (unsigned long long)(first - 5000), r[i].prompt, r[i].output, r[i].delivered,
          r[i].offload, r[i].shared, r[i].captured, r[i].available, r[i].after, r[i].fresh,
          (unsigned long long)first - 3000, (unsigned long long)first - 9000,
          (unsigned long long)first - 4000, (unsigned long long)first - 3000,
          (unsigned long long)last - 5000, (unsigned long long)last + 1000000 - 7000);
    sample_free(s);
  }
  check_write_file(samples, rows.data ? rows.data : "", rows.len);
  check_write_file(truth, lines.data ? lines.data : "", lines.len);
  buf_free(&rows);
  buf_free(&lines);
}

static void open_of(struct verify *v, const struct request *r, size_t n) {
  struct err err;
  write_files(r, n);
  check_ok(verify_open(v, samples, truth, ZERO, &err), &err);
}

/* ---- join and comparison ---- */

static double at(const struct value *v, const char *a, const char *b, const char *c) {
  double x = NAN;
  const struct value *f = value_get(value_get(v, a), b);
  value_to_double(c ? value_get(f, c) : f, &x);
  return x;
}

static void test_errors_and_counts(void **state) {
  (void)state;
  const struct request r[] = {
      {.id = "perigee-1-0-0",
       .start_ms = 10,
       .done_ms = 40,
       .prompt = 100,
       .output = 2,
       .fresh = 6},
      {.id = "perigee-1-0-1",
       .start_ms = 50,
       .done_ms = 90,
       .prompt = 100,
       .output = 2,
       .cached = 16,
       .delivered = 32,
       .after = 6,
       .replica = "r1"},
  };
  struct verify v;
  open_of(&v, r, 2);
  assert_int_equal(v.joined, 2);
  struct value out = verify_value(&v);
  assert_true(fabs(at(&out, "errors", "ttft", "max") - 3e-6) < 1e-12);
  assert_true(fabs(at(&out, "errors", "first_byte", "max") - 4e-6) < 1e-12);
  assert_true(fabs(at(&out, "errors", "first_visible", "max") - 3e-6) < 1e-12);
  assert_true(fabs(at(&out, "errors", "last_token", "max") - 5e-6) < 1e-12);
  assert_true(fabs(at(&out, "errors", "e2e", "max") - 7e-6) < 1e-12);
  assert_true(fabs(at(&out, "errors", "itl", "max") - 2e-6) < 1e-12);
  assert_true(fabs(at(&out, "errors", "tpot", "max") - 2e-6) < 1e-12);
  assert_true(isnan(at(&out, "errors", "ttft", "p50"))); /* two are too few */
  assert_true(at(&out, "counts", "prompt_tokens", "differ") == 0);
  assert_true(at(&out, "counts", "output_events", "differ") == 0);
  assert_true(at(&out, "counts", "cached_tokens", "differ") == 1);
  assert_true(at(&out, "replicas", "served_elsewhere", NULL) == 1);
  const struct value *first = value_at(value_get(&out, "first"), 0);
  assert_string_equal(value_to_string(value_get(first, "request_id")), "perigee-1-0-1");
  assert_string_equal(value_to_string(value_get(first, "what")), "cached_tokens");
  struct checks_truth c;
  verify_checks(&v, &c);
  assert_int_equal(c.differing, 1);
  assert_int_equal(c.missing, 0);
  assert_int_equal(c.n, 2);
  assert_true(isnan(c.ttft_error_s));
  value_free(&out);
  verify_close(&v);
}

static void check_reasons(const struct value *reasons, const char *want) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, reasons);
  assert_string_equal(b.data, want);
  buf_free(&b);
}

static void test_who_stays_alone(void **state) {
  (void)state;
  struct request r[] = {
      {.id = "perigee-1-0-0", .start_ms = 10, .done_ms = 40, .prompt = 100, .output = 2},
      {.id = "perigee-1-0-0", .start_ms = 20, .done_ms = 40, .prompt = 9, .no_row = true},
      {.id = "perigee-1-0-9", .start_ms = 10, .done_ms = 40, .prompt = 9, .no_row = true},
      {.id = "perigee-2-0-0", .start_ms = 10, .done_ms = 40, .prompt = 9, .no_row = true},
      {.start_ms = 10, .done_ms = 40, .prompt = 9, .no_row = true},
      {.id = "perigee-1-0-2", .start_ms = 10, .done_ms = 40, .prompt = 9, .no_line = true},
      {.id = "perigee-1-0-3",
       .start_ms = 10,
       .done_ms = 40,
       .prompt = 9,
       .no_line = true,
       .error = SAMPLE_CONNECT},
      {.id = "mine", .start_ms = 10, .done_ms = 40, .prompt = 9},
      {.id = "mine", .start_ms = 10, .done_ms = 40, .prompt = 9},
  };
  struct verify v;
  open_of(&v, r, ARRAY_LEN(r));
  assert_int_equal(v.joined, 1);
  assert_int_equal(v.rows[0].entry, 2); /* sent again: the last one counts */
  assert_int_equal(v.missing, 3);
  check_reasons(&v.rows_alone, "{\"ok\":1,\"connect\":1,\"id of several rows\":2}");
  check_reasons(&v.lines_alone, "{\"sent again\":1,\"no row\":1,\"of another client\":1,"
                                "\"no request id\":1,\"id of several rows\":2}");
  verify_close(&v);
}

static void check_refused(const char *rows, const char *lines, const char *text) {
  struct verify v;
  struct err err;
  if (rows)
    check_write_file(samples, rows, strlen(rows));
  if (lines)
    check_write_file(truth, lines, strlen(lines));
  assert_true(verify_open(&v, samples, truth, ZERO + 3600 * NS_PER_S, &err) < 0);
  check_has(err.text, text);
}

static void test_what_cannot_be_compared(void **state) {
  (void)state;
  const struct request r[] = {
      {.id = "a", .start_ms = 10, .done_ms = 40, .prompt = 100, .fresh = 6}};
  write_files(r, 1);
  check_refused(NULL, NULL, "1 of 1 requests reached the fleet before they were sent");
  check_refused("{\"v\":1}\n[]\n", NULL, "line 2: not a row of a run");
  check_refused("", "{\"replica\":\"r0\"}\n", "line 1: not a line of a truth log of this version");
  write_files(r, 1);
  check_refused(NULL, "[1]\n", "line 1: not a line");
  check_refused(NULL, "{\"request_id\":\"a\",\"received_ns\":1,garbage\n", "line 1: not a line");
  check_refused(NULL,
                "{\"replica\":\"r0\",\"request_id\":\"a\",\"received_ns\":1,\"block_size\":16,"
                "\"chains\":[],\"writes\":[{\"bytes\":1}]}\n",
                "line 1: not a line"); /* a write without its time */
  check_refused(NULL,
                "{\"replica\":\"r0\",\"request_id\":null,\"received_ns\":1,\"block_size\":16,"
                "\"chains\":[[4,1]],\"writes\":[]}\n",
                "line 1: not a line"); /* block 4 was never told */
#define LINE                                                                                       \
  "{\"replica\":\"r0\",\"request_id\":null,\"received_ns\":1,\"prompt_tokens\":100,"               \
  "\"output_tokens\":4,\"block_size\":16,\"chains\":"
  check_refused(
      NULL, LINE "[[0,4000000000]],\"writes\":[]}\n",
      "line 1: its chains hold more blocks than its prompt_tokens and output_tokens fill");
  check_refused(NULL, LINE "[[0,6],[6,3]],\"writes\":[]}\n", "line 1: its chains hold more");
  check_refused(NULL, LINE "[],\"writes\":[{\"ns\":1,\"kind\":\"content\",\"outputs\":60000}]}\n",
                "line 1: its writes hold more output events than its output_tokens make");
  check_refused(NULL,
                LINE "[[0,6],[6,1]],\"writes\":[{\"ns\":1,\"kind\":\"content\",\"outputs\":4}]}\n",
                "have no request in common"); /* that is a line */
  check_refused(NULL,
                "{\"replica\":\"r0\",\"request_id\":\"b\",\"received_ns\":1,\"block_size\":16,"
                "\"chains\":[],\"writes\":[]}\n",
                "have no request in common");
}

static void check_cut(const char *path, bool rows) {
  const struct request r[] = {
      {.id = "a", .start_ms = 10, .done_ms = 40, .prompt = 100, .output = 2, .fresh = 6},
      {.id = "b", .start_ms = 50, .done_ms = 90, .prompt = 100, .output = 2, .after = 6}};
  struct verify v;
  struct err err;
  struct checks_truth c;
  struct check all[CHECK_COUNT];
  write_files(r, 2);
  FILE *f = fopen(path, "r+");
  assert_int_equal(fseek(f, -20, SEEK_END), 0);
  assert_int_equal(ftruncate(fileno(f), ftell(f)), 0);
  fclose(f);
  check_ok(verify_open(&v, samples, truth, ZERO, &err), &err);
  assert_int_equal(v.joined, 1);
  verify_checks(&v, &c);
  assert_true(c.rows_cut == rows && c.lines_cut == !rows);
  struct table *t = table_new(0);
  struct checks_input in = {.limits = checks_default_limits(), .truth = &c, .closed_loop = true};
  table_finish(t);
  checks_run(t, &in, all);
  table_free(t);
  assert_false(all[CHECK_GROUND_TRUTH].ok);
  check_has(all[CHECK_GROUND_TRUTH].note, "; a file ends in mid-line");
  check_has(all[CHECK_MEASUREMENT_ERROR].note, "not judged: 1 first tokens");
  struct value out = verify_value(&v);
  assert_true(value_get(&out, "rows_cut")->u.boolean == rows);
  assert_true(value_get(&out, "lines_cut")->u.boolean == !rows);
  value_free(&out);
  verify_close(&v);
}

/* A file that ends in the middle of a line is not taken for whole. */
static void test_cut_files(void **state) {
  (void)state;
  check_cut(samples, true);
  check_cut(truth, false);
}

static void test_a_check_is_fed(void **state) {
  (void)state;
  struct request r[60];
  char ids[60][16];
  for (int i = 0; i < 60; i++) {
    snprintf(ids[i], sizeof ids[i], "id-%d", i);
    r[i] = (struct request){.id = ids[i],
                            .start_ms = 10 + i,
                            .done_ms = 40 + i,
                            .prompt = 100,
                            .output = 2,
                            .no_line = i == 59};
  }
  struct verify v;
  open_of(&v, r, 60);
  struct checks_truth c;
  verify_checks(&v, &c);
  assert_true(c.percentile == 0.9 && fabs(c.ttft_error_s - 3e-6) < 1e-12);
  assert_int_equal(c.missing, 1);
  verify_close(&v);
}

/* More errors than are kept: every second, fourth … of all; the largest and the count are of all.
 */
static void test_more_errors_than_are_kept(void **state) {
  (void)state;
  struct verify_errors e = {0};
  const uint64_t n = UINT64_C(2) * VERIFY_MAX_ERRORS + 2;
  for (uint64_t i = 0; i < n; i++)
    verify_add_error(&e, i % 2 ? -1e9 - (double)i : (double)i);
  assert_int_equal(e.n, n);
  assert_int_equal(e.every, 4);
  assert_int_equal(e.n_kept, VERIFY_MAX_ERRORS / 2 + 1); /* 0, 4, 8 … 2 × VERIFY_MAX_ERRORS */
  verify_finish_errors(&e);
  assert_true(e.least == -1e9 - (double)(n - 1) && e.most == (double)(n - 2));
  assert_true(e.median == VERIFY_MAX_ERRORS);
  assert_true(fabs(e.size[VERIFY_P99] - 1.98 * VERIFY_MAX_ERRORS) < 4);
  assert_null(e.ns);
  e = (struct verify_errors){0};
  for (int i = 0; i < 10; i++)
    verify_add_error(&e, i - 6);
  assert_int_equal(e.every, 1);
  verify_finish_errors(&e);
  assert_true(e.median == -1.5 && e.size[VERIFY_P50] == 2.5 && isnan(e.size[VERIFY_P90]));
  verify_finish_errors(&(struct verify_errors){0});
}

/* ---- the ledger ---- */

/* Blocks of 16; prompts of 400 tokens have 25 blocks, of which 24 can be cached; each answer's 16
 * tokens make one more. Chains by number: 1–26 the first conversation, 27–… what follows. */
static const struct request history[] = {
    /* cold: nobody had it */
    {.id = "h-0-0", .start_ms = 10, .done_ms = 40, .prompt = 400, .output = 16, .fresh = 26},
    /* the same again on the same replica: all of it that can be */
    {.id = "h-0-1",
     .start_ms = 50,
     .done_ms = 90,
     .prompt = 400,
     .output = 16,
     .cached = 384,
     .after = 26,
     .available = 384,
     .captured = 384,
     .delivered = 384},
    /* on the wrong one */
    {.id = "h-0-2",
     .start_ms = 100,
     .done_ms = 140,
     .prompt = 400,
     .output = 16,
     .after = 26,
     .available = 384},
    /* the answer was received: its block counts, and the prompt goes on */
    {.id = "h-0-3",
     .start_ms = 150,
     .done_ms = 190,
     .prompt = 480,
     .output = 16,
     .cached = 400,
     .after = 26,
     .fresh = 5,
     .available = 416,
     .captured = 416,
     .delivered = 400},
    /* gone everywhere */
    {.id = "h-0-4", .start_ms = 200, .done_ms = 240, .prompt = 400, .output = 16, .after = 26},
    /* from CPU memory and storage */
    {.id = "h-0-5",
     .start_ms = 250,
     .done_ms = 290,
     .prompt = 400,
     .output = 16,
     .cached = 384,
     .after = 26,
     .available = 384,
     .captured = 384,
     .delivered = 384,
     .offload = 256,
     .shared = 112},
    /* sent while an equal one was under way, before any answer: its prompt was sent before */
    {.id = "h-0-6", .start_ms = 300, .done_ms = 390, .prompt = 320, .output = 16, .fresh = 21},
    {.id = "h-0-7", .start_ms = 301, .done_ms = 391, .prompt = 320, .output = 16, .after = 52},
    /* warm from elsewhere */
    {.id = "h-0-8",
     .start_ms = 400,
     .done_ms = 440,
     .prompt = 320,
     .output = 16,
     .cached = 304,
     .fresh = 21,
     .available = 304,
     .captured = 304,
     .delivered = 304},
};

static const struct {
  int64_t possible, available, captured, delivered;
  const char *causes, *class;
} expected[] = {
    {0, 0, 0, 0, "{\"new\":400}", "cold"},
    {384, 384, 384, 384, "{\"hbm\":384,\"new\":16}", "hbm"},
    {384, 384, 0, 0, "{\"wrong_pod\":384,\"new\":16}", "wrong_pod"},
    {416, 416, 416, 400, "{\"hbm\":400,\"recomputed\":16,\"new\":64}", "hbm"},
    {384, 0, 0, 0, "{\"evicted\":384,\"new\":16}", "evicted"},
    {384, 384, 384, 384, "{\"hbm\":16,\"offload\":256,\"shared\":112,\"new\":16}", "offload"},
    {0, 0, 0, 0, "{\"new\":320}", "cold"},
    {304, 0, 0, 0, "{\"evicted\":304,\"new\":16}", "evicted"},
    {0, 304, 304, 304, "{\"hbm\":304,\"new\":16}", "cold"},
};

static int64_t int_of(const struct value *v, const char *key) {
  int64_t n = -7;
  value_to_int(value_get(v, key), &n);
  return n;
}

static void check_row(const char *line, size_t len, size_t i) {
  struct value row;
  struct err err;
  check_ok(json_parse(line, len, &row, &err), &err);
  if (int_of(&row, "possible") != expected[i].possible)
    fail_msg("row %zu: possible %lld, expected %lld", i, (long long)int_of(&row, "possible"),
             (long long)expected[i].possible);
  assert_int_equal(int_of(&row, "available"), expected[i].available);
  assert_int_equal(int_of(&row, "captured"), expected[i].captured);
  assert_int_equal(int_of(&row, "delivered"), expected[i].delivered);
  assert_string_equal(value_to_string(value_get(&row, "ledger_source")), "truth");
  check_reasons(value_get(&row, "causes"), expected[i].causes);
  assert_string_equal(value_to_string(value_get(&row, "class")), expected[i].class);
  value_free(&row);
}

static void test_a_history(void **state) {
  (void)state;
  struct verify v;
  struct err err;
  size_t before, after, n = 0;
  open_of(&v, history, ARRAY_LEN(history));
  free(check_read_file(samples, &before));
  struct value l = verify_ledger_value(&v);
  assert_int_equal(int_of(&l, "requests"), 9);
  assert_int_equal(int_of(&l, "prompt_tokens"), 5 * 400 + 480 + 3 * 320);
  assert_int_equal(int_of(&l, "foreign_tokens"), 304);
  assert_int_equal(int_of(&l, "gained_in_queue_tokens"), 0);
  check_reasons(value_get(&l, "causes"),
                "{\"hbm\":1104,\"offload\":256,\"shared\":112,\"transfer\":0,\"cached\":0,"
                "\"recomputed\":16,\"stale_index\":0,\"wrong_pod\":384,\"evicted\":688,\"new\":880,"
                "\"unknown\":0}");
  check_reasons(
      value_get(&l, "classes"),
      "{\"hbm\":2,\"offload\":1,\"shared\":0,\"transfer\":0,\"cached\":0,\"recomputed\":0,"
      "\"stale_index\":0,\"wrong_pod\":1,\"evicted\":2,\"new\":0,\"unknown\":0,"
      "\"cold\":3}");
  value_free(&l);
  check_ok(verify_write_rows(&v, folder, &err), &err);
  verify_close(&v);
  char *text = check_read_file(samples, &after), *save = NULL;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
    check_row(line, strlen(line), n++);
  assert_int_equal(n, 9);
  free(text);
}

/* In virtual time a script goes on at the moment at which its answer is over: that was there
 * before; what is sent at the same moment was not. */
static void test_at_one_moment(void **state) {
  (void)state;
  const struct request r[] = {
      {.id = "m-0-0", .start_ms = 10, .done_ms = 40, .prompt = 400, .output = 16, .fresh = 26},
      {.id = "m-0-1",
       .start_ms = 40,
       .done_ms = 70,
       .prompt = 432,
       .output = 16,
       .after = 26,
       .fresh = 2},
      {.id = "m-0-2", .start_ms = 70, .done_ms = 90, .prompt = 320, .output = 16, .fresh = 21},
      {.id = "m-0-3", .start_ms = 70, .done_ms = 99, .prompt = 320, .output = 16, .after = 49},
  };
  static const int64_t possible[] = {0, 416, 0, 0};
  struct verify v;
  open_of(&v, r, ARRAY_LEN(r));
  for (size_t i = 0; i < ARRAY_LEN(r); i++)
    if (v.rows[i].ledger.possible != possible[i])
      fail_msg("row %zu: possible %lld, expected %lld", i, (long long)v.rows[i].ledger.possible,
               (long long)possible[i]);
  verify_close(&v);
}

/* The table of the run has them too; a row that the disk refused is in it alone. */
static void test_into_the_table(void **state) {
  (void)state;
  struct verify v;
  struct table *t = table_new(0);
  struct metrics m;
  open_of(&v, history, 3);
  for (int i = -1; i < 3; i++) {
    struct sample *s = row_ok((uint64_t)(i + 1), 1, i < 0 ? 5 : history[i].start_ms, 5, 5);
    s->request_id = mem_strdup(i < 0 ? "h-0-77" : history[i].id);
    row_add(t, s);
  }
  verify_set_table(&v, t);
  metrics_init(&m);
  assert_int_equal(t->rows[0].possible, -1);
  assert_int_equal(t->rows[1].possible, 0);
  assert_int_equal(t->rows[2].delivered, 384);
  assert_int_equal(t->rows[3].captured, 0);
  const struct metric *regret = metrics_get(&m, METRIC_REGRET);
  assert_true(isnan(metrics_of_row(&m, regret, &t->rows[0])));
  assert_true(metrics_of_row(&m, regret, &t->rows[2]) == 0);
  assert_true(metrics_of_row(&m, regret, &t->rows[3]) == 384);
  assert_true(metrics_of_row(&m, metrics_get(&m, METRIC_POSSIBLE), &t->rows[3]) == 384);
  assert_true(metrics_of_row(&m, metrics_get(&m, METRIC_AVAILABLE), &t->rows[3]) == 384);
  assert_true(metrics_of_row(&m, metrics_get(&m, METRIC_CAPTURED), &t->rows[2]) == 384);
  assert_true(metrics_of_row(&m, metrics_get(&m, METRIC_DELIVERED), &t->rows[1]) == 0);
  metrics_free(&m);
  table_free(t);
  verify_close(&v);
}

static int setup(void **state) {
  (void)state;
  if (!mkdtemp(folder))
    return -1;
  snprintf(samples, sizeof samples, "%s/samples.jsonl", folder);
  snprintf(truth, sizeof truth, "%s/truth.jsonl", folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  unlink(samples);
  unlink(truth);
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors_and_counts),
      cmocka_unit_test(test_who_stays_alone),
      cmocka_unit_test(test_what_cannot_be_compared),
      cmocka_unit_test(test_a_check_is_fed),
      cmocka_unit_test(test_cut_files),
      cmocka_unit_test(test_more_errors_than_are_kept),
      cmocka_unit_test(test_a_history),
      cmocka_unit_test(test_at_one_moment),
      cmocka_unit_test(test_into_the_table),
  };
  return cmocka_run_group_tests_name("verify", tests, setup, teardown);
}
