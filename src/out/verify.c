/* verify.c: the join and the comparison; see verify.h. */
#include "out/verify.h"

#define XXH_INLINE_ALL
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "out/checks.h"
#include "out/rowlog.h"
#include "out/stats.h"

#define CLOCK_SLACK_NS                                                                             \
  (50 * NS_PER_MS) /* by which a request may seem to arrive before it was sent */

/* ---- joining ---- */

static void count_reason(struct value *reasons, struct jsonslice reason) {
  char name[40] = "";
  size_t len = (size_t)(reason.end - reason.p);
  memcpy(name, reason.p, len < sizeof name ? len : sizeof name - 1);
  struct value *n = value_get(reasons, name);
  if (n)
    n->u.integer++;
  else
    value_set(reasons, name, value_int(1));
}

static void count_named(struct value *reasons, const char *reason) {
  count_reason(reasons, (struct jsonslice){reason, reason + strlen(reason)});
}

static uint64_t hash_of(struct jsonslice id) {
  return id.p ? XXH3_64bits(id.p, (size_t)(id.end - id.p)) : 0;
}

static int read_rows(struct verify *v, const char *path, struct err *err) {
  struct jsonslice line;
  struct rowlog r;
  size_t at = 0;
  int rc = linefile_open(&v->samples, path, err);
  while (!rc && linefile_next(&v->samples, &at, &line)) {
    if (!rowlog_read(line, &r))
      return err_set(err, ERR_INVALID, "%s, line %zu: not a row of a run", path, v->n_rows + 1);
    MEM_GROW(v->rows, v->n_rows, v->cap_rows);
    v->rows[v->n_rows++] = (struct verify_row){.line = line,
                                               .request_id = r.request_id,
                                               .hash = hash_of(r.request_id),
                                               .start = r.t[STAMP_START],
                                               .done = r.t[STAMP_DONE],
                                               .good = r.generation && !r.error.p,
                                               .measured = r.measured,
                                               .generation = r.generation};
    v->generations += r.generation;
  }
  return rc;
}

/* Rows by id: open addressing, a row's number from 1. */
struct index {
  uint32_t *slots;
  size_t mask;
};

static uint32_t *slot_of(const struct index *x, const struct verify *v, struct jsonslice id,
                         uint64_t hash) {
  size_t i = (size_t)hash & x->mask;
  for (; x->slots[i]; i = (i + 1) & x->mask) {
    const struct verify_row *r = &v->rows[x->slots[i] - 1];
    if (r->hash == hash && linefile_same(r->request_id, id))
      break;
  }
  return &x->slots[i];
}

static void index_rows(struct index *x, struct verify *v) {
  size_t slots = 16;
  while (slots < 2 * v->n_rows)
    slots *= 2;
  *x = (struct index){.slots = mem_calloc(slots, sizeof *x->slots), .mask = slots - 1};
  for (size_t i = 0; i < v->n_rows; i++) {
    struct verify_row *r = &v->rows[i];
    if (!r->generation || !r->request_id.p)
      continue;
    uint32_t *slot = slot_of(x, v, r->request_id, r->hash);
    if (*slot)
      r->ambiguous = v->rows[*slot - 1].ambiguous = true;
    else
      *slot = (uint32_t)i + 1;
  }
}

/* "perigee-RUN-": what the ids of one run begin with; p NULL when they are a script's. */
static struct jsonslice run_part(const struct verify *v) {
  for (size_t i = 0; i < v->n_rows; i++) {
    struct jsonslice id = v->rows[i].request_id;
    const char *dash = id.p ? memchr(id.p, '-', (size_t)(id.end - id.p)) : NULL;
    dash = dash ? memchr(dash + 1, '-', (size_t)(id.end - dash - 1)) : NULL;
    if (dash)
      return (struct jsonslice){id.p, dash + 1};
  }
  return (struct jsonslice){0};
}

static const char *why_alone(struct jsonslice id, struct jsonslice run) {
  if (!id.p)
    return "no request id";
  size_t len = (size_t)(run.end - run.p);
  if (run.p && (size_t)(id.end - id.p) > len && memcmp(id.p, run.p, len) == 0)
    return "no row"; /* of setup or teardown, or lost with a worker */
  return "of another client";
}

static void join(struct verify *v) {
  struct index x;
  struct jsonslice run = run_part(v);
  index_rows(&x, v);
  for (size_t i = 0; i < v->truth.n; i++) {
    const struct truthlog_entry *e = &v->truth.entries[i];
    uint32_t *slot = e->line.request_id.p
                         ? slot_of(&x, v, e->line.request_id, hash_of(e->line.request_id))
                         : NULL;
    if (!slot || !*slot) {
      count_named(&v->lines_alone, why_alone(e->line.request_id, run));
      continue;
    }
    struct verify_row *r = &v->rows[*slot - 1];
    if (r->ambiguous) {
      count_named(&v->lines_alone, "id of several rows");
      continue;
    }
    if (r->entry)
      count_named(&v->lines_alone, "sent again");
    if (!r->entry || v->truth.entries[r->entry - 1].line.received_ns < e->line.received_ns)
      r->entry = (uint32_t)i + 1;
  }
  mem_free(x.slots);
}

static void count_alone(struct verify *v) {
  for (size_t i = 0; i < v->n_rows; i++) {
    const struct verify_row *r = &v->rows[i];
    struct rowlog row;
    if (!r->generation)
      continue;
    v->joined += r->entry != 0;
    if (r->entry)
      continue;
    v->missing += r->good;
    if (r->ambiguous)
      count_named(&v->rows_alone, "id of several rows");
    else if (r->good || !rowlog_read(r->line, &row))
      count_named(&v->rows_alone, "ok");
    else
      count_reason(&v->rows_alone, row.error);
  }
}

/* What arrived before it was sent, or after its reply was over, is of another clock. */
static int check_clocks(const struct verify *v, uint64_t zero_ns, const char *truth,
                        struct err *err) {
  uint64_t odd = 0, n = 0;
  for (size_t i = 0; i < v->n_rows; i++) {
    const struct verify_row *r = &v->rows[i];
    if (!r->entry || r->start == SAMPLE_NEVER || r->done == SAMPLE_NEVER)
      continue;
    uint64_t at = v->truth.entries[r->entry - 1].line.received_ns + CLOCK_SLACK_NS;
    n++;
    odd += at < zero_ns + r->start || at > zero_ns + r->done + 2 * CLOCK_SLACK_NS;
  }
  if (2 * odd <= n)
    return 0;
  return err_set(
      err, ERR_INVALID,
      "%s: %llu of %llu requests reached the fleet before they were sent, or after their "
      "replies: its clock is not the client's. Stamps can be compared when both ran on "
      "one host, without a reboot in between",
      truth, (unsigned long long)odd, (unsigned long long)n);
}

/* ---- comparing ---- */

static void add_error(struct verify *v, enum verify_stamp stamp, double ns) {
  struct verify_errors *e = &v->errors[stamp];
  if (stamp == VERIFY_ITL && e->n == VERIFY_MAX_GAPS)
    return;
  MEM_GROW(e->ns, e->n, e->cap);
  e->ns[e->n++] = ns;
}

/* A stamp of the client's against a write of the fleet's. */
static void compare_stamp(struct verify *v, enum verify_stamp which, uint64_t stamp,
                          uint64_t zero_ns, uint64_t write_ns) {
  if (stamp != SAMPLE_NEVER && write_ns)
    add_error(v, which, (double)(int64_t)(stamp + zero_ns - write_ns));
}

static void compare_gaps(struct verify *v, struct jsonslice itl, const struct truthlog_writes *w) {
  struct jsonwalk walk;
  struct jsonslice key, value;
  if (!jsonwalk_begin(&walk, itl, '['))
    return;
  for (size_t i = 1; i < w->n && jsonwalk_next(&walk, &key, &value) > 0; i++)
    add_error(v, VERIFY_ITL,
              (double)linefile_int(value, 0) - (double)(w->outputs[i] - w->outputs[i - 1]));
}

static void compare_tpot(struct verify *v, const struct rowlog *r,
                         const struct truthlog_writes *w) {
  int64_t first = r->first_tokens > 0 ? r->first_tokens : 1, rest = r->output_tokens - first;
  double said = (double)r->t[STAMP_LAST_TOKEN] - (double)r->t[STAMP_FIRST_TOKEN];
  double was = (double)(w->outputs[w->n - 1] - w->outputs[0]);
  if (rest > 0 && said > 0 && was > 0)
    add_error(v, VERIFY_TPOT, (said - was) / (double)rest);
}

static void compare_stamps(struct verify *v, const struct rowlog *r, const struct truthlog_line *l,
                           const struct truthlog_writes *w, uint64_t zero_ns) {
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

static const char *const count_names[VERIFY_COUNTS] = {"prompt_tokens", "output_tokens",
                                                       "cached_tokens", "output_events"};

static void compare_counts(struct verify *v, const struct rowlog *r, const struct truthlog_line *l,
                           const struct truthlog_writes *w) {
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
    name_difference(v, r, count_names[i], pairs[i][0], pairs[i][1]);
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

static int by_size(const void *a, const void *b) {
  double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
  return (x > y) - (x < y);
}

static void compare(struct verify *v, uint64_t zero_ns) {
  struct truthlog_writes w = {0};
  for (size_t i = 0; i < v->n_rows; i++) {
    const struct verify_row *row = &v->rows[i];
    struct rowlog r;
    if (!row->entry || !rowlog_read(row->line, &r))
      continue;
    const struct truthlog_line *l = &v->truth.entries[row->entry - 1].line;
    compare_replica(v, &r, l);
    if (!row->good || !truthlog_read_writes(l, &w))
      continue;
    compare_counts(v, &r, l, &w);
    if (row->measured)
      compare_stamps(v, &r, l, &w, zero_ns);
  }
  mem_free(w.outputs);
  for (int i = 0; i < VERIFY_STAMPS; i++)
    if (v->errors[i].n)
      qsort(v->errors[i].ns, v->errors[i].n, sizeof(double), by_size);
}

int verify_open(struct verify *v, const char *samples, const char *truth, uint64_t zero_ns,
                struct err *err) {
  *v = (struct verify){
      .rows_alone = value_object(), .lines_alone = value_object(), .first = value_array()};
  int rc = truthlog_open(&v->truth, truth, err);
  if (!rc)
    rc = read_rows(v, samples, err);
  if (!rc) {
    join(v);
    count_alone(v);
    if (v->generations && v->truth.n && !v->joined)
      rc = err_set(err, ERR_INVALID,
                   "%s and %s have no request in common: they are not of the same run", samples,
                   truth);
  }
  if (!rc)
    rc = check_clocks(v, zero_ns, truth, err);
  if (rc) {
    verify_close(v);
    return rc;
  }
  compare(v, zero_ns);
  verify_fill_ledgers(v);
  return 0;
}

void verify_close(struct verify *v) {
  truthlog_close(&v->truth);
  linefile_close(&v->samples);
  mem_free(v->rows);
  value_free(&v->rows_alone);
  value_free(&v->lines_alone);
  value_free(&v->first);
  for (int i = 0; i < VERIFY_STAMPS; i++)
    mem_free(v->errors[i].ns);
  *v = (struct verify){0};
}

/* ---- what it says ---- */

static double size_at(const struct verify_errors *e, double p) {
  double at = p * (double)(e->n - 1);
  size_t low = (size_t)at, high = low + 1 < e->n ? low + 1 : low;
  double a = fabs(e->ns[low]), b = fabs(e->ns[high]);
  return a + (at - (double)low) * (b - a);
}

void verify_checks(const struct verify *v, struct checks_truth *out) {
  static const double probs[] = {0.99, 0.95, 0.9, 0.5};
  const struct verify_errors *e = &v->errors[VERIFY_TTFT];
  *out = (struct checks_truth){.n = e->n,
                               .ttft_error_s = NAN,
                               .longest_s = e->n ? fabs(e->ns[e->n - 1]) / 1e9 : NAN,
                               .compared = v->joined,
                               .differing = v->differing,
                               .missing = v->missing};
  for (size_t i = 0; i < ARRAY_LEN(probs) && isnan(out->ttft_error_s); i++) {
    if (e->n < stats_quantile_needs(probs[i]))
      continue;
    out->ttft_error_s = size_at(e, probs[i]) / 1e9;
    out->percentile = probs[i];
  }
}

static struct value errors_value(const struct verify_errors *e) {
  static const struct {
    const char *name;
    double p;
  } sizes[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
  struct value out = value_object();
  value_set(&out, "n", value_int((int64_t)e->n));
  for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
    value_set(&out, sizes[i].name,
              e->n && e->n >= stats_quantile_needs(sizes[i].p)
                  ? value_double(size_at(e, sizes[i].p) / 1e9)
                  : value_null());
  value_set(&out, "max", e->n ? value_double(fabs(e->ns[e->n - 1]) / 1e9) : value_null());
  struct value *with_sign = value_set(&out, "signed", value_object());
  double *sorted = mem_resize(NULL, e->n, sizeof *sorted);
  if (e->n)
    memcpy(sorted, e->ns, e->n * sizeof *sorted);
  stats_sort(sorted, NULL, e->n);
  value_set(with_sign, "min", e->n ? value_double(sorted[0] / 1e9) : value_null());
  value_set(with_sign, "p50",
            e->n ? value_double(stats_quantile(sorted, e->n, 0.5) / 1e9) : value_null());
  value_set(with_sign, "max", e->n ? value_double(sorted[e->n - 1] / 1e9) : value_null());
  mem_free(sorted);
  return out;
}

struct value verify_value(const struct verify *v) {
  static const char *const names[VERIFY_STAMPS] = {
      "first_byte", "ttft", "first_visible", "last_token", "itl", "tpot", "e2e"};
  struct value out = value_object();
  value_set(&out, "rows", value_int((int64_t)v->generations));
  value_set(&out, "lines", value_int((int64_t)v->truth.n));
  value_set(&out, "joined", value_int((int64_t)v->joined));
  value_set(&out, "rows_alone", value_copy(&v->rows_alone));
  value_set(&out, "lines_alone", value_copy(&v->lines_alone));
  struct value *errors = value_set(&out, "errors", value_object());
  for (int i = 0; i < VERIFY_STAMPS; i++)
    value_set(errors, names[i], errors_value(&v->errors[i]));
  struct value *counts = value_set(&out, "counts", value_object());
  for (int i = 0; i < VERIFY_COUNTS; i++) {
    struct value *c = value_set(counts, count_names[i], value_object());
    value_set(c, "compared", value_int((int64_t)v->compared[i]));
    value_set(c, "differ", value_int((int64_t)v->differ[i]));
  }
  value_set(&out, "differing", value_int((int64_t)v->differing));
  value_set(&out, "missing", value_int((int64_t)v->missing));
  value_set(&out, "first", value_copy(&v->first));
  struct value *replicas = value_set(&out, "replicas", value_object());
  value_set(replicas, "compared", value_int((int64_t)v->placed));
  value_set(replicas, "served_elsewhere", value_int((int64_t)v->elsewhere));
  value_set(replicas, "chosen", value_int((int64_t)v->chosen));
  value_set(replicas, "chosen_elsewhere", value_int((int64_t)v->chosen_elsewhere));
  return out;
}
