/* metrics.h: the one list of metrics, with unit and meaning: reports, expectations and docs read
 * it.
 *
 * The names are those of API.md; what each means is DESIGN.md, "What is measured". What a plan
 * declares in `metrics = { name = "unit" }` joins the list of its run, and so do its service level
 * objectives, which `goodput` is made of. Metrics that later parts of perigee fill are in the list,
 * simply without data. */
#ifndef OUT_METRICS_H
#define OUT_METRICS_H

#include "base/err.h"
#include "base/units.h"
#include "out/table.h"

#define METRICS_NAME_MAX 200 /* bytes of a name that a script gives, and of a tag's value */

enum metric_id {
  METRIC_TTFT,
  METRIC_TTFT_SCHED,
  METRIC_TTFT_SENT,
  METRIC_FIRST_VISIBLE,
  METRIC_ITL,
  METRIC_ITL_TOKEN,
  METRIC_TPOT,
  METRIC_E2E,
  METRIC_START_LAG,
  METRIC_WAKE_LAG,
  METRIC_LOOKUP_TIME,
  METRIC_LOOKUP_SERVER_TIME,
  METRIC_CLIENT_OVERHEAD,
  METRIC_COLD_PATH_OVERHEAD,
  METRIC_ROUTE_FALLBACK,
  METRIC_PROMPT_TOKENS,
  METRIC_OUTPUT_TOKENS,
  METRIC_CACHED_TOKENS,
  METRIC_CACHED_RATIO,
  METRIC_SURVIVED_TOKENS,
  METRIC_POSSIBLE,
  METRIC_AVAILABLE,
  METRIC_CAPTURED,
  METRIC_DELIVERED,
  METRIC_REGRET,
  METRIC_MATCHED_TOKENS,
  METRIC_FAILED,
  METRIC_GOODPUT,
  METRIC_REQUESTS,
  METRIC_SESSIONS,
  METRIC_SESSION_TIME,
  METRIC_REPLICA_SHARE,
  METRIC_TOKEN_COUNT_DIFF,
  METRIC_MEASUREMENT_ERROR,
  METRIC_EVENT_LAG,
  METRIC_OUTPUT_RATE,
  METRIC_INCOMPLETE,
  METRIC_CHECKS,
  METRIC_BUILTIN_COUNT,
  METRIC_SCRIPT = METRIC_BUILTIN_COUNT /* declared by the plan */
};

/* What one value of the metric belongs to. */
enum metric_domain {
  METRIC_OF_REQUEST, /* one value per generation request */
  METRIC_OF_GAP,     /* per gap between output events */
  METRIC_OF_SESSION,
  METRIC_OF_REPLICA,
  METRIC_OF_CLIENT, /* the client process as a whole: a histogram, no arm, no tags, no sessions */
  METRIC_OF_SCRIPT, /* vu:record, vu:check */
  METRIC_LATER      /* nothing in this version fills it; `needs` says what will */
};

struct metric {
  const char *name, *unit, *meaning;
  const char *needs; /* what must be there for it to have data, NULL: any run has it */
  enum metric_id id;
  enum metric_domain domain;
  enum units_kind kind; /* what a bound on it may look like */
  bool indicator;       /* 0 or 1 per request or session: share, count and rate make sense */
  bool failures_beside; /* a latency: its percentiles leave failed requests out */
  double scale;         /* base units per recorded unit (script metrics in "ms": 0.001), else 1 */
};

enum statistic {
  STAT_MEAN,
  STAT_MIN,
  STAT_MAX,
  STAT_SUM,
  STAT_COUNT,
  STAT_SHARE,
  STAT_RATE,
  STAT_QUANTILE /* p50 p90 p95 p99 p99.9 */
};

/* One objective of the plan's `slo`: broken when the metric is above (out/goodput.h). */
struct slo {
  const struct metric *metric;
  double max; /* base units */
};

struct metrics {
  struct metric **items; /* built-in ones in API.md's order, then the plan's in declaration order */
  size_t n, cap;
  struct slo *slos;
  size_t n_slos, cap_slos;
};

void metrics_init(struct metrics *m);
void metrics_free(struct metrics *m);

/* A metric of the plan. `unit`: "s" "ms" "us" "B" "KiB" "%" "ratio" "tokens" or any word.
 * ERR_INVALID: not an identifier, the name is taken. */
NODISCARD int metrics_declare(struct metrics *m, const char *name, const char *unit,
                              struct err *err);
/* `limit` is a time with its unit ("400ms"). ERR_INVALID: unknown metric, one that is no time of a
 * request's user (more of some is better), a limit of another unit or of none. */
NODISCARD int metrics_add_slo(struct metrics *m, const char *name, const char *limit,
                              struct err *err);

const struct metric *metrics_get(const struct metrics *m, enum metric_id id);
/* NULL when there is none of that name. */
const struct metric *metrics_find(const struct metrics *m, const char *name);
/* ERR_INVALID with "unknown metric "x" (did you mean "y"?)". */
NODISCARD int metrics_require(const struct metrics *m, const char *name, const struct metric **out,
                              struct err *err);
/* ERR_INVALID for METRIC_LATER: "regret needs the token ledger, which is not in this version". */
NODISCARD int metrics_available(const struct metric *metric, struct err *err);
/* Array of {name, unit, meaning}, for documents; a metric of a later version says so. */
struct value metrics_value(const struct metrics *m);

/* Whether the statistic says anything about the metric; on failure the text says which would. */
NODISCARD int metrics_check_stat(const struct metric *metric, enum statistic stat, struct err *err);
/* What a bound on this statistic may look like: a rate is per second, a share a ratio. */
enum units_kind metrics_stat_kind(const struct metric *metric, enum statistic stat);

/* A value of the metric for one request, in the unit of the table (times in ns); NAN when it has
 * none. Only for METRIC_OF_REQUEST. */
double metrics_of_row(const struct metrics *m, const struct metric *metric,
                      const struct table_row *row);
/* A good stream of more than one token whose events all have one stamp, that of the read they came
 * in: it has no tpot. */
bool metrics_same_read(const struct table_row *row);
/* What to divide such a value by to get base units: 1e9 for times, else 1. */
double metrics_divisor(const struct metric *metric);

#endif
