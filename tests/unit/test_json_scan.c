#include "check.h"

#include "text/json_scan.h"

#include <math.h>

/* Every length and every place of the byte that ends a run, at every alignment. */
static void test_runs(void **state) {
  (void)state;
  static const unsigned char stops[] = {'"', '\\', 0, 0x1f, '\n', 0x80, 0xff};
  char text[48];
  for (size_t from = 0; from < 9; from++)
    for (size_t len = 0; len < 24; len++)
      for (size_t at = 0; at <= len; at++)
        for (size_t k = 0; k < sizeof stops; k++) {
          memset(text, k % 2 ? '~' : ' ', sizeof text);
          text[from + at] = (char)stops[k];
          if (at + 1 < len)
            text[from + at + 1] = '"'; /* a later one must not win, nor an earlier be invented */
          const char *end = text + from + len;
          const char *want = text + from + at;
          assert_ptr_equal(json_plain_run(text + from, end), want < end ? want : end);
          if (stops[k] >= 0x80)
            want = at + 1 < len ? want + 1 : end;
          assert_ptr_equal(json_string_run(text + from, end), want < end ? want : end);
        }
  memcpy(text, "!#[]\x7f!#[]\x7f\"", 12); /* neighbours of the bytes that stop it */
  assert_ptr_equal(json_plain_run(text, text + 11), text + 10);
  assert_ptr_equal(json_string_run(text, text + 11), text + 10);
}

static void escape(const char *text, enum json_escape want, uint32_t cp, size_t used) {
  const char *p = text;
  uint32_t got = 0xabcdef;
  int rc = (int)json_scan_escape(&p, text + strlen(text), &got);
  if (rc != (int)want)
    fail_msg("%s: %d, expected %d", text, rc, (int)want);
  if (want == JSON_ESCAPE_OK || want == JSON_ESCAPE_SURROGATE)
    assert_int_equal(got, cp);
  assert_int_equal(p - text, used);
}

static void test_escapes(void **state) {
  (void)state;
  escape("\\\"", JSON_ESCAPE_OK, '"', 2);
  escape("\\\\", JSON_ESCAPE_OK, '\\', 2);
  escape("\\/", JSON_ESCAPE_OK, '/', 2);
  escape("\\b", JSON_ESCAPE_OK, 8, 2);
  escape("\\f", JSON_ESCAPE_OK, 12, 2);
  escape("\\n", JSON_ESCAPE_OK, 10, 2);
  escape("\\r", JSON_ESCAPE_OK, 13, 2);
  escape("\\t", JSON_ESCAPE_OK, 9, 2);
  escape("\\u0000", JSON_ESCAPE_OK, 0, 6);
  escape("\\uAbCd1", JSON_ESCAPE_OK, 0xabcd, 6);
  escape("\\ud83d\\ude80x", JSON_ESCAPE_OK, 0x1f680, 12);
  escape("\\udbff\\udfff", JSON_ESCAPE_OK, 0x10ffff, 12);
  escape("\\ud83d", JSON_ESCAPE_SURROGATE, 0xd83d, 6);
  escape("\\ude80\\ud83d", JSON_ESCAPE_SURROGATE, 0xde80, 6);
  escape("\\ud83d\\u0041", JSON_ESCAPE_SURROGATE, 0xd83d, 6);
  escape("\\ud83d\\ude8", JSON_ESCAPE_SURROGATE, 0xd83d, 6);
  escape("\\ud83dxxxxxx", JSON_ESCAPE_SURROGATE, 0xd83d, 6);
  escape("\\", JSON_ESCAPE_CUT, 0, 0);
  escape("\\u12", JSON_ESCAPE_CUT, 0, 0);
  escape("\\u12g4", JSON_ESCAPE_BAD, 0, 0);
  escape("\\x41", JSON_ESCAPE_BAD, 0, 0);
  escape("\\'", JSON_ESCAPE_BAD, 0, 0);
  escape("\\u`123", JSON_ESCAPE_BAD, 0, 0);
}

static void number(const char *text, size_t used, bool is_int, int64_t integer, double value) {
  struct json_number n;
  const char *end = json_scan_number(text, text + strlen(text), &n);
  if (!end)
    fail_msg("%s is no number", text);
  assert_int_equal(end - text, used);
  assert_ptr_equal(json_skip_number(text, text + strlen(text)), end);
  assert_int_equal(n.is_int, is_int);
  assert_int_equal(n.range, isinf(value) != 0);
  if (memcmp(&n.number, &value, 8) != 0)
    fail_msg("%s: %a, expected %a", text, n.number, value);
  if (is_int)
    assert_true(n.integer == integer);
}

static void test_numbers(void **state) {
  (void)state;
  number("0", 1, true, 0, 0);
  number("-0", 2, true, 0, 0);
  number("-0.0", 4, false, 0, -0.0);
  number("12,", 2, true, 12, 12);
  number("9223372036854775807", 19, true, INT64_MAX, 0x1p63);
  number("9223372036854775808", 19, false, 0, 0x1p63);
  number("-9223372036854775808", 20, true, INT64_MIN, -0x1p63);
  number("-9223372036854775809", 20, false, 0, -0x1p63);
  number("18446744073709551616", 20, false, 0, 0x1p64);
  number("123456789012345678901234567890", 30, false, 0, 123456789012345678901234567890.0);
  number("1.5", 3, false, 0, 1.5);
  number("1e2", 3, false, 0, 100);
  number("1E+2]", 4, false, 0, 100);
  number("25e-1", 5, false, 0, 2.5);
  number("0.000001", 8, false, 0, 1e-6);
  number("1e22", 4, false, 0, 1e22);
  number("1e23", 4, false, 0, 1e23);
  number("8.5e-23", 7, false, 0, 8.5e-23);
  number("9007199254740993", 16, true, 9007199254740993, 9007199254740992.0);
  number("9007199254740993.0", 18, false, 0, 9007199254740992.0); /* a tie, to even */
  number("9007199254740993.00000000000000000000000001", 43, false, 0, 9007199254740994.0);
  number("1.7976931348623157e308", 22, false, 0, 1.7976931348623157e308);
  number("1e309", 5, false, 0, INFINITY);
  number("-1e400", 6, false, 0, -INFINITY);
  number("1e-400", 6, false, 0, 0.0);
  number("1e99999999999999999999", 22, false, 0, INFINITY);
  number("1e-99999999999999999999", 23, false, 0, 0.0);
  number("0e99999999999999999999", 22, false, 0, 0.0);
  number("4.9e-324", 8, false, 0, 0x1p-1074);
  number("2.2250738585072011e-308", 23, false, 0, 2.2250738585072011e-308);
}

static void test_long_numbers(void **state) {
  (void)state;
  char text[3000];
  memset(text, '0', sizeof text);
  text[0] = '0', text[1] = '.', text[2500] = '7';
  memcpy(text + 2501, "e2499", 6); /* 0.000…7e2499 = 7 */
  number(text, 2506, false, 0, 7);
  memset(text, '9', 400);
  text[400] = '\0';
  number(text, 400, false, 0, INFINITY);
  memcpy(text + 400, "e-399", 6);
  number(text, 405, false, 0, 10.0);
}

static void test_no_numbers(void **state) {
  (void)state;
  const char *texts[] = {"",   "-",    "+1", "01",  "-01", "00", ".5",
                         "1.", "1.e5", "1e", "1e+", "-e1", "x"};
  struct json_number n;
  for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
    const char *end = texts[i] + strlen(texts[i]);
    if (json_scan_number(texts[i], end, &n) || json_skip_number(texts[i], end))
      fail_msg("%s was taken for a number", texts[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_runs),       cmocka_unit_test(test_escapes),
      cmocka_unit_test(test_numbers),    cmocka_unit_test(test_long_numbers),
      cmocka_unit_test(test_no_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
