/* perigee.fleet against memory failure; results are specified in tests/lua/test_fleet.lua. */
#include "check.h"
#include "lua_check.h"

static void test_a_replay(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "fleet = require 'perigee.fleet'");
  lua_check_string(L, "return select(2, fleet.replay('[]'))", "trace: not an object");
  lua_check_error(L, "fleet.repaly()", "did you mean 'replay'?");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory(
      "fleet = require 'perigee.fleet'",
      "local text = assert(fleet.replay('{\"config\":{\"num_blocks\":5,\"block_size\":4,'\n"
      "  .. '\"max_num_batched_tokens\":8,\"max_num_seqs\":2,\"enable_prefix_caching\":true,'\n"
      "  .. '\"max_model_len\":16},\"requests\":[]}'))\n"
      "assert(text:find('\"free_blocks\":4', 1, true), text)\n"
      "local none, message = fleet.replay('{')\n"
      "assert(none == nil and message:find('trace: ', 1, true) == 1, message)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_replay),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
