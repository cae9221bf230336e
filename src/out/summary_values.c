/* summary_values.c: what a script recorded (vu:record), by the tags it gave.
 *
 * One row per metric, tag and value, in the order of their names, whichever value came first. Tags
 * with many values, such as an identifier, are left out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "out/filter.h"
#include "out/stats.h"
#include "out/summary.h"
#include "text/json.h"

#define MAX_VALUES 16
#define MAX_ROWS 200

/* One recorded value under one of its tags. */
struct item {
  uint32_t name, key, text; /* numbers of the names below */
  double x;
};

struct items {
  struct item *list;
  size_t n, cap;
  struct names keys, texts;
  const struct names *names; /* of the values */
};

static void add_text(struct items *items, struct item item, const struct value *v) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  /* Lua counts 1 and 1.0 as one number, and so do filters. */
  bool whole = v->kind == VALUE_DOUBLE && fabs(v->u.number) < 0x1p53 &&
               !(v->u.number < floor(v->u.number)) && !(v->u.number > floor(v->u.number));
  const struct value same = whole ? value_int((int64_t)v->u.number) : *v;
  if (v->kind == VALUE_STRING)
    buf_puts(&b, v->u.string.data);
  else
    json_write(&b, &same);
  item.text = names_intern(&items->texts, b.len ? b.data : "");
  buf_free(&b);
  MEM_GROW(items->list, items->n, items->cap);
  items->list[items->n++] = item;
}

static void collect(struct items *items, const struct table *t, const struct filter *f) {
  struct filter_use use;
  filter_use_init(&use, f, t);
  for (size_t i = 0; i < t->n_values; i++) {
    const struct table_value *v = &t->values[i];
    if (!v->measured || v->is_check || !isfinite(v->value) || !filter_match_value(&use, v))
      continue;
    const struct value *tags = &t->tag_values[v->tags];
    for (size_t p = 0; p < tags->u.object.n; p++) {
      const struct value_pair *pair = &tags->u.object.pairs[p];
      struct item item = {
          .name = v->name, .key = names_intern(&items->keys, pair->key), .x = v->value};
      add_text(items, item, &pair->value);
    }
  }
  filter_use_free(&use);
}

static int compare(const void *a, const void *b, void *user) {
  const struct item *x = a, *y = b;
  const struct items *items = user;
  int rc = 0;
  if (x->name != y->name)
    rc = strverscmp(items->names->items[x->name], items->names->items[y->name]);
  else if (x->key != y->key)
    rc = strverscmp(items->keys.items[x->key], items->keys.items[y->key]);
  else if (x->text != y->text)
    rc = strverscmp(items->texts.items[x->text], items->texts.items[y->text]);
  return rc ? rc : (x->x > y->x) - (x->x < y->x);
}

static void set_quantile(struct value *v, const char *key, const double *x, size_t n, double p,
                         double scale) {
  bool enough = n >= stats_quantile_needs(p);
  value_set(v, key, summary_number(enough ? stats_quantile(x, n, p) * scale : (double)NAN));
}

/* Items [from, to) share metric, tag and value, and ascend. */
static void push_row(struct value *list, const struct items *items, const struct metrics *m,
                     size_t from, size_t to) {
  const struct item *first = &items->list[from];
  const char *name = items->names->items[first->name];
  const struct metric *metric = metrics_find(m, name);
  double scale = metric ? metric->scale : 1, *x = mem_calloc(to - from, sizeof *x);
  double sum = 0; /* ascending: the same whatever the order they came in */
  for (size_t i = from; i < to; i++) {
    x[i - from] = items->list[i].x;
    sum += items->list[i].x;
  }
  size_t n = to - from;
  struct value *v = value_push(list, value_object());
  value_set(v, "metric", value_cstring(name));
  value_set(v, "unit", value_cstring(metric ? metric->unit : NULL));
  value_set(v, "tag", value_cstring(items->keys.items[first->key]));
  value_set(v, "value", value_cstring(items->texts.items[first->text]));
  value_set(v, "n", value_int((int64_t)n));
  value_set(v, "mean", summary_number(sum / (double)n * scale));
  value_set(v, "min", summary_number(x[0] * scale));
  value_set(v, "max", summary_number(x[n - 1] * scale));
  set_quantile(v, "p50", x, n, 0.5, scale);
  set_quantile(v, "p95", x, n, 0.95, scale);
  mem_free(x);
}

static bool alike(const struct item *a, const struct item *b, bool text) {
  return a->name == b->name && a->key == b->key && (!text || a->text == b->text);
}

/* The rows of one metric and tag, unless there are too many. */
static void push_rows(struct value *list, const struct items *items, const struct metrics *m,
                      size_t from, size_t to) {
  size_t values = 0;
  for (size_t i = from; i < to; i++)
    values += i == from || !alike(&items->list[i], &items->list[i - 1], true);
  if (values > MAX_VALUES)
    return;
  for (size_t i = from, end; i < to && value_count(list) < MAX_ROWS; i = end) {
    for (end = i; end < to && alike(&items->list[i], &items->list[end], true);)
      end++;
    push_row(list, items, m, i, end);
  }
}

void summary_values(const struct table *t, const struct summary_options *options,
                    const struct filter *f, struct value *out) {
  struct value list = value_array();
  struct items items = {.names = &t->value_names};
  names_init(&items.keys, UINT32_MAX);
  names_init(&items.texts, UINT32_MAX);
  collect(&items, t, f);
  if (items.n)
    qsort_r(items.list, items.n, sizeof *items.list, compare, &items);
  for (size_t i = 0, end; i < items.n; i = end) {
    for (end = i; end < items.n && alike(&items.list[i], &items.list[end], false);)
      end++;
    push_rows(&list, &items, options->metrics, i, end);
  }
  value_set(out, "value_tags", list);
  mem_free(items.list);
  names_free(&items.keys);
  names_free(&items.texts);
}
