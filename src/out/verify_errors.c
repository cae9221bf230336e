/* verify_errors.c: one row against its line of the truth log: stamps, counts, the replica; and what
 * the errors of stamps amount to. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "out/rowlog.h"
#include "out/stats.h"
#include "out/verify.h"
#include "text/jsonfields.h"

/* ---- errors of a stamp ---- */

/* Every second one of those that are kept goes. */
static void thin(struct verify_errors *e) {
  for (size_t i = 0; i < e->n_kept / 2; i++)
    e->ns[i] = e->ns[2 * i];
  e->n_kept /= 2;
  e->every *= 2;
}

void verify_add_error(struct verify_errors *e, double ns) {
  if (!e->n)
    e->every = 1;
  e->least = e->n ? fmin(e->least, ns) : ns;
  e->most = e->n ? fmax(e->most, ns) : ns;
  if (e->n++ % e->every)
    return;
  if (e->n_kept == VERIFY_MAX_ERRORS) {
    thin(e);
    if ((e->n - 1) % e->every)
      return;
  }
  MEM_GROW(e->ns, e->n_kept, e->cap);
  e->ns[e->n_kept++] = ns;
}

void verify_finish_errors(struct verify_errors *e) {
  static const double probs[VERIFY_SIZES] = {0.5, 0.9, 0.95, 0.99};
  e->median = stats_quantile_select(e->ns, e->n_kept, 0.5);
  for (size_t i = 0; i < e->n_kept; i++)
    e->ns[i] = fabs(e->ns[i]);
  for (int i = 0; i < VERIFY_SIZES; i++)
    e->size[i] = e->n_kept < stats_quantile_needs(probs[i])
                     ? NAN
                     : stats_quantile_select(e->ns, e->n_kept, probs[i]);
  mem_free(e->ns);
  e->ns = NULL;
  e->n_kept = e->cap = 0;
}

/* ---- a row and its line ---- */

const char *verify_count_name(int count) {
  static const char *const names[VERIFY_COUNTS] = {"prompt_tokens", "output_tokens",
                                                   "cached_tokens", "output_events"};
  return names[count];
}

/* A stamp of the client's against a write of the fleet's. */
static void compare_stamp(struct verify *v, enum verify_stamp which, uint64_t stamp,
                          uint64_t zero_ns, uint64_t write_ns) {
  if (stamp != SAMPLE_NEVER && write_ns)
    verify_add_error(&v->errors[which], (double)(int64_t)(stamp + zero_ns - write_ns));
}

struct gaps {
  struct verify_errors *errors;
  const struct truthlog_writes *writes;
  size_t at; /* the write that ends the next one */
};

static const char *compare_gap(const char *p, const char *end, void *arg) {
  struct gaps *g = arg;
  uint64_t said;
  p = jsonfields_digits(p, end, &said);
  if (!p || g->at >= g->writes->n)
    return NULL;
  uint64_t was = g->writes->outputs[g->at] - g->writes->outputs[g->at - 1];
  g->at++;
  verify_add_error(g->errors, (double)said - (double)was);
  return p;
}

static void compare_gaps(struct verify *v, struct jsonslice itl, const struct truthlog_writes *w) {
  struct gaps g = {&v->errors[VERIFY_ITL], w, 1};
  if (itl.p)
    jsonfields_array(itl.p, itl.end, compare_gap, &g);
}

static void compare_tpot(struct verify *v, const struct rowlog *r,
                         const struct truthlog_writes *w) {
  int64_t first = r->first_tokens > 0 ? r->first_tokens : 1, rest = r->output_tokens - first;
  double said = (double)r->t[STAMP_LAST_TOKEN] - (double)r->t[STAMP_FIRST_TOKEN];
  double was = (double)(w->outputs[w->n - 1] - w->outputs[0]);
  if (rest > 0 && said > 0 && was > 0)
    verify_add_error(&v->errors[VERIFY_TPOT], (said - was) / (double)rest);
}

static void compare_stamps(struct verify *v, const struct rowlog *r, const struct truthlog_line *l,
                           uint64_t zero_ns) {
  const struct truthlog_writes *w = &l->writes;
  compare_stamp(v, VERIFY_E2E, r->t[STAMP_DONE], zero_ns, w->last_ns);
  if (w->pieces)
    return;
  compare_stamp(v, VERIFY_FIRST_BYTE, r->t[STAMP_FIRST_BYTE], zero_ns, w->first_body_ns);
  if (!r->streamed || !w->n)
    return;
  compare_stamp(v, VERIFY_TTFT, r->t[STAMP_FIRST_TOKEN], zero_ns, w->outputs[0]);
  compare_stamp(v, VERIFY_FIRST_VISIBLE, r->first_visible, zero_ns, l->first_visible_ns);
  if ((int64_t)w->n != r->output_events)
    return;
  compare_stamp(v, VERIFY_LAST_TOKEN, r->t[STAMP_LAST_TOKEN], zero_ns, w->outputs[w->n - 1]);
  compare_gaps(v, r->itl, w);
  compare_tpot(v, r, w);
}

static void name_difference(struct verify *v, const struct rowlog *r, const char *what,
                            int64_t said, int64_t was) {
  if (value_count(&v->first) == VERIFY_NAMED)
    return;
  struct value *d = value_push(&v->first, value_object());
  value_set(d, "request_id",
            value_string(r->request_id.p, (size_t)(r->request_id.end - r->request_id.p)));
  value_set(d, "session", value_int((int64_t)r->session));
  value_set(d, "turn", r->turn < 0 ? value_null() : value_int(r->turn));
  value_set(d, "step", r->step < 0 ? value_null() : value_int(r->step));
  value_set(d, "what", value_cstring(what));
  value_set(d, "row", value_int(said));
  value_set(d, "truth", value_int(was));
}

static void compare_counts(struct verify *v, const struct rowlog *r,
                           const struct truthlog_line *l) {
  const struct truthlog_writes *w = &l->writes;
  bool events = r->streamed && !w->pieces, differs = false;
  const int64_t pairs[VERIFY_COUNTS][2] = {{r->prompt_tokens, l->prompt_tokens},
                                           {r->output_tokens, l->output_tokens},
                                           {r->cached_tokens, l->cached_tokens},
                                           {events ? r->output_events : -1, (int64_t)w->n}};
  for (int i = 0; i < VERIFY_COUNTS; i++) {
    if (pairs[i][0] < 0 || pairs[i][1] < 0)
      continue;
    v->compared[i]++;
    if (pairs[i][0] == pairs[i][1])
      continue;
    v->differ[i]++;
    differs = differs || i != VERIFY_OUTPUT_EVENTS;
    name_difference(v, r, verify_count_name(i), pairs[i][0], pairs[i][1]);
  }
  v->differing += differs;
}

static void compare_replica(struct verify *v, const struct rowlog *r,
                            const struct truthlog_line *l) {
  v->placed += r->served.p != NULL;
  v->elsewhere += r->served.p && !linefile_same(r->served, l->replica);
  v->chosen += r->chosen.p != NULL;
  v->chosen_elsewhere += r->chosen.p && !linefile_same(r->chosen, l->replica);
}

void verify_compare(struct verify *v, const struct verify_row *row, uint64_t zero_ns) {
  const struct truthlog_line *l = &v->truth.line;
  struct rowlog r;
  if (!rowlog_read(verify_line(row), &r))
    return; /* it was read before */
  compare_replica(v, &r, l);
  if (!row->good)
    return;
  compare_counts(v, &r, l);
  if (row->measured)
    compare_stamps(v, &r, l, zero_ns);
}
