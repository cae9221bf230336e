#include "check.h"

#include "jinja_check.h"

/* format specifications and str.format: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_numbers(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ '{:d}|{:5}|{:<5}|{:^5}|{:05}|{:+}|{: "
       "}|{:,}|{:_}|{:x}|{:#X}|{:b}|{:o}|{:c}|{:n}'.format(42, 42, 42, 42, 42, 42, 42, 1234567, "
       "1234567, 255, 255, 5, 8, 97, 5) }}",
       CONTEXT, "42|   42|42   | 42  |00042|+42| 42|1,234,567|1_234_567|ff|0XFF|101|10|a|5"},
      {"{{ "
       "'{:.2f}|{:8.3f}|{:e}|{:g}|{:%}|{:.3}|{:.1}|{:10.2e}|{:,.2f}|{:010,.1f}|{:+.0f}|{:#.0f}|{:G}"
       "|{:.3%}'.format(3.14159, 2.5, 12345.678, 1e-10, 0.25, 1234.5, 0.05, 1.5, 12345.678, "
       "12345.6, 2.5, 2.0, 1e20, 0.12345) }}",
       CONTEXT,
       "3.14|   2.500|1.234568e+04|1e-10|25.000000%|1.23e+03|0.05|  "
       "1.50e+00|12,345.68|0,012,345.6|+2|2.|1E+20|12.345%"},
      {"{{ '{}|{:>5}|{:*^7}|{:.2}|{:05}'.format('a', 'b', 'c', 'defg', 'h') }}", CONTEXT,
       "a|    b|***c***|de|h0000"},
      {"{{ '{:5}|{:d}|{}'.format(true, true, true) }}", CONTEXT, "    1|1|True"},
      {"{{ '{:010,}|{:09,}|{:=+6}|{:x>6}'.format(1234, 1234, 42, 7) }}", CONTEXT,
       "00,001,234|0,001,234|+   42|xxxxx7"},
      {"{{ '{:z.1f}|{:.1f}'.format(-0.01, -0.01) }}", CONTEXT, "0.0|-0.0"},
      {"{{ '{:#b}|{:_b}|{:_x}'.format(5, 300, 1048576) }}", CONTEXT, "0b101|1_0010_1100|10_0000"},
      {"{{ '{:f}'.format(big) }}", CONTEXT, "18446744073709551616.000000"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_fields(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ '{0}{1}{0}'.format('a', 'b') }}{{ '{a}{b.c}{d[0]}{d[-1]}'.format(a=1, b={'c': 2}, "
       "d=[3]) }}",
       CONTEXT, "aba123"},
      {"{{ '{!r}{!s}{!a}'.format('\303\251', '\303\251', '\303\251') }}", CONTEXT,
       "'\303\251'\303\251'\\xe9'"},
      {"{{ '{{}}{}'.format(1) }}{{ '{:{}}|{:>{w}}'.format(1, 4, 2, w=3) }}", CONTEXT,
       "{}1   1|  2"},
      {"{{ '{a[x y]}'.format(a={'x y': 5}) }}", CONTEXT, "5"},
      {"{{ '{x.y}|'.format(x={}) }}", CONTEXT, "|"},
      {"{{ ('<{}>'|safe).format('<') }}{{ ('{}'|safe).format('<'|safe) }}", CONTEXT, "<&lt;><"},
      {"{{ '{a}{b}'.format_map({'a': 1, 'b': 2}) }}", CONTEXT, "12"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_errors(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ '{}'.format() }}", CONTEXT, "!IndexError: "},
      {"{{ '{a}'.format() }}", CONTEXT, "!KeyError: 'a'"},
      {"{{ '{'.format() }}", CONTEXT, "!ValueError: Single '{' encountered in format string"},
      {"{{ '}'.format() }}", CONTEXT, "!ValueError: Single '}' encountered in format string"},
      {"{{ '{:d}'.format('a') }}", CONTEXT,
       "!ValueError: Unknown format code 'd' for object of type 'str'"},
      {"{{ '{:s}'.format(1) }}", CONTEXT,
       "!ValueError: Unknown format code 's' for object of type 'int'"},
      {"{{ '{:5}'.format([1]) }}", CONTEXT,
       "!TypeError: unsupported format string passed to list.__format__"},
      {"{{ '{:.2d}'.format(1) }}", CONTEXT,
       "!ValueError: Precision not allowed in integer format specifier"},
      {"{{ '{}{0}'.format(1) }}", CONTEXT,
       "!ValueError: cannot switch from manual field specification to automatic field numbering"},
      {"{{ '{:=5}'.format('a') }}", CONTEXT,
       "!ValueError: '=' alignment not allowed in string format specifier"},
      {"{{ '{!x}'.format(1) }}", CONTEXT, "!ValueError: Unknown conversion specifier x"},
      {"{{ '{:,x}'.format(5) }}", CONTEXT, "!ValueError: Cannot specify ',' with 'x'."},
      {"{{ '{0.__class__.x}'.format(1) }}", CONTEXT,
       "!SecurityError: access to attribute '__class__' of 'int' object is unsafe."},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_fields),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
