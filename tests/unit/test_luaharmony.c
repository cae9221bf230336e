/* perigee.harmony against memory failure; results are specified in tests/lua/test_harmony.lua. */
#include "check.h"
#include "lua_check.h"

static void test_a_prompt(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "r = require 'perigee.harmony'.renderer { date = false }");
  lua_check_string(L, "return r:render({}):sub(-18)", "<|start|>assistant");
  lua_check_error(L, "r:rendr()", "did you mean 'render'?");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory(
      "harmony = require 'perigee.harmony'",
      "local r = harmony.renderer { date = 'today', tokenizer = '/nowhere.json' }\n"
      "assert(r:render({ { role = 'user', content = 'x' } }, { tools = {}, kwargs = {} }))\n"
      "local ids, message = r:render_ids({}, { now = '2026-08-01T00:00:00' })\n"
      "assert(ids == nil and message:find('nowhere', 1, true), message)\n"
      "assert(not harmony.render_json('{\"messages\":[{\"role\":\"tool\",\"content\":\"\"}]}'))");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_prompt),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
