/* test_luavalue.c: Lua values to struct value and back, key order, checked options (luavalue.c,
 * luakeys.c). */
#include "check.h"

#include <lualib.h>

#include "base/buf.h"
#include "bind/bind.h"
#include "bind/hold.h"
#include "text/json.h"

static int to_json(lua_State *L) {
  struct value *held = bind_hold_value(L);
  bind_to_value(L, 1, held);
  struct buf *b = bind_hold_buf(L);
  json_write(b, held);
  lua_pushlstring(L, b->data ? b->data : "", b->len);
  return 1;
}

static int from_json(lua_State *L) {
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  lua_settop(L, 2);
  struct value *held = bind_hold_value(L);
  struct err err;
  if (json_parse(text, len, held, &err))
    return luaL_error(L, "%s", err.text);
  bind_push_value(L, held, lua_toboolean(L, 2));
  return 1;
}

static int keys(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)bind_push_sorted_keys(L, 1));
  return 2;
}

static int options(lua_State *L) {
  static const char *const known[] = {"alpha", "beta"};
  bind_check_options(L, 1, "thing", known, 2);
  return 0;
}

static int seconds(lua_State *L) {
  lua_pushnumber(L, bind_check_seconds(L, 1, "timeout.total"));
  return 1;
}

static int object(lua_State *L) {
  bind_push_object(L);
  return 1;
}

static int array(lua_State *L) {
  bind_push_array(L);
  for (int i = 1; i <= lua_gettop(L) - 1; i++) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, i);
  }
  return 1;
}

static lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_register(L, "to_json", to_json);
  lua_register(L, "from_json", from_json);
  lua_register(L, "keys", keys);
  lua_register(L, "options", options);
  lua_register(L, "seconds", seconds);
  lua_register(L, "object", object);
  lua_register(L, "array", array);
  lua_pushlightuserdata(L, NULL);
  lua_setglobal(L, "null");
  return L;
}

/* Runs `chunk`, which returns a string, and compares it (an error's message counts too). */
static void expect(lua_State *L, const char *chunk, const char *want) {
  if (luaL_loadbuffer(L, chunk, strlen(chunk), "@t.lua") == LUA_OK)
    lua_pcall(L, 0, 1, 0);
  const char *got = lua_tostring(L, -1);
  if (!got || strcmp(got, want) != 0)
    fail_msg("%s\n  gave     %s\n  expected %s", chunk, got ? got : "(nil)", want);
  lua_settop(L, 0);
}

static void writes_plain_tables(void **state) {
  (void)state;
  lua_State *L = open_state();
  expect(L, "return to_json{}", "{}");
  expect(L, "return to_json{1, 2.0, 'x', true, false}", "[1,2.0,\"x\",true,false]");
  expect(L, "return to_json{b = 1, a = {c = 2}, [10] = 3, [9] = 4}",
         "{\"9\":4,\"10\":3,\"a\":{\"c\":2},\"b\":1}");
  expect(L, "return to_json{1, nil, 3}", "{\"1\":1,\"3\":3}");
  expect(L, "return to_json(nil)", "null");
  expect(L, "return to_json{a = null}", "{\"a\":null}");
  expect(L, "return to_json(9007199254740993)", "9007199254740993");
  expect(L, "return to_json{a = 1, [1] = 2}", "{\"1\":2,\"a\":1}");
  expect(L, "return to_json(array())", "[]");
  expect(L, "return to_json(array(null, array(1)))", "[null,[1]]");
  lua_close(L);
}

static void refuses_with_the_place(void **state) {
  (void)state;
  lua_State *L = open_state();
  expect(L, "return to_json{messages = {{}, {content = print}}}",
         "t.lua:1: cannot make JSON of a function (at .messages[2].content)");
  expect(L, "return to_json(0/0)", "t.lua:1: cannot make JSON of NaN");
  expect(L, "return to_json{1, 1/0}", "t.lua:1: cannot make JSON of an infinite number (at [2])");
  expect(L, "return to_json{x = io.stdout}", "t.lua:1: cannot make JSON of a userdata (at .x)");
  expect(L, "return to_json{[1.5] = 1}",
         "t.lua:1: cannot make JSON of a table whose keys are neither strings nor whole numbers");
  expect(L, "return to_json{[7] = 1, ['7'] = 2}",
         "t.lua:1: cannot make JSON of a table that has this key as a number and as a string (at "
         ".7)");
  expect(L, "local t = {} t.t = t return to_json(t)",
         "t.lua:1: cannot make JSON of a table nested deeper than 200 (does it contain itself?)");
  expect(L, "local a = array(1) a[3] = 1 return to_json(a)",
         "t.lua:1: cannot make JSON of a json.array with holes or other keys (use json.null for an "
         "absent item)");
  expect(L, "return to_json(coroutine.create(print))", "t.lua:1: cannot make JSON of a coroutine");
  lua_close(L);
}

static void objects_keep_their_order(void **state) {
  (void)state;
  lua_State *L = open_state();
  const char *text = "{\"z\":1,\"a\":{\"y\":[],\"x\":{}},\"m\":[1,null,{\"q\":2.5}],\"b\":null}";
  char chunk[300];
  snprintf(chunk, sizeof chunk, "return to_json(from_json('%s', true))", text);
  expect(L, chunk, text);
  snprintf(chunk, sizeof chunk, "return to_json(from_json('%s', false))", text);
  expect(L, chunk, "{\"z\":1,\"a\":{\"y\":[],\"x\":{}},\"m\":[1,null,{\"q\":2.5}]}");
  expect(L, "local o = object() o.z = 1 o.a = 2 o.m = 3 o.a = nil o.k = 4 return to_json(o)",
         "{\"z\":1,\"m\":3,\"k\":4}");
  expect(L, "local o = object() o.z = 1 o.a = 2 o.z = nil o.z = 3 return to_json(o)",
         "{\"a\":2,\"z\":3}");
  expect(L,
         "local o = object() for i = 20, 1, -1 do o['k' .. i] = i end\n"
         "for i = 1, 18 do o['k' .. i] = nil end o.k20 = 0 return to_json(o) .. to_json(o)",
         "{\"k20\":0,\"k19\":19}{\"k20\":0,\"k19\":19}");
  expect(
      L,
      "local o = object() o.b = 1 o.a = 2 o.c = 3 local s = ''\n"
      "for k, v in pairs(o) do s = s .. k .. v if k == 'b' then o.c = nil o.d = 4 end end return s",
      "b1a2");
  expect(L, "local o = object() o[1] = 2",
         "t.lua:1: a JSON object's keys are strings, got a number");
  lua_close(L);
}

static void keys_come_in_one_order(void **state) {
  (void)state;
  lua_State *L = open_state();
  expect(L,
         "local k, n = keys{b = 1, [true] = 1, [2.5] = 1, a = 1, [10] = 1, [-3] = 1, ab = 1,"
         " [false] = 1, [0.5] = 1}\n"
         "for i = 1, #k do k[i] = tostring(k[i]) end return table.concat(k, ' ') .. ' ' .. n",
         "-3 10 0.5 2.5 a ab b false true 0");
  expect(L, "local t = {} local k, n = keys{[t] = 1, [print] = 2, x = 3} return k[1] .. #k .. n",
         "x32");
  expect(L, "local k = keys{} return tostring(#k)", "0");
  expect(L, "local k = keys{'a', 'b', 'c'} return table.concat(k, ' ')", "1 2 3");
  expect(L, "local k = keys{['a\\0b'] = 1, ['a'] = 2, ['a\\0a'] = 3} return #k[1] .. k[2]:byte(3)",
         "197");
  lua_close(L);
}

static void options_name_the_nearest(void **state) {
  (void)state;
  lua_State *L = open_state();
  expect(L, "options{alpha = 1, beta = 2} return 'ok'", "ok");
  expect(L, "\noptions{alpa = 1}", "t.lua:2: thing: unknown option 'alpa' (did you mean 'alpha'?)");
  expect(L, "options{zzzzzz = 1}", "t.lua:1: thing: unknown option 'zzzzzz' (known: alpha, beta)");
  expect(L, "options{1}", "t.lua:1: thing: option names are words, got a number key");
  expect(L, "options(3)", "t.lua:1: thing: options must be a table, got number");
  expect(L, "return tostring(seconds('50ms'))", "0.05");
  expect(L, "return tostring(seconds(2))", "2.0");
  expect(L, "seconds(-1)", "t.lua:1: timeout.total must be at least 0 s, got -1");
  expect(L, "seconds{}",
         "t.lua:1: timeout.total must be a number of seconds or a string like \"50ms\", got table");
  lua_close(L);
}

/* Every allocation fails once: the value is made or the error is Lua's, and nothing leaks. */
struct budget {
  long left;
};

static void *count_alloc(void *ud, void *p, size_t old, size_t size) {
  struct budget *b = ud;
  if (size == 0) {
    free(p);
    return NULL;
  }
  if (size > (p ? old : 0) && b->left == 0) /* from then on: Lua collects and tries again */
    return NULL;
  if (b->left > 0)
    b->left--;
  return realloc(p, size);
}

static int convert_all(lua_State *L) {
  const char *text = "{\"z\":[1,2,{\"a\":\"text\"}],\"k\":{\"n\":null}}";
  lua_pushcfunction(L, from_json);
  lua_pushstring(L, text);
  lua_call(L, 1, 1);
  lua_pushcfunction(L, to_json);
  lua_pushvalue(L, -2);
  lua_call(L, 1, 1);
  return 1;
}

static void survives_every_failed_allocation(void **state) {
  (void)state;
  for (long n = 0;; n++) {
    struct budget budget = {.left = -1};
    lua_State *L = lua_newstate(count_alloc, &budget);
    budget.left = n;
    lua_pushcfunction(L, convert_all);
    int status = lua_pcall(L, 0, 1, 0);
    budget.left = -1;
    if (status == LUA_OK) {
      assert_string_equal(lua_tostring(L, -1), "{\"z\":[1,2,{\"a\":\"text\"}],\"k\":{}}");
      lua_close(L);
      assert_true(n > 20);
      break;
    }
    assert_string_equal(lua_tostring(L, -1), "not enough memory");
    lua_close(L);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_plain_tables),
      cmocka_unit_test(refuses_with_the_place),
      cmocka_unit_test(objects_keep_their_order),
      cmocka_unit_test(keys_come_in_one_order),
      cmocka_unit_test(options_name_the_nearest),
      cmocka_unit_test(survives_every_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
