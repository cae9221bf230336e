/* summary.h: summary.json: everything a run says in numbers, as one value.
 *
 * Schema: src/out/ROW.md. Built once after the run from the finished table; a million requests with
 * all intervals take one to two seconds. */
#ifndef OUT_SUMMARY_H
#define OUT_SUMMARY_H

#include "out/checks.h"
#include "out/expect.h"
#include "out/metrics.h"

#define SUMMARY_VERSION 1

struct summary_options {
  const char *run_id;
  const struct metrics *metrics;
  const struct expect *expects;
  size_t n_expects;
  struct checks_input checks;
  bool interrupted, simulated;
  const char *write_error;  /* what writer_stop said, NULL = all rows are on disk */
  const char *script_error; /* why the script is what is wrong, NULL = it is not */
};

/* Owned by the caller. Expectations written in Lua are appended to `expectations` by the command,
 * then verdict_store completes it. */
struct value summary_build(const struct table *t, const struct summary_options *options);

/* One group: all requests, or those of one arm (`arm` NULL: all). Fields requests, sessions,
 * metrics, as_infinity, turns, tags, policies, replicas, cached, throughput are set in `out`. */
void summary_group(const struct table *t, const struct summary_options *options, const char *arm,
                   struct value *out);
/* The counting part of a group: requests, other_requests, sessions, policies, replicas, cached,
 * throughput. */
void summary_counts(const struct table *t, const struct summary_options *options,
                    const struct filter *f, struct value *out);
/* Requests by the script's tags: fields tags and tags_left_out. */
void summary_tags(const struct table *t, const struct summary_options *options,
                  const struct filter *f, struct value *out);

/* Recorded values by the tags that came with them: field value_tags. */
void summary_values(const struct table *t, const struct summary_options *options,
                    const struct filter *f, struct value *out);

/* A number, or null when it is not finite. */
struct value summary_number(double x);

#endif
