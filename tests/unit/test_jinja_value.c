#include "check.h"

#include "jinja_check.h"

/* dictionaries, undefined values and errors with their line: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_dictionaries(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% set d = dict() %}{{ d }}{{ {'a': 1} == {'a': 1.0} }}", CONTEXT, "{}True"},
      {"{{ {(1, 2): 'x'}[(1, 2)] }}", CONTEXT, "x"},
      {"{{ {1: 'a'}[true] }}{{ {1: 'a'}[1.0] }}", CONTEXT, "aa"},
      {"{{ d[[1]] }}|", CONTEXT, "|"},
      {"{% set x = "
       "{'k0':0,'k1':1,'k2':2,'k3':3,'k4':4,'k5':5,'k6':6,'k7':7,'k8':8,'k9':9,10:10,11.5:11} %}{{ "
       "x.k9 }}{{ x[10] }}{{ x[11.5] }}{{ x.nope is defined }}{{ x|length }}",
       CONTEXT, "91011False12"},
      {"{{ {18446744073709551616: 1}[big] }}", CONTEXT, "1"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_undefined(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ d.zz.y }}", CONTEXT, "!UndefinedError: 'dict object' has no attribute 'zz'"},
      {"{{ l[9].y }}", CONTEXT, "!UndefinedError: list object has no element 9"},
      {"{{ d[1].y }}", CONTEXT, "!UndefinedError: dict object has no element 1"},
      {"{{ none.x.y }}", CONTEXT, "!UndefinedError: 'None' has no attribute 'x'"},
      {"{{ nope + 1 }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
      {"{{ 1 - nope }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
      {"{{ nope < 1 }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
      {"{{ -nope }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
      {"{{ nope == nope2 }}{{ nope == none }}", CONTEXT, "TrueFalse"},
      {"{{ nope|length }}{{ nope|list }}{{ nope|string }}|", CONTEXT, "0[]|"},
      {"{{ [nope] }}", CONTEXT, "[Undefined]"},
      {"{{ l.append(1) }}", CONTEXT,
       "!SecurityError: access to attribute 'append' of 'list' object is unsafe."},
      {"{{ d.pop }}|", CONTEXT, "|"},
      {"{{ d.pop('a') }}", CONTEXT,
       "!SecurityError: access to attribute 'pop' of 'dict' object is unsafe."},
      {"{{ s.__class__.x }}", CONTEXT,
       "!SecurityError: access to attribute '__class__' of 'str' object is unsafe."},
      {"{{ namespace().x.y }}", CONTEXT,
       "!UndefinedError: 'jinja2.utils.Namespace object' has no attribute 'x'"},
      {"{{ nope[0] }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_lines(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"\n\n{{ 1 + 'a' }}", CONTEXT,
       "!TypeError: unsupported operand type(s) for +: 'int' and 'str'"},
      {"{% if true %}\n{{ 'a'\n ~ (1\n + 'b') }}{% endif %}", CONTEXT,
       "!TypeError: unsupported operand type(s) for +: 'int' and 'str'"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dictionaries),
      cmocka_unit_test(test_undefined),
      cmocka_unit_test(test_lines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
