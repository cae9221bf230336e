/* core.c: module perigee.core, what the Lua modules share: checked options, quantities, errors
 * that name the author's line. Not for scripts. */
#include "bind/core.h"

#include <dirent.h>
#include <errno.h>
#include <lualib.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "bind/bind.h"
#include "bind/embed.h"
#include "bind/hold.h"
#include "bind/limit.h"
#include "bind/quantity.h"
#include "bind/rng.h"
#include "bind/vu_bind.h"
#include "out/metrics.h"
#include "run/vu.h"

#define MAX_KNOWN 64

/* The values of the list at `index` as C strings (they live as long as the table does). */
static MAY_RAISE size_t list_words(lua_State *L, int index, const char **words) {
  luaL_checktype(L, index, LUA_TTABLE);
  size_t n = (size_t)luaL_len(L, index);
  luaL_argcheck(L, n <= MAX_KNOWN, index, "too many words");
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, index, "a list of strings is expected");
    words[i] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  return n;
}

/* Whether t at 1 is a plain table whose keys are all in the list at 3. */
static MAY_RAISE bool has_only(lua_State *L) {
  if (!lua_istable(L, 1) || !lua_istable(L, 3) || lua_getmetatable(L, 1))
    return false;
  lua_Integer n = (lua_Integer)lua_rawlen(L, 3);
  bool found = true;
  lua_pushnil(L);
  while (found && lua_next(L, 1)) {
    found = false;
    for (lua_Integer i = 1; i <= n && !found; i++) {
      lua_rawgeti(L, 3, i);
      found = lua_rawequal(L, -1, -3);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  return found;
}

/* options(t, where, {names}): t (a table or nil) may have only these string keys; returns t or {}.
 */
static int core_options(lua_State *L) {
  lua_settop(L, 3);
  if (lua_isnil(L, 1)) {
    lua_newtable(L);
    return 1;
  }
  bool fine = has_only(L);
  lua_settop(L, 3);
  if (!fine) { /* has the words; or a table of another kind */
    const char *where = luaL_checkstring(L, 2);
    const char *known[MAX_KNOWN];
    size_t n = list_words(L, 3, known);
    bind_check_options(L, 1, where, known, n);
  }
  lua_settop(L, 1);
  return 1;
}

/* word(value, where, what, {names}): value must be one of the names; returns it. */
static int core_word(lua_State *L) {
  const char *where = luaL_checkstring(L, 2), *what = luaL_checkstring(L, 3);
  const char *known[MAX_KNOWN];
  size_t n = list_words(L, 4, known);
  if (lua_type(L, 1) != LUA_TSTRING)
    bind_raise(L, "%s: %s must be a string, got %s", where, what, luaL_typename(L, 1));
  const char *word = lua_tostring(L, 1);
  for (size_t i = 0; i < n; i++) {
    if (strcmp(word, known[i]) == 0) {
      lua_settop(L, 1);
      return 1;
    }
  }
  const char *near = err_nearest(word, known, n);
  if (near)
    bind_raise(L, "%s: unknown %s '%s' (did you mean '%s'?)", where, what, word, near);
  struct buf *list = bind_hold_buf(L);
  for (size_t i = 0; i < n; i++)
    buf_printf(list, "%s%s", i ? ", " : "", known[i]);
  bind_raise(L, "%s: unknown %s '%s' (known: %s)", where, what, word, n ? list->data : "none");
}

/* raise(text): an error at the author's line. */
static int core_raise(lua_State *L) {
  bind_raise(L, "%s", luaL_checkstring(L, 1));
}

/* nearest(word, {names}) -> name or nil */
static int core_nearest(lua_State *L) {
  const char *word = luaL_checkstring(L, 1);
  const char *known[MAX_KNOWN];
  size_t n = list_words(L, 2, known);
  lua_pushstring(L, err_nearest(word, known, n));
  return 1;
}

/* unknown_option(command, word, {names}) -> what is said of it, in every command alike */
static int core_unknown_option(lua_State *L) {
  const char *command = luaL_checkstring(L, 1), *word = luaL_checkstring(L, 2);
  const char *known[MAX_KNOWN];
  size_t len = strcspn(word, "="), n = list_words(L, 3, known);
  const char *name = lua_pushlstring(L, word, len), *near = err_nearest(name, known, n);
  lua_pushfstring(L, "unknown option %s%s%s%s; see `perigee %s --help`", name,
                  near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", command);
  return 1;
}

/* classes() -> the names of failures, in the order of DESIGN.md */
static int core_classes(lua_State *L) {
  lua_newtable(L);
  lua_Integer n = 0;
  for (int e = 0; e < SAMPLE_ERROR_COUNT; e++)
    if (sample_error_failed((enum sample_error)e)) {
      lua_pushstring(L, sample_error_name((enum sample_error)e));
      lua_rawseti(L, -2, ++n);
    }
  return 1;
}

/* embedded(name) -> the bytes of a file compiled into the binary, or nil */
static int core_embedded(lua_State *L) {
  const struct embed_file *f = bind_embed_find(luaL_checkstring(L, 1));
  if (f)
    lua_pushlstring(L, f->start, (size_t)(f->end - f->start));
  else
    lua_pushnil(L);
  return 1;
}

static int directory_gc(lua_State *L) {
  DIR **dir = luaL_checkudata(L, 1, "perigee.hold.directory");
  if (*dir)
    closedir(*dir);
  *dir = NULL;
  return 0;
}

/* files(folder) -> sorted names, folders with a trailing slash, hidden ones left out; nil, message.
 * For commands: a session must not read folders while others wait. */
static int core_files(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", directory_gc}, {"__close", directory_gc}, {NULL, NULL}};
  const char *folder = luaL_checkstring(L, 1);
  bind_new_type(L, "perigee.hold.directory", meta, NULL);
  DIR **dir = bind_new_userdata(L, sizeof(DIR *), "perigee.hold.directory");
  *dir = opendir(folder);
  if (!*dir) {
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s", folder, strerror(errno));
    return 2;
  }
  lua_newtable(L);
  lua_Integer n = 0;
  for (struct dirent *e; (e = readdir(*dir));) {
    if (e->d_name[0] == '.')
      continue;
    lua_pushfstring(L, "%s/%s", folder, e->d_name);
    struct stat st;
    bool is_folder = stat(lua_tostring(L, -1), &st) == 0 && S_ISDIR(st.st_mode);
    lua_pop(L, 1);
    lua_pushfstring(L, "%s%s", e->d_name, is_folder ? "/" : "");
    lua_rawseti(L, -2, ++n);
  }
  lua_getglobal(L, LUA_TABLIBNAME);
  lua_getfield(L, -1, "sort");
  lua_pushvalue(L, -3);
  lua_call(L, 1, 0);
  lua_pop(L, 1);
  return 1;
}

/* is_file(path): an ordinary one, behind links too; opening another kind may wait for its other
 * end. */
static int core_is_file(lua_State *L) {
  struct stat st;
  lua_pushboolean(L, stat(luaL_checkstring(L, 1), &st) == 0 && S_ISREG(st.st_mode));
  return 1;
}

/* make_folder(path) -> true; nil, message. One that exists is fine. */
static int core_make_folder(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  struct stat st;
  if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))) {
    lua_pushboolean(L, 1);
    return 1;
  }
  int why = errno == EEXIST ? ENOTDIR : errno; /* something else has the name */
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, strerror(why));
  return 2;
}

/* program() -> path of the running binary, or nil */
static int core_program(lua_State *L) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n > 0)
    lua_pushlstring(L, path, (size_t)n);
  else
    lua_pushnil(L);
  return 1;
}

/* metrics() -> {{name =, unit =, meaning =}…}: the built-in ones, for the reference */
static int core_metrics(lua_State *L) {
  struct value *v = bind_hold_value(L);
  struct metrics m;
  metrics_init(&m);
  *v = metrics_value(&m);
  metrics_free(&m);
  bind_push_value(L, v, false);
  return 1;
}

/* named(module, name) -> module, which from now on says so when it is asked for what it has not */
static int core_named(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const char *name = luaL_checkstring(L, 2);
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  bind_name_module(L, name);
  return 1;
}

/* shown(x) -> x for a message, strings in quotes */
static int core_shown(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushstring(L, bind_shown(L, 1));
  return 1;
}

/* is_vu(x): a virtual user of a run; runs(x): one that has ended, or the one that runs now; nil: x
 * is none */
static int core_is_vu(lua_State *L) {
  lua_pushboolean(L, bind_test_userdata(L, 1, VU_TYPE) != NULL);
  return 1;
}
static int core_runs(lua_State *L) {
  const struct vu_handle *h = bind_test_userdata(L, 1, VU_TYPE);
  struct vu *own;
  if (!h)
    return 0;
  lua_pushboolean(L, !h->vu || !state_vu_of(L, &own) || own == h->vu);
  return 1;
}

/* limited(seconds, fn, handler, name) -> true, or false and the error value: fn() with so much CPU
 * time; stress(on): whether whole collections run all the time in there. */
static int core_limited(lua_State *L) {
  double seconds = luaL_checknumber(L, 1);
  luaL_argcheck(L, seconds > 0 && seconds < 1e9, 1, "out of range");
  luaL_checktype(L, 2, LUA_TFUNCTION);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  bind_limit_name(L, luaL_optstring(L, 4, "what was called"));
  lua_settop(L, 3);
  lua_pushvalue(L, 2);
  bool ok = bind_limit_call(L, seconds, 3);
  lua_pushboolean(L, ok);
  if (ok)
    return 1;
  lua_insert(L, -2);
  return 2;
}
static int core_stress(lua_State *L) {
  bind_limit_stress(L, lua_toboolean(L, 1));
  return 0;
}

static const luaL_Reg functions[] = {
    {"limited", core_limited},   {"stress", core_stress},
    {"is_vu", core_is_vu},       {"runs", core_runs},
    {"shown", core_shown},       {"classes", core_classes},
    {"embedded", core_embedded}, {"files", core_files},
    {"is_file", core_is_file},   {"make_folder", core_make_folder},
    {"metrics", core_metrics},   {"named", core_named},
    {"nearest", core_nearest},   {"options", core_options},
    {"place", vu_place},         {"program", core_program},
    {"raise", core_raise},       {"unknown_option", core_unknown_option},
    {"word", core_word},         {NULL, NULL},
};

int luaopen_perigee_core(lua_State *L) {
  luaL_newlib(L, functions);
  bind_quantity_functions(L);
  return 1;
}
