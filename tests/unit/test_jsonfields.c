#include "check.h"

#include "text/jsonfields.h"

struct record {
  int64_t n, m;
  uint64_t stamp;
  bool yes;
  struct jsonslice word, raw;
  int items;
};

static const char *count_item(const char *p, const char *end, void *out) {
  ((struct record *)out)->items++;
  return jsonwalk_skip(p, end);
}

static const char *read_list(const char *p, const char *end, void *out) {
  return jsonfields_array(p, end, count_item, out);
}

#define FIELD(key, kind, member) JSONFIELD(key, JSONFIELD_##kind, struct record, member)
static const struct jsonfield fields[] = {
    FIELD("n", INT, n),
    FIELD("a_longer_name", INT, m),
    FIELD("stamp_ns", STAMP, stamp),
    FIELD("yes", TRUE, yes),
    FIELD("word", STRING, word),
    FIELD("raw", RAW, raw),
    JSONFIELD_BY("list", read_list),
};

/* How many bytes were read; -1 when it was refused. */
static int read(const char *text, struct record *r) {
  *r = (struct record){.n = -1, .m = -1, .stamp = 77};
  const char *end = text + strlen(text);
  const char *p = jsonfields_read(fields, ARRAY_LEN(fields), text, end, r);
  return p ? (int)(p - text) : -1;
}

static void check_text(struct jsonslice s, const char *want) {
  assert_non_null(s.p);
  assert_int_equal(s.end - s.p, strlen(want));
  assert_memory_equal(s.p, want, strlen(want));
}

static void test_in_any_order(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{\"n\":-12,\"a_longer_name\":7,\"stamp_ns\":18446744073709551615,\"yes\":true,\"word\":"
      "\"x\\\"y\","
      "\"raw\":{\"n\":[1,\"}\"]},\"list\":[1,[2],\"]\"]} rest",
      " { \"list\" : [ 1 , [2] , \"]\" ] , \"raw\" : {\"n\":[1,\"}\"]} , \"word\" : \"x\\\"y\" , "
      "\"yes\" : true , \"stamp_ns\" : 18446744073709551615 , \"a_longer_name\" : 7 , \"n\" : -12 "
      "} rest",
      "{\"\":0,\"none\":{\"n\":5},\"n\":3,\"n\":-12,\"a_longer_namf\":1,\"a_longer_name\":7,\"nn\":"
      "1,"
      "\"stamp_ns\":18446744073709551615,\"x\":[],\"yes\":true,\"word\":\"x\\\"y\",\"y\":\"\","
      "\"raw\":{\"n\":[1,\"}\"]},\"list\":[1,[2],\"]\"],\"z\":null} rest",
  };
  for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
    struct record r;
    assert_int_equal(read(texts[i], &r), strlen(texts[i]) - strlen(" rest"));
    assert_int_equal(r.n, -12);
    assert_int_equal(r.m, 7);
    assert_true(r.stamp == UINT64_MAX && r.yes);
    check_text(r.word, "x\\\"y");
    check_text(r.raw, "{\"n\":[1,\"}\"]}");
    assert_int_equal(r.items, 3);
  }
}

static void test_other_values_leave_what_is_there(void **state) {
  (void)state;
  static const char *const values[] = {"null", "1.5",       "\"12\"", "1e3",
                                       "[1]",  "{\"n\":1}", "true",   "12x"};
  for (size_t i = 0; i < ARRAY_LEN(values); i++) {
    char text[80];
    struct record r;
    snprintf(text, sizeof text, "{\"n\":%s,\"stamp_ns\":%s,\"yes\":1}", values[i], values[i]);
    assert_int_equal(read(text, &r), strlen(text));
    if (r.n != -1 || r.stamp != 77 || r.yes)
      fail_msg("%s is taken for a whole number", values[i]);
  }
  struct record r;
  const char *text = "{\"n\":9223372036854775808,\"stamp_ns\":18446744073709551616,\"word\":null}";
  assert_int_equal(read(text, &r), strlen(text));
  assert_true(r.n == -1 && r.stamp == 77 && !r.word.p);
  assert_int_equal(read("{\"stamp_ns\":-1,\"n\":9223372036854775807}", &r), 39);
  assert_true(r.stamp == 77 && r.n == INT64_MAX);
  assert_int_equal(read("{}", &r), 2);
}

static void test_what_is_no_object(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    "[1]",
                                    "{",
                                    "{\"n\"",
                                    "{\"n\":",
                                    "{\"n\":1",
                                    "{\"n\":1,",
                                    "{\"n\":1,}",
                                    "{n:1}",
                                    "{\"n\" 1}",
                                    "{\"n\":}",
                                    "{,}",
                                    "{\"n\":1 2}",
                                    "{\"list\":1}",
                                    "{\"list\":[1,]}",
                                    "{\"list\":[1 2]}",
                                    "{\"list\":[",
                                    "{\"list\":[1",
                                    "{\"word\":\"x",
                                    "{\"x\":[}"};
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    struct record r;
    int n = read(bad[i], &r);
    if (n != -1)
      fail_msg("%s is taken for an object", bad[i]);
  }
}

static void test_head(void **state) {
  (void)state;
  static const struct jsonfield two[] = {FIELD("n", INT, n), FIELD("yes", TRUE, yes)};
  struct record r = {.n = -1};
  const char *text = "{\"x\":1,\"yes\":true,\"n\":5,\"this is no JSON any more";
  assert_true(jsonfields_head(two, 2, text, text + strlen(text), &r));
  assert_true(r.n == 5 && r.yes);
  r = (struct record){.n = -1};
  text = "{\"x\":1,\"yes\":true}";
  assert_true(jsonfields_head(two, 2, text, text + strlen(text), &r));
  assert_true(r.n == -1 && r.yes);
  text = "{\"x\":1,\"yes\":true,nothing";
  assert_false(jsonfields_head(two, 2, text, text + strlen(text), &r));
}

static void test_digits(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int len; /* -1: refused */
    uint64_t n;
  } rows[] = {{"0", 1, 0},
              {"12,", 2, 12},
              {"", -1, 0},
              {"x", -1, 0},
              {"-1", -1, 0},
              {"18446744073709551615", 20, UINT64_MAX},
              {"18446744073709551616", -1, 0},
              {"99999999999999999999", -1, 0},
              {"000000000000000000000001", 24, 1}};
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    uint64_t n = 0;
    const char *p = jsonfields_digits(rows[i].text, rows[i].text + strlen(rows[i].text), &n);
    if ((p ? (int)(p - rows[i].text) : -1) != rows[i].len || (p && n != rows[i].n))
      fail_msg("%s is read wrongly", rows[i].text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_any_order),
                                     cmocka_unit_test(test_other_values_leave_what_is_there),
                                     cmocka_unit_test(test_what_is_no_object),
                                     cmocka_unit_test(test_head), cmocka_unit_test(test_digits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
