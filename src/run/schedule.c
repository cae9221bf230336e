/* schedule.c: arrivals by inverting the summed rate, users by inverting the curve. */
#include "run/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define WARMUP_STREAM UINT64_C(0x7761726d7570) /* generator streams beside the sessions' own */
#define ARRIVAL_STREAM UINT64_C(0x6172726976616c)

void schedule_free(struct schedule *s) {
  mem_free(s->points);
  s->points = NULL;
  s->n_points = 0;
}

struct schedule schedule_copy(const struct schedule *s) {
  struct schedule copy = *s;
  copy.points = mem_dup(s->points, s->n_points * sizeof *s->points);
  return copy;
}

void schedule_set_value(struct schedule *s, double value) {
  mem_free(s->points);
  s->points = MEM_NEW(struct schedule_point);
  s->points[0].value = value;
  s->n_points = 1;
}

static double max_value(const struct schedule *s) {
  double max = 0;
  for (size_t i = 0; i < s->n_points; i++)
    max = s->points[i].value > max ? s->points[i].value : max;
  return max;
}

static int check_points(const struct schedule *s, struct err *err) {
  const char *what = s->open ? "rate" : "users";
  double limit = s->open ? SCHEDULE_MAX_RATE : SCHEDULE_MAX_USERS;
  if (s->n_points == 0)
    return err_set(err, ERR_INVALID, "load: %s is missing", what);
  for (size_t i = 0; i < s->n_points; i++) {
    const struct schedule_point *p = &s->points[i];
    if (!isfinite(p->value) || p->value < 0 || p->value > limit)
      return err_set(err, ERR_INVALID, "load: %s must be between 0 and %g, got %g", what, limit,
                     p->value);
    if (!isfinite(p->at_s) || p->at_s < 0 || p->at_s > SCHEDULE_MAX_SECONDS)
      return err_set(err, ERR_INVALID,
                     "load: a point's time must be from 0 s to a year (%.0f s), got %g",
                     SCHEDULE_MAX_SECONDS, p->at_s);
    if (i > 0 && p->at_s <= s->points[i - 1].at_s)
      return err_set(err, ERR_INVALID, "load: the points' times must grow, but %g s follows %g s",
                     p->at_s, s->points[i - 1].at_s);
  }
  if (s->open && max_value(s) > 0 && max_value(s) < SCHEDULE_MIN_RATE)
    return err_set(err, ERR_INVALID,
                   "load: rate must reach at least a session a year (%.2g per second), got %g",
                   SCHEDULE_MIN_RATE, max_value(s));
  if (s->open ? max_value(s) <= 0 : max_value(s) < 1)
    return err_set(err, ERR_INVALID, "load: %s is never %s", what,
                   s->open ? "above 0" : "1 or more");
  return 0;
}

int schedule_check(const struct schedule *s, struct err *err) {
  if (!isfinite(s->warmup_s) || s->warmup_s < 0 || s->warmup_s > SCHEDULE_MAX_SECONDS)
    return err_set(err, ERR_INVALID, "load: warmup must be from 0 s to a year (%.0f s), got %g",
                   SCHEDULE_MAX_SECONDS, s->warmup_s);
  if (!isfinite(s->duration_s) || s->duration_s < 0 || s->duration_s > SCHEDULE_MAX_SECONDS)
    return err_set(err, ERR_INVALID,
                   "load: duration must be above 0 s and at most a year (%.0f s), got %g",
                   SCHEDULE_MAX_SECONDS, s->duration_s);
  if (s->duration_s == 0 && s->sessions == 0)
    return err_set(err, ERR_INVALID,
                   "load: say how long: duration = \"3m\", or sessions = a number of sessions");
  if (s->sessions >= SCHEDULE_WARMUP_BASE)
    return err_set(err, ERR_INVALID, "load: sessions must be below 2^32, got %llu",
                   (unsigned long long)s->sessions);
  int rc = check_points(s, err);
  if (rc)
    return rc;
  double last = s->points[s->n_points - 1].value;
  if (s->duration_s == 0 && (s->open ? last <= 0 : last < max_value(s)))
    return err_set(err, ERR_INVALID,
                   "load: bounded by sessions alone, but the curve ends at %g %s: some sessions "
                   "would never start; give a duration too",
                   last, s->open ? "sessions/s" : "users");
  return 0;
}

void schedule_window(const struct schedule *s, uint64_t *start_ns, uint64_t *end_ns) {
  *start_ns = (uint64_t)(s->warmup_s * 1e9 + 0.5);
  *end_ns = s->duration_s > 0 ? *start_ns + (uint64_t)(s->duration_s * 1e9 + 0.5) : SCHEDULE_NEVER;
}

/* The curve's value at a time since the warm-up's end; level outside its points. */
static double curve(const struct schedule *s, double at_s) {
  const struct schedule_point *p = s->points;
  if (at_s <= p[0].at_s)
    return p[0].value;
  for (size_t i = 1; i < s->n_points; i++) {
    if (at_s < p[i].at_s) {
      double part = (at_s - p[i - 1].at_s) / (p[i].at_s - p[i - 1].at_s);
      return p[i - 1].value + part * (p[i].value - p[i - 1].value);
    }
  }
  return p[s->n_points - 1].value;
}

double schedule_value(const struct schedule *s, double at_s) {
  if (s->duration_s > 0 && at_s >= s->warmup_s + s->duration_s)
    return 0;
  return curve(s, at_s - s->warmup_s);
}

void schedule_session_name(uint64_t session, char out[32]) {
  bool warm = session >= SCHEDULE_WARMUP_BASE;
  snprintf(out, 32, "%s=%llu", warm ? "warm-up" : "session",
           (unsigned long long)(warm ? session - SCHEDULE_WARMUP_BASE : session));
}

void schedule_describe(const struct schedule *s, char *out, size_t size) {
  char value[80], bound[80], warm[48] = "";
  double first = s->points[0].value, last = s->points[s->n_points - 1].value;
  if (s->n_points > 1)
    snprintf(value, sizeof value, "%g to %g (at most %g)", first, last, max_value(s));
  else
    snprintf(value, sizeof value, "%g", first);
  if (s->duration_s > 0 && s->sessions > 0)
    snprintf(bound, sizeof bound, "%g s or %llu session%s", s->duration_s,
             (unsigned long long)s->sessions, s->sessions == 1 ? "" : "s");
  else if (s->duration_s > 0)
    snprintf(bound, sizeof bound, "%g s", s->duration_s);
  else
    snprintf(bound, sizeof bound, "%llu session%s", (unsigned long long)s->sessions,
             s->sessions == 1 ? "" : "s");
  if (s->warmup_s > 0)
    snprintf(warm, sizeof warm, " after %g s of warm-up", s->warmup_s);
  if (s->open)
    snprintf(out, size, "open load of %s sessions/s (%s arrivals), %s%s", value,
             s->constant ? "constant" : "Poisson", bound, warm);
  else
    snprintf(out, size, "closed load of %s user%s, %s%s", value,
             s->n_points == 1 && first < 2 ? "" : "s", bound, warm);
}

/* ---- open load ---- */

static void start_phase(struct schedule_arrivals *a, bool warm) {
  a->warm = warm;
  a->next = warm ? SCHEDULE_WARMUP_BASE : 0;
  a->at_s = 0;
  rng_init(&a->rng, a->schedule->seed, warm ? WARMUP_STREAM : ARRIVAL_STREAM);
}

void schedule_arrivals_init(struct schedule_arrivals *a, const struct schedule *s) {
  *a = (struct schedule_arrivals){.schedule = s};
  start_phase(a, s->warmup_s > 0);
}

/* Time in a piece that starts at rate v and changes by `slope` per second until `need` arrivals
 * have summed up: the stable form of the quadratic's root. Infinite when they never do. */
static double piece_time(double v, double slope, double need) {
  if (need <= 0)
    return v > 0 || slope > 0 ? 0 : INFINITY;
  double under = v * v + 2 * slope * need;
  if (under < 0)
    return INFINITY;
  double root = v + sqrt(under);
  return root > 0 ? 2 * need / root : INFINITY;
}

/* The time at which the rate summed from `at_s` on reaches `need`; infinite when it never does. */
static double sum_reaches(const struct schedule *s, double at_s, double need) {
  const struct schedule_point *p = s->points;
  for (size_t i = 0; i <= s->n_points; i++) { /* piece i ends at point i; the last never ends */
    double end = i < s->n_points ? p[i].at_s : INFINITY;
    if (at_s >= end)
      continue;
    double v = curve(s, at_s), slope = 0;
    if (i > 0 && i < s->n_points)
      slope = (p[i].value - p[i - 1].value) / (p[i].at_s - p[i - 1].at_s);
    double t = piece_time(v, slope, need);
    if (at_s + t <= end)
      return at_s + t;
    if (!isfinite(end))
      return INFINITY;
    double length = end - at_s, sum = (v + slope * length / 2) * length;
    need = need > sum ? need - sum : 0;
    at_s = end;
  }
  return INFINITY;
}

bool schedule_arrivals_next(struct schedule_arrivals *a, struct schedule_session *out) {
  const struct schedule *s = a->schedule;
  while (!a->over) {
    double end = a->warm ? s->warmup_s : s->duration_s > 0 ? s->duration_s : INFINITY;
    /* Even arrivals are counted from the phase's start, so that no error adds up; random ones from
     * the arrival before. The warm-up is level at the curve's first value. */
    double from = s->constant ? 0 : a->at_s, need;
    if (s->constant)
      need = (double)(a->next - (a->warm ? SCHEDULE_WARMUP_BASE : 0));
    else
      need = rng_exp(&a->rng, 1);
    double at;
    if (a->warm)
      at = s->points[0].value > 0 ? from + need / s->points[0].value : INFINITY;
    else
      at = sum_reaches(s, from, need);
    bool enough = !a->warm && s->sessions > 0 && a->next >= s->sessions;
    if (at < end && !enough) {
      a->at_s = at;
      double since_start = a->warm ? at : s->warmup_s + at;
      *out = (struct schedule_session){
          .session = a->next++, .at_ns = (uint64_t)(since_start * 1e9), .measured = !a->warm};
      return true;
    }
    if (a->warm)
      start_phase(a, false);
    else
      a->over = true;
  }
  return false;
}

/* ---- closed load ---- */

uint32_t schedule_users(const struct schedule *s) {
  return (uint32_t)max_value(s);
}

/* The first time >= at_s (since the warm-up's end) at which the curve is at least `level`. */
static double curve_reaches(const struct schedule *s, double at_s, double level) {
  if (curve(s, at_s) >= level)
    return at_s;
  const struct schedule_point *p = s->points;
  for (size_t i = 1; i < s->n_points; i++) {
    if (p[i].at_s <= at_s || p[i].value < level)
      continue;
    /* The curve is below at at_s (or at the point before) and reaches the level in this piece. */
    double v = p[i - 1].value;
    if (v >= level)
      return p[i - 1].at_s > at_s ? p[i - 1].at_s : at_s;
    double t = p[i - 1].at_s + (level - v) / (p[i].value - v) * (p[i].at_s - p[i - 1].at_s);
    return t > at_s ? t : at_s;
  }
  return INFINITY;
}

/* How many of the measured sessions are this user's. */
static uint64_t quota(const struct schedule *s, uint32_t user) {
  if (s->sessions == 0)
    return UINT64_MAX;
  uint64_t users = schedule_users(s);
  return s->sessions / users + (user < s->sessions % users ? 1 : 0);
}

bool schedule_user_next(const struct schedule *s, struct schedule_user *u, uint64_t now_ns,
                        struct schedule_session *out) {
  uint64_t users = schedule_users(s), start_ns, end_ns;
  schedule_window(s, &start_ns, &end_ns);
  double level = (double)u->user + 1;
  if (now_ns < start_ns && s->points[0].value >= level) {
    *out = (struct schedule_session){.session = SCHEDULE_WARMUP_BASE + u->user + u->warm * users,
                                     .at_ns = now_ns};
    u->warm++;
    return true;
  }
  if (u->measured >= quota(s, u->user))
    return false;
  uint64_t at_ns = now_ns > start_ns ? now_ns : start_ns;
  double from_s = (double)(at_ns - start_ns) / 1e9, at_s = curve_reaches(s, from_s, level);
  if (!isfinite(at_s))
    return false;
  if (at_s > from_s)
    at_ns = start_ns + (uint64_t)(at_s * 1e9 + 0.5);
  if (at_ns >= end_ns)
    return false;
  *out = (struct schedule_session){
      .session = u->user + u->measured * users, .at_ns = at_ns, .measured = true};
  u->measured++;
  return true;
}

uint32_t schedule_worker(uint64_t number, uint32_t workers) {
  return (uint32_t)(number % workers);
}
