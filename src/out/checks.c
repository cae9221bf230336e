/* checks.c: figures for the validity checks, from the client's own probes and from the rows. */
#include "out/checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "out/placements.h"
#include "out/stats.h"
#include "out/tokenparity.h"

static const struct {
  const char *name, *unit, *meaning;
  enum units_kind kind;
  double limit;
} known[CHECK_COUNT] = {
    [CHECK_SCHEDULE_LAG] = {"schedule_lag_p99", "s", "sessions start after they were due",
                            UNITS_TIME, 5e-3},
    [CHECK_WAKE_LAG] = {"wake_lag_p99", "s", "the client's timers fire late", UNITS_TIME, 5e-3},
    [CHECK_LOOP_LAG] = {"loop_lag_p99", "s", "one wake-up keeps a worker's loop busy", UNITS_TIME,
                        20e-3},
    [CHECK_STALLED_TIME] = {"stalled_time", "ratio",
                            "share of the window in which the client stood still (20 ms or more "
                            "at a time)",
                            UNITS_RATIO, 0.01},
    [CHECK_WORKER_CPU] = {"worker_cpu", "ratio", "share of a core the busiest worker used",
                          UNITS_RATIO, 0.9},
    [CHECK_MEASUREMENT_ERROR] = {"measurement_error_p99", "s",
                                 "error of the stamps that ttft is made of", UNITS_TIME, 1e-3},
    [CHECK_READ_LAG] = {"read_lag_p99", "s",
                        "bytes are read after the kernel received them; stamps are the kernel's "
                        "and do not contain it, but what a session does next starts later",
                        UNITS_TIME, 20e-3},
    [CHECK_COALESCED] = {"coalesced_events", "ratio", "output events that arrived with a later one",
                         UNITS_RATIO, 0.05},
    [CHECK_EMPTY_200] = {"empty_200", "ratio", "requests answered with 200 and nothing",
                         UNITS_RATIO, 0.01},
    [CHECK_MISSING_USAGE] = {"missing_usage", "ratio", "good replies without token counts",
                             UNITS_RATIO, 0.05},
    [CHECK_IMPOSSIBLE_USAGE] = {"impossible_usage", "ratio",
                                "good replies whose token counts cannot be true", UNITS_RATIO,
                                0.01},
    [CHECK_INCOMPLETE_REQUESTS] = {"incomplete_requests", "ratio",
                                   "requests that never ended: the slowest are not in the figures",
                                   UNITS_RATIO, 0.05},
    [CHECK_INCOMPLETE_SESSIONS] = {"incomplete_sessions", "ratio",
                                   "sessions that never ended: later turns are not in the figures",
                                   UNITS_RATIO, 0.05},
    [CHECK_SHORT_ANSWERS] = {"short_answers", "ratio",
                             "replies with fewer output tokens than they were told to have",
                             UNITS_RATIO, 0.05},
    [CHECK_CLOCK_STEP] = {"clock_step", "s", "the wall clock jumped", UNITS_TIME, 1e-3},
    [CHECK_DESCRIPTORS] = {"descriptors", "times",
                           "no descriptor or port was left for a connection", UNITS_NONE, 0},
    [CHECK_TOKEN_PARITY] =
        {"token_parity", "servers",
         "servers (or arms, by their counts) that make, or count, other tokens of "
         "a prompt than this side",
         UNITS_NONE, 0},
    [CHECK_USAGE_VS_LOCAL] =
        {"usage_vs_local", "tokens",
         "largest difference between usage.prompt_tokens and the prompt's tokens counted here",
         UNITS_NONE, 0},
    [CHECK_IDLE_REPLICA] = {"idle_replica", "replicas", "replicas of the run that got no request",
                            UNITS_NONE, 0},
    [CHECK_SESSIONS] = {"sessions", "sessions",
                        "measured sessions that ended: what intervals and expectations rest on",
                        UNITS_NONE, 2},
    [CHECK_GROUND_TRUTH] =
        {"ground_truth", "requests",
         "good replies whose token counts are others in the fleet's own log, or that are not in it "
         "(--verify)",
         UNITS_NONE, 0},
    [CHECK_TIMELINE] = {"timeline", "actions",
                        "actions of the plan's timeline that failed, or that the load's end "
                        "overtook",
                        UNITS_NONE, 0},
    [CHECK_LOST_WORKERS] = {"lost_workers", "workers",
                            "threads that were given up inside a script, with their requests",
                            UNITS_NONE, 0},
};

struct checks_limits checks_default_limits(void) {
  struct checks_limits l;
  for (int i = 0; i < CHECK_COUNT; i++)
    l.limit[i] = known[i].limit;
  return l;
}

/* Says which checks there are, the one that may have been meant first. */
static int refuse_name(const char *name, const char *const *names, struct err *err) {
  const char *near = err_nearest(name, names, CHECK_COUNT);
  char list[640] = "";
  size_t len = 0;
  for (int i = 0; i < CHECK_COUNT; i++)
    if (!near || strcmp(names[i], near) != 0)
      len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "", names[i]);
  if (near)
    return err_set(err, ERR_INVALID, "unknown check \"%.60s\" (did you mean %s?); others are %s",
                   name, near, list);
  return err_set(err, ERR_INVALID, "unknown check \"%.60s\"; there are %s", name, list);
}

int checks_set_limit(struct checks_limits *l, const char *name, const char *text, struct err *err) {
  const char *names[CHECK_COUNT];
  for (int i = 0; i < CHECK_COUNT; i++) {
    names[i] = known[i].name;
    if (strcmp(names[i], name) != 0)
      continue;
    double limit;
    int rc = units_parse_bound(text, strlen(text), known[i].kind, &limit, err);
    if (!rc && limit < 0)
      rc = err_set(err, ERR_INVALID, "a limit cannot be below 0");
    if (rc) {
      err_prefix(err, "limit of the check %s", name);
      return rc;
    }
    l->limit[i] = limit;
    return 0;
  }
  return refuse_name(name, names, err);
}

/* What the rows say, in one pass. */
struct counts {
  uint64_t all, ended, ok, empty, no_usage, bad_usage, events, coalesced, compared;
  uint64_t asked, cut_off;       /* all but the cancelled; plain HTTP where there is nothing else */
  uint64_t scripted, too_short;  /* good replies of a declared length whose length is known */
  uint64_t got, declared;        /* tokens, of those too short */
  uint64_t stamped, by_loop;     /* streams with a first token; those the kernel gave no stamp */
  int64_t worst_diff;            /* tokens */
  uint64_t beyond;               /* of those, with more than they were told to have */
  uint64_t answers;              /* whose output has both counts */
  int64_t least_more, most_more; /* tokens that usage has more than their text */
};

static void count_answer(struct counts *c, const struct table_row *r) {
  if (r->output_tokens < 0 || r->output_local < 0)
    return;
  int64_t more = (int64_t)r->output_tokens - r->output_local;
  c->least_more = !c->answers || more < c->least_more ? more : c->least_more;
  c->most_more = !c->answers || more > c->most_more ? more : c->most_more;
  c->answers++;
  c->beyond += r->asked_tokens >= 0 && r->output_tokens > r->asked_tokens;
}

static void count_diff(struct counts *c, int32_t usage, int32_t local) {
  if (usage < 0 || local < 0)
    return;
  int64_t diff = llabs((int64_t)usage - local);
  c->compared++;
  if (diff > c->worst_diff)
    c->worst_diff = diff;
}

static void count_length(struct counts *c, const struct table_row *r) {
  int32_t n = table_row_output(r);
  if (r->asked_tokens < 0 || n < 0 || (r->flags & ROW_BAD_USAGE))
    return;
  c->scripted++;
  if (n >= r->asked_tokens)
    return;
  c->too_short++;
  c->got += (uint64_t)n;
  c->declared += (uint64_t)r->asked_tokens;
}

/* By arm, the last for requests without one: whether prompts are tokenized here as the server does.
 * The caller frees. */
static bool *find_proven(const struct table *t, const struct checks_input *in) {
  bool *proven = mem_calloc(t->arms.n + 1, sizeof *proven);
  for (size_t i = 0; i <= t->arms.n; i++)
    proven[i] = in->parity_proven ||
                tokenparity_proven(in->parity, i < t->arms.n ? t->arms.items[i] : NULL);
  return proven;
}

static struct counts count_rows(const struct table *t, const struct checks_input *in) {
  struct counts c = {0};
  bool *proven = find_proven(t, in);
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!(r->flags & ROW_MEASURED))
      continue;
    if ((r->flags & ROW_GENERATION) || !t->has_generation) {
      c.asked += r->error != SAMPLE_CANCELLED;
      c.cut_off += r->error == SAMPLE_INCOMPLETE;
    }
    if (!(r->flags & ROW_GENERATION))
      continue;
    bool ok = r->error == SAMPLE_OK;
    c.all++;
    c.ended += ok || sample_error_failed((enum sample_error)r->error);
    c.empty += r->error == SAMPLE_EMPTY_STREAM;
    if (r->flags & ROW_STREAMED) { /* a whole reply's output has no time of its own */
      c.events += r->output_events;
      c.coalesced += r->coalesced;
    }
    if (!ok)
      continue;
    c.ok++;
    if ((r->flags & ROW_STREAMED) && r->first_token != SAMPLE_NEVER) {
      c.stamped++;
      c.by_loop += r->error_ns == SAMPLE_ABSENT;
    }
    count_length(&c, r);
    bool bad = r->flags & ROW_BAD_USAGE;
    c.bad_usage += bad;
    c.no_usage += r->output_tokens < 0 && !bad;
    if (proven[r->arm < t->arms.n ? r->arm : t->arms.n])
      count_diff(&c, r->prompt_tokens, r->prompt_local);
    if (in->parity_proven)
      count_diff(&c, r->output_tokens, r->output_local);
    else
      count_answer(&c, r);
  }
  mem_free(proven);
  return c;
}

static void set(struct check *c, double figure) {
  c->figure = figure;
  c->ok = isnan(figure) || (c->minimum ? figure >= c->limit : figure <= c->limit);
}

/* Judged at the highest percentile there are samples for: a p99 of twelve wake-ups is their worst
 * one, which says nothing of the client. The worst alone is stalled_time's. */
static void set_lag(struct check *c, const struct hist *h, const char *what,
                    const char *otherwise) {
  static const double probs[] = {0.99, 0.95, 0.9, 0.5};
  char worst[32];
  units_format_seconds(h->n ? (double)h->max / 1e9 : 0, worst, sizeof worst);
  if (!h->n) {
    snprintf(c->note, sizeof c->note, "not measured: %s", otherwise);
    return;
  }
  for (size_t i = 0; i < ARRAY_LEN(probs); i++) {
    if (h->n < stats_quantile_needs(probs[i]))
      continue;
    set(c, hist_quantile(h, probs[i]) / 1e9);
    if (i)
      snprintf(c->note, sizeof c->note, "p%g: %llu %s are too few for p99 (500); the longest %s",
               probs[i] * 100, (unsigned long long)h->n, what, worst);
    return;
  }
  snprintf(c->note, sizeof c->note, "not measured: %llu %s, a median needs 10; the longest %s",
           (unsigned long long)h->n, what, worst);
}

static void set_part(struct check *c, uint64_t part, uint64_t all, const char *otherwise) {
  set(c, all ? (double)part / (double)all : (double)NAN);
  if (all)
    snprintf(c->note, sizeof c->note, "%llu of %llu", (unsigned long long)part,
             (unsigned long long)all);
  else
    snprintf(c->note, sizeof c->note, "not measured: %s", otherwise);
}

static void check_client(const struct probe *p, const struct checks_input *in,
                         struct check out[CHECK_COUNT]) {
  set_lag(&out[CHECK_SCHEDULE_LAG], &p->start_lag, "sessions",
          in->closed_loop ? "a closed loop has no schedule" : "no session was started");
  if (in->closed_loop)
    snprintf(out[CHECK_SCHEDULE_LAG].note, sizeof out[0].note,
             "closed loop: users wait for replies, so while a server stalls no new session arrives "
             "and the stall is undercounted; an open load shows it");
  set_lag(&out[CHECK_WAKE_LAG], &p->timer_late, "timers", "no timer fired");
  set_lag(&out[CHECK_LOOP_LAG], &p->wakeup_busy, "wake-ups", "no wake-up was timed");
  set(&out[CHECK_WORKER_CPU], p->cpu_max);
  if (isnan(p->cpu_max))
    snprintf(out[CHECK_WORKER_CPU].note, sizeof out[0].note,
             "not measured: the window was too short to tell");
  else if (p->n_cpu > 1)
    snprintf(out[CHECK_WORKER_CPU].note, sizeof out[0].note, "worker %u of %u", p->cpu_worker,
             p->n_cpu);
  set_lag(&out[CHECK_READ_LAG], &p->read_error, "reads",
          p->no_kernel_stamp
              ? "the kernel gave no receive timestamps, reads are stamped by the loop"
              : "nothing was received");
  if (p->read_error.n >= stats_quantile_needs(0.99) && p->no_kernel_stamp)
    snprintf(out[CHECK_READ_LAG].note, sizeof out[0].note,
             "%llu of %llu reads had no kernel timestamp", (unsigned long long)p->no_kernel_stamp,
             (unsigned long long)p->no_kernel_stamp + p->read_error.n);
}

/* The kernel's stamps have no error of ours, however late they are read. Where it gave none the
 * loop's stand in, and are off by what reads whose lag is known came late. */
static void check_stamps(const struct probe *p, const struct counts *rows, struct check *c) {
  unsigned long long n = rows->stamped, by_loop = rows->by_loop;
  if (!n) {
    snprintf(c->note, sizeof c->note, "not measured: no good reply was streamed");
  } else if (100 * by_loop <= n) {
    set(c, 0);
    snprintf(c->note, sizeof c->note, "%llu of %llu first tokens have the kernel's stamp",
             n - by_loop, n);
  } else if (p->read_error.n < stats_quantile_needs(0.5)) {
    snprintf(
        c->note, sizeof c->note,
        "not measured: %llu of %llu first tokens have the loop's stamp, not the kernel's, which "
        "is off by up to a wake-up (loop_lag_p99)",
        by_loop, n);
  } else {
    set(c, hist_quantile(&p->read_error, 0.99) / 1e9);
    snprintf(c->note, sizeof c->note,
             "%llu of %llu first tokens have the loop's stamp, not the kernel's: off by as much as "
             "reads came late",
             by_loop, n);
  }
}

/* r2 before r10. */
static int by_name(const void *a, const void *b) {
  return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* "no request went to r1, r4 and 3 more" */
static void name_idle(struct check *c, char **idle, size_t n) {
  qsort(idle, n, sizeof *idle, by_name);
  size_t len = 0, i = 0, room = sizeof c->note - sizeof " and 65535 more";
  for (; i < n; i++) {
    const char *before = i ? ", " : "no request went to ";
    if (len + strlen(before) + strlen(idle[i]) > room)
      break;
    len += (size_t)snprintf(c->note + len, sizeof c->note - len, "%s%s", before, idle[i]);
  }
  if (i < n)
    snprintf(c->note + len, sizeof c->note - len, i ? " and %zu more" : "no request went to %zu",
             n - i);
}

/* One that gets nothing is a fault only where chance hardly ever leaves it out. */
static void judge_idle(const struct placements *p, char **idle, size_t n, size_t given,
                       struct check *c) {
  const char *what = p->sticky ? "session" : "request";
  double chance = placements_idle_chance(p->n, given);
  if (n && chance >= CHECKS_IDLE_CHANCE) {
    snprintf(
        c->note, sizeof c->note,
        "not measured: %llu %s%s over %zu replicas leave%s a given one out by chance in %.2g %% "
        "of runs (%zu got none)",
        (unsigned long long)p->n, what, p->n == 1 ? "" : "s", given, p->n == 1 ? "s" : "",
        100 * chance, n);
  } else {
    set(c, (double)n);
    name_idle(c, idle, n);
  }
}

/* Whether it was out of rotation for so much of the run that chance may have left it out of the
 * rest. */
static bool too_short(double rotation, uint64_t placed, size_t given) {
  return rotation < 1 &&
         placements_idle_chance((uint64_t)(rotation * (double)placed), given) >= CHECKS_IDLE_CHANCE;
}

static void check_replicas(const struct table *t, const struct checks_input *in, uint64_t requests,
                           struct check *c) {
  char **idle = mem_calloc(t->replicas.n, sizeof *idle);
  size_t given = 0, n = 0;
  for (size_t i = 0; i < t->n_replica_flags; i++) {
    given += (t->replica_flags[i] & REPLICA_GIVEN) != 0;
  }
  struct placements p;
  placements_count(&p, t, NULL);
  for (size_t i = 0; i < t->n_replica_flags; i++)
    if (t->replica_flags[i] == REPLICA_GIVEN &&
        !too_short(table_replica_rotation(t, i), p.n, given))
      idle[n++] = t->replicas.items[i];
  if (in->gateway || !given)
    snprintf(c->note, sizeof c->note, "not measured: %s",
             in->gateway ? "a gateway chooses" : "no replica is known by name");
  else if (!requests)
    snprintf(c->note, sizeof c->note, "not measured: no generation request was made");
  else
    judge_idle(&p, idle, n, given, c);
  placements_free(&p);
  mem_free(idle);
}

static void check_sessions(const struct table *t, const struct checks_input *in, struct check *c) {
  if (!in->expectations) {
    snprintf(c->note, sizeof c->note, "not measured: the plan has no expectations");
    return;
  }
  size_t n = 0;
  for (size_t i = 0; i < t->n_sessions; i++)
    n += t->sessions[i].measured;
  set(c, (double)n);
}

/* What the end of the run cut off, of everything but what a script cancelled. */
static void check_incomplete(const struct table *t, const struct checks_input *in,
                             const struct counts *counts, struct check out[CHECK_COUNT]) {
  uint64_t sessions = 0, cut_sessions = 0;
  for (size_t i = 0; i < t->n_sessions; i++) {
    const struct table_session *s = &t->sessions[i];
    if (!s->measured || s->error == SAMPLE_CANCELLED)
      continue;
    sessions++;
    cut_sessions += s->error == SAMPLE_INCOMPLETE;
  }
  struct check *c[] = {&out[CHECK_INCOMPLETE_REQUESTS], &out[CHECK_INCOMPLETE_SESSIONS]};
  if (in->interrupted) {
    for (size_t i = 0; i < ARRAY_LEN(c); i++)
      snprintf(c[i]->note, sizeof c[i]->note,
               "not measured: the run was interrupted, which cut off %llu of %llu",
               (unsigned long long)(i ? cut_sessions : counts->cut_off),
               (unsigned long long)(i ? sessions : counts->asked));
    return;
  }
  set_part(c[0], counts->cut_off, counts->asked, "no request ended");
  if (in->closed_loop) /* its users are always in a session, so its end cuts off one each */
    snprintf(c[1]->note, sizeof c[1]->note,
             "not measured: a closed load ends within sessions, %llu of %llu here",
             (unsigned long long)cut_sessions, (unsigned long long)sessions);
  else
    set_part(c[1], cut_sessions, sessions, "no session ended");
}

#define STALL_WINDOW_S 5.0 /* a shorter window counts as one of so much */

/* Of the worker that stood still most. One standstill of 20 ms is no finding, in however short a
 * run: it is held against a window of some seconds. */
static void check_stalls(const struct table *t, struct check *c) {
  double window = table_window_seconds(t, TABLE_NO_ARM);
  const struct probe *p = &t->probe;
  if (!p->timer_late.n && !p->wakeup_busy.n) {
    snprintf(c->note, sizeof c->note, "not measured: no wake-up was timed");
  } else if (!(window > 0)) {
    snprintf(c->note, sizeof c->note, "not measured: the window has no length");
  } else {
    double share = (double)p->stalled_ns / 1e9 / fmax(window, STALL_WINDOW_S);
    set(c, share < 1 ? share : 1);
    char longest[32];
    units_format_seconds((double)p->longest_stall_ns / 1e9, longest, sizeof longest);
    if (p->stalled_ns)
      snprintf(c->note, sizeof c->note, "the longest took %s", longest);
  }
}

/* What usage has more of answers than their text is no fault by itself, but must not look like one.
 */
static void note_answers(const struct counts *c, struct check *diff) {
  if (!c->answers || (!c->least_more && !c->most_more))
    return;
  if (c->least_more == c->most_more)
    snprintf(diff->note, sizeof diff->note,
             "of each answer usage counts %lld %s than its text has%s",
             (long long)llabs(c->least_more), c->least_more > 0 ? "more" : "fewer",
             c->least_more == 1 && !c->beyond ? " (the stop token, which has no text)" : "");
  else
    snprintf(diff->note, sizeof diff->note,
             "of answers usage counts %lld to %lld more than their text has (the stop token; text "
             "that is cut otherwise)",
             (long long)c->least_more, (long long)c->most_more);
  size_t len = strlen(diff->note);
  if (c->beyond)
    snprintf(diff->note + len, sizeof diff->note - len,
             "; in %llu it is more than was asked for: it counts wrongly",
             (unsigned long long)c->beyond);
}

static void check_rows(const struct table *t, const struct checks_input *in,
                       struct check out[CHECK_COUNT]) {
  struct counts c = count_rows(t, in);
  set_part(&out[CHECK_COALESCED], c.coalesced, c.events, "no output event was received");
  set_part(&out[CHECK_EMPTY_200], c.empty, c.ended, "no generation request ended");
  set_part(&out[CHECK_MISSING_USAGE], c.no_usage, c.ok, "no generation request ended well");
  set_part(&out[CHECK_IMPOSSIBLE_USAGE], c.bad_usage, c.ok, "no generation request ended well");
  set_part(&out[CHECK_SHORT_ANSWERS], c.too_short, c.scripted,
           "no reply had a declared length (max_tokens with ignore_eos)");
  if (c.too_short)
    snprintf(out[CHECK_SHORT_ANSWERS].note, sizeof out[0].note,
             "%llu of %llu, which had %llu of %llu tokens", (unsigned long long)c.too_short,
             (unsigned long long)c.scripted, (unsigned long long)c.got,
             (unsigned long long)c.declared);
  check_stamps(&t->probe, &c, &out[CHECK_MEASUREMENT_ERROR]);
  check_incomplete(t, in, &c, out);
  check_replicas(t, in, c.all, &out[CHECK_IDLE_REPLICA]);
  struct check *diff = &out[CHECK_USAGE_VS_LOCAL];
  if (c.compared) {
    set(diff, (double)c.worst_diff);
    note_answers(&c, diff);
  } else {
    snprintf(diff->note, sizeof diff->note, "not measured: %s",
             in->parity_proven || tokenparity_proven(in->parity, NULL)
                 ? "no reply had both counts (--verify counts prompts on this side too)"
                 : "the tokenizer is not proven to be the server's");
  }
}

static void check_parity(const struct table *t, const struct checks_input *in, struct check *c) {
  struct tokenparity_judgement j;
  tokenparity_judge(t, in->parity, in->parity_missing, &j);
  set(c, j.figure);
  memcpy(c->note, j.note, sizeof c->note);
}

/* A dry run's client takes no time, reads nothing and has no connections. */
static void leave_out_client(struct check out[CHECK_COUNT]) {
  static const enum check_id of_client[] = {
      CHECK_SCHEDULE_LAG, CHECK_WAKE_LAG,   CHECK_LOOP_LAG,
      CHECK_STALLED_TIME, CHECK_WORKER_CPU, CHECK_MEASUREMENT_ERROR,
      CHECK_READ_LAG,     CHECK_CLOCK_STEP, CHECK_DESCRIPTORS};
  for (size_t i = 0; i < ARRAY_LEN(of_client); i++) {
    struct check *c = &out[of_client[i]];
    c->figure = NAN;
    c->ok = true;
    snprintf(c->note, sizeof c->note, "does not apply: virtual time, simulated");
  }
  if (isnan(out[CHECK_TOKEN_PARITY].figure)) {
    set(&out[CHECK_TOKEN_PARITY], 0);
    snprintf(out[CHECK_TOKEN_PARITY].note, sizeof out[0].note,
             "by construction: the fleet tokenizes in this process, with the same files");
  }
}

/* The error of first tokens as it was, where the fleet's own log says when they were written. */
static void check_truth(const struct checks_truth *truth, struct check out[CHECK_COUNT]) {
  struct check *stamps = &out[CHECK_MEASUREMENT_ERROR], *counts = &out[CHECK_GROUND_TRUTH];
  char longest[32];
  if (!truth) {
    snprintf(counts->note, sizeof counts->note,
             "not measured: no log of the servers' own (--verify on the built-in fleet)");
    return;
  }
  bool cut = truth->rows_cut || truth->lines_cut;
  /* a line that is cut is a request that was not compared */
  set(counts, (double)(truth->differing + truth->missing) + truth->rows_cut + truth->lines_cut);
  snprintf(
      counts->note, sizeof counts->note,
      "%llu requests joined with the fleet's log: %llu with other counts, %llu missing there%s",
      (unsigned long long)truth->compared, (unsigned long long)truth->differing,
      (unsigned long long)truth->missing, cut ? "; a file ends in mid-line" : "");
  units_format_seconds(truth->longest_s, longest, sizeof longest);
  if (isnan(truth->ttft_error_s) && isnan(stamps->figure) && truth->n)
    snprintf(
        stamps->note, sizeof stamps->note,
        "not judged: %llu first tokens against the fleet's own log are too few; the largest %s",
        (unsigned long long)truth->n, longest);
  if (isnan(truth->ttft_error_s) || stamps->figure > truth->ttft_error_s)
    return;
  set(stamps, truth->ttft_error_s);
  snprintf(stamps->note, sizeof stamps->note,
           "p%g of %llu first tokens against the fleet's own log, loopback included; largest %s",
           100 * truth->percentile, (unsigned long long)truth->n, longest);
}

/* A signal may end a run before all of it was done; that is said elsewhere. */
static void check_timeline(const struct checks_input *in, struct check *c) {
  uint64_t late = in->interrupted ? 0 : in->timeline_not_begun + in->timeline_cut_off;
  if (!in->timeline) {
    snprintf(c->note, sizeof c->note, "the plan has no timeline");
    return;
  }
  set(c, (double)(in->timeline_failed + late));
  snprintf(c->note, sizeof c->note, "%llu planned: %llu failed, %llu not begun, %llu cut off",
           (unsigned long long)in->timeline, (unsigned long long)in->timeline_failed,
           (unsigned long long)in->timeline_not_begun, (unsigned long long)in->timeline_cut_off);
}

void checks_run(const struct table *t, const struct checks_input *in,
                struct check out[CHECK_COUNT]) {
  for (int i = 0; i < CHECK_COUNT; i++)
    out[i] = (struct check){.name = known[i].name,
                            .meaning = known[i].meaning,
                            .unit = known[i].unit,
                            .kind = known[i].kind,
                            .figure = NAN,
                            .limit = in->limits.limit[i],
                            .minimum = i == CHECK_SESSIONS,
                            .ok = true};
  check_client(&t->probe, in, out);
  check_rows(t, in, out);
  check_stalls(t, &out[CHECK_STALLED_TIME]);
  check_parity(t, in, &out[CHECK_TOKEN_PARITY]);
  check_sessions(t, in, &out[CHECK_SESSIONS]);
  if (in->clock_step_ns == SAMPLE_ABSENT)
    snprintf(out[CHECK_CLOCK_STEP].note, sizeof out[0].note, "not measured");
  else
    set(&out[CHECK_CLOCK_STEP], fabs((double)in->clock_step_ns) / 1e9);
  check_truth(in->truth, out);
  check_timeline(in, &out[CHECK_TIMELINE]);
  set(&out[CHECK_DESCRIPTORS], (double)in->descriptor_hits);
  set(&out[CHECK_LOST_WORKERS], in->lost_workers);
  if (in->lost_workers)
    snprintf(
        out[CHECK_LOST_WORKERS].note, sizeof out[0].note,
        "%llu session%s ran there and count%s as incomplete; requests then in flight are in no "
        "row",
        (unsigned long long)in->lost_sessions, in->lost_sessions == 1 ? "" : "s",
        in->lost_sessions == 1 ? "s" : "");
  if (in->descriptor_hits)
    snprintf(out[CHECK_DESCRIPTORS].note, sizeof out[0].note,
             "raise the limit of open files (ulimit -n) or lower the load");
  if (in->virtual_time)
    leave_out_client(out);
}
