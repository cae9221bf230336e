/* conductor.h: what conduct.c, ranks.c, interrupt.c and rescue.c share: a run seen from the thread
 * that started it. */
#ifndef RUN_CONDUCTOR_H
#define RUN_CONDUCTOR_H

#include <uv.h>

#include "run/coord.h"
#include "run/run.h"
#include "run/worker.h"

/* What the calling thread knows of a worker; the worker's own fields belong to its thread. */
struct conductor_view {
  bool ready, exhausted, drained, gone;
  bool lost;             /* given up */
  uint64_t entry;        /* the stay inside Lua it was last seen in; 0 = outside */
  uint64_t entry_at_ns;  /* when it was first seen there */
  uint64_t entry_cpu_ns; /* of its thread, then */
  uint64_t cpu_ns;       /* of its thread, when last looked */
  uint64_t idle_ns;      /* since when that has not changed */
};

#define CONDUCTOR_SIGNALS 3

/* Everything in here is the calling thread's. */
struct conductor {
  struct run run;
  struct run_config config;
  struct run_result *result;
  enum run_phase phase;
  struct loop_timer phase_timer; /* the next change that is due */
  struct loop_chore progress, look;
  uint64_t looked_ns, interrupted_ns; /* loop clock */
  struct coord *coord;
  struct coord_wait join, aborted, ready, setup, setup_known, start; /* what this rank waits for */
  uv_signal_t signals[CONDUCTOR_SIGNALS];
  size_t n_signals;
  bool quitting, window_open_ended, has_teardown;
  bool cut; /* the load was ended before its time, for a reason that is in result->stopped */
  unsigned interrupts;
  struct conductor_view *views; /* one per worker */
  uint32_t n_started, n_ready, n_exhausted, n_drained, n_gone;
  struct fleetport_http *http_port; /* of the fleet's admin port; NULL */
  bool failed;
  struct err err;
};

/* ---- conduct.c ---- */

/* Nothing was measured, and that is why. */
void conductor_fail(struct conductor *c, const struct err *err);
/* Ends the load now: *err is why the run failed although it took place. */
void conductor_cut(struct conductor *c, const struct err *err);
/* What a worker says, or what is said for one that cannot any more. Each counts once. */
void conductor_ready(struct conductor *c, struct conductor_view *v, const struct err *err);
void conductor_exhausted(struct conductor *c, struct conductor_view *v);
void conductor_drained(struct conductor *c, struct conductor_view *v);
void conductor_gone(struct conductor *c, struct conductor_view *v);
void conductor_quit(struct conductor *c);
/* ns since the run's zero, of a loop time. */
uint64_t conductor_since_zero(const struct conductor *c, uint64_t loop_ns);

void conductor_enter(struct conductor *c, enum run_phase phase);
void conductor_tell_all(struct conductor *c, enum worker_order order);
/* Sessions under way end as `as`; the text lives as long as the run. */
void conductor_cancel_all(struct conductor *c, enum sample_error as, const char *why);
void conductor_show_progress(struct conductor *c);
void conductor_start_workers(struct conductor *c);
void conductor_start_load(struct conductor *c);

/* ---- ranks.c ---- */

/* Joins, and goes on to conductor_start_workers and conductor_start_load when all ranks may. */
void ranks_join(struct conductor *c);

/* ---- interrupt.c ---- */

/* Catches SIGINT, SIGTERM and SIGHUP. A signal that is ignored stays so: SIGHUP under nohup. */
void interrupt_open(struct conductor *c);
/* libuv goes back to what ends the process: until the caller says that this may be, they wait. */
void interrupt_close(struct conductor *c);

/* ---- rescue.c ---- */

/* Looks at the workers now and then, and gives up those that do not come back. */
void rescue_start(struct conductor *c);
void rescue_stop(struct conductor *c);
/* Looks now: after a signal. */
void rescue_look(struct conductor *c);

#endif
