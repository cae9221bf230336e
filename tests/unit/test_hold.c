/* Holders free what they hold, and errors name the author's line. */
#include "check.h"
#include "lua_check.h"

#include "bind/hold.h"

static void test_values_and_buffers_are_freed(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  struct value *v = bind_hold_value(L);
  assert_int_equal(v->kind, VALUE_NULL);
  *v = value_string("held", 4); /* the sanitizer tells when it is not freed */
  struct buf *b = bind_hold_buf(L);
  buf_puts(b, "held too");
  assert_string_equal(b->data, "held too");
  lua_close(L);
}

static void test_a_type_is_made_once(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  static const luaL_Reg meta[] = {{NULL, NULL}};
  bind_new_type(L, "test.type", meta, NULL);
  luaL_getmetatable(L, "test.type");
  const void *first = lua_topointer(L, -1);
  bind_new_type(L, "test.type", meta, NULL);
  luaL_getmetatable(L, "test.type");
  assert_ptr_equal(lua_topointer(L, -1), first);
  assert_int_equal(lua_gettop(L), 2);
  char *bytes = bind_new_userdata(L, 3, "test.type");
  assert_int_equal(bytes[0] | bytes[1] | bytes[2], 0);
  assert_non_null(luaL_testudata(L, -1, "test.type"));
  lua_close(L);
}

static void test_weak_tables_are_made_once(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  static const char keys, values;
  bind_push_weak(L, &keys, "k");
  bind_push_weak(L, &values, "v");
  bind_push_weak(L, &keys, "k");
  assert_true(lua_rawequal(L, 1, 3));
  assert_false(lua_rawequal(L, 1, 2));
  lua_newtable(L);
  lua_pushinteger(L, 1);
  lua_rawset(L, 1);
  lua_newtable(L);
  lua_rawseti(L, 2, 1);
  lua_gc(L, LUA_GCCOLLECT);
  lua_pushnil(L);
  assert_int_equal(lua_next(L, 1), 0);
  lua_pushnil(L);
  assert_int_equal(lua_next(L, 2), 0);
  lua_close(L);
}

static int raise(lua_State *L) {
  bind_raise(L, "%s is %d", "x", 3);
}

/* As with luaL_testudata; what is none is refused in its words, and the stack stays as it was. */
static void test_userdata_by_type(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  static const luaL_Reg meta[] = {{NULL, NULL}};
  lua_settop(L, 0);
  lua_newuserdatauv(L, 8, 0); /* 1: no metatable */
  assert_null(bind_test_userdata(L, 1, "test.first"));
  assert_int_equal(lua_gettop(L), 1);
  bind_new_type(L, "test.first", meta, NULL);
  bind_new_type(L, "test.second", meta, NULL);
  void *first = bind_new_userdata(L, 8, "test.first"); /* 2 */
  lua_newtable(L);                                     /* 3: a table with that metatable */
  bind_set_type(L, "test.first");
  assert_ptr_equal(bind_test_userdata(L, 2, "test.first"), first);
  assert_ptr_equal(bind_check_userdata(L, -2, "test.first"), first);
  assert_null(bind_test_userdata(L, 2, "test.second"));
  assert_null(bind_test_userdata(L, 1, "test.first"));
  assert_null(bind_test_userdata(L, 3, "test.first"));
  assert_null(bind_test_userdata(L, 9, "test.first"));
  assert_int_equal(lua_gettop(L), 3);
  lua_close(L);
}

static void test_raise_skips_our_own_modules(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_pushcfunction(L, raise);
  lua_setglobal(L, "raise");
  assert_int_equal(luaL_loadbuffer(L, "return function() raise() end", 29, "@perigee/x.lua"), 0);
  lua_call(L, 0, 1);
  lua_setglobal(L, "ours");
  const char *script = "\n\nours()";
  assert_int_equal(luaL_loadbuffer(L, script, strlen(script), "@mine.lua"), 0);
  assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
  assert_string_equal(lua_tostring(L, -1), "mine.lua:3: x is 3");
  lua_settop(L, 0);
  lua_pushcfunction(L, raise); /* nobody's line: the text alone */
  assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_ERRRUN);
  assert_string_equal(lua_tostring(L, -1), "x is 3");
  lua_close(L);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_and_buffers_are_freed),
      cmocka_unit_test(test_a_type_is_made_once),
      cmocka_unit_test(test_weak_tables_are_made_once),
      cmocka_unit_test(test_userdata_by_type),
      cmocka_unit_test(test_raise_skips_our_own_modules),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
