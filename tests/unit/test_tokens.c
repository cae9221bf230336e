#include "tokenizer_cases.h"

#include "text/tokenizer.h"

static void test_open(void **state) {
  (void)state;
  struct err err;
  const struct tokens *t;
  check_ok(tokens_open("bytes", NULL, &t, &err), &err);
  assert_string_equal(t->name, "bytes");
  assert_int_equal(t->vocab_size, 256);
  tokens_close(t);
  tokens_close(NULL);
  assert_int_equal(tokens_open("no-such-one", NULL, &t, &err), ERR_NOT_FOUND);
  assert_null(t);
  check_has(err.text, "\"no-such-one\"");
  check_has(err.text, "\"bytes\"");
  check_has(err.text, "share/perigee/tokenizers");
  check_has(err.text, "make deps");
  assert_int_equal(tokens_open("./no-such-folder", NULL, &t, &err), ERR_NOT_FOUND);
  check_has(err.text, "./no-such-folder");
}

static void test_encode(void **state) {
  (void)state;
  struct err err;
  const struct tokens *t;
  check_ok(tokens_open("bytes", NULL, &t, &err), &err);
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

/* Loads a case with n ids more, of which `word` is the first. */
static const struct tokens *load_with(const struct cases *c, const char *word, int n) {
  struct value file = cases_file(c, cases_named(c, "split_qwen2"));
  struct value *list = value_set(&file, "added_tokens", value_array());
  int first = (int)value_count(value_get(value_get(&file, "model"), "vocab"));
  for (int i = 0; i < n; i++) {
    char name[24];
    struct value *t = value_push(list, value_object());
    snprintf(name, sizeof name, "<%s%d>", i ? "reserved" : word, i);
    value_set(t, "id", value_int(first + i));
    value_set(t, "content", value_cstring(name));
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
    for (size_t k = 0; k < ARRAY_LEN(flags); k++)
      value_set(t, flags[k], value_bool(k == 4));
  }
  const struct tokens *t;
  struct err err;
  check_ok(cases_load("x", file, &t, &err), &err);
  return t;
}

static void test_agree(void **state) {
  (void)state;
  struct cases c;
  struct err err;
  const struct tokens *bytes, *t[5];
  cases_open(&c);
  check_ok(tokens_open("bytes", NULL, &bytes, &err), &err);
  t[0] = load_with(&c, "a", 1);
  t[1] = load_with(&c, "a", 1);
  t[2] = load_with(&c, "a", 4); /* some reserved ones more */
  t[3] = load_with(&c, "b", 1);
  t[4] = load_with(&c, "a", 40); /* too many */
  assert_true(t[0]->hash != 0 && t[0]->hash == t[1]->hash);
  assert_true(t[0]->hash != t[2]->hash);
  assert_int_equal(bytes->hash, 0);
  assert_true(tokens_agree(bytes, bytes));
  assert_true(tokens_agree(t[0], t[1]));
  assert_true(tokens_agree(t[0], t[2]));
  assert_true(tokens_agree(t[2], t[0]));
  assert_false(tokens_agree(t[0], t[3]));
  assert_false(tokens_agree(t[0], t[4]));
  assert_false(tokens_agree(t[0], bytes));
  assert_false(tokens_agree(bytes, t[0]));
  for (size_t i = 0; i < ARRAY_LEN(t); i++)
    tokens_close(t[i]);
  cases_close(&c);
}

static void cases_text(const struct cases *c, const struct value *one, struct buf *b) {
  struct value file = cases_file(c, one);
  buf_init(b, BUF_MAX_OWN);
  json_write(b, &file);
  value_free(&file);
}

/* The same file under the same name is loaded once, and gone when nobody has it. */
static void test_sharing(void **state) {
  (void)state;
  struct cases c;
  struct buf text, other;
  const struct tokens *a, *b, *d, *e;
  struct err err;
  cases_open(&c);
  cases_text(&c, cases_at(&c, 0), &text);
  cases_text(&c, cases_at(&c, 1), &other);
  struct tokens_shared *s = tokens_shared_new();
  check_ok(tokens_share_text(s, "x", text.data, text.len, NULL, &a, &err), &err);
  check_ok(tokens_share_text(s, "x", text.data, text.len, NULL, &b, &err), &err);
  assert_ptr_equal(a, b);
  check_ok(tokens_share_text(s, "y", text.data, text.len, NULL, &d, &err), &err);
  assert_ptr_not_equal(a, d); /* errors say its name */
  assert_string_equal(d->name, "y");
  assert_int_equal(d->hash, a->hash);
  check_ok(tokens_share_text(s, "x", other.data, other.len, NULL, &e, &err), &err);
  assert_ptr_not_equal(a, e);
  assert_int_equal(tokens_share_text(s, "x", "{", 1, NULL, &b, &err), ERR_INVALID);
  check_ok(tokens_share_text(NULL, "x", text.data, text.len, NULL, &b, &err), &err);
  assert_ptr_not_equal(a, b);
  tokens_close(b);
  assert_true(tokenizer_has_owners(a));
  tokens_close(a);
  assert_true(tokenizer_has_owners(a));
  tokens_close(a);
  assert_false(tokenizer_has_owners(a)); /* but `s` */
  tokens_close(d);
  tokens_close(e);
  tokens_shared_delete(s);
  tokens_shared_delete(NULL);
  buf_free(&text);
  buf_free(&other);
  cases_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_open), cmocka_unit_test(test_encode),
                                     cmocka_unit_test(test_agree), cmocka_unit_test(test_sharing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
