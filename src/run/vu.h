/* vu.h: a virtual user: one coroutine that tells one session (or one branch of it).
 *
 * vu.c is the only file that resumes Lua. A user waits for one thing at a time: a binding starts an
 * operation, calls vu_wait, and when the operation is over vu_wake puts the user on the loop's
 * ready list. Users form a tree: a parent outlives its children, waits for those it did not join,
 * and takes them along when it is cancelled. Cancelling ends the operation and raises at the wait
 * point and at every later one; state_must_stop makes pcall pass it on. One thread's. */
#ifndef RUN_VU_H
#define RUN_VU_H

#include "base/rng.h"
#include "io/loop.h"
#include "out/sample.h"
#include "run/state.h"
#include "text/value.h"

#define VU_TYPE "perigee.vu"              /* metatable of the userdata: struct vu_handle */
#define VU_TASK_TYPE "perigee.task"       /* metatable of a task: struct vu_task */
#define VU_FAILURE_TYPE "perigee.failure" /* an expected failure: {class =, detail =} */

enum vu_kind { VU_SESSION, VU_SETUP, VU_TEARDOWN, VU_TIMELINE, VU_CHILD };
enum vu_phase { VU_READY, VU_RUNNING, VU_WAITING, VU_JOINING };

/* A child of a child of …: ending a family goes down the C stack, and no agent is so deep. */
#define VU_MAX_DEPTH 100

struct vu_outcome {
  enum sample_error error; /* SAMPLE_OK, or the class that ended it */
  char *detail;            /* for a person; owned, NULL = nothing to say */
};
/* Replaces; keeps at most VU_DETAIL_MAX bytes of the text (NULL: none). */
#define VU_DETAIL_MAX 2000
void vu_outcome_set(struct vu_outcome *o, enum sample_error error, const char *detail);
void vu_outcome_copy(struct vu_outcome *to, const struct vu_outcome *from);
void vu_outcome_free(struct vu_outcome *o);
/* The detail, or "". */
const char *vu_outcome_detail(const struct vu_outcome *o);

struct vu_handle {
  struct vu *vu; /* NULL once it has ended */
};

/* A child seen from its parent; lives as long as the script holds it. */
struct vu_task {
  struct vu *child;         /* NULL once ended */
  const struct vu *spawner; /* compared, never followed */
  struct lua_State *co;     /* holds results or the error value; pinned by user value 1 */
  int n_values;             /* on co's stack: results, or 1 error value */
  uint32_t branch;          /* the child's: unique in its session */
  uint64_t due_ns;          /* the child's schedule when it ended */
  struct vu_orphan *orphan; /* its failure, NULL: there is none, or it was claimed */
  struct vu_outcome outcome;
};

/* The failure of a child that nobody has joined yet. */
struct vu_orphan {
  struct vu_orphan *next, *prev;
  struct vu_task *task; /* NULL: the script has let go of it */
  struct vu_outcome outcome;
};

struct vu {
  enum state_tag tag; /* STATE_TAG_VU */
  enum vu_kind kind;
  enum vu_phase phase;
  bool begun;          /* was resumed once */
  bool threw;          /* its function ended with an error */
  bool measured;       /* its session belongs to the window */
  bool request_failed; /* roots: any of the session */
  struct state *state;
  struct loop_task task; /* resumes it */
  struct loop_timer timer;
  /* family */
  struct vu *root, *parent; /* root: itself for a session's own user */
  struct vu *children, *next, *prev;
  uint32_t depth;                          /* 0: a session's own user */
  uint32_t awaited;                        /* awaited: children that a wait point still waits for */
  bool is_awaited;                         /* by the parent */
  bool fail_fast;                          /* a failing awaited child cancels the others */
  struct vu_orphan *orphans, *last_orphan; /* in order of failing */
  struct vu_task *as_task;                 /* child only */
  /* Lua */
  struct lua_State *co;
  struct vu_handle *handle;
  int n_args;
  struct watch_place place; /* where it last waited or was seen */
  /* the operation waited for */
  void (*cancel)(struct vu *vu); /* ends it now; NULL: it ends by itself soon (children) */
  int (*resumed)(struct lua_State *L, struct vu *vu); /* pushes results, returns their number */
  void *op;
  bool waits_really;      /* for something from outside, or for time: see vu_wait_shortly */
  uint32_t real_waits;    /* roots: of the session's users, right now */
  uint32_t idle_turns;    /* roots: waits since then that were over at once */
  uint64_t idle_since_ns; /* roots: when the first of them began */
  /* the end */
  struct vu_outcome stop; /* not SAMPLE_OK: every wait raises */
  struct vu_outcome outcome;
  struct shared result;         /* setup's value */
  void (*ended)(struct vu *vu); /* roots: last call before it is freed */
  void *owner;                  /* roots: of whoever started it */
  /* identity and schedule, loop clock */
  uint64_t session;
  uint32_t id;
  uint32_t branch, branches; /* branches: given out so far by this user */
  /* of the session (root): numbers that show no path, as an open table (0: free) of 2^n */
  uint32_t *odd_branches;
  size_t n_odd_branches, cap_odd_branches;
  int32_t parent_branch; /* −1 on the trunk */
  uint64_t sched_ns, start_ns;
  uint64_t due_ns; /* when what comes next is due: end of the last wait, plus sleeps */
  struct rng rng;
  struct rng *draws; /* the script's generator once it asked for it, else &rng */
  struct value tags; /* object */
  char *tags_json;   /* canonical form, NULL = not made */
  size_t *picks;     /* replicas counted in flight and not yet taken over by a request */
  size_t n_picks, cap_picks;
};

#define VU_USER_VALUES 4 /* of its userdata; see vu.c */

struct vu_start {
  enum vu_kind kind; /* VU_SESSION, VU_SETUP, VU_TEARDOWN, VU_TIMELINE */
  uint64_t session;
  uint32_t id;    /* VU_TIMELINE: the number of the plan's entry, from 1 */
  uint32_t round; /* VU_TIMELINE: of one that is repeated */
  bool measured;
  uint64_t seed;
  uint64_t sched_ns; /* loop clock */
  void (*ended)(struct vu *vu);
  void *owner;
};

/* Makes a root user that runs the plan's function of that kind; it is resumed from the ready list.
 * ERR_LIMIT when Lua's memory does not suffice. */
NODISCARD int vu_new(struct state *s, const struct vu_start *start, struct vu **out,
                     struct err *err);
/* Raises beyond VU_MAX_DEPTH. From a running parent: the top `n_args` + 1 values are a function and
 * its arguments behind the child itself. Replaces them by the task. */
MAY_RAISE struct vu_task *vu_spawn(struct lua_State *L, struct vu *parent, int n_args);

/* A new branch number, given out by this user. Numbers follow from who forks and in which order,
 * whatever else runs meanwhile: the trunk gives 1, 2, 3 …, branch b gives b × 1000 + 1, + 2 …, so
 * 2003 is the third of branch 2. Where that has no room (beyond 999 of one user, beyond three
 * levels) it is a number from 10^9 on made of the path's hash. Unique in the session. */
uint32_t vu_new_branch(struct vu *vu);

/* ---- waiting, for bindings ---- */
/* Raises unless the user may wait here; `what` names the method. Call before an operation starts.
 */
MAY_RAISE void vu_check_wait(struct lua_State *L, const struct vu *vu, const char *what);
/* Ends the binding's function: `return vu_wait(…)`. `resumed` runs in the coroutine once woken (not
 * when the user was cancelled). */
MAY_RAISE int vu_wait(struct lua_State *L, struct vu *vu, void (*cancel)(struct vu *vu),
                      int (*resumed)(struct lua_State *L, struct vu *vu));
/* The same where what is waited for may be there already, or comes from the session's own users: a
 * session that does only that, with nobody in it really waiting, goes on for ever without letting
 * any time pass. When it has done so for as long as a runaway script may run, this stops it, with
 * its traceback. */
MAY_RAISE int vu_wait_shortly(struct lua_State *L, struct vu *vu, void (*cancel)(struct vu *vu),
                              int (*resumed)(struct lua_State *L, struct vu *vu));
/* The operation is over. From loop callbacks, never from inside Lua. */
void vu_wake(struct vu *vu);
/* Waits until the timer says so. `shortly`: see vu_wait_shortly. */
MAY_RAISE int vu_wait_until(struct lua_State *L, struct vu *vu, uint64_t due_ns, bool shortly,
                            int (*resumed)(struct lua_State *L, struct vu *vu));
/* Marks a live child as waited for; then vu_wait with cancel NULL wakes when all marked ones have
 * ended. With fail_fast the first failure cancels the others. */
void vu_await(struct vu *parent, struct vu *child, bool fail_fast);
/* The parent has seen how this task ended: its failure no longer ends the parent by itself. */
void vu_claim(struct vu *parent, struct vu_task *task);
/* The script has let go of the task. */
void vu_task_free(struct vu_task *task);

/* ---- ending ---- */
/* Cancels the user and all below it as `error` (cancelled, incomplete); the first call counts. */
void vu_cancel(struct vu *vu, enum sample_error error, const char *detail);
/* Only marks it: from inside Lua (runaway). */
void vu_stop(struct vu *vu, enum sample_error error, const char *detail);

/* ---- vufamily.c to vu.c: of a child that has ended ---- */
/* Tells the parent, which it leaves; the task has everything that outlives the child. */
void vu_leave_parent(struct vu *vu);
void vu_free_orphans(struct vu *vu);

/* SAMPLE_ERROR_COUNT when there is no such class. */
enum sample_error vu_error_from(const char *name);
/* Pushes a failure table; raise it with lua_error. */
MAY_RAISE void vu_push_failure(struct lua_State *L, enum sample_error error, const char *detail);

#endif
