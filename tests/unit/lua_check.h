/* lua_check.h: a bare Lua state with the library's C modules, for the unit tests of src/bind. */
#ifndef TESTS_UNIT_LUA_CHECK_H
#define TESTS_UNIT_LUA_CHECK_H

#include "check.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "bind/embed.h"
#include "run/state.h"

/* An allocator with nothing left from allocation number `fail_at` on (0 = never): Lua tries again
 * after a collection, so failing once would show nothing. Giving memory back always works. */
struct lua_check_alloc {
  size_t made, fail_at;
};

static inline void *lua_check_alloc_fn(void *user, void *p, size_t old, size_t size) {
  struct lua_check_alloc *a = user;
  if (size == 0) {
    free(p);
    return NULL;
  }
  bool grows = !p || size > old;
  if (grows && ++a->made >= a->fail_at && a->fail_at)
    return NULL;
  return realloc(p, size);
}

static inline int lua_check_open_libs(lua_State *L) {
  state_mark_plain(L);
  luaL_openlibs(L);
  bind_embed_open(L);
  return 0;
}

/* A state with the standard libraries and perigee's C modules and searcher. */
static inline lua_State *lua_check_open(void) {
  lua_State *L = luaL_newstate();
  lua_pushcfunction(L, lua_check_open_libs);
  if (lua_pcall(L, 0, 0, 0))
    fail_msg("%s", lua_tostring(L, -1));
  return L;
}

/* Runs a chunk; what it returns is on the stack. Fails with its error. */
static inline void lua_check_run(lua_State *L, const char *chunk) {
  if (luaL_dostring(L, chunk))
    fail_msg("%s\n  in: %s", lua_tostring(L, -1), chunk);
}

/* The chunk's one result must be this string. */
static inline void lua_check_string(lua_State *L, const char *chunk, const char *expected) {
  lua_check_run(L, chunk);
  assert_string_equal(luaL_tolstring(L, -1, NULL), expected);
  lua_settop(L, 0);
}

/* The chunk must raise an error that contains `part`. */
static inline void lua_check_error(lua_State *L, const char *chunk, const char *part) {
  if (!luaL_dostring(L, chunk))
    fail_msg("no error raised in: %s", chunk);
  check_has(luaL_tolstring(L, -1, NULL), part);
  lua_settop(L, 0);
}

/* Runs the chunk again and again, each time with memory for one more allocation of Lua's, until it
 * gets through. Every failure must surface as a Lua memory error; what leaks is found by the
 * sanitizer. `prepare` runs before, without failures. */
static inline void lua_check_out_of_memory(const char *prepare, const char *chunk) {
  for (size_t at = 1;; at++) {
    struct lua_check_alloc alloc = {0, 0};
    lua_State *L = lua_newstate(lua_check_alloc_fn, &alloc);
    assert_non_null(L);
    lua_pushcfunction(L, lua_check_open_libs);
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    lua_check_run(L, prepare);
    lua_settop(L, 0);
    assert_int_equal(luaL_loadstring(L, chunk), LUA_OK);
    lua_gc(L, LUA_GCSTOP); /* a run's state has memory while it collects (run/state.c): a __gc never
                              fails */
    alloc.made = 0;
    alloc.fail_at = at;
    int rc = lua_pcall(L, 0, 0, 0);
    bool failed = alloc.made >= at;
    alloc.fail_at = 0;
    if (rc != LUA_OK && rc != LUA_ERRMEM)
      fail_msg("allocation %zu failing: %s", at, lua_tostring(L, -1));
    lua_close(L);
    if (!failed) {
      assert_int_equal(rc, LUA_OK);
      assert_true(at > 5);
      return;
    }
  }
}

#endif
