/* spans.c: see spans.h. */
#include "out/spans.h"

#include <math.h>

#include "base/mem.h"
#include "out/stats.h"
#include "out/summary.h"

#define N_SPANS 3
static const char *const span_names[N_SPANS] = {"before", "during", "after"};

struct list {
  double *x;
  size_t n, cap;
};

/* The requests of one span: all of them, or those of one replica. */
struct cell {
  uint64_t requests, failed, incomplete;
  struct list ttft, itl; /* ns */
  double output_tokens;
  uint64_t prompt_tokens, cached_tokens; /* where the server said what was cached */
};

struct span {
  uint64_t from_ns, to_ns; /* equal: nothing of it was measured */
  struct cell *cells;      /* all, then one for each replica */
};

struct counting {
  const struct table *t;
  const struct metrics *m;
  struct span spans[N_SPANS];
  int32_t *cell_of; /* by number of the replica in the table: its cell; 0 = it has none */
};

static void push(struct list *l, double x) {
  if (l->n == l->cap) {
    l->cap = l->cap ? l->cap * 2 : 64;
    l->x = mem_resize(l->x, l->cap, sizeof *l->x);
  }
  l->x[l->n++] = x;
}

/* ---- where they are ---- */

static uint64_t less(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

static void cut(struct span *s, const struct table *t) {
  uint64_t start = t->windows[0].start_ns, end = t->windows[0].end_ns;
  s->from_ns = s->from_ns > start ? s->from_ns : start;
  s->to_ns = s->to_ns < end ? s->to_ns : end;
  if (s->to_ns < s->from_ns)
    s->to_ns = s->from_ns;
}

static void place(struct counting *c, const struct spans_input *in) {
  uint64_t during = in->end_ns > in->begin_ns ? in->end_ns - in->begin_ns : 0;
  if (during < SPANS_LEAST_NS)
    during = SPANS_LEAST_NS;
  uint64_t window = in->window_ns;
  if (!window)
    window = during > SPANS_WINDOW_NS ? during : SPANS_WINDOW_NS;
  uint64_t to = in->begin_ns + during;
  c->spans[0] = (struct span){.from_ns = less(in->begin_ns, window), .to_ns = in->begin_ns};
  c->spans[1] = (struct span){.from_ns = in->begin_ns, .to_ns = to};
  c->spans[2] = (struct span){.from_ns = to, .to_ns = to + window};
  for (size_t i = 0; i < N_SPANS; i++)
    if (c->t->n_windows)
      cut(&c->spans[i], c->t);
}

static bool is_in(const struct span *s, uint64_t time_ns) {
  return time_ns >= s->from_ns && time_ns < s->to_ns;
}

/* ---- what is counted ---- */

static void add_started(const struct counting *c, struct cell *cell, const struct table_row *r) {
  double ttft = metrics_of_row(c->m, metrics_get(c->m, METRIC_TTFT), r);
  double cached = metrics_of_row(c->m, metrics_get(c->m, METRIC_CACHED_TOKENS), r);
  double prompt = metrics_of_row(c->m, metrics_get(c->m, METRIC_PROMPT_TOKENS), r);
  cell->requests++;
  cell->incomplete += r->error == SAMPLE_INCOMPLETE;
  if (!isnan(ttft))
    push(&cell->ttft, ttft);
  if (!isnan(cached) && !isnan(prompt)) {
    cell->cached_tokens += (uint64_t)cached;
    cell->prompt_tokens += (uint64_t)prompt;
  }
}

static void add_gaps(const struct table *t, const struct span *s, struct cell *cell,
                     const struct table_row *r) {
  double at = (double)r->first_token;
  for (uint64_t g = r->gaps; g < r->gaps + r->n_gaps; g++) {
    at += (double)t->gaps[g];
    if (at >= (double)s->from_ns && at < (double)s->to_ns)
      push(&cell->itl, t->gaps[g]);
  }
}

/* Of `n` tokens from the first to the last stamp, those inside. */
static double tokens_inside(const struct span *s, const struct table_row *r, double n) {
  if (r->last_token <= r->first_token)
    return is_in(s, r->first_token) ? n : 0;
  uint64_t from = r->first_token > s->from_ns ? r->first_token : s->from_ns;
  uint64_t to = r->last_token < s->to_ns ? r->last_token : s->to_ns;
  return to > from ? n * (double)(to - from) / (double)(r->last_token - r->first_token) : 0;
}

static void add_row(const struct counting *c, const struct span *s, struct cell *cell,
                    const struct table_row *r) {
  bool measured = r->flags & ROW_MEASURED,
       failed = sample_error_failed((enum sample_error)r->error);
  if (measured && is_in(s, r->start))
    add_started(c, cell, r);
  cell->failed += measured && failed && r->done != SAMPLE_NEVER && is_in(s, r->done);
  if (measured && r->error == SAMPLE_OK && r->n_gaps && !c->t->gaps_dropped)
    add_gaps(c->t, s, cell, r);
  double n = failed ? 0 : table_row_output(r);
  if (n > 0 && r->first_token != SAMPLE_NEVER && r->last_token != SAMPLE_NEVER)
    cell->output_tokens += tokens_inside(s, r, n);
}

static bool may_count(const struct span *s, const struct table_row *r) {
  return s->from_ns < s->to_ns && r->start < s->to_ns &&
         (r->done == SAMPLE_NEVER || r->done >= s->from_ns);
}

static void count_rows(const struct counting *c) {
  for (size_t i = 0; i < c->t->n_rows; i++) {
    const struct table_row *r = &c->t->rows[i];
    if (!(r->flags & ROW_GENERATION) && c->t->has_generation)
      continue;
    for (size_t k = 0; k < N_SPANS; k++) {
      const struct span *s = &c->spans[k];
      if (!may_count(s, r))
        continue;
      add_row(c, s, &s->cells[0], r);
      if (r->replica != TABLE_NO_REPLICA && c->cell_of[r->replica])
        add_row(c, s, &s->cells[c->cell_of[r->replica]], r);
    }
  }
}

/* ---- what is said ---- */

static struct value times_value(struct list *l) {
  static const double probs[] = {0.5, 0.95, 0.99};
  static const char *const names[] = {"p50", "p95", "p99"};
  struct value v = value_object();
  stats_sort(l->x, NULL, l->n);
  value_set(&v, "n", value_int((int64_t)l->n));
  value_set(&v, "mean", summary_number(stats_mean(l->x, l->n) / 1e9));
  for (size_t i = 0; i < ARRAY_LEN(probs); i++)
    value_set(&v, names[i],
              summary_number(l->n < stats_quantile_needs(probs[i])
                                 ? (double)NAN
                                 : stats_quantile(l->x, l->n, probs[i]) / 1e9));
  value_set(&v, "max", summary_number(l->n ? l->x[l->n - 1] / 1e9 : (double)NAN));
  return v;
}

static void set_cell(struct value *v, struct cell *cell, double seconds) {
  value_set(v, "requests", value_int((int64_t)cell->requests));
  value_set(v, "failed", value_int((int64_t)cell->failed));
  value_set(v, "incomplete", value_int((int64_t)cell->incomplete));
  value_set(v, "ttft", times_value(&cell->ttft));
  value_set(v, "itl", times_value(&cell->itl));
  value_set(v, "output_tokens_rate", summary_number(cell->output_tokens / seconds));
  value_set(v, "prompt_tokens", value_int((int64_t)cell->prompt_tokens));
  value_set(v, "cached_tokens", value_int((int64_t)cell->cached_tokens));
  value_set(v, "cached_share",
            summary_number((double)cell->cached_tokens / (double)cell->prompt_tokens));
}

static struct value span_value(struct span *s, const struct spans_input *in) {
  struct value v = value_object();
  double seconds = (double)(s->to_ns - s->from_ns) / 1e9;
  if (!(seconds > 0))
    return value_null();
  value_set(&v, "from_ns", value_int((int64_t)s->from_ns));
  value_set(&v, "to_ns", value_int((int64_t)s->to_ns));
  value_set(&v, "seconds", value_double(seconds));
  set_cell(&v, &s->cells[0], seconds);
  struct value *replicas = value_set(&v, "replicas", value_object());
  for (size_t i = 0; i < in->n_replicas; i++)
    set_cell(value_set(replicas, in->replicas[i], value_object()), &s->cells[i + 1], seconds);
  return v;
}

struct value spans_value(const struct table *t, const struct metrics *m,
                         const struct spans_input *in) {
  struct counting c = {.t = t, .m = m};
  c.cell_of = mem_calloc(t->replicas.n ? t->replicas.n : 1, sizeof *c.cell_of);
  for (size_t i = 0; i < in->n_replicas; i++) {
    int64_t number = names_find(&t->replicas, in->replicas[i]);
    if (number >= 0)
      c.cell_of[number] = (int32_t)i + 1;
  }
  place(&c, in);
  for (size_t k = 0; k < N_SPANS; k++)
    c.spans[k].cells = mem_calloc(in->n_replicas + 1, sizeof *c.spans[k].cells);
  count_rows(&c);
  struct value v = value_object();
  for (size_t k = 0; k < N_SPANS; k++) {
    struct span *s = &c.spans[k];
    value_set(&v, span_names[k], span_value(s, in));
    for (size_t i = 0; i <= in->n_replicas; i++) {
      mem_free(s->cells[i].ttft.x);
      mem_free(s->cells[i].itl.x);
    }
    mem_free(s->cells);
  }
  mem_free(c.cell_of);
  return v;
}
