#include "check.h"

#include "jinja_check.h"

/* per cent formatting: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_values(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ '%s %d %i %5d|%-5d|%05d|%+d|% d|%x|%#X|%o|%c|%r|%a|%%' % ('a', 3, 4.9, 42, 42, 42, 42, "
       "42, 255, 255, 8, '\303\251', '\303\251', '\303\251') }}",
       CONTEXT, "a 3 4    42|42   |00042|+42| 42|ff|0XFF|10|\303\251|'\303\251'|'\\xe9'|%"},
      {"{{ '%.2f %8.3f|%-8.1f|%e %g %G %E %08.2f %+.1f %#.0f' % (3.14159, 2.5, 2.5, 12345.678, "
       "1e-10, 1e20, 0.5, -3.14159, 2.0, 3.0) }}",
       CONTEXT, "3.14    2.500|2.5     |1.234568e+04 1e-10 1E+20 5.000000E-01 -0003.14 +2.0 3."},
      {"{{ '%s' % [1] }}{{ '%s' % 'q' }}{{ '%s' % nope }}{{ '%(a)s-%(b)05.1f' % {'a': 1, 'b': 2} "
       "}}{{ '%s' % {'a': 1} }}",
       CONTEXT, "[1]q1-002.0{'a': 1}"},
      {"{{ '%.2s|%5.1s|%*d|%.*f' % ('abc', 'xyz', 5, 42, 1, 3.14159) }}", CONTEXT,
       "ab|    x|   42|3.1"},
      {"{{ '%.3d %.5x %d' % (5, 255, big) }}", CONTEXT, "005 000ff 18446744073709551616"},
      {"{{ ('<%s>'|safe) % '<' }}{{ ('%s'|safe) % ('<'|safe) }}", CONTEXT, "<&lt;><"},
      {"{{ 'a' % {} }}{{ 'a' % [1] }}", CONTEXT, "aa"},
      {"{{ '%ld%hd' % (1, 2) }}", CONTEXT, "12"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_errors(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ '%s %s' % 1 }}", CONTEXT, "!TypeError: "},
      {"{{ 'a' % 1 }}", CONTEXT, "!TypeError: "},
      {"{{ '%d' % 'a' }}", CONTEXT, "!TypeError: %d format: a real number is required, not str"},
      {"{{ '%f' % 'a' }}", CONTEXT, "!TypeError: must be real number, not str"},
      {"{{ '%y' % 1 }}", CONTEXT,
       "!ValueError: unsupported format character 'y' (0x79) at index 1"},
      {"{{ '%' % 1 }}", CONTEXT, "!ValueError: incomplete format"},
      {"{{ '%(a)s' % {} }}", CONTEXT, "!KeyError: 'a'"},
      {"{{ '%(a)s' % 1 }}", CONTEXT, "!TypeError: format requires a mapping"},
      {"{{ '%c' % 'ab' }}", CONTEXT, "!TypeError: %c requires int or char"},
      {"{{ '%x' % 1.5 }}", CONTEXT, "!TypeError: %x format: an integer is required, not float"},
      {"{{ '%d' % none }}", CONTEXT,
       "!TypeError: %d format: a real number is required, not NoneType"},
      {"{{ '%s' % (1, 2) }}", CONTEXT, "!TypeError: "},
      {"{{ '%d' % nope }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
