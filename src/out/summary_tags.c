/* summary_tags.c: the requests of a group by what the script tagged them with.
 *
 * Scripts tag what their requests are for (vu:tag("phase", "plan")); one row per value of a tag
 * says how those fared. A tag that every request has with the same value tells nothing apart and
 * takes none of the places. Tags with many values, such as an identifier, are named and left out.
 * The order is that of names, whichever request came first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "out/stats.h"
#include "out/summary.h"
#include "text/json.h"

#define MAX_KEYS 8
#define MAX_VALUES 16
#define NO_VALUE MAX_VALUES /* the place after the values */

struct key {
  char *name; /* borrowed from keys.names */
  struct names values;
  bool many;  /* more than MAX_VALUES */
  bool alike; /* one value, which every request has */
};

struct keys {
  struct names names;
  struct key *items;
  size_t cap;
};

/* How the requests of one tag set, or of one value of a tag, ended. */
struct outcome {
  uint64_t requests, failed, incomplete, n_ratio;
  struct fixed_sum ratio;
};

/* A latency of all requests, ascending, each with the number of its tag set. */
struct sorted {
  double *x;
  uint32_t *set;
  size_t n, cap;
};

/* What the rows say, taken together once: the tags then only deal it out. */
struct facts {
  struct outcome *of_set;
  struct sorted ttft, e2e;
};

struct cell {
  struct outcome o;
  double *ttft, *e2e; /* ascending; within the arrays of all cells */
  size_t n_ttft, n_e2e;
};

static bool counts(const struct table *t, const struct filter_use *use, const struct table_row *r) {
  return (r->flags & ROW_MEASURED) && ((r->flags & ROW_GENERATION) || !t->has_generation) &&
         filter_match_row(use, r);
}

/* A tag's value as text; the caller frees. */
static char *text_of(const struct value *v) {
  if (v->kind == VALUE_STRING)
    return mem_strdup(v->u.string.data);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  /* Lua counts 1 and 1.0 as one number, and so do filters. */
  bool whole = v->kind == VALUE_DOUBLE && fabs(v->u.number) < 0x1p53 &&
               !(v->u.number < floor(v->u.number)) && !(v->u.number > floor(v->u.number));
  const struct value same = whole ? value_int((int64_t)v->u.number) : *v;
  json_write(&b, &same);
  return buf_take(&b, NULL);
}

static void add_value(struct key *k, const struct value *v) {
  if (k->many)
    return;
  char *text = text_of(v);
  if (names_find(&k->values, text) < 0 && k->values.n == MAX_VALUES)
    k->many = true;
  else
    names_intern(&k->values, text);
  mem_free(text);
}

/* Every tag that a counted request has, with its values. */
static void collect_keys(struct keys *keys, const struct table *t, const struct facts *facts) {
  for (size_t i = 0; i < t->n_tag_values; i++) {
    const struct value *set = &t->tag_values[i];
    for (size_t p = 0; facts->of_set[i].requests && p < set->u.object.n; p++) {
      const struct value_pair *pair = &set->u.object.pairs[p];
      size_t known = keys->names.n;
      uint32_t number = names_intern(&keys->names, pair->key);
      if (keys->names.n > known) {
        MEM_GROW(keys->items, known, keys->cap);
        keys->items[number] = (struct key){.name = keys->names.items[number]};
        names_init(&keys->items[number].values, MAX_VALUES + 2); /* none is "(other)" */
      }
      add_value(&keys->items[number], &pair->value);
    }
  }
}

static int by_name(const void *a, const void *b) {
  return strverscmp(((const struct key *)a)->name, ((const struct key *)b)->name);
}

static int by_text(const void *a, const void *b, void *texts) {
  char *const *items = texts;
  return strverscmp(items[*(const uint8_t *)a], items[*(const uint8_t *)b]);
}

/* ---- the rows ---- */

static void push(struct sorted *s, double x, uint32_t set) {
  if (isnan(x))
    return;
  if (s->n == s->cap) {
    s->cap = s->cap ? s->cap * 2 : 64;
    s->x = mem_resize(s->x, s->cap, sizeof *s->x);
    s->set = mem_resize(s->set, s->cap, sizeof *s->set);
  }
  s->x[s->n] = x;
  s->set[s->n++] = set;
}

static void collect_facts(struct facts *facts, const struct table *t, const struct metrics *m,
                          const struct filter_use *use) {
  facts->of_set = mem_calloc(t->n_tag_values, sizeof *facts->of_set);
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!counts(t, use, r))
      continue;
    struct outcome *o = &facts->of_set[r->tags];
    o->requests++;
    o->failed += sample_error_failed((enum sample_error)r->error);
    o->incomplete += r->error == SAMPLE_INCOMPLETE;
    if (!(r->flags & ROW_GENERATION))
      continue;
    push(&facts->ttft, metrics_of_row(m, metrics_get(m, METRIC_TTFT), r), r->tags);
    push(&facts->e2e, metrics_of_row(m, metrics_get(m, METRIC_E2E), r), r->tags);
    double ratio = metrics_of_row(m, metrics_get(m, METRIC_CACHED_RATIO), r);
    if (isnan(ratio))
      continue;
    fixed_sum_add(&o->ratio, ratio);
    o->n_ratio++;
  }
  stats_sort(facts->ttft.x, facts->ttft.set, facts->ttft.n);
  stats_sort(facts->e2e.x, facts->e2e.set, facts->e2e.n);
}

static void free_facts(struct facts *facts) {
  mem_free(facts->of_set);
  mem_free(facts->ttft.x);
  mem_free(facts->ttft.set);
  mem_free(facts->e2e.x);
  mem_free(facts->e2e.set);
}

/* Whether any request of the run has a tag at all. */
static bool any_tag(const struct table *t) {
  for (size_t i = 0; i < t->n_tag_values; i++)
    if (t->tag_values[i].u.object.n)
      return true;
  return false;
}

/* ---- one tag ---- */

static void set_count(struct value *v, const char *key, uint64_t n) {
  value_set(v, key, value_int((int64_t)n));
}

static void set_quantile(struct value *v, const char *key, const double *x, size_t n, double p) {
  bool enough = n >= stats_quantile_needs(p);
  value_set(v, key, summary_number(enough ? stats_quantile(x, n, p) / 1e9 : (double)NAN));
}

static void push_cell(struct value *list, const char *tag, const char *text, struct cell *c) {
  if (!c->o.requests)
    return;
  struct value *v = value_push(list, value_object());
  value_set(v, "tag", value_cstring(tag));
  value_set(v, "value", value_cstring(text));
  set_count(v, "requests", c->o.requests);
  set_count(v, "failed", c->o.failed);
  set_count(v, "incomplete", c->o.incomplete);
  set_count(v, "ttft_n", c->n_ttft);
  set_quantile(v, "ttft_p50", c->ttft, c->n_ttft, 0.5);
  set_quantile(v, "ttft_p95", c->ttft, c->n_ttft, 0.95);
  set_count(v, "e2e_n", c->n_e2e);
  set_quantile(v, "e2e_p50", c->e2e, c->n_e2e, 0.5);
  set_quantile(v, "e2e_p95", c->e2e, c->n_e2e, 0.95);
  set_count(v, "cached_ratio_n", c->o.n_ratio);
  value_set(v, "cached_ratio",
            summary_number(c->o.n_ratio ? fixed_sum_value(&c->o.ratio) / (double)c->o.n_ratio
                                        : (double)NAN));
}

/* Which value each tag set has of the key. */
static uint8_t *values_of_sets(const struct table *t, const struct key *k) {
  uint8_t *of_set = mem_alloc(t->n_tag_values);
  for (size_t i = 0; i < t->n_tag_values; i++) {
    const struct value *v = value_get(&t->tag_values[i], k->name);
    char *text = v ? text_of(v) : NULL;
    int64_t number = text ? names_find(&k->values, text) : -1;
    of_set[i] = number < 0 ? NO_VALUE : (uint8_t)number;
    mem_free(text);
  }
  return of_set;
}

/* Splits a latency by value: counts, then fills; what was ascending stays so. Returns the array
 * that the cells point into. */
static double *deal(const struct sorted *s, const uint8_t *of_set, size_t n_cells, double **first,
                    size_t *n) {
  double *all = mem_resize(NULL, s->n ? s->n : 1, sizeof *all);
  memset(n, 0, n_cells * sizeof *n);
  for (size_t i = 0; i < s->n; i++)
    n[of_set[s->set[i]]]++;
  double *at = all;
  for (size_t c = 0; c < n_cells; c++) {
    first[c] = at;
    at += n[c];
    n[c] = 0;
  }
  for (size_t i = 0; i < s->n; i++) {
    uint8_t c = of_set[s->set[i]];
    first[c][n[c]++] = s->x[i];
  }
  return all;
}

/* A row per value, then one of the requests that have no such tag: the last cell. */
static void push_key(struct value *list, const struct table *t, const struct facts *facts,
                     const struct key *k) {
  struct cell cells[MAX_VALUES + 1];
  memset(cells, 0, sizeof cells);
  uint8_t *of_set = values_of_sets(t, k), order[MAX_VALUES];
  for (size_t i = 0; i < t->n_tag_values; i++) {
    const struct outcome *from = &facts->of_set[i];
    struct outcome *to = &cells[of_set[i]].o;
    to->requests += from->requests;
    to->failed += from->failed;
    to->incomplete += from->incomplete;
    to->n_ratio += from->n_ratio;
    fixed_sum_merge(&to->ratio, &from->ratio);
  }
  double *first[MAX_VALUES + 1];
  size_t n[MAX_VALUES + 1];
  double *ttft = deal(&facts->ttft, of_set, ARRAY_LEN(cells), first, n);
  for (size_t i = 0; i < ARRAY_LEN(cells); i++)
    cells[i].ttft = first[i], cells[i].n_ttft = n[i];
  double *e2e = deal(&facts->e2e, of_set, ARRAY_LEN(cells), first, n);
  for (size_t i = 0; i < ARRAY_LEN(cells); i++)
    cells[i].e2e = first[i], cells[i].n_e2e = n[i];
  for (uint8_t i = 0; i < k->values.n; i++)
    order[i] = i;
  qsort_r(order, k->values.n, sizeof *order, by_text, k->values.items);
  for (size_t i = 0; i < k->values.n; i++)
    push_cell(list, k->name, k->values.items[order[i]], &cells[order[i]]);
  push_cell(list, k->name, NULL, &cells[MAX_VALUES]);
  mem_free(ttft);
  mem_free(e2e);
  mem_free(of_set);
}

/* Whether every counted request has the tag. */
static bool everywhere(const struct table *t, const struct facts *facts, const char *name) {
  for (size_t i = 0; i < t->n_tag_values; i++)
    if (facts->of_set[i].requests && !value_get(&t->tag_values[i], name))
      return false;
  return true;
}

static void split(const struct table *t, const struct facts *facts, struct value *list,
                  struct value *left_out) {
  struct keys keys = {0};
  names_init(&keys.names, UINT32_MAX);
  collect_keys(&keys, t, facts);
  if (keys.names.n)
    qsort(keys.items, keys.names.n, sizeof *keys.items, by_name);
  size_t shown = 0, alike = 0;
  for (size_t i = 0; i < keys.names.n; i++) {
    struct key *k = &keys.items[i];
    k->alike = !k->many && k->values.n == 1 && everywhere(t, facts, k->name);
    size_t *places = k->alike ? &alike : &shown;
    bool fits = !k->many && *places < MAX_KEYS;
    if (fits)
      push_key(list, t, facts, k);
    else
      value_push(left_out, value_cstring(k->name));
    *places += fits;
    names_free(&k->values);
  }
  mem_free(keys.items);
  names_free(&keys.names);
}

void summary_tags(const struct table *t, const struct summary_options *options,
                  const struct filter *f, struct value *out) {
  struct value list = value_array(), left_out = value_array();
  if (any_tag(t)) {
    struct facts facts = {0};
    struct filter_use use;
    filter_use_init(&use, f, t);
    collect_facts(&facts, t, options->metrics, &use);
    split(t, &facts, &list, &left_out);
    filter_use_free(&use);
    free_facts(&facts);
  }
  value_set(out, "tags", list);
  value_set(out, "tags_left_out", left_out);
}
