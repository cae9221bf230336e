/* loop_internal.h: what loop.c, timers.c and loopfd.c share; nobody else includes it.
 *
 * A wake-up is one of two kinds. As long as libuv has work of its own (servers, signals, a name
 * that is looked up), it is one turn of uv_run: prepare (before_poll) decides whether the poll may
 * block, the poll runs phase one, check (after_poll) runs phases two and three, and all loop_fd
 * stand behind one descriptor that libuv watches. Else, which is a client's life, the loop waits on
 * that descriptor itself, which saves a system call and a half of every wake-up, and what libuv
 * watches for us (wake-ups by other threads) stands behind one descriptor in it. */
#ifndef IO_LOOP_INTERNAL_H
#define IO_LOOP_INTERNAL_H

#include <uv.h>

#include "io/loop.h"

/* A timer in the heap, with what it is ordered by: with thousands of them, looking into each would
 * be a miss of the CPU's caches. */
struct timer_at {
  uint64_t due_ns;
  struct loop_timer *timer;
  uint32_t order;
};

/* Timers: the heap, and those set while timers fire that are already due (they wait for the next
 * phase two, or a timer that re-arms itself in the past would never let go of the loop). */
struct timers {
  struct timer_at *heap;
  size_t n, cap;
  struct loop_timer **held;
  size_t n_held, cap_held;
  uint64_t armed_ns; /* what the timerfd waits for; UINT64_MAX = nothing */
  uint64_t limit_ns; /* while firing: later ones are not due in this round */
  uint32_t order;
  int fd;
  bool firing, precise;
  bool hole; /* heap[0] has fired: its place is kept for who is armed next */
};

struct loop {
  uv_loop_t uv;
  uv_prepare_t prepare;
  uv_check_t check;
  uv_idle_t spin; /* active only while the poll must not block */
  uv_async_t wake;
  uv_poll_t tick; /* on timers.fd */
  struct timers timers;

  uint64_t now_ns;
  uint64_t woke_ns; /* when this wake-up began */
  bool stale;       /* the poll may have returned since now_ns was read */
  bool worked;      /* this wake-up had something to do */
  bool running, polling, stop;
  bool direct; /* the second kind */
  bool again;  /* the idle function asked for another call */
  bool prompt; /* sleeps of this thread end on time */

  bool is_virtual;           /* loop_virtual.c; now_ns is its time */
  uint64_t looked_ns;        /* real time of the last look at signals, posts and chores */
  struct loop_chore *chores; /* of a virtual loop */
  void (*stuck)(void *user);
  void *stuck_user;

  size_t unhurried;    /* pieces of this wake-up (loop_unhurried) */
  double gathering;    /* how many come in the time of a nap, smoothed */
  uint64_t settled_ns; /* when the last wake-up ended */
  uint64_t calm_ns;    /* when the last one ended that had some */

  int epoll;     /* of all loop_fd; in direct wake-ups of the timerfd and libuv, too */
  uv_poll_t fds; /* on it; not in direct wake-ups, nor `tick`, `prepare`, `check`, `spin` */
  struct epoll_event *events;
  struct loop_fd *all_fds;
  size_t n_fds, cap_events;
  struct loop_fd *pending, **pending_end; /* stamped in phase one, in order */
  struct loop_task ready;                 /* head of a ring */
  struct loop_post *posts;                /* atomic; newest first */

  bool (*idle)(void *user);
  void *idle_user;
  uint64_t idle_quiet_ns;

  int64_t offset_ns;
  uint64_t offset_at_ns;
  uint64_t cpu_start_ns;
  struct loop_stats stats;
  struct loop_probe probe;
};

/* loop_virtual.c: loop_run in virtual time. */
void loop_run_virtual(struct loop *loop);
/* loop.c: what was posted; the ready list. */
void loop_run_posts(struct loop *loop);
void loop_run_ready(struct loop *loop);

/* libuv's prepare and check around the poll, which direct wake-ups do without. */
void loop_before_poll(uv_prepare_t *handle);
void loop_after_poll(uv_check_t *handle);
/* The timerfd is readable. */
void loop_on_tick(uv_poll_t *handle, int status, int events);
/* Takes the stamp of this wake-up unless it was taken, and returns it. */
uint64_t loop_touch(struct loop *loop);

NODISCARD int timers_init(struct timers *t, struct err *err);
void timers_free(struct timers *t);
/* Fires what is due. */
void timers_run(struct loop *loop);
/* Sets the timerfd; false: the next timer is due, or so near that we spin: do not block. */
bool timers_arm(struct timers *t, uint64_t now);
/* The earliest due time, UINT64_MAX when there is none. */
uint64_t timers_next(const struct timers *t);
size_t timers_armed(const struct timers *t);
/* The timerfd has become readable. */
void timers_ticked(struct timers *t);

/* The epoll of descriptors; started once uv is there, freed after its handles are closed. */
NODISCARD int loopfd_init(struct loop *loop, struct err *err);
NODISCARD int loopfd_start(struct loop *loop);
void loopfd_free(struct loop *loop);
/* Changes to direct wake-ups where they are possible, or back, and says which holds. */
bool loopfd_direct(struct loop *loop);
/* Changes back, whatever is possible. */
void loopfd_leave(struct loop *loop);
/* Phase one of a direct wake-up: waits, or only looks, and stamps. */
void loopfd_poll(struct loop *loop, bool block);
/* Logs those that are open. */
void loopfd_name_open(const struct loop *loop);
/* Phase two for descriptors. */
void loopfd_run(struct loop *loop);

#endif
