#include "check.h"

#include "jinja_check.h"

/* what stands behind is: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_all(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% for x in [1, 1.5, true, none, 'a', '', [], (1,), {}, range(1), nope] %}{{ [x is "
       "defined, x is none, x is string, x is mapping, x is iterable, x is sequence, x is number, "
       "x is integer, x is float, x is boolean, x is true, x is false, x is callable, x is "
       "escaped]|map('int')|join }} {% endfor %}",
       CONTEXT,
       "10000011000000 10000010100000 10000010011000 11000000000000 10101100000000 10101100000000 "
       "10001100000000 10001100000000 10011100000000 10001100000000 00001100000010 "},
      {"{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby(3) }}{{ 'a' is lower }}{{ 'A' is upper "
       "}}{{ 'upper' is filter }}{{ 'odd' is test }}{{ 1 is in [1] }}{{ ('a'|safe) is escaped }}{{ "
       "range is callable }}{{ dict is callable }}",
       CONTEXT, "TrueTrueTrueTrueTrueTrueTrueTrueTrueTrueTrue"},
      {"{{ 1 is eq 1 }}{{ 1 is ne 2 }}{{ 1 is lt 2 }}{{ 1 is le 1 }}{{ 1 is gt 2 }}{{ 1 is ge 1 "
       "}}{{ 1 is equalto 1.0 }}{{ 1 is greaterthan 0 }}{{ 1 is lessthan 0 }}",
       CONTEXT, "TrueTrueTrueTrueFalseTrueTrueTrueFalse"},
      {"{{ none is sameas none }}{{ true is sameas 1 }}{{ d is sameas d }}{{ [] is sameas [] }}",
       CONTEXT, "TrueFalseTrueFalse"},
      {"{{ 'a' is odd }}", CONTEXT, "!TypeError: "},
      {"{{ 5 is divisibleby 0 }}", CONTEXT, "!ZeroDivisionError: integer modulo by zero"},
      {"{{ nope is odd }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
      {"{{ 1 is in 5 }}", CONTEXT, "!TypeError: "},
      {"{{ 1 is defined(2) }}", CONTEXT, "!TypeError: "},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
