/* test_luamemory.c: strings that are known are pushed as they are, whatever came between; slots are
 * given away to newcomers first that were not used. */
#include "check.h"
#include "lua_check.h"

#include "bind/luamemory.h"

/* At index 1 of a new state: a list as a memory needs it. */
static lua_State *open_list(void) {
  lua_State *L = luaL_newstate();
  lua_createtable(L, MEMORY_KEPT, 0);
  for (int i = 1; i <= MEMORY_KEPT; i++) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, 1, i);
  }
  return L;
}

static bool push(lua_State *L, struct memory_strings *m, enum memory_kind kind, const char *s) {
  bool made;
  size_t slot = memory_push(L, m, 1, kind, s, strlen(s), &made);
  assert_true(slot < MEMORY_SLOTS);
  assert_string_equal(lua_tostring(L, -1), s);
  lua_rawgeti(L, 1, (lua_Integer)((size_t)kind * MEMORY_SLOTS + slot) + 1);
  assert_true(lua_rawequal(L, -1, -2)); /* it is kept where it is said to be */
  lua_settop(L, 1);
  return made;
}

static void every_length(void **state) {
  (void)state;
  lua_State *L = open_list();
  struct memory_strings m = {0};
  char text[MEMORY_SHORT_MAX + 1] = "";
  for (size_t n = 1; n <= MEMORY_SHORT_MAX; n++) {
    text[n - 1] = (char)('a' + n % 26);
    assert_true(push(L, &m, MEMORY_KEYS, text));
    assert_false(push(L, &m, MEMORY_KEYS, text));
    assert_true(push(L, &m, MEMORY_STRINGS, text)); /* the kinds know nothing of each other */
  }
  lua_close(L);
}

/* Those that are used again and again stay, however many others pass by. */
static void the_used_stay(void **state) {
  (void)state;
  static const char *const known[] = {"id", "object", "created", "model", "choices", "usage"};
  lua_State *L = open_list();
  struct memory_strings m = {0};
  unsigned made = 0, n = 20000, late = 0;
  for (unsigned i = 0; i < n; i++) {
    char text[24];
    for (size_t k = 0; k < ARRAY_LEN(known); k++)
      late += push(L, &m, MEMORY_STRINGS, known[k]) && ++made && i > 10;
    snprintf(text, sizeof text, "chatcmpl-%u", i);
    push(L, &m, MEMORY_STRINGS, text);
  }
  assert_in_range(made, ARRAY_LEN(known), ARRAY_LEN(known) + 3);
  assert_int_equal(late, 0);
  lua_close(L);
}

/* Same beginning, end and length: only the bytes between tell them apart. */
static void alike(void **state) {
  (void)state;
  lua_State *L = open_list();
  struct memory_strings m = {0};
  char text[] = "12345678........87654321";
  for (int round = 0; round < 3; round++) {
    for (char c = 'a'; c <= 'z'; c++) {
      text[12] = c;
      push(L, &m, MEMORY_KEYS, text);
    }
  }
  lua_close(L);
}

/* More that are wanted by turns than one set holds: whoever comes twice in a row is known. */
static void crowded(void **state) {
  (void)state;
  lua_State *L = open_list();
  struct memory_strings m = {0};
  for (unsigned i = 0; i < 4000; i++) {
    char text[24];
    snprintf(text, sizeof text, "%u", i * 7919 % 500);
    push(L, &m, MEMORY_STRINGS, text);
    assert_false(push(L, &m, MEMORY_STRINGS, text));
  }
  lua_close(L);
}

static void bytes_of_any_kind(void **state) {
  (void)state;
  lua_State *L = open_list();
  struct memory_strings m = {0};
  bool made;
  memory_push(L, &m, 1, MEMORY_KEYS, "a\0b", 3, &made);
  memory_push(L, &m, 1, MEMORY_KEYS, "a\0c", 3, &made);
  assert_true(made);
  memory_push(L, &m, 1, MEMORY_KEYS, "a\0b", 3, &made);
  assert_false(made);
  size_t len;
  assert_memory_equal(lua_tolstring(L, -1, &len), "a\0b", 3);
  assert_int_equal(len, 3);
  lua_close(L);
}

/* Headers that come again as the same bytes are known from the third time on, each time as a table
 * of its own. */
static void heads(void **state) {
  (void)state;
  lua_State *L = open_list();
  struct memory_strings m = {0};
  static const char *const texts[] = {"a: 1\n", "a: 1\nb: 2\n"};
  for (int turn = 0; turn < 2; turn++) {
    for (int i = 0; i < 2; i++) {
      const char *text = texts[turn];
      assert_false(memory_push_head(L, &m, 1, text, strlen(text)));
      lua_createtable(L, 0, 2);
      for (int k = 0; k <= turn; k++) {
        lua_pushinteger(L, k + 1);
        lua_tostring(L, -1);
        lua_setfield(L, -2, k ? "b" : "a");
      }
      memory_note_head(L, &m, 1, text, strlen(text));
      assert_int_equal(lua_gettop(L), 2);
      lua_settop(L, 1);
    }
    for (int i = 0; i < 3; i++) {
      assert_true(memory_push_head(L, &m, 1, texts[turn], strlen(texts[turn])));
      assert_int_equal(lua_gettop(L), 2);
      lua_getfield(L, 2, "a");
      lua_getfield(L, 2, "b");
      assert_string_equal(lua_tostring(L, 3), "1");
      assert_string_equal(turn ? lua_tostring(L, 4) : "none", turn ? "2" : "none");
      assert_int_equal(lua_isnil(L, 4), !turn);
      lua_pushliteral(L, "x");
      lua_setfield(L, 2, "a"); /* the next one is another table */
      lua_settop(L, 1);
    }
  }
  lua_close(L);
}

/* Replicas take turns and each says its own: as many as there is room for are known from the third
 * round on; with one more the oldest goes. */
static void heads_of_many(void **state) {
  (void)state;
  lua_State *L = open_list();
  struct memory_strings m = {0};
  for (int round = 0; round < 4; round++)
    for (int i = 0; i < MEMORY_HEADS; i++) {
      char text[32];
      size_t len = (size_t)snprintf(text, sizeof text, "pod: r%d\n", i);
      bool known = memory_push_head(L, &m, 1, text, len);
      assert_int_equal(known, round >= 2);
      if (known) {
        lua_getfield(L, 2, "pod");
        assert_memory_equal(lua_tostring(L, 3), text + 5, len - 6);
      } else {
        lua_createtable(L, 0, 1);
        lua_pushlstring(L, text + 5, len - 6);
        lua_setfield(L, 2, "pod");
        memory_note_head(L, &m, 1, text, len);
      }
      lua_settop(L, 1);
    }
  lua_createtable(L, 0, 0);
  memory_note_head(L, &m, 1, "other: 1\n", 9);
  lua_settop(L, 1);
  assert_false(memory_push_head(L, &m, 1, "pod: r0\n", 8));
  assert_true(memory_push_head(L, &m, 1, "pod: r1\n", 8));
  lua_close(L);
}

/* Too many fields, or bytes, are not kept. */
static void large_heads(void **state) {
  (void)state;
  lua_State *L = open_list();
  struct memory_strings m = {0};
  static char text[MEMORY_HEAD_BYTES + 1];
  memset(text, 'h', sizeof text);
  for (int i = 0; i < 3; i++) {
    lua_createtable(L, 0, 0);
    for (int k = 0; k <= MEMORY_HEAD_FIELDS; k++) {
      lua_pushfstring(L, "h%d", k);
      lua_pushliteral(L, "v");
      lua_rawset(L, 2);
    }
    memory_note_head(L, &m, 1, text, 99);
    assert_int_equal(lua_gettop(L), 2);
    lua_settop(L, 1);
    assert_false(memory_push_head(L, &m, 1, text, 99));
  }
  for (int i = 0; i < 3; i++) {
    lua_createtable(L, 0, 0);
    memory_note_head(L, &m, 1, text, sizeof text);
    lua_settop(L, 1);
    assert_false(memory_push_head(L, &m, 1, text, sizeof text));
  }
  lua_close(L);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_length), cmocka_unit_test(the_used_stay),     cmocka_unit_test(alike),
      cmocka_unit_test(crowded),      cmocka_unit_test(bytes_of_any_kind), cmocka_unit_test(heads),
      cmocka_unit_test(large_heads),  cmocka_unit_test(heads_of_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
