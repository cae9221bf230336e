/* goodput.c: objectives against requests, and what is said of those that could not be judged. */
#include "out/goodput.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "out/expect.h"

enum judgement { MET, BROKEN, UNKNOWN };

static enum judgement judge(const struct metrics *m, const struct slo *slo,
                            const struct table_row *r) {
  double x = metrics_of_row(m, slo->metric, r);
  if (!isnan(x))
    return x / metrics_divisor(slo->metric) > slo->max ? BROKEN : MET;
  bool nothing_to_time = slo->metric->id == METRIC_TPOT && (r->flags & ROW_STREAMED) &&
                         ((table_row_output(r) >= 0 &&
                           table_row_output(r) <= (r->first_tokens > 0 ? r->first_tokens : 1)) ||
                          metrics_same_read(r));
  return nothing_to_time ? MET : UNKNOWN;
}

double goodput_of_row(const struct metrics *m, const struct table_row *r) {
  if (!m->n_slos || (r->error != SAMPLE_OK && !sample_error_failed((enum sample_error)r->error)))
    return NAN;
  if (r->error != SAMPLE_OK)
    return 0;
  bool unknown = false;
  for (size_t i = 0; i < m->n_slos; i++) {
    enum judgement one = judge(m, &m->slos[i], r);
    if (one == BROKEN)
      return 0;
    unknown = unknown || one == UNKNOWN;
  }
  return unknown ? NAN : 1;
}

void goodput_count(struct goodput_counts *c, const struct table *t, const struct metrics *m,
                   const struct filter_use *use) {
  *c = (struct goodput_counts){.slos = mem_calloc(m->n_slos, sizeof *c->slos)};
  for (size_t i = 0; i < t->n_rows && m->n_slos; i++) {
    const struct table_row *r = &t->rows[i];
    if (!(r->flags & ROW_MEASURED) || (t->has_generation && !(r->flags & ROW_GENERATION)) ||
        (use && !filter_match_row(use, r)))
      continue;
    c->failed += sample_error_failed((enum sample_error)r->error);
    if (r->error != SAMPLE_OK)
      continue;
    if (isnan(goodput_of_row(m, r)))
      c->unjudged++;
    for (size_t k = 0; k < m->n_slos; k++) {
      struct goodput_slo *slo = &c->slos[k];
      enum judgement one = judge(m, &m->slos[k], r);
      slo->judged += one != UNKNOWN;
      slo->broken += one == BROKEN;
      slo->unjudged += one == UNKNOWN;
      slo->not_streamed += one == UNKNOWN && !(r->flags & ROW_STREAMED);
    }
  }
}

void goodput_free(struct goodput_counts *c) {
  mem_free(c->slos);
  *c = (struct goodput_counts){0};
}

void goodput_reason(const struct metrics *m, const struct goodput_counts *c, size_t slo, char *out,
                    size_t size) {
  const struct goodput_slo *s = &c->slos[slo];
  const struct metric *metric = m->slos[slo].metric;
  bool from_stream = metric->failures_beside && metric->id != METRIC_E2E;
  if (!s->unjudged)
    snprintf(out, size, "%s", "");
  else if (from_stream && s->not_streamed)
    snprintf(out, size, "%s", "replies were not streamed");
  else if (metric->id == METRIC_TPOT)
    snprintf(out, size, "%s", "replies did not say their number of output tokens (usage)");
  else if (metric->needs)
    snprintf(out, size, "it needs %s", metric->needs);
  else
    snprintf(out, size, "replies have no %s", metric->name);
}

void goodput_explain(const struct metrics *m, const struct goodput_counts *c, char *out,
                     size_t size) {
  size_t len = 0;
  out[0] = '\0';
  for (size_t i = 0; i < m->n_slos; i++) {
    const struct goodput_slo *s = &c->slos[i];
    uint64_t all = s->unjudged + s->judged;
    char part[260] = "", limit[48], why[120];
    expect_format(m->slos[i].max, m->slos[i].metric->kind,
                  m->slos[i].metric->kind == UNITS_NONE ? m->slos[i].metric->unit : NULL, limit,
                  sizeof limit);
    size_t n = 0;
    if (s->broken)
      n = (size_t)snprintf(part, sizeof part, "%s > %s in %llu of %llu", m->slos[i].metric->name,
                           limit, (unsigned long long)s->broken, (unsigned long long)s->judged);
    if (s->unjudged) {
      goodput_reason(m, c, i, why, sizeof why);
      snprintf(part + n, sizeof part - n, "%s%s could not be judged in %llu of %llu: %s",
               n ? ", " : "", m->slos[i].metric->name, (unsigned long long)s->unjudged,
               (unsigned long long)all, why);
    }
    if (part[0] && len + strlen(part) + 3 < size)
      len += (size_t)snprintf(out + len, size - len, "%s%s", len ? "; " : "", part);
  }
}

struct value goodput_value(const struct metrics *m, const struct goodput_counts *c) {
  struct value list = value_array();
  for (size_t i = 0; i < m->n_slos; i++) {
    const struct goodput_slo *s = &c->slos[i];
    char why[120];
    goodput_reason(m, c, i, why, sizeof why);
    struct value *v = value_push(&list, value_object());
    value_set(v, "metric", value_cstring(m->slos[i].metric->name));
    value_set(v, "limit", value_double(m->slos[i].max));
    value_set(v, "unit", value_cstring(m->slos[i].metric->unit));
    value_set(v, "judged", value_int((int64_t)s->judged));
    value_set(v, "broken", value_int((int64_t)s->broken));
    value_set(v, "unjudged", value_int((int64_t)s->unjudged));
    value_set(v, "reason", value_cstring(why[0] ? why : NULL));
  }
  return list;
}
