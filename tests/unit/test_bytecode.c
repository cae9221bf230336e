/* bytecode.c: the upvalue through which globals are written, and what is left alone. Whether a
 * session may: tests/e2e/test_scripts.py. */
#include "check.h"
#include "lua_check.h"

#include "bind/bytecode.h"
#include "bind/chunk.h"

static int put(lua_State *L, const void *p, size_t size, void *user) {
  (void)L;
  buf_put(user, p, size);
  return 0;
}

/* The chunk, changed; with two upvalues, _ENV and a table that keeps what it was told. */
static struct bytecode load_changed(lua_State *L, const char *source) {
  struct buf dump, changed;
  struct bytecode found;
  buf_init(&dump, BUF_MAX_OWN);
  buf_init(&changed, BUF_MAX_OWN);
  assert_int_equal(luaL_loadstring(L, source), LUA_OK);
  lua_dump(L, put, &dump, 0);
  lua_settop(L, 0);
  bytecode_change(&dump, &changed, &found);
  assert_false(found.odd);
  assert_int_equal(luaL_loadbufferx(L, changed.data, changed.len, "=t", "b"), LUA_OK);
  buf_free(&dump);
  buf_free(&changed);
  if (found.guarded) {
    lua_newtable(L);
    assert_string_equal(lua_setupvalue(L, 1, 2), "(no name)");
  } else {
    assert_null(lua_getupvalue(L, 1, 2));
  }
  return found;
}

/* Runs it; the names that were written to the guard, in order of the alphabet. */
static void writes(const char *source, const char *names) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  struct bytecode found = load_changed(L, source);
  assert_int_equal(found.guarded, names != NULL);
  if (names)
    lua_getupvalue(L, 1, 2);
  lua_insert(L, 1); /* guard, function; without a guard the function alone */
  if (lua_pcall(L, 0, 0, 0))
    fail_msg("%s\n  in: %s", lua_tostring(L, -1), source);
  if (names) {
    lua_setglobal(L, "guard");
    lua_check_string(L,
                     "local t = {} for k in pairs(guard) do t[#t + 1] = k end table.sort(t)\n"
                     "return table.concat(t, ' ')",
                     names);
  }
  lua_close(L);
}

static void test_writes_go_to_the_guard(void **state) {
  (void)state;
  writes("x = 1 y = 2", "x y");
  writes("local a, b = 1, 2 local function f() return function() z = a + b end end f()()", "z");
  writes("function f() end local t = {} function t.g() end", "f");
  writes("local function f() local a = 1 return function() a = a + 1 deep = a end end f()()",
         "deep");
  writes("_ENV.x = 1", "x");
  /* two functions side by side, the first without a write */
  writes("local function a() return print end local function b() q = 1 end a() b()", "q");
}

static void test_reads_and_other_tables_do_not(void **state) {
  (void)state;
  writes("local x = print return x", NULL);
  writes("local t = {} t.x = 1 t[1] = 2 local s = string", NULL);
  writes("local _ENV = {} x = 1", NULL);
  writes("local _ENV = {} local function f() x = 1 end f() ", NULL);
  writes("local function f(_ENV) return function() x = 1 end end f({})()", NULL);
  writes("local up = {} local function f() up.x = 1 end f()", NULL);
}

/* The count of upvalues takes two bytes from 128 on; at 255 there is room for no more. */
static void test_many_upvalues(void **state) {
  (void)state;
  static const struct {
    int locals;
    bool guarded;
  } cases[] = {{126, true}, {127, true}, {128, true}, {253, true}, {254, false}};
  for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
    struct buf b;
    buf_init(&b, 1 << 20);
    int n = cases[c].locals, outer = n > 150 ? 150 : n; /* a function has at most 200 locals */
    for (int i = 0; i < outer; i++)
      buf_printf(&b, "local v%d = %d\n", i, i);
    buf_puts(&b, "local function middle()\n");
    for (int i = outer; i < n; i++)
      buf_printf(&b, "local v%d = %d\n", i, i);
    buf_puts(&b, "return function() local s = 0\n");
    for (int i = 0; i < n; i++)
      buf_printf(&b, "s = s + v%d\n", i);
    buf_puts(&b, "sum = s end end middle()()");
    buf_putc(&b, '\0');
    if (cases[c].guarded) {
      writes(b.data, "sum");
    } else {
      lua_State *L = luaL_newstate();
      luaL_openlibs(L);
      assert_false(load_changed(L, b.data).guarded);
      assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
      assert_int_equal(lua_getglobal(L, "sum"), LUA_TNUMBER);
      assert_int_equal(lua_tointeger(L, -1), n * (n - 1) / 2);
      lua_close(L);
    }
    buf_free(&b);
  }
}

/* Outside a run a write is a write, to the environment that load was given. */
static void test_in_a_plain_state(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_string(L, "load 'x = 7' () return x", "7");
  lua_check_string(L, "local e = {} load('x = 8', 'c', 't', e)() return e.x .. ' ' .. x", "8 7");
  lua_check_string(L,
                   "local e = setmetatable({}, { __index = _G })\n"
                   "load('y = 1 function f() y = y + 1 return y end', 'c', 't', e)()\n"
                   "return e.f() .. ' ' .. e.y .. ' ' .. tostring(y)",
                   "2 2 nil");
  lua_close(L);
}

static void test_what_is_no_dump(void **state) {
  (void)state;
  struct buf dump, out;
  struct bytecode found;
  lua_State *L = luaL_newstate();
  buf_init(&dump, BUF_MAX_OWN);
  buf_init(&out, BUF_MAX_OWN);
  assert_int_equal(luaL_loadstring(L, "x = 1 local function f() y = 2 end"), LUA_OK);
  lua_dump(L, put, &dump, 0);
  for (size_t cut = 0; cut < dump.len; cut++) { /* its own copy: the sanitizer sees its end */
    struct buf part;
    buf_init(&part, BUF_MAX_OWN);
    buf_put(&part, dump.data, cut);
    bytecode_change(&part, &out, &found);
    assert_true(found.odd);
    assert_int_equal(out.len, 0);
    buf_free(&part);
  }
  bytecode_change(&dump, &out, &found);
  assert_false(found.odd);
  buf_free(&dump);
  buf_free(&out);
  lua_close(L);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_writes_go_to_the_guard),
      cmocka_unit_test(test_reads_and_other_tables_do_not),
      cmocka_unit_test(test_many_upvalues),
      cmocka_unit_test(test_in_a_plain_state),
      cmocka_unit_test(test_what_is_no_dump),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
