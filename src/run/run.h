/* run.h: a whole run: workers, setup, warm-up, window, drain, interruption, teardown.
 *
 * run_start blocks the calling thread, which runs a loop of its own: progress calls, SIGINT and
 * SIGTERM, the workers' events. Times are ns since the run's zero unless said otherwise. */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "net/http.h"
#include "net/transport.h"
#include "out/writer.h"
#include "run/fleet.h"
#include "run/schedule.h"
#include "run/state.h"
#include "run/timeline.h"

#define RUN_DRAIN_DEFAULT_S 60.0
#define RUN_MAX_USERS UINT64_C(100000)
/* When so many sessions have ended (or as many as there are users, if that is more), all of them in
 * an error of the script, the load is ended: a mistake needs no more proof. */
#define RUN_MISTAKES 10

enum run_phase {
  RUN_LOADING,
  RUN_SETUP,
  RUN_WARMUP,
  RUN_WINDOW,
  RUN_DRAIN,
  RUN_TEARDOWN,
  RUN_ENDED
};
/* "loading", "set-up", "warm-up", "running", "draining", "tear-down", "ended". */
const char *run_phase_name(enum run_phase phase);

/* For the live line. */
struct run_snapshot {
  enum run_phase phase;
  double elapsed_s; /* since the load's start; 0 before */
  double window_s;  /* length of the window; 0 when bounded by sessions alone */
  double left_s;    /* until the window ends, or the drain's limit; NAN when nobody knows */
  double load;      /* what the schedule asks for now: sessions/s, or users */
  bool open, interrupted;
  uint64_t sessions_active, sessions_bound; /* bound: measured sessions in all, 0 = by time */
  struct live live;
};

struct run_config {
  /* A dry run: a virtual loop of the caller's, on which everything runs, on the calling thread: the
   * one worker too. Requests travel with `transport` (copied), to the URLs of the fleet. NULL: real
   * time. */
  struct loop *loop;
  const struct transport *transport;
  const char *script;
  const struct state_binding *binding; /* bind/plan.h: bind_state_binding() */
  const struct state_set *sets;        /* --set */
  size_t n_sets;
  const char *route; /* as in struct state_options; NULL = none */
  const struct schedule *load;
  double drain_s; /* < 0: 60 s behind the window's end; no limit when bounded by sessions alone */
  uint64_t seed;
  uint32_t workers; /* 0 = run_default_workers() */
  const struct fleet *fleet;
  const struct timeline_entry *timeline; /* of the plan; borrowed, by the result too */
  size_t n_timeline;
  /* What can be done to the fleet: NULL = by fleet->admin, if it has one. */
  const struct fleetport *fleetport;
  const char *arm;       /* NULL = null; must outlive the writer's table, as must `store` */
  struct store *store;   /* shared data, and the words that rows borrow */
  struct writer *writer; /* started; the caller stops it */
  int status_no_memory;  /* of the process when even the reserve is gone; 0 = 1 */
  bool precise;          /* spin before due times */
  bool no_kernel_stamps;
  bool catch_signals;  /* SIGINT, SIGTERM, SIGHUP; they are blocked when run_start returns */
  uint64_t runaway_ns; /* 0 = 2 s */
  uint64_t max_users;  /* sessions alive at once in an open load; more end it. 0 = RUN_MAX_USERS */
  size_t memory_bytes; /* of one Lua state; 0 = 512 MiB */
  void (*print)(void *user, const char *line, size_t len); /* print and vu:log; any thread */
  void *print_user;
  /* The result's zero and its workers are known, nothing has begun; on the calling thread, with
   * progress_user. NULL = of no interest. */
  void (*begins)(void *user);
  void (*progress)(void *user, const struct run_snapshot *snapshot); /* on the calling thread */
  void *progress_user;
  uint64_t progress_ns; /* between two calls; 0 = 250 ms */
  /* Asked as often, on the calling thread, with progress_user: true ends the load at once, and *err
   * is why. NULL = never. */
  bool (*broken)(void *user, struct err *err);
};

struct run_result {
  uint64_t zero_wall_ns; /* wall time of the zero */
  uint64_t zero_ns;      /* the zero on CLOCK_MONOTONIC */
  uint64_t load_start_ns, window_start_ns;
  uint64_t window_end_ns; /* planned end; an earlier interruption; without a duration the end of
                             the last session */
  uint64_t ended_ns;
  bool interrupted;
  uint32_t workers, states;
  uint64_t sessions_started, sessions_ended;
  struct http_client_stats client; /* summed over workers */
  uint64_t *picked;                /* requests routed to each replica, n_picked of them; owned */
  double *rotation;                /* as many: router_rotation_share of each; owned */
  size_t n_picked;
  struct timeline_log timeline; /* what was done to the fleet */
  char teardown_error[1024];    /* "" = none, or no teardown */
  char stopped[1024];           /* why the load was ended before its time; "" = it was not, or by a
                                   signal */
  bool script_is_wrong; /* that is why: no session went well, each ended in a script error */
  /* Threads that did not come back from a C function were given up: their sessions are recorded as
   * incomplete, their requests in flight and what their clients counted are lost. Then nothing that
   * the config points to may be freed, and the process must end with _exit. */
  uint32_t n_lost;
  uint64_t sessions_lost;
  char lost_text[1024]; /* of the first one */
};

/* Cores − 1, at least 1. */
uint32_t run_default_workers(void);
/* 0 when the run took place, interrupted or not. Otherwise nothing was measured and *err says why:
 * the script does not load, setup failed, a URL is bad, the system refuses threads or descriptors.
 */
NODISCARD int run_start(const struct run_config *config, struct run_result *result,
                        struct err *err);
void run_result_free(struct run_result *r);

/* ---- for worker.c and the bindings ---- */

struct router;
struct worker;

struct run {
  const struct run_config *config;
  struct schedule load;
  struct loop *loop; /* of the calling thread */
  struct worker *workers;
  uint32_t n_workers;
  struct router *router; /* NULL without replicas */
  struct timeline *timeline;
  _Atomic bool *reports;           /* per replica and the gateway: known to report cached_tokens */
  uint64_t zero_ns, load_start_ns; /* loop clock */
  uint64_t request_run;            /* its requests' ids (requestid.h) */
  const struct shared *setup;      /* what setup gave; NULL until that is known */
  /* Atomic; any worker. */
  uint64_t sessions_started, sessions_ended, sessions_mistaken; /* of the ended: script errors */
  bool said_late;
};

#endif
