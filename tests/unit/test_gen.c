/* Generated text: pinned bytes, exact sizes, draws at call time. */
#include "check.h"
#include "lua_check.h"

#include "bind/text.h"

static void test_bytes_are_pinned(void **state) {
  (void)state;
  struct rng rng;
  rng_init_bytes(&rng, 0, "x", 1);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  text_write_bytes(&b, 40, &rng);
  assert_string_equal(b.data, "Form. Give behind. Below music head. Cha");
  buf_free(&b);
}

static void test_every_size_is_exact(void **state) {
  (void)state;
  for (size_t n = 1; n < 300; n++) {
    struct rng rng;
    rng_init(&rng, 3, n);
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    buf_puts(&b, ">");
    text_write_bytes(&b, n, &rng);
    assert_int_equal(b.len, n + 1);
    assert_int_equal(strlen(b.data), n + 1);
    assert_true(b.data[n] != ' ');
    assert_int_equal(b.data[0], '>');
    buf_free(&b);
  }
}

static void test_words(void **state) {
  (void)state;
  struct rng rng;
  rng_init(&rng, 1, 1);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  text_write_words(&b, 11, &rng); /* more than one draw's five */
  size_t spaces = 0;
  for (size_t i = 0; i < b.len; i++) {
    spaces += b.data[i] == ' ';
    assert_true(b.data[i] == ' ' || (b.data[i] >= 'a' && b.data[i] <= 'z'));
  }
  assert_int_equal(spaces, 10);
  buf_free(&b);
}

static void test_the_setting_belongs_to_the_state(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  assert_true(bind_gen_tokens(L).exact);
  check_near(bind_gen_tokens(L).bytes_per_token, 1, 0);
  lua_check_run(L, "core = require 'perigee.gen.core' early = core.tokens(10, 'x', nil)");
  bind_gen_set_tokens(L, 4, false);
  lua_check_string(L, "return #early", "40"); /* made now, for the run's tokenizer */
  lua_check_string(L, "return select(2, core.count('four'))", "false");
  lua_check_string(L, "return (core.count(core.words(9, 'y', nil)))", "13");
  lua_close(L);
}

static void test_draws_happen_at_the_call(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "core = require 'perigee.gen.core'\n"
                   "a, b = core.rng('s'), core.rng('s')\n"
                   "a1, a2 = core.tokens(30, nil, a), core.tokens(30, nil, a)\n"
                   "b1, b2 = core.tokens(30, nil, b), core.tokens(30, nil, b)\n"
                   "assert(tostring(b2) == tostring(a2) and tostring(a1) == tostring(b1))\n"
                   "assert(a1 ~= a2)");
  lua_check_string(L, "return a:unit() == b:unit()", "true");
  lua_check_error(L, "core.tokens(0, 'x', nil)", "out of range");
  lua_check_error(L, "core.rng({})", "number or string");
  lua_check_error(L, "core.pow(-1, 2)", "must be positive");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("core = require 'perigee.gen.core'",
                          "local r = core.rng('s')\n"
                          "assert(#tostring(core.tokens(30, 'x', nil)) == 30)\n"
                          "assert(#core.tokens(30, nil, r) == 30)\n"
                          "assert(core.is_text(core.of('x')) and core.is_rng(core.rng(7)))\n"
                          "tostring(core.words(9, 'y', nil)) core.count('x')");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes_are_pinned),
      cmocka_unit_test(test_every_size_is_exact),
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_the_setting_belongs_to_the_state),
      cmocka_unit_test(test_draws_happen_at_the_call),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
