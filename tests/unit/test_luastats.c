/* perigee.stats against memory failure; its numbers are specified in tests/lua/test_stats.lua. */
#include "check.h"
#include "lua_check.h"

static void test_known_values(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "stats = require 'perigee.stats'");
  lua_check_string(L, "return (stats.quantile({ 3, 1, 2, 4 }, 0.75))", "3.25");
  lua_check_string(L, "return (stats.mean_ci { 1, 2, 6 })", "3.0");
  lua_check_string(
      L, "return table.concat(stats.hist({ 1, 2, 3 }, { edges = { 1, 2, 3 } }).counts, ' ')",
      "1 2");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("stats = require 'perigee.stats'",
                          "local x, by = { 1, 5, 2, 4 }, { 'a', 'b', 'a', 'b' }\n"
                          "stats.quantile(x, 0.5) stats.mean_ci(x) stats.mean_ci(x, { by = by })\n"
                          "stats.hist(x, { bins = 3 })");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_values),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
