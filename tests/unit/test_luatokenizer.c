/* perigee.tokenizer against memory failure; results and misuse are specified in
 * tests/lua/test_tokenizer.lua. */
#include "check.h"
#include "lua_check.h"

static void test_a_tokenizer(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "tok = assert(require 'perigee.tokenizer'.load 'bytes')");
  lua_check_string(L, "return table.concat(tok:encode 'hi', ' ')", "104 105");
  lua_check_string(L, "return tok:decode { 104, 105 }", "hi");
  lua_check_string(L, "return tok:decode {}", "");
  lua_check_error(L, "tok.encode('x')", "encode");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory(
      "tokenizer = require 'perigee.tokenizer'",
      "local tok = assert(tokenizer.load 'bytes')\n"
      "local ids = tok:encode('some text', { special = false })\n"
      "assert(tok:decode(ids) == 'some text' and tok:count 'abc' == 3)\n"
      "local none, message = tokenizer.load('no-such-tokenizer', { family = 'llama4' })\n"
      "assert(none == nil and message)\n"
      "return tok.name .. tostring(tok)");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_tokenizer),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
