/* schedule.h: which session starts when, and which sessions count. Pure: no clock, no threads.
 *
 * Everything follows from the load and the seed. Open load: arrivals of a (possibly inhomogeneous)
 * Poisson or an even process, computed in advance by inverting the summed rate. Closed load: users
 * that start their next session when the last one ended; a user exists while the curve is at least
 * its number + 1. Times are seconds or ns since the load's start, warm-up first: the curve starts
 * when the warm-up ends, which runs at the curve's first value. Warm-up sessions have numbers of
 * their own (from SCHEDULE_WARMUP_BASE), so session 0 is the first measured one of every run,
 * whatever the warm-up. Only + − × ÷ √ are used: every machine computes the same schedule. */
#ifndef RUN_SCHEDULE_H
#define RUN_SCHEDULE_H

#include "base/err.h"
#include "base/rng.h"

#define SCHEDULE_WARMUP_BASE (UINT64_C(1) << 32)
#define SCHEDULE_NEVER UINT64_MAX
#define SCHEDULE_MAX_USERS 1000000
#define SCHEDULE_MAX_RATE 1e6
#define SCHEDULE_MIN_RATE (1 / SCHEDULE_MAX_SECONDS) /* but 0: a session a year */
#define SCHEDULE_MAX_SECONDS 31536000.0              /* a year */

/* One corner of the curve: straight lines between them, level before the first and behind the last.
 */
struct schedule_point {
  double at_s, value; /* since the end of the warm-up; sessions per second, or users */
};

struct schedule {
  bool open;         /* arrivals at a rate; else users */
  bool constant;     /* open: evenly spaced arrivals instead of Poisson */
  double warmup_s;   /* 0 = none */
  double duration_s; /* of the window; 0 = bounded by `sessions` alone */
  uint64_t sessions; /* measured sessions at most; 0 = bounded by the duration alone */
  uint64_t seed;
  struct schedule_point *points; /* at least one; one = a constant load. Owned */
  size_t n_points;
};

struct schedule_session {
  uint64_t session; /* its number k */
  uint64_t at_ns;   /* due, since the load's start */
  bool measured;
};

/* ERR_INVALID when the figures make no load; the text says which figure and what would do. */
NODISCARD int schedule_check(const struct schedule *s, struct err *err);
void schedule_free(struct schedule *s);
struct schedule schedule_copy(const struct schedule *s);
/* A curve of one value. */
void schedule_set_value(struct schedule *s, double value);

/* The window since the load's start; *end_ns is SCHEDULE_NEVER without a duration. */
void schedule_window(const struct schedule *s, uint64_t *start_ns, uint64_t *end_ns);
/* Rate or users at a time since the load's start (0 behind the window's end). */
double schedule_value(const struct schedule *s, double at_s);
/* "session=5", or "warm-up=2": how logs call it. `out` has 32 bytes. */
void schedule_session_name(uint64_t session, char out[32]);
/* "closed load of 8 users, 300 s after 30 s of warm-up". */
void schedule_describe(const struct schedule *s, char *out, size_t size);

/* ---- open load ---- */
struct schedule_arrivals {
  const struct schedule *schedule;
  struct rng rng;
  uint64_t next;   /* number of the next session of this phase */
  double at_s;     /* of the last arrival, since the curve's (or the warm-up's) start */
  bool warm, over; /* still in the warm-up; none left */
};
/* Borrows the schedule. */
void schedule_arrivals_init(struct schedule_arrivals *a, const struct schedule *s);
/* The next arrival in time order; false when there is none left. */
bool schedule_arrivals_next(struct schedule_arrivals *a, struct schedule_session *out);

/* ---- closed load ---- */
struct schedule_user {
  uint32_t user;
  uint64_t warm, measured; /* sessions begun so far */
};
/* Users in all: the curve's maximum. */
uint32_t schedule_users(const struct schedule *s);
/* The user's next session when it is free at now_ns: due at once, or when the curve lets it. False
 * when it has none left. Counts it as begun. */
bool schedule_user_next(const struct schedule *s, struct schedule_user *u, uint64_t now_ns,
                        struct schedule_session *out);

/* The worker a session of an open load, or a user of a closed load, runs on. */
uint32_t schedule_worker(uint64_t number, uint32_t workers);

#endif
