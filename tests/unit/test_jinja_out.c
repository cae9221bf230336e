#include "check.h"

#include "jinja_check.h"

/* collected output: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_pieces(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% set x %}{{ 'y' * 300 }}{{ s }}{{ 'z' * 300 }}{% endset %}{{ x|length }}{{ x[299:304] }}",
       CONTEXT, "603yaXbz"},
      {"{% macro f(t) %}<{{ t }}>{% endmacro %}{{ f('a' * 400)|length }}{{ f(f('b')) }}", CONTEXT,
       "402<<b>>"},
      {"{% set x %}{% endset %}[{{ x }}]", CONTEXT, "[]"},
      {"{% filter trim %}  {{ ' a' * 200 }}  {% endfilter %}", CONTEXT,
       "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
       "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
       "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
       "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
       "a a a a a a a a a a a a a a a a a a a a"},
      {"{% for i in range(3) %}{{ i }}{% endfor %}", CONTEXT, "012"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
