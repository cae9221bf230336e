/* test_luawrite.c: JSON written straight from Lua values: the bytes of the long way, whatever the
 * values. */
#include "check.h"
#include "lua_check.h"

#include "bind/bind.h"
#include "bind/hold.h"
#include "text/json.h"

/* What bind_to_value and json_write make of the value on top. */
static void the_long_way(lua_State *L, struct buf *b) {
  struct value *v = bind_hold_value(L);
  bind_to_value(L, -2, v);
  json_write(b, v);
  lua_pop(L, 1);
}

/* Both ways, behind something that is in the buffer already; the stack stays as it was. */
static void check_json(lua_State *L, const char *chunk, const char *want) {
  struct buf direct, slow;
  buf_init(&direct, BUF_MAX_OWN);
  buf_init(&slow, BUF_MAX_OWN);
  lua_check_run(L, chunk);
  int top = lua_gettop(L);
  buf_puts(&direct, "before");
  bind_write_json(L, -1, &direct);
  assert_int_equal(lua_gettop(L), top);
  the_long_way(L, &slow);
  assert_string_equal(slow.data, want);
  assert_memory_equal(direct.data, "before", 6);
  assert_string_equal(direct.data + 6, want);
  lua_settop(L, 0);
  buf_free(&direct);
  buf_free(&slow);
}

static void test_plain_values(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  check_json(L, "return nil", "null");
  check_json(L, "return true", "true");
  check_json(L, "return math.mininteger", "-9223372036854775808");
  check_json(L, "return 0.1 + 0.2", "0.30000000000000004");
  check_json(L, "return -1.0", "-1.0");
  check_json(L, "return 'a\"\\n\\x80'", "\"a\\\"\\n\xef\xbf\xbd\"");
  check_json(L, "return {}", "{}");
  check_json(L, "return {{}, {1, {2}}, 'x'}", "[{},[1,[2]],\"x\"]");
  check_json(L, "return {b = 1, a = {c = false}, ab = 2, B = 3}",
             "{\"B\":3,\"a\":{\"c\":false},\"ab\":2,\"b\":1}");
  check_json(L, "return {[''] = 1, ['\\0'] = 2, ['\\0a'] = 3}",
             "{\"\":1,\"\\u0000\":2,\"\\u0000a\":3}");
  check_json(L, "return setmetatable({a = 1}, {__index = {b = 2}})", "{\"a\":1}");
  lua_close(L);
}

static void test_keys_that_are_no_words(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  check_json(L, "return {1, 2, x = 3}", "{\"1\":1,\"2\":2,\"x\":3}");
  check_json(L, "return {[2] = 'b', [10] = 'j'}", "{\"2\":\"b\",\"10\":\"j\"}");
  check_json(L, "local t = {1, 2, 3} t[2] = nil return {t}", "[{\"1\":1,\"3\":3}]");
  lua_close(L);
}

static void test_json_tables(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "json = require 'perigee.json'");
  check_json(L, "return {json.array{}, json.array{1, json.null}, json.object{}}",
             "[[],[1,null],{}]");
  check_json(L, "return {x = json.object{{'z', 1}, {'a', {b = 2}}}, y = json.null}",
             "{\"x\":{\"z\":1,\"a\":{\"b\":2}},\"y\":null}");
  check_json(L, "return json.decode('{\"b\":{\"d\":1,\"c\":[]},\"a\":[{}]}')",
             "{\"b\":{\"d\":1,\"c\":[]},\"a\":[{}]}");
  lua_close(L);
}

/* Beyond what the short way takes: many keys, deep tables. */
static void test_limits(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "json = require 'perigee.json'");
  for (int n = 31; n <= 34; n++) {
    struct buf want;
    char chunk[128];
    buf_init(&want, BUF_MAX_OWN);
    for (int i = 1; i <= n; i++)
      buf_printf(&want, "%c\"k%02d\":%d", i > 1 ? ',' : '{', i, i);
    buf_putc(&want, '}');
    snprintf(chunk, sizeof chunk,
             "local t = {} for i = 1, %d do t[('k%%02d'):format(i)] = i end return t", n);
    check_json(L, chunk, want.data);
    buf_free(&want);
  }
  for (int depth = 38; depth <= 43; depth++) {
    struct buf want;
    char chunk[128];
    buf_init(&want, BUF_MAX_OWN);
    for (int i = 0; i < depth; i++)
      buf_puts(&want, "{\"a\":[");
    buf_putc(&want, '1');
    for (int i = 0; i < depth; i++)
      buf_puts(&want, "]}");
    snprintf(chunk, sizeof chunk, "local t = 1 for i = 1, %d do t = {a = {t}} end return t", depth);
    check_json(L, chunk, want.data);
    buf_free(&want);
  }
  lua_close(L);
}

static void test_errors_are_those_of_the_long_way(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "json = require 'perigee.json'");
  lua_check_error(L, "json.encode({a = {1, print}})", "a function (at .a[2])");
  lua_check_error(L, "json.encode({a = 0 / 0})", "NaN (at .a)");
  lua_check_error(L, "json.encode({[true] = 1})", "keys are neither strings nor whole numbers");
  lua_check_error(L, "local t = {} t.t = t json.encode(t)", "deeper than 200");
  lua_check_error(L, "local a = json.array{1, 2, 3} a[2] = nil json.encode{a}",
                  "json.array with holes");
  /* and the next call finds nothing of it */
  lua_check_string(L, "return json.encode({a = 1})", "{\"a\":1}");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("json = require 'perigee.json'",
                          "assert(json.encode({a = {1, {b = 'c'}}, d = {}}) == "
                          "'{\"a\":[1,{\"b\":\"c\"}],\"d\":{}}')\n"
                          "assert(json.encode({a = {x = json.object{{'b', 1}}}}) == "
                          "'{\"a\":{\"x\":{\"b\":1}}}')");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain_values),
      cmocka_unit_test(test_keys_that_are_no_words),
      cmocka_unit_test(test_json_tables),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_errors_are_those_of_the_long_way),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
