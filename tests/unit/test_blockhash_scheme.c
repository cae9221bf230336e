/* The list of schemes: complete, unlike in names, and every parameter and field named. */
#include "check.h"

#include "kv/blockhash_scheme.h"

static void the_list(void **state) {
  (void)state;
  const struct blockhash_scheme *s;
  size_t n = 0;
  for (; (s = blockhash_scheme_at(n)); n++) {
    assert_ptr_equal(blockhash_scheme_find(blockhash_scheme_name(s)), s);
    assert_true(strlen(blockhash_scheme_about(s)) > 10);
    assert_true(s->width == 8 || s->width == 16 || s->width == 32);
    for (size_t i = 0; i < 40; i++) {
      const char *param = blockhash_scheme_param(s, i, NULL);
      assert_true(param || i == (size_t)__builtin_popcountll(s->params) || !s->params ||
                  i > (size_t)__builtin_popcountll(s->params));
    }
  }
  assert_int_equal(n, 25);
  assert_null(blockhash_scheme_at(1000));
  assert_null(blockhash_scheme_find("ic"));
  assert_string_equal(blockhash_scheme_name(blockhash_scheme_at(0)), BLOCKHASH_DEFAULT_SCHEME);
}

static void about_one(void **state) {
  (void)state;
  const struct blockhash_scheme *dynamo = blockhash_scheme_find("dynamo");
  bool json;
  assert_string_equal(blockhash_scheme_param(dynamo, 0, &json), "lora_name");
  assert_false(json);
  assert_string_equal(blockhash_scheme_param(dynamo, 2, &json), "block_mm");
  assert_true(json);
  assert_string_equal(blockhash_scheme_param(dynamo, 3, &json), "is_eagle");
  assert_true(json);
  assert_null(blockhash_scheme_param(dynamo, 4, &json));
  assert_string_equal(blockhash_scheme_field(dynamo, 0), "sequence_hashes");
  assert_string_equal(blockhash_scheme_field(dynamo, 1), "seed");
  assert_null(blockhash_scheme_field(dynamo, 2));
  assert_string_equal(blockhash_scheme_input(dynamo), "tokens");
  assert_int_equal(blockhash_scheme_block_size(dynamo), 16);
  assert_string_equal(blockhash_scheme_input(blockhash_scheme_find("pstack-xxh64")), "text");
  assert_string_equal(blockhash_scheme_input(blockhash_scheme_find("smg-path-hash")),
                      "tokens or text");
  assert_int_equal(blockhash_scheme_block_size(blockhash_scheme_find("smg-path-hash")), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_list), cmocka_unit_test(about_one)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
