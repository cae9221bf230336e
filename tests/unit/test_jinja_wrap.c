#include "check.h"

#include "jinja_check.h"

/* wordwrap and pprint: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_wordwrap(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 'a b c d'|wordwrap(3) }}|{{ 'hello world foo bar'|wordwrap(11) }}|{{ "
       "'abcdefghij'|wordwrap(4) }}|{{ 'abcdefghij kl'|wordwrap(4, false) }}|{{ 'the-quick "
       "brown--fox jumps'|wordwrap(8) }}|{{ 'the-quick'|wordwrap(5, break_on_hyphens=false) }}|{{ "
       "'a\\n\\nb c'|wordwrap(2) }}|{{ 'a b'|wordwrap(1, wrapstring='/') }}|{{ '  lead  and trail  "
       "'|wordwrap(6) }}",
       CONTEXT,
       "a b\nc d|hello world\nfoo "
       "bar|abcd\nefgh\nij|abcdefghij\nkl|the-\nquick\nbrown--\nfox\njumps|the-q\nuick|a\n\nb\nc|a/"
       "b|  lead\nand\ntrail"},
      {"{{ 'a'|wordwrap(0) }}", CONTEXT, "!ValueError: invalid width 0 (must be > 0)"},
      {"{{ 5|wordwrap }}", CONTEXT, "!AttributeError: 'int' object has no attribute 'splitlines'"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_pprint(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ {'b': 1, 'a': [1, 2]}|pprint }}{{ 'x'|pprint }}", CONTEXT, "{'a': [1, 2], 'b': 1}'x'"},
      {"{{ {'b': 'x' * 60, 'a': ['y' * 40, 'z' * 40], 'c': {'d': 1}}|pprint }}", CONTEXT,
       "{'a': ['yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy',\n       "
       "'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz'],\n 'b': "
       "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx',\n 'c': {'d': 1}}"},
      {"{{ [('word ' * 20)|string]|pprint }}", CONTEXT,
       "['word word word word word word word word word word word word word word word '\n 'word "
       "word word word word ']"},
      {"{{ ('word ' * 25)|pprint }}", CONTEXT,
       "('word word word word word word word word word word word word word word word '\n 'word "
       "word word word word word word word word word ')"},
      {"{{ ([1] * 50)|pprint }}", CONTEXT,
       "[1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n "
       "1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n "
       "1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1,\n 1]"},
      {"{{ ('a' * 90,)|pprint }}", CONTEXT,
       "('"
       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
       ",)"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wordwrap),
      cmocka_unit_test(test_pprint),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
