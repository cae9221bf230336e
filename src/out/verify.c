/* verify.c: the join and the comparison; see verify.h. */
#include "out/verify.h"

#define XXH_INLINE_ALL
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "out/checks.h"
#include "out/rowlog.h"

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
    if (line.end - line.p > UINT32_MAX || !rowlog_read(line, &r))
      return err_set(err, ERR_INVALID, "%s, line %zu: not a row of a run", path, v->n_rows + 1);
    MEM_GROW(v->rows, v->n_rows, v->cap_rows);
    const char *id = r.request_id.p;
    v->rows[v->n_rows++] = (struct verify_row){.line = line.p,
                                               .len = (uint32_t)(line.end - line.p),
                                               .request_id = id ? (uint32_t)(id - line.p) : 0,
                                               .id_len = (uint32_t)(r.request_id.end - id),
                                               .hash = hash_of(r.request_id),
                                               .start = r.t[STAMP_START],
                                               .done = r.t[STAMP_DONE],
                                               .good = r.generation && !r.error.p,
                                               .measured = r.measured,
                                               .generation = r.generation};
    v->generations += r.generation;
  }
  v->rows_cut = linefile_is_cut(&v->samples);
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
    if (r->hash == hash && linefile_same(verify_request_id(r), id))
      break;
  }
  return &x->slots[i];
}

static int not_a_line(const char *path, size_t number, const char *odd, struct err *err) {
  if (odd)
    return err_set(err, ERR_INVALID, "%s, line %zu: %s: the log is damaged", path, number, odd);
  return err_set(err, ERR_INVALID,
                 "%s, line %zu: not a line of a truth log of this version (perigee sim --truth)",
                 path, number);
}

static void index_rows(struct index *x, struct verify *v) {
  size_t slots = 16;
  while (slots < 2 * v->n_rows)
    slots *= 2;
  *x = (struct index){.slots = mem_calloc(slots, sizeof *x->slots), .mask = slots - 1};
  for (size_t i = 0; i < v->n_rows; i++) {
    struct verify_row *r = &v->rows[i];
    if (!r->generation || !r->request_id)
      continue;
    uint32_t *slot = slot_of(x, v, verify_request_id(r), r->hash);
    if (*slot)
      r->ambiguous = v->rows[*slot - 1].ambiguous = true;
    else
      *slot = (uint32_t)i + 1;
  }
}

/* "perigee-RUN-": what the ids of one run begin with; p NULL when they are a script's. */
static struct jsonslice run_part(const struct verify *v) {
  for (size_t i = 0; i < v->n_rows; i++) {
    struct jsonslice id = verify_request_id(&v->rows[i]);
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

/* A line of the log to its row; of several for one row the last that came in. */
static void join_line(struct verify *v, const struct index *x, struct jsonslice run,
                      const struct truthlog_head *h) {
  uint32_t *slot = h->request_id.p ? slot_of(x, v, h->request_id, hash_of(h->request_id)) : NULL;
  if (!slot || !*slot) {
    count_named(&v->lines_alone, why_alone(h->request_id, run));
    return;
  }
  struct verify_row *r = &v->rows[*slot - 1];
  if (r->ambiguous) {
    count_named(&v->lines_alone, "id of several rows");
    return;
  }
  if (r->entry)
    count_named(&v->lines_alone, "sent again");
  if (r->entry && r->received >= h->received_ns)
    return;
  if (r->entry)
    v->of_line[r->entry - 1] = 0;
  r->entry = (uint32_t)v->n_lines;
  r->received = h->received_ns;
  v->of_line[r->entry - 1] = *slot;
}

/* Looks at the beginning of each line only. */
static int join(struct verify *v, const char *path, struct err *err) {
  struct jsonslice run = run_part(v), line;
  struct truthlog_head head;
  struct index x;
  size_t at = 0;
  int rc = 0;
  index_rows(&x, v);
  while (!rc && linefile_next(&v->truth.file, &at, &line)) {
    MEM_GROW(v->of_line, v->n_lines, v->cap_lines);
    v->of_line[v->n_lines++] = 0;
    if (truthlog_head(line, &head))
      join_line(v, &x, run, &head);
    else
      rc = not_a_line(path, v->n_lines, NULL, err);
  }
  v->lines_cut = linefile_is_cut(&v->truth.file);
  mem_free(x.slots);
  return rc;
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
    else if (r->good || !rowlog_read(verify_line(r), &row))
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
    uint64_t at = r->received + CLOCK_SLACK_NS;
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

/* The second pass over the log: each line in full. */
static int compare(struct verify *v, const char *path, uint64_t zero_ns, struct err *err) {
  struct jsonslice line;
  size_t at = 0;
  for (size_t i = 0; linefile_next(&v->truth.file, &at, &line); i++) {
    if (!truthlog_read(&v->truth, line))
      return not_a_line(path, i + 1, v->truth.odd, err);
    if (!v->of_line[i])
      continue;
    struct verify_row *r = &v->rows[v->of_line[i] - 1];
    verify_compare(v, r, zero_ns);
    verify_begin_ledger(v, r);
  }
  for (int i = 0; i < VERIFY_STAMPS; i++)
    verify_finish_errors(&v->errors[i]);
  return 0;
}

int verify_open(struct verify *v, const char *samples, const char *truth, uint64_t zero_ns,
                struct err *err) {
  *v = (struct verify){
      .rows_alone = value_object(), .lines_alone = value_object(), .first = value_array()};
  int rc = truthlog_open(&v->truth, truth, err);
  if (!rc)
    rc = read_rows(v, samples, err);
  if (!rc)
    rc = join(v, truth, err);
  if (!rc)
    rc = compare(v, truth, zero_ns, err);
  if (!rc) {
    count_alone(v);
    if (v->generations && v->n_lines && !v->joined)
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
  verify_fill_ledgers(v);
  return 0;
}

void verify_close(struct verify *v) {
  truthlog_close(&v->truth);
  linefile_close(&v->samples);
  mem_free(v->rows);
  mem_free(v->of_line);
  mem_free(v->leaves);
  value_free(&v->rows_alone);
  value_free(&v->lines_alone);
  value_free(&v->first);
  for (int i = 0; i < VERIFY_STAMPS; i++)
    mem_free(v->errors[i].ns);
  *v = (struct verify){0};
}

/* ---- what it says ---- */

static double longest(const struct verify_errors *e) {
  return e->n ? fmax(fabs(e->least), fabs(e->most)) : NAN;
}

void verify_checks(const struct verify *v, struct checks_truth *out) {
  static const struct {
    int size;
    double p;
  } best[] = {{VERIFY_P99, 0.99}, {VERIFY_P95, 0.95}, {VERIFY_P90, 0.9}, {VERIFY_P50, 0.5}};
  const struct verify_errors *e = &v->errors[VERIFY_TTFT];
  *out = (struct checks_truth){.n = e->n,
                               .ttft_error_s = NAN,
                               .longest_s = longest(e) / 1e9,
                               .compared = v->joined,
                               .differing = v->differing,
                               .missing = v->missing,
                               .rows_cut = v->rows_cut,
                               .lines_cut = v->lines_cut};
  for (size_t i = 0; i < ARRAY_LEN(best) && isnan(out->ttft_error_s); i++) {
    if (isnan(e->size[best[i].size]))
      continue;
    out->ttft_error_s = e->size[best[i].size] / 1e9;
    out->percentile = best[i].p;
  }
}

static struct value seconds(double ns) {
  return isnan(ns) ? value_null() : value_double(ns / 1e9);
}

static struct value errors_value(const struct verify_errors *e) {
  struct value out = value_object();
  value_set(&out, "n", value_int((int64_t)e->n));
  value_set(&out, "every", value_int(e->n ? (int64_t)e->every : 1));
  value_set(&out, "p50", seconds(e->size[VERIFY_P50]));
  value_set(&out, "p90", seconds(e->size[VERIFY_P90]));
  value_set(&out, "p99", seconds(e->size[VERIFY_P99]));
  value_set(&out, "max", seconds(longest(e)));
  struct value *with_sign = value_set(&out, "signed", value_object());
  value_set(with_sign, "min", seconds(e->n ? e->least : NAN));
  value_set(with_sign, "p50", seconds(e->median));
  value_set(with_sign, "max", seconds(e->n ? e->most : NAN));
  return out;
}

struct value verify_value(const struct verify *v) {
  static const char *const names[VERIFY_STAMPS] = {
      "first_byte", "ttft", "first_visible", "last_token", "itl", "tpot", "e2e"};
  struct value out = value_object();
  value_set(&out, "rows", value_int((int64_t)v->generations));
  value_set(&out, "lines", value_int((int64_t)v->n_lines));
  value_set(&out, "joined", value_int((int64_t)v->joined));
  value_set(&out, "rows_alone", value_copy(&v->rows_alone));
  value_set(&out, "lines_alone", value_copy(&v->lines_alone));
  struct value *errors = value_set(&out, "errors", value_object());
  for (int i = 0; i < VERIFY_STAMPS; i++)
    value_set(errors, names[i], errors_value(&v->errors[i]));
  struct value *counts = value_set(&out, "counts", value_object());
  for (int i = 0; i < VERIFY_COUNTS; i++) {
    struct value *c = value_set(counts, verify_count_name(i), value_object());
    value_set(c, "compared", value_int((int64_t)v->compared[i]));
    value_set(c, "differ", value_int((int64_t)v->differ[i]));
  }
  value_set(&out, "differing", value_int((int64_t)v->differing));
  value_set(&out, "missing", value_int((int64_t)v->missing));
  value_set(&out, "rows_cut", value_bool(v->rows_cut));
  value_set(&out, "lines_cut", value_bool(v->lines_cut));
  value_set(&out, "first", value_copy(&v->first));
  struct value *replicas = value_set(&out, "replicas", value_object());
  value_set(replicas, "compared", value_int((int64_t)v->placed));
  value_set(replicas, "served_elsewhere", value_int((int64_t)v->elsewhere));
  value_set(replicas, "chosen", value_int((int64_t)v->chosen));
  value_set(replicas, "chosen_elsewhere", value_int((int64_t)v->chosen_elsewhere));
  return out;
}
