/* perigee.json against memory failure; what it does is specified in tests/lua/test_json.lua. */
#include "check.h"
#include "lua_check.h"

static void test_round_trip(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_string(L,
                   "local json = require 'perigee.json'\n"
                   "return json.encode(json.decode('{\"b\":[1,1.0,{}],\"a\":null}'))",
                   "{\"b\":[1,1.0,{}],\"a\":null}");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("json = require 'perigee.json'",
                          "local v = json.decode('{\"a\":[1,{\"b\":\"c\"},null],\"d\":{}}')\n"
                          "v.e = json.object{{'z', 1}, {'y', json.array{2}}} v.d = nil\n"
                          "assert(json.encode(v) == "
                          "'{\"a\":[1,{\"b\":\"c\"},null],\"e\":{\"z\":1,\"y\":[2]}}')\n"
                          "assert(not json.decode('[1'))");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
