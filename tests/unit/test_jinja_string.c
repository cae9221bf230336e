#include "check.h"

#include "jinja_check.h"

/* long texts: ropes, code points: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_ropes(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% set x = '\303\251' * 100 %}{% set y = x + x + 'b' %}{{ y|length }}{{ y[-1] }}{{ (y + "
       "y)|length }}",
       CONTEXT, "201b402"},
      {"{% set ns = namespace(t='') %}{% for i in range(300) %}{% set ns.t = ns.t + 'abc' + "
       "i|string %}{% endfor %}{{ ns.t|length }}{{ ns.t[-8:] }}",
       CONTEXT, "169098abc299"},
      {"{% set a = 'x' * 200 %}{% set b = a ~ 'y' %}{% set c = b ~ 'z' %}{% set d = b ~ 'w' %}{{ "
       "b[-2:] }}{{ c[-2:] }}{{ d[-2:] }}{{ (c ~ d).count('y') }}",
       CONTEXT, "xyyzyw2"},
      {"{% set a = 'x' * 200 %}{% set b = a ~ 'y' %}{{ b|length }}{% set c = b ~ 'z' %}{{ c|length "
       "}}{% set d = b ~ 'ww' %}{{ d[-3:] }}{{ c[-3:] }}{{ b == a + 'y' }}{{ c > b }}",
       CONTEXT, "201202ywwxyzTrueTrue"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_code_points(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ u|length }}{{ u[0] }}{{ u[-1] }}{{ u[1:] }}{{ u[::-1] }}", CONTEXT,
       "3\303\251\360\237\230\200\344\275\240\360\237\230\200\360\237\230\200\344\275\240\303\251"},
      {"{{ '\303\251' < 'z' }}{{ '\360\237\230\200' > '\344\275\240' }}{{ 'a' < 'ab' }}", CONTEXT,
       "FalseTrueTrue"},
      {"{{ 'a' == 'a'|safe }}", CONTEXT, "True"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ropes),
      cmocka_unit_test(test_code_points),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
