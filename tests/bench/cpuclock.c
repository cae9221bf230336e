/* cpuclock.c: a module for scenarios of the bench: cpuclock() is the thread's CPU time in seconds,
 * that of the kernel on its behalf included. Scripts have no such clock, as it counts all virtual
 * users of a worker; the bench has one user. */
#include <lauxlib.h>
#include <lua.h>
#include <time.h>

int luaopen_cpuclock(lua_State *L);

static int now(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  lua_pushnumber(L, (double)t.tv_sec + (double)t.tv_nsec / 1e9);
  return 1;
}

int luaopen_cpuclock(lua_State *L) {
  lua_pushcfunction(L, now);
  return 1;
}
