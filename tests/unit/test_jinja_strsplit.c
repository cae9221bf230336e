#include "check.h"

#include "jinja_check.h"

/* split, join, replace: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_split(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ "
       "''.split(',') }}{{ ''.split() }}{{ ' a  b '.split() }}{{ ' a b c '.split(none, 1) }}{{ ' a "
       "b c '.rsplit(none, 1) }}{{ 'aXXb'.split('XX') }}{{ 'aaa'.rsplit('aa') }}",
       CONTEXT,
       "['a', 'b', '', 'c']['a', 'b,c']['a,b', 'c'][''][]['a', 'b']['a', 'b c '][' a b', 'c']['a', "
       "'b']['a', '']"},
      {"{{ 'a'.split('') }}", CONTEXT, "!ValueError: empty separator"},
      {"{{ 'a\\nb\\r\\nc\\x0bd\\u2028e'.splitlines() }}{{ 'a\\n\\nb\\n'.splitlines(true) }}{{ "
       "''.splitlines() }}",
       CONTEXT, "['a', 'b', 'c', 'd', 'e']['a\\n', '\\n', 'b\\n'][]"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_join_and_replace(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ ','.join('abc') }}{{ ''.join([]) }}{{ '-'.join(d) }}", CONTEXT, "a,b,cb-A-a"},
      {"{{ ','.join([1]) }}", CONTEXT,
       "!TypeError: sequence item 0: expected str instance, int found"},
      {"{{ ','.join(5) }}", CONTEXT, "!TypeError: can only join an iterable"},
      {"{{ 'aXbX'.replace('X', '') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab'.replace('', '-') }}{{ "
       "'\303\251'.replace('', '-', 1) }}{{ 'a'.replace('a', 'b', 0) }}{{ "
       "('<a>'|safe).replace('a', '<') }}",
       CONTEXT, "abbba-a-b--\303\251a<&lt;>"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_split),
      cmocka_unit_test(test_join_and_replace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
