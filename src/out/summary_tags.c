/* summary_tags.c: the requests of a group by what the script tagged them with.
 *
 * Scripts tag what their requests are for (vu:tag("phase", "plan")); one row per value of a tag
 * says how those fared. Tags with many values, such as an identifier, are named and left out. The
 * order is that of names, whichever request came first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "out/stats.h"
#include "out/summary.h"
#include "text/json.h"

#define MAX_KEYS 8
#define MAX_VALUES 16
#define NO_VALUE UINT8_MAX

struct key {
  char *name; /* borrowed from keys.names */
  struct names values;
  bool many; /* more than MAX_VALUES */
};

struct keys {
  struct names names;
  struct key *items;
  size_t cap;
};

struct cell {
  uint64_t requests, failed, incomplete;
  double *ttft, *e2e, ratio_sum;
  size_t n_ttft, cap_ttft, n_e2e, cap_e2e, n_ratio;
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
  json_write(&b, v);
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
static void collect_keys(struct keys *keys, const struct table *t, const struct filter_use *use) {
  bool *used = mem_calloc(t->n_tag_values, sizeof *used);
  for (size_t i = 0; i < t->n_rows; i++)
    if (!used[t->rows[i].tags] && counts(t, use, &t->rows[i]))
      used[t->rows[i].tags] = true;
  for (size_t i = 0; i < t->n_tag_values; i++) {
    const struct value *set = &t->tag_values[i];
    for (size_t p = 0; used[i] && p < set->u.object.n; p++) {
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
  mem_free(used);
}

static int by_name(const void *a, const void *b) {
  return strverscmp(((const struct key *)a)->name, ((const struct key *)b)->name);
}

static int by_text(const void *a, const void *b, void *texts) {
  char *const *items = texts;
  return strverscmp(items[*(const uint8_t *)a], items[*(const uint8_t *)b]);
}

/* ---- one tag ---- */

static void count_row(struct cell *c, const struct metrics *m, const struct table_row *r) {
  c->requests++;
  c->failed += sample_error_failed((enum sample_error)r->error);
  c->incomplete += r->error == SAMPLE_INCOMPLETE;
  if (!(r->flags & ROW_GENERATION))
    return;
  double ttft = metrics_of_row(m, metrics_get(m, METRIC_TTFT), r);
  double e2e = metrics_of_row(m, metrics_get(m, METRIC_E2E), r);
  double ratio = metrics_of_row(m, metrics_get(m, METRIC_CACHED_RATIO), r);
  if (!isnan(ttft)) {
    MEM_GROW(c->ttft, c->n_ttft, c->cap_ttft);
    c->ttft[c->n_ttft++] = ttft;
  }
  if (!isnan(e2e)) {
    MEM_GROW(c->e2e, c->n_e2e, c->cap_e2e);
    c->e2e[c->n_e2e++] = e2e;
  }
  if (!isnan(ratio)) {
    c->ratio_sum += ratio;
    c->n_ratio++;
  }
}

static void set_count(struct value *v, const char *key, uint64_t n) {
  value_set(v, key, value_int((int64_t)n));
}

static void set_quantile(struct value *v, const char *key, const double *x, size_t n, double p) {
  bool enough = n >= stats_quantile_needs(p);
  value_set(v, key, summary_number(enough ? stats_quantile(x, n, p) / 1e9 : (double)NAN));
}

static void push_cell(struct value *list, const char *tag, const char *text, struct cell *c) {
  if (!c->requests)
    return;
  stats_sort(c->ttft, NULL, c->n_ttft);
  stats_sort(c->e2e, NULL, c->n_e2e);
  struct value *v = value_push(list, value_object());
  value_set(v, "tag", value_cstring(tag));
  value_set(v, "value", value_cstring(text));
  set_count(v, "requests", c->requests);
  set_count(v, "failed", c->failed);
  set_count(v, "incomplete", c->incomplete);
  set_count(v, "ttft_n", c->n_ttft);
  set_quantile(v, "ttft_p50", c->ttft, c->n_ttft, 0.5);
  set_quantile(v, "ttft_p95", c->ttft, c->n_ttft, 0.95);
  set_count(v, "e2e_n", c->n_e2e);
  set_quantile(v, "e2e_p50", c->e2e, c->n_e2e, 0.5);
  set_quantile(v, "e2e_p95", c->e2e, c->n_e2e, 0.95);
  set_count(v, "cached_ratio_n", c->n_ratio);
  value_set(v, "cached_ratio",
            summary_number(c->n_ratio ? c->ratio_sum / (double)c->n_ratio : (double)NAN));
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

/* A row per value, then one of the requests that have no such tag. */
static void push_key(struct value *list, const struct table *t, const struct metrics *m,
                     const struct filter_use *use, const struct key *k) {
  struct cell cells[MAX_VALUES + 1] = {{0}};
  uint8_t *of_set = values_of_sets(t, k), order[MAX_VALUES];
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!counts(t, use, r))
      continue;
    uint8_t value = of_set[r->tags];
    count_row(&cells[value == NO_VALUE ? MAX_VALUES : value], m, r);
  }
  for (uint8_t i = 0; i < k->values.n; i++)
    order[i] = i;
  qsort_r(order, k->values.n, sizeof *order, by_text, k->values.items);
  for (size_t i = 0; i < k->values.n; i++)
    push_cell(list, k->name, k->values.items[order[i]], &cells[order[i]]);
  push_cell(list, k->name, NULL, &cells[MAX_VALUES]);
  for (size_t i = 0; i <= MAX_VALUES; i++) {
    mem_free(cells[i].ttft);
    mem_free(cells[i].e2e);
  }
  mem_free(of_set);
}

void summary_tags(const struct table *t, const struct summary_options *options,
                  const struct filter *f, struct value *out) {
  struct filter_use use;
  filter_use_init(&use, f, t);
  struct keys keys = {0};
  names_init(&keys.names, UINT32_MAX);
  collect_keys(&keys, t, &use);
  if (keys.names.n)
    qsort(keys.items, keys.names.n, sizeof *keys.items, by_name);
  struct value *list = value_set(out, "tags", value_array()), left_out = value_array();
  size_t shown = 0;
  for (size_t i = 0; i < keys.names.n; i++) {
    struct key *k = &keys.items[i];
    if (k->many || shown == MAX_KEYS)
      value_push(&left_out, value_cstring(k->name));
    else
      push_key(list, t, options->metrics, &use, k);
    shown += !k->many && shown < MAX_KEYS;
    names_free(&k->values);
  }
  value_set(out, "tags_left_out", left_out);
  mem_free(keys.items);
  names_free(&keys.names);
  filter_use_free(&use);
}
