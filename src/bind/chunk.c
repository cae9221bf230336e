/* chunk.c: source to function, made safe for `..` (chunk.h says what is wrong in Lua 5.4.4).
 *
 * The stack must not move while a __concat is called. It moves when the callee needs more than
 * there is, so every function is given room beyond its registers: its maxstacksize is raised by
 * HEADROOM, which is enough for a C function as the metamethod. That number is only reachable in a
 * dumped function, so a chunk is compiled, dumped, changed and loaded again; the format is that of
 * all 5.4 releases, and a dump that reads otherwise is refused, not guessed at.
 * A metamethod written in Lua may need any amount. So a script's own is kept under another name
 * (the constant is renamed where it is used as a field) and the metatable gets a C function that
 * calls it on a thread of its own, with the collector held: the collector shrinks stacks. */
#include "bind/chunk.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/bytecode.h"
#include "bind/hold.h"
#include "run/state.h"

#define GUARD_UPVALUE 2 /* of a chunk, behind its _ENV */
#define CONCAT "__concat"
#define OWN_CONCAT BYTECODE_OWN_CONCAT

static const char renamed_key, held_key, guard_key; /* their addresses are registry keys */

static int write_piece(lua_State *L, const void *p, size_t size, void *user) {
  (void)L;
  buf_put(user, p, size);
  return 0;
}

/* ---- globals ---- */

/* guard[name] = value: what a chunk does that assigns a global. */
static int write_global(lua_State *L) {
  const struct state *s = state_of(L);
  if (s && s->running) {
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "a global";
    bind_raise(L,
               "'%s' is a global, which a thread's users share and sessions must not assign: write "
               "`local %s`. For all users alike: perigee.shared, or what setup returns "
               "(vu.shared); for figures: vu:record",
               name, name);
  }
  lua_pushglobaltable(L);
  lua_replace(L, 1);
  lua_settable(L, 1);
  return 0;
}

/* What chunks write globals to: always empty, so each write asks. */
static MAY_RAISE void push_guard(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &guard_key) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, write_global);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &guard_key);
}

/* ---- source to function ---- */

/* The function on top becomes one with room, and a guard where it assigns globals; LUA_OK, or a
 * message on top instead. */
static MAY_RAISE int give_room(lua_State *L, const char *name) {
  struct buf *dump = bind_hold_buf(L);
  struct buf *changed = bind_hold_buf(L); /* function, two buffers */
  lua_pushvalue(L, -3);
  lua_dump(L, write_piece, dump, 0);
  lua_pop(L, 1);
  struct bytecode found;
  bytecode_change(dump, changed, &found);
  const char *shown = *name == '@' || *name == '=' ? name + 1 : name;
  int status = LUA_ERRSYNTAX;
  if (found.odd)
    lua_pushfstring(L, "%s: this Lua's compiled form is not that of 5.4 (%s was built for)", shown,
                    LUA_RELEASE);
  else if (found.crowded)
    lua_pushfstring(L,
                    "%s:%d: this function has too many local variables for a `..` in it (with "
                    "temporaries %d are possible); make two of it",
                    shown, found.crowded, found.most_registers);
  else
    status = luaL_loadbufferx(L, changed->data, changed->len, name, "b");
  lua_replace(L, -4);
  lua_pop(L, 2);
  if (status == LUA_OK && found.guarded) {
    push_guard(L);
    if (!lua_setupvalue(L, -2, GUARD_UPVALUE))
      lua_pop(L, 1);
  }
  if (status == LUA_OK && found.renamed) {
    lua_pushboolean(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &renamed_key);
  }
  return status;
}

int bind_load(lua_State *L, const char *text, size_t len, const char *name) {
  luaL_checkstack(L, 8, "load");
  if (len && *text == LUA_SIGNATURE[0]) {
    lua_pushfstring(L,
                    "%s: this is a compiled (binary) chunk; perigee loads Lua source only: give "
                    "the .lua file it was made from",
                    *name == '@' || *name == '=' ? name + 1 : name);
    return LUA_ERRSYNTAX;
  }
  int status = luaL_loadbufferx(L, text, len, name, "t");
  if (status != LUA_OK && lua_type(L, -1) == LUA_TSTRING &&
      strncmp(lua_tostring(L, -1), "C stack overflow", 16) == 0) {
    lua_pop(L, 1); /* what the parser says of parentheses in parentheses, without a place */
    lua_pushfstring(L, "%s: something in it is nested too deeply (C stack overflow)",
                    *name == '@' || *name == '=' ? name + 1 : "a chunk");
  }
  return status == LUA_OK ? give_room(L, name) : status;
}

/* ---- files ---- */

static int file_gc(lua_State *L) {
  FILE **f = luaL_checkudata(L, 1, "perigee.hold.file");
  if (*f && *f != stdin)
    fclose(*f);
  *f = NULL;
  return 0;
}

/* Reads the whole file; an errno, or 0. What has no end (/dev/zero) is no source. */
static MAY_RAISE int read_file(lua_State *L, const char *path, struct buf *b) {
  static const luaL_Reg meta[] = {{"__gc", file_gc}, {"__close", file_gc}, {NULL, NULL}};
  bind_new_type(L, "perigee.hold.file", meta, NULL);
  FILE **f = bind_new_userdata(L, sizeof *f, "perigee.hold.file");
  *f = path ? fopen(path, "rbe") : stdin;
  int why = *f ? 0 : errno;
  char piece[8192];
  for (size_t n; *f && b->len <= BIND_SOURCE_MAX && (n = fread(piece, 1, sizeof piece, *f)) > 0;)
    buf_put(b, piece, n);
  if (b->len > BIND_SOURCE_MAX)
    why = EFBIG;
  if (*f && ferror(*f))
    why = errno ? errno : EIO;
  if (*f && *f != stdin)
    fclose(*f);
  *f = NULL;
  lua_pop(L, 1);
  return why;
}

/* The file's bytes, in `b` or borrowed from the run's store, which reads each file once; sets *why
 * to an errno, or 0. */
static MAY_RAISE void find_source(lua_State *L, const char *path, struct buf *b, const char **text,
                                  size_t *len, int *why) {
  const struct state *s = state_of(L);
  struct store *store = s && path ? s->options.store : NULL;
  const struct blob *kept = store ? store_source(store, path) : NULL;
  *why = kept ? 0 : read_file(L, path, b);
  if (store && !kept && !*why)
    kept = store_keep_source(store, path, b->len ? b->data : "", b->len);
  *text = kept ? kept->data : b->len ? b->data : "";
  *len = kept ? kept->len : b->len;
}

int bind_load_file(lua_State *L, const char *path) {
  luaL_checkstack(L, 12, "load");
  if (path)
    lua_pushfstring(L, "@%s", path);
  else
    lua_pushliteral(L, "=stdin");
  const char *name = lua_tostring(L, -1);
  struct buf *b = bind_hold_buf(L); /* name, buffer */
  int why, status = LUA_ERRFILE;
  const char *text;
  size_t len;
  find_source(L, path, b, &text, &len, &why);
  if (why == EFBIG) {
    lua_pushfstring(L, "%s is longer than the %d MiB that Lua source may have", name + 1,
                    (int)(BIND_SOURCE_MAX >> 20));
  } else if (why) {
    lua_pushfstring(L, "cannot open %s: %s", name + 1, strerror(why));
  } else {
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark */
      text += 3;
      len -= 3;
    }
    if (len && *text == '#') /* a first line for the shell; lines count from it all the same */
      while (len && *text != '\n') {
        text++;
        len--;
      }
    status = bind_load(L, text, len, name);
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
  return status;
}

/* ---- __concat ---- */

void bind_hold_collector(lua_State *L) {
  struct state *s = state_of(L);
  if (s) {
    s->held++;
    return;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &held_key);
  lua_Integer n = lua_tointeger(L, -1);
  if (n == 0 && !lua_gc(L, LUA_GCISRUNNING))
    n = -1; /* stopped by somebody else, who starts it again */
  if (n == 0)
    lua_gc(L, LUA_GCSTOP);
  lua_pushinteger(L, n < 0 ? n - 1 : n + 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &held_key);
  lua_pop(L, 1);
}

void bind_release_collector(lua_State *L) {
  struct state *s = state_of(L);
  if (s) {
    s->held--;
    return;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &held_key);
  lua_Integer n = lua_tointeger(L, -1);
  n = n < 0 ? n + 1 : n - 1;
  if (n == -1)
    n = 0;
  else if (n == 0)
    lua_gc(L, LUA_GCRESTART);
  lua_pushinteger(L, n);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &held_key);
  lua_pop(L, 1);
}

bool bind_collector_held(lua_State *L) {
  const struct state *s = state_of(L);
  if (s)
    return s->held > 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &held_key);
  bool held = lua_tointeger(L, -1) != 0;
  lua_pop(L, 1);
  return held;
}

static int after_own(lua_State *L, int status, lua_KContext context) {
  (void)context;
  if (status != LUA_OK && status != LUA_YIELD)
    return lua_error(L);
  return 1;
}

/* (function, left, right): protected in here, so that hooks are on again when __close runs. */
static int own_body(lua_State *L) {
  return after_own(L, lua_pcallk(L, 2, 1, 0, 0, after_own), 0);
}

/* __concat of every metatable of a script that has one of its own. */
static int call_own_concat(lua_State *L) {
  lua_settop(L, 2);
  if (luaL_getmetafield(L, 1, OWN_CONCAT) == LUA_TNIL &&
      luaL_getmetafield(L, 2, OWN_CONCAT) == LUA_TNIL) {
    int culprit = lua_isstring(L, 1) ? 2 : 1;
    bind_raise(L, "attempt to concatenate a %s value", luaL_typename(L, culprit));
  }
  bind_hold_collector(L);
  lua_State *thread = lua_newthread(L); /* left, right, function, thread */
  lua_insert(L, 1);
  lua_pushcfunction(L, own_body);
  lua_insert(L, 2);
  lua_insert(L, 3);
  lua_xmove(L, thread, 4); /* a new thread has room for 20 */
  int n = 0, status = lua_resume(thread, L, 3, &n);
  bind_release_collector(L);
  if (status == LUA_YIELD)
    bind_raise(L, "__concat cannot wait or yield; compute what is joined before");
  lua_xmove(thread, L, 1);
  return status == LUA_OK ? 1 : lua_error(L);
}

void bind_tame_concat(lua_State *L, int index) {
  index = lua_absindex(L, index);
  lua_pushliteral(L, CONCAT);
  int type = lua_rawget(L, index);
  bool ours = lua_tocfunction(L, -1) == call_own_concat;
  if (type != LUA_TNIL && !ours) {
    lua_pushliteral(L, OWN_CONCAT);
    lua_insert(L, -2);
    lua_rawset(L, index);
  } else {
    lua_pop(L, 1);
    /* where the name occurs at all, one may still be assigned */
    type = lua_rawgetp(L, LUA_REGISTRYINDEX, &renamed_key);
    lua_pop(L, 1);
  }
  if (type != LUA_TNIL && !ours) {
    lua_pushliteral(L, CONCAT);
    lua_pushcfunction(L, call_own_concat);
    lua_rawset(L, index);
  }
}

/* ---- what scripts call ---- */

/* While a session runs, others wait for whatever reads a file; and the run's folder holds the
 * files it was made of, so they are known before it starts. */
static MAY_RAISE void refuse_in_session(lua_State *L, const char *what, const char *name) {
  const struct state *s = state_of(L);
  if (s && s->running)
    bind_raise(L,
               "%s '%s' would read a file while all other users wait, and the run's folder would "
               "lack it: load it at the top of the script",
               what, name);
}

/* Makes the value at `env`, if there is one, the chunk's globals; nil, message for a failed load.
 */
static MAY_RAISE int loaded(lua_State *L, int status, int env) {
  if (status != LUA_OK) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  if (env) {
    for (int i = 1; i <= GUARD_UPVALUE; i++) { /* what is written goes there too */
      lua_pushvalue(L, env);
      if (!lua_setupvalue(L, -2, i))
        lua_pop(L, 1);
    }
  }
  return 1;
}

/* The pieces that a function gives, until nil or "". */
static MAY_RAISE void gather_pieces(lua_State *L, struct buf *b) {
  for (;;) {
    lua_pushvalue(L, 1);
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1))
      break;
    if (lua_type(L, -1) != LUA_TSTRING)
      luaL_error(L, "reader function must return a string");
    size_t len;
    const char *piece = lua_tolstring(L, -1, &len);
    if (len == 0)
      break;
    buf_put(b, piece, len);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* load(chunk [, chunkname [, mode [, env]]]) */
static int guarded_load(lua_State *L) {
  int env = lua_isnone(L, 4) ? 0 : 4;
  bool is_string = lua_type(L, 1) == LUA_TSTRING;
  const char *name = luaL_optstring(L, 2, is_string ? lua_tostring(L, 1) : "=(load)");
  const char *mode = luaL_optstring(L, 3, "bt");
  lua_settop(L, 4);
  if (!is_string)
    luaL_checktype(L, 1, LUA_TFUNCTION);
  if (!strchr(mode, 't')) {
    lua_pushnil(L);
    lua_pushfstring(L, "load: mode \"%s\": perigee loads Lua source only, mode \"t\"", mode);
    return 2;
  }
  size_t len;
  const char *text;
  if (is_string) {
    text = lua_tolstring(L, 1, &len);
  } else {
    struct buf *b = bind_hold_buf(L);
    gather_pieces(L, b);
    text = b->len ? b->data : "";
    len = b->len;
  }
  return loaded(L, bind_load(L, text, len, name), env);
}

/* loadfile([path [, mode [, env]]]) */
static int guarded_loadfile(lua_State *L) {
  const char *path = luaL_optstring(L, 1, NULL), *mode = luaL_optstring(L, 2, "bt");
  int env = lua_isnone(L, 3) ? 0 : 3;
  lua_settop(L, 3);
  refuse_in_session(L, "loadfile", path ? path : "stdin");
  if (!strchr(mode, 't')) {
    lua_pushnil(L);
    lua_pushfstring(L, "loadfile: mode \"%s\": perigee loads Lua source only, mode \"t\"", mode);
    return 2;
  }
  return loaded(L, bind_load_file(L, path), env);
}

static int after_dofile(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L) - 1;
}

/* dofile([path]) */
static int guarded_dofile(lua_State *L) {
  const char *path = luaL_optstring(L, 1, NULL);
  lua_settop(L, 1);
  refuse_in_session(L, "dofile", path ? path : "stdin");
  if (bind_load_file(L, path) != LUA_OK)
    return lua_error(L);
  lua_callk(L, 0, LUA_MULTRET, 0, after_dofile);
  return after_dofile(L, LUA_OK, 0);
}

/* The searcher for Lua files. */
static int search_files(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, 2, "searchpath");
  lua_pushvalue(L, 1);
  if (lua_getfield(L, 2, "path") != LUA_TSTRING)
    return luaL_error(L, "'package.path' must be a string");
  lua_call(L, 2, 2);
  if (lua_isnil(L, -2))
    return 1; /* where it looked */
  lua_pop(L, 1);
  refuse_in_session(L, "require", name);
  const char *path = lua_tostring(L, -1);
  if (bind_load_file(L, path) != LUA_OK)
    return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, path,
                      lua_tostring(L, -1));
  lua_insert(L, -2);
  return 2;
}

void bind_chunk_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"load", guarded_load},
                                       {"loadfile", guarded_loadfile},
                                       {"dofile", guarded_dofile},
                                       {NULL, NULL}};
  lua_pushglobaltable(L);
  luaL_setfuncs(L, functions, 0);
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "searchers");
  lua_pushcfunction(L, search_files);
  lua_seti(L, -2, 2);
  lua_pop(L, 3);
}
