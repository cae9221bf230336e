/* The encodings of vLLM's tuple: the worked examples byte for byte, and digests of pickles that
 * CPython 3.11 made where frames begin and end. */
#include "check.h"

#include "base/mem.h"
#include "kv/blockhash_tuple.h"

static char *hex_of(const void *data, size_t len) {
  const uint8_t *p = data;
  char *out = mem_alloc(2 * len + 1);
  for (size_t i = 0; i < len; i++)
    snprintf(out + 2 * i, 3, "%02x", p[i]);
  return out;
}

static void check_hex(const void *data, size_t len, const char *want) {
  char *hex = hex_of(data, len);
  if (strcmp(hex, want) != 0)
    fail_msg("%s\n expected %s", hex, want);
  mem_free(hex);
}

static struct blockhash_text text(const char *s) {
  return (struct blockhash_text){s, strlen(s)};
}

static void worked_examples(void **state) {
  (void)state;
  static const int64_t tokens[] = {1, 300, 70000, INT64_C(4294967295)};
  const struct tuple_extra extra[] = {{.kind = EXTRA_TEXT, .text = text("lora")},
                                      {.kind = EXTRA_TEXT, .text = text("salt")}};
  struct buf b;
  uint8_t root[32], out[32];
  buf_init(&b, BUF_MAX_OWN);
  tuple_encode_text(&b, TUPLE_SHA256_CBOR, text("0"));
  tuple_digest(TUPLE_SHA256_CBOR, &b, root);
  check_hex(root, 32, "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e");
  struct tuple t = {.parent = root, .parent_len = 32, .tokens = tokens, .n_tokens = 4};
  tuple_encode_cbor(&b, &t);
  check_hex(b.data, b.len,
            "8358204e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e840119012c1a0001"
            "11701afffffffff6");
  tuple_digest(TUPLE_SHA256_CBOR, &b, out);
  check_hex(out, 32, "656dea1076f098c114060f00a623833d10441fd46ad0f175aa544f1e6a3235a7");
  t.extra = extra;
  t.n_extra = 2;
  tuple_encode_cbor(&b, &t);
  tuple_digest(TUPLE_SHA256_CBOR, &b, out);
  check_hex(b.data + b.len - 11, 11, "82646c6f72616473616c74");
  check_hex(out, 32, "2210c674a7bd0c80cee78545843423f75dd12fba066365b0e564a497b10e3e96");

  tuple_encode_text(&b, TUPLE_SHA256, text("0"));
  tuple_digest(TUPLE_SHA256, &b, root);
  tuple_encode_pickle(&b, &t);
  tuple_digest(TUPLE_SHA256, &b, out);
  check_hex(out, 32, "ffc15d43b9a324e91ff4c5f2a42c6060222b29bcec2edd7569c8fab0532abfb5");
  t.n_extra = 0;
  tuple_encode_pickle(&b, &t);
  check_hex(b.data, b.len,
            "8005953b0000000000000043201973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14"
            "aa7c94284b014d2c014a701101008a05ffffffff0074944e87942e");
  tuple_digest(TUPLE_SHA256, &b, out);
  check_hex(out, 32, "be3f4be9d841eaa3cd6c06d6cd3e539a0cc7f64efcf21eb104013a3363f51be4");
  buf_free(&b);
}

/* hashlib.sha256(pickle.dumps(x, protocol=5)).hexdigest() */
static void check_pickle(const struct tuple *t, const char *want) {
  struct buf b;
  uint8_t out[32];
  buf_init(&b, BUF_MAX_OWN);
  tuple_encode_pickle(&b, t);
  tuple_digest(TUPLE_SHA256, &b, out);
  check_hex(out, 32, want);
  buf_free(&b);
}

static char *repeated(char c, size_t n) {
  char *s = mem_alloc(n + 1);
  memset(s, c, n);
  s[n] = '\0';
  return s;
}

static void frames_as_cpython_cuts_them(void **state) {
  (void)state;
  uint8_t parent[32];
  int64_t *tokens = mem_calloc(22000, sizeof *tokens), few[] = {0, 1, 2, 3}, two[] = {7, 8};
  for (uint8_t i = 0; i < 32; i++)
    parent[i] = i;
  for (uint32_t i = 0; i < 22000; i++)
    tokens[i] = (uint32_t)(i * UINT32_C(2654435761));
  struct tuple t = {.parent = parent, .parent_len = 32, .tokens = tokens, .n_tokens = 22000};
  check_pickle(&t, "f3322e6bc1c5187d50b6dba6aebce908560b0178518cea3d29790e97e1e2601c");
  const struct tuple_extra pairs[] = {{.kind = EXTRA_TEXT, .text = text("lora")},
                                      {.kind = EXTRA_PAIR, .text = text("id"), .offset = -5},
                                      {.kind = EXTRA_PAIR, .text = text("id2"), .offset = 300}};
  t.extra = pairs;
  t.n_extra = 3;
  check_pickle(&t, "ffa339ab6c53f2e66dd253405f25cc4942b669d8cc112b4b8d90894a6fa8adb6");

  char *a = repeated('a', 70000), *b = repeated('b', 65535), *c = repeated('c', 65536),
       *d = repeated('d', 300);
  const struct tuple_extra one[] = {{.kind = EXTRA_TEXT, .text = text(a)}};
  t = (struct tuple){parent, 32, 0, few, 4, one, 1};
  check_pickle(&t, "ecaf789f7a265a3f17086a0b3b00cbb0ca32e672356e9c9e1b7b8fc2e3186d4c");
  const struct tuple_extra three[] = {{.kind = EXTRA_TEXT, .text = text(b)},
                                      {.kind = EXTRA_TEXT, .text = text(c)},
                                      {.kind = EXTRA_TEXT, .text = text(d)}};
  t = (struct tuple){parent, 32, 0, few, 4, three, 3};
  check_pickle(&t, "530c3ce9a725e9b8e8c821c68813cbae818e9c48abc63a55195e036fcb468f6e");
  const struct tuple_extra x[] = {{.kind = EXTRA_TEXT, .text = text("x")}};
  t = (struct tuple){parent, 32, 0, two, 1, x, 1};
  check_pickle(&t, "f32cfb65783b7d8a7f7270285892c76f1e7ef403d26dbb6499a4bf5125fd126f");
  t = (struct tuple){NULL, 0, 0, two, 2, NULL, 0};
  check_pickle(&t, "0a671408135ded24b78aca998d9faad1782c9aff3675ebd53ce33fd2f3db4b6f");
  mem_free(a);
  mem_free(b);
  mem_free(c);
  mem_free(d);
  mem_free(tokens);
}

static void cbor_heads_are_the_shortest(void **state) {
  (void)state;
  static const struct {
    uint64_t n;
    const char *hex;
  } cases[] = {{23, "17"},
               {24, "1818"},
               {255, "18ff"},
               {256, "190100"},
               {65535, "19ffff"},
               {65536, "1a00010000"},
               {UINT32_MAX, "1affffffff"},
               {UINT64_C(1) << 32, "1b0000000100000000"}};
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    buf_reset(&b);
    tuple_cbor_head(&b, 0, cases[i].n);
    check_hex(b.data, b.len, cases[i].hex);
  }
  static const int64_t signs[] = {-1, -24, -25, INT32_MIN, 0};
  buf_reset(&b);
  tuple_cbor_tokens(&b, signs, 5);
  check_hex(b.data, b.len,
            "852037"
            "3818"
            "3a7fffffff"
            "00");
  buf_free(&b);
}

static void names(void **state) {
  (void)state;
  assert_int_equal(tuple_hash_from(text("sha256")), TUPLE_SHA256);
  assert_int_equal(tuple_hash_from(text("sha256_cbor")), TUPLE_SHA256_CBOR);
  assert_int_equal(tuple_hash_from(text("xxhash")), TUPLE_XXHASH);
  assert_int_equal(tuple_hash_from(text("xxhash_cbor")), TUPLE_XXHASH_CBOR);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(worked_examples),
      cmocka_unit_test(frames_as_cpython_cuts_them),
      cmocka_unit_test(cbor_heads_are_the_shortest),
      cmocka_unit_test(names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
