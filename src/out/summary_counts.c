/* summary_counts.c: what was counted: requests by outcome, sessions, replicas, cache states, rates.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "out/placements.h"
#include "out/series.h"
#include "out/stats.h"
#include "out/summary.h"

struct outcomes {
  uint64_t by_error[SAMPLE_ERROR_COUNT], outside; /* of the window */
  uint64_t reconnects;                            /* of requests inside it */
};

static uint64_t failed(const struct outcomes *o) {
  uint64_t n = 0;
  for (int i = 0; i < SAMPLE_ERROR_COUNT; i++)
    if (sample_error_failed((enum sample_error)i))
      n += o->by_error[i];
  return n;
}

static void set_count(struct value *o, const char *key, uint64_t n) {
  value_set(o, key, value_int((int64_t)n));
}

/* {ok, failed, incomplete, cancelled, outside_window, by_error {class: n}, detail {class: text}} */
static struct value outcomes_value(const struct outcomes *o, char *const detail[]) {
  struct value v = value_object();
  set_count(&v, "ok", o->by_error[SAMPLE_OK]);
  set_count(&v, "failed", failed(o));
  set_count(&v, "incomplete", o->by_error[SAMPLE_INCOMPLETE]);
  set_count(&v, "cancelled", o->by_error[SAMPLE_CANCELLED]);
  set_count(&v, "outside_window", o->outside);
  struct value classes = value_object(), details = value_object();
  for (int i = 0; i < SAMPLE_ERROR_COUNT; i++) {
    const char *name = sample_error_name((enum sample_error)i);
    if (!sample_error_failed((enum sample_error)i) || !o->by_error[i])
      continue;
    set_count(&classes, name, o->by_error[i]);
    if (detail[i])
      value_set(&details, name, value_cstring(detail[i]));
  }
  value_set(&v, "by_error", classes);
  value_set(&v, "detail", details);
  return v;
}

struct refusals {
  uint64_t n;
  const char *id;
};

static int by_refusals(const void *a, const void *b) {
  const struct refusals *x = a, *y = b;
  return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->id, y->id);
}

/* failed_at [{error, replica, requests}]: which replica known by name failed, most often first. */
static void count_failed_at(const struct table *t, const struct filter_use *use,
                            struct value *main) {
  uint64_t *n = mem_calloc((size_t)SAMPLE_ERROR_COUNT * t->replicas.n, sizeof *n);
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if ((r->flags & ROW_MEASURED) && ((r->flags & ROW_GENERATION) || !t->has_generation) &&
        r->replica != TABLE_NO_REPLICA && sample_error_failed(r->error) && filter_match_row(use, r))
      n[r->error * t->replicas.n + r->replica]++;
  }
  struct value *at = value_set(main, "failed_at", value_array());
  struct refusals *list = mem_calloc(t->replicas.n, sizeof *list);
  for (size_t e = 0; e < SAMPLE_ERROR_COUNT; e++) {
    size_t found = 0;
    for (size_t i = 0; i < t->replicas.n; i++)
      if (n[e * t->replicas.n + i])
        list[found++] = (struct refusals){n[e * t->replicas.n + i], t->replicas.items[i]};
    qsort(list, found, sizeof *list, by_refusals);
    for (size_t i = 0; i < found; i++) {
      struct value *v = value_push(at, value_object());
      value_set(v, "error", value_cstring(sample_error_name((enum sample_error)e)));
      value_set(v, "replica", value_cstring(list[i].id));
      set_count(v, "requests", list[i].n);
    }
  }
  mem_free(list);
  mem_free(n);
}

static void count_requests(const struct table *t, const struct filter_use *use, struct value *out) {
  struct outcomes generation = {.outside = 0}, other = {.outside = 0};
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!filter_match_row(use, r))
      continue;
    struct outcomes *o = r->flags & ROW_GENERATION ? &generation : &other;
    if (!(r->flags & ROW_MEASURED)) {
      o->outside++;
      continue;
    }
    o->by_error[r->error]++;
    o->reconnects += r->reconnects;
  }
  /* A run of plain HTTP requests is counted like any other; it only has no latency metrics. Nothing
   * is then beside them: `generation` is empty. */
  bool plain = !t->has_generation;
  const struct outcomes *first = plain ? &other : &generation;
  const struct outcomes *rest = plain ? &generation : &other;
  struct value *main =
      value_set(out, "requests", outcomes_value(first, plain ? t->other_detail : t->detail));
  set_count(main, "reconnects", first->reconnects);
  value_set(main, "generation", value_bool(t->has_generation));
  count_failed_at(t, use, main);
  set_count(value_set(out, "other_requests", outcomes_value(rest, t->other_detail)), "reconnects",
            rest->reconnects);
}

static void count_sessions(const struct table *t, const struct filter_use *use, struct value *out) {
  struct outcomes o = {.outside = 0};
  for (size_t i = 0; i < t->n_sessions; i++) {
    if (!filter_match_session(use, &t->sessions[i]))
      continue;
    if (t->sessions[i].measured)
      o.by_error[t->sessions[i].error]++;
    else
      o.outside++;
  }
  value_set(out, "sessions", outcomes_value(&o, t->session_detail));
}

/* ---- replicas ---- */

struct replica {
  uint64_t requests, failed, prompt_tokens, output_tokens, n_ratio;
  struct fixed_sum ratio_sum;
  double *ttft, *e2e;
  size_t n_ttft, cap_ttft, n_e2e, cap_e2e;
};

static void count_replica(struct replica *r, const struct metrics *m, const struct table_row *row) {
  r->requests++;
  if (sample_error_failed((enum sample_error)row->error)) {
    r->failed++;
    return;
  }
  r->prompt_tokens += table_row_prompt(row) > 0 ? (uint64_t)table_row_prompt(row) : 0;
  r->output_tokens += table_row_output(row) > 0 ? (uint64_t)table_row_output(row) : 0;
  if (!(row->flags & ROW_GENERATION))
    return;
  double ttft = metrics_of_row(m, metrics_get(m, METRIC_TTFT), row);
  if (!isnan(ttft)) {
    MEM_GROW(r->ttft, r->n_ttft, r->cap_ttft);
    r->ttft[r->n_ttft++] = ttft;
  }
  double e2e = metrics_of_row(m, metrics_get(m, METRIC_E2E), row);
  if (!isnan(e2e)) {
    MEM_GROW(r->e2e, r->n_e2e, r->cap_e2e);
    r->e2e[r->n_e2e++] = e2e;
  }
  double ratio = metrics_of_row(m, metrics_get(m, METRIC_CACHED_RATIO), row);
  if (!isnan(ratio)) {
    fixed_sum_add(&r->ratio_sum, ratio);
    r->n_ratio++;
  }
}

/* r2 before r10, whichever answered first. */
static int by_name(const void *a, const void *b, void *names) {
  const char *const *items = names;
  return strverscmp(items[*(const uint32_t *)a], items[*(const uint32_t *)b]);
}

/* Seconds, null where there are too few samples. */
static void set_quantile(struct value *v, const char *key, const double *sorted, size_t n,
                         double p) {
  bool enough = n >= stats_quantile_needs(p);
  value_set(v, key, summary_number(enough ? stats_quantile(sorted, n, p) / 1e9 : (double)NAN));
}

static struct value replica_value(const char *id, double rotation, struct replica *r, uint64_t all,
                                  uint64_t sessions) {
  struct value v = value_object();
  stats_sort(r->ttft, NULL, r->n_ttft);
  stats_sort(r->e2e, NULL, r->n_e2e);
  value_set(&v, "id", value_cstring(id));
  value_set(&v, "rotation", summary_number(rotation));
  set_count(&v, "requests", r->requests);
  value_set(&v, "share", summary_number(all ? (double)r->requests / (double)all : (double)NAN));
  set_count(&v, "sessions", sessions);
  set_count(&v, "failed", r->failed);
  set_count(&v, "prompt_tokens", r->prompt_tokens);
  set_count(&v, "output_tokens", r->output_tokens);
  set_count(&v, "ttft_n", r->n_ttft);
  set_quantile(&v, "ttft_p50", r->ttft, r->n_ttft, 0.5);
  set_count(&v, "e2e_n", r->n_e2e);
  value_set(&v, "e2e_mean",
            summary_number(r->n_e2e ? stats_mean(r->e2e, r->n_e2e) / 1e9 : (double)NAN));
  set_quantile(&v, "e2e_p95", r->e2e, r->n_e2e, 0.95);
  value_set(&v, "cached_ratio",
            summary_number(r->n_ratio ? fixed_sum_value(&r->ratio_sum) / (double)r->n_ratio
                                      : (double)NAN));
  mem_free(r->ttft);
  mem_free(r->e2e);
  return v;
}

static void count_replicas(const struct table *t, const struct metrics *m,
                           const struct filter_use *use, struct value *out) {
  struct replica *list = mem_calloc(t->replicas.n, sizeof *list);
  uint64_t all = 0;
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if ((r->flags & ROW_MEASURED) && ((r->flags & ROW_GENERATION) || !t->has_generation) &&
        r->replica != TABLE_NO_REPLICA && filter_match_row(use, r)) {
      count_replica(&list[r->replica], m, r);
      all++;
    }
  }
  struct placements placed;
  placements_count(&placed, t, use);
  uint32_t *order = mem_calloc(t->replicas.n, sizeof *order);
  for (uint32_t i = 0; i < t->replicas.n; i++)
    order[i] = i;
  qsort_r(order, t->replicas.n, sizeof *order, by_name, t->replicas.items);
  struct value *replicas = value_set(out, "replicas", value_array());
  for (size_t i = 0; i < t->replicas.n; i++)
    value_push(replicas,
               replica_value(t->replicas.items[order[i]], table_replica_rotation(t, order[i]),
                             &list[order[i]], all, placed.sessions[order[i]]));
  struct value *how = value_set(out, "placements", value_object());
  set_count(how, "n", placed.n);
  value_set(how, "of", value_cstring(placed.sticky ? "sessions" : "requests"));
  placements_free(&placed);
  mem_free(order);
  mem_free(list);
}

/* Which policies decided, and how often each had to fall back. */
static void count_policies(const struct table *t, const struct filter_use *use, struct value *out) {
  uint64_t *n = mem_calloc(2 * t->policies.n, sizeof *n), *fallbacks = n + t->policies.n;
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!(r->flags & ROW_MEASURED) || !(r->flags & ROW_ROUTED) || !filter_match_row(use, r) ||
        (t->has_generation && !(r->flags & ROW_GENERATION)))
      continue;
    n[r->policy]++;
    fallbacks[r->policy] += (r->flags & ROW_FALLBACK) != 0;
  }
  uint32_t *order = mem_calloc(t->policies.n, sizeof *order);
  for (uint32_t i = 0; i < t->policies.n; i++)
    order[i] = i;
  qsort_r(order, t->policies.n, sizeof *order, by_name, t->policies.items);
  struct value *list = value_set(out, "policies", value_array());
  for (size_t i = 0; i < t->policies.n; i++) {
    if (!n[order[i]])
      continue;
    struct value *v = value_push(list, value_object());
    value_set(v, "policy", value_cstring(t->policies.items[order[i]]));
    set_count(v, "requests", n[order[i]]);
    set_count(v, "fallback", fallbacks[order[i]]);
  }
  mem_free(order);
  mem_free(n);
}

/* What good replies say of the cache, and whether their length was declared or the model's own. */
static void count_replies(const struct table *t, const struct filter_use *use, struct value *out) {
  uint64_t n[4] = {0}, declared = 0, all = 0;
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if ((r->flags & ROW_MEASURED) && (r->flags & ROW_GENERATION) && r->error == SAMPLE_OK &&
        filter_match_row(use, r)) {
      n[r->cached_state]++;
      declared += r->asked_tokens >= 0;
      all++;
    }
  }
  struct value *cached = value_set(out, "cached", value_object());
  for (int i = 0; i < 4; i++)
    set_count(cached, sample_cached_name((enum sample_cached_state)i), n[i]);
  struct value *answers = value_set(out, "answers", value_object());
  set_count(answers, "declared", declared);
  set_count(answers, "own", all - declared);
}

static void set_rates(const struct table *t, const struct metrics *m, const struct filter *f,
                      struct value *out) {
  static const char *const keys[] = {"requests_per_s", "failed_per_s", "sessions_per_s",
                                     "prompt_tokens_per_s", "output_tokens_per_s"};
  const struct metric *const of[] = {metrics_get(m, METRIC_REQUESTS), metrics_get(m, METRIC_FAILED),
                                     metrics_get(m, METRIC_SESSIONS),
                                     metrics_get(m, METRIC_PROMPT_TOKENS),
                                     metrics_get(m, METRIC_OUTPUT_TOKENS)};
  double rates[ARRAY_LEN(of)];
  int64_t arm = f && f->arm ? names_find(&t->arms, f->arm) : -1;
  struct value *v = value_set(out, "throughput", value_object());
  value_set(v, "window_s",
            value_double(table_window_seconds(t, arm < 0 ? TABLE_NO_ARM : (uint16_t)arm)));
  series_rates(rates, of, ARRAY_LEN(of), t, m, f);
  for (size_t i = 0; i < ARRAY_LEN(of); i++)
    value_set(v, keys[i], summary_number(rates[i]));
}

void summary_counts(const struct table *t, const struct summary_options *options,
                    const struct filter *f, struct value *out) {
  struct filter_use use;
  filter_use_init(&use, f, t);
  count_requests(t, &use, out);
  count_sessions(t, &use, out);
  count_policies(t, &use, out);
  count_replicas(t, options->metrics, &use, out);
  count_replies(t, &use, out);
  filter_use_free(&use);
  set_rates(t, options->metrics, f, out);
}
