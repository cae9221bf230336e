/* timeline.h: what is done to the fleet during a run: by the plan's timeline, and by scripts.
 *
 * Times of the plan count from the start of the measured window, as a load's `duration` does: a
 * longer warm-up moves nothing of what is measured. All of it is the conductor's, on the run's
 * thread; a virtual user of any worker asks by timeline_ask, and a function of the plan runs as a
 * virtual user of worker 0. Everything that was done is recorded: when it was due, began and ended,
 * and what the fleet said.
 *
 * Rotation: a replica is taken out of the client's before it is told to drain, and put in once it
 * is up: added, or started again. A kill or a restart takes none out: a client knows nothing of
 * them. */
#ifndef RUN_TIMELINE_H
#define RUN_TIMELINE_H

#include "base/err.h"
#include "io/loop.h"
#include "run/fleetport.h"
#include "text/value.h"

struct run;
struct worker;
struct vu;

#define TIMELINE_NEVER UINT64_MAX
#define TIMELINE_RECORDS_MAX 10000 /* more are counted only */

/* One thing that the plan wants done. */
struct timeline_entry {
  uint32_t number; /* of its entry in the plan's list, from 1 */
  uint32_t round;  /* of one that is repeated, from 0 */
  double at_s;
  double window_s;     /* before and after it that are compared; 0 = not said */
  struct value action; /* object; null: the entry's function */
};

enum timeline_state {
  TIMELINE_DONE,
  TIMELINE_FAILED,
  TIMELINE_CUT_OFF,  /* under way when the load ended */
  TIMELINE_NOT_BEGUN /* the load ended before */
};
/* "done", "failed", "cut_off", "not_begun" */
const char *timeline_state_name(enum timeline_state state);

/* One thing that was done, or was to be. Times: ns since the run's zero, TIMELINE_NEVER. */
struct timeline_record {
  const struct timeline_entry *entry; /* NULL: a script asked for it */
  char by[48]; /* "timeline", "timeline[2]" (its function), "setup", "session 17", "teardown" */
  struct value action; /* object; null: a function */
  uint64_t due_ns, begin_ns, end_ns;
  enum timeline_state state;
  char *error;         /* of one that failed; owned, NULL */
  struct value answer; /* the fleet's; null */
};

struct timeline_log {
  struct timeline_record *records; /* in the order in which they were due or asked for */
  size_t n;
  uint64_t left_out;
};
void timeline_log_free(struct timeline_log *log);

struct timeline;

/* `port` NULL: the servers have none. The entries are borrowed, by the log as well. */
struct timeline *timeline_new(struct run *run, const struct fleetport *port,
                              const struct timeline_entry *entries, size_t n);
/* The load starts: entries are due from `window_ns` (loop clock) on. */
void timeline_start(struct timeline *t, uint64_t window_ns);
/* Nothing new of the plan begins any more. */
void timeline_hold(struct timeline *t);
/* The load is over: the plan's actions are cut off and its functions stopped. False: the latter
 * takes a moment, then `over` is called. `lost`: worker 0 does not come back, nobody waits. */
bool timeline_end(struct timeline *t, bool lost, void (*over)(void *user), void *user);
/* Worker 0 was given up: nobody waits for its functions. */
void timeline_lost(struct timeline *t);
/* Moves what was recorded to *out. No user waits any more. */
void timeline_finish(struct timeline *t, struct timeline_log *out);
void timeline_delete(struct timeline *t); /* after that; NULL is allowed */

/* ---- for virtual users ---- */

/* An action that a user waits for; heap. The worker's thread, but while the conductor has it. */
struct timeline_ask {
  struct loop_post post;
  struct timeline *timeline;
  struct worker *worker;
  struct vu *vu; /* the worker's; NULL: it waits no more */
  bool back;     /* the worker's: it is known how it ended */
  char by[48];
  struct value action; /* owned */
  int rc;
  struct err err;
  struct value answer; /* owned */
  struct fleetport_call call;
  uint64_t record; /* of it, from 1; 0 = not kept */
  bool *out;       /* replicas that it took out of rotation, by number; NULL */
  struct timeline_ask *next;
};
/* Whether there is anything to ask. Any thread. */
bool timeline_can_act(const struct timeline *t);
/* Hands the action over (taken). The user is woken by vu_wake when rc, err and answer are known
 * (`back`): then the ask is its worker's, to be freed with timeline_ask_free. To wait no more it
 * sets `vu` to NULL before that, and the ask frees itself. */
struct timeline_ask *timeline_ask(struct timeline *t, struct vu *vu, struct value *action);
void timeline_ask_free(struct timeline_ask *ask);

#endif
