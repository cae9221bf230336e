#include "check.h"

#include "jinja_check.h"

/* white space control, strings, numbers and what is no token: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_blocks_and_blanks(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"a\n  {% if true %}\n  b\n  {% endif %}\nc", CONTEXT, "a\n  b\nc"},
      {"a {%- if true -%} \n b{%+ endif %}\n c", CONTEXT, "ab c"},
      {"  {%+ if true %}x{% endif %}", CONTEXT, "  x"},
      {"\011{% set x = 1 %}\n{{ x }}  \n", CONTEXT, "1  "},
      {"a\015\nb\015c\015\n", CONTEXT, "a\nb\nc"},
      {"x\n\n", CONTEXT, "x\n"},
      {"  {# c #}  \nx", CONTEXT, "  \nx"},
      {"a{#- c -#} b", CONTEXT, "ab"},
      {"a {#+ c +#}\nb", CONTEXT, "a \nb"},
      {"{{- 1 -}}  x", CONTEXT, "1x"},
      {"{% if true +%}\nx{% endif %}", CONTEXT, "\nx"},
      {"x  {{ 1 }}\n {{ 2 }}", CONTEXT, "x  1\n 2"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_raw(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% raw %}\n{{ x }}{% if %}{% endraw %}\ny", CONTEXT, "\n{{ x }}{% if %}y"},
      {"{%- raw -%}  {{ x }} {%- endraw -%}  y", CONTEXT, "{{ x }}y"},
      {"  {% raw %}a{% endraw %}", CONTEXT, "a"},
      {"{% raw %}{% endraw x %}{% endraw %}", CONTEXT, "{% endraw x %}"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_strings(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 'a\\'b\\n\\t\\x41\\101\\u00e9\\U0001f600' }}", CONTEXT,
       "a'b\n\011AA\303\251\360\237\230\200"},
      {"{{ 'a\\qb' }}", CONTEXT, "a\\qb"},
      {"{{ 'a\\\nb' }}", CONTEXT, "ab"},
      {"{{ '\\\303\251' }}|{{ '\\\344\275\240' }}", CONTEXT, "\\xe9|\\u4f60"},
      {"{{ 'a' \"b\" }}", CONTEXT, "ab"},
      {"{{ 'x\ny' }}", CONTEXT, "x\ny"},
      {"{{ '\\x4' }}", CONTEXT, "!TemplateSyntaxError: truncated \\xXX escape"},
      {"{{ '\\u12' }}", CONTEXT, "!TemplateSyntaxError: truncated \\uXXXX escape"},
      {"{{ '\\U00110000' }}", CONTEXT, "!TemplateSyntaxError: illegal Unicode character"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_numbers(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 00 }}", CONTEXT, "1000 31 5 15 0"},
      {"{{ 1.5e3 }} {{ 1e-5 }} {{ 1_0.2_5 }} {{ 12345678901234567890123 }}", CONTEXT,
       "1500.0 1e-05 10.25 12345678901234567890123"},
      {"{{ [1][0].real }}", CONTEXT, "1"},
      {"{{ 1.foo }}", CONTEXT, ""},
      {"{{ 012 }}", CONTEXT,
       "!TemplateSyntaxError: expected token 'end of print statement', got 'integer'"},
      {"{{ 1if true else 2 }}", CONTEXT, "1"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_errors(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{# c", CONTEXT, "!TemplateSyntaxError: Missing end of comment tag"},
      {"{% raw %}x", CONTEXT, "!TemplateSyntaxError: Missing end of raw directive"},
      {"{{ 1 $ }}", CONTEXT, "!TemplateSyntaxError: unexpected char '$' at 5"},
      {"{{ (1] }}", CONTEXT, "!TemplateSyntaxError: unexpected ']', expected ')'"},
      {"{{ ) }}", CONTEXT, "!TemplateSyntaxError: unexpected ')'"},
      {"a\n{{ 'x }}", CONTEXT, "!TemplateSyntaxError: unexpected char \"'\" at 5"},
      {"{{ {'a': 1}}", CONTEXT, "!TemplateSyntaxError: unexpected '}'"},
      {"{{ a\302\262 }}", CONTEXT, "!TemplateSyntaxError: Invalid character in identifier"},
      {"}} %} #}", CONTEXT, "}} %} #}"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_blocks_and_blanks),
      cmocka_unit_test(test_raw),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
