#include "check.h"

#include "jinja_check.h"

/* case, classes, strip: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_case(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ '\316\221\316\243\316\221\316\243'.lower() }} {{ '\316\243'.lower() }} {{ "
       "'\316\221\316\243. \316\243'.lower() }} {{ '\303\237'.upper() }} {{ '\305\211'.title() }} "
       "{{ '\307\206x'.capitalize() }} {{ '\357\254\201'.casefold() }} {{ 'aBc "
       "\303\211'.swapcase() }}",
       CONTEXT,
       "\316\261\317\203\316\261\317\202 \317\203 \316\261\317\202. \317\203 SS \312\274N "
       "\307\205x fi AbC \303\251"},
      {"{{ \"it's o'neil\".title() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'ab1cd'.title() }} {{ "
       "'\304\260'.lower()|length }}",
       CONTEXT, "It'S O'Neil Hello world Ab1Cd 2"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_classes(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% for t in ['', 'a', '1', '\302\262', '\331\243', ' ', 'Ab', 'AB', 'ab', '\303\251', "
       "'\307\205', '_x', '1x', 'a b', '\\u200b'] %}{{ [t.isalpha(), t.isdigit(), t.isdecimal(), "
       "t.isnumeric(), t.isalnum(), t.isspace(), t.isupper(), t.islower(), t.istitle(), "
       "t.isidentifier(), t.isprintable(), t.isascii()]|map('int')|join }} {% endfor %}",
       CONTEXT,
       "000000000011 100010010111 011110000011 010110000010 011110000010 000001000011 100010001111 "
       "100010100111 100010010111 100010010110 100010001110 000000010111 000010010011 000000010011 "
       "000000000000 "},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_strip(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"[{{ ' \\u00a0x\\u2003\\x1c'.strip() }}][{{ 'xyaxy'.strip('yx') }}][{{ ' a '.lstrip() "
       "}}][{{ ' a '.rstrip() }}][{{ '\303\251a\303\251'.strip('\303\251') }}][{{ 'a'.strip('') "
       "}}][{{ '\\u200ba'.strip() }}]",
       CONTEXT, "[x][a][a ][ a][a][a][\342\200\213a]"},
      {"{{ 'a'.strip(1) }}", CONTEXT, "!TypeError: strip arg must be None or str"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_case),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_strip),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
