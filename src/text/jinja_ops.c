/* jinja_ops.c: operators over all types, equality, order, membership, truth and length. */
#include "text/jinja.h"

#include <string.h>

static const char *const OP_NAMES[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

NORETURN static void unsupported(struct jst *st, enum jop op, struct jv a, struct jv b) {
  jraise(st, "TypeError", "unsupported operand type(s) for %s: '%s' and '%s'", OP_NAMES[op],
         jtype_name(a), jtype_name(b));
}

static struct jv seq_add(struct jst *st, struct jv a, struct jv b) {
  size_t n = jseq_len(a), m = jseq_len(b);
  jspend(st, n + m);
  struct jlist *l = jlist_new(st, n + m);
  for (size_t i = 0; i < n; i++)
    jlist_add(st, l, jseq_at(st, a, i));
  for (size_t i = 0; i < m; i++)
    jlist_add(st, l, jseq_at(st, b, i));
  return (struct jv){.type = a.type == J_TUPLE ? J_TUPLE : J_LIST, .u.list = l};
}

static struct jv add(struct jst *st, struct jv a, struct jv b) {
  if (a.type == J_STR && b.type == J_STR) {
    if (!((a.flags | b.flags) & JF_MARKUP))
      return jconcat(st, a, b);
    return jmarkup(jconcat(st, jescape(st, a), jescape(st, b)));
  }
  if (a.type == J_STR || jis_seq(a)) {
    if (jis_list(a) && jis_list(b))
      return seq_add(st, a, b);
    if (a.type == J_TUPLE && b.type == J_TUPLE)
      return seq_add(st, a, b);
    const char *name = a.type == J_STR ? "str" : a.type == J_TUPLE ? "tuple" : "list";
    jraise(st, "TypeError", "can only concatenate %s (not \"%s\") to %s", name, jtype_name(b),
           name);
  }
  unsupported(st, OP_ADD, a, b);
}

static struct jv repeat(struct jst *st, struct jv s, struct jv times) {
  if (!jis_int(times))
    jraise(st, "TypeError", "can't multiply sequence by non-int of type '%s'", jtype_name(times));
  if (times.type == J_BIG && !times.u.big->negative)
    jraise(st, "OverflowError", "cannot fit 'int' into an index-sized integer");
  int64_t n = times.type == J_BIG || jsmall(times) < 0 ? 0 : jsmall(times);
  if (s.type == J_STR) {
    if (n && (uint64_t)n > JSTR_MAX / (s.len ? s.len : 1))
      jlimit(st, "a string of %lld times %u bytes is too long", (long long)n, s.len);
    struct buf *b = jbuf_open(st);
    jput_times(st, b, jbytes(st, s), s.len, (size_t)n);
    struct jv r = jbuf_close(st, b);
    return s.flags & JF_MARKUP ? jmarkup(r) : r;
  }
  size_t len = jseq_len(s);
  if (len && ((uint64_t)n > st->steps_left / len ||
              (uint64_t)n > st->memory_left / sizeof(struct jv) / len))
    jlimit(st, "a list of %lld times %zu items is too long", (long long)n, len);
  jspend(st, (uint64_t)n * len);
  struct jlist *l = jlist_new(st, (size_t)n * len);
  for (int64_t i = 0; len && i < n; i++)
    for (size_t k = 0; k < len; k++)
      jlist_add(st, l, jseq_at(st, s, k));
  return (struct jv){.type = s.type == J_TUPLE ? J_TUPLE : J_LIST, .u.list = l};
}

struct jv jbinary(struct jst *st, enum jop op, struct jv a, struct jv b) {
  if (jis_number(a) && jis_number(b))
    return jnumber_op(st, op, a, b);
  if (op == OP_MOD && a.type == J_STR)
    return jpercent(st, a, b);
  if (a.type == J_UNDEF)
    jundef_fail(st, a);
  if (b.type == J_UNDEF)
    jundef_fail(st, b);
  if (op == OP_ADD)
    return add(st, a, b);
  if (op == OP_MUL && (a.type == J_STR || jis_seq(a)))
    return repeat(st, a, b);
  if (op == OP_MUL && (b.type == J_STR || jis_seq(b)))
    return repeat(st, b, a);
  unsupported(st, op, a, b);
}

/* ---- equality and order */

bool jis_same(struct jv a, struct jv b) {
  if (a.type != b.type)
    return false;
  switch (a.type) {
  case J_MISSING:
  case J_NONE:
    return true;
  case J_BOOL:
    return a.u.b == b.u.b;
  case J_INT:
    return a.u.i == b.u.i && a.u.i >= -5 && a.u.i <= 256; /* CPython's small ints are one object */
  case J_FLOAT:
    return false;
  case J_STR:
    return a.len == b.len && a.u.p == b.u.p && (a.flags & JF_MARKUP) == (b.flags & JF_MARKUP);
  default:
    return a.u.p == b.u.p;
  }
}

static bool item_equal(struct jst *st, struct jv a, struct jv b) {
  jstep(st);
  return jis_same(a, b) || jequal(st, a, b);
}

static bool seq_equal(struct jst *st, struct jv a, struct jv b) {
  size_t n = jseq_len(a);
  if (n != jseq_len(b))
    return false;
  for (size_t i = 0; i < n; i++)
    if (!item_equal(st, jseq_at(st, a, i), jseq_at(st, b, i)))
      return false;
  return true;
}

static bool dict_equal(struct jst *st, struct jv a, struct jv b) {
  if (jdict_len(a) != jdict_len(b))
    return false;
  for (size_t i = 0; i < jdict_len(a); i++) {
    struct jv key, value;
    jdict_at(st, a, i, &key, &value);
    struct jv other = jdict_get(st, b, key);
    if (other.type == J_MISSING || !item_equal(st, value, other))
      return false;
  }
  return true;
}

static bool range_equal(const struct jrange *a, const struct jrange *b) {
  if (a->n != b->n)
    return false;
  return !a->n || (a->start == b->start && (a->n == 1 || a->step == b->step));
}

static bool view_equal(struct jst *st, struct jv a, struct jv b) {
  if (a.flags & JF_VALUES || b.flags & JF_VALUES)
    return a.u.p == b.u.p;
  size_t n;
  if (!jlen(st, a, &n) || n != jdict_len(b.u.view->dict))
    return false;
  struct jiter *it = jiter_of(st, a);
  struct jv item;
  while (jnext(st, it, &item))
    if (!jcontains(st, b, item))
      return false;
  return true;
}

bool jequal(struct jst *st, struct jv a, struct jv b) {
  jstep(st);
  if (jis_number(a) && jis_number(b))
    return jnumber_cmp(st, a, b) == 0;
  bool equal = false;
  jenter(st);
  if (a.type == J_STR && b.type == J_STR && a.len == b.len)
    jwork(st, a.len);
  if (a.type == J_STR && b.type == J_STR)
    equal = jstr_eq(st, a, b);
  else if ((jis_list(a) && jis_list(b)) || (a.type == J_TUPLE && b.type == J_TUPLE))
    equal = seq_equal(st, a, b);
  else if (jis_dict(a) && jis_dict(b))
    equal = dict_equal(st, a, b);
  else if (a.type == J_RANGE && b.type == J_RANGE)
    equal = range_equal(a.u.range, b.u.range);
  else if (a.type == J_VIEW && b.type == J_VIEW)
    equal = view_equal(st, a, b);
  else if (a.type == J_UNDEF && b.type == J_UNDEF)
    equal = true;
  else
    equal = jis_same(a, b);
  jleave(st);
  return equal;
}

static bool holds(enum jcmp op, int order) {
  switch (op) {
  case CMP_LT:
    return order == -1;
  case CMP_LE:
    return order == -1 || order == 0;
  case CMP_GT:
    return order == 1;
  default:
    return order == 1 || order == 0;
  }
}

static bool seq_order(struct jst *st, enum jcmp op, struct jv a, struct jv b) {
  size_t n = jseq_len(a), m = jseq_len(b);
  for (size_t i = 0; i < n && i < m; i++) {
    struct jv x = jseq_at(st, a, i), y = jseq_at(st, b, i);
    if (!item_equal(st, x, y))
      return jcompare(st, op, x, y);
  }
  return holds(op, n < m ? -1 : n > m);
}

static bool order(struct jst *st, enum jcmp op, struct jv a, struct jv b) {
  static const char *const names[] = {
      [CMP_LT] = "<", [CMP_LE] = "<=", [CMP_GT] = ">", [CMP_GE] = ">="};
  if (jis_number(a) && jis_number(b))
    return holds(op, jnumber_cmp(st, a, b));
  if (a.type == J_STR && b.type == J_STR) {
    jwork(st, a.len < b.len ? a.len : b.len);
    int c = jstr_cmp(st, a, b);
    return holds(op, c < 0 ? -1 : c > 0);
  }
  if ((jis_list(a) && jis_list(b)) || (a.type == J_TUPLE && b.type == J_TUPLE)) {
    jenter(st);
    bool r = seq_order(st, op, a, b);
    jleave(st);
    return r;
  }
  if (a.type == J_UNDEF)
    jundef_fail(st, a);
  if (b.type == J_UNDEF)
    jundef_fail(st, b);
  jraise(st, "TypeError", "'%s' not supported between instances of '%s' and '%s'", names[op],
         jtype_name(a), jtype_name(b));
}

bool jcompare(struct jst *st, enum jcmp op, struct jv a, struct jv b) {
  switch (op) {
  case CMP_EQ:
    return jequal(st, a, b);
  case CMP_NE:
    return !jequal(st, a, b);
  case CMP_IN:
    return jcontains(st, b, a);
  case CMP_NOTIN:
    return !jcontains(st, b, a);
  default:
    return order(st, op, a, b);
  }
}

/* ---- membership, truth, length */

static bool in_range(struct jst *st, const struct jrange *r, struct jv item) {
  if (item.type == J_FLOAT) { /* Python looks through all of them */
    jspend(st, (uint64_t)r->n);
    for (int64_t i = 0; i < r->n; i++)
      if (jnumber_cmp(st, jint(r->start + i * r->step), item) == 0)
        return true;
    return false;
  }
  if (item.type != J_INT && item.type != J_BOOL)
    return false;
  int64_t v = jsmall(item);
  if (!r->n || (r->step > 0 ? v < r->start || v >= r->stop : v > r->start || v <= r->stop))
    return false;
  return (v - r->start) % r->step == 0;
}

static bool in_view(struct jst *st, struct jv view, struct jv item) {
  struct jv d = view.u.view->dict;
  if (view.flags & JF_KEYS)
    return jdict_get(st, d, item).type != J_MISSING;
  if (view.flags & JF_ITEMS) {
    if (item.type != J_TUPLE || item.u.list->n != 2)
      return false;
    struct jv value = jdict_get(st, d, item.u.list->items[0]);
    return value.type != J_MISSING && item_equal(st, value, item.u.list->items[1]);
  }
  for (size_t i = 0; i < jdict_len(d); i++) {
    struct jv value;
    jdict_at(st, d, i, NULL, &value);
    if (item_equal(st, value, item))
      return true;
  }
  return false;
}

bool jcontains(struct jst *st, struct jv container, struct jv item) {
  if (container.type == J_STR) {
    if (item.type != J_STR)
      jraise(st, "TypeError", "'in <string>' requires string as left operand, not %s",
             jtype_name(item));
    if (!item.len)
      return true;
    jwork(st, container.len);
    return item.len <= container.len &&
           memmem(jbytes(st, container), container.len, jbytes(st, item), item.len);
  }
  if (jis_dict(container))
    return jdict_get(st, container, item).type != J_MISSING;
  if (container.type == J_RANGE)
    return in_range(st, container.u.range, item);
  if (container.type == J_VIEW)
    return in_view(st, container, item);
  struct jiter *it = jiter_try(st, container);
  struct jv each;
  if (!it)
    jraise(st, "TypeError", "argument of type '%s' is not iterable", jtype_name(container));
  else
    while (jnext(st, it, &each))
      if (item_equal(st, each, item))
        return true;
  return false;
}

bool jtruth(struct jst *st, struct jv v) {
  size_t n;
  switch (v.type) {
  case J_MISSING:
  case J_UNDEF:
  case J_NONE:
    return false;
  case J_BOOL:
    return v.u.b;
  case J_INT:
    return v.u.i != 0;
  case J_FLOAT:
    return v.u.f != 0;
  case J_STR:
    return v.len != 0;
  default:
    return !jlen(st, v, &n) || n;
  }
}

bool jlen(struct jst *st, struct jv v, size_t *out) {
  switch (v.type) {
  case J_UNDEF:
    *out = 0;
    return true;
  case J_STR:
    *out = jchars(st, v);
    return true;
  case J_LIST:
  case J_JLIST:
  case J_TUPLE:
    *out = jseq_len(v);
    return true;
  case J_DICT:
  case J_JDICT:
    *out = jdict_len(v);
    return true;
  case J_VIEW:
    *out = jdict_len(v.u.view->dict);
    return true;
  case J_RANGE:
    *out = (size_t)v.u.range->n;
    return true;
  case J_LOOP:
    *out = (size_t)jloop_length(st, v.u.loop);
    return true;
  default:
    return false;
  }
}

size_t jlen_or_raise(struct jst *st, struct jv v) {
  size_t n;
  if (!jlen(st, v, &n))
    jraise(st, "TypeError", "object of type '%s' has no len()", jtype_name(v));
  return n;
}
