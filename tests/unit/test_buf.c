/* test_buf.c: growing buffers and their maximum. */
#include "check.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

static void grows_and_terminates(void **state) {
  (void)state;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  assert_null(b.data);
  for (int i = 0; i < 1000; i++)
    buf_printf(&b, "%d,", i);
  assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4);
  assert_int_equal(b.data[b.len], 0);
  buf_drop(&b, 2);
  assert_memory_equal(b.data, "1,2,", 4);
  char big[1000];
  memset(big, 'x', 999);
  big[999] = '\0';
  buf_reset(&b);
  buf_printf(&b, "<%s>", big);
  assert_int_equal(b.len, 1001);
  assert_int_equal(b.data[1000], '>');
  size_t len;
  char *taken = buf_take(&b, &len);
  assert_int_equal(len, 1001);
  assert_null(b.data);
  mem_free(taken);
  taken = buf_take(&b, &len); /* also of an empty one */
  assert_int_equal(len, 0);
  assert_string_equal(taken, "");
  mem_free(taken);
  buf_free(&b);
}

static void keeps_its_maximum(void **state) {
  (void)state;
  struct buf b;
  buf_init(&b, 10);
  assert_int_equal(buf_add(&b, "12345678", 8), 0);
  assert_int_equal(buf_add(&b, "abc", 3), ERR_LIMIT);
  assert_string_equal(b.data, "12345678");
  assert_int_equal(buf_add(&b, "ab", 2), 0);
  assert_int_equal(buf_add_byte(&b, 'c'), ERR_LIMIT);
  assert_int_equal(buf_reserve(&b, SIZE_MAX), ERR_LIMIT);
  assert_int_equal(b.len, 10);
  buf_free(&b);
}

static void writes_numbers(void **state) {
  (void)state;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  static const int64_t numbers[] = {0, 7, -1, 10, 99, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
    buf_put_int(&b, numbers[i]);
    buf_putc(&b, ' ');
  }
  buf_put_uint(&b, UINT64_MAX);
  assert_string_equal(b.data,
                      "0 7 -1 10 99 9223372036854775807 -9223372036854775808 18446744073709551615");
  buf_free(&b);
}

/* Pieces that just fit, that need one byte more, and nothing at all. */
static void puts_at_every_length(void **state) {
  (void)state;
  for (size_t first = 0; first < 130; first++) {
    struct buf b;
    char text[131];
    memset(text, 'a', sizeof text);
    buf_init(&b, BUF_MAX_OWN);
    buf_put(&b, NULL, 0);
    buf_put(&b, text, first);
    buf_putc(&b, 'b');
    buf_puts(&b, "cd");
    buf_put(&b, NULL, 0);
    assert_int_equal(b.len, first + 3);
    assert_memory_equal(b.data, text, first);
    assert_string_equal(b.data + first, "bcd");
    buf_free(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grows_and_terminates),
      cmocka_unit_test(keeps_its_maximum),
      cmocka_unit_test(writes_numbers),
      cmocka_unit_test(puts_at_every_length),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
