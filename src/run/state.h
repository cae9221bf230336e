/* state.h: one Lua state of a worker: the script's plan loaded in it, its memory, its collector.
 *
 * A state holds at most STATE_USERS virtual users, because the collector's atomic step walks every
 * coroutine. The collector is stopped while Lua runs; steps are taken when the loop is quiet
 * (state_collect), or forced when the heap has doubled since the last full cycle (state_settle). A
 * count hook measures the CPU time since Lua was entered: what uses more than `runaway_ns` without
 * waiting is stopped with its traceback, and no pcall of the script hides that. CPU time, because a
 * busy machine is not the script's fault; only after 10 times as much, and 30 s, does the time on
 * the clock do. One thread's. */
#ifndef RUN_STATE_H
#define RUN_STATE_H

#include "base/blob.h"
#include "base/err.h"
#include "run/smallmem.h"
#include "run/store.h"
#include "run/watch.h"

struct lua_State;
struct lua_Debug;
struct fleet;
struct loop;
struct vu;
struct worker;

#define STATE_PLAN_TYPE "perigee.plan"   /* the metatable of what perigee.plan returns */
#define STATE_SWEEP_TYPE "perigee.sweep" /* of what perigee.sweep returns: its `plan` is run */
#define STATE_USERS 250
#define STATE_MEMORY_DEFAULT ((size_t)512 << 20)
#define STATE_RUNAWAY_DEFAULT (2 * NS_PER_S)

/* What the extra space of a Lua thread points to: its state, or for a virtual user's own coroutine
 * that user. Both begin with this tag. NULL in a state that is no run's. */
enum state_tag { STATE_TAG_STATE = 1, STATE_TAG_VU };

/* --set name=value */
struct state_set {
  const char *name, *value;
};

/* What the binding supplies, so that run/ needs nothing above it (bind/plan.c fills it). */
struct state_binding {
  /* Opens Lua's libraries and perigee's; called protected, may raise. */
  int (*open)(struct lua_State *L, const char *script_dir);
  /* Fills *out from the value at `index`; called protected, may raise. */
  void (*to_shared)(struct lua_State *L, int index, struct shared *out);
  /* Pushes the error value at `index` as text; called in message handlers. NULL = tostring. */
  void (*push_error)(struct lua_State *L, int index);
  /* Loads a source file: pushes a function or, when not LUA_OK, a message; called protected, may
   * raise. NULL = luaL_loadfilex. */
  int (*load_file)(struct lua_State *L, const char *path);
};

struct state_options {
  const char *script; /* path */
  const struct state_binding *binding;
  struct loop *loop; /* for the time */
  struct store *store;
  struct worker *worker; /* NULL while a plan is only read */
  struct watch *watch;   /* the worker's: whoever watches sees the way into Lua; NULL = nobody */
  const struct fleet *fleet; /* NULL = none */
  const char *arm;           /* vu.arm; NULL = nil */
  const struct state_set *sets;
  size_t n_sets;
  const char *route;   /* by its name, the policy of a sweep's point; NULL = none is chosen */
  size_t memory_bytes; /* 0 = STATE_MEMORY_DEFAULT */
  uint64_t runaway_ns; /* 0 = STATE_RUNAWAY_DEFAULT */
  void (*print)(void *user, const char *line, size_t len); /* NULL = standard error; any thread */
  void *print_user;
  /* Tests: called before each allocation that grows; false makes it fail. */
  bool (*may_allocate)(void *user);
  void *may_allocate_user;
};

struct state {
  enum state_tag tag;
  struct state_options options; /* strings borrowed */
  struct lua_State *L;
  struct vu *running;           /* whom Lua is run for right now */
  uint32_t number;              /* the worker's: its place among the worker's states */
  uint32_t users;               /* live virtual users, children included */
  const struct shared *setup;   /* what setup returned; NULL = nil */
  const void *vu_type;          /* the users' metatable, as lua_topointer sees it */
  void *memory, *scratch;       /* the binding's, found faster here than in the registry; or NULL */
  bool has_setup, has_teardown; /* the plan has such a function */
  bool loading;
  int load_line;            /* of the script's own code, while it loads; else 0 */
  struct watch_place place; /* where Lua was last seen when no user runs */
  /* time */
  uint64_t entered_ns;
  uint64_t entered_cpu_ns; /* of the thread, as seen at the first look since then; 0 = not yet */
  uint64_t cpu_ns;         /* of the thread, when it was last asked for, */
  uint64_t cpu_stamp_ns;   /* and when that was */
  uint64_t looked_ns;      /* when the hook last looked, or when Lua was entered */
  uint64_t still_ns;       /* since then nothing ran at all */
  bool stopped;            /* what runs was running away */
  char stop_text[1200];
  /* memory */
  size_t bytes;             /* Lua's */
  size_t unasked_bytes;     /* up to here they may grow without a look at the limit */
  struct blob_count *texts; /* what text handles and conversations keep beside it */
  size_t live_bytes;        /* both, after the last full cycle */
  size_t stepped_bytes;     /* both, after the last step */
  char refused_at[200];     /* "FILE:LINE: " where memory was refused last, or "" */
  bool refused_by_machine;  /* not for the limit */
  uint32_t held;            /* no step meanwhile: a __concat runs (bind/chunk.h) */
  bool collecting;          /* the collector runs, or the state closes: nothing is refused */
  struct smallmem small;    /* where they come from */
};

/* Opens a state and loads the script. ERR_INVALID: the script's error, with FILE:LINE and the
 * script's own frames. The options are copied, what they point to is borrowed. */
NODISCARD int state_new(const struct state_options *options, struct state **out, struct err *err);
void state_delete(struct state *s); /* no user may live; NULL is allowed */

/* The state that L belongs to; NULL when it is no run's. */
struct state *state_of(struct lua_State *L);
/* Whether L is a virtual user's own coroutine; *out gets the user (may be NULL). */
bool state_vu_of(struct lua_State *L, struct vu **out);
/* Marks L as such, or with NULL as an ordinary one. */
void state_mark(struct state *s, struct lua_State *L, struct vu *vu);
/* For the binding's open: the extra space of a state that state_new did not make. */
void state_mark_plain(struct lua_State *L);

/* Calls fn(user) protected on the main thread: `user` is a light userdata, the only argument. An
 * error's text goes to *err. Nothing of fn's may wait. */
NODISCARD int state_call(struct state *s, int (*fn)(struct lua_State *L), void *user,
                         struct err *err);
/* Pushes the plan's table. Never raises when the stack has room. */
void state_push_plan(struct lua_State *L);
/* Pushes the sweep that the script returned, or nil when it was a plan. */
void state_push_sweep(struct lua_State *L);
/* Pushes the table that keeps live users' userdata (by address) from the collector. */
void state_push_users(struct lua_State *L);

/* Around every entry into Lua: starts the clock of the runaway check. */
void state_enter(struct state *s, struct vu *vu);
void state_leave(struct state *s);
/* For C functions that are called from Lua and may take long, in place of the count hook, which
 * does not run in them: a look at the clock; raises when what runs must stop. Nothing in a state
 * that is no run's. */
void state_check_time(struct lua_State *L);
/* Whether that would raise, for what may not be left by a jump. */
bool state_time_is_over(struct state *s);
/* Notes where the script waits, for whoever watches: called by the C function that makes it wait.
 */
void state_note_wait(struct state *s, struct lua_State *L);
/* Waiting for another state's thread, by design (shared data that is being built). */
void state_block(struct state *s, bool blocked);
/* Whether what runs must not go on, whatever a pcall says: it ran away, or its user was cancelled.
 */
bool state_must_stop(struct state *s);

/* Adds "\n  at FILE:LINE (in function 'f')" for each frame of the script's own code in `from`,
 * starting at `level`, to the string on top of L; nothing when there is but one and not `always`,
 * because then the message names it already. May raise. */
void state_add_frames(struct lua_State *L, struct lua_State *from, int level, bool always);

/* Pushes an error value as text, as the binding shows it. For message handlers. */
void state_push_error(struct lua_State *L, int index);
/* Pushes "FILE:LINE: " of the nearest caller that is the script's own code, or "". May raise. */
void state_push_where(struct lua_State *L);

/* Whether texts of so many more bytes may be made; looks for garbage before it says no. Notes where
 * for state_memory_error. May run finalizers. */
bool state_has_room(struct state *s, struct lua_State *L, double bytes);
/* What an error of status LUA_ERRMEM means, with the script's line and the way out. */
void state_memory_error(const struct state *s, char *text, size_t size);

/* After a resume: steps when the heap is twice what the last full cycle left. */
void state_settle(struct state *s);
/* When the loop is quiet: one small step; whether another is wanted. */
bool state_collect(struct state *s);

#endif
