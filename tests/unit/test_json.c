#include "check.h"

#include "text/json.h"

static struct value parse(const char *text) {
  struct value v;
  struct err err;
  int rc = json_parse(text, strlen(text), &v, &err);
  if (rc)
    fail_msg("%s: %s", text, err.text);
  return v;
}

static void test_scalars(void **state) {
  (void)state;
  assert_int_equal(parse(" null ").kind, VALUE_NULL);
  struct value v = parse("\ttrue\r\n");
  assert_int_equal(v.kind, VALUE_BOOL);
  assert_true(v.u.boolean);
  v = parse("false");
  assert_int_equal(v.kind, VALUE_BOOL);
  assert_false(v.u.boolean);
  v = parse("-12");
  assert_int_equal(v.kind, VALUE_INT);
  assert_int_equal(v.u.integer, -12);
  v = parse("9223372036854775807");
  assert_int_equal(v.kind, VALUE_INT);
  assert_true(v.u.integer == INT64_MAX);
  v = parse("9223372036854775808"); /* larger whole numbers are doubles that keep their digits */
  assert_int_equal(v.kind, VALUE_DOUBLE);
  assert_true(v.u.number == 9223372036854775808.0);
  assert_string_equal(v.u.digits, "9223372036854775808");
  value_free(&v);
  v = parse("[18446744073709551615,-99999999999999999999,1e25]");
  struct value copy = value_copy(&v);
  assert_true(value_equal(&v, &copy));
  struct buf b;
  buf_init(&b, 1000);
  json_write(&b, &copy);
  assert_string_equal(b.data, "[18446744073709551615,-99999999999999999999,1e+25]");
  buf_free(&b);
  value_free(&copy);
  value_free(&v);
  v = parse("1e2");
  assert_int_equal(v.kind, VALUE_DOUBLE);
  assert_true(v.u.number == 100);
  v = parse("-0");
  assert_int_equal(v.kind, VALUE_INT);
  assert_int_equal(v.u.integer, 0);
}

static void check_string(const char *text, const char *want, size_t len) {
  struct value v = parse(text);
  assert_int_equal(v.kind, VALUE_STRING);
  assert_int_equal(v.u.string.len, len);
  assert_memory_equal(v.u.string.data, want, len + 1);
  value_free(&v);
}

static void test_strings(void **state) {
  (void)state;
  check_string("\"\"", "", 0);
  check_string("\"a long string without escapes\"", "a long string without escapes", 29);
  check_string("\"\\u0000\\n\\/\"", "\0\n/", 3);
  check_string("\"x\\ud83d\\ude80y\"", "x\xf0\x9f\x9a\x80y", 6);
  check_string("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80\x7f\"",
               "\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80\x7f", 10);
  check_string("\"\\u00e9\\u20ac\"", "\xc3\xa9\xe2\x82\xac", 5);
  check_string("\"\xc2\x85\xe2\x80\xa8\"", "\xc2\x85\xe2\x80\xa8", 5); /* U+0085, U+2028 */
}

static void test_containers(void **state) {
  (void)state;
  struct value v = parse("[]");
  assert_int_equal(v.kind, VALUE_ARRAY);
  assert_int_equal(value_count(&v), 0);
  v = parse("{ }");
  assert_int_equal(v.kind, VALUE_OBJECT);
  assert_int_equal(value_count(&v), 0);
  v = parse("[1,[2,[]],{\"a\":[{}]}]");
  assert_int_equal(value_count(&v), 3);
  assert_int_equal(value_at(value_at(&v, 1), 0)->u.integer, 2);
  assert_int_equal(value_at(value_get(value_at(&v, 2), "a"), 0)->kind, VALUE_OBJECT);
  value_free(&v);
}

/* The first place, the last value; also where the key has escapes and the object its index. */
static void test_repeated_keys(void **state) {
  (void)state;
  struct value v = parse("{\"a\":[1],\"b\":2,\"\\u0061\":{\"x\":3}}");
  assert_int_equal(value_count(&v), 2);
  assert_string_equal(v.u.object.pairs[0].key, "a");
  assert_int_equal(value_get(value_get(&v, "a"), "x")->u.integer, 3);
  value_free(&v);
  v = parse("{\"0\":0,\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8,\"9\":9,"
            "\"3\":33,\"9\":99}");
  assert_int_equal(value_count(&v), 10);
  assert_int_equal(v.u.object.pairs[3].value.u.integer, 33);
  assert_int_equal(value_get(&v, "9")->u.integer, 99);
  value_free(&v);
}

static void bad_len(const char *text, size_t len, const char *want) {
  struct value v = value_int(1);
  struct err err;
  int rc = json_parse(text, len, &v, &err);
  if (rc != ERR_INVALID)
    fail_msg("%s was accepted (%d)", text, rc);
  assert_int_equal(v.kind, VALUE_NULL);
  if (strcmp(err.text, want) != 0)
    fail_msg("%s: \"%s\", expected \"%s\"", text, err.text, want);
}

static void bad(const char *text, const char *want) {
  bad_len(text, strlen(text), want);
}

static void test_errors(void **state) {
  (void)state;
  bad_len(NULL, 0, "line 1, column 1: expected a value, but the text ends here");
  bad("[1,\n 2,\n  x]", "line 3, column 3: expected a value, found 'x'");
  bad("[1 2]", "line 1, column 4: expected ',' or ']' after an array's item, found '2'");
  bad("[1,]", "line 1, column 4: expected a value, found ']'");
  bad("[1", "line 1, column 3: expected ',' or ']' after an array's item, but the text ends here");
  bad("{\"a\":1,}", "line 1, column 8: expected a key in double quotes, found '}'");
  bad("{a:1}", "line 1, column 2: expected a key in double quotes, found 'a'");
  bad("{\"a\" 1}", "line 1, column 6: expected ':' after a key, found '1'");
  bad("{\"a\":1 \"b\":2}",
      "line 1, column 8: expected ',' or '}' after an object's value, found '\"'");
  bad("[1]\n[2]", "line 2, column 1: something follows the JSON value");
  bad_len("1\0", 2, "line 1, column 2: something follows the JSON value");
  bad("[\"\xc3\xa9\", \"ab", "line 1, column 7: this string has no closing quote");
  bad("\"a\nb\"", "line 1, column 3: a control character must be escaped inside a string");
  bad_len("\"a\0\"", 4, "line 1, column 3: a control character must be escaped inside a string");
  bad("\"\\x\"", "line 1, column 2: unknown escape; a backslash itself is written \\\\");
  bad("\"\\u12", "line 1, column 2: the text ends inside an escape");
  bad("\"\\ud800\"", "line 1, column 2: half of a surrogate pair in a \\u escape");
  bad("\"\\udc00\\ud800\"", "line 1, column 2: half of a surrogate pair in a \\u escape");
  bad("\"a\xff\"", "line 1, column 3: not valid UTF-8");
  bad("\"\xc0\x80\"", "line 1, column 2: not valid UTF-8");
  bad("\"\xed\xa0\x80\"", "line 1, column 2: not valid UTF-8");
  bad("\"\xe2\x82\"", "line 1, column 2: not valid UTF-8");
  bad("\"\xf4\x90\x80\x80\"", "line 1, column 2: not valid UTF-8");
  bad("NaN", "line 1, column 1: NaN and Infinity are not JSON; write null");
  bad("[Infinity]", "line 1, column 2: NaN and Infinity are not JSON; write null");
  bad("-Infinity",
      "line 1, column 1: not a JSON number (digits, no leading zero or plus, no bare point)");
  bad("[01]",
      "line 1, column 2: not a JSON number (digits, no leading zero or plus, no bare point)");
  bad("1e999", "line 1, column 1: this number is too large for a double");
  bad("tru", "line 1, column 1: expected a value, found 't'");
  bad("truex", "line 1, column 5: something follows the JSON value");
  bad("'a'", "line 1, column 1: expected a value, found '''");
  bad("\xef\xbb\xbf{}", "line 1, column 1: expected a value, found byte 0xef");
}

static void test_depth(void **state) {
  (void)state;
  char text[2 * JSON_MAX_DEPTH + 3];
  memset(text, '[', JSON_MAX_DEPTH);
  memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
  text[2 * JSON_MAX_DEPTH] = '\0';
  struct value v = parse(text);
  value_free(&v);
  memset(text, '[', JSON_MAX_DEPTH + 1);
  memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
  bad_len(text, 2 * JSON_MAX_DEPTH + 2, "line 1, column 201: nested deeper than 200 levels");
}

/* Every cut of a text that has everything in it is an error, and leaks nothing. */
static void test_cuts(void **state) {
  (void)state;
  static const char text[] =
      "{\"a\\n\":[1,-2.5e3,true,false,null,\"\\u00e9\\ud83d\\ude80\xc3\xa9\"],"
      "\"b\":{\"c\":[{}]}}";
  struct value v;
  struct err err;
  for (size_t len = 0; len < sizeof text - 1; len++) {
    assert_int_equal(json_parse(text, len, &v, &err), ERR_INVALID);
    assert_int_equal(v.kind, VALUE_NULL);
  }
  check_ok(json_parse(text, sizeof text - 1, &v, &err), &err);
  value_free(&v);
}

static void test_utf8_valid(void **state) {
  (void)state;
  assert_int_equal(json_utf8_valid(NULL, 0), 0);
  assert_int_equal(json_utf8_valid("abcdefghijk", 11), 11);
  assert_int_equal(json_utf8_valid("abcdefgh\xc3\xa9zz\xff", 13), 12);
  assert_int_equal(json_utf8_valid("abcdefgh\xc3", 9), 8);
  assert_int_equal(json_utf8_valid("\xed\x9f\xbf\xed\xa0\x80", 6), 3);
  assert_int_equal(json_utf8_valid("\xf4\x8f\xbf\xbf\xf4\x90\x80\x80", 8), 4);
  assert_int_equal(json_utf8_valid("a\0b", 3), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scalars),    cmocka_unit_test(test_strings),
      cmocka_unit_test(test_containers), cmocka_unit_test(test_repeated_keys),
      cmocka_unit_test(test_errors),     cmocka_unit_test(test_depth),
      cmocka_unit_test(test_cuts),       cmocka_unit_test(test_utf8_valid),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
