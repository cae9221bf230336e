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
#include "bind/hold.h"
#include "run/state.h"

/* The function and its two operands, the 20 slots a C function is promised, and some. */
#define HEADROOM 32
#define MOST_REGISTERS 255
#define CONCAT "__concat"
#define OWN_CONCAT "__CONCAT" /* of the same length */

enum { OP_GETFIELD = 14, OP_SETFIELD = 18, OP_CONCAT = 53 };
enum { K_NIL = 0, K_FALSE = 1, K_INTEGER = 3, K_SHORT = 4, K_TRUE = 17, K_FLOAT = 19, K_LONG = 20 };

static const char renamed_key, held_key; /* their addresses are registry keys */

/* ---- a dump, read from front to back ---- */

struct dump {
  char *p, *end;
  bool odd;        /* not what is expected */
  bool renamed;    /* a __concat was found */
  int crowded;     /* line of a function that leaves no room; 0 = none */
  const char *why; /* what was read when it turned out odd */
};

static char *take(struct dump *d, size_t n) {
  if (d->odd || (size_t)(d->end - d->p) < n) {
    d->odd = true;
    return NULL;
  }
  char *at = d->p;
  d->p += n;
  return at;
}

static size_t take_size(struct dump *d) {
  size_t n = 0;
  for (const char *b; (b = take(d, 1));) {
    if (n >> 56) {
      d->odd = true;
      break;
    }
    n = n << 7 | ((unsigned char)*b & 0x7F);
    if (*b & 0x80)
      return n;
  }
  return 0;
}

static char *take_string(struct dump *d, size_t *len) {
  size_t n = take_size(d);
  *len = n ? n - 1 : 0;
  return n ? take(d, n - 1) : NULL;
}

static void take_many(struct dump *d, size_t size) {
  size_t n = take_size(d);
  if (n > (size_t)(d->end - d->p) / size)
    d->odd = true;
  take(d, n * size);
}

static uint32_t instruction(const char *code, size_t i) {
  uint32_t word;
  memcpy(&word, code + 4 * i, 4);
  return word;
}

/* Whether constant number k is the name of a field somewhere in this code. */
static bool names_field(const char *code, size_t n, size_t k) {
  for (size_t i = 0; i < n; i++) {
    uint32_t word = instruction(code, i), op = word & 0x7F;
    if ((op == OP_SETFIELD && (word >> 16 & 0xFF) == k) || (op == OP_GETFIELD && word >> 24 == k))
      return true;
  }
  return false;
}

static bool has_concat(const char *code, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((instruction(code, i) & 0x7F) == OP_CONCAT)
      return true;
  return false;
}

static void take_constants(struct dump *d, const char *code, size_t n_code) {
  size_t n = take_size(d), len;
  for (size_t k = 0; k < n && !d->odd; k++) {
    const char *type = take(d, 1);
    switch (type ? *type : K_NIL) {
    case K_NIL:
    case K_FALSE:
    case K_TRUE:
      break;
    case K_INTEGER:
    case K_FLOAT:
      take(d, 8);
      break;
    case K_SHORT:
    case K_LONG: {
      char *s = take_string(d, &len);
      if (s && len == sizeof CONCAT - 1 && memcmp(s, CONCAT, len) == 0 &&
          names_field(code, n_code, k)) {
        memcpy(s, OWN_CONCAT, len);
        d->renamed = true;
      }
      break;
    }
    default:
      d->odd = true;
    }
  }
}

/* Line numbers, names of variables. */
static void take_debug(struct dump *d) {
  size_t len;
  take_many(d, 1);
  for (size_t n = take_size(d); n > 0 && !d->odd; n--) {
    take_size(d);
    take_size(d);
  }
  for (size_t n = take_size(d); n > 0 && !d->odd; n--) {
    take_string(d, &len);
    take_size(d);
    take_size(d);
  }
  for (size_t n = take_size(d); n > 0 && !d->odd; n--)
    take_string(d, &len);
}

/* One function and those inside it; Lua's parser bounds how deep they nest. */
static void take_function(struct dump *d) { // NOLINT(misc-no-recursion)
  size_t len;
  take_string(d, &len); /* source */
  size_t line = take_size(d);
  take_size(d);
  char *head = take(d, 3); /* parameters, whether vararg, maxstacksize */
  size_t n_code = take_size(d);
  if (n_code > (size_t)(d->end - d->p) / 4)
    d->odd = true;
  const char *code = take(d, n_code * 4);
  if (!head || !code)
    return;
  unsigned registers = (unsigned char)head[2], most = MOST_REGISTERS - HEADROOM;
  if (registers > most && has_concat(code, n_code) && !d->crowded)
    d->crowded = (int)line + (line == 0);
  head[2] = (char)(registers > most ? MOST_REGISTERS : registers + HEADROOM);
  take_constants(d, code, n_code);
  take_many(d, 3); /* upvalues */
  for (size_t n = take_size(d); n > 0 && !d->odd; n--)
    take_function(d);
  take_debug(d);
}

static int write_piece(lua_State *L, const void *p, size_t size, void *user) {
  (void)L;
  buf_put(user, p, size);
  return 0;
}

/* The function on top becomes one with room; LUA_OK, or a message on top instead. */
static MAY_RAISE int give_room(lua_State *L, const char *name) {
  static const size_t header = 4 + 1 + 1 + 6 + 3 + 8 + 8;
  struct buf *b = bind_hold_buf(L); /* function, buffer */
  lua_insert(L, -2);
  lua_dump(L, write_piece, b, 0);
  lua_pop(L, 1);
  struct dump d = {.p = b->data, .end = b->data + b->len};
  take(&d, header);
  take(&d, 1); /* number of upvalues */
  take_function(&d);
  const char *shown = *name == '@' || *name == '=' ? name + 1 : name;
  int status = LUA_ERRSYNTAX;
  if (d.odd || d.p != d.end)
    lua_pushfstring(L, "%s: this Lua's compiled form is not that of 5.4 (%s was built for)", shown,
                    LUA_RELEASE);
  else if (d.crowded)
    lua_pushfstring(L,
                    "%s:%d: this function has too many local variables for a `..` in it (with "
                    "temporaries %d are possible); make two of it",
                    shown, d.crowded, MOST_REGISTERS - HEADROOM);
  else
    status = luaL_loadbufferx(L, b->data, b->len, name, "b");
  lua_remove(L, -2);
  if (status == LUA_OK && d.renamed) {
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

/* Sets the first upvalue, if there is one, to the value at `env`; nil, message for a failed load.
 */
static MAY_RAISE int loaded(lua_State *L, int status, int env) {
  if (status != LUA_OK) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  if (env) {
    lua_pushvalue(L, env);
    if (!lua_setupvalue(L, -2, 1))
      lua_pop(L, 1);
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
