/* Patterns, and the rewriting of regular expressions (pattern.c, tokenregex.c). What the reference
 * makes of such patterns is in tests/data/tokenizer. */
#include "check.h"

#include "text/pattern.h"
#include "text/tokenregex.h"
#include "text/unicode.h"

/* The matches as "0-3 4-5", checked against `want`. */
static void check_matches(struct pattern p, const char *text, const char *want) {
  struct pattern_search s;
  struct err err;
  size_t start, end, n = 0;
  char got[400] = "";
  int rc;
  pattern_begin(&s, &p, text, strlen(text));
  while ((rc = pattern_next(&s, &start, &end, &err)) > 0)
    n += (size_t)snprintf(got + n, sizeof got - n, "%s%zu-%zu", n ? " " : "", start, end);
  pattern_end(&s);
  assert_int_equal(rc, 0);
  assert_string_equal(got, want);
  pattern_free(&p);
}

static struct pattern regex(const char *text) {
  struct pattern p;
  struct err err;
  check_ok(pattern_regex(&p, text, strlen(text), &err), &err);
  return p;
}

static void test_matches(void **state) {
  (void)state;
  check_matches(pattern_string(" ", 1), "a b  c", "1-2 3-4 4-5");
  check_matches(pattern_string("aa", 2), "aaaaa", "0-2 2-4");
  check_matches(pattern_string("", 0), "abc", "");
  check_matches(pattern_class(UNICODE_NUMBER), "a1\xd9\xa1 2", "1-2 2-4 5-6");
  check_matches(regex("\\p{N}{1,3}"), "12345 6", "0-3 3-5 6-7");
  check_matches(regex("b+"), "abbab", "1-3 4-5");
  check_matches(regex("x*"), "axb", "0-0 1-2 3-3");
  check_matches(regex("(?=(\\d{3})+(?!\\d))"), "1234567", "1-1 4-4");
  check_matches(regex("\\bw"), "w aw w\xcc\x81w", "0-1 5-6");
  check_matches(regex("\\Bw"), "w aw", "3-4");
  check_matches(regex("[^\\S\\n]+"), "a \xe1\xa0\x8e\xc2\x85\n",
                "1-2 5-7");                                  /* U+180E is no space */
  check_matches(regex("\\p{L}"), "\xf0\xb1\x8d\x90", "0-4"); /* Unicode 15 */
  check_matches(regex("[\\P{L}]"), "a1\xe4\xb8\xad!", "1-2 5-6");
  check_matches(regex("\\p{^Han}+"), "ab\xe3\x80\x82\xe4\xb8\xad", "0-5"); /* 。 is no Han */
  check_matches(regex("(?i:'S)"), "'\xc5\xbf 's", "0-3 4-6");
  check_matches(regex("."), "a\n\r", "0-1 2-3");
}

static void test_backtracking(void **state) {
  (void)state;
  struct pattern p = regex("(?:(a|b)+)+c");
  struct pattern_search s;
  struct err err;
  size_t start, end;
  const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaadc";
  pattern_begin(&s, &p, text, sizeof text - 1);
  assert_int_equal(pattern_next(&s, &start, &end, &err), ERR_LIMIT);
  assert_string_equal(err.text, "the pattern's search from byte 0 on tries too many ways to match "
                                "(PCRE2: match limit exceeded); other texts may do");
  pattern_end(&s);
  pattern_free(&p);
}

static void check_refused(const char *text, const char *what) {
  struct pattern p;
  struct err err;
  int rc = pattern_regex(&p, text, strlen(text), &err);
  assert_true(rc == ERR_UNSUPPORTED || rc == ERR_INVALID);
  check_has(err.text, what);
  pattern_free(&p);
}

static void test_refused(void **state) {
  (void)state;
  check_refused("a$", "$ has no exact equal");
  check_refused("^a", "^");
  check_refused("[a&&[b]]", "&&");
  check_refused("[a[b]]", "a class within a class");
  check_refused("[]a]", "begins with ]");
  check_refused("[a", "does not end");
  check_refused("\\h+", "\\h");
  check_refused("\\v", "\\v");
  check_refused("(a)\\1", "\\1");
  check_refused("\\p{Greek}", "Greek");
  check_refused("\\p{w}", "w has no");
  check_refused("\\pL", "\\p without {NAME}");
  check_refused("a{,3}", "{,");
  check_refused("a{1,3}+", "}+");
  check_refused("(?m:a)", "(?m:");
  check_refused("(?i:\\p{Lu})", "within (?i:");
  check_refused("(?i)a", "(?i)");
  check_refused("(*UTF)a", "(*");
  check_refused("\\xe4", "\\x");
  check_refused("a\\", "backslash");
  check_refused("(a", "pattern \"(a\": missing closing parenthesis");
}

static void test_rewrite(void **state) {
  (void)state;
  struct buf b;
  struct err err;
  buf_init(&b, 1000);
  check_ok(tokenregex_rewrite("a[\\s]{2}\\-", 10, &b, &err), &err);
  check_has(b.data, "a[\\x{9}-\\x{d}\\x{20}");
  check_has(b.data, "]{2}\\-");
  assert_int_equal(tokenregex_rewrite("\\p{L}", 5, &b, &err), ERR_LIMIT);
  check_has(err.text, "more than 1000 bytes");
  buf_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matches), cmocka_unit_test(test_backtracking),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_rewrite)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
