#include "check.h"

#include "jinja_check.h"

/* iterating and what loop knows: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_loop(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ "
       "loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor "
       "%}",
       CONTEXT, "1032TrueFalse310;2121FalseFalse310;3210FalseTrue310;"},
      {"{% for x in l %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }} {% endfor %}", CONTEXT,
       "<3<1 3<1<2 1<2< "},
      {"{% for x in l|select('odd') %}{{ loop.length }}{{ loop.last }}{{ x }};{% endfor %}",
       CONTEXT, "2False3;2True1;"},
      {"{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b') }}{% endfor %}",
       CONTEXT, "TrueaFalsebTruea"},
      {"{% for x in [1] %}{{ loop.cycle() }}{% endfor %}", CONTEXT,
       "!TypeError: no items for cycling given"},
      {"{% for x in [1] %}{{ loop([2]) }}{% endfor %}", CONTEXT,
       "!TypeError: The loop must have the 'recursive' marker to be called recursively."},
      {"{% for x in [1] %}{{ loop.previtem.x }}{% endfor %}", CONTEXT,
       "!UndefinedError: there is no previous item"},
      {"{% for x in 'abc' if x != 'b' %}{{ loop.index }}{{ x }}{{ loop.nextitem }}{% endfor %}",
       CONTEXT, "1ac2c"},
      {"{% for x in l %}{{ loop.nope }}{{ loop|length }}{% endfor %}", CONTEXT, "333"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_iterables(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 'ab'|list }}{{ d|list }}{{ d.values()|list }}{{ (1, 2)|list }}{{ range(3)|list }}{{ "
       "nope|list }}",
       CONTEXT, "['a', 'b']['b', 'A', 'a'][1, 3, 2][1, 2][0, 1, 2][]"},
      {"{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", CONTEXT, "['3', '1', '2'][]"},
      {"{{ 5|list }}", CONTEXT, "!TypeError: 'int' object is not iterable"},
      {"{{ none|join }}", CONTEXT, "!TypeError: 'NoneType' object is not iterable"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loop),
      cmocka_unit_test(test_iterables),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
