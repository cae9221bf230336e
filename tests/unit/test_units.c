/* test_units.c: quantities with units, read and printed. */
#include "check.h"

#include "base/units.h"

static void reads_quantities(void **state) {
  (void)state;
  static const struct {
    const char *text;
    enum units_kind want;
    double value;
    enum units_kind unit;
  } cases[] = {
      {"50ms", UNITS_TIME, 0.05, UNITS_TIME},     {"2m", UNITS_TIME, 120, UNITS_TIME},
      {"1.5 h", UNITS_TIME, 5400, UNITS_TIME},    {"3", UNITS_TIME, 3, UNITS_NONE},
      {"250us", UNITS_TIME, 0.00025, UNITS_TIME}, {"250µs", UNITS_ANY, 0.00025, UNITS_TIME},
      {"64KiB", UNITS_BYTES, 65536, UNITS_BYTES}, {"2MB", UNITS_BYTES, 2e6, UNITS_BYTES},
      {"5%", UNITS_RATIO, 0.05, UNITS_RATIO},     {"0.05", UNITS_RATIO, 0.05, UNITS_NONE},
      {"300/m", UNITS_RATE, 5, UNITS_RATE},       {"-2e3", UNITS_NONE, -2000, UNITS_NONE},
      {"+.5", UNITS_ANY, 0.5, UNITS_NONE},        {"75%", UNITS_ANY, 0.75, UNITS_RATIO},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    double value = -1;
    enum units_kind unit;
    struct err err = {0};
    check_ok(units_parse(cases[i].text, strlen(cases[i].text), cases[i].want, &value, &unit, &err),
             &err);
    check_near(value, cases[i].value, 1e-12);
    assert_int_equal(unit, cases[i].unit);
  }
}

static void refuses_with_the_way_out(void **state) {
  (void)state;
  static const struct {
    const char *text;
    enum units_kind want;
    const char *says;
  } cases[] = {
      {"", UNITS_TIME, "\"\" is not a time such as"},
      {"ms", UNITS_TIME, "is not a time"},
      {"5%", UNITS_TIME, "\"5%\" is not a time"},
      {"5 parsec", UNITS_ANY, "optional unit"},
      {"0x10", UNITS_NONE, "is not a plain number"},
      {"inf", UNITS_ANY, "is not a number"},
      {"1e999", UNITS_NONE, "too large"},
      {"10KB", UNITS_BYTES, "is not a size"},
      {"5s", UNITS_NONE, "is not a plain number"},
      {"3s", UNITS_RATE, "is not a rate"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    double value = 7;
    struct err err = {0};
    assert_int_equal(
        units_parse(cases[i].text, strlen(cases[i].text), cases[i].want, &value, NULL, &err),
        ERR_INVALID);
    check_has(err.text, cases[i].says);
    check_near(value, 7, 0);
  }
}

static void prints_for_people(void **state) {
  (void)state;
  static const struct {
    double s;
    const char *text;
  } cases[] = {{0, "0 µs"},          {1.25e-6, "1.25 µs"}, {14.5e-6, "14.5 µs"},
               {0.00085, "850 µs"},  {0.00123, "1.23 ms"}, {0.0123, "12.3 ms"},
               {0.4, "400 ms"},      {0.99949, "999 ms"},  {2.5, "2.50 s"},
               {45.67, "45.7 s"},    {200, "3m 20s"},      {7200, "2h 00m"},
               {-0.004, "-4.00 ms"}, {119.7, "2m 00s"}};
  char out[32];
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    units_format_seconds(cases[i].s, out, sizeof out);
    assert_string_equal(out, cases[i].text);
  }
  units_format_bytes(512, out, sizeof out);
  assert_string_equal(out, "512 B");
  units_format_bytes(1228.8, out, sizeof out);
  assert_string_equal(out, "1.2 KiB");
  units_format_bytes(3.4 * 1073741824, out, sizeof out);
  assert_string_equal(out, "3.4 GiB");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_quantities),
      cmocka_unit_test(refuses_with_the_way_out),
      cmocka_unit_test(prints_for_people),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
