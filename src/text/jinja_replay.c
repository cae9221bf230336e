/* jinja_replay.c: whether a round of a loop would do what it did before; see jinja_trace.h.
 *
 * Nothing here raises: an expression that cannot be worked out as it was makes the round run. */
#include "text/jinja_trace.h"

#include <string.h>

static const struct jv NONE_NOW = {.type = J_SLICE}; /* no value of a template has this type */

static struct jv undefined(void) {
  static const struct jundef u = {.exception = "UndefinedError"};
  struct jv v = {.type = J_UNDEF};
  v.u.p = (void *)(uintptr_t)&u;
  return v;
}

static struct jv item_at(struct jst *st, struct jv list, int64_t i, bool from_end) {
  int64_t n = (int64_t)jseq_len(list);
  if (i < 0 && from_end)
    i += n;
  return i >= 0 && i < n ? jseq_at(st, list, (size_t)i) : undefined();
}

static struct jv loop_value(struct jst *st, const struct jtrace *t, enum jloop_what what) {
  int64_t at = (int64_t)t->index, n = (int64_t)t->n;
  switch (what) {
  case LOOP_INDEX0:
    return jint(at);
  case LOOP_INDEX:
    return jint(at + 1);
  case LOOP_FIRST:
    return jbool(at == 0);
  case LOOP_LAST:
    return jbool(at + 1 == n);
  case LOOP_LENGTH:
    return jint(n);
  case LOOP_REVINDEX:
    return jint(n - at);
  case LOOP_REVINDEX0:
    return jint(n - at - 1);
  case LOOP_PREVITEM:
  case LOOP_NEXTITEM:
    if (!jis_list(t->iterable))
      return NONE_NOW;
    return item_at(st, t->iterable, what == LOOP_PREVITEM ? at - 1 : at + 1, false);
  default:
    return NONE_NOW;
  }
}

static struct jv op_value(struct jst *st, enum jop op, struct jv a, struct jv b) {
  int64_t i;
  if (a.type != J_INT || b.type != J_INT)
    return NONE_NOW;
  if (op == OP_ADD)
    return __builtin_add_overflow(a.u.i, b.u.i, &i) ? NONE_NOW : jint(i);
  if (op == OP_SUB)
    return __builtin_sub_overflow(a.u.i, b.u.i, &i) ? NONE_NOW : jint(i);
  if (op == OP_MUL)
    return __builtin_mul_overflow(a.u.i, b.u.i, &i) ? NONE_NOW : jint(i);
  if (b.u.i == 0)
    return NONE_NOW;
  struct jv v = jnumber_op(st, op, a, b);
  return v.type == J_INT ? v : NONE_NOW;
}

static struct jv attr_value(struct jst *st, struct jv obj, struct jv name) {
  if (obj.type != J_JDICT)
    return NONE_NOW;
  const struct value *v = value_get_len(obj.u.json, name.u.s, name.len);
  return v ? jfrom(v, st) : undefined();
}

static struct jv ns_value(struct jst *st, struct jv ns, struct jv name) {
  if (ns.type != J_NS)
    return NONE_NOW;
  struct jv v = jdict_get(st, jdict_value(ns.u.dict), name);
  return v.type == J_MISSING ? undefined() : v;
}

static struct jv slot_value(struct jv v) {
  v.origin = 0;
  return v.type == J_MISSING ? undefined() : v;
}

static struct jv work_out(struct jst *st, struct jtrace *t, const struct jexpr *e) {
  struct jv a = NONE_NOW, b = NONE_NOW;
  if (e->kind > JX_LOOP) {
    a = e->a ? jexpr_value(st, t, e->a) : e->k;
    b = e->b ? jexpr_value(st, t, e->b) : e->k;
  }
  switch ((enum jexpr_kind)e->kind) {
  case JX_SLOT:
    return slot_value(t->frames[e->a]->slots[e->b]);
  case JX_NAME:
    return slot_value(st->exported[e->b].type != J_MISSING ? st->exported[e->b]
                                                           : st->globals[e->b]);
  case JX_LOOP:
    return loop_value(st, t, (enum jloop_what)e->what);
  case JX_NS:
    return ns_value(st, a, e->k);
  case JX_ATTR:
    return attr_value(st, a, e->k);
  case JX_ITEM:
    return jis_list(a) && b.type == J_INT ? item_at(st, a, b.u.i, true) : NONE_NOW;
  case JX_OP:
    return op_value(st, (enum jop)e->what, a, b);
  case JX_LEN:
    return jis_list(a) ? jint((int64_t)jseq_len(a)) : NONE_NOW;
  }
  return NONE_NOW;
}

struct jv jexpr_work_out(struct jst *st, struct jtrace *t, struct jexpr *e, uint64_t stamp) {
  e->value = work_out(st, t, e);
  e->value.origin = 0;
  e->stamp = stamp;
  return e->value;
}

bool jkept_same(struct jst *st, struct jtrace *t, struct jv kept, struct jv v) {
  if (kept.type != v.type)
    return false;
  switch (kept.type) {
  case J_NONE:
    return true;
  case J_BOOL:
    return kept.u.b == v.u.b;
  case J_INT:
  case J_FLOAT: /* the very bits */
    return kept.u.i == v.u.i;
  case J_STR:
    return !((kept.flags ^ v.flags) & JF_MARKUP) && jstr_eq(st, kept, v);
  case J_UNDEF:
    return !v.u.undef->hint && !strcmp(v.u.undef->exception, "UndefinedError");
  case J_FUNC:
    return kept.u.func == v.u.func;
  case J_MACRO:
    return kept.u.p == v.u.macro->node && kept.flags == v.u.macro->autoescape &&
           v.u.macro->outer == t->frames[kept.len];
  case J_JDICT:
    return (uint64_t)kept.u.i == jmessage_id(t->run, v);
  case J_JLIST:
    return v.u.json == t->run->tools;
  default:
    return false;
  }
}

static bool int_compare(enum jcmp op, int64_t a, int64_t b) {
  switch (op) {
  case CMP_EQ:
    return a == b;
  case CMP_NE:
    return a != b;
  case CMP_LT:
    return a < b;
  case CMP_LE:
    return a <= b;
  case CMP_GT:
    return a > b;
  default:
    return a >= b;
  }
}

static bool compare_holds(struct jst *st, struct jtrace *t, const struct jguard *g) {
  struct jv a = g->a ? jexpr_value(st, t, g->a) : g->k;
  struct jv b = g->b ? jexpr_value(st, t, g->b) : g->k;
  if (a.type != g->left || b.type != g->right)
    return false; /* of the same types it does not raise, as it did not then */
  if (a.type == J_INT && b.type == J_INT && g->op <= CMP_GE)
    return int_compare((enum jcmp)g->op, a.u.i, b.u.i) == g->outcome;
  return jcompare(st, (enum jcmp)g->op, a, b) == g->outcome;
}

bool jguard_holds(struct jst *st, struct jtrace *t, const struct jguard *g) {
  struct jv v;
  if (g->kind == JG_COMPARE)
    return compare_holds(st, t, g);
  v = jexpr_value(st, t, g->a);
  if (g->kind == JG_SAME)
    return jkept_same(st, t, g->k, v);
  if (v.type == NONE_NOW.type)
    return false;
  if (g->kind == JG_TRUTH)
    return v.type < J_RANGE && jtruth(st, v) == g->outcome;
  return jtruth(st, g->function->call(st, v, &(struct jargs){0})) == g->outcome;
}

bool jrecord_holds(struct jst *st, struct jtrace *t, const struct jrecord *r) {
  uint64_t steps = st->steps_left;
  bool holds = r->autoescape == st->autoescape && r->steps < steps;
  st->steps_left = UINT64_MAX; /* looking is not counted, and may not raise for it */
  for (uint32_t i = 0; holds && i < r->n_guards; i++)
    holds = jguard_holds(st, t, &r->guards[i]);
  for (uint32_t i = 0; holds && i < r->n_effects; i++)
    holds = jexpr_value(st, t, r->effects[i].ns).type == J_NS;
  st->steps_left = steps;
  return holds;
}
