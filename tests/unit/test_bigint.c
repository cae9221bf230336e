#include "check.h"

#include "base/mem.h"
#include "text/bigint.h"

static void *blocks[200000];
static size_t n_blocks;

static void *get(void *user, size_t size) {
  (void)user;
  assert_true(n_blocks < sizeof blocks / sizeof *blocks);
  blocks[n_blocks] = mem_alloc(size);
  return blocks[n_blocks++];
}

static struct bigint_memory memory = {get, NULL};

static int give_back(void **state) {
  (void)state;
  while (n_blocks)
    mem_free(blocks[--n_blocks]);
  return 0;
}

static struct bigint *big(const char *s) {
  bool negative = *s == '-';
  return bigint_from_digits(&memory, s + negative, strlen(s + negative), 10, negative);
}

static void is(const struct bigint *b, const char *want) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  bigint_print(&text, b, 10);
  assert_string_equal(text.data, want);
  buf_free(&text);
}

static void test_arithmetic(void **state) {
  (void)state;
  is(bigint_add(&memory, big("18446744073709551615"), big("1")), "18446744073709551616");
  is(bigint_add(&memory, big("-5"), big("5")), "0");
  is(bigint_sub(&memory, big("5"), big("18446744073709551616")), "-18446744073709551611");
  is(bigint_mul(&memory, big("-99999999999999999999"), big("99999999999999999999")),
     "-9999999999999999999800000000000000000001");
  is(bigint_pow(&memory, big("-3"), 101), "-1546132562196033993109383389296863818106322566003");
  is(bigint_pow(&memory, big("0"), 0), "1");
  assert_null(bigint_pow(&memory, big("2"), BIGINT_MAX_LIMBS * 32));
  assert_int_equal(bigint_compare(big("-1"), big("1")), -1);
  assert_int_equal(bigint_compare(big("-20000000000000000000"), big("-1")), -1);
  assert_int_equal(bigint_compare(big("20000000000000000000"), big("20000000000000000000")), 0);
}

static void divides(const char *a, const char *b, const char *q, const char *r) {
  struct bigint *quotient, *remainder;
  bigint_divmod(&memory, big(a), big(b), &quotient, &remainder);
  is(quotient, q);
  is(remainder, r);
}

static void test_division(void **state) {
  (void)state;
  divides("7", "2", "3", "1");
  divides("-7", "2", "-4", "1");
  divides("7", "-2", "-4", "-1");
  divides("-7", "-2", "3", "-1");
  divides("6", "-2", "-3", "0");
  divides("5", "18446744073709551616", "0", "5");
  divides("-5", "18446744073709551616", "-1", "18446744073709551611");
  divides("340282366920938463463374607431768211455", "18446744073709551615", "18446744073709551617",
          "0");
  /* the guess of one quotient digit is one too large and must be taken back */
  divides("340282366920938463444927863358058659840", "79228162514264337593543950335", "4294967295",
          "79228162495817593524129366015");
}

/* a = q·b + r with 0 <= r < |b|, for numbers whose limbs are often extreme. */
static void test_division_holds(void **state) {
  (void)state;
  uint64_t seed = 12345;
  for (int i = 0; i < 3000; i++) {
    char digits[2][200];
    for (int k = 0; k < 2; k++) {
      size_t n = 1;
      for (int limbs = 0; limbs < 1 + (int)(seed >> 60) % 6; limbs++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t limb = seed >> 62 == 0 ? 0 : seed >> 62 == 1 ? UINT32_MAX : (uint32_t)(seed >> 32);
        n += (size_t)snprintf(digits[k] + n, sizeof digits[k] - n, "%08x", limb);
      }
      digits[k][0] = '1';
    }
    struct bigint *a = bigint_from_digits(&memory, digits[0], strlen(digits[0]), 16, seed & 1);
    struct bigint *b = bigint_from_digits(&memory, digits[1], strlen(digits[1]), 16, seed & 2);
    struct bigint *q, *r;
    bigint_divmod(&memory, a, b, &q, &r);
    struct bigint *back = bigint_add(&memory, bigint_mul(&memory, q, b), r);
    assert_int_equal(bigint_compare(back, a), 0);
    assert_true(r->n == 0 || r->negative == b->negative);
    struct bigint *size = b->negative ? bigint_sub(&memory, r, b) : bigint_sub(&memory, b, r);
    assert_true(size->n && !size->negative);
    give_back(NULL);
  }
}

static void test_conversions(void **state) {
  (void)state;
  int64_t i;
  assert_true(bigint_to_int(big("-9223372036854775808"), &i));
  assert_true(i == INT64_MIN);
  assert_false(bigint_to_int(big("9223372036854775808"), &i));
  assert_true(bigint_to_double(big("9007199254740993")) == 9007199254740992.0);
  assert_true(bigint_to_double(big("9007199254740995")) == 9007199254740996.0);
  assert_true(bigint_to_double(big("36893488147419103233")) == 36893488147419103232.0);
  assert_true(bigint_to_double(big("36893488147419107329")) == 36893488147419111424.0);
  assert_true(bigint_to_double(bigint_pow(&memory, big("10"), 400)) > 1e308);
  is(bigint_from_double(&memory, 1e30), "1000000000000000019884624838656");
  is(bigint_from_double(&memory, -12345.9), "-12345");
  is(bigint_from_double(&memory, 0.5), "0");
  is(bigint_from_double(&memory, 9007199254740993.0), "9007199254740992");
  is(bigint_from_int(&memory, INT64_MIN), "-9223372036854775808");
  assert_int_equal(bigint_bits(big("255")), 8);
  assert_int_equal(bigint_bits(big("4294967296")), 33);
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  bigint_print(&text, big("-4294967296"), 16);
  buf_putc(&text, ' ');
  bigint_print(&text, big("68719476736"), 8);
  buf_putc(&text, ' ');
  bigint_print(&text, big("5"), 2);
  buf_putc(&text, ' ');
  bigint_print(&text, big("0"), 10);
  assert_string_equal(text.data, "-100000000 1000000000000 101 0");
  buf_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_arithmetic, give_back),
      cmocka_unit_test_teardown(test_division, give_back),
      cmocka_unit_test_teardown(test_division_holds, give_back),
      cmocka_unit_test_teardown(test_conversions, give_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
