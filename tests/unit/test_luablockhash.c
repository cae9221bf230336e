/* perigee.blockhash against memory failure and misuse; results are specified in
 * tests/lua/test_blockhash.lua. */
#include "check.h"
#include "lua_check.h"

static void test_a_chain(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "blockhash = require 'perigee.blockhash'");
  lua_check_string(L,
                   "return blockhash.hash({1,300,70000,4294967295}, { block_size = 4 }):hex()[1]",
                   "a4a0e2a009d7c9f6");
  lua_check_string(L, "return #blockhash.hash({1,300,70000,4294967295}, { block_size = 4 })[1]",
                   "8");
  lua_check_error(L, "blockhash.hash({}, { scheme = 'ic-xhx3' })", "did you mean \"ic-xxh3\"?");
  lua_check_error(L, "local h <close> = blockhash.hash({}); local g = h; g:close()",
                  "hashes has no 'close'");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory(
      "blockhash = require 'perigee.blockhash'",
      "local h = blockhash.hash({1,2,3,4,5}, { scheme = 'vllm-sha256', seed = '0', block_size = 2 "
      "})\n"
      "local f = h:fork()\n"
      "assert(#f:extend({6}):hex() == 3 and #h == 2 and #f[3] == 32)\n"
      "assert(#f:event() == 3 and #f:field('none_hash') == 64)\n"
      "assert(blockhash.hash('text', { scheme = 'smg-path-hash' }))\n"
      "assert(#blockhash.schemes() == 25 and blockhash.scheme('dynamo').params[1].name)\n"
      "return tostring(f)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_chain),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
