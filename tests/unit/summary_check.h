/* summary_check.h: building a summary from a table, and looking at it, for the tests of summary*.c.
 */
#ifndef TESTS_UNIT_SUMMARY_CHECK_H
#define TESTS_UNIT_SUMMARY_CHECK_H

#include <math.h>

#include "out/summary.h"
#include "out_rows.h"

static struct metrics metrics;

static inline struct value build(const struct table *t, const struct expect *expects, size_t n) {
  struct summary_options o = {
      .run_id = "demo-1",
      .metrics = &metrics,
      .expects = expects,
      .n_expects = n,
      .checks = {.limits = checks_default_limits(), .clock_step_ns = SAMPLE_ABSENT},
      .simulated = true};
  return summary_build(t, &o);
}

/* "metrics.ttft.p50" of v. */
static inline const struct value *at(const struct value *v, const char *path) {
  char word[64];
  while (*path && v) {
    size_t n = strcspn(path, ".");
    snprintf(word, sizeof word, "%.*s", (int)n, path);
    v = v->kind == VALUE_ARRAY ? value_at(v, (size_t)atoi(word)) : value_get(v, word);
    path += n + (path[n] == '.');
  }
  if (!v)
    fail_msg("no %s", path);
  return v;
}

static inline double num(const struct value *v, const char *path) {
  double x = NAN;
  if (!value_to_double(at(v, path), &x))
    fail_msg("%s is no number", path);
  return x;
}

#define check_num(v, path, want) check_near(num((v), (path)), (want), 1e-12)
#define check_null(v, path) assert_int_equal(at((v), (path))->kind, VALUE_NULL)

static inline struct sample *plain_http(uint64_t session, enum sample_error error) {
  struct sample *s = error ? row_failed(session, 0, 0, error) : row_ok(session, 0, 0, 1, 1);
  s->is_generation = s->streamed = s->stream_asked = false;
  s->error_detail = error ? mem_strdup("plain") : NULL;
  return s;
}

static inline int summary_set_up(void **state) {
  (void)state;
  metrics_init(&metrics);
  return 0;
}

static inline int summary_tear_down(void **state) {
  (void)state;
  metrics_free(&metrics);
  return 0;
}

#endif
