/* series.c: picks a metric's values out of the table. */
#include "out/series.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "out/stats.h"

static void push(struct series *s, double x, uint32_t cluster) {
  if (s->n == s->cap) {
    s->cap = s->cap ? s->cap * 2 : 64;
    s->x = mem_resize(s->x, s->cap, sizeof *s->x);
    s->cluster = mem_resize(s->cluster, s->cap, sizeof *s->cluster);
  }
  s->x[s->n] = x;
  s->cluster[s->n++] = cluster;
}

void series_free(struct series *s) {
  mem_free(s->x);
  mem_free(s->cluster);
  mem_free(s->own_hist);
  *s = (struct series){0};
}

/* Plain HTTP requests count only where a run made no generation request at all. */
static bool in_scope(const struct table *t, const struct table_row *r) {
  return (r->flags & ROW_GENERATION) || !t->has_generation;
}

static bool first_assumed(const struct table_row *r) {
  return r->first_tokens <= 0;
}

/* Room for so many values: pages that stay untouched cost nothing. */
static void reserve(struct series *s, size_t n) {
  s->cap = n;
  s->x = mem_resize(NULL, n, sizeof *s->x);
  s->cluster = mem_resize(NULL, n, sizeof *s->cluster);
}

static void take_row(struct series *s, const struct metrics *m, const struct metric *metric,
                     const struct table_row *r) {
  double x = metrics_of_row(m, metric, r);
  if (isnan(x)) {
    s->rejected++;
    s->same_read += metric->id == METRIC_TPOT && metrics_same_read(r);
    return;
  }
  push(s, x, r->cluster);
  if (metric->id == METRIC_TPOT)
    s->assumed += first_assumed(r);
}

/* All request metrics of the list in one walk. */
static void of_requests(struct series *out, const struct series_want *want,
                        const struct filter_use *use, size_t n, const struct table *t,
                        const struct metrics *m) {
  size_t *list = mem_calloc(n, sizeof *list), k = 0;
  for (size_t i = 0; i < n; i++)
    if (want[i].metric->domain == METRIC_OF_REQUEST) {
      reserve(&out[i], t->n_rows);
      list[k++] = i;
    }
  for (size_t r = 0; r < t->n_rows && k; r++) {
    const struct table_row *row = &t->rows[r];
    if (!(row->flags & ROW_MEASURED))
      continue;
    bool generation = row->flags & ROW_GENERATION, counted = in_scope(t, row);
    for (size_t j = 0; j < k; j++) {
      size_t i = list[j];
      if ((want[i].metric->indicator ? counted : generation) &&
          (use[i].everything || filter_match_row(&use[i], row)))
        take_row(&out[i], m, want[i].metric, row);
    }
  }
  mem_free(list);
}

static void of_dropped_gaps(struct series *s, const struct table *t, const struct metric *metric,
                            const struct filter_use *use) {
  bool per_token = metric->id == METRIC_ITL_TOKEN;
  s->own_hist = MEM_NEW(struct hist);
  hist_init(s->own_hist);
  for (size_t i = 0; i < t->n_arm_hists; i++) {
    uint16_t arm = i ? (uint16_t)(i - 1) : TABLE_NO_ARM;
    if (t->arm_hists[i] && (use->any_arm || (!use->no_arm && arm == use->arm)))
      hist_merge(s->own_hist, per_token ? &t->arm_hists[i]->itl_token : &t->arm_hists[i]->itl);
  }
  s->hist = s->own_hist;
  s->n = s->hist->n;
}

static void of_gaps(struct series *s, const struct table *t, const struct metric *metric,
                    const struct filter_use *use) {
  if (t->gaps_dropped) {
    of_dropped_gaps(s, t, metric, use);
    return;
  }
  bool per_token = metric->id == METRIC_ITL_TOKEN;
  size_t most = 0;
  if (per_token && !t->gap_tokens)
    return;
  for (size_t i = 0; i < t->n_rows; i++)
    most += t->rows[i].n_gaps && filter_match_row(use, &t->rows[i]) ? t->rows[i].n_gaps : 0;
  if (most)
    reserve(s, most);
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!r->n_gaps || !filter_match_row(use, r))
      continue;
    for (uint64_t g = r->gaps; g < r->gaps + r->n_gaps; g++) {
      if (!per_token)
        push(s, t->gaps[g], r->cluster);
      else if (t->gap_tokens[g])
        push(s, (double)t->gaps[g] / t->gap_tokens[g], r->cluster);
    }
  }
}

static void of_sessions(struct series *s, const struct table *t, const struct metric *metric,
                        const struct filter_use *use) {
  for (size_t i = 0; i < t->n_sessions; i++) {
    const struct table_session *r = &t->sessions[i];
    if (!r->measured || !filter_match_session(use, r))
      continue;
    if (metric->id == METRIC_SESSIONS)
      push(s, 1, r->cluster);
    else if (r->error == SAMPLE_OK && r->end >= r->start)
      push(s, (double)(r->end - r->start), r->cluster);
  }
}

/* One value per replica: its part of the requests that match everything else. A replica asked for
 * by name keeps its place among all of them. */
static void of_replicas(struct series *s, const struct table *t, const struct filter *f) {
  struct filter others = {0};
  const char *wanted = NULL;
  struct filter_cond *conds = f && f->n ? mem_calloc(f->n, sizeof *conds) : NULL;
  if (f) {
    others.arm = f->arm;
    others.conds = conds;
    for (size_t i = 0; i < f->n; i++)
      if (f->conds[i].kind == FILTER_REPLICA)
        wanted = f->conds[i].text;
      else
        conds[others.n++] = f->conds[i];
  }
  struct filter_use use;
  filter_use_init(&use, &others, t);
  uint64_t *counts = mem_calloc(t->replicas.n, sizeof *counts), all = 0;
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if ((r->flags & ROW_MEASURED) && in_scope(t, r) && r->replica != TABLE_NO_REPLICA &&
        filter_match_row(&use, r)) {
      counts[r->replica]++;
      all++;
    }
  }
  for (size_t i = 0; i < t->replicas.n && all; i++)
    if (!wanted || strcmp(wanted, t->replicas.items[i]) == 0)
      push(s, (double)counts[i] / (double)all, 0);
  mem_free(counts);
  mem_free(conds);
  filter_use_free(&use);
}

/* Which values of the script count: those of measured sessions; for a rate those of the window. */
typedef bool value_counts(const struct table *t, const struct table_value *v);

static bool of_measured(const struct table *t, const struct table_value *v) {
  (void)t;
  return v->measured;
}

static bool in_window(const struct table *t, const struct table_value *v) {
  return table_in_window(t, v->arm, v->time);
}

static void of_checks(struct series *s, const struct table *t, const struct filter_use *use,
                      value_counts *counts) {
  for (size_t i = 0; i < t->n_values; i++) {
    const struct table_value *v = &t->values[i];
    if (v->is_check && counts(t, v) && filter_match_value(use, v))
      push(s, v->value > 0, v->cluster);
  }
}

static void of_script(struct series *s, const struct table *t, const struct metric *metric,
                      const struct filter_use *use, value_counts *counts) {
  if (metric->id == METRIC_CHECKS) {
    of_checks(s, t, use, counts);
    return;
  }
  int64_t name = names_find(&t->value_names, metric->name);
  for (size_t i = 0; i < t->n_values && name >= 0; i++) {
    const struct table_value *v = &t->values[i];
    if (v->name == (uint32_t)name && !v->is_check && counts(t, v) && !isnan(v->value) &&
        filter_match_value(use, v))
      push(s, v->value * metric->scale, v->cluster);
  }
}

static uint32_t count_sessions(const struct series *s, uint32_t n_clusters) {
  if (!s->x || !n_clusters)
    return 0;
  uint8_t *seen = mem_calloc(n_clusters, 1);
  uint32_t n = 0;
  for (size_t i = 0; i < s->n; i++) {
    n += !seen[s->cluster[i]];
    seen[s->cluster[i]] = 1;
  }
  mem_free(seen);
  return n;
}

static void collect_other(struct series *s, const struct table *t, const struct metric *metric,
                          const struct filter_use *use) {
  switch (metric->domain) {
  case METRIC_OF_GAP:
    of_gaps(s, t, metric, use);
    break;
  case METRIC_OF_SESSION:
    of_sessions(s, t, metric, use);
    break;
  case METRIC_OF_REPLICA:
    of_replicas(s, t, use->filter);
    break;
  case METRIC_OF_CLIENT:
    s->hist = &t->probe.timer_late;
    s->n = s->hist->n;
    break;
  case METRIC_OF_SCRIPT:
    of_script(s, t, metric, use, of_measured);
    break;
  case METRIC_OF_REQUEST:
  case METRIC_LATER:
    break;
  }
}

void series_collect_all(struct series *out, const struct series_want *want, size_t n,
                        const struct table *t, const struct metrics *m) {
  struct filter_use *use = mem_calloc(n, sizeof *use);
  for (size_t i = 0; i < n; i++) {
    out[i] = (struct series){.div = metrics_divisor(want[i].metric)};
    filter_use_init(&use[i], want[i].filter, t);
  }
  of_requests(out, want, use, n, t, m);
  for (size_t i = 0; i < n; i++) {
    collect_other(&out[i], t, want[i].metric, &use[i]);
    if (want[i].metric->domain != METRIC_OF_REPLICA)
      out[i].n_sessions = count_sessions(&out[i], t->n_clusters);
    filter_use_free(&use[i]);
  }
  mem_free(use);
}

void series_collect(struct series *s, const struct table *t, const struct metrics *m,
                    const struct metric *metric, const struct filter *f) {
  series_collect_all(s, &(struct series_want){metric, f}, 1, t, m);
}

void series_sort(struct series *s) {
  if (!s->sorted && s->x)
    stats_sort(s->x, s->cluster, s->n);
  s->sorted = true;
}

static double hist_stat(const struct hist *h, enum statistic stat, double p) {
  switch (stat) {
  case STAT_MEAN:
  case STAT_SHARE:
    return hist_mean(h);
  case STAT_MIN:
    return h->n ? (double)h->min : NAN;
  case STAT_MAX:
    return h->n ? (double)h->max : NAN;
  case STAT_SUM:
    return h->sum;
  case STAT_QUANTILE:
    return hist_quantile(h, p);
  case STAT_COUNT:
  case STAT_RATE:
    break;
  }
  return NAN;
}

double series_stat(const struct series *s, const struct metric *metric, enum statistic stat,
                   double p) {
  assert(stat != STAT_RATE);
  if (stat == STAT_COUNT)
    return metric->indicator ? stats_sum(s->x, s->n) : (double)s->n;
  if (!s->n)
    return NAN;
  if (s->hist)
    return hist_stat(s->hist, stat, p) / s->div;
  switch (stat) {
  case STAT_MEAN:
  case STAT_SHARE:
    return stats_mean(s->x, s->n) / s->div;
  case STAT_SUM:
    return stats_sum(s->x, s->n) / s->div;
  case STAT_MIN:
    assert(s->sorted);
    return s->x[0] / s->div;
  case STAT_MAX:
    assert(s->sorted);
    return s->x[s->n - 1] / s->div;
  case STAT_QUANTILE:
    assert(s->sorted);
    return stats_quantile(s->x, s->n, p) / s->div;
  case STAT_COUNT:
  case STAT_RATE:
    break;
  }
  return NAN;
}

/* ---- rates ---- */

static double rate_of_row(const struct table *t, const struct metrics *m,
                          const struct metric *metric, const struct table_row *r) {
  bool failed = sample_error_failed((enum sample_error)r->error);
  if (metric->id == METRIC_OUTPUT_TOKENS)
    return failed ? 0 : table_window_tokens(t, r);
  if (metric->id == METRIC_PROMPT_TOKENS) {
    int32_t n = failed ? 0 : table_row_prompt(r);
    return n > 0 && table_in_window(t, r->arm, r->first_token) ? n : 0;
  }
  if (!table_in_window(t, r->arm, r->done))
    return 0;
  if (metric->id == METRIC_REQUESTS) /* what failed or was cut off was not served */
    return r->error == SAMPLE_OK;
  double x = metrics_of_row(m, metric, r);
  return isnan(x) ? 0 : x;
}

/* Sessions that ended well inside, whenever they arrived. */
static double sessions_ended(const struct table *t, const struct filter_use *use) {
  double n = 0;
  for (size_t i = 0; i < t->n_sessions; i++) {
    const struct table_session *s = &t->sessions[i];
    n +=
        s->error == SAMPLE_OK && table_in_window(t, s->arm, s->end) && filter_match_session(use, s);
  }
  return n;
}

/* What the script gave inside, whichever session gave it: ascending, so that the sum does not
 * depend on the order in which values came. */
static double values_given(const struct table *t, const struct metric *metric,
                           const struct filter_use *use) {
  struct series s = {.div = metrics_divisor(metric)};
  of_script(&s, t, metric, use, in_window);
  series_sort(&s);
  double sum = stats_sum(s.x, s.n) / s.div;
  series_free(&s);
  return sum;
}

void series_rates(double *out, const struct metric *const *metrics, size_t n, const struct table *t,
                  const struct metrics *m, const struct filter *f) {
  struct filter_use use;
  filter_use_init(&use, f, t);
  double seconds = table_window_seconds(t, use.any_arm || use.no_arm ? TABLE_NO_ARM : use.arm);
  for (size_t i = 0; i < n; i++) {
    out[i] = 0;
    if (metrics[i]->domain == METRIC_OF_REQUEST)
      continue;
    if (metrics[i]->id == METRIC_SESSIONS) {
      out[i] = sessions_ended(t, &use);
      continue;
    }
    if (metrics[i]->domain == METRIC_OF_SCRIPT) {
      out[i] = values_given(t, metrics[i], &use);
      continue;
    }
    struct series s;
    series_collect(&s, t, m, metrics[i], f);
    out[i] = stats_sum(s.x, s.n) / s.div;
    series_free(&s);
  }
  for (size_t r = 0; r < t->n_rows; r++) {
    const struct table_row *row = &t->rows[r];
    if (!in_scope(t, row) || !(use.everything || filter_match_row(&use, row)))
      continue;
    for (size_t i = 0; i < n; i++)
      if (metrics[i]->domain == METRIC_OF_REQUEST)
        out[i] += rate_of_row(t, m, metrics[i], row);
  }
  for (size_t i = 0; i < n; i++)
    out[i] = seconds > 0 ? out[i] / seconds : (double)NAN;
  filter_use_free(&use);
}

double series_rate(const struct table *t, const struct metrics *m, const struct metric *metric,
                   const struct filter *f) {
  double rate;
  series_rates(&rate, &metric, 1, t, m, f);
  return rate;
}
