#include "check.h"

#include "text/tokens.h"

static void test_open(void **state) {
  (void)state;
  struct err err;
  const struct tokens *t;
  check_ok(tokens_open("bytes", &t, &err), &err);
  assert_string_equal(t->name, "bytes");
  assert_int_equal(t->vocab_size, 256);
  tokens_close(t);
  tokens_close(NULL);
  assert_int_equal(tokens_open("no-such-one", &t, &err), ERR_NOT_FOUND);
  assert_null(t);
  check_has(err.text, "\"no-such-one\"");
  check_has(err.text, "\"bytes\"");
  check_has(err.text, "share/perigee/tokenizers");
  check_has(err.text, "make deps");
  assert_int_equal(tokens_open("./no-such-folder", &t, &err), ERR_NOT_FOUND);
  check_has(err.text, "./no-such-folder");
}

static void test_encode(void **state) {
  (void)state;
  struct err err;
  const struct tokens *t;
  check_ok(tokens_open("bytes", &t, &err), &err);
  struct tokens_list list = {0};
  check_ok(tokens_encode(t, "", 0, NULL, &list, &err), &err);
  assert_int_equal(list.n, 0);
  check_ok(tokens_encode(t, "a\0\xff", 3, NULL, &list, &err), &err);
  check_ok(tokens_encode(t, "\xc3\xa9", 2, NULL, &list, &err), &err);
  const uint32_t want[] = {97, 0, 255, 0xc3, 0xa9};
  assert_int_equal(list.n, 5);
  assert_memory_equal(list.ids, want, sizeof want);
  size_t n = 99;
  check_ok(tokens_count(t, "a\0\xff", 3, NULL, &n, &err), &err);
  assert_int_equal(n, 3);

  struct buf text;
  buf_init(&text, 6);
  check_ok(tokens_decode(t, list.ids, list.n, &text, &err), &err);
  assert_int_equal(text.len, 5);
  assert_memory_equal(text.data, "a\0\xff\xc3\xa9\0", 6);
  assert_int_equal(tokens_decode(t, list.ids, list.n, &text, &err), ERR_LIMIT);
  const uint32_t bad[] = {1, 256};
  assert_int_equal(tokens_decode(t, bad, 2, &text, &err), ERR_INVALID);
  check_has(err.text, "token 1: id 256");
  assert_int_equal(text.len, 5);
  buf_free(&text);

  struct tokens_encoder *e = tokens_encoder_new(t); /* the built-in one has one too */
  check_ok(tokens_encoder_count(e, "abc", 3, NULL, &n, &err), &err);
  assert_int_equal(n, 3);
  tokens_encoder_delete(e);
  tokens_encoder_delete(NULL);
  assert_ptr_equal(tokens_ref(t), t);
  for (size_t i = 0; i < 1000; i++)
    check_ok(tokens_encode(t, "xyz", 3, NULL, &list, &err), &err);
  assert_int_equal(list.n, 3005);
  assert_int_equal(list.ids[3004], 'z');
  tokens_list_free(&list);
  assert_null(list.ids);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_open), cmocka_unit_test(test_encode)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
