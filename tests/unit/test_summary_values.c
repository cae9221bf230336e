/* test_summary_values.c: recorded values by their tags. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "out/summary.h"
#include "out_rows.h"
#include "text/json.h"

static char *rows_of(struct table *t, struct metrics *m) {
  table_finish(t);
  struct summary_options options = {.metrics = m};
  struct value out = value_object();
  summary_values(t, &options, NULL, &out);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, value_get(&out, "value_tags"));
  value_free(&out);
  table_free(t);
  return buf_take(&b, NULL);
}

static void a_row_per_value_of_a_tag(void **state) {
  (void)state;
  struct metrics m;
  struct err err;
  metrics_init(&m);
  check_ok(metrics_declare(&m, "plan_time", "ms", &err), &err);
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 12; i++)
    row_value(t, i, "plan_time", (double)(12 - i),
              i < 10 ? (i % 2 ? "{\"kind\":\"big\",\"n\":7}" : "{\"kind\":\"big\",\"n\":7.0}")
                     : "{\"kind\":\"tiny\"}",
              false);
  row_value(t, 1, "plan_time", 5000, NULL, false);
  row_value(t, 1, "plan_time", INFINITY, "{\"kind\":\"tiny\"}", false);
  row_value(t, 1, "good", 1, "{\"kind\":\"tiny\"}", true); /* a check */
  char *text = rows_of(t, &m);
  assert_string_equal(text, "[{\"metric\":\"plan_time\",\"unit\":\"s\",\"tag\":\"kind\",\"value\":"
                            "\"big\",\"n\":10,\"mean\":0.0075,"
                            "\"min\":0.003,\"max\":0.012,\"p50\":0.0075,\"p95\":null},"
                            "{\"metric\":\"plan_time\",\"unit\":\"s\",\"tag\":\"kind\",\"value\":"
                            "\"tiny\",\"n\":2,\"mean\":0.0015,"
                            "\"min\":0.001,\"max\":0.002,\"p50\":null,\"p95\":null},"
                            "{\"metric\":\"plan_time\",\"unit\":\"s\",\"tag\":\"n\",\"value\":"
                            "\"7\",\"n\":10,\"mean\":0.0075,"
                            "\"min\":0.003,\"max\":0.012,\"p50\":0.0075,\"p95\":null}]");
  mem_free(text);
  metrics_free(&m);
}

static void identifiers_are_left_out(void **state) {
  (void)state;
  struct metrics m;
  metrics_init(&m);
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 17; i++) {
    char tags[40];
    snprintf(tags, sizeof tags, "{\"id\":%d,\"a\":1}", (int)i);
    row_value(t, i, "x", 1, tags, false);
  }
  char *text = rows_of(t, &m);
  check_has(text, "\"tag\":\"a\"");
  assert_null(strstr(text, "\"tag\":\"id\""));
  mem_free(text);
  metrics_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_per_value_of_a_tag),
      cmocka_unit_test(identifiers_are_left_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
