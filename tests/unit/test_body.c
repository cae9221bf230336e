/* Bodies: parts are shared, not copied; whatever a script hands over becomes one. */
#include "check.h"
#include "lua_check.h"

#include "bind/bind.h"

static void test_parts_are_shared(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  struct blob *part = blob_new("part", 4);
  struct bind_body *b = bind_new_body(L);
  for (int i = 0; i < 20; i++)
    bind_body_add(b, part);
  assert_int_equal(b->n, 20);
  assert_ptr_equal(b->parts[19], part);
  assert_int_equal(part->refs, 21);
  assert_ptr_equal(bind_check_body(L, -1), b);
  lua_settop(L, 0);
  lua_gc(L, LUA_GCCOLLECT);
  assert_int_equal(part->refs, 1);
  blob_unref(part);
  lua_close(L);
}

static void check_body(lua_State *L, const char *chunk, const char *expected) {
  lua_check_run(L, chunk);
  int top = lua_gettop(L);
  struct bind_body *b = bind_check_body(L, -1);
  assert_int_equal(lua_gettop(L), top + 1);
  assert_ptr_equal(bind_check_body(L, -1), b);
  assert_string_equal(luaL_tolstring(L, -1, NULL), expected);
  assert_int_equal(luaL_len(L, -2), strlen(expected));
  lua_settop(L, 0);
}

static void test_what_becomes_a_body(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  check_body(L, "return 'text'", "text");
  check_body(L, "return ''", "");
  check_body(L, "return require 'perigee.gen.core'.of('handle')", "handle");
  check_body(L, "return { b = 1, a = { 1, 2 } }", "{\"a\":[1,2],\"b\":1}");
  check_body(L, "return require 'perigee.json'.object{{'b',1},{'a',2}}", "{\"b\":1,\"a\":2}");
  lua_close(L);
}

static int body_of(lua_State *L) {
  bind_check_body(L, 1);
  return 1;
}

static void test_what_does_not(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_pushcfunction(L, body_of);
  lua_setglobal(L, "body");
  lua_check_error(L, "body(12)",
                  "the body must be a string, a text or a table (sent as JSON), got number");
  lua_check_error(L, "body(nil)", "got nil");
  lua_check_error(L, "body({ f = print })", "function");
  lua_close(L);
}

static void test_prompts_are_escaped_in_pieces(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L,
                "core = require 'perigee.completions.core' text = require 'perigee.gen.core'.of");
  lua_check_string(L, "return core.body({ m = 1 }, { 'a\"', text('\\n'), 'b' })",
                   "{\"m\":1,\"prompt\":\"a\\\"\\nb\"}");
  lua_check_string(L, "return core.body({}, { 'a' })", "{\"prompt\":\"a\"}");
  lua_check_string(L, "local t = text('p\"') core.body({}, { t }) return core.body({}, { t, t })",
                   "{\"prompt\":\"p\\\"p\\\"\"}");
  lua_check_error(L, "core.body({}, { 1 })", "the prompt must be a string or a text, got number");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("core = require 'perigee.completions.core'",
                          "local b = core.body({ a = { 1, { b = 'c' } } }, { 'x', 'y' })\n"
                          "assert(tostring(b) == '{\"a\":[1,{\"b\":\"c\"}],\"prompt\":\"xy\"}')");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parts_are_shared), cmocka_unit_test(test_what_becomes_a_body),
      cmocka_unit_test(test_what_does_not),    cmocka_unit_test(test_prompts_are_escaped_in_pieces),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
