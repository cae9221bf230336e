#include "check.h"

#include "jinja_check.h"

/* how macros take arguments: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_arguments(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% macro f(a, b='B') %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=1, a=2) "
       "}}{{ f() }}",
       CONTEXT, "1B1221B"},
      {"{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", CONTEXT, "!TypeError: "},
      {"{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=1) }}", CONTEXT, "!TypeError: "},
      {"{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, a=3) }}", CONTEXT,
       "(1, 2){'a': 3}"},
      {"{% macro f(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ f(1, 2) }}", CONTEXT, "1(2,)"},
      {"{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}", CONTEXT, "False"},
      {"{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", CONTEXT,
       "!UndefinedError: No caller defined"},
      {"{% macro f(x) %}{{ x + 1 }}{% endmacro %}{{ f() }}", CONTEXT,
       "!UndefinedError: parameter 'x' was not provided"},
      {"{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(4) }}", CONTEXT, "4"},
      {"{% macro f(a=b, b=1) %}[{{ a }}]{% endmacro %}{{ f() }}", CONTEXT, "[]"},
      {"{% macro f(a, caller=none) %}{{ caller }}{% endmacro %}{{ f(1) }}", CONTEXT, "None"},
      {"{% macro f() %}{{ f.name }}{{ f.arguments }}{{ f.catch_kwargs }}{{ f.caller }}{% endmacro "
       "%}{{ f() }}{{ f }}",
       CONTEXT, "f()FalseFalse<Macro 'f'>"},
      {"{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}", CONTEXT, "!TypeError: "},
      {"{% macro f(*a) %}{% endmacro %}", CONTEXT,
       "!TemplateSyntaxError: expected token 'name', got '*'"},
      {"{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(**{'a': 3, 'b': 4}) }}",
       CONTEXT, "1234"},
      {"{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
       CONTEXT, "3210"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
