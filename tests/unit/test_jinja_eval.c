#include "check.h"

#include "jinja_check.h"

/* evaluating: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_values(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ nope }}|{{ nope is defined }}", CONTEXT, "|False"},
      {"{{ nope.x }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
      {"{{ [1, 'a', none, true, 1.0] }} {{ {1: 2, 'a': [3]} }}", CONTEXT,
       "[1, 'a', None, True, 1.0] {1: 2, 'a': [3]}"},
      {"{{ 'a' ~ none ~ 1.5 ~ [1] ~ nope }}", CONTEXT, "aNone1.5[1]"},
      {"{{ 0 or 'x' }}{{ 1 and '' }}{{ none or none }}", CONTEXT, "xNone"},
      {"{{ 'a' if 0 }}|{{ ('a' if 0) is defined }}", CONTEXT, "|False"},
      {"{{ 'a' + ('b' if 0) }}", CONTEXT,
       "!UndefinedError: the inline if-expression on line 1 evaluated to false and no else section "
       "was defined."},
      {"{{ {'a': 1, 'a': 2, 1: 'i', 1.0: 'f', true: 'b'} }}", CONTEXT, "{'a': 2, 1: 'b'}"},
      {"{{ {[1]: 2} }}", CONTEXT, "!TypeError: unhashable type: 'list'"},
      {"{{ dict(*[[(1, 2)]]) }}", CONTEXT, "{1: 2}"},
      {"{{ dict(**{'a': 1}) }} {{ dict(a=1, **{'a': 2}) }}", CONTEXT, "!TypeError: "},
      {"{{ 'x'.join(*['ab']) }}", CONTEXT, "axb"},
      {"{{ dict(**5) }}", CONTEXT, "!TypeError: "},
      {"{{ (('<'|safe) ~ '<') }}{{ ('<'|safe) + '<' }}", CONTEXT, "<<<&lt;"},
      {"{{ nope() }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
      {"{{ 5() }}", CONTEXT, "!TypeError: 'int' object is not callable"},
      {"{{ 1 < 'a' }}", CONTEXT,
       "!TypeError: '<' not supported between instances of 'int' and 'str'"},
      {"{{ s[1:2] ~ l[1:] ~ n }}", CONTEXT, "X[1, 2]7"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
