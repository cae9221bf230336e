/* summary_group.c: the metrics of one group (the run, or an arm), with intervals.
 *
 * Every distribution wanted is a cell; all cells are collected in one walk of the table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "out/goodput.h"
#include "out/interval.h"
#include "out/series.h"
#include "out/stats.h"
#include "out/summary.h"

static const double probs[] = {0.5, 0.9, 0.95, 0.99};
static const char *const prob_names[] = {"p50", "p90", "p95", "p99"};
#define N_PROBS ARRAY_LEN(probs)

struct cell {
  const struct metric *metric;
  struct series series;
  double rate; /* of an indicator */
};

#define MAX_TURN_ROWS 8 /* the last one holds all later turns */
static const enum metric_id turn_metrics[] = {METRIC_TTFT, METRIC_CACHED_RATIO};

/* The cells of the metrics, then those of the turns: per turn row one for each of turn_metrics. */
struct cells {
  struct cell *items;
  size_t n, n_metrics;
  char turn_labels[MAX_TURN_ROWS][24];
  size_t n_turns;
  uint32_t last_turn;
  uint32_t n_clusters;
};

static bool counts_only(const struct metric *metric) {
  return metric->id == METRIC_REQUESTS || metric->id == METRIC_SESSIONS;
}

static void free_cells(struct cells *c) {
  for (size_t i = 0; i < c->n; i++)
    series_free(&c->items[i].series);
  mem_free(c->items);
}

/* ---- one metric ---- */

/* With few sessions the interval of a mean reaches beyond what there can be: no ratio is below 0 or
 * above 1, no time and no number of tokens below 0. What a script records may be anything. */
static void keep_possible(const struct metric *metric, double *lo, double *hi) {
  if (metric->id == METRIC_SCRIPT || metric->id == METRIC_TOKEN_COUNT_DIFF)
    return;
  *lo = fmax(*lo, 0);
  if (metric->kind == UNITS_RATIO)
    *hi = fmin(*hi, 1);
}

/* [low, high], or null and in `reasons` why there is none. p < 0: of the mean. */
static void set_interval(struct value *ci, struct value *reasons, const char *name,
                         const struct cell *cell, double p, uint32_t n_clusters) {
  const struct series *s = &cell->series;
  bool mean = p < 0;
  const struct interval_side side = {.x = s->x,
                                     .cluster = s->cluster,
                                     .n = s->n,
                                     .of = !mean                     ? INTERVAL_QUANTILE
                                           : cell->metric->indicator ? INTERVAL_SHARE
                                                                     : INTERVAL_MEAN,
                                     .p = p};
  double lo = NAN, hi = NAN;
  if (s->x && s->n_sessions && interval_of_side(&side, n_clusters, 0.95, &lo, &hi)) {
    struct value *pair = value_set(ci, name, value_array());
    lo /= s->div;
    hi /= s->div;
    keep_possible(cell->metric, &lo, &hi);
    value_push(pair, summary_number(lo));
    value_push(pair, summary_number(hi));
    return;
  }
  value_set(ci, name, value_null());
  char why[120];
  interval_why(s->x ? s->n_sessions : 0, p, why, sizeof why);
  if (s->n)
    value_set(reasons, name, value_cstring(s->x && s->n_sessions ? why : "not kept by session"));
}

/* p50 … p99 with their intervals; one that is refused is null, and `refused` gives the n it needs.
 */
static void set_percentiles(struct value *v, const struct cell *cell, uint32_t n_clusters) {
  struct value ci = value_object(), refused = value_object(), reasons = value_object();
  set_interval(&ci, &reasons, "mean", cell, -1, n_clusters);
  for (size_t q = 0; q < N_PROBS; q++) {
    uint64_t needs = stats_quantile_needs(probs[q]);
    if (cell->series.n < needs) {
      value_set(v, prob_names[q], value_null());
      value_set(&ci, prob_names[q], value_null());
      value_set(&refused, prob_names[q], value_int((int64_t)needs));
      continue;
    }
    value_set(v, prob_names[q],
              summary_number(series_stat(&cell->series, cell->metric, STAT_QUANTILE, probs[q])));
    set_interval(&ci, &reasons, prob_names[q], cell, probs[q], n_clusters);
  }
  value_set(v, "ci95", ci);
  value_set(v, "ci95_reason", reasons);
  value_set(v, "refused", refused);
}

static void set_indicator(struct value *v, const struct cell *cell, uint32_t n_clusters) {
  const struct metric *metric = cell->metric;
  value_set(v, "count", value_int((int64_t)series_stat(&cell->series, metric, STAT_COUNT, 0)));
  value_set(v, "rate", summary_number(cell->rate));
  if (counts_only(metric))
    return;
  double share = series_stat(&cell->series, metric, STAT_SHARE, 0);
  value_set(v, "share", summary_number(share));
  value_set(v, "mean", summary_number(share));
  struct value ci = value_object(), reasons = value_object();
  set_interval(&ci, &reasons, "mean", cell, -1, n_clusters);
  value_set(v, "ci95", ci);
  value_set(v, "ci95_reason", reasons);
  value_set(v, "sessions", value_int(cell->series.n_sessions));
}

static struct value cell_value(const struct cell *cell, uint32_t n_clusters) {
  const struct metric *metric = cell->metric;
  const struct series *s = &cell->series;
  struct value v = value_object();
  value_set(&v, "unit", value_cstring(metric->unit));
  value_set(&v, "n", value_int((int64_t)s->n));
  if (metric->indicator) {
    set_indicator(&v, cell, n_clusters);
    return v;
  }
  double mean = series_stat(s, metric, STAT_MEAN, 0);
  value_set(&v, "mean", summary_number(mean));
  value_set(&v, "sd",
            summary_number(s->x ? stats_sd(s->x, s->n, mean * s->div) / s->div : (double)NAN));
  value_set(&v, "min", summary_number(series_stat(s, metric, STAT_MIN, 0)));
  value_set(&v, "max", summary_number(series_stat(s, metric, STAT_MAX, 0)));
  value_set(&v, "sum", summary_number(series_stat(s, metric, STAT_SUM, 0)));
  set_percentiles(&v, cell, n_clusters);
  value_set(&v, "sessions", value_int(s->n_sessions));
  if (metric->id == METRIC_TPOT) {
    value_set(&v, "first_tokens_assumed", value_int((int64_t)s->assumed));
    value_set(&v, "same_read", value_int((int64_t)s->same_read));
  }
  value_set(&v, "method", value_cstring(s->hist ? "histogram" : "exact"));
  if (s->hist)
    value_set(&v, "relative_error", value_double(HIST_RELATIVE_ERROR));
  return v;
}

/* ---- the "as infinity" variant ---- */

/* What failed and what was cut off count as never answered: leaving out the slow ones improves
 * nothing. */
static void set_infinity(struct value *out, const struct cell *cell, uint64_t failed,
                         uint64_t incomplete) {
  const struct series *s = &cell->series;
  uint64_t unanswered = failed + incomplete;
  struct value *v = value_set(out, cell->metric->name, value_object());
  struct value reason = value_object();
  value_set(v, "n", value_int((int64_t)(s->n + unanswered)));
  value_set(v, "failed", value_int((int64_t)failed));
  value_set(v, "incomplete", value_int((int64_t)incomplete));
  for (size_t q = 0; q < N_PROBS; q++) {
    bool enough = s->n + unanswered >= stats_quantile_needs(probs[q]);
    double x =
        enough ? stats_quantile_infinite(s->x, s->n, (size_t)unanswered, probs[q]) : (double)NAN;
    value_set(v, prob_names[q], summary_number(x / s->div));
    if (!isfinite(x))
      value_set(&reason, prob_names[q], value_cstring(enough ? "infinite" : "too few samples"));
  }
  value_set(v, "reason", reason);
}

/* ---- collecting ---- */

static uint32_t last_turn(const struct table *t, const struct filter *group) {
  struct filter_use use;
  filter_use_init(&use, group, t);
  uint32_t last = 0;
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if ((r->flags & ROW_MEASURED) && r->turn > last && filter_match_row(&use, r))
      last = r->turn;
  }
  filter_use_free(&use);
  return last;
}

/* Each of the first turns, and all later ones: their labels, and filters the caller frees. */
static void plan_turns(struct cells *c, const struct table *t, const struct filter *group,
                       struct filter filters[MAX_TURN_ROWS]) {
  uint32_t last = c->last_turn = last_turn(t, group);
  for (uint32_t i = 0; i < MAX_TURN_ROWS && i < last; i++) {
    char *label = c->turn_labels[c->n_turns++], range[16];
    bool open = i + 1 == MAX_TURN_ROWS; /* and every later one */
    if (open && last > MAX_TURN_ROWS)
      snprintf(label, sizeof c->turn_labels[0], "%u–%u", i + 1, last);
    else
      snprintf(label, sizeof c->turn_labels[0], "%u", i + 1);
    snprintf(range, sizeof range, open ? "%u.." : "%u", i + 1);
    filters[i] = (struct filter){.arm = group && group->arm ? mem_strdup(group->arm) : NULL};
    int rc = filter_add(&filters[i], "turn", range, NULL);
    assert(rc == 0);
    (void)rc;
  }
}

static void fill_cells(struct cells *c, const struct series_want *want, const struct table *t,
                       const struct metrics *m) {
  struct series *series = mem_calloc(c->n, sizeof *series);
  series_collect_all(series, want, c->n, t, m);
  c->items = mem_calloc(c->n, sizeof *c->items);
  for (size_t i = 0; i < c->n; i++) {
    struct cell *cell = &c->items[i];
    *cell = (struct cell){.metric = want[i].metric, .series = series[i], .rate = NAN};
    if (!cell->metric->indicator)
      series_sort(&cell->series);
  }
  mem_free(series);
}

static void fill_rates(struct cells *c, const struct table *t, const struct metrics *m,
                       const struct filter *f) {
  const struct metric **of = mem_calloc(c->n_metrics, sizeof *of);
  double *rates = mem_calloc(c->n_metrics, sizeof *rates);
  size_t n = 0;
  for (size_t i = 0; i < c->n_metrics; i++)
    if (c->items[i].metric->indicator)
      of[n++] = c->items[i].metric;
  series_rates(rates, of, n, t, m, f);
  n = 0;
  for (size_t i = 0; i < c->n_metrics; i++)
    if (c->items[i].metric->indicator)
      c->items[i].rate = rates[n++];
  mem_free(of);
  mem_free(rates);
}

static void collect(struct cells *c, const struct table *t, const struct metrics *m,
                    const struct filter *group) {
  struct filter turns[MAX_TURN_ROWS] = {{0}};
  bool whole = !group;
  struct series_want *want =
      mem_calloc(m->n + MAX_TURN_ROWS * ARRAY_LEN(turn_metrics), sizeof *want);
  for (size_t i = 0; i < m->n; i++) {
    enum metric_domain domain = m->items[i]->domain;
    if (domain != METRIC_LATER && (whole || domain != METRIC_OF_CLIENT))
      want[c->n_metrics++] = (struct series_want){m->items[i], group};
  }
  c->n = c->n_metrics;
  plan_turns(c, t, group, turns);
  for (size_t k = 0; k < c->n_turns; k++)
    for (size_t i = 0; i < ARRAY_LEN(turn_metrics); i++)
      want[c->n++] = (struct series_want){metrics_get(m, turn_metrics[i]), &turns[k]};
  fill_cells(c, want, t, m);
  fill_rates(c, t, m, group);
  for (size_t k = 0; k < MAX_TURN_ROWS; k++)
    filter_free(&turns[k]);
  mem_free(want);
}

/* ---- group ---- */

/* How the requests of each turn ended. */
struct turn_counts {
  uint64_t requests, failed, incomplete;
};

static void count_turns(struct turn_counts counts[MAX_TURN_ROWS], const struct table *t,
                        const struct filter *group) {
  struct filter_use use;
  filter_use_init(&use, group, t);
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!(r->flags & ROW_MEASURED) || !(r->flags & ROW_GENERATION) || !r->turn ||
        !filter_match_row(&use, r))
      continue;
    struct turn_counts *c = &counts[r->turn < MAX_TURN_ROWS ? r->turn - 1 : MAX_TURN_ROWS - 1];
    c->requests++;
    c->failed += sample_error_failed((enum sample_error)r->error);
    c->incomplete += r->error == SAMPLE_INCOMPLETE;
  }
  filter_use_free(&use);
}

static void set_turns(struct value *out, const struct cells *c, const struct table *t,
                      const struct filter *group) {
  struct turn_counts counts[MAX_TURN_ROWS] = {{0}};
  count_turns(counts, t, group);
  struct value *turns = value_set(out, "turns", value_array());
  const struct cell *cell = c->items + c->n_metrics;
  for (size_t k = 0; k < c->n_turns; k++) {
    struct value *v = value_push(turns, value_object());
    value_set(v, "turn", value_cstring(c->turn_labels[k]));
    value_set(v, "from", value_int((int64_t)k + 1));
    value_set(v, "to", value_int(k + 1 < MAX_TURN_ROWS ? (int64_t)k + 1 : c->last_turn));
    value_set(v, "requests", value_int((int64_t)counts[k].requests));
    value_set(v, "failed", value_int((int64_t)counts[k].failed));
    value_set(v, "incomplete", value_int((int64_t)counts[k].incomplete));
    for (size_t i = 0; i < ARRAY_LEN(turn_metrics); i++, cell++)
      value_set(v, cell->metric->name, cell_value(cell, c->n_clusters));
  }
}

/* Generation requests that gave no value: of all, and of those that asked for a stream. */
struct unanswered {
  uint64_t failed[2], incomplete[2];
};

static struct unanswered count_unanswered(const struct table *t, const struct filter *group) {
  struct unanswered u = {{0}, {0}};
  struct filter_use use;
  filter_use_init(&use, group, t);
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!(r->flags & ROW_MEASURED) || !(r->flags & ROW_GENERATION) || !filter_match_row(&use, r))
      continue;
    bool failed = sample_error_failed((enum sample_error)r->error);
    bool incomplete = r->error == SAMPLE_INCOMPLETE, stream = r->flags & ROW_STREAM_ASKED;
    u.failed[0] += failed;
    u.incomplete[0] += incomplete;
    u.failed[1] += failed && stream;
    u.incomplete[1] += incomplete && stream;
  }
  filter_use_free(&use);
  return u;
}

static void set_metrics(struct value *out, const struct cells *c, const struct table *t,
                        const struct filter *group, bool with_meaning) {
  struct unanswered u = count_unanswered(t, group);
  struct value metrics = value_object(), infinity = value_object();
  for (size_t i = 0; i < c->n_metrics; i++) {
    const struct cell *cell = &c->items[i];
    struct value *v = value_set(&metrics, cell->metric->name, cell_value(cell, c->n_clusters));
    if (with_meaning)
      value_set(v, "meaning", value_cstring(cell->metric->meaning));
    if (!cell->metric->failures_beside)
      continue;
    int streams = cell->metric->id != METRIC_E2E; /* a whole reply has an end and no first token */
    value_set(v, "failed", value_int((int64_t)u.failed[streams]));
    value_set(v, "incomplete", value_int((int64_t)u.incomplete[streams]));
    if (t->has_generation && cell->metric->domain == METRIC_OF_REQUEST &&
        cell->metric->id != METRIC_TPOT)
      set_infinity(&infinity, cell, u.failed[streams], u.incomplete[streams]);
  }
  value_set(out, "metrics", metrics);
  value_set(out, "as_infinity", infinity);
}

/* Beside goodput: which objective was broken how often, and what could not be judged. */
static void set_objectives(struct value *out, const struct table *t, const struct metrics *m,
                           const struct filter *f) {
  struct value *v = value_get(value_get(out, "metrics"), "goodput");
  struct filter_use use;
  struct goodput_counts c;
  filter_use_init(&use, f, t);
  goodput_count(&c, t, m, &use);
  value_set(v, "unjudged", value_int((int64_t)c.unjudged));
  value_set(v, "objectives", goodput_value(m, &c));
  goodput_free(&c);
  filter_use_free(&use);
}

void summary_group(const struct table *t, const struct summary_options *options, const char *arm,
                   struct value *out) {
  struct filter group = {.arm = arm ? mem_strdup(arm) : NULL};
  const struct filter *f = arm ? &group : NULL;
  summary_counts(t, options, f, out);
  struct cells c = {.n_clusters = t->n_clusters};
  collect(&c, t, options->metrics, f);
  set_metrics(out, &c, t, f, !arm);
  set_objectives(out, t, options->metrics, f);
  set_turns(out, &c, t, f);
  summary_tags(t, options, f, out);
  summary_values(t, options, f, out);
  free_cells(&c);
  filter_free(&group);
}
