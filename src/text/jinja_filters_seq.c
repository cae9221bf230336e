/* jinja_filters_seq.c: filters over sequences. Those that are generators in Jinja2 are lazy here
 * too: nothing happens, and nothing fails, before they are iterated. */
#include "text/jinja.h"

#include <ctype.h>
#include <string.h>

/* ---- attribute paths: "a.b.0", 3, or none at all */

struct getter {
  struct jlist *parts;
  struct jv absent; /* J_MISSING or J_NONE: an Undefined stays one */
  bool lower;
};

static bool is_digits(struct jst *st, struct jv s) {
  return s.len && jis_class(st, s, "isdigit");
}

static struct jlist *path_of(struct jst *st, struct jv attribute) {
  struct jlist *parts = jlist_new(st, 1);
  if (attribute.type == J_MISSING || attribute.type == J_NONE)
    return parts;
  if (attribute.type != J_STR) {
    jlist_add(st, parts, attribute);
    return parts;
  }
  struct jlist *names = jsplit(st, attribute, jcstr("."), -1, false);
  for (size_t i = 0; i < names->n; i++) {
    struct jv name = names->items[i], n;
    if (is_digits(st, name)) {
      if (!jread_int(st, jbytes(st, name), name.len, 10, &n))
        jraise(st, "ValueError", "invalid literal for int() with base 10: %s", jrepr_c(st, name));
      name = n;
    }
    jlist_add(st, parts, name);
  }
  return parts;
}

static struct jv lowered(struct jst *st, struct jv v) {
  if (v.type != J_STR)
    return v;
  struct jv low = jcase(st, v, JCASE_LOWER);
  return v.flags & JF_MARKUP ? jmarkup(low) : low;
}

static struct jv get(struct jst *st, const struct getter *g, struct jv v) {
  for (size_t i = 0; i < g->parts->n; i++) {
    v = jgetitem(st, v, g->parts->items[i]);
    if (v.type == J_UNDEF && g->absent.type != J_MISSING && g->absent.type != J_NONE)
      v = g->absent;
  }
  return g->lower ? lowered(st, v) : v;
}

static bool given(struct jst *st, struct jv v) {
  return v.type != J_MISSING && jtruth(st, v);
}

/* ---- sorting: stable, by `<` alone, as Python sorts */

struct sortable {
  struct jv key, value;
};

/* Whether a sorts before b. |sort compares lists of keys, in which equal ones are passed over
 * before
 * `<` is asked: two Undefined are no error there. */
static bool less(struct jst *st, struct jv a, struct jv b, bool listed) {
  return !(listed && jequal(st, a, b)) && jcompare(st, CMP_LT, a, b);
}

static void merge_sort(struct jst *st, struct sortable *v, struct sortable *scratch, size_t n,
                       bool reverse, bool listed) {
  if (n < 2)
    return;
  size_t half = n / 2;
  merge_sort(st, v, scratch, half, reverse, listed);
  merge_sort(st, v + half, scratch, n - half, reverse, listed);
  memcpy(scratch, v, half * sizeof *v);
  size_t i = 0, k = half, to = 0;
  while (i < half && k < n) {
    jstep(st);
    bool right = reverse ? less(st, scratch[i].key, v[k].key, listed)
                         : less(st, v[k].key, scratch[i].key, listed);
    v[to++] = right ? v[k++] : scratch[i++];
  }
  while (i < half)
    v[to++] = scratch[i++];
}

static struct jlist *sorted(struct jst *st, struct jlist *values, const struct getter *keys,
                            size_t n_keys, bool reverse, bool listed) {
  struct sortable *v = jalloc(st, (values->n + 1) * sizeof *v);
  struct sortable *scratch = jalloc(st, (values->n / 2 + 1) * sizeof *v);
  for (size_t i = 0; i < values->n; i++) {
    v[i].value = values->items[i];
    if (n_keys == 1) {
      v[i].key = get(st, keys, values->items[i]);
      continue;
    }
    struct jlist *key = jlist_new(st, n_keys);
    for (size_t k = 0; k < n_keys; k++)
      jlist_add(st, key, get(st, &keys[k], values->items[i]));
    v[i].key = jlist_value(key);
  }
  merge_sort(st, v, scratch, values->n, reverse, listed);
  struct jlist *out = jlist_new(st, values->n);
  for (size_t i = 0; i < values->n; i++)
    jlist_add(st, out, v[i].value);
  return out;
}

static struct jv f_sort(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[3];
  jbind(st, "do_sort", "?reverse,case_sensitive,attribute", args, a);
  bool lower = !given(st, a[1]);
  struct jlist *names = jlist_new(st, 1);
  if (a[2].type == J_STR)
    names = jsplit(st, a[2], jcstr(","), -1, false);
  else
    jlist_add(st, names, a[2]);
  struct getter *keys = jalloc(st, names->n * sizeof *keys);
  for (size_t i = 0; i < names->n; i++)
    keys[i] = (struct getter){.parts = path_of(st, names->items[i]), .lower = lower};
  return jlist_value(sorted(st, jcollect(st, v), keys, names->n, given(st, a[0]), true));
}

static struct jv f_dictsort(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[3];
  jbind(st, "do_dictsort", "?case_sensitive,by,reverse", args, a);
  int64_t position = 0;
  if (a[1].type == J_STR && jstr_eq(st, a[1], jcstr("value")))
    position = 1;
  else if (a[1].type != J_MISSING && !(a[1].type == J_STR && jstr_eq(st, a[1], jcstr("key"))))
    jraise(st, "FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
  if (v.type == J_UNDEF)
    jundef_fail(st, v);
  if (!jis_dict(v))
    jraise(st, "AttributeError", "'%s' object has no attribute 'items'", jtype_name(v));
  struct jlist *pairs = jlist_new(st, jdict_len(v));
  for (size_t i = 0; i < jdict_len(v); i++) {
    struct jv pair[2];
    jdict_at(st, v, i, &pair[0], &pair[1]);
    jstep(st);
    jlist_add(st, pairs, jtuple(st, 2, pair));
  }
  struct jlist *parts = jlist_new(st, 1);
  jlist_add(st, parts, jint(position));
  struct getter key = {.parts = parts, .lower = !given(st, a[0])};
  return jlist_value(sorted(st, pairs, &key, 1, given(st, a[2]), false));
}

static struct jv f_groupby(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[3];
  jbind(st, "sync_do_groupby", "attribute,?default,case_sensitive", args, a);
  bool lower = !given(st, a[2]);
  struct getter key = {.parts = path_of(st, a[0]), .absent = a[1], .lower = lower};
  struct jlist *in = sorted(st, jcollect(st, v), &key, 1, false, false), *out = jlist_new(st, 0);
  for (size_t i = 0; i < in->n;) {
    struct jv first = get(st, &key, in->items[i]), pair[2] = {first};
    struct jlist *group = jlist_new(st, 1);
    do
      jlist_add(st, group, in->items[i++]);
    while (i < in->n && jequal(st, first, get(st, &key, in->items[i])));
    struct getter plain = {.parts = key.parts, .absent = a[1]};
    if (lower)
      pair[0] = get(st, &plain, group->items[0]);
    pair[1] = jlist_value(group);
    struct jv t = jtuple(st, 2, pair);
    t.flags |= JF_NAMED;
    jlist_add(st, out, t);
  }
  return jlist_value(out);
}

/* ---- smallest, largest, sum */

static struct jv min_or_max(struct jst *st, struct jv v, const struct jargs *args, bool max) {
  struct jv a[2], item, best;
  jbind(st, max ? "do_max" : "do_min", "?case_sensitive,attribute", args, a);
  struct getter key = {.parts = path_of(st, a[1]), .lower = !given(st, a[0])};
  struct jiter *it = jiter_of(st, v);
  if (!jnext(st, it, &best))
    return jundef_hint(st, "No aggregated item, sequence was empty.");
  struct jv best_key = get(st, &key, best);
  while (jnext(st, it, &item)) {
    struct jv item_key = get(st, &key, item);
    if (jcompare(st, max ? CMP_GT : CMP_LT, item_key, best_key)) {
      best = item;
      best_key = item_key;
    }
  }
  return best;
}

static struct jv f_min(struct jst *st, struct jv v, const struct jargs *args) {
  return min_or_max(st, v, args, false);
}
static struct jv f_max(struct jst *st, struct jv v, const struct jargs *args) {
  return min_or_max(st, v, args, true);
}

static struct jv f_sum(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[2], item;
  jbind(st, "sync_do_sum", "?attribute,start", args, a);
  struct jv total = a[1].type == J_MISSING ? jint(0) : a[1];
  struct getter key = {.parts = path_of(st, a[0])};
  if (total.type == J_STR)
    jraise(st, "TypeError", "sum() can't sum strings [use ''.join(seq) instead]");
  struct jiter *it = jiter_of(st, v);
  while (jnext(st, it, &item))
    total = jbinary(st, OP_ADD, total, get(st, &key, item));
  return total;
}

/* ---- lazy ones */

/* it->args: as given; it->p: its getter once begun. */
static struct jv lazy(struct jst *st, bool (*next)(struct jst *, struct jiter *, struct jv *),
                      struct jv v, const struct jargs *args) {
  struct jiter *it = jiter_new(st, next, "generator");
  it->src = v;
  it->args = *args;
  return jiter_value(it);
}

static bool take_kwarg(struct jargs *args, const char *name, struct jv *out) {
  for (size_t i = 0; i < args->n_kw; i++) {
    if (args->kw[i].len != strlen(name) || memcmp(args->kw[i].name, name, args->kw[i].len) != 0)
      continue;
    *out = args->kw[i].value;
    memmove(&args->kw[i], &args->kw[i + 1], (args->n_kw - i - 1) * sizeof *args->kw);
    args->n_kw--;
    return true;
  }
  return false;
}

/* The first step of a generator: false when there is nothing to iterate at all. */
static bool begin(struct jst *st, struct jiter *it) {
  if (it->inner)
    return true;
  if (!jtruth(st, it->src))
    return false;
  it->inner = jiter_of(st, it->src);
  return true;
}

static void begin_map(struct jst *st, struct jiter *it) {
  struct jv attribute, absent = {.type = J_MISSING};
  if (it->flag)
    return;
  it->flag = true;
  if (!it->args.n && take_kwarg(&it->args, "attribute", &attribute)) {
    take_kwarg(&it->args, "default", &absent);
    if (it->args.n_kw)
      jraise(st, "FilterArgumentError", "Unexpected keyword argument '%.*s'",
             (int)(it->args.kw[0].len > 60 ? 60 : it->args.kw[0].len), it->args.kw[0].name);
    struct getter *g = jalloc(st, sizeof *g);
    *g = (struct getter){.parts = path_of(st, attribute), .absent = absent};
    it->p = g;
    return;
  }
  if (!it->args.n)
    jraise(st, "FilterArgumentError", "map requires a filter argument");
  it->a = it->args.pos[0];
  it->args.pos++;
  it->args.n--;
}

static bool next_mapped(struct jst *st, struct jiter *it, struct jv *out) {
  struct jv item;
  if (!it->inner && !jtruth(st, it->src))
    return false;
  begin_map(st, it);
  if (!begin(st, it) || !jnext(st, it->inner, &item))
    return false;
  *out = it->p ? get(st, it->p, item) : jcall_filter(st, it->a, item, &it->args);
  return true;
}

static struct jv f_map(struct jst *st, struct jv v, const struct jargs *args) {
  return lazy(st, next_mapped, v, args);
}

/* it->i: 1 select, 0 reject; it->b set: by attribute. */
static void begin_select(struct jst *st, struct jiter *it) {
  if (it->flag)
    return;
  it->flag = true;
  if (it->b.type == J_BOOL) {
    if (!it->args.n)
      jraise(st, "FilterArgumentError", "Missing parameter for attribute name");
    struct getter *g = jalloc(st, sizeof *g);
    *g = (struct getter){.parts = path_of(st, it->args.pos[0])};
    it->p = g;
    it->args.pos++;
    it->args.n--;
  }
  if (it->args.n) {
    it->a = it->args.pos[0];
    it->args.pos++;
    it->args.n--;
  }
}

static bool next_selected(struct jst *st, struct jiter *it, struct jv *out) {
  if (!it->inner && !jtruth(st, it->src))
    return false;
  begin_select(st, it);
  if (!begin(st, it))
    return false;
  while (jnext(st, it->inner, out)) {
    struct jv v = it->p ? get(st, it->p, *out) : *out;
    bool yes = it->a.type == J_MISSING ? jtruth(st, v) : jcall_test(st, it->a, v, &it->args);
    if (yes == (it->i != 0))
      return true;
  }
  return false;
}

static struct jv selection(struct jst *st, struct jv v, const struct jargs *args, bool select,
                           bool attribute) {
  struct jv r = lazy(st, next_selected, v, args);
  r.u.iter->i = select;
  if (attribute)
    r.u.iter->b = jbool(true);
  return r;
}

static struct jv f_select(struct jst *st, struct jv v, const struct jargs *args) {
  return selection(st, v, args, true, false);
}
static struct jv f_reject(struct jst *st, struct jv v, const struct jargs *args) {
  return selection(st, v, args, false, false);
}
static struct jv f_selectattr(struct jst *st, struct jv v, const struct jargs *args) {
  return selection(st, v, args, true, true);
}
static struct jv f_rejectattr(struct jst *st, struct jv v, const struct jargs *args) {
  return selection(st, v, args, false, true);
}

struct unique {
  struct getter key;
  struct jdict *seen;
};

static bool next_unique(struct jst *st, struct jiter *it, struct jv *out) {
  struct unique *u = it->p;
  if (!it->inner)
    it->inner = jiter_of(st, it->src);
  while (jnext(st, it->inner, out)) {
    struct jv key = get(st, &u->key, *out);
    if (jdict_get(st, jdict_value(u->seen), key).type != J_MISSING)
      continue;
    jdict_set(st, u->seen, key, jnone());
    return true;
  }
  return false;
}

static struct jv f_unique(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[2];
  jbind(st, "sync_do_unique", "?case_sensitive,attribute", args, a);
  struct unique *u = jalloc(st, sizeof *u);
  *u = (struct unique){{.parts = path_of(st, a[1]), .lower = !given(st, a[0])}, jdict_new(st)};
  struct jv r = lazy(st, next_unique, v, args);
  r.u.iter->p = u;
  return r;
}

static bool next_batch(struct jst *st, struct jiter *it, struct jv *out) {
  struct jv item;
  struct jlist *l = jlist_new(st, 0);
  if (!it->inner)
    it->inner = jiter_of(st, it->src);
  if (it->flag)
    return false;
  if (it->b.type != J_MISSING)
    jlist_add(st, l, it->b); /* what the round before read ahead */
  it->b.type = J_MISSING;
  while (jnext(st, it->inner, &item)) {
    bool full = jequal(st, jint((int64_t)l->n), it->a);
    if (full) {
      it->b = item;
      *out = jlist_value(l);
      return true;
    }
    jlist_add(st, l, item);
  }
  it->flag = true;
  if (!l->n)
    return false;
  struct jv fill = it->args.pos[1];
  if (fill.type != J_MISSING && fill.type != J_NONE)
    while (jcompare(st, CMP_LT, jint((int64_t)l->n), it->a)) {
      jstep(st);
      jlist_add(st, l, fill);
    }
  *out = jlist_value(l);
  return true;
}

static struct jv f_batch(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv *a = jalloc(st, 2 * sizeof *a);
  jbind(st, "do_batch", "linecount,?fill_with", args, a);
  struct jv r = lazy(st, next_batch, v, &(struct jargs){.pos = a, .n = 2});
  r.u.iter->a = a[0];
  return r;
}

/* it->pos: number of the next slice; it->i: where it begins. */
static bool next_slice(struct jst *st, struct jiter *it, struct jv *out) {
  if (it->a.type == J_MISSING)
    it->a = jlist_value(jcollect(st, it->src));
  int64_t slices = jto_index(st, it->args.pos[0]);
  struct jv fill = it->args.pos[1];
  size_t n = jseq_len(it->a);
  if (slices == 0)
    jraise(st, "ZeroDivisionError", "integer division or modulo by zero");
  if ((int64_t)it->pos >= slices)
    return false;
  jspend(st, n / (size_t)slices);
  size_t per = n / (size_t)slices, extra = n % (size_t)slices;
  size_t count = per + (it->pos < extra);
  struct jlist *l = jlist_new(st, count + 1);
  for (size_t i = 0; i < count; i++)
    jlist_add(st, l, jseq_at(st, it->a, (size_t)it->i + i));
  if (fill.type != J_MISSING && fill.type != J_NONE && it->pos >= extra)
    jlist_add(st, l, fill);
  it->i += (int64_t)count;
  it->pos++;
  *out = jlist_value(l);
  return true;
}

static struct jv f_slice(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv *a = jalloc(st, 2 * sizeof *a);
  jbind(st, "sync_do_slice", "slices,?fill_with", args, a);
  return lazy(st, next_slice, v, &(struct jargs){.pos = a, .n = 2});
}

static bool next_pair(struct jst *st, struct jiter *it, struct jv *out) {
  struct jv pair[2];
  if (it->src.type == J_UNDEF)
    return false;
  if (!jis_dict(it->src))
    jraise(st, "TypeError", "Can only get item pairs from a mapping.");
  if (it->pos >= jdict_len(it->src))
    return false;
  jdict_at(st, it->src, it->pos++, &pair[0], &pair[1]);
  *out = jtuple(st, 2, pair);
  return true;
}

static struct jv f_items(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, "do_items", "", args, unused);
  return lazy(st, next_pair, v, args);
}

/* ---- ends and order */

static struct jv f_first(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv unused[1], item;
  jbind(st, "sync_do_first", "", args, unused);
  if (jnext(st, jiter_of(st, v), &item))
    return item;
  return jundef_hint(st, "No first item, sequence was empty.");
}

static bool reversible(struct jv v) {
  return v.type == J_STR || jis_seq(v) || jis_dict(v) || v.type == J_VIEW || v.type == J_RANGE ||
         v.type == J_UNDEF;
}

static struct jv f_last(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, "do_last", "", args, unused);
  if (!reversible(v))
    jraise(st, "TypeError", "'%s' object is not reversible", jtype_name(v));
  if (jis_seq(v) && jseq_len(v))
    return jseq_at(st, v, jseq_len(v) - 1);
  if (v.type == J_STR && v.len)
    return jslice_of(st, v, jint(-1), jnone(), jnone());
  struct jlist *all = jcollect(st, v);
  if (!all->n)
    return jundef_hint(st, "No last item, sequence was empty.");
  return all->items[all->n - 1];
}

static bool next_reversed(struct jst *st, struct jiter *it, struct jv *out) {
  size_t n = jseq_len(it->src);
  if (it->pos >= n)
    return false;
  *out = jseq_at(st, it->src, n - 1 - it->pos++);
  return true;
}

static struct jv f_reverse(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, "do_reverse", "", args, unused);
  if (v.type == J_STR)
    return jslice_of(st, v, jnone(), jnone(), jint(-1));
  if (!reversible(v) && !jiter_try(st, v))
    jraise(st, "FilterArgumentError", "argument must be iterable");
  struct jv all = jis_seq(v) ? v : jlist_value(jcollect(st, v));
  if (!reversible(v)) {
    struct jlist *l = jlist_new(st, jseq_len(all));
    for (size_t i = jseq_len(all); i-- > 0;)
      jlist_add(st, l, jseq_at(st, all, i));
    return jlist_value(l);
  }
  struct jiter *it = jiter_new(st, next_reversed, "list_reverseiterator");
  it->src = all;
  return jiter_value(it);
}

static struct jv f_list(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, "sync_do_list", "", args, unused);
  return jlist_value(jcollect(st, v));
}

static struct jv f_join(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[2];
  jbind(st, "sync_do_join", "?d,attribute", args, a);
  struct getter key = {.parts = path_of(st, a[1])};
  struct jv sep = a[0].type == J_MISSING ? jstr("", 0) : a[0];
  struct jlist *l = jcollect(st, v);
  bool markup = sep.type == J_STR && sep.flags & JF_MARKUP;
  struct jlist *parts = jlist_new(st, l->n);
  for (size_t i = 0; i < l->n; i++) {
    struct jv item = get(st, &key, l->items[i]);
    item = st->autoescape ? jsoft_str(st, item) : jto_str(st, item);
    markup = markup || item.flags & JF_MARKUP;
    jlist_add(st, parts, item);
  }
  if (!st->autoescape || !markup)
    return jjoin(st, jto_str(st, sep), parts);
  for (size_t i = 0; i < parts->n; i++)
    parts->items[i] = jescape(st, parts->items[i]);
  return jmarkup(jjoin(st, jescape(st, sep), parts));
}

const struct jfilter_def jfilters_seq[] = {{"list", f_list},
                                           {"join", f_join},
                                           {"items", f_items},
                                           {"map", f_map},
                                           {"select", f_select},
                                           {"selectattr", f_selectattr},
                                           {"reject", f_reject},
                                           {"rejectattr", f_rejectattr},
                                           {"first", f_first},
                                           {"last", f_last},
                                           {"sort", f_sort},
                                           {"dictsort", f_dictsort},
                                           {"groupby", f_groupby},
                                           {"unique", f_unique},
                                           {"reverse", f_reverse},
                                           {"min", f_min},
                                           {"max", f_max},
                                           {"sum", f_sum},
                                           {"batch", f_batch},
                                           {"slice", f_slice},
                                           {NULL, NULL}};
