#include "check.h"

#include "text/json.h"
#include "text/unicode.h"

/* Every class equals the ranges it was made from, at their edges and everywhere between. */
static void test_classes(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint8_t bit;
  } all[] = {{"L", UNICODE_LETTER},
             {"N", UNICODE_NUMBER},
             {"M", UNICODE_MARK},
             {"s", UNICODE_SPACE},
             {"Han", UNICODE_HAN}};
  for (size_t i = 0; i < ARRAY_LEN(all); i++) {
    size_t n, at = 0;
    const uint32_t *r = unicode_ranges(all[i].name, strlen(all[i].name), &n);
    assert_non_null(r);
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
      while (at < n && r[2 * at + 1] < cp)
        at++;
      bool in = at < n && cp >= r[2 * at];
      if (in != !!(unicode_class(cp) & all[i].bit) || in != unicode_in_ranges(r, n, cp))
        fail_msg("U+%04X in %s", cp, all[i].name);
    }
  }
  size_t n;
  assert_null(unicode_ranges("Greek", 5, &n));
  assert_int_equal(unicode_class(0x110000), 0);
  assert_int_equal(unicode_class('A'), UNICODE_LETTER | UNICODE_UPPER_LIKE);
  assert_int_equal(unicode_class('$'), UNICODE_PUNCT);
  assert_int_equal(unicode_class(0x180e), 0); /* no space since Unicode 6.3 */
}

static const char *normal(const char *text, bool nfc, struct buf *b) {
  buf_reset(b);
  unicode_normalize(text, strlen(text), nfc, b);
  return b->data;
}

static void test_normalization(void **state) {
  (void)state;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  assert_string_equal(normal("e\xcc\x81", true, &b), "\xc3\xa9");
  assert_string_equal(normal("\xc3\xa9", false, &b), "e\xcc\x81");
  assert_string_equal(normal("\xed\x95\x9c", false, &b), "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab");
  assert_string_equal(normal("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", true, &b), "\xed\x95\x9c");
  assert_string_equal(normal("q\xcc\x87\xcc\xa3", true, &b), "q\xcc\xa3\xcc\x87"); /* reordered */
  assert_string_equal(normal("\xe2\x84\xab", true, &b), "\xc3\x85");               /* ANGSTROM */
  assert_string_equal(normal("a\xcc\x81\xcc\x80", true, &b),
                      "\xc3\xa1\xcc\x80"); /* equal class: in order */
  /* Unicode 9.0: what came later stays apart (U+105D2 U+0307), and U+07FD is no mark yet. */
  assert_string_equal(normal("\xf0\x90\x97\x92\xcc\x87", true, &b), "\xf0\x90\x97\x92\xcc\x87");
  assert_string_equal(normal("a\xdf\xbd\xcc\x96", true, &b), "a\xdf\xbd\xcc\x96");
  buf_free(&b);
}

static void put_hex(struct buf *b, const char *list) {
  for (char *end; *list; list = end) {
    uint32_t cp = (uint32_t)strtoul(list, &end, 16);
    char bytes[4];
    unsigned n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (unsigned i = n; i-- > 1; cp >>= 6)
      bytes[i] = (char)(0x80 | (cp & 0x3f));
    bytes[0] = (char)(n == 1 ? cp : (0xf00u >> n & 0xff) | cp);
    buf_put(b, bytes, n);
    while (*end == ' ')
      end++;
  }
}

/* Every line of the golden differences from newer Unicode. */
static void test_golden(void **state) {
  (void)state;
  struct err err;
  size_t len;
  char *text = check_read_file("tests/data/unicode/nfc_diffs.json", &len);
  struct value rows;
  check_ok(json_parse(text, len, &rows, &err), &err);
  struct buf in, want, got;
  buf_init(&in, BUF_MAX_OWN);
  buf_init(&want, BUF_MAX_OWN);
  buf_init(&got, BUF_MAX_OWN);
  for (size_t i = 0; i < value_count(&rows); i++) {
    const char *given = value_to_string(value_get(value_at(&rows, i), "in"));
    buf_reset(&in);
    buf_reset(&want);
    put_hex(&in, given);
    put_hex(&want, value_to_string(value_get(value_at(&rows, i), "hf")));
    if (strcmp(normal(in.data, true, &got), want.data) != 0)
      fail_msg("NFC of %s", given);
  }
  assert_int_equal(value_count(&rows), 1134);
  buf_free(&in);
  buf_free(&want);
  buf_free(&got);
  value_free(&rows);
  free(text);
}

static void test_span(void **state) {
  (void)state;
  assert_int_equal(unicode_nfc_span("plain ascii text", 16), 16);
  assert_int_equal(unicode_nfc_span("h\xc3\xa9 \xe4\xb8\xad", 7), 7);
  assert_int_equal(unicode_nfc_span("abcdefgh e\xcc\x81!", 13), 9); /* from the e on */
  assert_int_equal(unicode_nfc_stretch("e\xcc\x81!", 4), 3);
  assert_int_equal(unicode_nfc_stretch("\xcc\x81", 2), 2);
  assert_int_equal(unicode_nfc_span("abcdefghi\xcc\x81", 11), 8);
  assert_int_equal(unicode_nfc_span("\xcc\x81", 2), 0);
  assert_int_equal(unicode_nfc_stretch("", 0), 0);
}

/* A hundred thousand marks in the worst order: counted, not inserted. */
static void test_many_marks(void **state) {
  (void)state;
  struct buf in, out;
  buf_init(&in, BUF_MAX_OWN);
  buf_init(&out, BUF_MAX_OWN);
  buf_putc(&in, 'a');
  for (int i = 0; i < 100000; i++)
    buf_puts(&in, i % 2 ? "\xcc\x96" : "\xcc\x95"); /* classes 220 and 232 */
  unicode_normalize(in.data, in.len, true, &out);
  assert_int_equal(out.len, in.len);
  assert_memory_equal(out.data + 1, "\xcc\x96\xcc\x96", 4);
  assert_memory_equal(out.data + out.len - 4, "\xcc\x95\xcc\x95", 4);
  buf_free(&in);
  buf_free(&out);
}

static void test_lower(void **state) {
  (void)state;
  uint32_t more;
  assert_int_equal(unicode_lower('A', &more), 'a');
  assert_int_equal(unicode_lower('a', &more), 'a');
  assert_int_equal(unicode_lower(0x130, &more), 'i');
  assert_int_equal(more, 0x307);
  assert_int_equal(unicode_lower(0x1e9e, &more), 0xdf);
  assert_int_equal(more, 0);
  assert_int_equal(unicode_lower(0x16ea0, &more), 0x16ebb); /* Unicode 17 */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_classes),    cmocka_unit_test(test_normalization),
      cmocka_unit_test(test_golden),     cmocka_unit_test(test_span),
      cmocka_unit_test(test_many_marks), cmocka_unit_test(test_lower)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
