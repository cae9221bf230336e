/* expect_eval.c: judging expectations against a finished table.
 *
 * Bounds are held against point estimates; equivalence claims against the 95 % interval of the
 * difference, by session (sessions that both sides share stay paired). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "out/expect.h"
#include "out/goodput.h"
#include "out/interval.h"
#include "out/series.h"
#include "out/stats.h"

static const char *const op_text[] = {"<", "<=", ">", ">=", "="};

/* Three digits that mean something, as perigee.report_text writes them. */
static void write_figure(double x, char *out, size_t size) {
  double a = fabs(x);
  if (a < 5e-10)
    snprintf(out, size, "0");
  else if (a >= 1e15)
    snprintf(out, size, "%.3g", x);
  else if (a >= 99.95)
    snprintf(out, size, "%.0f", x);
  else
    snprintf(out, size,
             a >= 9.995    ? "%.1f"
             : a >= 0.9995 ? "%.2f"
             : a >= 0.01   ? "%.3f"
                           : "%.2g",
             x);
  size_t n = strlen(out); /* "5" and "2.5", not "5.00" and "2.50" */
  if (!strchr(out, '.') || strchr(out, 'e'))
    return;
  while (out[n - 1] == '0')
    out[--n] = '\0';
  if (out[n - 1] == '.')
    out[n - 1] = '\0';
}

const char *expect_op_text(enum expect_op op) {
  return op_text[op];
}

void expect_format(double x, enum units_kind kind, const char *unit, char *out, size_t size) {
  char figure[40];
  if (!isfinite(x)) {
    snprintf(out, size, "%s", isnan(x) ? "—" : x > 0 ? "∞" : "−∞");
    return;
  }
  switch (kind) {
  case UNITS_TIME:
    units_format_seconds(x, out, size);
    return;
  case UNITS_BYTES:
    units_format_bytes(x, out, size);
    return;
  case UNITS_RATIO:
    write_figure(x * 100, figure, sizeof figure);
    snprintf(out, size, "%s %%", figure);
    return;
  case UNITS_RATE:
    write_figure(x, figure, sizeof figure);
    snprintf(out, size, "%s/s", figure);
    return;
  case UNITS_NONE:
  case UNITS_ANY:
    break;
  }
  write_figure(x, figure, sizeof figure);
  snprintf(out, size, "%s%s%s", figure, unit ? " " : "", unit ? unit : "");
}

/* All digits there are, in the unit that people would write it in. */
static void format_exactly(double x, enum units_kind kind, const char *unit, char *out,
                           size_t size) {
  double a = fabs(x);
  if (kind == UNITS_TIME)
    snprintf(out, size, "%.9g %s",
             a >= 1      ? x
             : a >= 1e-3 ? x * 1e3
                         : x * 1e6,
             a >= 1      ? "s"
             : a >= 1e-3 ? "ms"
                         : "µs");
  else if (kind == UNITS_RATIO)
    snprintf(out, size, "%.9g %%", x * 100);
  else if (kind == UNITS_RATE)
    snprintf(out, size, "%.9g/s", x);
  else
    snprintf(out, size, "%.9g%s%s", x, unit ? " " : "", unit ? unit : "");
}

/* A metric's unit behind plain numbers, where it reads well: "812 tokens", but not "3 ratio". */
static const char *unit_of(const struct expect *e) {
  return e->kind == UNITS_NONE && e->left.stat != STAT_COUNT ? e->left.metric->unit : NULL;
}

static void format(const struct expect *e, double x, char *out, size_t size) {
  expect_format(x, e->kind, unit_of(e), out, size);
}

struct term_value {
  struct series series;
  double value;
  char why[320]; /* why there is no value; "" when there is one */
};

/* Good generation requests that match the term, and those of them that lack what its metric is made
 * of. */
struct lacking {
  uint64_t ok, not_streamed, no_cached;
};

static struct lacking count_lacking(const struct filter_use *use, const struct table *t) {
  struct lacking n = {0};
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!(r->flags & ROW_MEASURED) || !(r->flags & ROW_GENERATION) || r->error != SAMPLE_OK ||
        !filter_match_row(use, r))
      continue;
    n.ok++;
    n.not_streamed += !(r->flags & ROW_STREAMED);
    n.no_cached += r->cached_state == CACHED_ABSENT;
  }
  return n;
}

/* The names that vu:check was given in the window, as many as there is room for; false: none. */
static bool names_checks(const struct table *t, char *out, size_t size) {
  size_t len = 0;
  bool *seen = mem_calloc(t->value_names.n, sizeof *seen);
  for (size_t i = 0; i < t->n_values; i++) {
    const struct table_value *v = &t->values[i];
    const char *name = t->value_names.items[v->name];
    if (!v->is_check || !v->measured || seen[v->name] || len + strlen(name) + 3 > size)
      continue;
    seen[v->name] = true;
    len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "", name);
  }
  mem_free(seen);
  return len > 0;
}

/* "; …" when a tag is asked for that is a fact of requests and not of what a script gives. */
static void hint_tags(const struct filter *f, char *out, size_t size) {
  out[0] = '\0';
  for (size_t i = 0; i < f->n; i++) {
    if (f->conds[i].kind == FILTER_TAG || f->conds[i].kind == FILTER_CHECK)
      continue;
    snprintf(out, size,
             "; checks and values have only tags of vu:tag and vu:record, %s is of requests",
             f->conds[i].tag);
    return;
  }
}

/* Which check was asked for, when none is like it. */
static void explain_checks(const struct filter *f, const char *names, char *out, size_t size) {
  char hint[96];
  bool name = false;
  for (size_t i = 0; i < f->n; i++)
    name = name || f->conds[i].kind == FILTER_CHECK;
  bool tags = f->n > name || !name; /* an arm is one too */
  hint_tags(f, hint, sizeof hint);
  snprintf(out, size, "no data: no check has %s%s%s: there are %s%s", name ? "that name" : "",
           name && tags ? " and " : "", tags ? "those tags" : "", names, hint);
}

/* Why none of a script's own values is like it; false: there are none at all. */
static bool explain_values(const struct expect_term *term, const struct table *t, char *out,
                           size_t size) {
  const char *name = term->metric->name;
  int64_t number = names_find(&t->value_names, name);
  unsigned long long measured = 0, others = 0;
  char hint[96];
  for (size_t i = 0; i < t->n_values && number >= 0; i++)
    if (t->values[i].name == (uint32_t)number)
      *(t->values[i].measured ? &measured : &others) += 1;
  hint_tags(&term->filter, hint, sizeof hint);
  if (measured)
    snprintf(out, size, "no data: no value of %s has these tags (%llu recorded)%s", name, measured,
             hint);
  else if (others)
    snprintf(out, size, "no data: %s was recorded by sessions outside the window only", name);
  return measured || others;
}

/* Why nothing that was measured has the metric: what the replies lack, and who could say it. */
static void explain_lack(const struct expect_term *term, const struct table *t,
                         const struct metrics *metrics, const struct filter_use *use, char *out,
                         size_t size) {
  const struct metric *metric = term->metric;
  struct lacking n = count_lacking(use, t);
  char why[160];
  unsigned long long ok = n.ok;
  const char *these = term->filter.n || term->filter.arm ? " with these tags" : "";
  if ((metric->id == METRIC_CACHED_TOKENS || metric->id == METRIC_CACHED_RATIO) && n.no_cached)
    snprintf(out, size,
             "no data: cached_tokens: %llu of %llu replies%s did not say; vLLM says it with "
             "--enable-prompt-tokens-details, SGLang with --enable-cache-report",
             (unsigned long long)n.no_cached, ok, these);
  else if (metric->id == METRIC_GOODPUT && metrics->n_slos && ok) {
    struct goodput_counts c;
    goodput_count(&c, t, metrics, use);
    goodput_explain(metrics, &c, why, sizeof why);
    goodput_free(&c);
    snprintf(out, size, "no data: %s", why);
  } else if (metric->failures_beside && n.not_streamed && n.not_streamed == n.ok)
    snprintf(out, size,
             "no data: %s needs event streams; replies%s were not streamed (%llu of %llu)",
             metric->name, these, (unsigned long long)n.not_streamed, ok);
  else if (metric->id == METRIC_CHECKS && names_checks(t, why, sizeof why))
    explain_checks(&term->filter, why, out, size);
  else if (metric->domain == METRIC_OF_SCRIPT && explain_values(term, t, out, size))
    return;
  else if (metric->domain == METRIC_OF_SCRIPT && t->session_detail[SAMPLE_SCRIPT])
    snprintf(out, size, "no data: no value of %s was recorded; a session failed: %.140s",
             metric->name, t->session_detail[SAMPLE_SCRIPT]);
  else if (metric->needs && (ok || metric->domain != METRIC_OF_REQUEST))
    snprintf(out, size, "no data: %s needs %s", metric->name, metric->needs);
  else if (metric->domain == METRIC_OF_SESSION)
    snprintf(out, size, "no data: no measured session%s ended%s", these,
             metric->indicator ? "" : " well");
  else if (metric->indicator)
    snprintf(out, size, "no data: no measured request%s ended", these);
  else if (!ok)
    snprintf(out, size, "no data: no measured request%s ended well", these);
  else if (metric->domain == METRIC_OF_GAP)
    snprintf(out, size, "no data: no reply%s has two output events%s", these,
             metric->id == METRIC_ITL_TOKEN ? " with known tokens" : "");
  else
    snprintf(out, size, "no data: no measured request%s has a value for %s", these, metric->name);
}

/* Why a series is empty, in the words of who wrote the expectation. */
static void explain_empty(const struct expect_term *term, const struct table *t,
                          const struct metrics *metrics, char *out, size_t size) {
  struct filter_use use;
  filter_use_init(&use, &term->filter, t);
  const char *near, *tag = filter_unknown_tag(&use, &near);
  if (tag && near)
    snprintf(out, size, "no data: nothing has the tag \"%s\" (did you mean \"%s\"?)", tag, near);
  else if (tag)
    snprintf(out, size, "no data: nothing has the tag \"%s\"", tag);
  else if (use.no_arm)
    snprintf(out, size, "no data: the arm \"%s\" has measured nothing", term->filter.arm);
  else
    explain_lack(term, t, metrics, &use, out, size);
  filter_use_free(&use);
}

static bool names_unknown(const struct expect_term *term, const struct table *t) {
  struct filter_use use;
  const char *near;
  filter_use_init(&use, &term->filter, t);
  bool unknown = filter_unknown_tag(&use, &near) || use.no_arm;
  filter_use_free(&use);
  return unknown;
}

static void evaluate(const struct expect_term *term, const struct table *t,
                     const struct metrics *metrics, struct term_value *out) {
  *out = (struct term_value){.value = NAN};
  series_collect(&out->series, t, metrics, term->metric, &term->filter);
  series_sort(&out->series);
  uint64_t n = out->series.n, needs = stats_quantile_needs(term->p);
  bool counts = term->stat == STAT_COUNT || term->stat == STAT_RATE;
  /* A tag that nothing has is mistyped: 0 of it would meet any upper bound. */
  bool empty = !n && (!counts || names_unknown(term, t));
  if (out->series.hist && term->filter.n) {
    snprintf(out->why, sizeof out->why,
             "no data: too many gaps to keep each with its tags (over %zu); ask without tags",
             t->max_gaps);
  } else if (empty) {
    explain_empty(term, t, metrics, out->why, sizeof out->why);
  } else if (term->stat == STAT_COUNT) {
    out->value = series_stat(&out->series, term->metric, STAT_COUNT, 0);
  } else if (term->stat == STAT_RATE) {
    out->value = series_rate(t, metrics, term->metric, &term->filter);
    if (isnan(out->value))
      snprintf(out->why, sizeof out->why, "no data: the measurement window has no length");
  } else if (term->stat == STAT_QUANTILE && n < needs) {
    snprintf(out->why, sizeof out->why, "too few samples: p%g of %s needs %llu, there are %llu",
             term->p * 100, term->metric->name, (unsigned long long)needs, (unsigned long long)n);
  } else {
    out->value = series_stat(&out->series, term->metric, term->stat, term->p);
  }
}

/* ---- bounds ---- */

static bool holds(enum expect_op op, double a, double b) {
  switch (op) {
  case EXPECT_LT:
    return a < b;
  case EXPECT_LE:
    return a <= b;
  case EXPECT_GT:
    return a > b;
  case EXPECT_GE:
    return a >= b;
  case EXPECT_EQUIVALENT:
    break;
  }
  return false;
}

static double bound_of(const struct expect *e, double right) {
  if (!e->has_right)
    return e->bound;
  double x = e->factor * right;
  return e->bound_relative ? x * (1 + e->bound) : x + e->bound;
}

static void judge_bound(const struct expect *e, const struct term_value *left,
                        const struct term_value *right, struct expect_result *out) {
  char a[48], b[48], other[48];
  out->value = left->value;
  out->bound = bound_of(e, right->value);
  out->met = holds(e->op, out->value, out->bound);
  if (out->met)
    return;
  format(e, out->value, a, sizeof a);
  format(e, out->bound, b, sizeof b);
  format(e, right->value, other, sizeof other);
  if (strcmp(a, b) == 0) { /* they differ where people's units round */
    format_exactly(out->value, e->kind, unit_of(e), a, sizeof a);
    format_exactly(out->bound, e->kind, unit_of(e), b, sizeof b);
  }
  if (e->has_right && (e->factor < 1 || e->factor > 1 || e->bound < 0 || e->bound > 0))
    snprintf(out->reason, sizeof out->reason, "%s is not %s %s (the other side is %s)", a,
             op_text[e->op], b, other);
  else
    snprintf(out->reason, sizeof out->reason, "%s is not %s %s", a, op_text[e->op], b);
}

/* ---- equivalence ---- */

static struct interval_side side_of(const struct expect_term *term, const struct series *s) {
  return (struct interval_side){.x = s->x,
                                .cluster = s->cluster,
                                .n = s->n,
                                .of = term->stat == STAT_QUANTILE ? INTERVAL_QUANTILE
                                      : term->metric->indicator   ? INTERVAL_SHARE
                                                                  : INTERVAL_MEAN,
                                .p = term->p};
}

static void judge_interval(const struct expect *e, double lo, double hi,
                           struct expect_result *out) {
  enum units_kind kind = e->margin_relative ? UNITS_RATIO : e->kind;
  char d[48], a[48], b[48], m[48];
  expect_format(out->value, kind, unit_of(e), d, sizeof d);
  expect_format(lo, kind, unit_of(e), a, sizeof a);
  expect_format(hi, kind, unit_of(e), b, sizeof b);
  expect_format(e->margin, kind, unit_of(e), m, sizeof m);
  out->met = lo >= -e->margin && hi <= e->margin;
  bool apart = lo > e->margin || hi < -e->margin;
  snprintf(out->reason, sizeof out->reason, "%s: the difference is %s (95 %%: %s to %s), margin %s",
           out->met ? "equivalent"
           : apart  ? "different"
                    : "undecided",
           d, a, b, m);
}

/* Which side is to blame that there is no interval. */
static void explain_undecided(const struct expect *e, const struct term_value *left,
                              const struct term_value *right, struct expect_result *out) {
  const struct expect_term *term = &e->left;
  uint32_t sessions = left->series.n_sessions;
  if (e->has_right && right->series.n_sessions < sessions) {
    term = &e->right;
    sessions = right->series.n_sessions;
  }
  double p = term->stat == STAT_QUANTILE ? term->p : -1;
  char why[120];
  interval_why(sessions, p, why, sizeof why);
  snprintf(out->reason, sizeof out->reason, "undecided: no interval: %s; run more sessions", why);
}

static void judge_equivalence(const struct expect *e, const struct table *t,
                              const struct term_value *left, const struct term_value *right,
                              struct expect_result *out) {
  double other = e->has_right ? right->value : e->bound, div = left->series.div, lo, hi;
  out->value = e->margin_relative ? left->value / other - 1 : left->value - other;
  if (!left->series.x || (e->has_right && !right->series.x)) {
    snprintf(out->reason, sizeof out->reason,
             "undecided: only a histogram of the gaps was kept, which gives no interval");
    return;
  }
  struct interval_side l = side_of(&e->left, &left->series);
  struct interval_side r = e->has_right ? side_of(&e->right, &right->series) : l;
  for (size_t i = 0; e->has_right && i < r.n; i++) /* both in the left side's unit */
    right->series.x[i] *= div / right->series.div;
  if (!left->series.n_sessions || (e->has_right && !right->series.n_sessions) ||
      !interval_difference(&l, e->has_right ? &r : NULL, e->bound * div, e->margin_relative,
                           t->n_clusters, &lo, &hi)) {
    explain_undecided(e, left, right, out);
    return;
  }
  judge_interval(e, e->margin_relative ? lo : lo / div, e->margin_relative ? hi : hi / div, out);
}

/* A goodput that is too low: which objective is to blame. */
static void note_objectives(const struct expect *e, const struct table *t,
                            const struct metrics *metrics, struct expect_result *out) {
  size_t n = strlen(out->reason);
  if (out->met || e->left.metric->id != METRIC_GOODPUT || isnan(out->value))
    return;
  struct filter_use use;
  struct goodput_counts c;
  char why[200];
  filter_use_init(&use, &e->left.filter, t);
  goodput_count(&c, t, metrics, &use);
  goodput_explain(metrics, &c, why, sizeof why);
  if (why[0])
    snprintf(out->reason + n, sizeof out->reason - n, ": %s", why);
  goodput_free(&c);
  filter_use_free(&use);
}

void expect_eval(const struct expect *e, const struct table *t, const struct metrics *metrics,
                 struct expect_result *out) {
  *out = (struct expect_result){.value = NAN, .bound = NAN};
  if (e->op == EXPECT_EQUIVALENT)
    out->bound = e->margin;
  struct term_value left, right = {.value = NAN};
  evaluate(&e->left, t, metrics, &left);
  if (e->has_right)
    evaluate(&e->right, t, metrics, &right);
  out->n = left.series.n;
  if (left.why[0] || right.why[0]) {
    out->value = left.value;
    if (!right.why[0] && e->op != EXPECT_EQUIVALENT)
      out->bound = bound_of(e, right.value);
    snprintf(out->reason, sizeof out->reason, "%s", left.why[0] ? left.why : right.why);
  } else if (e->op == EXPECT_EQUIVALENT) {
    judge_equivalence(e, t, &left, &right, out);
  } else {
    judge_bound(e, &left, &right, out);
  }
  note_objectives(e, t, metrics, out);
  series_free(&left.series);
  series_free(&right.series);
}
