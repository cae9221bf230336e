/* jinja_symbols.c: which Python local a name of a template would be, as jinja2.idtracking decides.
 *
 * A frame looks at everything it contains before any of it runs: a name that is read first comes
 * from the context, one that is set first begins unset or as a copy of the outer one. That is why
 * `set` inside a loop is local to one iteration, and why the same name can differ before and behind
 * it. */
#include "text/jinja_ast.h"

#include <string.h>

void jsymbols_init(struct jsymbols *s, struct jsymbols *parent, struct jscope_fn *fn) {
  *s = (struct jsymbols){.parent = parent, .fn = fn, .level = parent ? parent->level + 1 : 0};
}

static struct jsymbol *own(const struct jsymbols *s, const struct jname *name) {
  for (size_t i = 0; i < s->n; i++)
    if (s->v[i].name == name)
      return &s->v[i];
  return NULL;
}

/* The slot of (level, name) in the frame's function, made when it is new. */
static uint16_t slot_of(struct jst *st, struct jsymbols *s, const struct jname *name) {
  struct jscope_fn *fn = s->fn;
  for (size_t i = 0; i < fn->n_slots; i++)
    if (fn->slots[i].name == name && fn->slots[i].level == s->level)
      return (uint16_t)i;
  jbound_names(st, fn->n_slots, "variables in one scope");
  if (fn->n_slots == fn->cap) {
    size_t cap = fn->cap ? fn->cap * 2 : 8;
    struct jslot_name *more = jalloc(st, cap * sizeof *more);
    if (fn->n_slots)
      memcpy(more, fn->slots, fn->n_slots * sizeof *more);
    fn->slots = more;
    fn->cap = cap;
  }
  fn->slots[fn->n_slots] = (struct jslot_name){name, s->level};
  return (uint16_t)fn->n_slots++;
}

static struct jsymbol *define(struct jst *st, struct jsymbols *s, const struct jname *name,
                              enum jload_how how, struct jref from) {
  struct jsymbol *sym = own(s, name);
  if (!sym) {
    if (s->n == s->cap) {
      size_t cap = s->cap ? s->cap * 2 : 8;
      struct jsymbol *more = jalloc(st, cap * sizeof *more);
      if (s->n)
        memcpy(more, s->v, s->n * sizeof *more);
      s->v = more;
      s->cap = cap;
    }
    sym = &s->v[s->n++];
    *sym = (struct jsymbol){.name = name, .slot = slot_of(st, s, name)};
  }
  sym->has_load = true;
  sym->how = how;
  sym->from = from;
  return sym;
}

/* Where `name` is, seen from function `fn`; false when no frame knows it. */
static bool find_from(const struct jsymbols *s, const struct jscope_fn *fn,
                      const struct jname *name, struct jref *out, enum jload_how *how) {
  for (; s; s = s->parent) {
    const struct jsymbol *sym = own(s, name);
    if (!sym)
      continue;
    uint16_t up = 0;
    for (; fn && fn != s->fn; fn = fn->outer)
      up++;
    *out = (struct jref){up, sym->slot};
    if (how)
      *how = sym->how;
    return true;
  }
  return false;
}

bool jsymbols_find(const struct jsymbols *s, const struct jname *name, struct jref *out,
                   enum jload_how *how) {
  return find_from(s, s->fn, name, out, how);
}

uint16_t jsymbols_param(struct jst *st, struct jsymbols *s, const struct jname *name) {
  struct jsymbol *sym = define(st, s, name, LOAD_PARAM, (struct jref){0});
  sym->stored = true;
  return sym->slot;
}

static void store(struct jst *st, struct jsymbols *s, const struct jname *name) {
  struct jsymbol *sym = own(s, name);
  if (!sym) {
    struct jref outer;
    if (find_from(s->parent, s->fn, name, &outer, NULL))
      sym = define(st, s, name, LOAD_ALIAS, outer);
    else
      sym = define(st, s, name, LOAD_UNDEFINED, (struct jref){0});
  }
  sym->stored = true;
}

static void load(struct jst *st, struct jsymbols *s, const struct jname *name) {
  struct jref unused;
  if (!jsymbols_find(s, name, &unused, NULL))
    define(st, s, name, LOAD_RESOLVE, (struct jref){0});
}

static struct jsymbols copy_of(struct jst *st, const struct jsymbols *s) {
  struct jsymbols c = *s;
  c.v = s->n ? jalloc(st, s->n * sizeof *c.v) : NULL;
  c.cap = s->n;
  if (s->n)
    memcpy(c.v, s->v, s->n * sizeof *c.v);
  return c;
}

/* What one branch of an `if` stores and s did not. */
static void note_stores(struct jst *st, const struct jsymbols *s, const struct jsymbols *branch,
                        struct jsymbols *stored) {
  for (size_t i = 0; i < branch->n; i++) {
    assert(branch->v);
    const struct jsymbol *b = &branch->v[i];
    const struct jsymbol *mine = own(s, b->name);
    if (b->stored && !(mine && mine->stored))
      define(st, stored, b->name, LOAD_UNDEFINED, (struct jref){0});
  }
}

/* What one branch knows goes into s. */
static void take(struct jst *st, struct jsymbols *s, const struct jsymbols *branch) {
  for (size_t i = 0; i < branch->n; i++) {
    assert(branch->v);
    const struct jsymbol *b = &branch->v[i];
    struct jsymbol *sym = define(st, s, b->name, b->how, b->from);
    sym->stored = sym->stored || b->stored;
  }
}

/* A name that only some branches set keeps the outer value, or the context's, in the others. */
static void visit_if(struct jst *st, struct jsymbols *s, const struct jnode *node) {
  jsymbols_visit(st, s, node->a, false);
  struct jsymbols branch[3], stored;
  const struct jnodes *bodies[3] = {&node->body, &node->list, &node->orelse};
  jsymbols_init(&stored, NULL, s->fn);
  stored.level = s->level;
  for (int i = 0; i < 3; i++) {
    branch[i] = copy_of(st, s);
    jsymbols_visit_all(st, &branch[i], bodies[i]);
  }
  for (int i = 0; i < 3; i++)
    note_stores(st, s, &branch[i], &stored);
  for (int i = 0; i < 3; i++)
    take(st, s, &branch[i]);
  for (size_t i = 0; i < stored.n; i++) {
    struct jref outer;
    if (find_from(s->parent, s->fn, stored.v[i].name, &outer, NULL))
      define(st, s, stored.v[i].name, LOAD_ALIAS, outer);
    else
      define(st, s, stored.v[i].name, LOAD_RESOLVE, (struct jref){0});
  }
}

struct visit {
  struct jst *st;
  struct jsymbols *s;
  bool as_param;
};

static bool visit_child(void *user, struct jnode *child) {
  struct visit *v = user;
  jsymbols_visit(v->st, v->s, child, v->as_param);
  return true;
}

void jsymbols_visit_all(struct jst *st, struct jsymbols *s, const struct jnodes *list) {
  for (size_t i = 0; i < list->n; i++)
    jsymbols_visit(st, s, list->v[i], false);
}

void jsymbols_visit(struct jst *st, struct jsymbols *s, const struct jnode *node, bool as_param) {
  struct visit v = {st, s, as_param};
  switch (node->kind) {
  case N_NAME:
    if (as_param || node->ctx == CTX_PARAM)
      jsymbols_param(st, s, node->name);
    else if (node->ctx == CTX_STORE)
      store(st, s, node->name);
    else
      load(st, s, node->name);
    break;
  case N_NSREF:
    load(st, s, node->name);
    break;
  case N_IF:
    visit_if(st, s, node);
    break;
  case N_MACRO:
    store(st, s, node->name);
    break;
  case N_NOLOADER:
    jsymbols_visit(st, s, node->a, false);
    jsymbols_visit_all(st, s, &node->list);
    break;
  case N_SET:
    jsymbols_visit(st, s, node->b, as_param);
    jsymbols_visit(st, s, node->a, as_param);
    break;
  case N_FOR: /* the rest belongs to frames of its own */
    jsymbols_visit(st, s, node->b, false);
    break;
  case N_CALLBLOCK:
  case N_SETBLOCK:
    jsymbols_visit(st, s, node->a, false);
    break;
  case N_FILTERBLOCK:
    jsymbols_visit(st, s, node->b, false);
    break;
  case N_WITH:
    jsymbols_visit_all(st, s, &node->defaults);
    break;
  case N_GENERATION:
  case N_SCOPE:
  case N_BLOCK:
    break;
  default:
    jchildren(node, visit_child, &v);
    break;
  }
}

struct jloads jsymbols_loads(struct jst *st, const struct jsymbols *s) {
  struct jloads l = {.v = jalloc(st, s->n * sizeof *l.v), .n = s->n, .cap = s->n};
  for (size_t i = 0; i < s->n; i++)
    l.v[i] = (struct jload){.to = {0, s->v[i].slot},
                            .from = s->v[i].from,
                            .how = s->v[i].how,
                            .name_id = s->v[i].name->id};
  return l;
}

/* ---- walking */

static bool each(const struct jnodes *list, bool (*fn)(void *, struct jnode *), void *user) {
  for (size_t i = 0; i < list->n; i++)
    if (!fn(user, list->v[i]))
      return false;
  return true;
}

static bool one(struct jnode *node, bool (*fn)(void *, struct jnode *), void *user) {
  return !node || fn(user, node);
}

static bool call_children(const struct jnode *n, bool (*fn)(void *, struct jnode *), void *user) {
  if (!one(n->a, fn, user) || !each(&n->list, fn, user))
    return false;
  for (size_t i = 0; i < n->n_kw; i++)
    if (!fn(user, n->kw[i].value))
      return false;
  return one(n->b, fn, user) && one(n->c, fn, user);
}

bool jchildren(const struct jnode *n, bool (*fn)(void *user, struct jnode *child), void *user) {
  switch (n->kind) {
  case N_IF:
    return one(n->a, fn, user) && each(&n->body, fn, user) && each(&n->list, fn, user) &&
           each(&n->orelse, fn, user);
  case N_FOR:
    return one(n->a, fn, user) && one(n->b, fn, user) && each(&n->body, fn, user) &&
           each(&n->orelse, fn, user) && one(n->c, fn, user);
  case N_FILTERBLOCK:
    return each(&n->body, fn, user) && one(n->b, fn, user);
  case N_CALL:
  case N_FILTER:
  case N_TEST:
    return call_children(n, fn, user);
  case N_WITH:
    return each(&n->list, fn, user) && each(&n->defaults, fn, user) && each(&n->body, fn, user);
  default: /* a, b, c before lists, args and defaults before bodies: right for all others */
    return one(n->a, fn, user) && one(n->b, fn, user) && one(n->c, fn, user) &&
           each(&n->list, fn, user) && each(&n->args, fn, user) && each(&n->defaults, fn, user) &&
           each(&n->body, fn, user);
  }
}

struct search {
  const char *name;
  bool declared, found;
};

static bool search_node(void *user, struct jnode *n) {
  struct search *s = user;
  if (n->kind == N_BLOCK)
    return true;
  if (n->kind == N_NAME && !strcmp(n->name->s, s->name)) {
    s->found = n->ctx == CTX_LOAD && !s->declared;
    s->declared = true;
    return !s->found;
  }
  return jchildren(n, search_node, user);
}

bool jundeclared(const struct jnodes *list, const char *name) {
  struct search s = {.name = name};
  for (size_t i = 0; i < list->n && !s.declared; i++)
    search_node(&s, list->v[i]);
  return s.found;
}
