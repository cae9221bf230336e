#include "check.h"

#include "jinja_check.h"

/* statements at work: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_loops(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% for x in l %}{{ x }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}",
       CONTEXT, "3,1,2"},
      {"{% for x in [] %}a{% else %}b{% endfor %}", CONTEXT, "b"},
      {"{% for x in [1, 2] %}{% continue %}{% else %}e{% endfor %}", CONTEXT, "e"},
      {"{% for x in [1, 2] %}{{ x }}{% break %}{% else %}e{% endfor %}", CONTEXT, "1e"},
      {"{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
       CONTEXT, "13"},
      {"{% for x in nope %}a{% endfor %}b", CONTEXT, "b"},
      {"{% for x in 5 %}{% endfor %}", CONTEXT, "!TypeError: 'int' object is not iterable"},
      {"{% for a, b in [[1]] %}{% endfor %}", CONTEXT,
       "!ValueError: not enough values to unpack (expected 2, got 1)"},
      {"{% for a, b in [[1, 2, 3]] %}{% endfor %}", CONTEXT,
       "!ValueError: too many values to unpack (expected 2)"},
      {"{% for a, b in [1] %}{% endfor %}", CONTEXT,
       "!TypeError: cannot unpack non-iterable int object"},
      {"{% for c in '\303\251\344\275\240' %}{{ c }}.{% endfor %}", CONTEXT,
       "\303\251.\344\275\240."},
      {"{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}", CONTEXT, "b1A3a2"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_blocks(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ "
       "ns.x }}",
       CONTEXT, "4"},
      {"{% set ns = {} %}{% set ns.x = 1 %}", CONTEXT,
       "!TemplateRuntimeError: cannot assign attribute on non-namespace object"},
      {"{% set nope.x = 1 %}", CONTEXT,
       "!TemplateRuntimeError: cannot assign attribute on non-namespace object"},
      {"{% filter length %}abc{% endfilter %}", CONTEXT,
       "!TypeError: sequence item 0: expected str instance, int found"},
      {"{% set x | length %}abc{% endset %}{{ x + 1 }}", CONTEXT, "4"},
      {"{% autoescape true %}{{ '<' }}{{ '<'|safe }}{% set x %}<{% endset %}{{ x }}{% "
       "endautoescape %}{{ '<' }}",
       CONTEXT, "&lt;<<<"},
      {"{% for i in [1] %}{% set x %}a{% break %}{% endset %}{% endfor %}b", CONTEXT, "b"},
      {"{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}", CONTEXT, "12"},
      {"{% block x %}{{ n }}{% endblock %}", CONTEXT, "7"},
      {"{% set q = 3 %}{% block y %}{{ q }}{% endblock %}", CONTEXT, "3"},
      {"{% macro f() %}<{{ caller(1) }}>{% endmacro %}{% call(a) f() %}{{ a }}{% endcall %}",
       CONTEXT, "<1>"},
      {"{% call range(1) %}{% endcall %}", CONTEXT, "!TypeError: "},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_blocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
