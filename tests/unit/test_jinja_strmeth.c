#include "check.h"

#include "jinja_check.h"

/* the methods of str and Markup: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_searching(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ s.find('X') }}{{ s.find('q') }}{{ s.rfind('b') }}{{ s.index('b') }}{{ "
       "u.find('\360\237\230\200') }}{{ 'aaa'.count('aa') }}{{ ''.count('') }}{{ 'abc'.find('c', "
       "-1) }}{{ 'abc'.find('', 9) }}{{ 'abcabc'.rfind('a', 0, 3) }}",
       CONTEXT, "1-1222112-10"},
      {"{{ s.index('q') }}", CONTEXT, "!ValueError: substring not found"},
      {"{{ s.startswith('a') }}{{ s.startswith(('q', 'aX')) }}{{ s.endswith('b', 0, 2) }}{{ "
       "s.endswith('') }}",
       CONTEXT, "TrueTrueFalseTrue"},
      {"{{ s.startswith(['a']) }}", CONTEXT,
       "!TypeError: startswith first arg must be str or a tuple of str, not list"},
      {"{{ s.startswith(1) }}", CONTEXT,
       "!TypeError: startswith first arg must be str or a tuple of str, not int"},
      {"{{ s.find(1) }}", CONTEXT, "!TypeError: "},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_shaping(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"[{{ 'ab'.center(5) }}][{{ 'ab'.center(7, '*') }}][{{ 'a'.ljust(3, '.') }}][{{ "
       "'\303\251'.rjust(3) }}][{{ '-5'.zfill(5) }}][{{ 'a\\tbc\\td'.expandtabs(4) }}]",
       CONTEXT, "[  ab ][***ab**][a..][  \303\251][-0005][a   bc  d]"},
      {"{{ 'a'.center(5, 'xy') }}", CONTEXT,
       "!TypeError: The fill character must be exactly one character long"},
      {"{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'a'.partition('=') }}{{ "
       "'a'.rpartition('=') }}",
       CONTEXT, "('a', '=', 'b=c')('a=b', '=', 'c')('a', '', '')('', '', 'a')"},
      {"{{ 'abc'.removeprefix('ab') }}{{ 'abc'.removesuffix('bc') }}{{ 'abc'.removeprefix('x') }}",
       CONTEXT, "caabc"},
      {"{{ 'abc'.translate({97: 'X', 98: none, 99: 100}) }}{{ "
       "'abc'.translate('abc'.maketrans('ab', 'xy', 'c')) }}",
       CONTEXT, "Xdxy"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_Markup(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ ('<a>'|safe).upper() ~ '' }}{{ ['<a>'|safe]|first is escaped }}{{ "
       "('a,b'|safe).split(',')[0] is escaped }}{{ ('x'|safe).join(['<', '>']) }}{{ ('a'|safe)[0] "
       "is escaped }}{{ ('<b>x</b>'|safe).striptags() }}{{ ('a'|safe).escape('<') }}",
       CONTEXT, "<A>TrueTrue&lt;x&gt;Truex&lt;"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_searching),
      cmocka_unit_test(test_shaping),
      cmocka_unit_test(test_Markup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
