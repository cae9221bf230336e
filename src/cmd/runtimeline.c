/* runtimeline.c: what was done to the fleet during a run, in its summary: each action with what
 * requests were like before, during and after it. */
#include <math.h>
#include <string.h>

#include "cmd/runjob.h"
#include "out/spans.h"
#include "out/summary.h"

#define MOST_SPANS 100 /* actions whose spans are told: each is a walk of the table */
#define MOST_IDS 64    /* replicas of one action that are told apart */

static struct value time_value(uint64_t ns) {
  return ns == TIMELINE_NEVER ? value_null() : value_int((int64_t)ns);
}

/* The replicas that the fleet says it did it to, unless those are all. */
static size_t affected(const struct runjob *job, const struct timeline_record *r,
                       const char *ids[MOST_IDS]) {
  const struct value *list = value_get(&r->answer, "replicas");
  size_t n = value_count(list);
  if (n > MOST_IDS || n >= job->fleet.n_replicas)
    return 0;
  for (size_t i = 0; i < n; i++)
    ids[i] = value_to_string(value_at(list, i));
  return n;
}

/* Of the one that was asked for, when the fleet has not said it yet: it was cut off. */
static size_t named(const struct timeline_record *r, const char *ids[MOST_IDS]) {
  ids[0] = value_to_string(value_get(&r->action, "replica"));
  return ids[0] && strcmp(ids[0], "*") != 0 ? 1 : 0;
}

static void add_spans(const struct runjob *job, const struct timeline_record *r,
                      struct value *out) {
  const char *ids[MOST_IDS];
  bool ended = r->end_ns != TIMELINE_NEVER;
  const struct spans_input in = {
      .begin_ns = r->begin_ns,
      .end_ns = ended ? r->end_ns : job->result.window_end_ns,
      .window_ns = r->entry ? (uint64_t)(r->entry->window_s * 1e9) : 0,
      .replicas = ids,
      .n_replicas = ended ? affected(job, r, ids) : named(r, ids),
  };
  struct value spans = spans_value(writer_table(job->writer), &job->metrics, &in);
  for (size_t i = 0; i < value_count(&spans); i++) {
    struct value_pair *pair = &spans.u.object.pairs[i];
    value_set(out, pair->key, pair->value);
    pair->value = value_null();
  }
  value_free(&spans);
}

static bool has_spans(const struct runjob *job, const struct timeline_record *r) {
  return (r->state == TIMELINE_DONE || r->state == TIMELINE_CUT_OFF) &&
         r->begin_ns != TIMELINE_NEVER && r->begin_ns >= job->result.window_start_ns &&
         r->begin_ns < job->result.window_end_ns;
}

static struct value record_value(const struct runjob *job, const struct timeline_record *r) {
  struct value v = value_object();
  bool planned = r->entry != NULL;
  double start = (double)job->result.window_start_ns;
  value_set(&v, "entry", planned ? value_int(r->entry->number) : value_null());
  value_set(&v, "round", planned ? value_int(r->entry->round) : value_null());
  value_set(&v, "by", value_cstring(r->by));
  value_set(&v, "action", value_copy(&r->action));
  value_set(&v, "state", value_cstring(timeline_state_name(r->state)));
  value_set(&v, "error", value_cstring(r->error));
  value_set(&v, "at_s",
            planned ? value_double(r->entry->at_s)
                    : summary_number(((double)r->begin_ns - start) / 1e9));
  value_set(&v, "due_ns", time_value(r->due_ns));
  value_set(&v, "begin_ns", time_value(r->begin_ns));
  value_set(&v, "end_ns", time_value(r->end_ns));
  value_set(&v, "answer", value_copy(&r->answer));
  value_set(&v, "before", value_null());
  value_set(&v, "during", value_null());
  value_set(&v, "after", value_null());
  return v;
}

void runtimeline_add(const struct runjob *job, struct value *summary) {
  const struct timeline_log *log = &job->result.timeline;
  struct value *list = value_set(summary, "timeline", value_array());
  size_t with_spans = 0;
  for (size_t i = 0; i < log->n; i++) {
    struct value *v = value_push(list, record_value(job, &log->records[i]));
    if (has_spans(job, &log->records[i]) && with_spans++ < MOST_SPANS)
      add_spans(job, &log->records[i], v);
  }
  value_set(summary, "timeline_left_out", value_int((int64_t)log->left_out));
}

void runtimeline_check(const struct runjob *job, struct checks_input *in) {
  const struct timeline_log *log = &job->result.timeline;
  for (size_t i = 0; i < log->n; i++) {
    const struct timeline_record *r = &log->records[i];
    if (!r->entry)
      continue;
    in->timeline++;
    in->timeline_failed += r->state == TIMELINE_FAILED;
    in->timeline_not_begun += r->state == TIMELINE_NOT_BEGUN;
    in->timeline_cut_off += r->state == TIMELINE_CUT_OFF;
  }
}
