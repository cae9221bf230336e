#include "check.h"

#include <math.h>

#include "base/buf.h"
#include "text/json.h"
#include "text/prom.h"

/* What was told, as one text: "T family type\n", "name{a=b;}=value@time\n". */
static void on_sample(void *user, const struct prom_sample *s) {
  struct buf *b = user;
  buf_put(b, s->name.data, s->name.len);
  buf_putc(b, '{');
  for (size_t i = 0; i < s->n_labels; i++)
    buf_printf(b, "%s=%s;", s->labels[i].name.data, s->labels[i].value.data);
  buf_printf(b, "}=%.17g", s->value);
  if (s->has_time)
    buf_printf(b, "@%lld", (long long)s->time_ms);
  buf_putc(b, '\n');
}

static void on_type(void *user, const struct prom_text *family, const struct prom_text *type) {
  buf_printf(user, "T %s %s\n", family->data, type->data);
}

static struct prom_counts parse(const char *text, size_t len, bool om, struct buf *out) {
  /* A copy of exactly that size, so that a read beyond it is seen by the sanitizer. */
  char *copy = malloc(len ? len : 1);
  memcpy(copy, text, len);
  struct prom_handler handler = {on_sample, on_type, out};
  struct prom_counts counts = prom_parse(copy, len, om, &handler);
  free(copy);
  return counts;
}

static void check(const char *text, bool om, const char *want, size_t errors) {
  struct buf out;
  buf_init(&out, BUF_MAX_OWN);
  buf_puts(&out, "");
  struct prom_counts counts = parse(text, strlen(text), om, &out);
  assert_string_equal(out.data, want);
  assert_int_equal(counts.error_lines, errors);
  buf_free(&out);
}

/* ---- the golden pages ---- */

struct golden {
  const struct value *samples, *families;
  const char *file;
  size_t at, types, duplicates;
  char seen[64][512]; /* series so far */
  size_t n_seen;
};

static bool number_is(const struct value *want, double got) {
  double number;
  const char *word = value_to_string(want);
  if (word)
    return strcmp(word, "NaN") == 0    ? isnan(got)
           : strcmp(word, "+Inf") == 0 ? isinf(got) && got > 0
                                       : isinf(got) && got < 0;
  return value_to_double(want, &number) && memcmp(&number, &got, sizeof got) == 0;
}

static bool is_duplicate(struct golden *g, const struct prom_sample *s) {
  struct buf key;
  buf_init(&key, BUF_MAX_OWN);
  buf_puts(&key, s->name.data);
  for (size_t i = 0; i < s->n_labels; i++)
    buf_printf(&key, ";%s=%s", s->labels[i].name.data, s->labels[i].value.data);
  bool found = false;
  for (size_t i = 0; i < g->n_seen; i++)
    found = found || strcmp(g->seen[i], key.data) == 0;
  assert_true(g->n_seen < 64 && key.len < 512);
  memcpy(g->seen[g->n_seen++], key.data, key.len + 1);
  buf_free(&key);
  return found;
}

static void golden_sample(void *user, const struct prom_sample *s) {
  struct golden *g = user;
  if (is_duplicate(g, s)) {
    g->duplicates++;
    return;
  }
  const struct value *want = value_at(g->samples, g->at++);
  if (!want)
    fail_msg("%s: sample %zu (%s) is not expected", g->file, g->at, s->name.data);
  assert_string_equal(s->name.data, value_to_string(value_get(want, "name")));
  if (!number_is(value_get(want, "value"), s->value))
    fail_msg("%s: sample %zu has the value %.17g", g->file, g->at, s->value);
  const struct value *labels = value_get(want, "labels");
  assert_int_equal(s->n_labels, value_count(labels));
  for (size_t i = 0; i < s->n_labels; i++) {
    const char *value = value_to_string(value_get(labels, s->labels[i].name.data));
    assert_non_null(value);
    assert_string_equal(s->labels[i].value.data, value);
    assert_int_equal(s->labels[i].value.len, strlen(value));
    assert_string_equal(prom_label_value(s, s->labels[i].name.data), value);
  }
  double time;
  assert_int_equal(value_to_double(value_get(want, "timestamp_ms"), &time), s->has_time);
  if (s->has_time)
    check_near((double)s->time_ms, time, 0);
}

static void golden_type(void *user, const struct prom_text *family, const struct prom_text *type) {
  struct golden *g = user;
  const struct value *f = value_get(g->families, family->data);
  g->types++;
  if (!f)
    fail_msg("%s: no family %s", g->file, family->data);
  assert_string_equal(type->data, value_to_string(value_get(f, "type")));
}

static void check_golden(const char *file, bool om, const struct value *result) {
  char path[256];
  size_t len, typed = 0;
  snprintf(path, sizeof path, "tests/data/prometheus/%s", file);
  char *text = check_read_file(path, &len);
  struct golden *g = calloc(1, sizeof *g);
  g->samples = value_get(result, "samples");
  g->families = value_get(result, "families");
  g->file = file;
  struct prom_handler handler = {golden_sample, golden_type, g};
  struct prom_counts counts = prom_parse(text, len, om, &handler);
  int64_t duplicates = -1;
  assert_true(value_to_int(value_get(result, "duplicates"), &duplicates));
  assert_int_equal(g->at, value_count(g->samples));
  assert_int_equal(g->duplicates, duplicates);
  assert_int_equal(counts.samples, g->at + g->duplicates);
  assert_int_equal(counts.error_lines, value_count(value_get(result, "error_lines")));
  for (size_t i = 0; i < value_count(g->families); i++) {
    const char *type = value_to_string(value_get(&g->families->u.object.pairs[i].value, "type"));
    typed += strcmp(type, "untyped") != 0;
  }
  assert_int_equal(g->types, typed);
  free(g);
  free(text);
}

static void test_golden_pages(void **state) {
  (void)state;
  struct err err;
  struct value all;
  size_t len;
  char *text = check_read_file("tests/data/prometheus/expected.json", &len);
  check_ok(json_parse(text, len, &all, &err), &err);
  assert_int_equal(value_count(&all), 17);
  for (size_t i = 0; i < value_count(&all); i++) {
    const struct value *page = &all.u.object.pairs[i].value;
    bool om = strcmp(value_to_string(value_get(page, "kind")), "om") == 0;
    const struct value *scrapes = value_get(page, "scrapes");
    if (!scrapes)
      check_golden(all.u.object.pairs[i].key, om, value_get(page, "result"));
    for (size_t j = 0; j < value_count(scrapes); j++)
      check_golden(value_to_string(value_get(value_at(scrapes, j), "file")), om,
                   value_get(value_at(scrapes, j), "result"));
  }
  value_free(&all);
  free(text);
}

/* ---- what a server may get wrong ---- */

static void test_bad_lines_are_counted_and_skipped(void **state) {
  (void)state;
  check("a 1\n<html>\nb{x=\"1\" 2\nc{x=1} 2\nd 0x10\ne 1 2 3\nf\ng 1_0\nh 2\n", false,
        "a{}=1\nh{}=2\n", 7);
  check("a{b=\"c\"", false, "", 1);
  check("a{b=\"c\\", false, "", 1);
  check("{a=\"b\"} 1\n", false, "", 1);
  check("# TYPE\n# TYPE a\n# TYPE a gauge b\n", false, "", 3);
  check("a 1 1.5\nb 2 1e3\nc 3 99999999999999999999\n", false, "", 3);
  check("a nan1\nb infx\nc --1\nd 1e\ne .\n", false, "", 5);
  check("", false, "", 0);
  check("\n\r\n \t\n", false, "", 0);
  struct buf out;
  buf_init(&out, BUF_MAX_OWN);
  buf_puts(&out, "");
  struct prom_counts counts = parse("x\0y 1\nok 2\nz \0\n", 15, false, &out);
  assert_string_equal(out.data, "ok{}=2\n");
  assert_int_equal(counts.error_lines, 2);
  assert_int_equal(counts.first_error, 1);
  assert_int_equal(counts.samples, 1);
  buf_free(&out);
}

static void test_names_in_quotes(void **state) {
  (void)state;
  check("{\"my.metric\",a=\"b\"} 1\n{\"x y\"} 2\nm{\"l.l\"=\"v\"} 3\n", false,
        "my.metric{a=b;}=1\nx y{}=2\nm{l.l=v;}=3\n", 0);
  check("m{\"other\"} 3\nm{a=\"b\",\"c\"} 1\n", false, "", 2);
  check("# TYPE \"my.metric\" gauge\n", false, "T my.metric gauge\n", 0);
}

static void test_openmetrics_ends_at_eof(void **state) {
  (void)state;
  check("a 1 2.5 # {} 1\n# EOF\nb 2\n", true, "a{}=1@2500\n", 0);
  check("a 1\n# EOF\nb 2\n", false, "a{}=1\nb{}=2\n", 0);
  check("a 1 # {x=\"y\"} 1\n", false, "", 1);
}

static void test_escapes_that_are_none_stay(void **state) {
  (void)state;
  check("a{b=\"c\\d\",e=\"\\\\\\\"\\n\"} 1\n", false, "a{b=c\\d;e=\\\"\n;}=1\n", 0);
}

static void test_as_many_labels_as_there_may_be(void **state) {
  (void)state;
  struct buf line, out;
  buf_init(&line, BUF_MAX_OWN);
  buf_init(&out, BUF_MAX_OWN);
  for (size_t n = PROM_MAX_LABELS; n <= PROM_MAX_LABELS + 1; n++) {
    buf_reset(&line);
    buf_puts(&line, "a{");
    for (size_t i = 0; i < n; i++)
      buf_printf(&line, "l%zu=\"%zu\",", i, i);
    buf_puts(&line, "} 1");
    struct prom_counts counts = parse(line.data, line.len, false, &out);
    assert_int_equal(counts.samples, n == PROM_MAX_LABELS);
    assert_int_equal(counts.error_lines, n != PROM_MAX_LABELS);
  }
  buf_free(&line);
  buf_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_golden_pages),
      cmocka_unit_test(test_bad_lines_are_counted_and_skipped),
      cmocka_unit_test(test_names_in_quotes),
      cmocka_unit_test(test_openmetrics_ends_at_eof),
      cmocka_unit_test(test_escapes_that_are_none_stay),
      cmocka_unit_test(test_as_many_labels_as_there_may_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
