#include "check.h"

#include "jinja_check.h"

/* filters about HTML: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_all(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ '<b>'|e }}{{ '<b>'|safe }}{{ ('<b>'|safe)|e }}{{ ('<b>'|e)|forceescape }}", CONTEXT,
       "&lt;b&gt;<b><b>&amp;lt;b&amp;gt;"},
      {"{{ '<p>a <b>x</b></p> <!-- c --> &amp; &lt; &#65; &#x42;'|striptags }}{{ 'a < b'|striptags "
       "}}",
       CONTEXT, "a x & < A Ba < b"},
      {"{{ {'a': 1, 'b': none, 'c': '<'}|xmlattr }}{{ {'a': 1}|xmlattr(false) }}{{ {}|xmlattr }}|",
       CONTEXT, " a=\"1\" c=\"&lt;\"a=\"1\"|"},
      {"{{ {'a b': 1}|xmlattr }}", CONTEXT,
       "!ValueError: Invalid character in attribute name: 'a b'"},
      {"{{ 'see http://x.org/a?b=1, (www.y.com) and me@z.de or mailto:a@b.cd. end'|urlize }}",
       CONTEXT,
       "see <a href=\"http://x.org/a?b=1\" rel=\"noopener\">http://x.org/a?b=1</a>, (<a "
       "href=\"https://www.y.com\" rel=\"noopener\">www.y.com</a>) and <a "
       "href=\"mailto:me@z.de\">me@z.de</a> or <a href=\"mailto:a@b.cd\">a@b.cd</a>. end"},
      {"{{ 'http://example.com/long/path'|urlize(10, true, target='_blank', rel='b a') }}{{ "
       "'ftp://x'|urlize(extra_schemes=['ftp:']) }}{{ 'example.org'|urlize }}{{ '<a>'|urlize }}",
       CONTEXT,
       "<a href=\"http://example.com/long/path\" rel=\"a b nofollow noopener\" "
       "target=\"_blank\">http://exa...</a><a href=\"ftp://x\" rel=\"noopener\">ftp://x</a><a "
       "href=\"https://example.org\" rel=\"noopener\">example.org</a>&lt;a&gt;"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
