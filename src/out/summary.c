/* summary.c: puts summary.json together. */
#include "out/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "out/series.h"
#include "out/tokenparity.h"

struct value summary_number(double x) {
  return isfinite(x) ? value_double(x) : value_null();
}

/* Requests (sessions) that a term is about, and how many of them the end of the run cut off. */
static void count_cut(const struct expect_term *term, const struct table *t,
                      const struct metrics *m, double *all, double *cut) {
  *all = *cut = 0;
  enum metric_domain domain = term->metric->domain;
  if (domain == METRIC_OF_REQUEST || domain == METRIC_OF_GAP) {
    struct series s;
    series_collect(&s, t, m, metrics_get(m, METRIC_INCOMPLETE), &term->filter);
    *all = (double)s.n;
    *cut = series_stat(&s, metrics_get(m, METRIC_INCOMPLETE), STAT_COUNT, 0);
    series_free(&s);
  } else if (domain == METRIC_OF_SESSION) {
    struct filter_use use;
    filter_use_init(&use, &term->filter, t);
    for (size_t i = 0; i < t->n_sessions; i++) {
      const struct table_session *s = &t->sessions[i];
      bool counts = s->measured && s->error != SAMPLE_CANCELLED && filter_match_session(&use, s);
      *all += counts;
      *cut += counts && s->error == SAMPLE_INCOMPLETE;
    }
    filter_use_free(&use);
  }
}

/* Whether what the end of the run cut off is not among the metric's values. */
static bool leaves_out_cut(const struct metric *m) {
  switch (m->id) {
  case METRIC_INCOMPLETE:
  case METRIC_REQUESTS: /* every outcome */
  case METRIC_SESSIONS:
  case METRIC_START_LAG: /* of every request that began */
  case METRIC_CLIENT_OVERHEAD:
  case METRIC_ROUTE_FALLBACK:
  case METRIC_REPLICA_SHARE:
  case METRIC_MEASUREMENT_ERROR:
    return false;
  default:
    return true;
  }
}

/* An expectation is judged on what ended. Beyond the limit of the check, and always for the shares
 * that leave out what was cut off, the reason says so. */
static void note_incomplete(const struct expect *e, const struct table *t,
                            const struct summary_options *o, struct expect_result *r) {
  const struct expect_term *terms[] = {&e->left, &e->right};
  for (size_t i = 0; i < (e->has_right ? 2 : 1); i++) {
    enum metric_id id = terms[i]->metric->id;
    double all, cut;
    if (!leaves_out_cut(terms[i]->metric))
      continue;
    count_cut(terms[i], t, o->metrics, &all, &cut);
    bool sessions = terms[i]->metric->domain == METRIC_OF_SESSION;
    bool always = id == METRIC_FAILED || id == METRIC_GOODPUT;
    double limit =
        o->checks.limits.limit[sessions ? CHECK_INCOMPLETE_SESSIONS : CHECK_INCOMPLETE_REQUESTS];
    if (!(cut > 0) || (!always && cut <= limit * all))
      continue;
    size_t n = strlen(r->reason);
    snprintf(r->reason + n, sizeof r->reason - n,
             "%s%.0f of %.0f %s (%.3g %%) never ended and are not in it",
             n        ? "; "
             : r->met ? "met; "
                      : "",
             cut, all, sessions ? "sessions" : "requests", 100 * cut / all);
    return;
  }
}

static const char *expect_unit(const struct expect *e, enum units_kind kind) {
  return kind == UNITS_NONE && e->left.stat != STAT_COUNT ? e->left.metric->unit : NULL;
}

static void set_expectations(const struct table *t, const struct summary_options *o,
                             struct value *out) {
  struct value *list = value_set(out, "expectations", value_array());
  for (size_t i = 0; i < o->n_expects; i++) {
    const struct expect *e = &o->expects[i];
    struct expect_result r;
    expect_eval(e, t, o->metrics, &r);
    note_incomplete(e, t, o, &r);
    struct value *v = value_push(list, value_object());
    value_set(v, "text", value_cstring(e->text));
    value_set(v, "met", value_bool(r.met));
    value_set(v, "value", summary_number(r.value));
    value_set(v, "bound", summary_number(r.bound));
    char shown[48];
    enum units_kind kind = e->op == EXPECT_EQUIVALENT && e->margin_relative ? UNITS_RATIO : e->kind;
    expect_format(r.value, kind, expect_unit(e, kind), shown, sizeof shown);
    value_set(v, "shown", value_cstring(shown));
    char understood[64] = "";
    expect_format(r.bound, kind, expect_unit(e, kind), shown, sizeof shown);
    if (isfinite(r.bound))
      snprintf(understood, sizeof understood, "%s%s%s",
               e->op == EXPECT_EQUIVALENT ? "±" : expect_op_text(e->op), " ", shown);
    value_set(v, "bound_shown", value_cstring(understood[0] ? understood : NULL));
    value_set(v, "n", value_int((int64_t)r.n));
    value_set(v, "reason", value_cstring(r.reason[0] ? r.reason : NULL));
  }
}

/* vu:check: {name: {passed, failed}} */
static void set_script_checks(const struct table *t, struct value *out) {
  struct value *checks = value_set(out, "script_checks", value_object());
  int64_t values = 0;
  for (size_t i = 0; i < t->n_values; i++) {
    const struct table_value *v = &t->values[i];
    values += v->measured;
    if (!v->is_check || !v->measured)
      continue;
    const char *name = t->value_names.items[v->name];
    struct value *c = value_get(checks, name);
    if (!c) {
      c = value_set(checks, name, value_object());
      value_set(c, "passed", value_int(0));
      value_set(c, "failed", value_int(0));
    }
    value_get(c, v->value > 0 ? "passed" : "failed")->u.integer++;
  }
  value_set(out, "values", value_int(values));
}

struct value summary_build(const struct table *t, const struct summary_options *o) {
  struct check checks[CHECK_COUNT];
  checks_run(t, &o->checks, checks);
  struct value out = value_object();
  value_set(&out, "v", value_int(SUMMARY_VERSION));
  value_set(&out, "run", value_cstring(o->run_id));
  value_set(&out, "valid", value_bool(checks_valid(checks)));
  value_set(&out, "interrupted", value_bool(o->interrupted));
  value_set(&out, "simulated", value_bool(o->simulated));
  value_set(&out, "write_error", value_cstring(o->write_error));
  value_set(&out, "script_error", value_cstring(o->script_error));
  value_set(&out, "checks", checks_value(checks));
  value_set(&out, "parity", tokenparity_value(t, o->checks.parity, o->checks.parity_missing));
  set_expectations(t, o, &out);
  summary_group(t, o, NULL, &out);
  value_set(&out, "causes", value_object());
  value_set(&out, "ledger", value_null()); /* cmd/runverify.c */
  value_set(&out, "verify", value_null());
  set_script_checks(t, &out);
  struct value *arms = value_set(&out, "arms", value_object());
  for (size_t i = 0; i < t->arms.n; i++) {
    struct value group = value_object();
    summary_group(t, o, t->arms.items[i], &group);
    value_set(arms, t->arms.items[i], group);
  }
  return out;
}
