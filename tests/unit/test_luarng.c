/* Generators in Lua: the draws of base/rng.h, with ranges and units checked. */
#include "check.h"
#include "lua_check.h"

#include "bind/rng.h"

static lua_State *open_with(uint64_t seed, uint64_t stream) {
  lua_State *L = lua_check_open();
  rng_init(bind_new_rng(L), seed, stream);
  lua_setglobal(L, "r");
  return L;
}

static double result(lua_State *L, const char *chunk) {
  lua_check_run(L, chunk);
  assert_true(lua_isnumber(L, -1));
  double x = lua_tonumber(L, -1);
  lua_settop(L, 0);
  return x;
}

static void test_draws_are_those_of_base(void **state) {
  (void)state;
  lua_State *L = open_with(7, 9);
  struct rng r;
  rng_init(&r, 7, 9);
  check_near(result(L, "return r:unit()"), rng_unit(&r), 0);
  check_near(result(L, "return r:int(4, 8)"), (double)rng_int(&r, 4, 8), 0);
  check_near(result(L, "return r:int(3)"), (double)rng_int(&r, 1, 3), 0);
  check_near(result(L, "return r:exp('6s')"), rng_exp(&r, 6), 0);
  check_near(result(L, "return r:normal(120, 40)"), rng_normal(&r, 120, 40), 0);
  check_near(result(L, "return r:lognormal(200, 0.5)"), rng_lognormal(&r, rng_ln(200), 0.5), 0);
  check_near(result(L, "return r:uniform(2, 4)"), 2 + 2 * rng_unit(&r), 0);
  check_near(result(L, "return r:bool(0.3) and 1 or 0"), rng_unit(&r) < 0.3, 0);
  struct rng child;
  rng_split(&r, &child);
  check_near(result(L, "return r:split():unit()"), rng_unit(&child), 0);
  check_near(result(L, "return r:unit()"), rng_unit(&r), 0);
  lua_close(L);
}

static void test_shuffle_reaches_every_order(void **state) {
  (void)state;
  lua_State *L = open_with(1, 1);
  check_near(result(L, "local seen, n = {}, 0\n"
                       "for _ = 1, 300 do\n"
                       "  local s = table.concat(r:shuffle { 1, 2, 3 })\n"
                       "  if not seen[s] then seen[s] = true n = n + 1 end\n"
                       "end return n"),
             6, 0);
  check_near(result(L, "return #r:shuffle {}"), 0, 0);
  lua_close(L);
}

static void test_misuse(void **state) {
  (void)state;
  lua_State *L = open_with(1, 1);
  lua_check_error(L, "r:int(5, 4)", "the range 5..4 is empty");
  lua_check_error(L, "r:int(1.5)", "number has no integer representation");
  lua_check_error(L, "r:exp(-1)", "must not be negative");
  lua_check_error(L, "r:lognormal(0, 1)", "must be positive");
  lua_check_error(L, "r:normal(1, -1)", "must not be negative");
  lua_check_error(L, "r:uniform(2, 1)", "must not be below the first bound");
  lua_check_error(L, "r:bool(2)", "a probability lies in 0..1");
  lua_check_error(L, "r:choice {}", "the list is empty");
  lua_check_error(L, "r.unit(3)", "rng:unit: call it with a colon, rng:unit(...)");
  lua_check_error(L, "r:exp('six')", "\"six\" is not a number");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("core = require 'perigee.gen.core'",
                          "local r = core.rng('s')\n"
                          "local list = r:split():shuffle({ 1, 2, 3 })\n"
                          "assert(#list == 3 and r:choice({ 'a' }) == 'a')\n"
                          "tostring(r) r:exp('6s') r:int(4, 8) r:normal(1, 2)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_draws_are_those_of_base),
      cmocka_unit_test(test_shuffle_reaches_every_order),
      cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
