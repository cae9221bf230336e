#include "check.h"

#include "jinja_check.h"

/* repr and str of every type: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_text(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ [u, 'a\\'b', 'a\"b', 'a\\'\"', '\\n\\t\\r\\\\', '\\x00\\x7f\\xa0\\u200b'] }}", CONTEXT,
       "['\303\251\344\275\240\360\237\230\200', \"a'b\", 'a\"b', 'a\\'\"', '\\n\\t\\r\\\\', "
       "'\\x00\\x7f\\xa0\\u200b']"},
      {"{{ ['<b>'|safe] }}{{ ['\\ue000', '\\U000e0001'] }}", CONTEXT,
       "[Markup('<b>')]['\\ue000', '\\U000e0001']"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_values(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ [1, 1.0, -0.0, 1e16, 1e-5, 0.1, 1e300 * 1e10] }}", CONTEXT,
       "[1, 1.0, -0.0, 1e+16, 1e-05, 0.1, inf]"},
      {"{{ ((1,), (), (1, 2), [], {}) }}", CONTEXT, "((1,), (), (1, 2), [], {})"},
      {"{{ range(3) }}{{ range(1, 9, 2) }}{{ [range(2)] }}", CONTEXT,
       "range(0, 3)range(1, 9, 2)[range(0, 2)]"},
      {"{{ d.keys() }}{{ d.values() }}{{ d.items() }}", CONTEXT,
       "dict_keys(['b', 'A', 'a'])dict_values([1, 3, 2])dict_items([('b', 1), ('A', 3), ('a', "
       "2)])"},
      {"{{ namespace(a='x') }}", CONTEXT, "<Namespace {'a': 'x'}>"},
      {"{{ [none, true, nope] }}", CONTEXT, "[None, True, Undefined]"},
      {"{% for i in [1] %}{{ loop }}{% endfor %}", CONTEXT, "<LoopContext 1/1>"},
      {"{% macro f() %}{% endmacro %}{{ f }}", CONTEXT, "<Macro 'f'>"},
      {"{{ dict }}", CONTEXT, "<class 'dict'>"},
      {"{{ 2 ** 70 }}{{ [big] }}", CONTEXT, "1180591620717411303424[18446744073709551616]"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_escaping(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ '<a href=\"x\">&\\'' | e }}", CONTEXT, "&lt;a href=&#34;x&#34;&gt;&amp;&#39;"},
      {"{{ ('<'|e)|e }}{{ ('<'|e)|forceescape }}", CONTEXT, "&lt;&amp;lt;"},
      {"{{ [1, '<']|e }}", CONTEXT, "[1, &#39;&lt;&#39;]"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_escaping),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
