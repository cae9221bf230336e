/* jinja_trace.c: writing down what a round of a loop depends on; see jinja_trace.h. */
#include "text/jinja_trace.h"

#include <string.h>

#include "base/mem.h"

#define EXPRS_MAX 4096
#define KEEP_MAX ((size_t)64 << 10) /* bytes of a string that is kept */
#define WHOLE_FROM 256              /* a longer string is known by the message it is in */

bool jtrace_is_loop(const struct jtrace *t, const struct jloop *l) {
  return t->loop == l;
}

void jtrace_give_up(struct jst *st) {
  if (st->trace)
    st->trace->given_up = true;
}

/* ---- expressions ---- */

static bool same_key(struct jv a, struct jv b) {
  if (a.type != b.type || a.len != b.len)
    return false;
  return a.type == J_STR ? !memcmp(a.u.s, b.u.s, a.len) : a.u.i == b.u.i;
}

/* The number of an expression like `x`, which may be new; 0 when there are too many. */
static uint16_t number_of(struct jtrace *t, const struct jexpr *x) {
  struct jloopmemo *m = t->m;
  uint32_t hash = (x->kind * 31u + x->what) * 31u + x->a * 7u + x->b * 131u;
  hash += x->k.type == J_INT ? (uint32_t)x->k.u.i : x->k.len;
  uint16_t *chain = &m->chains[hash % JCHAINS];
  for (uint16_t i = *chain; i; i = m->exprs[i].next) {
    const struct jexpr *e = &m->exprs[i];
    if (e->kind == x->kind && e->what == x->what && e->a == x->a && e->b == x->b &&
        same_key(e->k, x->k))
      return i;
  }
  if (m->n_exprs >= EXPRS_MAX) {
    t->given_up = true;
    return 0;
  }
  MEM_GROW(m->exprs, m->n_exprs, m->cap_exprs);
  struct jexpr *e = &m->exprs[m->n_exprs];
  *e = *x;
  e->moves = m->exprs[x->a].moves || (x->kind != JX_LOOP && m->exprs[x->b].moves) ||
             (x->kind == JX_LOOP && x->what != LOOP_LENGTH);
  e->changing = x->kind == JX_NS || m->exprs[x->a].changing || m->exprs[x->b].changing;
  e->next = *chain;
  *chain = (uint16_t)m->n_exprs++;
  return *chain;
}

static struct jv with_origin(struct jtrace *t, struct jv v, const struct jexpr *x) {
  v.origin = number_of(t, x);
  return v;
}

static struct jv plain(struct jv v) {
  v.origin = 0;
  return v;
}

/* ---- what is kept ---- */

uint64_t jmessage_id(const struct jmemo_run *run, struct jv v) {
  const struct value *list = run->messages;
  if (v.type != J_JDICT || !list || !list->u.array.n)
    return 0;
  uintptr_t first = (uintptr_t)list->u.array.items, at = (uintptr_t)v.u.json;
  if (at < first || at >= first + list->u.array.n * sizeof(struct value))
    return 0;
  return run->ids[(at - first) / sizeof(struct value)];
}

static bool keep_macro(const struct jtrace *t, struct jv v, struct jv *kept) {
  for (size_t i = 0; i < t->m->n_frames; i++)
    if (t->frames[i] == v.u.macro->outer) {
      *kept = (struct jv){.type = J_MACRO, .flags = v.u.macro->autoescape, .len = (uint32_t)i};
      kept->u.p = (void *)(uintptr_t)v.u.macro->node;
      return true;
    }
  return false;
}

static const char *copy_of(struct jv s) {
  char *copy = mem_alloc(s.len + (size_t)1);
  memcpy(copy, s.u.s, s.len);
  copy[s.len] = '\0';
  return copy;
}

bool jkeep(struct jtrace *t, struct jv v, bool effect, struct jv *kept) {
  *kept = plain(v);
  switch (v.type) {
  case J_NONE:
  case J_BOOL:
  case J_INT:
  case J_FLOAT:
    return true;
  case J_STR:
    if (v.len > KEEP_MAX || v.flags & JF_ROPE)
      return false;
    kept->flags = v.flags & (JF_MARKUP | JF_ASCII | JF_WIDE);
    kept->u.s = copy_of(v);
    return true;
  case J_UNDEF:
    kept->u.p = NULL;
    return !effect && !v.u.undef->hint && !strcmp(v.u.undef->exception, "UndefinedError");
  case J_FUNC:
    return !effect;
  case J_MACRO:
    return !effect && keep_macro(t, v, kept);
  case J_JDICT:
    kept->u.i = (int64_t)jmessage_id(t->run, v);
    return !effect && kept->u.i;
  case J_JLIST:
    kept->u.p = NULL;
    return !effect && v.u.json == t->run->tools;
  default:
    return false;
  }
}

void jkept_free(struct jv *kept) {
  if (kept->type == J_STR)
    mem_free((void *)(uintptr_t)kept->u.s);
  kept->type = J_MISSING;
}

/* ---- conditions ---- */

static bool same_guard(const struct jguard *a, const struct jguard *b) {
  return a->kind == b->kind && a->op == b->op && a->a == b->a && a->b == b->b &&
         a->function == b->function && same_key(a->k, b->k);
}

/* Takes g->k over. */
static void add_guard(struct jtrace *t, struct jguard g) {
  for (uint32_t i = 0; i < t->n_guards; i++)
    if (same_guard(&t->guards[i], &g)) {
      jkept_free(&g.k);
      return;
    }
  if (t->n_guards == JGUARDS_MAX || t->given_up) {
    t->given_up = true;
    jkept_free(&g.k);
    return;
  }
  t->guards[t->n_guards++] = g;
}

/* The message that what x reads lies in, as a condition; false when there is none. */
static bool guard_message(struct jst *st, struct jtrace *t, uint16_t x) {
  for (; t->m->exprs[x].kind == JX_ATTR || t->m->exprs[x].kind == JX_ITEM; x = t->m->exprs[x].a) {
    if (t->m->exprs[x].changing)
      return false;
    struct jv v = jexpr_value(st, t, x);
    uint64_t id = jmessage_id(t->run, v);
    if (!id)
      continue;
    add_guard(t,
              (struct jguard){.kind = JG_SAME, .a = x, .k = {.type = J_JDICT, .u.i = (int64_t)id}});
    return true;
  }
  return false;
}

struct jv jtrace_firm(struct jst *st, struct jv v) {
  struct jtrace *t = st->trace;
  uint16_t x = v.origin;
  struct jv kept;
  v.origin = 0;
  if (!t || t->given_up)
    return v;
  bool large = v.type == J_STR && (v.len >= WHOLE_FROM || v.flags & JF_ROPE);
  bool inner = large || v.type == J_JLIST || v.type == J_JDICT;
  if (inner && !jmessage_id(t->run, v) && guard_message(st, t, x))
    return v;
  if (v.type == J_STR && v.flags & JF_ROPE) {
    kept = jstr(jbytes(st, v), v.len);
    kept.flags = v.flags & JF_MARKUP;
    if (!jkeep(t, kept, false, &kept))
      t->given_up = true;
  } else if (!jkeep(t, v, false, &kept)) {
    t->given_up = true;
  }
  if (!t->given_up)
    add_guard(t, (struct jguard){.kind = JG_SAME, .a = x, .k = kept});
  return v;
}

bool jsoft_truth(struct jst *st, struct jv v) {
  struct jtrace *t = st->trace;
  uint16_t x = v.origin;
  if (!x || !t)
    return jtruth(st, plain(v));
  if (v.type >= J_RANGE)
    return jtruth(st, jfirm(st, v));
  bool outcome = jtruth(st, plain(v));
  add_guard(t, (struct jguard){.kind = JG_TRUTH, .outcome = outcome, .a = x});
  return outcome;
}

static bool is_scalar(struct jv v) {
  return v.type == J_NONE || v.type == J_BOOL || v.type == J_INT || v.type == J_FLOAT ||
         v.type == J_STR || v.type == J_UNDEF;
}

static bool comparable(enum jcmp op, struct jv a, struct jv b) {
  if (!is_scalar(a))
    return false;
  if (op == CMP_IN || op == CMP_NOTIN)
    return b.type == J_STR || jis_seq(b);
  return is_scalar(b);
}

bool jsoft_compare(struct jst *st, enum jcmp op, struct jv a, struct jv b) {
  struct jtrace *t = st->trace;
  if (!t || !(a.origin || b.origin))
    return jcompare(st, op, plain(a), plain(b));
  bool outcome = jcompare(st, op, plain(a), plain(b)); /* before anything is kept: it may raise */
  struct jguard g = {.kind = JG_COMPARE,
                     .op = (uint8_t)op,
                     .left = a.type,
                     .right = b.type,
                     .outcome = outcome,
                     .a = a.origin,
                     .b = b.origin};
  bool known = comparable(op, a, b);
  if (known && !(a.origin && b.origin))
    known = jkeep(t, a.origin ? b : a, false, &g.k);
  if (known) {
    add_guard(t, g);
  } else {
    (void)jfirm(st, a);
    (void)jfirm(st, b);
  }
  return outcome;
}

/* ---- values ---- */

struct jv jsoft_binary(struct jst *st, enum jop op, struct jv a, struct jv b) {
  struct jtrace *t = st->trace;
  bool ints = a.type == J_INT && b.type == J_INT;
  bool whole = op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_MOD || op == OP_FLOORDIV;
  if (!t || !(a.origin || b.origin) || !ints || !whole) {
    a = jfirm(st, a);
    return jbinary(st, op, a, jfirm(st, b));
  }
  struct jexpr x = {.kind = JX_OP, .what = (uint8_t)op, .a = a.origin, .b = b.origin};
  x.k = plain(a.origin ? b : a);
  if (a.origin && b.origin)
    x.k = jnone();
  struct jv v = jbinary(st, op, plain(a), plain(b));
  return v.type == J_INT ? with_origin(t, v, &x) : (t->given_up = true, v);
}

/* The namespace's expression; 0 when it is not one that a variable holds. */
static uint16_t ns_of(const struct jtrace *t, struct jv v) {
  return v.origin && v.origin < t->m->n_leaves ? t->m->same_ns[v.origin] : 0;
}

static bool same_name(struct jv a, struct jv b) {
  return a.len == b.len && !memcmp(a.u.s, b.u.s, a.len);
}

/* Whether the round has set the attribute itself. */
static struct jeffect *effect_of(struct jtrace *t, uint16_t ns, struct jv name) {
  for (uint32_t i = 0; i < t->n_effects; i++)
    if (t->effects[i].ns == ns && same_name(t->effects[i].name, name))
      return &t->effects[i];
  return NULL;
}

static struct jv ns_attr(struct jst *st, struct jtrace *t, struct jv obj, const struct jnode *n) {
  uint16_t ns = ns_of(t, obj);
  if (!ns || n->value.u.s[0] == '_')
    return jgetattr(st, jfirm(st, obj), n->value);
  struct jv v = jgetattr(st, plain(obj), n->value);
  struct jexpr x = {.kind = JX_NS, .a = ns, .k = n->value};
  return effect_of(t, ns, n->value) ? v : with_origin(t, v, &x);
}

static struct jv own_loop_attr(struct jst *st, struct jtrace *t, struct jv obj, struct jv name) {
  enum jloop_what what = jloop_what(name.u.s, name.len);
  if (what == LOOP_NOTHING || what == LOOP_DEPTH || what == LOOP_DEPTH0)
    return jgetattr(st, obj, name);
  struct jexpr x = {.kind = JX_LOOP, .what = (uint8_t)what};
  return with_origin(t, jloop_get(st, obj.u.loop, what), &x);
}

struct jv jsoft_attr(struct jst *st, struct jv obj, const struct jnode *n) {
  struct jtrace *t = st->trace;
  if (t && obj.type == J_LOOP && !obj.origin && obj.u.loop == t->loop)
    return own_loop_attr(st, t, obj, n->value);
  if (!t || !obj.origin)
    return jgetattr(st, plain(obj), n->value);
  if (obj.type == J_NS)
    return ns_attr(st, t, obj, n);
  if (obj.type != J_JDICT || !n->only_key)
    return jgetattr(st, jfirm(st, obj), n->value);
  struct jexpr x = {.kind = JX_ATTR, .a = obj.origin, .k = n->value};
  return with_origin(t, jgetattr(st, plain(obj), n->value), &x);
}

struct jv jsoft_item(struct jst *st, struct jv obj, struct jv key, const struct jnode *n) {
  struct jtrace *t = st->trace;
  if (!t || !obj.origin)
    return jgetitem(st, plain(obj), jfirm(st, key));
  if (jis_list(obj) && key.type == J_INT) {
    struct jexpr x = {.kind = JX_ITEM, .a = obj.origin, .b = key.origin};
    x.k = key.origin ? jnone() : key;
    return with_origin(t, jgetitem(st, plain(obj), plain(key)), &x);
  }
  bool literal = n->b->kind == N_CONST && key.type == J_STR && !(key.flags & JF_ROPE);
  if (obj.type != J_JDICT || !literal || jis_attribute_name(key.u.s, key.len)) {
    obj = jfirm(st, obj);
    return jgetitem(st, obj, jfirm(st, key));
  }
  struct jexpr x = {.kind = JX_ATTR, .a = obj.origin, .k = key};
  return with_origin(t, jgetitem(st, plain(obj), key), &x);
}

/* Tests that look at nothing but the value's type. */
static bool of_type(const struct jfilter_def *f) {
  static const char *const names[] = {"defined", "undefined", "none",   "boolean", "false",  "true",
                                      "integer", "float",     "number", "string",  "mapping"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], f->name))
      return true;
  return false;
}

struct jv jsoft_function(struct jst *st, struct jv v, const struct jnode *n) {
  const struct jfilter_def *f = n->function;
  struct jtrace *t = st->trace;
  static const struct jargs none = {0};
  uint16_t x = v.origin;
  bool bare = !n->list.n && !n->n_kw && !n->b && !n->c;
  if (n->kind == N_TEST && bare && of_type(f)) {
    bool outcome = jtruth(st, f->call(st, plain(v), &none));
    add_guard(t, (struct jguard){.kind = JG_TEST, .outcome = outcome, .a = x, .function = f});
    return jbool(outcome);
  }
  if (n->kind == N_FILTER && bare && jis_list(v) &&
      (!strcmp(f->name, "length") || !strcmp(f->name, "count"))) {
    struct jexpr len = {.kind = JX_LEN, .a = x};
    return with_origin(t, f->call(st, plain(v), &none), &len);
  }
  return (struct jv){.type = J_MISSING};
}

/* ---- effects ---- */

void jtrace_set(struct jst *st, struct jv ns, struct jv name, struct jv value) {
  struct jtrace *t = st->trace;
  uint16_t x = ns_of(t, ns);
  struct jv kept = {.type = J_MISSING};
  if (t->given_up || !ns.origin) /* without one it is the round's own */
    return;
  if (value.type == J_STR && value.flags & JF_ROPE) {
    uint8_t markup = value.flags & JF_MARKUP;
    value = jstr(jbytes(st, value), value.len);
    value.flags = markup;
  }
  struct jeffect *e = x ? effect_of(t, x, name) : NULL;
  if (!x || (!e && t->n_effects == JEFFECTS_MAX) || !jkeep(t, value, true, &kept)) {
    t->given_up = true;
    return;
  }
  if (!e) {
    e = &t->effects[t->n_effects++];
    *e = (struct jeffect){.ns = x, .name = name};
  }
  jkept_free(&e->value);
  e->value = kept;
}
