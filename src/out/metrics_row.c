/* metrics_row.c: the definitions: what a request's stamps and counts say of each metric.
 *
 * DESIGN.md, "What is measured", in code. Latencies are those of requests that ended well; failures
 * stand beside them in every report. */
#include <math.h>

#include "out/goodput.h"
#include "out/metrics.h"

static double span(uint64_t from, uint64_t to) {
  return from == SAMPLE_NEVER || to == SAMPLE_NEVER ? NAN : (double)to - (double)from;
}

static double count(int32_t n) {
  return n < 0 ? NAN : (double)n;
}

/* ns per token after the first event; absent, never 0, when undefined. */
static double tpot(const struct table_row *r) {
  int32_t n = table_row_output(r), first = r->first_tokens > 0 ? r->first_tokens : 1;
  double time = span(r->first_token, r->last_token);
  return n < 0 || n <= first || !(time > 0) ? NAN : time / (n - first);
}

bool metrics_same_read(const struct table_row *r) {
  return r->error == SAMPLE_OK && (r->flags & ROW_STREAMED) && table_row_output(r) > 1 &&
         r->first_token != SAMPLE_NEVER && r->first_token == r->last_token;
}

static double cached_ratio(const struct table_row *r) {
  int32_t n = table_row_prompt(r);
  return r->cached_tokens < 0 || n <= 0 ? NAN : (double)r->cached_tokens / n;
}

double metrics_divisor(const struct metric *metric) {
  return metric->kind == UNITS_TIME && metric->domain != METRIC_OF_SCRIPT ? 1e9 : 1;
}

double metrics_of_row(const struct metrics *m, const struct metric *metric,
                      const struct table_row *r) {
  bool ok = r->error == SAMPLE_OK, failed = sample_error_failed((enum sample_error)r->error);
  bool stream = ok && (r->flags & ROW_STREAMED); /* a whole reply has no event, only its end */
  switch (metric->id) {
  case METRIC_TTFT:
    return stream ? span(r->start, r->first_token) : NAN;
  case METRIC_TTFT_SCHED:
    return stream ? span(r->sched, r->first_token) : NAN;
  case METRIC_TTFT_SENT:
    return stream ? span(r->sent, r->first_token) : NAN;
  case METRIC_FIRST_VISIBLE:
    return stream ? span(r->start, r->first_visible) : NAN;
  case METRIC_TPOT:
    return stream ? tpot(r) : NAN;
  case METRIC_OUTPUT_RATE:
    return stream ? 1e9 / tpot(r) : NAN;
  case METRIC_E2E:
    return ok ? span(r->start, r->done) : NAN;
  case METRIC_START_LAG:
    return span(r->sched, r->start);
  case METRIC_CLIENT_OVERHEAD:
    return r->overhead_ns == SAMPLE_ABSENT ? NAN : (double)r->overhead_ns;
  case METRIC_ROUTE_FALLBACK:
    return r->flags & ROW_ROUTED ? (r->flags & ROW_FALLBACK) != 0 : NAN;
  case METRIC_PROMPT_TOKENS:
    return ok ? count(table_row_prompt(r)) : NAN;
  case METRIC_OUTPUT_TOKENS:
    return ok ? count(table_row_output(r)) : NAN;
  case METRIC_CACHED_TOKENS:
    return ok ? count(r->cached_tokens) : NAN;
  case METRIC_CACHED_RATIO:
    return ok ? cached_ratio(r) : NAN;
  case METRIC_SURVIVED_TOKENS:
    return count(r->survived);
  case METRIC_POSSIBLE:
    return ok ? count(r->possible) : NAN;
  case METRIC_AVAILABLE:
    return ok ? count(r->available) : NAN;
  case METRIC_CAPTURED:
    return ok ? count(r->captured) : NAN;
  case METRIC_DELIVERED:
    return ok ? count(r->delivered) : NAN;
  case METRIC_REGRET:
    return ok && r->available >= 0 && r->captured >= 0 ? (double)r->available - r->captured : NAN;
  case METRIC_TOKEN_COUNT_DIFF:
    return ok && r->output_tokens >= 0 && r->output_local >= 0
               ? (double)r->output_tokens - r->output_local
               : NAN;
  case METRIC_MEASUREMENT_ERROR:
    return r->error_ns == SAMPLE_ABSENT ? NAN : (double)r->error_ns;
  case METRIC_FAILED:
    return ok || failed ? failed : NAN;
  case METRIC_INCOMPLETE:
    return r->error == SAMPLE_CANCELLED ? NAN : r->error == SAMPLE_INCOMPLETE;
  case METRIC_GOODPUT:
    return goodput_of_row(m, r);
  case METRIC_REQUESTS:
    return 1;
  default:
    assert(metric->domain == METRIC_OF_REQUEST);
    return NAN;
  }
}
