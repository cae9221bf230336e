#include "check.h"

#include "text/jsonwalk.h"

static struct jsonslice slice(const char *text) {
  return jsonwalk_value(text, text + strlen(text));
}

static void check_slice(const char *text, const char *want) {
  struct jsonslice s = slice(text);
  if (!want) {
    assert_null(s.p);
    return;
  }
  assert_non_null(s.p);
  assert_int_equal(s.end - s.p, strlen(want));
  assert_memory_equal(s.p, want, strlen(want));
}

static void test_values(void **state) {
  (void)state;
  check_slice("  12,", "12");
  check_slice("true]", "true");
  check_slice("\"a\\\"}\" x", "\"a\\\"}\"");
  check_slice("{\"a\":[1,{\"b\":\"]\"}]} rest", "{\"a\":[1,{\"b\":\"]\"}]}");
  check_slice("[]", "[]");
  check_slice("7", "7");
  check_slice("", NULL);
  check_slice("{\"a\"", NULL);
  check_slice("\"abc", NULL);
  check_slice("\"abc\\", NULL);
  check_slice("]", NULL);
}

static void test_walk(void **state) {
  (void)state;
  struct jsonwalk w;
  struct jsonslice k, v;
  assert_true(jsonwalk_begin(&w, slice("{ \"a\" : 1 , \"bc\":[2] }"), '{'));
  assert_int_equal(jsonwalk_next(&w, &k, &v), 1);
  assert_true(jsonwalk_is(k, "a"));
  assert_int_equal(jsonwalk_next(&w, &k, &v), 1);
  assert_true(jsonwalk_is(k, "bc"));
  assert_false(jsonwalk_is(k, "b"));
  assert_int_equal(*v.p, '[');
  assert_int_equal(jsonwalk_next(&w, &k, &v), 0);
  assert_true(jsonwalk_begin(&w, slice("[]"), '['));
  assert_int_equal(jsonwalk_next(&w, &k, &v), 0);
  assert_false(jsonwalk_begin(&w, slice("[]"), '{'));
  static const char *const bad[] = {"[1 2]", "[,]", "[1,]", "{\"a\"}", "{\"a\":}", "{1:2}"};
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    int more;
    assert_true(jsonwalk_begin(&w, slice(bad[i]), bad[i][0]));
    while ((more = jsonwalk_next(&w, &k, &v)) > 0)
      ;
    if (more != -1)
      fail_msg("%s is taken for JSON", bad[i]);
  }
}

static void test_strings(void **state) {
  (void)state;
  struct buf b;
  buf_init(&b, 40);
  assert_true(jsonwalk_string(slice("\"a\\n\\u00e9\\ud83d\\ude00\\u0000\xe4\xb8\xad\""), &b));
  assert_int_equal(b.len, 12);
  assert_memory_equal(b.data, "a\n\xc3\xa9\xf0\x9f\x98\x80\0\xe4\xb8\xad", 12);
  assert_false(jsonwalk_string(slice("\"\\ud83d\""), &b)); /* a lone surrogate */
  assert_false(jsonwalk_string(slice("\"\xff\""), &b));
  assert_false(jsonwalk_string(slice("\"\\x\""), &b));
  assert_false(jsonwalk_string(slice("12"), &b));
  assert_false(jsonwalk_string(slice("\"longer than there is room for in it\""), &b));
  buf_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_walk),
                                     cmocka_unit_test(test_strings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
