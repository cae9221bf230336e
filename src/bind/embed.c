/* embed.c: finding perigee's own modules: C ones by preload, Lua ones in the binary or, with
 * PERIGEE_DEV, on disk. */
#include "bind/embed.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind/chunk.h"
#include "bind/core.h"
#include "bind/hold.h"

const struct embed_file *bind_embed_find(const char *name) {
  for (const struct embed_file *f = perigee_lua_embed; f->name; f++)
    if (strcmp(f->name, name) == 0)
      return f;
  return NULL;
}

/* "perigee.chat" -> "chat.lua", "perigee" -> "init.lua"; false when it is not one of ours. */
static bool file_of_module(struct buf *b, const char *module) {
  static const char prefix[] = "perigee";
  size_t n = sizeof prefix - 1;
  if (strncmp(module, prefix, n) != 0 || (module[n] != '.' && module[n] != '\0'))
    return false;
  if (module[n] == '\0') {
    buf_puts(b, "init.lua");
    return true;
  }
  for (const char *p = module + n + 1; *p; p++)
    buf_putc(b, *p == '.' ? '/' : *p);
  buf_puts(b, ".lua");
  return true;
}

/* DIR/lua/perigee/FILE or DIR/FILE: read whole; the chunk is named as the embedded one is. */
static MAY_RAISE int load_from_disk(lua_State *L, const char *dir, const char *file) {
  static const char *const forms[] = {"%s/lua/perigee/%s", "%s/%s"};
  struct buf *held = bind_hold_buf(L);
  for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
    lua_pushfstring(L, forms[i], dir, file);
    FILE *f = fopen(lua_tostring(L, -1), "rb");
    if (!f)
      continue;
    char piece[4096];
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
      buf_put(held, piece, n);
    fclose(f);
    lua_pushfstring(L, "@perigee/%s", file);
    if (bind_load(L, held->len ? held->data : "", held->len, lua_tostring(L, -1)))
      return lua_error(L);
    lua_pushvalue(L, -3); /* the path */
    return 2;
  }
  lua_pushfstring(L, "no file '%s/lua/perigee/%s' (PERIGEE_DEV)", dir, file);
  return 1;
}

static int searcher(lua_State *L) {
  const char *module = luaL_checkstring(L, 1);
  struct buf *file = bind_hold_buf(L);
  if (!file_of_module(file, module))
    return 0;
  const char *dir = getenv("PERIGEE_DEV");
  if (dir && *dir)
    return load_from_disk(L, dir, file->data);
  const struct embed_file *f = bind_embed_find(lua_pushfstring(L, "lua/perigee/%s", file->data));
  if (!f) {
    lua_pushfstring(L, "no built-in module '%s'", module);
    return 1;
  }
  lua_pushfstring(L, "@perigee/%s", file->data);
  if (bind_load(L, f->start, (size_t)(f->end - f->start), lua_tostring(L, -1)))
    return lua_error(L);
  lua_pushfstring(L, "built-in %s", f->name);
  return 2;
}

void bind_embed_open(lua_State *L) {
  static const luaL_Reg modules[] = {
      {"perigee.blockhash", luaopen_perigee_blockhash},
      {"perigee.chat.core", luaopen_perigee_chat_core},
      {"perigee.completions.core", luaopen_perigee_completions_core},
      {"perigee.core", luaopen_perigee_core},
      {"perigee.fleet", luaopen_perigee_fleet},
      {"perigee.gen.core", luaopen_perigee_gen_core},
      {"perigee.harmony", luaopen_perigee_harmony},
      {"perigee.json", luaopen_perigee_json},
      {"perigee.openai", luaopen_perigee_openai},
      {"perigee.stats", luaopen_perigee_stats},
      {"perigee.template.core", luaopen_perigee_template_core},
      {"perigee.tokenizer", luaopen_perigee_tokenizer},
      {NULL, NULL},
  };
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  luaL_setfuncs(L, modules, 0);
  lua_pop(L, 1);
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "searchers");
  lua_Integer n = luaL_len(L, -1);
  for (lua_Integer i = n; i >= 2; i--) { /* make room behind the preload searcher */
    lua_geti(L, -1, i);
    lua_seti(L, -2, i + 1);
  }
  lua_pushcfunction(L, searcher);
  lua_seti(L, -2, 2);
  lua_pop(L, 2);
}
