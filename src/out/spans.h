/* spans.h: what requests were like before, during and after something that was done to the fleet.
 *
 * `during` is from its begin to its end, and at least SPANS_LEAST_NS: what happens in an instant
 * has one, too. `before` and `after` are equally long, `window_ns` each. All are cut at the
 * measured window. Requests belong to the span in which they started, failures to that in which
 * they ended, gaps between output events to that in which they ended, and output tokens are spread
 * evenly between the first and the last one. */
#ifndef OUT_SPANS_H
#define OUT_SPANS_H

#include "out/metrics.h"
#include "out/table.h"

#define SPANS_LEAST_NS NS_PER_S
#define SPANS_WINDOW_NS (10 * NS_PER_S) /* at least, of one that does not say */

struct spans_input {
  uint64_t begin_ns, end_ns;   /* since the run's zero */
  uint64_t window_ns;          /* 0: as long as `during`, and at least SPANS_WINDOW_NS */
  const char *const *replicas; /* whose requests are also told apart; ids */
  size_t n_replicas;
};

/* {before, during, after}: of each {from_ns, to_ns, seconds, requests, failed, incomplete, ttft and
 * itl {n, mean, p50, p95, p99, max}, output_tokens_rate, prompt_tokens, cached_tokens,
 * cached_share, replicas {id: the same from `requests` on}}; null where nothing of it is in the
 * measured window. The caller frees. */
struct value spans_value(const struct table *t, const struct metrics *m,
                         const struct spans_input *in);

#endif
