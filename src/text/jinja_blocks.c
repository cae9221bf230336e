/* jinja_blocks.c: runs of rounds that are passed over at once; see jinja_trace.h.
 *
 * Most rounds of a long conversation depend on little, and all on the same: a variable, where the
 * loop is beside a number, that it is not at its end. The conditions of a run of such rounds are
 * put together once: a condition that does not move with the loop stands there once, a comparison
 * with the place of the loop stands there with the first and the last place for which it was made,
 * and holds for all between when it holds for these two. Rounds with other conditions, or that have
 * effects, are in no run. */
#include <string.h>

#include "base/mem.h"
#include "text/jinja_trace.h"

static bool same_condition(const struct jguard *a, const struct jguard *b) {
  return a->kind == b->kind && a->op == b->op && a->left == b->left && a->right == b->right &&
         a->outcome == b->outcome && a->a == b->a && a->b == b->b && a->function == b->function &&
         a->k.type == b->k.type && a->k.len == b->k.len &&
         (a->k.type == J_STR ? !memcmp(a->k.u.s, b->k.u.s, a->k.len) : a->k.u.p == b->k.u.p);
}

/* Whether the expression is the place of the loop, plus or minus a constant. */
static bool is_place(const struct jloopmemo *m, uint16_t x) {
  const struct jexpr *e = &m->exprs[x];
  if (e->kind == JX_LOOP)
    return e->what == LOOP_INDEX0 || e->what == LOOP_INDEX;
  if (e->kind != JX_OP || e->k.type != J_INT)
    return false;
  if (e->a && !e->b)
    return (e->what == OP_ADD || e->what == OP_SUB) && is_place(m, e->a);
  return !e->a && e->b && e->what == OP_ADD && is_place(m, e->b);
}

enum way { FIXED, RISING, AT_END, OTHER };

static enum way way_of(const struct jloopmemo *m, const struct jguard *g) {
  bool left = m->exprs[g->a].moves, right = m->exprs[g->b].moves;
  if (!left && !right)
    return FIXED;
  if (g->kind == JG_TRUTH && m->exprs[g->a].kind == JX_LOOP && !g->outcome &&
      (m->exprs[g->a].what == LOOP_LAST || m->exprs[g->a].what == LOOP_FIRST))
    return AT_END;
  bool ordered = g->kind == JG_COMPARE && g->op >= CMP_LT && g->op <= CMP_GE && g->left == J_INT &&
                 g->right == J_INT;
  if (!ordered || left == right || !is_place(m, left ? g->a : g->b))
    return OTHER;
  return RISING;
}

/* Puts a round's condition to the others; false when it is of no use for a run. */
static bool add(const struct jloopmemo *m, struct jspan *b, const struct jguard *g, size_t at) {
  enum way way = way_of(m, g);
  if (way == OTHER)
    return false;
  for (size_t i = 0; i < b->n_bounds; i++)
    if (same_condition(&b->bounds[i].guard, g)) {
      b->bounds[i].last = at;
      return true;
    }
  if (b->n_bounds == JBOUNDS_MAX)
    return false;
  b->bounds[b->n_bounds++] = (struct jbound){*g, way != FIXED, at, at};
  b->placed = b->placed || way != FIXED;
  return true;
}

bool jspan_make(const struct jloopmemo *m, size_t from, struct jspan *b) {
  *b = (struct jspan){.from = from};
  b->autoescape = m->entries[from].record && m->entries[from].record->autoescape;
  for (size_t i = from; i < from + JBLOCK; i++) {
    const struct jrecord *r = m->entries[i].record;
    if (!r || r->n_effects || r->flow != FLOW_NEXT || r->autoescape != b->autoescape)
      return false;
    for (uint16_t k = 0; k < r->n_guards; k++)
      if (!add(m, b, &r->guards[k], i))
        return false;
    b->len += r->len;
    b->steps += r->steps;
  }
  return true;
}

static bool bound_holds(struct jst *st, struct jtrace *t, const struct jbound *b) {
  size_t at = t->index;
  bool holds = true;
  if (!b->moves)
    return jguard_holds(st, t, &b->guard);
  for (int end = 0; end < 2 && holds; end++) {
    t->index = end ? b->last : b->first;
    t->round_stamp = ++t->run->memo->stamp;
    holds = jguard_holds(st, t, &b->guard);
  }
  t->index = at;
  t->round_stamp = ++t->run->memo->stamp;
  return holds;
}

bool jspan_holds(struct jst *st, struct jtrace *t, const struct jspan *b) {
  uint64_t steps = st->steps_left;
  bool holds =
      b->autoescape == st->autoescape && b->steps < steps && !(b->placed && b->from != t->index);
  st->steps_left = UINT64_MAX;
  for (size_t i = 0; holds && i < b->n_bounds; i++)
    holds = bound_holds(st, t, &b->bounds[i]);
  st->steps_left = steps;
  return holds;
}
