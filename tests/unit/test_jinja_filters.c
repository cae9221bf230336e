#include "check.h"

#include "jinja_check.h"

/* filters about numbers and single values: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_values(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ -3|abs }}{{ -2.5|abs }}{{ true|abs }}{{ (0 - big)|abs }}", CONTEXT,
       "32.5118446744073709551616"},
      {"{{ 'a'|abs }}", CONTEXT, "!TypeError: bad operand type for abs(): 'str'"},
      {"{{ 3.9|int }}{{ -3.9|int }}{{ none|int }}{{ true|int }}{{ []|int(5) }}{{ '1e3'|int }}{{ "
       "'nan'|int(3) }}",
       CONTEXT, "3-301510003"},
      {"{{ nope|int }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
      {"{{ 2|float }}{{ none|float(1.5) }}{{ 'x'|float }}", CONTEXT, "2.01.50.0"},
      {"{{ 2.5|round }}{{ 3.5|round }}{{ 2.675|round(2) }}{{ 5|round }}{{ 15|round(-1) }}{{ "
       "25|round(-1) }}{{ 1234.5|round(-2) }}{{ 2.1|round(0, 'ceil') }}{{ 2.99|round(1, 'floor') "
       "}}{{ -2.5|round }}",
       CONTEXT, "2.04.02.67520201200.03.02.9-2.0"},
      {"{{ 'a'|round }}", CONTEXT, "!TypeError: type str doesn't define __round__ method"},
      {"{{ 1|round(1, 'x') }}", CONTEXT,
       "!FilterArgumentError: method must be common, ceil or floor"},
      {"{{ 1|filesizeformat }}{{ 999|filesizeformat }}{{ 1000|filesizeformat }}{{ "
       "1536|filesizeformat(true) }}{{ 1e30|filesizeformat }}{{ '2048'|filesizeformat }}",
       CONTEXT, "1 Byte999 Bytes1.0 kB1.5 KiB1000000.0 YB2.0 kB"},
      {"{{ nope|default('d') }}{{ none|default('d') }}{{ ''|default('d', true) }}{{ "
       "0|d(boolean=true, default_value=3) }}{{ nope|d }}|",
       CONTEXT, "dNoned3|"},
      {"{{ d|attr('a') }}|{{ d|attr('items') is callable }}", CONTEXT, "|True"},
      {"{{ 5|string|length }}{{ '\303\251'|length }}{{ d|count }}", CONTEXT, "113"},
      {"{{ none|length }}", CONTEXT, "!TypeError: object of type 'NoneType' has no len()"},
      {"{{ 1|default(1, 2, 3) }}", CONTEXT, "!TypeError: "},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
