/* test_luaread.c: JSON read straight into Lua tables: what the long way through json_parse makes of
 * the same text, and nothing of a text that is wrong. */
#include "check.h"
#include "lua_check.h"

#include "bind/bind.h"
#include "bind/hold.h"
#include "text/json.h"

/* Decoded by bind_read_json and encoded again. */
static void check_text(lua_State *L, const char *text, bool keep_null, const char *want) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  int top = lua_gettop(L);
  if (!bind_read_json(L, text, strlen(text), keep_null))
    fail_msg("not read: %s", text);
  assert_int_equal(lua_gettop(L), top + 1);
  bind_write_json(L, -1, &b);
  assert_string_equal(b.data, want);
  /* and the long way */
  struct value v;
  struct err err;
  check_ok(json_parse(text, strlen(text), &v, &err), &err);
  bind_push_value(L, &v, keep_null);
  buf_reset(&b);
  bind_write_json(L, -1, &b);
  assert_string_equal(b.data, want);
  value_free(&v);
  lua_settop(L, top);
  buf_free(&b);
}

static void check_same(lua_State *L, const char *text) {
  check_text(L, text, true, text);
}

static void test_values(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  static const char *const texts[] = {
      "null",
      "true",
      "false",
      "-12",
      "9223372036854775807",
      "1.5e+300",
      "1.0",
      "\"\"",
      "\"a\\n\\\"\xc3\xa9\xf0\x9f\x9a\x80 b\"",
      "[]",
      "{}",
      "[{},[],[[]],{\"a\":[]}]",
      "{\"z\":1,\"a\":{\"b\":null,\"a\":[null,false]},\"\":\"x\"}",
  };
  for (size_t i = 0; i < ARRAY_LEN(texts); i++)
    check_same(L, texts[i]);
  check_text(L, " [ 1 ,\t{ \"a\" : 2 , \"b\" : [ ] } ]\r\n", true, "[1,{\"a\":2,\"b\":[]}]");
  check_text(L, "\"\\ud83d\\ude80\\u0041\\/\"", true,
             "\"\xf0\x9f\x9a\x80"
             "A/\"");
  check_text(L, "{\"a\":null,\"b\":[null,{\"e\":null}],\"c\":{\"d\":null}}", false,
             "{\"b\":[null,{}],\"c\":{}}");
  lua_close(L);
}

/* Around the number of entries that wait on the stack, with and without nulls left out. */
static void test_many_entries(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  for (int n = 0; n < 40; n++) {
    struct buf array, object, dropped;
    buf_init(&array, BUF_MAX_OWN);
    buf_init(&object, BUF_MAX_OWN);
    buf_init(&dropped, BUF_MAX_OWN);
    buf_putc(&array, '[');
    buf_putc(&object, '{');
    buf_putc(&dropped, '{');
    for (int i = 0; i < n; i++) {
      buf_printf(&array, "%s%d", i ? "," : "", i);
      buf_printf(&object, "%s\"k%d\":%s", i ? "," : "", 40 - i, i % 3 == 1 ? "null" : "[7]");
      if (i % 3 != 1)
        buf_printf(&dropped, "%s\"k%d\":[7]", i ? "," : "", 40 - i);
    }
    buf_putc(&array, ']');
    buf_putc(&object, '}');
    buf_putc(&dropped, '}');
    check_same(L, array.data);
    check_same(L, object.data);
    check_text(L, object.data, false, dropped.data);
    buf_free(&array);
    buf_free(&object);
    buf_free(&dropped);
  }
  lua_close(L);
}

static unsigned draw(uint64_t *seed, unsigned n) {
  *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (unsigned)(*seed >> 33) % n;
}

/* An object of some keys, and what is left of it without nulls. Few keys and few shapes: the same
 * ones come again, push each other out, and begin alike. */
static void random_object(uint64_t *seed, int depth, struct buf *all, struct buf *dropped) {
  unsigned n = draw(seed, 5), first = draw(seed, 3), step = 1 + draw(seed, 3), kept = 0;
  buf_putc(all, '{');
  buf_putc(dropped, '{');
  for (unsigned i = 0; i < n; i++) {
    unsigned key = first + i * step, kind = draw(seed, depth > 0 ? 6 : 4);
    buf_printf(all, "%s\"key%u\":", i ? "," : "", key);
    if (kind == 0) {
      buf_puts(all, "null");
      continue;
    }
    buf_printf(dropped, "%s\"key%u\":", kept++ ? "," : "", key);
    if (kind > 3) {
      random_object(seed, depth - 1, all, dropped);
      continue;
    }
    static const char *const values[] = {"", "17", NULL, "[1,[]]"};
    static const char *const strings[] = {"\"some text\"", "\"some\"", "\"\"",
                                          "\"a\\\"b\"",    "\"stop\"", "\"é\""};
    const char *value = values[kind] ? values[kind] : strings[draw(seed, ARRAY_LEN(strings))];
    buf_puts(all, value);
    buf_puts(dropped, value);
  }
  buf_putc(all, '}');
  buf_putc(dropped, '}');
}

static void test_shapes_that_come_and_go(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  uint64_t seed = 1;
  for (int i = 0; i < 4000; i++) {
    struct buf all, dropped;
    buf_init(&all, BUF_MAX_OWN);
    buf_init(&dropped, BUF_MAX_OWN);
    random_object(&seed, 3, &all, &dropped);
    check_same(L, all.data);
    check_text(L, all.data, false, dropped.data);
    buf_free(&all);
    buf_free(&dropped);
  }
  lua_close(L);
}

/* Objects of one shape do not see what becomes of another one. */
static void test_one_shape_many_objects(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_string(L,
                   "local json = require 'perigee.json'\n"
                   "local list = {}\n"
                   "for i = 1, 6 do list[i] = json.decode('{\"b\":1,\"a\":' .. i .. '}') end\n"
                   "list[4].c, list[5].b = 3, nil\n"
                   "list[6].b = nil list[6].b = 9\n"
                   "local keys = ''\n"
                   "for k in pairs(list[3]) do keys = keys .. k end\n"
                   "for i = 1, 6 do keys = keys .. json.encode(list[i]) end\n"
                   "return keys",
                   "ba{\"b\":1,\"a\":1}{\"b\":1,\"a\":2}{\"b\":1,\"a\":3}{\"b\":1,\"a\":4,\"c\":3}"
                   "{\"a\":5}{\"a\":6,\"b\":9}");
  lua_close(L);
}

/* Keys are new when they are set from a script later: the hidden list goes on. */
static void test_objects_can_grow(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_string(L,
                   "local json = require 'perigee.json'\n"
                   "local t = json.decode '{\"b\":1,\"a\":2}'\n"
                   "t.c, t.b = 3, nil t.e = json.decode '{}' t.e.x = 1 t.b = 4\n"
                   "return json.encode(t) .. json.kind(t) .. json.kind(json.decode '[]')",
                   "{\"a\":2,\"c\":3,\"e\":{\"x\":1},\"b\":4}objectarray");
  lua_close(L);
}

static void test_what_is_left_to_the_long_way(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  static const char *const texts[] = {
      "",         "  ",
      "nul",      "[1,]",
      "[1 2]",    "{\"a\"}",
      "{\"a\":}", "{\"a\":1,}",
      "{a:1}",    "{\"a\":1 \"b\":2}",
      "[1] x",    "\"abc",
      "\"\\x\"",  "\"\\ud800\"",
      "\"\x80\"", "\"a\nb\"",
      "01",       "+1",
      "1e999",    "[",
      "{\"a\":1", "[[[[]]]",
      "\"\\",     "{\"a\":1,\"a\":2}",
      "tru",
  };
  for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
    int top = lua_gettop(L);
    if (bind_read_json(L, texts[i], strlen(texts[i]), true))
      fail_msg("read: %s", texts[i]);
    assert_int_equal(lua_gettop(L), top);
  }
  /* a key that was left out for its null and comes again stands where it stood */
  static const char *const again[] = {"{\"a\":null,\"b\":0,\"a\":1}",
                                      "{\"a\":null,\"b\":0,\"\\u0061\":1}"};
  for (size_t i = 0; i < ARRAY_LEN(again); i++)
    assert_false(bind_read_json(L, again[i], strlen(again[i]), false));
  assert_true(bind_read_json(L, "{\"a\":null,\"b\":0}", 16, false));
  lua_settop(L, 0);
  lua_check_string(L,
                   "local json = require 'perigee.json'\n"
                   "return json.encode(json.decode('{\"a\":1,\"b\":0,\"a\":2}'))",
                   "{\"a\":2,\"b\":0}");
  lua_check_string(L, "return select(2, require 'perigee.json'.decode '[1,\\n}')",
                   "line 2, column 1: expected a value, found '}'");
  lua_close(L);
}

/* Every cut of a text that holds everything is refused, and reading goes on well after that. */
static void test_cuts(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  static const char text[] =
      "{\"a\":[1,-2.5e3,\"\\u00e9\\n\xc3\xa9\",true,false,null,{\"b\":[{},[]]}],\"c\":\"d\"}";
  for (size_t cut = 0; cut < sizeof text - 1; cut++) {
    char *copy = malloc(cut + 1); /* the sanitizer sees a byte too far */
    memcpy(copy, text, cut);
    assert_false(bind_read_json(L, copy, cut, true));
    free(copy);
  }
  assert_true(bind_read_json(L, text, sizeof text - 1, true));
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory(
      "json = require 'perigee.json'",
      "for i = 1, 3 do\n"
      "  local v = json.decode('{\"a\":[1,{\"b\":\"c\\\\n\"},null,1,2,3,4,5,6,7],\"d\":{}}')\n"
      "  assert(v.a[2].b == 'c\\n' and #v.a == 10 and next(v.d) == nil)\n"
      "end");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_many_entries),
      cmocka_unit_test(test_shapes_that_come_and_go),
      cmocka_unit_test(test_one_shape_many_objects),
      cmocka_unit_test(test_objects_can_grow),
      cmocka_unit_test(test_what_is_left_to_the_long_way),
      cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
