/* chunk.c, limit.c, quantity.c, stoppable.c, guardio.c: source that is loaded with room for `..`,
 * bounded time, numbers with sense. In runs: tests/e2e/test_scripts.py. */
#include "check.h"
#include "lua_check.h"

#include "bind/bind.h"
#include "bind/chunk.h"
#include "bind/limit.h"
#include "bind/quantity.h"

static lua_State *open_all(void) {
  lua_State *L = luaL_newstate();
  bind_open(L, ".");
  lua_settop(L, 0);
  return L;
}

/* The source runs and returns a string, or is refused with a message. */
static void gives(lua_State *L, const char *source, const char *want) {
  if (bind_load(L, source, strlen(source), "=t") == LUA_OK)
    lua_pcall(L, 0, 1, 0);
  check_has(luaL_tolstring(L, -1, NULL), want);
  lua_settop(L, 0);
}

static void test_chunks(void **state) {
  (void)state;
  lua_State *L = open_all();
  gives(L, "return 'a' .. 1 .. ('b'):rep(2)", "a1bb");
  gives(L, "x =", "t:1: unexpected symbol near <eof>");
  gives(L, "\x1bLua", "t: this is a compiled (binary) chunk");
  gives(L,
        "local mt = {} local x = setmetatable({}, mt)\n"
        "mt.__concat = function(a, b) return rawequal(a, b) and 'both' or 'one' end\n"
        "return (x .. x) .. ' ' .. (x .. 'a') .. (1 .. x)",
        "both oneone");
  assert_int_equal(bind_load_file(L, "/nonexistent.lua"), LUA_ERRFILE);
  assert_string_equal(lua_tostring(L, -1),
                      "cannot open /nonexistent.lua: No such file or directory");
  lua_close(L);
}

static void test_the_collector_is_held(void **state) {
  (void)state;
  lua_State *L = open_all();
  bind_hold_collector(L);
  bind_hold_collector(L);
  bind_release_collector(L);
  assert_true(bind_collector_held(L));
  assert_false(lua_gc(L, LUA_GCISRUNNING));
  bind_release_collector(L);
  assert_false(bind_collector_held(L));
  assert_true(lua_gc(L, LUA_GCISRUNNING));
  lua_close(L);
}

static void test_time_is_bounded(void **state) {
  (void)state;
  lua_State *L = open_all();
  assert_false(bind_limit_known(L));
  luaL_loadstring(L, "while true do pcall(function() while true do end end) end");
  assert_false(bind_limit_call(L, 0.01, 0));
  check_has(lua_tostring(L, -1), "computed for 0.01 s without an end, so it was stopped\n  at ");
  assert_false(bind_must_stop(L));
  lua_settop(L, 0);
  luaL_loadstring(L, "local t = 0 for i = 1, 1000 do t = t + i end");
  assert_true(bind_limit_call(L, 10, 0));
  assert_int_equal(lua_gettop(L), 0);
  assert_null(lua_gethook(L));
  lua_close(L);
}

static void test_numbers(void **state) {
  (void)state;
  lua_State *L = open_all();
  lua_newtable(L);
  bind_quantity_functions(L);
  lua_setglobal(L, "q");
  gives(L,
        "return q.seconds('2m', 'x') .. ' ' .. q.rate('60/m', 'x') .. ' ' .. q.whole(1e3, 'x', 1)",
        "120.0 1.0 1000");
  gives(L, "return 1 / q.number(-0.0, 'x')", "inf");
  gives(L, "q.seconds(1e9, 'x')", "t:1: x must be at most a year (31536000 s), got 1000000000");
  gives(L, "q.rate('1s', 'x')", "t:1: x: \"1s\" is not a rate");
  gives(L, "q.number(0/0, 'x')", "t:1: x must be a finite number, got");
  gives(L, "q.whole(1.5, 'x', 1)", "t:1: x must be a whole number from 1 on, got 1.5");
  gives(L, "q.whole(1e300, 'x', 1, 9)", "t:1: x must be at most 9, got 1e+300");
  lua_close(L);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chunks),
      cmocka_unit_test(test_the_collector_is_held),
      cmocka_unit_test(test_time_is_bounded),
      cmocka_unit_test(test_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
