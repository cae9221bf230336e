/* script.c: Lua outside a run: `perigee lua`, commands written in Lua, the report's text. Every
 * entry runs under one protected call with a traceback, so that no Lua error can leave a command
 * any other way. */
#include "bind/script.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "bind/bind.h"
#include "bind/chunk.h"
#include "bind/guard.h"
#include "bind/limit.h"

#define VALUE_SECONDS 2.0 /* of CPU time, for a file that only says what there is */

/* What a protected call needs; passed as one light userdata. */
struct job {
  const char *module, *function, *path;
  int argc;
  char **argv;
  const struct value *const *args;
  size_t n_args;
  struct buf *out;
  struct value *value;
  int status;
};

/* A traceback only where it shows lines of Lua: a file that cannot be read or compiled says all in
 * its message. */
static int traceback(lua_State *L) {
  if (bind_must_stop(L))
    return 1; /* its text has the script's frames */
  bind_push_error_text(L, 1);
  lua_Debug ar;
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "l", &ar);
    if (ar.currentline > 0) {
      luaL_traceback(L, L, lua_tostring(L, -1), 1);
      break;
    }
  }
  return 1;
}

/* The folder of a path, "." when it has none; a copy. */
static char *folder_of(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  if (!slash)
    return mem_strdup(".");
  return mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* Opens a state, calls fn(job) protected, closes. */
static int run(lua_CFunction fn, struct job *job, struct err *err) {
  lua_State *L = luaL_newstate();
  if (!L)
    return err_set(err, ERR_LIMIT, "not enough memory for a Lua state");
  char *folder = folder_of(job->path);
  int rc = 0;
  lua_pushcfunction(L, traceback);
  lua_pushcfunction(L, fn);
  lua_pushlightuserdata(L, job);
  lua_pushstring(L, folder);
  if (lua_pcall(L, 2, 0, 1) != LUA_OK)
    rc = err_set(err, ERR_INVALID, "%s", lua_tostring(L, -1));
  lua_close(L);
  mem_free(folder);
  return rc;
}

MAY_RAISE static struct job *begin(lua_State *L) {
  struct job *job = lua_touserdata(L, 1);
  bind_open(L, lua_tostring(L, 2));
  lua_settop(L, 0);
  return job;
}

MAY_RAISE static void push_module_function(lua_State *L, const struct job *job) {
  lua_getglobal(L, "require");
  lua_pushstring(L, job->module);
  lua_call(L, 1, 1);
  lua_pushstring(L, job->function); /* raw: a module may have a word of its own for what it lacks */
  lua_rawget(L, -2);
  if (!lua_isfunction(L, -1))
    luaL_error(L, "module %s has no function %s", job->module, job->function);
}

static int do_main(lua_State *L) {
  struct job *job = begin(L);
  push_module_function(L, job);
  lua_createtable(L, job->argc, 0);
  for (int i = 0; i < job->argc; i++) {
    lua_pushstring(L, job->argv[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_call(L, 1, 1);
  if (lua_isnumber(L, -1))
    job->status = (int)lua_tointeger(L, -1);
  else
    job->status = lua_isboolean(L, -1) && !lua_toboolean(L, -1) ? 1 : 0;
  return 0;
}

int script_main(const char *module, int argc, char **argv, int *status, struct err *err) {
  struct job job = {.module = module, .function = "main", .argc = argc, .argv = argv};
  int rc = run(do_main, &job, err);
  *status = job.status;
  return rc;
}

static int do_file(lua_State *L) {
  struct job *job = begin(L);
  lua_createtable(L, job->argc, 1);
  lua_pushstring(L, job->path);
  lua_rawseti(L, -2, 0);
  for (int i = 0; i < job->argc; i++) {
    lua_pushstring(L, job->argv[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setglobal(L, "arg");
  if (bind_load_file(L, strcmp(job->path, "-") == 0 ? NULL : job->path) != LUA_OK)
    return lua_error(L);
  for (int i = 0; i < job->argc; i++)
    lua_pushstring(L, job->argv[i]);
  lua_call(L, job->argc, 0);
  return 0;
}

int script_file(const char *path, int argc, char **argv, struct err *err) {
  struct job job = {.path = path, .argc = argc, .argv = argv};
  return run(do_file, &job, err);
}

static int do_text(lua_State *L) {
  struct job *job = begin(L);
  push_module_function(L, job);
  for (size_t i = 0; i < job->n_args; i++)
    bind_push_value(L, job->args[i], false);
  lua_call(L, (int)job->n_args, 1);
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  if (!text)
    return luaL_error(L, "%s.%s returned no text", job->module, job->function);
  buf_put(job->out, text, len);
  return 0;
}

int script_text(const char *module, const char *function, const struct value *const *args,
                size_t n_args, struct buf *out, struct err *err) {
  struct job job = {
      .module = module, .function = function, .args = args, .n_args = n_args, .out = out};
  return run(do_text, &job, err);
}

static int do_value(lua_State *L) {
  struct job *job = begin(L);
  bind_keep_stdout(L);
  bind_limit_set(L, VALUE_SECONDS);
  if (bind_load_file(L, job->path) != LUA_OK)
    return lua_error(L);
  lua_call(L, 0, 1);
  if (!lua_istable(L, -1))
    return luaL_error(L, "%s must return a table, it returned %s", job->path, luaL_typename(L, -1));
  bind_to_value(L, -1, job->value);
  return 0;
}

/* Whoever wrote the file knows nothing of JSON. */
static void reword(struct err *err) {
  static const char json[] = "cannot make JSON of ";
  if (strncmp(err->text, json, sizeof json - 1) == 0) {
    struct err said = *err;
    err_set(err, said.code, "its table must not hold %s", said.text + sizeof json - 1);
  }
}

int script_value(const char *path, struct value *out, struct err *err) {
  *out = value_null();
  struct job job = {.path = path, .value = out};
  int rc = run(do_value, &job, err);
  if (rc && err)
    reword(err);
  return rc;
}

/* Whether the message on top says that the text was over too early. */
static bool ends_early(lua_State *L) {
  size_t len;
  const char *message = lua_tolstring(L, -1, &len);
  return len >= 5 && strcmp(message + len - 5, "<eof>") == 0;
}

/* Compiles the lines read so far, first as an expression ("= x" is one too). Leaves a function, or
 * a message; returns luaL_loadbuffer's status, and whether more lines could mend it. */
static int compile_lines(lua_State *L, const struct buf *lines, bool *more) {
  *more = false;
  size_t skip = 0;
  while (skip < lines->len && (lines->data[skip] == ' ' || lines->data[skip] == '\t'))
    skip++;
  skip = skip < lines->len && lines->data[skip] == '=' ? skip + 1 : 0;
  lua_pushliteral(L, "return ");
  lua_pushlstring(L, lines->data + skip, lines->len - skip);
  lua_concat(L, 2);
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  if (bind_load(L, text, len, "=stdin") == LUA_OK) {
    lua_remove(L, -2);
    return LUA_OK;
  }
  *more = lines->len > 1 && ends_early(L); /* more of an expression; an empty line is none */
  lua_pop(L, 2);
  int status = bind_load(L, lines->data, lines->len, "=stdin");
  if (status == LUA_OK)
    *more = false;
  else if (status == LUA_ERRSYNTAX)
    *more = *more || ends_early(L);
  return status;
}

/* perigee.show's print. */
static MAY_RAISE void push_show(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "perigee.show");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "print");
  lua_remove(L, -2);
}

/* Prints the values, or the error on stderr; false for an error. */
static bool evaluate(lua_State *L) {
  int base = lua_gettop(L); /* the function */
  lua_pushcfunction(L, traceback);
  lua_insert(L, base);
  bool ok = lua_pcall(L, 0, LUA_MULTRET, base) == LUA_OK;
  if (!ok) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
  } else if (lua_gettop(L) > base) {
    int n = lua_gettop(L) - base;
    push_show(L);
    lua_insert(L, base + 1);
    ok = lua_pcall(L, n, 0, 0) == LUA_OK;
    if (!ok)
      fprintf(stderr, "%s\n", lua_tostring(L, -1));
  }
  lua_settop(L, base - 1);
  return ok;
}

static int do_prompt(lua_State *L) {
  struct job *job = begin(L);
  bool shown = isatty(STDIN_FILENO) != 0;
  char *line = NULL;
  size_t cap = 0;
  if (shown)
    puts("-- require \"perigee.json\" and the like; perigee list, perigee --help");
  for (;;) {
    if (shown) {
      fputs(job->out->len ? ">> " : "> ", stdout);
      fflush(stdout);
    }
    ssize_t n = getline(&line, &cap, stdin);
    if (n >= 0)
      buf_put(job->out, line, (size_t)n);
    if (job->out->len) {
      bool more;
      int status = compile_lines(L, job->out, &more);
      if (status != LUA_OK && more && n >= 0) {
        lua_settop(L, 0);
        continue;
      }
      buf_reset(job->out);
      if (status != LUA_OK)
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
      if ((status != LUA_OK || !evaluate(L)) && !shown)
        job->status = 1;
      lua_settop(L, 0);
    }
    if (n < 0)
      break;
  }
  mem_free(line); /* getline's memory is malloc's, and so is ours */
  if (shown)
    putchar('\n');
  return 0;
}

int script_prompt(bool *failed, struct err *err) {
  struct buf lines;
  buf_init(&lines, BUF_MAX_OWN);
  struct job job = {.out = &lines};
  int rc = run(do_prompt, &job, err);
  *failed = job.status != 0;
  buf_free(&lines);
  return rc;
}

const char *script_lua_version(void) {
  return LUA_RELEASE;
}
