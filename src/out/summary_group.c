/* summary_group.c: the metrics of one group (the run, or an arm), with intervals.
 *
 * Every distribution wanted is a cell; all cells are collected and sorted first, then resampled
 * together, so that one set of weights serves them all. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "out/bootstrap.h"
#include "out/goodput.h"
#include "out/series.h"
#include "out/stats.h"
#include "out/summary.h"

static const double probs[] = {0.5, 0.9, 0.95, 0.99};
static const char *const prob_names[] = {"p50", "p90", "p95", "p99"};
#define N_PROBS ARRAY_LEN(probs)

struct cell {
  const struct metric *metric;
  struct series series;
  double rate;  /* of an indicator */
  size_t width; /* columns of `rows`: the mean and perhaps the quantiles; 0: not resampled */
  double *rows;
};

#define MAX_TURN_ROWS 3
static const enum metric_id turn_metrics[] = {METRIC_TTFT, METRIC_CACHED_RATIO};

/* The cells of the metrics, then those of the turns: per turn row one for each of turn_metrics. */
struct cells {
  struct cell *items;
  size_t n, n_metrics;
  char turn_labels[MAX_TURN_ROWS][24];
  size_t n_turns;
  uint32_t last_turn;
  uint32_t replicates;
};

static bool counts_only(const struct metric *metric) {
  return metric->id == METRIC_REQUESTS || metric->id == METRIC_SESSIONS;
}

static void resample(struct cells *c, const struct table *t, uint64_t seed) {
  struct bootstrap_job *jobs = mem_calloc(c->n, sizeof *jobs);
  size_t n_jobs = 0, total = 0;
  for (size_t i = 0; i < c->n; i++)
    total += c->items[i].width ? c->items[i].series.n : 0;
  c->replicates = bootstrap_replicates(total);
  for (size_t i = 0; i < c->n; i++) {
    struct cell *cell = &c->items[i];
    if (!cell->width)
      continue;
    cell->rows = mem_calloc(c->replicates, cell->width * sizeof(double));
    jobs[n_jobs++] = (struct bootstrap_job){.x = cell->series.x,
                                            .cluster = cell->series.cluster,
                                            .n = cell->series.n,
                                            .probs = probs,
                                            .n_probs = cell->width - 1,
                                            .out = cell->rows};
  }
  bootstrap_run(jobs, n_jobs, t->n_clusters, c->replicates, seed);
  mem_free(jobs);
}

static void free_cells(struct cells *c) {
  for (size_t i = 0; i < c->n; i++) {
    series_free(&c->items[i].series);
    mem_free(c->items[i].rows);
  }
  mem_free(c->items);
}

/* ---- one metric ---- */

static void set_interval(struct value *ci, const char *name, const struct cell *cell, size_t column,
                         uint32_t replicates) {
  double lo = NAN, hi = NAN;
  if (!cell->width || !bootstrap_interval(cell->rows, cell->width, column, replicates,
                                          cell->series.n_sessions, &lo, &hi)) {
    value_set(ci, name, value_null());
    return;
  }
  struct value *pair = value_set(ci, name, value_array());
  value_push(pair, summary_number(lo / cell->series.div));
  value_push(pair, summary_number(hi / cell->series.div));
}

/* p50 … p99 with their intervals; one that is refused is null, and `refused` gives the n it needs.
 */
static void set_percentiles(struct value *v, const struct cell *cell, uint32_t replicates) {
  struct value ci = value_object(), refused = value_object();
  set_interval(&ci, "mean", cell, 0, replicates);
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
    set_interval(&ci, prob_names[q], cell, 1 + q, replicates);
  }
  value_set(v, "ci95", ci);
  value_set(v, "refused", refused);
}

static void set_indicator(struct value *v, const struct cell *cell, uint32_t replicates) {
  const struct metric *metric = cell->metric;
  value_set(v, "count", value_int((int64_t)series_stat(&cell->series, metric, STAT_COUNT, 0)));
  value_set(v, "rate", summary_number(cell->rate));
  if (counts_only(metric))
    return;
  double share = series_stat(&cell->series, metric, STAT_SHARE, 0);
  value_set(v, "share", summary_number(share));
  value_set(v, "mean", summary_number(share));
  struct value *ci = value_set(v, "ci95", value_object());
  set_interval(ci, "mean", cell, 0, replicates);
}

static struct value cell_value(const struct cell *cell, uint32_t replicates) {
  const struct metric *metric = cell->metric;
  const struct series *s = &cell->series;
  struct value v = value_object();
  value_set(&v, "unit", value_cstring(metric->unit));
  value_set(&v, "n", value_int((int64_t)s->n));
  if (metric->indicator) {
    set_indicator(&v, cell, replicates);
    return v;
  }
  double mean = series_stat(s, metric, STAT_MEAN, 0);
  value_set(&v, "mean", summary_number(mean));
  value_set(&v, "sd",
            summary_number(s->x ? stats_sd(s->x, s->n, mean * s->div) / s->div : (double)NAN));
  value_set(&v, "min", summary_number(series_stat(s, metric, STAT_MIN, 0)));
  value_set(&v, "max", summary_number(series_stat(s, metric, STAT_MAX, 0)));
  value_set(&v, "sum", summary_number(series_stat(s, metric, STAT_SUM, 0)));
  set_percentiles(&v, cell, replicates);
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

/* Turn 1, turn 2, and all later ones: their labels, and filters the caller frees. */
static void plan_turns(struct cells *c, const struct table *t, const struct filter *group,
                       struct filter filters[MAX_TURN_ROWS]) {
  static const char *const ranges[MAX_TURN_ROWS] = {"1", "2", "3.."};
  uint32_t last = c->last_turn = last_turn(t, group);
  for (uint32_t i = 0; i < MAX_TURN_ROWS && i < last; i++) {
    char *label = c->turn_labels[c->n_turns++];
    if (i == 2 && last > 3)
      snprintf(label, sizeof c->turn_labels[0], "3–%u", last);
    else
      snprintf(label, sizeof c->turn_labels[0], "%u", i + 1);
    filters[i] = (struct filter){.arm = group && group->arm ? mem_strdup(group->arm) : NULL};
    int rc = filter_add(&filters[i], "turn", ranges[i], NULL);
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
    if (cell->series.x && cell->series.n_sessions >= 2 && !counts_only(cell->metric) &&
        cell->series.n <= BOOTSTRAP_MAX_SAMPLES)
      cell->width = cell->metric->indicator ? 1 : 1 + N_PROBS;
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
      value_set(v, cell->metric->name, cell_value(cell, c->replicates));
  }
}

static void set_metrics(struct value *out, const struct cells *c, bool with_meaning) {
  const struct value *requests = value_get(out, "requests");
  int64_t failed = 0, incomplete = 0;
  value_to_int(value_get(requests, "failed"), &failed);
  value_to_int(value_get(requests, "incomplete"), &incomplete);
  struct value metrics = value_object(), infinity = value_object();
  for (size_t i = 0; i < c->n_metrics; i++) {
    const struct cell *cell = &c->items[i];
    struct value *v = value_set(&metrics, cell->metric->name, cell_value(cell, c->replicates));
    if (with_meaning)
      value_set(v, "meaning", value_cstring(cell->metric->meaning));
    if (!cell->metric->failures_beside)
      continue;
    value_set(v, "failed", value_int(failed));
    value_set(v, "incomplete", value_int(incomplete));
    if (cell->metric->domain == METRIC_OF_REQUEST && cell->metric->id != METRIC_TPOT)
      set_infinity(&infinity, cell, (uint64_t)failed, (uint64_t)incomplete);
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
  struct cells c = {0};
  collect(&c, t, options->metrics, f);
  resample(&c, t, options->seed);
  set_metrics(out, &c, !arm);
  set_objectives(out, t, options->metrics, f);
  set_turns(out, &c, t, f);
  summary_tags(t, options, f, out);
  summary_values(t, options, f, out);
  free_cells(&c);
  filter_free(&group);
}
