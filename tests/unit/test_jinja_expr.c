#include "check.h"

#include "jinja_check.h"

/* expressions: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_precedence(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 1 + 2 * 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 7 - 2 - 1 }}", CONTEXT,
       "19 4 64 4"},
      {"{{ 1 ~ 2 + 3 }} {{ 'a' ~ 1 * 2 }}", CONTEXT,
       "!TypeError: can only concatenate str (not \"int\") to str"},
      {"{{ not 1 == 2 }} {{ not (1 and 0) or 5 }}", CONTEXT, "True True"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 in [1] == true }}", CONTEXT, "True False False"},
      {"{{ -3|abs }} {{ (-3)|abs }} {{ 1 + -2|abs }}", CONTEXT, "3 3 3"},
      {"{{ 1 if 0 else 2 if 0 else 3 }}", CONTEXT, "3"},
      {"{{ 5 is odd and 4 is not odd }}", CONTEXT, "True"},
      {"{{ 6 is divisibleby 3 }} {{ 'a' is in 'abc' }}", CONTEXT, "True True"},
      {"{{ [1, 2,][1] }} {{ {'a': 1,}.a }} {{ (1,) }} {{ () }}", CONTEXT, "2 1 (1,) ()"},
      {"{{ 'abc'[1:] }} {{ 'abc'[:-1] }} {{ 'abc'[::2] }} {{ 'abc'[:] }}", CONTEXT, "bc ab ac abc"},
      {"{{ [[1]].0.0 }}", CONTEXT, "1"},
      {"{{ 1, 2 }}", CONTEXT, "(1, 2)"},
      {"{{ 'a'|upper|lower }}", CONTEXT, "a"},
      {"{{ 1 not in [2] }}", CONTEXT, "True"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_errors(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ }}", CONTEXT,
       "!TemplateSyntaxError: Expected an expression, got 'end of print statement'"},
      {"{{ 1 + }}", CONTEXT, "!TemplateSyntaxError: unexpected 'end of print statement'"},
      {"{{ a b }}", CONTEXT,
       "!TemplateSyntaxError: expected token 'end of print statement', got 'b'"},
      {"{{ [1 }}", CONTEXT, "!TemplateSyntaxError: unexpected '}', expected ']'"},
      {"{{ f(a=1, 2) }}", CONTEXT, "!TemplateSyntaxError: "},
      {"{{ f(**a, b) }}", CONTEXT, "!TemplateSyntaxError: "},
      {"{{ f(a=1, a=2) }}", CONTEXT, "!SyntaxError: "},
      {"{{ x is is y }}", CONTEXT, "!TemplateAssertionError: No test named 'is'."},
      {"{{ x is defined is defined }}", CONTEXT,
       "!TemplateSyntaxError: You cannot chain multiple tests with is"},
      {"{{ 'a'.1.2 }}", CONTEXT, "!UndefinedError: str object has no element 1"},
      {"{{ a. }}", CONTEXT, "!TemplateSyntaxError: expected name or number"},
      {"{{ x[1:2, 3] }}", CONTEXT, "!SyntaxError: "},
      {"{{ 1 is ==(2) }}", CONTEXT, "!TemplateSyntaxError: expected token 'name', got '=='"},
      {"{{ x | }}", CONTEXT,
       "!TemplateSyntaxError: expected token 'name', got 'end of print statement'"},
      {"{{ [x for x in y] }}", CONTEXT, "!TemplateSyntaxError: expected token ',', got 'for'"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_precedence),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
