/* goodput.h: did a request meet the objectives of the plan's `slo`?
 *
 * An objective that cannot be judged (a tpot without token counts, the ttft of a reply that was not
 * streamed) makes a request neither good nor bad: it is left out of `goodput` and counted, unless
 * another objective is broken. A tpot that is undefined because there is nothing it could be the
 * time of (a reply of one token, or of one read) is no objection. Failed requests are not good. */
#ifndef OUT_GOODPUT_H
#define OUT_GOODPUT_H

#include "out/filter.h"
#include "out/metrics.h"

/* 1 good, 0 not, NAN: it does not count, or cannot be judged. */
double goodput_of_row(const struct metrics *m, const struct table_row *row);

/* How one objective fared over the requests that ended well. */
struct goodput_slo {
  uint64_t judged, broken, unjudged; /* judged includes the broken */
  uint64_t not_streamed;             /* of the unjudged: the reply was no event stream */
};
struct goodput_counts {
  struct goodput_slo *slos; /* one for each of metrics.slos */
  uint64_t unjudged;        /* requests that are in no goodput for want of a value */
  uint64_t failed;
};
/* Of measured generation requests that match; `use` NULL: all. */
void goodput_count(struct goodput_counts *c, const struct table *t, const struct metrics *m,
                   const struct filter_use *use);
void goodput_free(struct goodput_counts *c);

/* Why the objective could not be judged: "replies were not streamed". `out`: 120 bytes. */
void goodput_reason(const struct metrics *m, const struct goodput_counts *c, size_t slo, char *out,
                    size_t size);
/* "ttft > 400 ms in 12 of 43; tpot could not be judged in 43: …", as far as there is room. */
void goodput_explain(const struct metrics *m, const struct goodput_counts *c, char *out,
                     size_t size);
/* Array of {metric, limit, unit, judged, broken, unjudged, reason}. */
struct value goodput_value(const struct metrics *m, const struct goodput_counts *c);

#endif
