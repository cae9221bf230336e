#include "check.h"

#include "jinja_check.h"

/* arithmetic as Python's: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_integers(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 6 / 2 }}", CONTEXT,
       "3 -4 -2 2 3.5 3.0"},
      {"{{ 9223372036854775807 + 1 }} {{ -9223372036854775807 - 2 }} {{ 4294967296 * 4294967296 }}",
       CONTEXT, "9223372036854775808 -9223372036854775809 18446744073709551616"},
      {"{{ big // 3 }} {{ big % 1000 }} {{ -big // 7 }} {{ big - big }} {{ big * big }}", CONTEXT,
       "6148914691236517205 616 -2635249153387078803 0 340282366920938463463374607431768211456"},
      {"{{ big / 3 }} {{ 9007199254740993 / 1 }} {{ 1 / big }}", CONTEXT,
       "6.148914691236517e+18 9007199254740992.0 5.421010862427522e-20"},
      {"{{ 2 ** 100 }} {{ 2 ** -1 }} {{ 0 ** 0 }} {{ (-1) ** 101 }} {{ (-2) ** 3 }}", CONTEXT,
       "1267650600228229401496703205376 0.5 1 -1 -8"},
      {"{{ true + true }} {{ -true }} {{ +false }}", CONTEXT, "2 -1 0"},
      {"{{ 1 // 0 }}", CONTEXT, "!ZeroDivisionError: integer division or modulo by zero"},
      {"{{ 1 % 0 }}", CONTEXT, "!ZeroDivisionError: integer modulo by zero"},
      {"{{ 1 / 0 }}", CONTEXT, "!ZeroDivisionError: division by zero"},
      {"{{ 0 ** -1 }}", CONTEXT, "!ZeroDivisionError: 0.0 cannot be raised to a negative power"},
      {"{{ 10 ** 400 * 1.0 }}", CONTEXT, "!OverflowError: int too large to convert to float"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_floats(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % -2 }} {{ -7.5 % 2 }} {{ 0.1 + 0.2 }} {{ -0.0 // 1 "
       "}} {{ 5.0 % 5 }}",
       CONTEXT, "3.0 -4.0 -0.5 0.5 0.30000000000000004 -0.0 0.0"},
      {"{{ 1e308 * 10 }} {{ 2 ** 0.5 }} {{ 2.0 ** 3 }}", CONTEXT, "inf 1.4142135623730951 8.0"},
      {"{{ 1.0 / 0 }}", CONTEXT, "!ZeroDivisionError: float division by zero"},
      {"{{ 1.0 // 0 }}", CONTEXT, "!ZeroDivisionError: float floor division by zero"},
      {"{{ 1.0 % 0 }}", CONTEXT, "!ZeroDivisionError: float modulo"},
      {"{{ 10.0 ** 400 }}", CONTEXT, "!OverflowError: (34, 'Numerical result out of range')"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_order(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ 1 == 1.0 }} {{ big == 18446744073709551616.0 }} {{ big > 1e19 }} {{ 9007199254740993 == "
       "9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }}",
       CONTEXT, "True True True False True"},
      {"{{ 2 < 2.5 }} {{ -3 < -2.5 }} {{ true == 1 }} {{ 1e400 > big }}", CONTEXT,
       "!NameError: name 'inf' is not defined"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_reading(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ ' 42 '|int }} {{ '1_0'|int }} {{ '\331\243'|int }} {{ '4.9'|int }} {{ '0x1f'|int(0, 16) "
       "}} {{ '0b1'|int(7, 0) }} {{ '010'|int(5, 0) }} {{ 'z'|int(3) }} {{ '-0x10'|int(0, 0) }}",
       CONTEXT, "42 10 3 4 31 1 10 3 -16"},
      {"{{ '1.5'|float }} {{ ' 1e3 '|float }} {{ 'inf'|float }} {{ '-nan'|float }} {{ "
       "'1_0.5'|float }} {{ '0x1p3'|float(7) }} {{ '.5'|float }} {{ '5.'|float }} {{ "
       "'1__0'|float(3) }}",
       CONTEXT, "1.5 1000.0 inf nan 10.5 7 0.5 5.0 3"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_floats),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_reading),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
