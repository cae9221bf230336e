/* guardio.c: in a session no function waits for somebody else: a pipe, a terminal, a program. It
 * would stop all users of the worker at once, and their waits would count as the server's.
 *
 * Ordinary files can be read and written anywhere. While a script loads (and outside a run)
 * everything can be used: nobody waits then, and what it finds can be kept in a local. A run's
 * standard output is its own, so io.write goes to standard error there. */
#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind/bind.h"
#include "bind/guard.h"
#include "bind/hold.h"
#include "run/state.h"

#define WAY_OUT                                                                                    \
  "all other users would wait for it and their times count it: do it at the top of the script, "   \
  "before the run, and keep the result in a local"

static bool in_session(lua_State *L) {
  const struct state *s = state_of(L);
  return s && s->running;
}

static MAY_RAISE int original(lua_State *L) {
  return lua_tocfunction(L, lua_upvalueindex(1))(L); /* as if it had been called itself */
}

static int no_program(lua_State *L) {
  if (in_session(L) && !(lua_isnoneornil(L, 1)))
    bind_raise(L, "os.execute in a session: " WAY_OUT);
  return original(L);
}

static int no_pipe(lua_State *L) {
  if (in_session(L))
    bind_raise(L, "io.popen in a session: " WAY_OUT);
  return original(L);
}

/* ---- streams ---- */

static bool is_pipe(const struct stat *st) {
  return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode);
}

/* Whether a read or write may wait for somebody: pipes, sockets, terminals. */
static bool stream_may_wait(FILE *f) {
  struct stat st;
  return f && fstat(fileno(f), &st) == 0 && (is_pipe(&st) || isatty(fileno(f)));
}

static MAY_RAISE void check_stream(lua_State *L, const luaL_Stream *s, const char *what) {
  if (s && s->closef && in_session(L) && stream_may_wait(s->f))
    bind_raise(L, "%s of a pipe or terminal in a session: " WAY_OUT, what);
}

/* The default file named "_IO_input" in the registry, as liolib keeps it. */
static MAY_RAISE const luaL_Stream *default_input(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "_IO_input");
  const luaL_Stream *s = luaL_testudata(L, -1, LUA_FILEHANDLE);
  lua_pop(L, 1);
  return s;
}

static int check_io_read(lua_State *L) {
  check_stream(L, default_input(L), "io.read");
  return original(L);
}

/* Opening a named pipe waits for the other side. */
static MAY_RAISE void check_name(lua_State *L, const char *what) {
  struct stat st;
  if (lua_type(L, 1) == LUA_TSTRING && in_session(L) && stat(lua_tostring(L, 1), &st) == 0 &&
      is_pipe(&st))
    bind_raise(L, "%s of a pipe in a session: " WAY_OUT, what);
}

static int check_io_open(lua_State *L) {
  check_name(L, "io.open");
  return original(L);
}

static int check_io_input(lua_State *L) {
  check_name(L, "io.input");
  return original(L);
}

static int check_io_output(lua_State *L) {
  check_name(L, "io.output");
  return original(L);
}

/* Upvalues: the iterator, its file. */
static int next_line(lua_State *L) {
  check_stream(L, luaL_testudata(L, lua_upvalueindex(2), LUA_FILEHANDLE), "a line");
  int n = lua_gettop(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, n, LUA_MULTRET);
  return lua_gettop(L);
}

/* An iterator over a stream that may wait goes on being checked; results of `lines` on the stack
 * from `at`. */
static MAY_RAISE void keep_checking(lua_State *L, int at, int file) {
  const luaL_Stream *s = luaL_testudata(L, file, LUA_FILEHANDLE);
  if (!state_of(L) || !s || !s->closef || !stream_may_wait(s->f))
    return;
  lua_pushvalue(L, at);
  lua_pushvalue(L, file);
  lua_pushcclosure(L, next_line, 2);
  lua_replace(L, at);
}

static int check_io_lines(lua_State *L) {
  bool named = !lua_isnoneornil(L, 1);
  check_name(L, "io.lines");
  if (!named)
    check_stream(L, default_input(L), "io.lines");
  lua_getfield(L, LUA_REGISTRYINDEX, "_IO_input"); /* below what `lines` pushes */
  lua_insert(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 2);
  lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  if (!named)
    keep_checking(L, 2, 1);
  return lua_gettop(L) - 1;
}

static int check_file_read(lua_State *L) {
  check_stream(L, luaL_testudata(L, 1, LUA_FILEHANDLE), "file:read");
  return original(L);
}

static int check_file_lines(lua_State *L) {
  check_stream(L, luaL_testudata(L, 1, LUA_FILEHANDLE), "file:lines");
  luaL_checkudata(L, 1, LUA_FILEHANDLE);
  lua_pushvalue(L, 1);
  lua_insert(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 2);
  lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  keep_checking(L, 2, 1);
  return lua_gettop(L) - 1;
}

/* Standard error is written to by everybody; other pipes may be full, or wait at their end. */
static MAY_RAISE void check_out(lua_State *L, const char *what) {
  const luaL_Stream *s = luaL_testudata(L, 1, LUA_FILEHANDLE);
  if (s && s->closef && s->f != stderr && s->f != stdout)
    check_stream(L, s, what);
}

static int check_file_write(lua_State *L) {
  check_out(L, "file:write");
  return original(L);
}

static int check_file_close(lua_State *L) {
  check_out(L, "file:close");
  return original(L);
}

static int check_io_close(lua_State *L) {
  check_out(L, "io.close");
  return original(L);
}

/* ---- */

struct guard {
  const char *name;
  lua_CFunction fn;
};

/* table[name] = fn with the present function as upvalue; the table is on top, and popped */
static MAY_RAISE void replace_all(lua_State *L, const struct guard *guards, size_t n) {
  for (size_t i = 0; i < n; i++) {
    lua_getfield(L, -1, guards[i].name);
    lua_pushcclosure(L, guards[i].fn, 1);
    lua_setfield(L, -2, guards[i].name);
  }
  lua_pop(L, 1);
}

void bind_guardio_open(lua_State *L) {
  static const struct guard io[] = {
      {"popen", no_pipe},        {"read", check_io_read},   {"lines", check_io_lines},
      {"open", check_io_open},   {"input", check_io_input}, {"output", check_io_output},
      {"close", check_io_close},
  };
  static const struct guard os[] = {{"execute", no_program}};
  static const struct guard file[] = {
      {"read", check_file_read},
      {"lines", check_file_lines},
      {"write", check_file_write},
      {"close", check_file_close},
  };
  lua_getglobal(L, LUA_IOLIBNAME);
  replace_all(L, io, ARRAY_LEN(io));
  lua_getglobal(L, LUA_OSLIBNAME);
  replace_all(L, os, ARRAY_LEN(os));
  luaL_getmetatable(L, LUA_FILEHANDLE);
  lua_getfield(L, -1, "__index");
  lua_remove(L, -2);
  replace_all(L, file, ARRAY_LEN(file));
}

void bind_keep_stdout(lua_State *L) {
  lua_getglobal(L, LUA_IOLIBNAME);
  lua_getfield(L, -1, "stderr");
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "stdout");
  lua_setfield(L, LUA_REGISTRYINDEX, "_IO_output");
  lua_pop(L, 1);
}
