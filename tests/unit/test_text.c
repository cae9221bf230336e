/* Text handles: made at first use, once, for the state's tokenizer; shared, joined, compared. */
#include "check.h"
#include "lua_check.h"

#include "bind/bind.h"
#include "bind/text.h"

static const struct gen_tokens bytes = {.bytes_per_token = 1, .exact = true},
                               estimate = {.bytes_per_token = 4};

static void test_a_recipe_is_made_once(void **state) {
  (void)state;
  struct rng rng;
  rng_init(&rng, 1, 2);
  struct text *t = text_new_recipe(TEXT_TOKENS, 100, &rng);
  struct blob *first = text_blob(t, bytes, NULL);
  assert_int_equal(first->len, 100);
  assert_ptr_equal(text_blob(t, estimate, NULL), first); /* what is made stays as it is */
  text_unref(t);
  t = text_new_recipe(TEXT_TOKENS, 100, &rng);
  assert_int_equal(text_blob(t, estimate, NULL)->len, 400);
  text_unref(t);
}

static void test_counts_are_rounded_before_they_become_bytes(void **state) {
  (void)state;
  struct rng rng;
  rng_init(&rng, 1, 2);
  static const struct {
    double tokens, per_token;
    size_t len;
  } cases[] = {{0.2, 1, 1}, {2.4, 1, 2}, {2.5, 1, 3}, {2.5, 4, 12}, {1, 3.6, 4}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct text *t = text_new_recipe(TEXT_TOKENS, cases[i].tokens, &rng);
    struct gen_tokens tokens = {.bytes_per_token = cases[i].per_token};
    assert_int_equal(text_blob(t, tokens, NULL)->len, cases[i].len);
    text_unref(t);
  }
}

static void test_joins_are_lazy_and_deep(void **state) {
  (void)state;
  struct blob *x = blob_new("x", 1);
  struct text *one = text_new_blob(x);
  blob_unref(x);
  struct text *left = text_ref(one), *right = text_ref(one);
  for (int i = 0; i < 200000; i++) { /* deeper than any C stack would bear */
    struct text *l = text_new_joined(left, one), *r = text_new_joined(one, right);
    text_unref(left);
    text_unref(right);
    left = l;
    right = r;
  }
  assert_int_equal(left->kind, TEXT_JOINED);
  assert_int_equal(text_blob(left, bytes, NULL)->len, 200001);
  assert_int_equal(left->kind, TEXT_MADE);
  text_unref(left);
  text_unref(right); /* never made */
  text_unref(one);
}

static void test_joins_of_nothing_do_not_nest(void **state) {
  (void)state;
  struct blob *none = blob_new("", 0), *x = blob_new("x", 1);
  struct text *t = text_new_blob(none), *one = text_new_blob(x);
  for (int i = 0; i < 100; i++) {
    struct text *twice = text_new_joined(t, t);
    text_unref(t);
    t = twice;
  }
  assert_int_equal(text_blob(t, bytes, NULL)->len, 0);
  struct text *left = text_new_joined(t, one), *right = text_new_joined(one, t);
  assert_ptr_equal(left, one);
  assert_ptr_equal(right, one);
  text_unref(left);
  text_unref(right);
  text_unref(t);
  text_unref(one);
  blob_unref(none);
  blob_unref(x);
}

static void test_made_texts_are_counted(void **state) {
  (void)state;
  struct rng rng;
  rng_init(&rng, 1, 2);
  struct gen_tokens counted = {.bytes_per_token = 2, .exact = true, .count = blob_count_new()};
  struct text *t = text_new_recipe(TEXT_TOKENS, 50, &rng), *both = text_new_joined(t, t);
  assert_int_equal(blob_count_bytes(counted.count), 0);
  text_blob(both, counted, NULL);
  assert_int_equal(blob_count_bytes(counted.count), 300);
  text_unref(both);
  assert_int_equal(blob_count_bytes(counted.count), 100);
  text_unref(t);
  assert_int_equal(blob_count_bytes(counted.count), 0);
  blob_count_unref(counted.count);
}

static void test_a_shared_part_outlives_its_joins(void **state) {
  (void)state;
  struct blob *ab = blob_new("ab", 2);
  struct text *part = text_new_blob(ab);
  blob_unref(ab);
  struct text *twice = text_new_joined(part, part), *all = text_new_joined(twice, part);
  text_unref(twice);
  assert_string_equal(text_blob(all, bytes, NULL)->data, "ababab");
  text_unref(all);
  assert_string_equal(text_blob(part, bytes, NULL)->data, "ab");
  text_unref(part);
}

static void test_strings_and_handles_are_texts(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_pushlstring(L, "a\0b", 3);
  struct blob *blob = bind_check_text(L, 1);
  assert_int_equal(blob->len, 3);
  assert_memory_equal(blob->data, "a\0b", 4);
  assert_int_equal(lua_gettop(L), 2);
  assert_ptr_equal(bind_check_text(L, 2), blob); /* a handle is itself */
  blob_ref(blob);
  lua_settop(L, 0);
  bind_push_text(L, blob);
  blob_unref(blob);
  assert_ptr_equal(bind_check_text(L, 1), blob);
  assert_null(bind_test_text(L, 5));
  lua_close(L);
}

static void test_in_lua(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "core = require 'perigee.gen.core'");
  lua_check_string(L, "return core.of('ab') .. 'cd' .. core.of('ef')", "abcdef");
  lua_check_string(L, "return #core.of('abc')", "3");
  lua_check_string(L, "return core.of('abc') == core.of('abc')", "true");
  lua_check_string(L, "return core.of('abc') == core.of('abd')", "false");
  lua_check_string(L, "return core.of('abcdef'):sub(-3, -2)", "de");
  lua_check_string(L, "return core.of('abc'):sub(3, 2)", "");
  lua_check_error(L, "return core.of(1)", "must be a string or a text, got number");
  lua_check_error(L, "local t <close> = core.of('a') getmetatable(t).__close(t) return #t",
                  "this text was closed");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("core = require 'perigee.gen.core'",
                          "local t = core.tokens(50, 'x', nil) .. 'abc' .. core.of('d')\n"
                          "assert(#tostring(t) == 54 and t == core.of(tostring(t)))");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_recipe_is_made_once),
      cmocka_unit_test(test_counts_are_rounded_before_they_become_bytes),
      cmocka_unit_test(test_joins_are_lazy_and_deep),
      cmocka_unit_test(test_joins_of_nothing_do_not_nest),
      cmocka_unit_test(test_made_texts_are_counted),
      cmocka_unit_test(test_a_shared_part_outlives_its_joins),
      cmocka_unit_test(test_strings_and_handles_are_texts),
      cmocka_unit_test(test_in_lua),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
