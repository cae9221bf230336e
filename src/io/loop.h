/* loop.h: one event loop per thread: descriptors, timers in nanoseconds, a ready list, posts.
 *
 * A wake-up has three phases, and that order is the accuracy of the tool: (1) every ready
 * descriptor is stamped (uv_poll callbacks only note the stamp), (2) the stamped ones are read and
 * parsed, due timers fire, posts run, (3) the ready list runs: tasks queued by loop_ready, which is
 * where Lua is resumed. Nothing in this module knows Lua, HTTP or libcurl. All calls except
 * loop_post are for the loop's own thread. Built on uv_loop (signals, child processes, uv_tcp
 * servers use it directly: loop_uv). */
#ifndef IO_LOOP_H
#define IO_LOOP_H

#include "base/err.h"

struct loop;
struct uv_loop_s;

/* NULL when the system refuses a descriptor. Ignores SIGPIPE for the process if nobody handles it.
 */
struct loop *loop_new(struct err *err);
/* One in virtual time: nothing waits. When no task is ready and nothing was posted, the time jumps
 * to the next timer's due, so timers are never late and a second costs only what happens in it. It
 * begins at LOOP_VIRTUAL_START_NS. No descriptors and no servers; posts and libuv's signals are
 * looked at every few milliseconds of real time. Same thread rules. */
#define LOOP_VIRTUAL_START_NS (3600 * NS_PER_S)
struct loop *loop_new_virtual(struct err *err);
bool loop_is_virtual(const struct loop *loop);
/* Of a virtual loop: called when nothing is ready, nothing was posted and no timer is armed:
 * nothing can happen any more, but by a signal. Once each time this comes about. NULL: it waits for
 * one. */
void loop_set_stuck(struct loop *loop, void (*fn)(void *user), void *user);
/* Every timer, fd and server must be closed and every post have run: logs what is left and asserts.
 * Threads that post must be joined before. */
void loop_delete(struct loop *loop);
struct uv_loop_s *loop_uv(struct loop *loop);

/* Runs until loop_stop. */
void loop_run(struct loop *loop);
/* Asks it to return after the present wake-up. */
void loop_stop(struct loop *loop);

/* The time of the present wake-up in ns (CLOCK_MONOTONIC): read when the poll returned, and moved
 * on by loop_refresh and before each timer fires. Outside loop_run it reads the clock. */
uint64_t loop_now(const struct loop *loop);
/* Reads the clock again and returns it; for stamps that must be exact (start, sent). */
uint64_t loop_refresh(struct loop *loop);
/* The system's clock, in virtual time too: for what takes real time, such as a script that runs.
 * The same as loop_refresh on a real loop. */
uint64_t loop_clock(struct loop *loop);
/* When the present wake-up began: the same value for all that runs in it. Outside loop_run it reads
 * the clock. */
uint64_t loop_wakeup(struct loop *loop);
/* REALTIME − MONOTONIC in ns, measured now and then; to convert kernel stamps. */
int64_t loop_realtime_offset(const struct loop *loop);

/* ---- timers: one binary heap over one absolute timerfd; intrusive, no allocation ---- */
struct loop_timer {
  uint64_t due_ns;
  uint32_t slot; /* heap index + 1; 0 = not armed */
  uint32_t order;
  void (*fire)(struct loop_timer *timer); /* once, in phase two; may re-arm, or free its owner */
};
void loop_timer_init(struct loop_timer *t, void (*fire)(struct loop_timer *));
/* Arms or moves. A due time in the past fires in the next phase two. Equal times fire in arming
 * order. */
void loop_timer_set(struct loop *loop, struct loop_timer *t, uint64_t due_ns);
void loop_timer_clear(struct loop *loop, struct loop_timer *t); /* not armed: no effect */
/* `precise`: spin the last 50 µs before a due time (burns CPU). */
void loop_set_precise(struct loop *loop, bool precise);

/* ---- chores: something to be done every so often in real time, whatever the loop's own says ----
 */
/* On a real loop an ordinary timer; a virtual one looks at the clock now and then. For what a run
 * does for people and files: progress, flushing. Nothing that a session could notice. */
struct loop_chore {
  struct loop_timer timer;
  void (*run)(struct loop_chore *chore); /* in phase two */
  struct loop *loop;                     /* NULL: stopped */
  uint64_t every_ns, due_ns;
  struct loop_chore *next;
};
void loop_chore_start(struct loop *loop, struct loop_chore *chore,
                      void (*run)(struct loop_chore *chore), uint64_t every_ns);
void loop_chore_stop(struct loop_chore *chore); /* not started: no effect */

/* ---- descriptors ---- */
#define LOOP_READ 1u
#define LOOP_WRITE 2u
struct loop_fd; /* heap; stays in epoll between uses: no epoll_ctl per request */
/* `ready` runs in phase two with the events seen and the stamp of phase one. An error or a hang-up
 * is told as readiness for what is wanted (an error always for both), again in every wake-up until
 * it is dealt with; with nothing wanted nothing is told. */
typedef void loop_fd_fn(struct loop_fd *f, void *user, unsigned events, uint64_t stamp_ns);
/* ERR_IO: not a descriptor that can be polled, or one that this loop already watches. Makes it
 * non-blocking. */
NODISCARD int loop_fd_open(struct loop *loop, int fd, unsigned want, loop_fd_fn *ready, void *user,
                           struct loop_fd **out, struct err *err);
void loop_fd_want(struct loop_fd *f, unsigned want); /* cheap when unchanged */
int loop_fd_number(const struct loop_fd *f);
/* Stops at once: `ready` is not called again, also not for events already stamped. The descriptor
 * itself is the caller's to close, after this. */
void loop_fd_close(struct loop_fd *f);

/* `n` pieces of what was read in this wake-up could have waited: the kernel stamped them, and
 * nobody waits for an answer to them. Where such pieces come so fast that each is a wake-up of its
 * own (60,000 a second and more), the loop lets them gather for 50 µs before it looks again. Timers
 * are never late by it, and spinning (`precise`) excludes it. */
void loop_unhurried(struct loop *loop, size_t n);

/* ---- ready list: phase three, FIFO; a task queued while it runs goes to the next round ---- */
struct loop_task {
  void (*run)(struct loop_task *task);
  struct loop_task *next, *prev;
  bool queued;
};
void loop_ready(struct loop *loop, struct loop_task *task); /* queued twice: once */
void loop_unready(struct loop *loop, struct loop_task *task);

/* ---- from other threads ---- */
struct loop_post {
  void (*run)(struct loop_post *post); /* on the loop's thread, phase two; owns the post again */
  struct loop_post *next;
};
/* Any thread. Posts of one thread run in the order they were made. */
void loop_post(struct loop *loop, struct loop_post *post);

/* ---- idle: called at the end of a wake-up when nothing is ready and the next timer is further
 * away than `quiet_ns`; returns whether it wants to be called again before blocking. For collector
 * steps. */
void loop_set_idle(struct loop *loop, bool (*fn)(void *user), void *user, uint64_t quiet_ns);

/* ---- what it costs: counted always, read at the end of a run ---- */
struct loop_stats {
  uint64_t wakeups, timers_fired, busy_ns, cpu_ns; /* cpu_ns: of this thread since loop_new */
  uint64_t started_ns;
  uint64_t naps; /* times that it let unhurried pieces gather */
};
void loop_get_stats(const struct loop *loop, struct loop_stats *out);
/* Called with each timer's lateness (now − due, ns) and each wake-up's length (busy time, ns): the
 * run's recorder puts them into histograms. NULL switches it off. */
struct loop_probe {
  void (*timer_late)(void *user, uint64_t late_ns);
  void (*wakeup_busy)(void *user, uint64_t busy_ns);
  void *user;
};
void loop_set_probe(struct loop *loop, const struct loop_probe *probe);

#endif
