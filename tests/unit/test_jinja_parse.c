#include "check.h"

#include "jinja_check.h"

/* statements: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_statements(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% if false %}a{% elif 1 %}b{% else %}c{% endif %}", CONTEXT, "b"},
      {"{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", CONTEXT, "123"},
      {"{% set a, b = 1, 2 %}{{ b }}{{ a }}", CONTEXT, "21"},
      {"{% set x %}1{% endset %}{{ x + '2' }}", CONTEXT, "12"},
      {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}", CONTEXT, "3"},
      {"{% print 1, 'a' %}", CONTEXT, "1a"},
      {"{% filter upper|replace('A', 'b') %}aa{% endfilter %}", CONTEXT, "bb"},
      {"{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}", CONTEXT, "12"},
      {"{% if true: %}x{% endif %}", CONTEXT, "x"},
      {"{% block x %}b{% endblock x %}", CONTEXT, "b"},
      {"{% generation %}g{% endgeneration %}", CONTEXT, "g"},
      {"{% for i in 1, 2 recursive %}{{ i }}{% endfor %}", CONTEXT, "12"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_errors(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% if true %}", CONTEXT,
       "!TemplateSyntaxError: Unexpected end of template. Jinja was looking for the following "
       "tags: 'elif' or 'else' or 'endif'. The innermost block that needs to be closed is 'if'."},
      {"{% endif %}", CONTEXT, "!TemplateSyntaxError: Encountered unknown tag 'endif'."},
      {"{% for x in [1] %}{% endif %}", CONTEXT,
       "!TemplateSyntaxError: Encountered unknown tag 'endif'. Jinja was looking for the following "
       "tags: 'endfor' or 'else'. The innermost block that needs to be closed is 'for'."},
      {"{% for x of y %}{% endfor %}", CONTEXT,
       "!TemplateSyntaxError: expected token 'in', got 'of'"},
      {"{% set 1 = 2 %}", CONTEXT, "!TemplateSyntaxError: can't assign to 'const'"},
      {"{% set true = 1 %}", CONTEXT, "!TemplateSyntaxError: can't assign to 'const'"},
      {"{% set a.b.c = 1 %}", CONTEXT,
       "!TemplateSyntaxError: expected token 'end of statement block', got '.'"},
      {"{% macro f(a=1, b) %}{% endmacro %}", CONTEXT, "!TemplateSyntaxError: "},
      {"{% macro f(a, a) %}{% endmacro %}", CONTEXT, "!SyntaxError: "},
      {"{% call 1 %}{% endcall %}", CONTEXT, "!TemplateSyntaxError: expected call"},
      {"{% block a-b %}{% endblock %}", CONTEXT,
       "!TemplateSyntaxError: Block names in Jinja have to be valid Python identifiers and may not "
       "contain hyphens, use an underscore instead."},
      {"{% block a %}{% endblock %}{% block a %}{% endblock %}", CONTEXT,
       "!TemplateAssertionError: block 'a' defined twice"},
      {"{% unknown %}", CONTEXT, "!TemplateSyntaxError: Encountered unknown tag 'unknown'."},
      {"{% 1 %}", CONTEXT, "!TemplateSyntaxError: tag name expected"},
      {"{% if %}x{% endif %}", CONTEXT,
       "!TemplateSyntaxError: Expected an expression, got 'end of statement block'"},
      {"{% set x = 1 y %}", CONTEXT,
       "!TemplateSyntaxError: expected token 'end of statement block', got 'y'"},
      {"{% include 'x' ignore missing without context %}", CONTEXT,
       "!TypeError: no loader for this environment specified"},
      {"{% import 'x' as y with context %}", CONTEXT,
       "!TypeError: no loader for this environment specified"},
      {"{% from 'x' import a as b, c %}", CONTEXT,
       "!TypeError: no loader for this environment specified"},
      {"{% extends 'x' %}", CONTEXT, "!TypeError: no loader for this environment specified"},
      {"{% from 'x' import _a %}", CONTEXT,
       "!TemplateAssertionError: names starting with an underline can not be imported"},
      {"{% block r required %}x{% endblock %}", CONTEXT,
       "!TemplateSyntaxError: Required blocks can only contain comments or whitespace"},
      {"{% set for = 1 %}{{ for }}", CONTEXT, "1"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_statements),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
