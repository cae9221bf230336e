/* checks.h: is the run worth believing? Named checks, each with its figure and its limit.
 *
 * They judge the measuring, not the measured: the client's own lateness, its accuracy, replies that
 * make figures meaningless. One that does not hold makes the run invalid (exit status 98). Limits
 * are DESIGN.md's (Validity) and each can be set. */
#ifndef OUT_CHECKS_H
#define OUT_CHECKS_H

#include "base/err.h"
#include "base/units.h"
#include "out/table.h"

enum check_id {
  CHECK_SCHEDULE_LAG,      /* schedule_lag_p99: sessions start late (open load) */
  CHECK_WAKE_LAG,          /* wake_lag_p99: timers fire late */
  CHECK_LOOP_LAG,          /* loop_lag_p99: one wake-up keeps the loop busy */
  CHECK_STALLED_TIME,      /* stalled_time: share of the window in which a worker stood still */
  CHECK_WORKER_CPU,        /* worker_cpu: the busiest worker's share of a core */
  CHECK_MEASUREMENT_ERROR, /* measurement_error_p99: of the stamps that figures are made of */
  CHECK_READ_LAG,          /* read_lag_p99: read − received by the kernel, which no figure has */
  CHECK_COALESCED,         /* coalesced_events: output events that shared a read */
  CHECK_EMPTY_200,         /* empty_200: status 200 without a byte of answer */
  CHECK_MISSING_USAGE,     /* missing_usage: ok replies without token counts */
  CHECK_IMPOSSIBLE_USAGE,  /* impossible_usage: ok replies whose token counts cannot be true */
  CHECK_INCOMPLETE_REQUESTS, /* incomplete_requests: cut off at the end, so never judged */
  CHECK_INCOMPLETE_SESSIONS, /* incomplete_sessions: the same of sessions */
  CHECK_SHORT_ANSWERS,       /* short_answers: fewer tokens than the reply was told to have */
  CHECK_CLOCK_STEP,          /* clock_step: wall clock against monotonic clock */
  CHECK_DESCRIPTORS,         /* descriptors: the limit of open files or ports was hit */
  CHECK_TOKEN_PARITY,        /* token_parity: servers that make other tokens of a prompt than we */
  CHECK_USAGE_VS_LOCAL,      /* usage_vs_local: counts differ although the tokenizer is exact */
  CHECK_IDLE_REPLICA,        /* idle_replica: replicas of the run that got no request */
  CHECK_SESSIONS,            /* sessions: measured ones that ended, where expectations need them */
  CHECK_GROUND_TRUTH,        /* ground_truth: requests that the fleet's own log has otherwise */
  CHECK_TIMELINE,            /* timeline: actions of the plan that were not done */
  CHECK_LOST_WORKERS,        /* lost_workers: threads that did not come back from a script */
  CHECK_COUNT
};

/* A replica without a request is judged where chance leaves it out less often than this. */
#define CHECKS_IDLE_CHANCE 1e-4

struct checks_limits {
  double limit[CHECK_COUNT]; /* base units: seconds, ratios, counts */
};
struct checks_limits checks_default_limits(void);
/* "wake_lag_p99", "20ms". ERR_INVALID names the nearest check. */
NODISCARD int checks_set_limit(struct checks_limits *l, const char *name, const char *text,
                               struct err *err);

/* What the join with the fleet's truth log found (verify.h). */
struct checks_truth {
  uint64_t n;          /* first tokens that were compared */
  double ttft_error_s; /* size of their error at `percentile`, NAN when there are too few */
  double percentile;   /* 0.99, or the highest there are enough for */
  double longest_s;    /* the largest */
  uint64_t compared, differing, missing; /* joined requests; with another token count; good ones
                                            that the log does not have */
  bool rows_cut, lines_cut;              /* the rows, the log end in the middle of a line */
};

/* What the table does not know. */
struct checks_input {
  struct checks_limits limits;
  bool closed_loop; /* the load waits for replies: no arrival schedule to be late on */
  /* Of prompts and answers: the built-in fleet with `bytes`. Prompts alone are also judged where
   * `parity` proves it; what an answer's text is tokenized to need not be what was generated. */
  bool parity_proven;
  const struct value *parity; /* what was compared before the load (tokenparity.h); NULL: nothing */
  const char *parity_missing; /* and why not */
  int64_t clock_step_ns; /* largest change of wall − monotonic time; SAMPLE_ABSENT: not watched */
  uint64_t descriptor_hits; /* times a descriptor or a port could not be had */
  bool gateway;             /* requests went to a gateway, which chooses the replica */
  size_t expectations;      /* of the plan; without any the number of sessions is not judged */
  const struct checks_truth *truth; /* NULL: there was nothing to compare with */
  bool virtual_time;                /* a dry run: what a client can be late with does not apply */
  bool interrupted;                 /* by a signal, which cut off what was going on */
  uint32_t lost_workers;            /* given up; with the sessions that ran on them */
  uint64_t lost_sessions;
  uint64_t timeline, timeline_failed, timeline_not_begun, timeline_cut_off; /* of the plan */
};

struct check {
  const char *name, *meaning;
  const char *unit; /* "s", "ratio", "tokens", "times", "replicas", "servers", "sessions",
                       "actions", "workers" */
  enum units_kind kind;
  double figure; /* NAN: not measured, which is said in `note` and breaks nothing */
  double limit;  /* the figure may reach it */
  bool minimum;  /* and must */
  bool ok;
  char note[200]; /* "" = none */
};

/* All checks, in the order of enum check_id. */
void checks_run(const struct table *t, const struct checks_input *in,
                struct check out[CHECK_COUNT]);
bool checks_valid(const struct check checks[CHECK_COUNT]);
/* Array of {name, figure, limit, minimum, unit, ok, note, meaning}. */
struct value checks_value(const struct check checks[CHECK_COUNT]);

#endif
