/* test_quick.c: string.format and tostring give what Lua's own give, errors included, whatever they
 * are given; where their metatables have a word in it, that is heard. */
#include "check.h"
#include "lua_check.h"

#include "bind/bind.h"
#include "bind/guard.h"

/* A state whose global own_format and own_tostring are Lua's. */
static lua_State *open_both(void) {
  lua_State *L = lua_check_open();
  lua_check_run(L, "own_format, own_tostring = string.format, tostring");
  lua_getglobal(L, "own_format");
  lua_pushcclosure(L, bind_quick_format, 1);
  lua_setglobal(L, "quick_format");
  lua_getglobal(L, "own_tostring");
  lua_pushcclosure(L, bind_quick_tostring, 1);
  lua_setglobal(L, "quick_tostring");
  lua_settop(L, 0);
  return L;
}

static const char formats[] =
    "local formats = { '', 'x', '%d', '%s', '%d-%d', '%s%s', '%%', '%', 'a%', '%5d', '%-3s|', "
    "'%i',\n"
    "  '%d%', '%q', '%x', '%.3f', '%s %d %s', '%%d', '%%%d', 'a\\0b%d', ('x'):rep(255) .. '%d',\n"
    "  ('x'):rep(256), ('x'):rep(257), ('x'):rep(236) .. '%d', ('x'):rep(237) .. '%d', '%y', 7, {} "
    "}\n"
    "local values = { 0, 1, -1, 42, math.maxinteger, math.mininteger, 1.0, 1.5, 2^53, 0/0, '', "
    "'s',\n"
    "  '12', '0x10', 'a\\0b', ('y'):rep(255), ('y'):rep(256), ('y'):rep(300), true, false, {}, "
    "print,\n"
    "  setmetatable({}, { __tostring = function() return 'T' end }) }\n";

static void same_format(void **state) {
  (void)state;
  lua_State *L = open_both();
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_puts(&b, formats);
  buf_puts(
      &b,
      "local n = 0\n"
      "local function bare(s) return type(s) == 'string' and s:gsub(\"to '[%w_.]+'\", 'to f') or s "
      "end\n"
      "local function same(...)\n"
      "  local a, b = table.pack(pcall(own_format, ...)), table.pack(pcall(quick_format, ...))\n"
      "  n = n + 1\n"
      "  assert(a.n == b.n and a[1] == b[1] and bare(a[2]) == bare(b[2]) and type(a[2]) == "
      "type(b[2]),\n"
      "    tostring(a[2]) .. ' / ' .. tostring(b[2]))\n"
      "end\n"
      "same()\n"
      "for _, f in ipairs(formats) do\n"
      "  same(f)\n"
      "  same(f, nil)\n"
      "  for _, v in ipairs(values) do\n"
      "    same(f, v) same(f, v, v) same(f, 1, v) same(f, v, 2, 's', 9)\n"
      "  end\n"
      "end\n"
      "return n > 2000");
  lua_check_string(L, b.data, "true");
  buf_free(&b);
  lua_close(L);
}

static void same_tostring(void **state) {
  (void)state;
  lua_State *L = open_both();
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_puts(&b, formats);
  buf_puts(&b, "for _, v in ipairs(values) do\n"
               "  assert(own_tostring(v) == quick_tostring(v))\n"
               "  assert(own_tostring(v, 1) == quick_tostring(v, 1))\n"
               "end\n"
               "assert(own_tostring(nil) == quick_tostring(nil))\n"
               "local a, b = select(2, pcall(own_tostring)), select(2, pcall(quick_tostring))\n"
               "assert(a:gsub('own_', '') == b:gsub('quick_', ''), a .. b)\n"
               "return 'same'");
  lua_check_string(L, b.data, "same");
  buf_free(&b);
  lua_close(L);
}

static void metatables_are_heard(void **state) {
  (void)state;
  lua_State *L = open_both();
  lua_check_string(L,
                   "debug.setmetatable(0, { __tostring = function(n) return 'N' end })\n"
                   "getmetatable('').__tostring = function(s) return '<' .. s .. '>' end\n"
                   "local s = quick_format('%d %s %s', 5, 6, 'seven') .. quick_tostring(8)\n"
                   "assert(s == own_format('%d %s %s', 5, 6, 'seven') .. own_tostring(8))\n"
                   "return s",
                   "<5 N <seven>N>"); /* as this function shows it */
  lua_close(L);
}

/* In a run they are what scripts get. */
static void scripts_have_them(void **state) {
  (void)state;
  lua_State *L = luaL_newstate();
  lua_settop(L, 0);
  state_mark_plain(L);
  luaL_openlibs(L);
  bind_guard_open(L);
  lua_getglobal(L, "tostring");
  assert_ptr_equal(lua_tocfunction(L, -1), bind_quick_tostring);
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "format");
  assert_ptr_equal(lua_tocfunction(L, -1), bind_quick_format);
  lua_settop(L, 0);
  lua_check_string(L, "return ('%s-%03d'):format('a', 7) .. tostring(-9)", "a-007-9");
  lua_close(L);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_format),
      cmocka_unit_test(same_tostring),
      cmocka_unit_test(metatables_are_heard),
      cmocka_unit_test(scripts_have_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
