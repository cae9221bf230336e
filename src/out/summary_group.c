/* summary_group.c: the metrics of one group (the run, or an arm), with intervals.
 *
 * Every distribution wanted is a cell; all cells are collected and sorted first, then resampled
 * together, so that one set of weights serves them all. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "out/bootstrap.h"
#include "out/series.h"
#include "out/stats.h"
#include "out/summary.h"

static const double probs[] = {0.5, 0.9, 0.95, 0.99};
static const char *const prob_names[] = {"p50", "p90", "p95", "p99"};
#define N_PROBS ARRAY_LEN(probs)

struct cell {
  const struct metric *metric;
  struct series series;
  size_t width; /* columns of `rows`: the mean and perhaps the quantiles; 0: not resampled */
  double *rows;
  char label[24]; /* of a turn cell */
};

struct cells {
  struct cell *items;
  size_t n, cap;
  uint32_t replicates;
};

static struct cell *add_cell(struct cells *c, const struct table *t, const struct metrics *m,
                             const struct metric *metric, const struct filter *f) {
  MEM_GROW(c->items, c->n, c->cap);
  struct cell *cell = &c->items[c->n++];
  *cell = (struct cell){.metric = metric};
  series_collect(&cell->series, t, m, metric, f);
  if (!metric->indicator)
    series_sort(&cell->series);
  bool counts_only = metric->id == METRIC_REQUESTS || metric->id == METRIC_SESSIONS;
  if (cell->series.x && cell->series.n_sessions >= 2 && !counts_only &&
      cell->series.n <= BOOTSTRAP_MAX_SAMPLES)
    cell->width = metric->indicator ? 1 : 1 + N_PROBS;
  return cell;
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

static void set_indicator(struct value *v, const struct table *t, const struct metrics *m,
                          const struct cell *cell, const struct filter *f, uint32_t replicates) {
  const struct metric *metric = cell->metric;
  bool counts_only = metric->id == METRIC_REQUESTS || metric->id == METRIC_SESSIONS;
  value_set(v, "count", value_int((int64_t)series_stat(&cell->series, metric, STAT_COUNT, 0)));
  value_set(v, "rate", summary_number(series_rate(t, m, metric, f)));
  if (counts_only)
    return;
  double share = series_stat(&cell->series, metric, STAT_SHARE, 0);
  value_set(v, "share", summary_number(share));
  value_set(v, "mean", summary_number(share));
  struct value *ci = value_set(v, "ci95", value_object());
  set_interval(ci, "mean", cell, 0, replicates);
}

static struct value cell_value(const struct table *t, const struct metrics *m,
                               const struct cell *cell, const struct filter *f,
                               uint32_t replicates) {
  const struct metric *metric = cell->metric;
  const struct series *s = &cell->series;
  struct value v = value_object();
  value_set(&v, "unit", value_cstring(metric->unit));
  value_set(&v, "n", value_int((int64_t)s->n));
  if (metric->indicator) {
    set_indicator(&v, t, m, cell, f, replicates);
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
  if (metric->id == METRIC_TPOT)
    value_set(&v, "first_tokens_assumed", value_int((int64_t)s->assumed));
  value_set(&v, "method", value_cstring(s->hist ? "histogram" : "exact"));
  if (s->hist)
    value_set(&v, "relative_error", value_double(HIST_RELATIVE_ERROR));
  return v;
}

/* ---- the "as infinity" variant ---- */

static void set_infinity(struct value *out, const struct cell *cell, uint64_t failed) {
  const struct series *s = &cell->series;
  struct value *v = value_set(out, cell->metric->name, value_object());
  struct value reason = value_object();
  value_set(v, "n", value_int((int64_t)(s->n + failed)));
  value_set(v, "failed", value_int((int64_t)failed));
  for (size_t q = 0; q < N_PROBS; q++) {
    bool enough = s->n + failed >= stats_quantile_needs(probs[q]);
    double x = enough ? stats_quantile_infinite(s->x, s->n, (size_t)failed, probs[q]) : (double)NAN;
    value_set(v, prob_names[q], summary_number(x / s->div));
    if (!isfinite(x))
      value_set(&reason, prob_names[q], value_cstring(enough ? "infinite" : "too few samples"));
  }
  value_set(v, "reason", reason);
}

/* ---- turns ---- */

static uint32_t last_turn(const struct table *t, const struct filter_use *use) {
  uint32_t last = 0;
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if ((r->flags & ROW_MEASURED) && r->turn > last && filter_match_row(use, r))
      last = r->turn;
  }
  return last;
}

/* Turn 1, turn 2, and all later ones: two cells each. */
static void add_turns(struct cells *c, const struct table *t, const struct metrics *m,
                      const struct filter *group) {
  struct filter_use use;
  filter_use_init(&use, group, t);
  uint32_t last = last_turn(t, &use);
  filter_use_free(&use);
  for (uint32_t turn = 1; turn <= 3 && turn <= last; turn++) {
    char range[32], label[24];
    snprintf(range, sizeof range, "%u..%s", turn, turn == 1 ? "1" : turn == 2 ? "2" : "");
    if (turn == 3 && last > 3)
      snprintf(label, sizeof label, "3–%u", last);
    else
      snprintf(label, sizeof label, "%u", turn);
    struct filter f = {0};
    f.arm = group && group->arm ? mem_strdup(group->arm) : NULL;
    int rc = filter_add(&f, "turn", range, NULL);
    assert(rc == 0);
    (void)rc;
    const enum metric_id ids[] = {METRIC_TTFT, METRIC_CACHED_RATIO};
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
      memcpy(add_cell(c, t, m, metrics_get(m, ids[i]), &f)->label, label, sizeof label);
    filter_free(&f);
  }
}

static void set_turns(struct value *out, const struct table *t, const struct metrics *m,
                      const struct cells *c, size_t first) {
  struct value *turns = value_set(out, "turns", value_array());
  for (size_t i = first; i + 1 < c->n; i += 2) {
    struct value *v = value_push(turns, value_object());
    value_set(v, "turn", value_cstring(c->items[i].label));
    for (size_t k = i; k < i + 2; k++)
      value_set(v, c->items[k].metric->name, cell_value(t, m, &c->items[k], NULL, c->replicates));
  }
}

/* ---- group ---- */

static void set_metrics(struct value *out, const struct table *t, const struct metrics *m,
                        const struct cells *c, size_t n, const struct filter *f) {
  const struct value *requests = value_get(out, "requests");
  int64_t failed = 0, incomplete = 0;
  value_to_int(value_get(requests, "failed"), &failed);
  value_to_int(value_get(requests, "incomplete"), &incomplete);
  struct value metrics = value_object(), infinity = value_object();
  for (size_t i = 0; i < n; i++) {
    const struct cell *cell = &c->items[i];
    struct value *v =
        value_set(&metrics, cell->metric->name, cell_value(t, m, cell, f, c->replicates));
    if (!f)
      value_set(v, "meaning", value_cstring(cell->metric->meaning));
    if (!cell->metric->failures_beside)
      continue;
    value_set(v, "failed", value_int(failed));
    value_set(v, "incomplete", value_int(incomplete));
    if (cell->metric->domain == METRIC_OF_REQUEST && cell->metric->id != METRIC_TPOT)
      set_infinity(&infinity, cell, (uint64_t)failed);
  }
  value_set(out, "metrics", metrics);
  value_set(out, "as_infinity", infinity);
}

void summary_group(const struct table *t, const struct summary_options *options, const char *arm,
                   struct value *out) {
  const struct metrics *m = options->metrics;
  struct filter group = {.arm = arm ? mem_strdup(arm) : NULL};
  const struct filter *f = arm ? &group : NULL;
  summary_counts(t, options, f, out);
  struct cells c = {0};
  for (size_t i = 0; i < m->n; i++)
    if (m->items[i]->domain != METRIC_LATER && !(arm && m->items[i]->domain == METRIC_OF_CLIENT))
      add_cell(&c, t, m, m->items[i], f);
  size_t n_metrics = c.n;
  add_turns(&c, t, m, f);
  resample(&c, t, options->seed);
  set_metrics(out, t, m, &c, n_metrics, f);
  set_turns(out, t, m, &c, n_metrics);
  free_cells(&c);
  filter_free(&group);
}
