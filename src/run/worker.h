/* worker.h: one thread of a run: a loop, an HTTP client, a recorder, several Lua states, and the
 * sessions that the schedule gives it.
 *
 * run.c tells a worker what to do by posts (worker_tell) and hears of it by `events`, posted to the
 * run's own loop. Between workers nothing is shared but what struct run points to: read-only data,
 * the router, the store, atomic counters. */
#ifndef RUN_WORKER_H
#define RUN_WORKER_H

#include <pthread.h>

#include "net/http.h"
#include "out/recorder.h"
#include "run/requestid.h"
#include "run/router.h"
#include "run/run.h"
#include "run/schedule.h"
#include "run/vu.h"
#include "text/tokens.h"

/* What a run tells a worker, and hears from it. Each is used at most once per run. */
enum worker_order {
  WORKER_SETUP,
  WORKER_START,
  WORKER_CANCEL,
  WORKER_END_TIMED, /* functions of the timeline that still run */
  WORKER_TEARDOWN,
  WORKER_ABORT,
  WORKER_QUIT,
  WORKER_ORDERS
};
enum worker_event {
  WORKER_READY,     /* loaded, or failed: err */
  WORKER_SET_UP,    /* setup has ended: outcome, setup_result */
  WORKER_EXHAUSTED, /* no session is left to start */
  WORKER_DRAINED,   /* and none is running */
  WORKER_TORN_DOWN, /* teardown has ended: outcome */
  WORKER_CUT,       /* the load must end: cut says why, ERR_INVALID when the script is wrong */
  WORKER_GONE,      /* the thread ends: it may be joined */
  WORKER_EVENTS
};

struct worker_post {
  struct loop_post post;
  struct worker *worker;
  bool sent;
};

/* One session that runs or will: a user of a closed load for all of the run, or one arrival. */
struct worker_slot {
  struct worker *worker;
  struct worker_slot *next, *prev;
  struct schedule_user user; /* closed load */
  struct loop_timer timer;   /* until `due` starts */
  struct schedule_session due;
  struct state *state;
  struct vu *vu; /* NULL between sessions */
  bool has_more; /* closed load: another session follows the one that runs */
};

/* A function of the plan's timeline on its way. The run's thread has it until worker_run_timed, and
 * again from `ended` on. */
struct worker_timed {
  uint32_t entry, round;                     /* struct timeline_entry: number, round */
  void (*ended)(struct worker_timed *timed); /* on the run's thread; outcome is its to free */
  struct vu_outcome outcome;
  /* The worker's. */
  struct loop_post post;
  struct worker *worker;
  struct vu *vu;
  struct worker_timed *next;
};

struct worker {
  struct run *run;
  uint32_t index;
  pthread_t thread;
  struct watch watch;             /* for run/rescue.c */
  struct loop *loop;              /* its own; in virtual time the run's, and no thread */
  struct loop_task leave;         /* in virtual time: what its thread would do at its end */
  const struct tokens *tokens;    /* NULL = the server's counts alone */
  struct tokens_encoder *encoder; /* of them; NULL with them */
  struct http_client *client;
  struct recorder *recorder;
  struct http_target **targets; /* one per replica, and the gateway last */
  struct state **states;
  size_t n_states, cap_states;
  size_t first_room;   /* all states before this one are full */
  size_t collect_next; /* the state whose garbage is looked at next */
  bool no_more_states; /* one could not be opened */
  /* load */
  bool accepting; /* sessions may start */
  bool exhausted, drained;
  struct schedule_arrivals arrivals;
  struct loop_timer arrival_timer;
  struct schedule_session arrival; /* the next one of ours */
  bool has_arrival;
  struct worker_slot *slots;
  uint64_t n_live;            /* sessions that run */
  uint64_t n_unstarted;       /* slots whose timer is armed */
  uint64_t n_more;            /* slots with has_more */
  uint64_t n_ids;             /* of requests, so far (requestid.h) */
  struct vu *special;         /* setup or teardown while it runs */
  struct worker_timed *timed; /* functions of the timeline that run */
  /* accuracy */
  struct loop_chore flush;
  struct loop_timer window_timer;
  uint64_t cpu_mark_ns, wall_mark_ns;
  bool probing, cpu_open;
  uint64_t seen_errors[64]; /* hashes of script errors already logged */
  size_t n_seen_errors;
  /* talk */
  struct worker_post orders[WORKER_ORDERS], events[WORKER_EVENTS];
  enum sample_error cancel_as;
  const char *cancel_why;
  struct err err, cut;
  struct vu_outcome outcome;
  struct shared setup_result;
  struct http_client_stats stats; /* after the thread has ended */
};

/* Starts the thread; WORKER_READY follows in any case. The worker is the run's until
 * worker_join. */
NODISCARD int worker_start(struct worker *w, struct run *run, uint32_t index, struct err *err);
/* Joins the thread after WORKER_QUIT (or a failed start). */
void worker_join(struct worker *w);
/* From the run's thread. */
void worker_tell(struct worker *w, enum worker_order order);
/* From the run's thread: begins a function of the timeline. */
void worker_run_timed(struct worker *w, struct worker_timed *timed);

/* ---- for sessions.c ---- */
void worker_send_event(struct worker *w, enum worker_event event);
/* The first state with room; another one when all are full. */
struct state *worker_state_with_room(struct worker *w);
/* A session of this state ends. */
void worker_room_again(struct worker *w, const struct state *s);
/* From the window's start until its last session ended, or was cancelled, the client's own lateness
 * is kept. Off: for good, the window's timer is cleared. */
void worker_set_probing(struct worker *w, bool on);

/* ---- for vu.c and the bindings, on the worker's thread; a NULL worker does nothing ---- */
void worker_session_began(struct vu *vu);
/* Ends a pick that was counted in flight. */
void worker_pick_done(struct worker *w, size_t replica);
/* The next request's id; its length. */
size_t worker_request_id(struct worker *w, char out[REQUESTID_MAX]);
/* ns since the run's zero, of a loop time. */
uint64_t worker_since_zero(const struct worker *w, uint64_t loop_ns);

#endif
