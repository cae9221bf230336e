/* perigee.openai against memory failure; results are specified in tests/lua/test_openai.lua. */
#include "check.h"
#include "lua_check.h"

#define STREAM                                                                                     \
  "'data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\\n\\ndata: [DONE]\\n\\n'"

static void test_a_stream(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "openai = require 'perigee.openai'");
  lua_check_string(L, "return openai.parse_stream(" STREAM ").text", "hi");
  lua_check_error(L, "openai.parse_stream('', { api = 'completion' })",
                  "did you mean 'completions'?");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("openai = require 'perigee.openai'",
                          "assert(openai.parse_stream(" STREAM ").complete)\n"
                          "openai.parse_reply('{}')");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_stream),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
