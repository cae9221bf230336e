/* filter.c: conditions on tags. */
#include "out/filter.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"

static const char *const known_tags[] = {
    [FILTER_TURN] = "turn",         [FILTER_STEP] = "step",     [FILTER_BRANCH] = "branch",
    [FILTER_BLOCK] = "trial_block", [FILTER_STATUS] = "status", [FILTER_ERROR] = "error",
    [FILTER_REPLICA] = "replica",
};

void filter_free(struct filter *f) {
  for (size_t i = 0; i < f->n; i++) {
    mem_free(f->conds[i].tag);
    mem_free(f->conds[i].text);
  }
  mem_free(f->conds);
  mem_free(f->arm);
  *f = (struct filter){0};
}

static bool read_number(const char *text, size_t len, double *out) {
  struct err ignored;
  return len > 0 && units_parse(text, len, UNITS_NONE, out, NULL, &ignored) == 0;
}

static int read_value(struct filter_cond *c, struct err *err) {
  const char *dots = strstr(c->text, "..");
  if (!dots) {
    c->is_number = read_number(c->text, strlen(c->text), &c->lo);
    c->hi = c->lo;
    return 0;
  }
  size_t left = (size_t)(dots - c->text), right = strlen(dots + 2);
  c->is_number = true;
  c->lo = -HUGE_VAL;
  c->hi = HUGE_VAL;
  if ((left && !read_number(c->text, left, &c->lo)) ||
      (right && !read_number(dots + 2, right, &c->hi)) || (!left && !right))
    return err_set(err, ERR_INVALID, "\"%s\" is not a range: write a..b with two numbers", c->text);
  if (c->lo > c->hi)
    return err_set(err, ERR_INVALID, "the range \"%s\" is empty: write the smaller number first",
                   c->text);
  return 0;
}

static int check_cond(const struct filter_cond *c, struct err *err) {
  if (c->kind == FILTER_TAG || c->kind == FILTER_REPLICA)
    return 0;
  if (c->kind != FILTER_ERROR)
    return c->is_number
               ? 0
               : err_set(err, ERR_INVALID, "%s is a number: \"%s\" is not", c->tag, c->text);
  const char *names[SAMPLE_ERROR_COUNT];
  for (int i = 0; i < SAMPLE_ERROR_COUNT; i++) {
    names[i] = sample_error_name((enum sample_error)i);
    if (strcmp(names[i], c->text) == 0)
      return 0;
  }
  const char *near = err_nearest(c->text, names, ARRAY_LEN(names));
  return err_set(err, ERR_INVALID, "\"%s\" is not an error class%s%s%s", c->text,
                 near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
}

int filter_add(struct filter *f, const char *tag, const char *text, struct err *err) {
  if (strcmp(tag, "arm") == 0) {
    mem_free(f->arm);
    f->arm = mem_strdup(text);
    return 0;
  }
  struct filter_cond c = {.kind = FILTER_TAG, .tag = mem_strdup(tag), .text = mem_strdup(text)};
  for (size_t i = 0; i < ARRAY_LEN(known_tags); i++)
    if (strcmp(tag, known_tags[i]) == 0)
      c.kind = (enum filter_tag)i;
  int rc = read_value(&c, err);
  if (!rc)
    rc = check_cond(&c, err);
  if (rc) {
    mem_free(c.tag);
    mem_free(c.text);
    return rc;
  }
  MEM_GROW(f->conds, f->n, f->cap);
  f->conds[f->n++] = c;
  return 0;
}

void filter_note_check(struct filter *f) {
  if (f->n && strcmp(f->conds[f->n - 1].tag, "check") == 0)
    f->conds[f->n - 1].kind = FILTER_CHECK;
}

/* ---- matching ---- */

static bool number_ok(const struct filter_cond *c, double x) {
  return c->is_number && x >= c->lo && x <= c->hi;
}

static bool tag_ok(const struct filter_cond *c, const struct value *tags) {
  const struct value *v = value_get(tags, c->tag);
  double x;
  if (!v)
    return false;
  switch (v->kind) {
  case VALUE_STRING:
    if (strcmp(v->u.string.data, c->text) == 0)
      return true;
    return c->lo < c->hi && read_number(v->u.string.data, v->u.string.len, &x) && number_ok(c, x);
  case VALUE_BOOL:
    return strcmp(c->text, v->u.boolean ? "true" : "false") == 0;
  case VALUE_INT:
  case VALUE_DOUBLE:
    return value_to_double(v, &x) && number_ok(c, x);
  case VALUE_NULL:
  case VALUE_ARRAY:
  case VALUE_OBJECT:
    break;
  }
  return false;
}

/* Whether every condition that is answered by tags holds for the set; `all`: every condition. */
static bool tags_match(const struct filter *f, const struct value *tags, bool all) {
  for (size_t i = 0; i < f->n; i++)
    if ((all ? f->conds[i].kind != FILTER_CHECK : f->conds[i].kind == FILTER_TAG) &&
        !tag_ok(&f->conds[i], tags))
      return false;
  return true;
}

void filter_use_init(struct filter_use *u, const struct filter *f, const struct table *t) {
  *u = (struct filter_use){
      .filter = f, .table = t, .any_arm = true, .everything = !f || (!f->arm && !f->n)};
  if (!f)
    return;
  if (f->arm) {
    int64_t arm = names_find(&t->arms, f->arm);
    u->any_arm = false;
    u->no_arm = arm < 0;
    u->arm = (uint16_t)arm;
  }
  bool asks = false;
  for (size_t i = 0; i < f->n; i++)
    asks = asks || f->conds[i].kind == FILTER_TAG;
  if (!asks)
    return;
  u->tags_ok = mem_calloc(t->n_tag_values, 1);
  for (size_t i = 0; i < t->n_tag_values; i++)
    u->tags_ok[i] = tags_match(f, &t->tag_values[i], false);
}

void filter_use_free(struct filter_use *u) {
  mem_free(u->tags_ok);
  u->tags_ok = NULL;
}

static bool arm_ok(const struct filter_use *u, uint16_t arm) {
  return u->any_arm || (!u->no_arm && arm == u->arm);
}

static bool cond_ok(const struct filter_use *u, const struct filter_cond *c,
                    const struct table_row *r) {
  switch (c->kind) {
  case FILTER_TURN:
    return r->turn && number_ok(c, r->turn);
  case FILTER_STEP:
    return r->step && number_ok(c, r->step);
  case FILTER_BRANCH:
    return number_ok(c, r->branch);
  case FILTER_BLOCK:
    return number_ok(c, r->block);
  case FILTER_STATUS:
    return r->status && number_ok(c, r->status);
  case FILTER_ERROR:
    return strcmp(sample_error_name((enum sample_error)r->error), c->text) == 0;
  case FILTER_REPLICA:
    return r->replica != TABLE_NO_REPLICA &&
           strcmp(u->table->replicas.items[r->replica], c->text) == 0;
  case FILTER_TAG:
  case FILTER_CHECK:
    break;
  }
  return true; /* by tags_ok */
}

bool filter_match_row(const struct filter_use *u, const struct table_row *row) {
  if (u->everything)
    return true;
  if (!arm_ok(u, row->arm))
    return false;
  if (u->tags_ok && !u->tags_ok[row->tags])
    return false;
  for (size_t i = 0; i < u->filter->n; i++)
    if (!cond_ok(u, &u->filter->conds[i], row))
      return false;
  return true;
}

bool filter_match_session(const struct filter_use *u, const struct table_session *s) {
  if (!arm_ok(u, s->arm))
    return false;
  for (size_t i = 0; u->filter && i < u->filter->n; i++) {
    const struct filter_cond *c = &u->filter->conds[i];
    bool ok = c->kind == FILTER_BLOCK ? number_ok(c, s->block)
              : c->kind == FILTER_ERROR
                  ? strcmp(sample_error_name((enum sample_error)s->error), c->text) == 0
                  : false;
    if (!ok)
      return false;
  }
  return true;
}

bool filter_match_value(const struct filter_use *u, const struct table_value *v) {
  for (size_t i = 0; u->filter && i < u->filter->n; i++) {
    const struct filter_cond *c = &u->filter->conds[i];
    if (c->kind == FILTER_CHECK && strcmp(u->table->value_names.items[v->name], c->text) != 0)
      return false;
  }
  return arm_ok(u, v->arm) &&
         (!u->filter || tags_match(u->filter, &u->table->tag_values[v->tags], true));
}

/* Whether any tag set has the key. */
static bool tag_exists(const struct table *t, const char *tag) {
  for (size_t i = 0; i < t->n_tag_values; i++)
    if (value_get(&t->tag_values[i], tag))
      return true;
  return false;
}

static const char *nearest_tag(const struct table *t, const char *tag) {
  const char *words[256];
  size_t n = 0;
  for (size_t i = 0; i < ARRAY_LEN(known_tags); i++)
    words[n++] = known_tags[i];
  for (size_t i = 0; i < t->n_tag_values; i++)
    for (size_t p = 0; p < t->tag_values[i].u.object.n && n < ARRAY_LEN(words); p++)
      words[n++] = t->tag_values[i].u.object.pairs[p].key;
  return err_nearest(tag, words, n);
}

const char *filter_unknown_tag(const struct filter_use *u, const char **near) {
  *near = NULL;
  for (size_t i = 0; u->filter && i < u->filter->n; i++) {
    const struct filter_cond *c = &u->filter->conds[i];
    if (c->kind == FILTER_TAG && !tag_exists(u->table, c->tag)) {
      *near = nearest_tag(u->table, c->tag);
      return c->tag;
    }
  }
  return NULL;
}
