/* test_pychar.c: pychar.c and pychar_table.c against figures Python 3.11 gives for all code points.
 */
#include "check.h"

#include "text/pychar.h"

static void test_classes(void **state) {
  (void)state;
  static const struct {
    enum pychar_class what;
    size_t n;
    uint64_t sum;
  } rows[] = {
      {PYCHAR_ALPHA, 131756, UINT64_C(13903637152)},
      {PYCHAR_DECIMAL, 660, UINT64_C(30806570)},
      {PYCHAR_DIGIT, 788, UINT64_C(34551904)},
      {PYCHAR_NUMERIC, 1872, UINT64_C(103269490)},
      {PYCHAR_LOWER, 2471, UINT64_C(107772342)},
      {PYCHAR_UPPER, 1951, UINT64_C(95541008)},
      {PYCHAR_PRINTABLE, 144516, UINT64_C(14867683184)},
      {PYCHAR_SPACE, 29, UINT64_C(141704)},
      {PYCHAR_IDENT_START, 131975, UINT64_C(13915676731)},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t n = 0;
    uint64_t sum = 0;
    for (uint32_t c = 0; c < 0x110000; c++)
      if (pychar_classes(c) & (unsigned)rows[i].what) {
        n++;
        sum += c;
      }
    assert_int_equal(n, rows[i].n);
    assert_int_equal(sum, rows[i].sum);
  }
  assert_int_equal(pychar_classes(0x110000), 0);
}

/* FNV-1a over the code points that every code point becomes. */
static uint64_t mapped(enum pychar_case how) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (uint32_t c = 0; c < 0x110000; c++) {
    uint32_t to[3];
    size_t n = pychar_map(c, how, to);
    for (size_t i = 0; i < n; i++)
      h = (h ^ to[i]) * UINT64_C(0x100000001b3);
  }
  return h;
}

static void test_case(void **state) {
  (void)state;
  assert_int_equal(mapped(PYCHAR_TO_LOWER), UINT64_C(8268388485277460014));
  assert_int_equal(mapped(PYCHAR_TO_UPPER), UINT64_C(12142758617502602404));
  assert_int_equal(mapped(PYCHAR_TO_TITLE), UINT64_C(16007356234755287148));
  assert_int_equal(mapped(PYCHAR_TO_FOLD), UINT64_C(7436602690028719639));
  uint32_t to[3];
  assert_int_equal(pychar_map(0xdf, PYCHAR_TO_UPPER, to), 2);
  assert_int_equal(to[0], 'S');
  assert_int_equal(pychar_map(0x390, PYCHAR_TO_UPPER, to), 3);
}

static void test_decimal(void **state) {
  (void)state;
  assert_int_equal(pychar_decimal('7'), 7);
  assert_int_equal(pychar_decimal(0x663), 3);
  assert_int_equal(pychar_decimal(0xb2), -1);
  assert_int_equal(pychar_decimal(0x1fbf9), 9);
  assert_int_equal(pychar_decimal('a'), -1);
}

static void test_utf8(void **state) {
  (void)state;
  static const uint32_t all[] = {0,      0x7f,   0x80,   0x7ff,   0x800,
                                 0xd800, 0xdfff, 0xffff, 0x10000, 0x10ffff};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char bytes[4];
    size_t n = pychar_write(bytes, all[i]), size;
    assert_int_equal(pychar_read(bytes, n, &size), all[i]);
    assert_int_equal(size, n);
    if (n > 1) {
      assert_int_equal(pychar_read(bytes, n - 1, &size), 0xfffd);
      assert_int_equal(size, 1);
    }
  }
  static const char *const bad[] = {
      "\x80", "\xff", "\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    size_t size;
    assert_int_equal(pychar_read(bad[i], strlen(bad[i]), &size), 0xfffd);
    assert_int_equal(size, 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_case),
      cmocka_unit_test(test_decimal),
      cmocka_unit_test(test_utf8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
