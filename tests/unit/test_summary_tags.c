/* test_summary_tags.c: requests by what the script tagged them with. */
#include "check.h"

#include <math.h>

#include "out/summary.h"
#include "out_rows.h"
#include "text/json.h"

static struct metrics metrics;

static struct value tags_of(struct table *t, const struct filter *f) {
  struct summary_options o = {.run_id = "x", .metrics = &metrics, .seed = 1};
  struct value v = value_object();
  table_finish(t);
  summary_tags(t, &o, f, &v);
  return v;
}

static void expect_json(const struct value *v, const char *want) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, v);
  check_has(b.data, want);
  buf_free(&b);
}

static double num(const struct value *row, const char *name) {
  double x = NAN;
  value_to_double(value_get(row, name), &x);
  return x;
}

/* 20 requests that plan, with a ttft of 10 … 29 ms; 5 that act, of which 1 failed and 1 was cut
 * off; 3 without the tag; one of the warm-up. In any order. */
static struct table *make(bool backwards) {
  struct table *t = table_new(0);
  for (uint64_t k = 0; k < 29; k++) {
    uint64_t i = backwards ? 28 - k : k;
    struct sample *s;
    if (i < 20)
      s = row_tags(row_tokens(row_ok(i, 1, 0, 10 + (double)i, 100), 100, 10, i < 10 ? 50 : 100),
                   "{\"phase\":\"plan\"}");
    else if (i < 25)
      s = row_tags(i == 20   ? row_failed(i, 1, 0, SAMPLE_RESET)
                   : i == 21 ? row_failed(i, 1, 0, SAMPLE_INCOMPLETE)
                             : row_ok(i, 1, 0, 5, 5),
                   "{\"phase\":\"act\"}");
    else
      s = row_ok(i, 1, 0, 5, 5);
    if (i == 28) {
      row_tags(s, "{\"phase\":\"warm\",\"only\":\"there\"}");
      s->measured = false;
    }
    row_add(t, s);
  }
  return t;
}

static void a_row_per_value(void **state) {
  (void)state;
  struct table *t = make(false), *other = make(true);
  struct value v = tags_of(t, NULL), w = tags_of(other, NULL);
  assert_true(value_equal(&v, &w)); /* whichever came first */
  const struct value *list = value_get(&v, "tags");
  assert_int_equal(value_count(list), 3);
  const struct value *act = value_at(list, 0), *plan = value_at(list, 1), *none = value_at(list, 2);
  expect_json(act, "{\"tag\":\"phase\",\"value\":\"act\",\"requests\":5,\"failed\":1,"
                   "\"incomplete\":1,\"ttft_n\":3,\"ttft_p50\":null,\"ttft_p95\":null,\"e2e_n\":3,"
                   "\"e2e_p50\":null,\"e2e_p95\":null,\"cached_ratio_n\":0,\"cached_ratio\":null}");
  assert_string_equal(value_to_string(value_get(plan, "value")), "plan");
  check_near(num(plan, "requests"), 20, 0.0);
  check_near(num(plan, "ttft_n"), 20, 0.0);
  check_near(num(plan, "ttft_p50"), 0.0195, 1e-12);
  assert_true(isnan(num(plan, "ttft_p95"))); /* needs 100 */
  check_near(num(plan, "e2e_p50"), 0.0195 + 0.101, 1e-12);
  check_near(num(plan, "cached_ratio_n"), 20, 0.0);
  check_near(num(plan, "cached_ratio"), 0.75, 1e-12);
  assert_int_equal(value_get(none, "value")->kind, VALUE_NULL);
  check_near(num(none, "requests"), 3, 0.0);
  assert_int_equal(value_count(value_get(&v, "tags_left_out")), 0);
  value_free(&v);
  value_free(&w);
  table_free(t);
  table_free(other);
}

/* An identifier is no way to split a run; nor are hundreds of tags. */
static void what_has_many_values_is_left_out(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 40; i++) {
    char json[200];
    snprintf(json, sizeof json, "{\"id\":\"u%u\",\"sixteen\":%u,\"b\":%s}", (unsigned)i,
             (unsigned)i % 16, i % 2 ? "true" : "false");
    row_add(t, row_tags(row_ok(i, 1, 0, 5, 5), json));
  }
  struct value v = tags_of(t, NULL);
  const struct value *list = value_get(&v, "tags");
  assert_int_equal(value_count(list), 2 + 16);
  assert_string_equal(value_to_string(value_get(value_at(list, 0), "value")), "false");
  assert_string_equal(value_to_string(value_get(value_at(list, 4), "value")), "2");
  assert_string_equal(value_to_string(value_get(value_at(list, 17), "value")), "15");
  expect_json(&v, "\"tags_left_out\":[\"id\"]");
  value_free(&v);
  table_free(t);
  t = table_new(0);
  row_add(t, row_tags(row_ok(1, 1, 0, 5, 5),
                      "{\"k10\":1,\"k9\":1,\"k8\":1,\"k7\":1,\"k6\":1,\"k5\":1,\"k4\":1,\"k3\":1,"
                      "\"k2\":1,\"k1\":{\"deep\":[1]}}"));
  v = tags_of(t, NULL);
  assert_int_equal(value_count(value_get(&v, "tags")), 8);
  expect_json(&v, "\"tag\":\"k1\",\"value\":\"{\\\"deep\\\":[1]}\"");
  expect_json(&v, "\"tags_left_out\":[\"k9\",\"k10\"]");
  value_free(&v);
  table_free(t);
}

static void an_arm_has_its_own(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 6; i++) {
    struct sample *s = row_tags(row_ok(i, 1, 0, 5, 5), i % 2 ? "{\"x\":1}" : "{\"y\":1}");
    s->arm = i % 2 ? "a" : "b";
    row_add(t, s);
  }
  struct filter f = {.arm = mem_strdup("a")};
  struct value v = tags_of(t, &f);
  assert_int_equal(value_count(value_get(&v, "tags")), 1);
  expect_json(&v, "\"tag\":\"x\",\"value\":\"1\",\"requests\":3");
  value_free(&v);
  filter_free(&f);
  table_free(t);
}

static void no_tags_no_rows(void **state) {
  (void)state;
  struct table *t = table_new(0);
  struct value v = tags_of(t, NULL);
  expect_json(&v, "{\"tags\":[],\"tags_left_out\":[]}");
  value_free(&v);
  row_add(t, row_ok(1, 1, 0, 5, 5));
  v = tags_of(t, NULL);
  expect_json(&v, "{\"tags\":[],\"tags_left_out\":[]}");
  value_free(&v);
  table_free(t);
}

static int set_up(void **state) {
  (void)state;
  metrics_init(&metrics);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  metrics_free(&metrics);
  return 0;
}

/* 1 and 1.0 are one number. */
static void whole_numbers_are_one_value(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 20; i++)
    row_add(t, row_tags(row_ok(i, 1, 0, 5, 5), i % 2   ? "{\"k\":1}"
                                               : i % 4 ? "{\"k\":1.0}"
                                                       : "{\"k\":1.5}"));
  struct value v = tags_of(t, NULL);
  const struct value *list = value_get(&v, "tags");
  assert_int_equal(value_count(list), 2);
  assert_string_equal(value_to_string(value_get(value_at(list, 0), "value")), "1");
  check_near(num(value_at(list, 0), "requests"), 15, 0);
  value_free(&v);
  table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_per_value),
      cmocka_unit_test(whole_numbers_are_one_value),
      cmocka_unit_test(what_has_many_values_is_left_out),
      cmocka_unit_test(an_arm_has_its_own),
      cmocka_unit_test(no_tags_no_rows),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
