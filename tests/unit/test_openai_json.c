#include "check.h"

#include "text/openai_json.h"

/* Whether the whole of text is skipped as one JSON value; *cut as the scanner says. */
static bool skips(const char *text, size_t len, bool *cut) {
  struct scan s;
  struct buf key;
  char *exact = malloc(len ? len : 1);
  memcpy(exact, text, len);
  buf_init(&key, BUF_MAX_OWN);
  scan_init(&s, exact, len, &key);
  scan_skip(&s);
  scan_end(&s);
  *cut = s.cut;
  buf_free(&key);
  free(exact);
  return !s.bad;
}

static void test_skip(void **state) {
  (void)state;
  const char *good[] = {"{}",
                        "[]",
                        " [ ] ",
                        "null",
                        "true",
                        "false",
                        "0",
                        "-1.5e3",
                        "\"\"",
                        "{\"a\":[1,{\"b\":null}],\"\\u0061\":\"\\ud83d\"}\n",
                        "\"\xff\xc3\"",
                        "[[],[]]"};
  const char *wrong[] = {
      "{,}",   "{\"a\"}", "{\"a\":}",   "{\"a\":1,}", "{1:2}",     "[1,]",
      "[,1]",  "[1 2]",   "nul",        "nulL",       "truefalse", "01",
      "1.",    "+1",      "\"\\x\"",    "\"\n\"",     "\"\t\"",    "'a'",
      "{} {}", "]",       "}",          "[}",         "{\"a\" 1}", "{\"a\":1 \"b\":2}",
      "NaN",   "-",       "\"\\u12g4\""};
  bool cut;
  for (size_t i = 0; i < ARRAY_LEN(good); i++)
    if (!skips(good[i], strlen(good[i]), &cut) || cut)
      fail_msg("%s was refused", good[i]);
  for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
    if (skips(wrong[i], strlen(wrong[i]), &cut))
      fail_msg("%s was accepted", wrong[i]);
  assert_false(skips("1\0", 2, &cut));
  assert_false(skips("[1}", 3, &cut) || cut);
  assert_false(skips("{\"a\":\"\\q\"}", 10, &cut) || cut);
}

static void test_cuts(void **state) {
  (void)state;
  static const char text[] =
      "{\"a\":[1,-2.5e3,true,false,null],\"b\":{\"c\":\"\\u00e9\\n\"},\"d\":[{}]}";
  bool cut;
  for (size_t len = 0; len < sizeof text - 1; len++) {
    if (skips(text, len, &cut))
      fail_msg("accepted at %zu", len);
    if (!cut)
      fail_msg("not seen as cut at %zu", len);
  }
  assert_true(skips(text, sizeof text - 1, &cut));
}

static void test_depth(void **state) {
  (void)state;
  bool cut;
  char text[402];
  memset(text, '[', 201);
  memset(text + 201, ']', 201);
  assert_true(skips(text + 1, 400, &cut));
  assert_false(skips(text, 402, &cut));
  assert_false(cut);
}

/* Walks {"key": value…} and writes what it sees. */
static void test_walk(void **state) {
  (void)state;
  static const char text[] =
      " { \"a\" : \"x\" , \"\\u0062\":[ 1 , 2 ], \"c\":null,\"d\":{},\"n\":7} ";
  struct scan s;
  struct buf key_room;
  struct scan_str key, str;
  bool first = true, first_item = true;
  buf_init(&key_room, BUF_MAX_OWN);
  scan_init(&s, text, sizeof text - 1, &key_room);
  assert_true(scan_enter(&s, '{'));
  assert_true(scan_key(&s, &first, &key));
  assert_true(SCAN_IS(key, "a"));
  assert_false(SCAN_IS(key, "ab"));
  scan_string(&s, &str);
  assert_true(str.there && !str.escaped && str.len == 1 && *str.p == 'x');
  assert_true(scan_key(&s, &first, &key));
  assert_true(SCAN_IS(key, "b"));
  assert_true(scan_enter(&s, '['));
  assert_true(scan_item(&s, &first_item));
  assert_int_equal(scan_count(&s, -1), 1);
  assert_true(scan_item(&s, &first_item));
  scan_skip(&s);
  assert_false(scan_item(&s, &first_item));
  assert_true(scan_key(&s, &first, &key));
  scan_string(&s, &str);
  assert_true(!str.there && !str.len);
  assert_true(scan_key(&s, &first, &key));
  assert_false(scan_enter(&s, '[')); /* an object: skipped */
  assert_true(scan_key(&s, &first, &key));
  scan_string(&s, &str); /* a number: skipped */
  assert_false(str.there);
  assert_false(scan_key(&s, &first, &key));
  scan_end(&s);
  assert_false(s.bad);
  buf_free(&key_room);
}

static int64_t count(const char *text, bool *bad) {
  struct scan s;
  scan_init(&s, text, strlen(text), NULL);
  int64_t n = scan_count(&s, -7);
  scan_end(&s);
  *bad = s.bad;
  return n;
}

static void test_counts(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t want;
  } rows[] = {{"0", 0},
              {" 42 ", 42},
              {"1e3", 1000},
              {"12.0", 12},
              {"9223372036854775807", INT64_MAX},
              {"-1", -7},
              {"1.5", -7},
              {"null", -7},
              {"\"12\"", -7},
              {"9223372036854775808", -7},
              {"99999999999999999999999", -7},
              {"1e300", -7},
              {"1e999", -7},
              {"{\"a\":[1]}", -7},
              {"true", -7}};
  bool bad;
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    int64_t got = count(rows[i].text, &bad);
    if (got != rows[i].want || bad)
      fail_msg("%s: %lld, expected %lld", rows[i].text, (long long)got, (long long)rows[i].want);
  }
  count("-x", &bad);
  assert_true(bad);
  count("1x", &bad);
  assert_true(bad);
}

static void test_codes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t want;
    const char *word;
  } rows[] = {{"500", 500, NULL},
              {"-3", -3, NULL},
              {"\"429\"", 429, NULL},
              {"null", -7, NULL},
              {"\"bad_key\"", -7, "bad_key"},
              {"\"\"", -7, ""},
              {"\"1.5\"", -7, "1.5"},
              {"[]", -7, NULL}};
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    struct scan s;
    struct scan_str word;
    scan_init(&s, rows[i].text, strlen(rows[i].text), NULL);
    assert_int_equal(scan_code(&s, -7, &word), rows[i].want);
    assert_int_equal(word.there, rows[i].word != NULL);
    if (rows[i].word)
      assert_true(scan_equals(&word, rows[i].word));
    scan_end(&s);
    assert_false(s.bad);
  }
}

/* A string that never ends, where a code should be. */
static void test_broken_code(void **state) {
  (void)state;
  struct scan s;
  struct scan_str word = {0};
  scan_init(&s, "\"50", 3, NULL);
  assert_int_equal(scan_code(&s, -7, &word), -7);
  assert_false(word.there);
  assert_true(s.bad && s.cut);
}

static void unescape(const char *quoted, const char *want, size_t len) {
  struct scan s;
  struct scan_str str;
  struct buf b;
  scan_init(&s, quoted, strlen(quoted), NULL);
  scan_string(&s, &str);
  scan_end(&s);
  assert_false(s.bad);
  buf_init(&b, BUF_MAX_OWN);
  buf_puts(&b, "<");
  assert_int_equal(scan_unescape(&str, &b), 0);
  assert_int_equal(b.len, len + 1);
  assert_memory_equal(b.data + 1, want, len + 1);
  if (strlen(want) == len)
    assert_true(scan_equals(&str, want));
  assert_false(scan_equals(&str, "something else"));
  buf_free(&b);
}

static void test_unescape(void **state) {
  (void)state;
  unescape("\"\"", "", 0);
  unescape("\"plain\"", "plain", 5);
  unescape("\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz", 10);
  unescape("\"\\u0000\"", "\0", 1);
  unescape("\"\\u00e9\\u20AC\\ud83d\\ude80\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80", 9);
  unescape("\"x\\ud83dy\"", "x\xef\xbf\xbdy", 5);
  unescape("\"\\ude80\\ud83d\"", "\xef\xbf\xbd\xef\xbf\xbd", 6);
  unescape("\"\\ud83d\\ud83d\\ude80\"", "\xef\xbf\xbd\xf0\x9f\x9a\x80", 7);
  unescape("\"\\ud83d\\n\"", "\xef\xbf\xbd\n", 4);
  unescape("\"\xe2\x82\"", "\xe2\x82", 2); /* half a character passes */
  struct scan_str absent = {0};
  assert_false(scan_equals(&absent, ""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_skip),     cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_depth),    cmocka_unit_test(test_walk),
      cmocka_unit_test(test_counts),   cmocka_unit_test(test_codes),
      cmocka_unit_test(test_unescape), cmocka_unit_test(test_broken_code),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
