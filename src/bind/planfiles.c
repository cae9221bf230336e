/* planfiles.c: which files a script's plan is made of: the loaded modules, found again on
 * package.path. What a run leaves holds copies and hashes of them, so that a result says what it
 * was made with. */
#include "bind/planfiles.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static bool is_own(const char *name) {
  static const char *const standard[] = {"_G",     "package", "coroutine", "table", "io",   "os",
                                         "string", "math",    "utf8",      "debug", "cjson"};
  if (strcmp(name, "perigee") == 0 || strncmp(name, "perigee.", 8) == 0)
    return true;
  for (size_t i = 0; i < ARRAY_LEN(standard); i++)
    if (strcmp(name, standard[i]) == 0)
      return true;
  return false;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The path of module `name` into info->files, when the file search finds it. */
static MAY_RAISE void add_module(lua_State *L, const char *name, struct plan_info *info) {
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "searchpath");
  lua_pushstring(L, name);
  lua_getfield(L, -3, "path");
  lua_call(L, 2, 1);
  const char *path = lua_tostring(L, -1);
  if (path) {
    info->files = mem_resize(info->files, info->n_files + 1, sizeof *info->files);
    info->files[info->n_files++] = mem_strdup(path);
  }
  lua_pop(L, 2);
}

void bind_plan_files(lua_State *L, struct plan_info *info) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING && !is_own(lua_tostring(L, -1)))
      add_module(L, lua_tostring(L, -1), info);
  }
  lua_pop(L, 1);
  if (info->n_files)
    qsort(info->files, info->n_files, sizeof *info->files, by_name);
}
