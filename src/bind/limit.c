/* limit.c: bounded time for scripts outside a run; see limit.h. */
#include "bind/limit.h"

#include <lauxlib.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bind/chunk.h"
#include "run/state.h"

#define HOOK_COUNT 20000
#define HOOK_COUNT_STOPPED 100 /* once stopped: what __close and handlers may still do */

#define WATCH_GRACE_NS (5 * NS_PER_S) /* of CPU time, beyond the limit */
#define WATCH_LOOK_NS (100 * NS_PER_MS)

/* A thread that looks whether the limit works at all: the hook counts Lua's instructions, and a
 * function of C may never give any. Lives as long as the outermost bind_limit_call. */
struct cpu_watch {
  pthread_t watched, thread;
  pthread_mutex_t lock;
  pthread_cond_t over;
  bool done;
  uint64_t deadline_ns; /* of the watched thread's CPU time */
  char what[300];
};

struct limit {
  uint64_t deadline_ns; /* of the thread's CPU time; 0 = none */
  double seconds;
  bool stopped, stress;
  char text[1200];
  char what[300];          /* what is called, for the watch's message */
  struct cpu_watch *watch; /* NULL = none */
};

static const char limit_key; /* its address is a registry key */

static struct limit *find(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &limit_key);
  struct limit *l = lua_touserdata(L, -1); /* the registry keeps it */
  lua_pop(L, 1);
  return l;
}

static MAY_RAISE struct limit *make(lua_State *L) {
  struct limit *l = find(L);
  if (l)
    return l;
  l = lua_newuserdatauv(L, sizeof *l, 0);
  *l = (struct limit){0};
  lua_rawsetp(L, LUA_REGISTRYINDEX, &limit_key);
  return l;
}

bool bind_limit_known(lua_State *L) {
  return find(L) != NULL;
}

bool bind_limit_holds(lua_State *L) {
  const struct limit *l = find(L);
  return l && l->deadline_ns;
}

const char *bind_limit_stopped(lua_State *L) {
  const struct limit *l = find(L);
  return l && l->stopped ? l->text : NULL;
}

void bind_limit_check(lua_State *L) {
  struct limit *l = find(L);
  if (!l || (!l->stopped && (!l->deadline_ns || clock_thread_cpu_ns() < l->deadline_ns)))
    return;
  if (!l->stopped) {
    l->stopped = true;
    lua_pushfstring(L, "computed for %f s without an end, so it was stopped", l->seconds);
    state_add_frames(L, L, 0, true);
    snprintf(l->text, sizeof l->text, "%s", lua_tostring(L, -1));
  }
  lua_pushstring(L, l->text);
  lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  (void)ar;
  const struct limit *l = find(L);
  if (l && l->stress && !bind_collector_held(L))
    lua_gc(L, LUA_GCCOLLECT);
  if (l && (l->stopped || (l->deadline_ns && clock_thread_cpu_ns() >= l->deadline_ns)))
    lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_COUNT_STOPPED);
  bind_limit_check(L);
}

static NORETURN void give_up(const struct cpu_watch *w, uint64_t used_ns) {
  if (ftrylockfile(stdout) == 0) /* it may be what the function is in */
    fflush(stdout);
  fprintf(stderr,
          "perigee: %s did not come back: it is in a function that cannot be stopped from outside "
          "(a library's, string.find on a hard pattern) after %.1f s of CPU time\n",
          w->what, (double)used_ns / 1e9);
  _exit(1);
}

static void *look(void *user) {
  struct cpu_watch *w = user;
  pthread_mutex_lock(&w->lock);
  while (!w->done) {
    uint64_t used_ns = 0, until = clock_wall_ns() + WATCH_LOOK_NS;
    struct timespec ts = {.tv_sec = (time_t)(until / NS_PER_S),
                          .tv_nsec = (long)(until % NS_PER_S)};
    if (clock_cpu_of_thread(w->watched, &used_ns) && used_ns > w->deadline_ns + WATCH_GRACE_NS)
      give_up(w, used_ns);
    pthread_cond_timedwait(&w->over, &w->lock, &ts);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* Sets what is watched; from the watched thread. */
static void watch_set(struct cpu_watch *w, uint64_t deadline_ns, const char *what) {
  if (!w)
    return;
  pthread_mutex_lock(&w->lock);
  w->deadline_ns = deadline_ns;
  snprintf(w->what, sizeof w->what, "%s", what);
  pthread_mutex_unlock(&w->lock);
}

static struct cpu_watch *watch_new(uint64_t deadline_ns, const char *what) {
  struct cpu_watch *w = MEM_NEW(struct cpu_watch);
  w->watched = pthread_self();
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->over, NULL);
  watch_set(w, deadline_ns, what);
  if (pthread_create(&w->thread, NULL, look, w) == 0)
    return w;
  pthread_cond_destroy(&w->over);
  pthread_mutex_destroy(&w->lock);
  mem_free(w); /* no thread: without a watch, then */
  return NULL;
}

static void watch_delete(struct cpu_watch *w) {
  if (!w)
    return;
  pthread_mutex_lock(&w->lock);
  w->done = true;
  pthread_cond_signal(&w->over);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  pthread_cond_destroy(&w->over);
  pthread_mutex_destroy(&w->lock);
  mem_free(w);
}

static void start(lua_State *L, struct limit *l, double seconds) {
  l->seconds = seconds;
  l->deadline_ns = clock_thread_cpu_ns() + (uint64_t)(seconds * 1e9);
  l->stopped = false;
  if (!lua_gethook(L) ||
      lua_gethook(L) == on_count) /* a script may use the hook for its own ends */
    lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_COUNT);
}

void bind_limit_stress(lua_State *L, bool stress) {
  make(L)->stress = stress;
}

void bind_limit_set(lua_State *L, double seconds) {
  start(L, make(L), seconds);
}

void bind_limit_name(lua_State *L, const char *what) {
  struct limit *l = make(L);
  snprintf(l->what, sizeof l->what, "%s", what);
}

bool bind_limit_call(lua_State *L, double seconds, int handler) {
  struct limit *l = make(L);
  uint64_t outer_ns = l->deadline_ns, began_ns = clock_thread_cpu_ns();
  double outer_seconds = l->seconds;
  bool outer_stopped = l->stopped;
  if (handler) {
    bind_push_handler(L, handler);
    lua_insert(L, -2);
  }
  start(L, l, seconds);
  bool outermost = !l->watch;
  char outer_what[sizeof l->what];
  snprintf(outer_what, sizeof outer_what, "%s", l->watch ? l->watch->what : l->what);
  if (outermost)
    l->watch = watch_new(l->deadline_ns, l->what);
  else
    watch_set(l->watch, l->deadline_ns, l->what);
  int status = lua_pcall(L, 0, 0, handler ? lua_gettop(L) - 1 : 0);
  l->deadline_ns = outer_ns ? outer_ns + (clock_thread_cpu_ns() - began_ns) : 0;
  if (outermost) {
    watch_delete(l->watch);
    l->watch = NULL;
  } else {
    watch_set(l->watch, l->deadline_ns, outer_what);
  }
  l->seconds = outer_seconds;
  l->stopped = outer_stopped;
  if (lua_gethook(L) == on_count)
    lua_sethook(L, outer_ns ? on_count : NULL, outer_ns ? LUA_MASKCOUNT : 0, HOOK_COUNT);
  if (handler)
    lua_remove(L, status == LUA_OK ? -1 : -2);
  return status == LUA_OK;
}
