#include "check.h"

#include "jinja_check.h"

/* what is refused before anything runs, and which frame a block has: rows that Jinja2 itself
 * answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_refused(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 1|nope }}", CONTEXT, "!TemplateAssertionError: No filter named 'nope'."},
      {"{{ 1 is nope }}", CONTEXT, "!TemplateAssertionError: No test named 'nope'."},
      {"{% if false %}{{ 1|nope }}{% endif %}x", CONTEXT, "x"},
      {"{{ 1|nope if false else 2 }}", CONTEXT, "2"},
      {"{% if true %}{{ 1|nope }}{% endif %}", CONTEXT,
       "!TemplateRuntimeError: No filter named 'nope' found."},
      {"{% if true %}{{ 1 is nope }}{% endif %}", CONTEXT,
       "!TemplateRuntimeError: No test named 'nope' found."},
      {"{% break %}", CONTEXT, "!SyntaxError: "},
      {"{% for x in [1] %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}", CONTEXT,
       "!SyntaxError: "},
      {"{% for loop in [1] %}{% endfor %}", CONTEXT,
       "!TemplateAssertionError: Can't assign to special loop variable in for-loop target"},
      {"{% for x in [1] %}{% set loop = 1 %}{% endfor %}", CONTEXT,
       "!TemplateAssertionError: Can't assign to special loop variable in for-loop target"},
      {"{% macro f(caller) %}{{ caller }}{% endmacro %}", CONTEXT, "!TemplateAssertionError: "},
      {"{% set x | replace(zz, 'b') %}a{% endset %}", CONTEXT,
       "!AssertionError: Tried to resolve a name to a reference that was unknown to the frame "
       "('zz')"},
      {"{% if false %}{% for x in [1] %}{{ x|nope }}{% endfor %}{% endif %}", CONTEXT,
       "!TemplateAssertionError: No filter named 'nope'."},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_frames(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% for i in [1, 2, 3, 4] if i is odd %}{{ loop.index }}{{ i }}{% endfor %}", CONTEXT,
       "1123"},
      {"{% for i in [1, 2] %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}", CONTEXT,
       "12"},
      {"{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}", CONTEXT, "1"},
      {"{% for i in [{'c': [{'c': []}]}] recursive %}<{{ loop.depth }}{{ loop(i.c) }}>{% endfor %}",
       CONTEXT, "<1<2>>"},
      {"{% for i in [1] %}{% for j in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% "
       "endfor %}",
       CONTEXT, "121"},
      {"{{ 1[:2] }}|{{ [1[:2]]|length }}", CONTEXT, "|1"},
      {"{% if 1[:2] %}{% endif %}", CONTEXT, "!TypeError: 'int' object is not subscriptable"},
      {"{{ self.b() }}{% block b %}x{{ super is defined }}{% endblock %}", CONTEXT, "xFalsexFalse"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_frames),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
