/* open.c: a Lua state as scripts find it: Lua's libraries, perigee's modules, where `require`
 * looks, and the guarded standard functions. */
#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bind/bind.h"
#include "bind/chunk.h"
#include "bind/embed.h"
#include "bind/guard.h"
#include "bind/hold.h"
#include "bind/reach.h"
#include "bind/runtime.h"
#include "bind/vu_bind.h"
#include "run/state.h"

MAY_RAISE int luaopen_cjson(lua_State *L); /* Debian's lua-cjson-dev has no header for it */

/* Errors in a __gc, and what warn() says. A message may come in pieces, gathered here. */
struct warning {
  size_t len;
  char text[500];
};

static void on_warning(void *user, const char *text, int more) {
  struct warning *w = user;
  size_t room = sizeof w->text - w->len, len = strlen(text);
  memcpy(w->text + w->len, text, len < room ? len : room);
  w->len += len < room ? len : room;
  if (more)
    return;
  if (w->text[0] != '@') /* @on and @off are for Lua's own handler */
    log_warn("lua %.*s", (int)w->len, w->text);
  w->len = 0;
}

/* The registry keeps it: its memory goes after the last __gc of lua_close has run. */
static MAY_RAISE void catch_warnings(lua_State *L) {
  static const char key;
  struct warning *w = lua_newuserdatauv(L, sizeof *w, 0);
  w->len = 0;
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
  lua_setwarnf(L, on_warning, w);
}

/* "DIR/?.lua;DIR/?/init.lua;" */
static void add_folder(struct buf *path, const char *dir, const char *below) {
  buf_printf(path, "%s%s/?.lua;%s%s/?/init.lua;", dir, below, dir, below);
}

/* $PERIGEE_PATH: folders or templates with a ?, separated by ; or :. */
static void add_environment(struct buf *path, const char *list) {
  while (list && *list) {
    size_t n = strcspn(list, ";:");
    if (n > 0 && memchr(list, '?', n))
      buf_printf(path, "%.*s;", (int)n, list);
    else if (n > 0)
      buf_printf(path, "%.*s/?.lua;%.*s/?/init.lua;", (int)n, list, (int)n, list);
    list += n + (list[n] != '\0');
  }
}

static MAY_RAISE void set_path(lua_State *L, const char *field, struct buf *path) {
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, field);
  const char *own = lua_tostring(L, -1);
  buf_puts(path, own ? own : "");
  lua_pushlstring(L, path->data, path->len);
  lua_setfield(L, -3, field);
  lua_pop(L, 2);
}

static MAY_RAISE void set_paths(lua_State *L, const char *script_dir) {
  const char *home = getenv("HOME");
  struct buf *path = bind_hold_buf(L), *cpath = bind_hold_buf(L);
  if (script_dir) {
    add_folder(path, script_dir, "");
    add_folder(path, script_dir, "/lib");
  }
  add_environment(path, getenv("PERIGEE_PATH"));
  if (script_dir) {
    add_folder(path, script_dir, "/lua_modules/share/lua/5.4");
    buf_printf(cpath, "%s/lua_modules/lib/lua/5.4/?.so;", script_dir);
  }
  add_folder(path, ".", "/lua_modules/share/lua/5.4");
  buf_puts(cpath, "./lua_modules/lib/lua/5.4/?.so;");
  if (home && *home) {
    add_folder(path, home, "/.luarocks/share/lua/5.4");
    buf_printf(cpath, "%s/.luarocks/lib/lua/5.4/?.so;", home);
  }
  set_path(L, "path", path);
  set_path(L, "cpath", cpath);
  lua_pop(L, 2);
}

/* (name): what is said once for all searchers: where it was looked, and what may have been meant.
 */
static MAY_RAISE void push_where(lua_State *L, const char *name) {
  struct buf *near = bind_hold_buf(L);
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "path");
  reach_nearest(name, lua_tostring(L, -1), near);
  lua_pushfstring(L,
                  "%s%s%slooked beside the script, in its lib/, in $PERIGEE_PATH, in lua_modules "
                  "and in LuaRocks' folders (package.path)",
                  near->len ? "did you mean '" : "", near->len ? near->data : "",
                  near->len ? "'?\n\t" : "");
}

/* A searcher that says nothing of what it did not find, but for the one that says it for all: Lua's
 * own list every name they tried. */
static MAY_RAISE int search_quietly(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_call(L, 1, LUA_MULTRET);
  if (lua_isfunction(L, 2))
    return lua_gettop(L) - 1;
  lua_settop(L, 1);
  if (lua_toboolean(L, lua_upvalueindex(2)))
    push_where(L, name);
  else
    lua_pushnil(L);
  return 1;
}

/* Wraps every searcher; the first of Lua's for files, the third from the end, speaks for all. */
static MAY_RAISE void quiet_searchers(lua_State *L) {
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "searchers");
  lua_Integer n = luaL_len(L, -1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, -1, i);
    lua_pushboolean(L, i == n - 2);
    lua_pushcclosure(L, search_quietly, 2);
    lua_seti(L, -2, i);
  }
  lua_pop(L, 2);
}

int bind_open(lua_State *L, const char *script_dir) {
  state_mark_plain(L);
  luaL_openlibs(L);
  catch_warnings(L);
  bind_guard_open(L);
  bind_chunk_open(L);
  bind_embed_open(L);
  static const luaL_Reg modules[] = {
      {"perigee.runtime", luaopen_perigee_runtime}, {"cjson", luaopen_cjson}, {NULL, NULL}};
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  luaL_setfuncs(L, modules, 0);
  lua_pop(L, 1);
  bind_vu_open(L);
  set_paths(L, script_dir);
  quiet_searchers(L);
  return 0;
}
