#include "check.h"

#include "jinja_check.h"

/* methods of lists, dictionaries, numbers and the rest: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_all(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ [1, 2, 1].count(1) }}{{ [1, 2].index(2) }}{{ [1].copy() }}{{ (1, 2).index(2) }}",
       CONTEXT, "21[1]1"},
      {"{{ [1].index(5) }}", CONTEXT, "!ValueError: 5 is not in list"},
      {"{{ (1,).index(5) }}", CONTEXT, "!ValueError: tuple.index(x): x not in tuple"},
      {"{{ [1, 2, 3, 1].index(1, 1) }}", CONTEXT, "3"},
      {"{{ d.get('a') }}{{ d.get('zz') }}{{ d.get('zz', 5) }}{{ d.copy() }}{{ {}.fromkeys('ab', 0) "
       "}}{{ d.keys().isdisjoint(['q']) }}",
       CONTEXT, "2None5{'b': 1, 'A': 3, 'a': 2}{'a': 0, 'b': 0}True"},
      {"{{ (5).bit_length() }}{{ big.bit_length() }}{{ (7).bit_count() }}{{ (5).as_integer_ratio() "
       "}}{{ (0.5).as_integer_ratio() }}{{ (2.0).is_integer() }}{{ (1.5).hex() }}{{ (-0.1).hex() "
       "}}",
       CONTEXT, "3653(5, 1)(1, 2)True0x1.8000000000000p+0-0x1.999999999999ap-4"},
      {"{{ range(5).index(3) }}{{ range(5).count(9) }}", CONTEXT, "30"},
      {"{{ range(5).index(9) }}", CONTEXT, "!ValueError: 9 is not in range"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
