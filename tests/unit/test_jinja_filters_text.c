#include "check.h"

#include "jinja_check.h"

/* filters from text to text: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_all(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 'ab'|upper }}{{ 'AB'|lower }}{{ 5|upper }}{{ nope|upper }}{{ 'hELLO'|capitalize }}",
       CONTEXT, "ABab5Hello"},
      {"{{ \"it's o'neil the-quick (brown) [fox] <x> {y}\"|title }}", CONTEXT,
       "It's O'neil The-Quick (Brown) [Fox] <X> {Y}"},
      {"[{{ ' a '|trim }}][{{ 'xax'|trim('x') }}][{{ 5|trim }}]", CONTEXT, "[a][a][5]"},
      {"{{ 'aXaX'|replace('X', 'b') }}{{ 'aaa'|replace('a', 'b', 2) }}{{ 123|replace(2, 'x') }}{{ "
       "'a'|replace('a', '<'|safe) }}",
       CONTEXT, "ababbba1x3<"},
      {"[{{ 'a'|center(5) }}]{{ '%s-%s'|format('a', 2) }}{{ '%(x)s'|format(x=1) }}", CONTEXT,
       "[  a  ]a-21"},
      {"{{ '%s'|format(1, x=2) }}", CONTEXT, "!FilterArgumentError: "},
      {"{{ 'a\\nb\\n\\nc\\n'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent('> ', "
       "blank=true) }}|{{ ''|indent(2, true) }}|",
       CONTEXT, "a\n    b\n\n    c\n|  a\n  b|a\n> \n> b|  |"},
      {"{{ 'abcdefghij klm'|truncate(8) }}{{ 'hello world foo bar'|truncate(12) }}{{ 'hello world "
       "foo bar'|truncate(12, true) }}{{ 'abcdefgh'|truncate(6, leeway=0, end='!') }}",
       CONTEXT, "abcde...hello...hello wor...abcde!"},
      {"{{ 'a'|truncate(2) }}", CONTEXT, "!AssertionError: expected length >= 3, got 2"},
      {"{{ 'a b_c d-e \303\251'|wordcount }}", CONTEXT, "5"},
      {"{{ 'a b&c/\303\251~'|urlencode }}{{ {'a b': '1 2', 'c': '/'}|urlencode }}{{ [('x', "
       "1)]|urlencode }}{{ 5|urlencode }}",
       CONTEXT, "a%20b%26c/%C3%A9~a+b=1+2&c=%2Fx=15"},
      {"{% autoescape true %}{{ '<a>'|replace('a', '<') }}{{ '<'|replace('<', '>'|safe) }}{{ ['<', "
       "'>'|safe]|join('&') }}{% endautoescape %}",
       CONTEXT, "&lt;&lt;&gt;&lt;&lt;&amp;>"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
