/* perigee.template.core against memory failure; results are specified in
 * tests/lua/test_template.lua. */
#include "check.h"
#include "lua_check.h"

#define NEW "core.new('n', '{{ messages[0].a }}{{ bos_token }}', nil, '{\"bos_token\":\"<s>\"}')"

static void test_a_template(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "core = require 'perigee.template.core'");
  lua_check_string(L, "return " NEW ":render({ messages = { { a = 1 } } }, '2026-08-22')", "1<s>");
  lua_check_string(L, "return " NEW ":render_json('{\"messages\":[{\"a\":2}]}')", "2<s>");
  lua_check_string(L, "return " NEW ":render_json('{\"context\":{\"messages\":[{\"a\":3}]}}')",
                   "3");
  lua_check_string(L, "return select(2, core.new('n', nil, nil, '{}'))",
                   "n: there is no chat_template in it");
  lua_check_string(L, "return select(2, core.new('n', '{{'))",
                   "template 'n' line 1: TemplateSyntaxError: unexpected 'end of template'");
  lua_check_error(L, NEW ":render({ messages = { print } })", "function");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("core = require 'perigee.template.core'",
                          "local t = assert(" NEW ")\n"
                          "assert(t:render({ messages = { { a = 1 } } }, '2026-08-22') == '1<s>')\n"
                          "assert(t:render_json('{\"messages\":[{\"a\":2}]}') == '2<s>')");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_template),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
