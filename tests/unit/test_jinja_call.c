#include "check.h"

#include "jinja_check.h"

/* calls and the global functions: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_globals(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ range(3)|list }}{{ range(1, 7, 3)|list }}{{ range(3, 0, -1)|list }}", CONTEXT,
       "[0, 1, 2][1, 4][3, 2, 1]"},
      {"{{ range(100001) }}", CONTEXT,
       "!OverflowError: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000)."},
      {"{{ range(1.5) }}", CONTEXT,
       "!TypeError: 'float' object cannot be interpreted as an integer"},
      {"{{ range(1, 2, 0) }}", CONTEXT, "!ValueError: range() arg 3 must not be zero"},
      {"{{ range() }}", CONTEXT, "!TypeError: "},
      {"{{ dict(a=1) }}{{ dict([('a', 1), ['b', 2]]) }}{{ dict({'a': 1}, b=2) }}", CONTEXT,
       "{'a': 1}{'a': 1, 'b': 2}{'a': 1, 'b': 2}"},
      {"{{ dict(1) }}", CONTEXT, "!TypeError: 'int' object is not iterable"},
      {"{{ dict([1]) }}", CONTEXT,
       "!TypeError: cannot convert dictionary update sequence element #0 to a sequence"},
      {"{{ dict([(1, 2, 3)]) }}", CONTEXT,
       "!ValueError: dictionary update sequence element #0 has length 3; 2 is required"},
      {"{{ namespace({'a': 1}, b=2).b }}", CONTEXT, "2"},
      {"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ "
       "c.reset() }}{{ c.next() }}{{ c.items }}{{ c.pos }}",
       CONTEXT, "abbaNonea('a', 'b')1"},
      {"{{ cycler() }}", CONTEXT, "!RuntimeError: at least one item has to be provided"},
      {"{% set j = joiner('|') %}{{ j() }}{{ j() }}", CONTEXT, "|"},
      {"{{ raise_exception('no ' ~ 1) }}", CONTEXT, "!TemplateError: no 1"},
      {"{{ strftime_now('%Y-%m-%d') }}", CONTEXT, "2026-08-22"},
      {"{{ strftime_now(1) }}", CONTEXT, "!TypeError: "},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_errors(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ s.replace('a') }}", CONTEXT, "!TypeError: "},
      {"{{ s.upper(1) }}", CONTEXT, "!TypeError: "},
      {"{{ s.split(nope=1) }}", CONTEXT, "!TypeError: "},
      {"{{ d.get() }}", CONTEXT, "!TypeError: "},
      {"{{ d.get('zz', default=1) }}", CONTEXT, "!TypeError: "},
      {"{{ s() }}", CONTEXT, "!TypeError: 'str' object is not callable"},
      {"{{ d.a() }}", CONTEXT, "!TypeError: 'int' object is not callable"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_globals),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
