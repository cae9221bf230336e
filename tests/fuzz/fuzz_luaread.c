/* fuzz_luaread.c: any bytes into bind_read_json, the short way from JSON text to Lua tables. What
 * it reads, json_parse accepts, and the long way makes the same of it; what it leaves alone leaves
 * nothing on the stack. */
#include "bind/bind.h"
#include "bind/hold.h"
#include "run/state.h"
#include "text/json.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
  const char *text;
  size_t len;
};

static void require(bool ok) {
  if (!ok)
    abort();
}

/* The canonical text of the value on top, on top in its place. */
static void written(lua_State *L) {
  struct buf *b = bind_hold_buf(L);
  bind_write_json(L, -2, b);
  lua_pushlstring(L, b->len ? b->data : "", b->len);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

static void check(lua_State *L, const struct input *in, bool keep_null) {
  int top = lua_gettop(L);
  if (!bind_read_json(L, in->text, in->len, keep_null)) {
    require(lua_gettop(L) == top);
    return;
  }
  require(lua_gettop(L) == top + 1);
  written(L);
  struct value v;
  struct err err;
  require(json_parse(in->text, in->len, &v, &err) == 0);
  bind_push_value(L, &v, keep_null || v.kind == VALUE_NULL);
  value_free(&v);
  written(L);
  require(lua_rawequal(L, -1, -2));
  lua_settop(L, top);
}

static int run(lua_State *L) {
  const struct input *in = lua_touserdata(L, 1);
  check(L, in, true);
  check(L, in, false);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  /* A copy without a byte behind it, so that the sanitizer sees one too far. */
  struct input in = {malloc(size ? size : 1), size};
  require(in.text);
  if (size)
    memcpy((void *)(uintptr_t)in.text, data, size);
  lua_State *L = luaL_newstate();
  require(L);
  state_mark_plain(L);
  lua_pushcfunction(L, run);
  lua_pushlightuserdata(L, &in);
  require(lua_pcall(L, 1, 0, 0) == LUA_OK);
  lua_close(L);
  free((void *)(uintptr_t)in.text);
  return 0;
}
