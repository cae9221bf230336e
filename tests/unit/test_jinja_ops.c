#include "check.h"

#include "jinja_check.h"

/* operators over all types: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_adding(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 'a' + 'b' }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'ab' * 2 }} {{ 2 * [1, 2] }} {{ (1,) "
       "* 2 }} {{ 'a' * -1 }}|",
       CONTEXT, "ab [1, 2] (1, 2) abab [1, 2, 1, 2] (1, 1) |"},
      {"{{ 'a' + 1 }}", CONTEXT, "!TypeError: can only concatenate str (not \"int\") to str"},
      {"{{ 1 + 'a' }}", CONTEXT, "!TypeError: unsupported operand type(s) for +: 'int' and 'str'"},
      {"{{ [1] + (2,) }}", CONTEXT,
       "!TypeError: can only concatenate list (not \"tuple\") to list"},
      {"{{ {} + {} }}", CONTEXT,
       "!TypeError: unsupported operand type(s) for +: 'dict' and 'dict'"},
      {"{{ 'a' * 'b' }}", CONTEXT, "!TypeError: can't multiply sequence by non-int of type 'str'"},
      {"{{ 'a' * 1.5 }}", CONTEXT,
       "!TypeError: can't multiply sequence by non-int of type 'float'"},
      {"{{ 'a' - 'b' }}", CONTEXT,
       "!TypeError: unsupported operand type(s) for -: 'str' and 'str'"},
      {"{{ none * 2 }}", CONTEXT,
       "!TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'"},
      {"{{ -'a' }}", CONTEXT, "!TypeError: bad operand type for unary -: 'str'"},
      {"{{ ('<'|safe) * 2 + '<' }}", CONTEXT, "<<&lt;"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_equality(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ [1, [2]] == [1.0, [2]] }} {{ (1,) == [1] }} {{ {'a': [1]} == {'a': [1]} }} {{ 'a' == 1 "
       "}} {{ none == false }} {{ range(3) == range(0, 3) }} {{ d.keys() == d.keys() }}",
       CONTEXT, "True False True False False True True"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_order(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ [1, 2] < [1, 3] }} {{ (1,) < (1, 2) }} {{ 'a' <= 'a' }} {{ [] < [1] }}", CONTEXT,
       "True True True True"},
      {"{{ [1] < ['a'] }}", CONTEXT,
       "!TypeError: '<' not supported between instances of 'int' and 'str'"},
      {"{{ none < 1 }}", CONTEXT,
       "!TypeError: '<' not supported between instances of 'NoneType' and 'int'"},
      {"{{ {} < {} }}", CONTEXT,
       "!TypeError: '<' not supported between instances of 'dict' and 'dict'"},
      {"{{ [1] < (1,) }}", CONTEXT,
       "!TypeError: '<' not supported between instances of 'list' and 'tuple'"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_membership(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 'b' in 'abc' }} {{ '' in '' }} {{ 2 in [1, 2.0] }} {{ 'A' in d }} {{ 3 in range(4) }} "
       "{{ 2.0 in range(4) }} {{ 2.5 in range(4) }} {{ ('A', 3) in d.items() }} {{ 3 in d.values() "
       "}} {{ 1 in nope }}",
       CONTEXT, "True True True True True True False True True False"},
      {"{{ 1 in 'abc' }}", CONTEXT,
       "!TypeError: 'in <string>' requires string as left operand, not int"},
      {"{{ 1 in none }}", CONTEXT, "!TypeError: "},
      {"{{ 1 in 5 }}", CONTEXT, "!TypeError: "},
      {"{{ [1] in d }}", CONTEXT, "!TypeError: unhashable type: 'list'"},
      {"{{ 2 in (l|select('odd')) }} {{ 3 in (l|select('odd')) }}", CONTEXT, "False True"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_truth(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% for x in [0, 1, 0.0, '', 'a', [], [0], {}, none, nope, range(0), range(1), (), "
       "namespace()] %}{{ 1 if x else 0 }}{% endfor %}",
       CONTEXT, "01001010000101"},
      {"{{ 5|length }}", CONTEXT, "!TypeError: object of type 'int' has no len()"},
      {"{{ (l|map('string'))|length }}", CONTEXT,
       "!TypeError: object of type 'generator' has no len()"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_adding), cmocka_unit_test(test_equality),
      cmocka_unit_test(test_order),  cmocka_unit_test(test_membership),
      cmocka_unit_test(test_truth),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
