/* state.c: opens Lua, loads the script, counts its memory, steps its collector, stops runaways. */
#include "run/state.h"

#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/loop.h"
#include "run/vu.h"

#define HOOK_COUNT 20000            /* instructions between two looks at the clock: some 0.2 ms */
#define HOOK_COUNT_STOPPED 100      /* once stopped: what __close and handlers may still do */
#define WALL_NS (30 * NS_PER_S)     /* on the clock, whatever CPU time was used */
#define CPU_AGE_NS (10 * NS_PER_MS) /* so long a stamp of the CPU time serves later stays */
#define GAP_NS NS_PER_S /* between two looks: more than that, and the process stood still */
#define LIVE_FLOOR ((size_t)1 << 20)
#define UNASKED_BYTES ((size_t)64 << 10)
#define STEP_SIZE_LOG2 9    /* of one collector step: some 50 to 100 µs */
#define STEP_PER_BYTES 8192 /* when forced: one step for so much that was allocated */

static const char state_key, plan_key, sweep_key, users_key,
    newest_key; /* their addresses are registry keys */

/* ---- memory ---- */

static size_t total_bytes(const struct state *s) {
  return s->bytes + blob_count_bytes(s->texts);
}

static bool next_frame(lua_State *from, int *level, lua_Debug *ar);

/* Lua tells nobody where it ran out of memory. Allocates nothing. */
static COLD void note_refusal(struct state *s, lua_State *L, bool machine) {
  lua_Debug ar;
  int level = 0;
  s->refused_by_machine = machine;
  s->refused_at[0] = '\0';
  if (L && next_frame(L, &level, &ar))
    snprintf(s->refused_at, sizeof s->refused_at, "%s:%d: ", ar.short_src, ar.currentline);
}

void state_memory_error(const struct state *s, char *text, size_t size) {
  if (s->refused_by_machine)
    snprintf(text, size, "%snot enough memory: the machine has no more (%zu MiB are in this state)",
             s->refused_at, total_bytes(s) >> 20);
  else
    snprintf(
        text, size,
        "%snot enough memory: Lua data and texts of one state may take %zu MiB; hold less at a "
        "time, or spread the users over more --workers",
        s->refused_at, s->options.memory_bytes >> 20);
}

/* Whether Lua may have so much more. Near the limit, and in tests, that is asked each time; else
 * not before another stretch is used up: an allocation is a matter of a few instructions. */
static COLD bool may_grow(struct state *s, size_t more) {
  if (s->collecting) /* a __gc that has no memory would leak what it owns */
    return true;
  size_t total = total_bytes(s) + more;
  if (total > s->options.memory_bytes ||
      (s->options.may_allocate && !s->options.may_allocate(s->options.may_allocate_user))) {
    note_refusal(s, s->running ? s->running->co : s->L, false);
    return false;
  }
  if (!s->options.may_allocate && s->options.memory_bytes - total >= UNASKED_BYTES)
    s->unasked_bytes = s->bytes + more + UNASKED_BYTES;
  else
    s->unasked_bytes = 0;
  return true;
}

static COLD void *allocate_other(struct state *s, void *p, size_t before, size_t size) {
  void *q = smallmem_resize(&s->small, p, before, size);
  if (q)
    s->bytes = s->bytes - before + size;
  else
    note_refusal(s, s->running ? s->running->co : s->L, true);
  return q;
}

static void *allocate(void *user, void *p, size_t old_size, size_t size) {
  struct state *s = user;
  if (size == 0) {
    if (p) {
      s->bytes -= old_size;
      if (!smallmem_put(&s->small, p, old_size))
        smallmem_release(&s->small, p, old_size);
    }
    return NULL;
  }
  size_t before = p ? old_size : 0;
  if (size > before && s->bytes + (size - before) > s->unasked_bytes && !may_grow(s, size - before))
    return NULL;
  void *q = p ? NULL : smallmem_take(&s->small, size);
  if (!q)
    return allocate_other(s, p, before, size);
  s->bytes += size;
  return q;
}

static size_t heap_cap(const struct state *s) {
  return 2 * (s->live_bytes > LIVE_FLOOR ? s->live_bytes : LIVE_FLOOR);
}

/* One collector step; notes the end of a cycle. The collector stays stopped between steps. When Lua
 * goes over to sweeping it sweeps everything that is newer than the newest live object in one go,
 * so there has to be a new live object. Nothing here can raise: there is always memory. */
static bool step(struct state *s, lua_State *L) {
  s->collecting = true;
  watch_enter(s->options.watch, WATCH_COLLECTING, 0, WATCH_NO_SESSION, NULL); /* __gc methods run */
  lua_createtable(L, 0, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &newest_key);
  bool done = lua_gc(L, LUA_GCSTEP, 0) == 1;
  watch_leave(s->options.watch);
  s->collecting = false;
  if (done)
    s->live_bytes = total_bytes(s);
  s->stepped_bytes = total_bytes(s);
  s->unasked_bytes = 0;
  return done;
}

static void settle(struct state *s, lua_State *L) {
  size_t bytes = total_bytes(s);
  if (bytes <= heap_cap(s) || s->collecting || s->held)
    return;
  size_t grown = bytes > s->stepped_bytes ? bytes - s->stepped_bytes : 0;
  for (size_t n = 1 + grown / STEP_PER_BYTES; n > 0 && !step(s, L); n--)
    ;
}

void state_settle(struct state *s) {
  settle(s, s->L);
}

bool state_collect(struct state *s) {
  if (total_bytes(s) < s->live_bytes + s->live_bytes / 4 + LIVE_FLOOR / 4)
    return false;
  return !step(s, s->L);
}

bool state_has_room(struct state *s, lua_State *L, double bytes) {
  s->unasked_bytes = 0; /* texts grow */
  if ((double)total_bytes(s) + bytes <= (double)s->options.memory_bytes)
    return true;
  if (!s->held && !s->collecting) {
    s->collecting = true;
    lua_gc(L, LUA_GCCOLLECT);
    s->collecting = false;
    s->live_bytes = s->stepped_bytes = total_bytes(s);
  }
  bool has = (double)total_bytes(s) + bytes <= (double)s->options.memory_bytes;
  if (!has)
    note_refusal(s, L, false);
  return has;
}

/* ---- whose thread is it ---- */

static void **extra(lua_State *L) {
  return (void **)lua_getextraspace(L);
}

struct state *state_of(lua_State *L) {
  void *tag = *extra(L);
  if (!tag)
    return NULL;
  return *(enum state_tag *)tag == STATE_TAG_VU ? ((struct vu *)tag)->state : tag;
}

bool state_vu_of(lua_State *L, struct vu **out) {
  void *tag = *extra(L);
  bool is = tag && *(enum state_tag *)tag == STATE_TAG_VU;
  if (out)
    *out = is ? tag : NULL;
  return is;
}

void state_mark(struct state *s, lua_State *L, struct vu *vu) {
  *extra(L) = vu ? (void *)vu : (void *)s;
}

/* Lua leaves the main thread's extra space as the allocator gave it. */
void state_mark_plain(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key) == LUA_TNIL)
    *extra(L) = NULL;
  lua_pop(L, 1);
}

void state_push_plan(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &plan_key);
}

void state_push_sweep(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &sweep_key);
}

void state_push_users(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &users_key);
}

/* ---- entering Lua ---- */

bool state_must_stop(struct state *s) {
  return s->stopped || (s->running && s->running->stop.error != SAMPLE_OK);
}

/* The next frame of the script's own code from *level on, with its source and line. Each time a
 * user waits this is asked for, so no more is looked up than decides. */
static bool next_frame(lua_State *from, int *level, lua_Debug *ar) {
  while (lua_getstack(from, (*level)++, ar)) {
    lua_getinfo(from, "Sl", ar);
    if (ar->currentline > 0 && strncmp(ar->source, "@perigee/", 9) != 0)
      return true;
  }
  return false;
}

void state_add_frames(lua_State *L, lua_State *from, int level, bool always) {
  lua_Debug ar;
  int ahead = level, n = 0;
  while (n < 2 && next_frame(from, &ahead, &ar))
    n++;
  if (!always && n < 2)
    return;
  luaL_checkstack(L, 6, "traceback");
  for (int shown = 0; shown < 12 && next_frame(from, &level, &ar); shown++) {
    lua_getinfo(from, "n", &ar);
    lua_pushfstring(L, "\n  at %s:%d", ar.short_src, ar.currentline);
    if (*ar.what == 'm')
      lua_pushliteral(L, " (main chunk)");
    else if (ar.name)
      lua_pushfstring(L, " (in %s '%s')", *ar.namewhat ? ar.namewhat : "function", ar.name);
    else
      lua_pushfstring(L, " (in the function at line %d)", ar.linedefined);
    lua_concat(L, 3);
  }
}

void state_push_where(lua_State *L) {
  lua_Debug ar;
  int level = 1;
  if (next_frame(L, &level, &ar))
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  else
    lua_pushliteral(L, "");
}

/* Level 0 of a C function has no place in the script. */
static void note_place(struct state *s, lua_State *L, int level, bool waited) {
  lua_Debug ar;
  if (next_frame(L, &level, &ar))
    watch_set_place(s->running ? &s->running->place : &s->place, ar.short_src, ar.currentline,
                    waited);
}

/* While a script loads, its line is kept: `return perigee.plan { ... }` is a tail call, so when the
 * plan is refused the script's frame is gone. */
static void keep_line(lua_State *L, lua_Debug *ar, struct state *s) {
  lua_getinfo(L, "S", ar);
  if (*ar->source == '@' && strcmp(ar->source + 1, s->options.script) == 0) {
    s->load_line = ar->currentline;
    watch_set_place(&s->place, ar->short_src, ar->currentline, false);
  }
}

/* Asking for the CPU time is a system call, and there may be 100,000 stays a second: an older
 * answer does, with as much added as the thread can have used since. What a stay uses is then seen
 * as 10 ms less than it is, at most. */
static uint64_t cpu_at_entry(struct state *s, uint64_t now) {
  if (now - s->cpu_stamp_ns > CPU_AGE_NS) {
    s->cpu_ns = clock_thread_cpu_ns();
    s->cpu_stamp_ns = now;
  }
  return s->cpu_ns + (s->entered_ns > s->cpu_stamp_ns ? s->entered_ns - s->cpu_stamp_ns : 0);
}

/* The CPU time is asked for when the clock says that the stay may be over. As the last resort the
 * clock alone decides, but it does not count while the process stands still. */
static bool ran_away(struct state *s, uint64_t *ran_ns, uint64_t *cpu_ns) {
  uint64_t now = loop_clock(s->options.loop), limit = s->options.runaway_ns;
  if (now - s->looked_ns > GAP_NS)
    s->still_ns += now - s->looked_ns - GAP_NS;
  s->looked_ns = now;
  *ran_ns = now - s->entered_ns;
  *cpu_ns = 0;
  if (!s->entered_cpu_ns)
    s->entered_cpu_ns = cpu_at_entry(s, now);
  if (*ran_ns < limit)
    return false;
  uint64_t cpu = clock_thread_cpu_ns();
  *cpu_ns = cpu > s->entered_cpu_ns ? cpu - s->entered_cpu_ns : 0;
  uint64_t last = limit * 10 > WALL_NS ? limit * 10 : WALL_NS;
  return *cpu_ns >= limit || *ran_ns - s->still_ns >= last;
}

bool state_time_is_over(struct state *s) {
  uint64_t ran_ns, cpu_ns;
  return s->options.loop && (state_must_stop(s) || ran_away(s, &ran_ns, &cpu_ns));
}

static void on_count(lua_State *L, lua_Debug *ar);

/* Looks at what runs from that frame on; raises when it must stop. */
static void look(struct state *s, lua_State *L, int level) {
  settle(s, L);
  if (s->options.watch)
    note_place(s, L, level, false);
  if (!state_must_stop(s)) {
    uint64_t ran_ns, cpu_ns;
    if (!ran_away(s, &ran_ns, &cpu_ns))
      return;
    s->stopped = true;
    lua_pushfstring(L, "ran for %f s (%f s of CPU time) without waiting, so it was stopped",
                    floor((double)ran_ns / 1e6) / 1e3, floor((double)cpu_ns / 1e6) / 1e3);
    state_add_frames(L, L, 0, true);
    snprintf(s->stop_text, sizeof s->stop_text, "%s", lua_tostring(L, -1));
    if (s->running)
      vu_stop(s->running, SAMPLE_SCRIPT, s->stop_text);
  }
  lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_COUNT_STOPPED);
  lua_pushstring(L, s->stop_text);
  lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  struct state *s = state_of(L);
  if (ar->event == LUA_HOOKLINE)
    keep_line(L, ar, s);
  else
    look(s, L, 0);
}

void state_note_wait(struct state *s, lua_State *L) {
  note_place(s, L, 1, true);
}

void state_block(struct state *s, bool blocked) {
  watch_block(s->options.watch, blocked);
}

void state_check_time(lua_State *L) {
  struct state *s = state_of(L);
  if (s)
    look(s, L, 1);
}

void state_enter(struct state *s, struct vu *vu) {
  if (vu)
    watch_enter(s->options.watch, WATCH_RUNNING, vu->root->kind, vu->session, &vu->place);
  else
    watch_enter(s->options.watch, s->loading ? WATCH_LOADING : WATCH_CALLING, 0, WATCH_NO_SESSION,
                &s->place);
  s->running = vu;
  s->entered_ns = s->looked_ns = loop_clock(s->options.loop);
  s->entered_cpu_ns = s->still_ns = 0;
}

void state_leave(struct state *s) {
  s->running = NULL;
  if (s->stopped) {
    s->stopped = false;
    lua_sethook(s->L, on_count, LUA_MASKCOUNT, HOOK_COUNT);
  }
  watch_leave(s->options.watch);
}

void state_push_error(lua_State *L, int index) {
  const struct state *s = state_of(L);
  if (s && s->options.binding->push_error)
    s->options.binding->push_error(L, index);
  else
    luaL_tolstring(L, index, NULL);
}

/* The message handler: text of any error value, and the script's frames. */
static int explain(lua_State *L) {
  struct state *s = state_of(L);
  state_push_error(L, 1);
  const char *path = s->options.script;
  size_t len = strlen(path);
  if (s->load_line > 0 && !s->stopped && !strstr(lua_tostring(L, -1), ".lua:") &&
      strncmp(lua_tostring(L, -1), path, len) != 0) {
    lua_pushfstring(L, "%s:%d: %s", path, s->load_line, lua_tostring(L, -1));
    lua_remove(L, -2);
  }
  if (!state_of(L)->stopped)
    state_add_frames(L, L, 1, false);
  return 1;
}

int state_call(struct state *s, int (*fn)(lua_State *L), void *user, struct err *err) {
  lua_State *L = s->L;
  assert(!s->running && lua_gettop(L) == 0);
  lua_pushcfunction(L, explain);
  lua_pushcfunction(L, fn);
  lua_pushlightuserdata(L, user);
  state_enter(s, NULL);
  int status = lua_pcall(L, 1, 0, -3);
  int rc = 0;
  if (status == LUA_ERRMEM) {
    char no_memory[400];
    state_memory_error(s, no_memory, sizeof no_memory);
    rc = err_set(err, ERR_LIMIT, "%s", no_memory);
  } else if (status != LUA_OK) {
    rc = err_set(err, ERR_INVALID, "%s",
                 lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "error in error handling");
  }
  lua_settop(L, 0);
  state_leave(s);
  return rc;
}

/* ---- loading ---- */

static MAY_RAISE void push_folder(lua_State *L, const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash)
    lua_pushliteral(L, ".");
  else
    lua_pushlstring(L, path, slash == path ? 1 : (size_t)(slash - path));
}

static MAY_RAISE bool has_function(lua_State *L, const char *field) {
  bool has = lua_getfield(L, -1, field) == LUA_TFUNCTION;
  lua_pop(L, 1);
  return has;
}

/* A sweep on top gives way to the plan of its point. */
static MAY_RAISE void take_sweep(lua_State *L) {
  luaL_getmetatable(L, STATE_SWEEP_TYPE);
  bool is = lua_istable(L, -2) && lua_getmetatable(L, -2) && lua_rawequal(L, -1, -2);
  lua_settop(L, 2);
  if (!is)
    return;
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &sweep_key);
  lua_getfield(L, -1, "plan");
  lua_replace(L, 2);
}

static MAY_RAISE int load_script(lua_State *L) {
  struct state *s = lua_touserdata(L, 1);
  const char *path = s->options.script;
  lua_pushlightuserdata(L, s);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &users_key);
  lua_pushboolean(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &newest_key); /* so that setting it later needs no memory */
  push_folder(L, path);
  s->options.binding->open(L, lua_tostring(L, -1));
  lua_settop(L, 1);
  const struct state_binding *binding = s->options.binding;
  if (binding->load_file ? binding->load_file(L, path) : luaL_loadfilex(L, path, "t"))
    return lua_error(L);
  lua_sethook(L, on_count, LUA_MASKCOUNT | LUA_MASKLINE, HOOK_COUNT);
  lua_call(L, 0, 1);
  lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_COUNT);
  take_sweep(L);
  luaL_getmetatable(L, STATE_PLAN_TYPE);
  if (!lua_istable(L, 2) || !lua_getmetatable(L, 2) || !lua_rawequal(L, -1, -2))
    return luaL_error(L,
                      "%s: the script returned %s, not a plan; end it with `return perigee.plan { "
                      "load = ..., session = ... }` (or perigee.sweep)",
                      path, lua_isnil(L, 2) ? "nothing" : luaL_typename(L, 2));
  lua_settop(L, 2);
  if (!has_function(L, "session"))
    return luaL_error(L, "%s: the plan has no session: give it `session = function(vu) … end`",
                      path);
  s->has_setup = has_function(L, "setup");
  s->has_teardown = has_function(L, "teardown");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &plan_key);
  return 0;
}

/* Every call is protected, so this is a mistake of ours: say which before aborting. */
static int panic(lua_State *L) {
  log_error("unprotected Lua error: %s", lua_tostring(L, -1));
  return 0;
}

int state_new(const struct state_options *options, struct state **out, struct err *err) {
  struct state *s = MEM_NEW(struct state);
  *out = NULL;
  s->tag = STATE_TAG_STATE;
  s->options = *options;
  if (!s->options.memory_bytes)
    s->options.memory_bytes = STATE_MEMORY_DEFAULT;
  if (!s->options.runaway_ns)
    s->options.runaway_ns = STATE_RUNAWAY_DEFAULT;
  s->texts = blob_count_new();
  s->L = lua_newstate(allocate, s);
  if (!s->L) {
    smallmem_free(&s->small);
    blob_count_unref(s->texts);
    mem_free(s);
    return err_set(err, ERR_LIMIT, "not enough memory for a Lua state");
  }
  state_mark(s, s->L, NULL);
  lua_atpanic(s->L, panic);
  lua_gc(s->L, LUA_GCSTOP); /* from now on it steps when state_settle or state_collect says */
  lua_gc(s->L, LUA_GCINC, 0, 0, STEP_SIZE_LOG2);
  lua_sethook(s->L, on_count, LUA_MASKCOUNT, HOOK_COUNT);
  s->loading = true;
  int rc = state_call(s, load_script, s, err);
  s->loading = false;
  s->load_line = 0;
  if (rc) {
    state_delete(s);
    return rc;
  }
  s->collecting = true;
  watch_enter(s->options.watch, WATCH_COLLECTING, 0, WATCH_NO_SESSION, NULL);
  lua_gc(s->L, LUA_GCCOLLECT);
  watch_leave(s->options.watch);
  s->collecting = false;
  s->live_bytes = s->stepped_bytes = total_bytes(s);
  *out = s;
  return 0;
}

void state_delete(struct state *s) {
  if (!s)
    return;
  assert(s->users == 0);
  s->collecting = true;
  watch_enter(s->options.watch, WATCH_CLOSING, 0, WATCH_NO_SESSION, NULL);
  lua_close(s->L);
  watch_leave(s->options.watch);
  assert(s->bytes == 0);
  smallmem_free(&s->small);
  blob_count_unref(s->texts);
  mem_free(s);
}
