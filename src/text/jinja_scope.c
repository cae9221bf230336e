/* jinja_scope.c: binds every name of a template to a slot, frame by frame, as jinja2.compiler
 * writes its Python: which blocks are functions of their own, where a `set` is seen from outside,
 * and what is refused before anything runs. */
#include "text/jinja_ast.h"

#include <string.h>

struct frame {
  struct jsymbols *symbols;
  bool toplevel, soft, in_loop;
};

struct binder {
  struct jst *st;
  struct jprogram *program;
};

static void bind(struct binder *b, struct jnode *node, const struct frame *f);

NORETURN static void fail(struct binder *b, const struct jnode *node, const char *cls,
                          const char *text) {
  b->st->line = node->line;
  jraise(b->st, cls, "%s", text);
}

static void bind_all(struct binder *b, const struct jnodes *list, const struct frame *f) {
  for (size_t i = 0; i < list->n; i++)
    bind(b, list->v[i], f);
}

static struct jscope_fn *new_fn(struct binder *b, struct jscope_fn *outer) {
  struct jscope_fn *fn = jalloc(b->st, sizeof *fn);
  *fn = (struct jscope_fn){.outer = outer};
  return fn;
}

struct bind_child {
  struct binder *b;
  const struct frame *f;
};

static bool bind_child(void *user, struct jnode *child) {
  struct bind_child *c = user;
  bind(c->b, child, c->f);
  return true;
}

static bool is_constant(struct jnode *n);

static bool child_is_constant(void *user, struct jnode *child) {
  (void)user;
  return is_constant(child);
}

/* Whether Jinja2 would work the expression out while it compiles. */
static bool is_constant(struct jnode *n) {
  if (n->constant)
    return n->constant == 2;
  bool yes = n->kind != N_NAME && n->kind != N_CALL && jchildren(n, child_is_constant, NULL);
  n->constant = yes ? 2 : 1;
  return yes;
}

/* Jinja2 folds constants by other means than it runs them: there a slice of something that has
 * none (`{{ 1[:2] }}`) is an Undefined, not a TypeError. That shows where the fold succeeds: when
 * the slice is printed itself, or within a larger constant. */
static bool mark_folded(void *user, struct jnode *child) {
  (void)user;
  if (child->kind == N_GETITEM && child->b->kind == N_SLICE && is_constant(child))
    child->folded = true;
  return true;
}

/* A folded constant within something that is none is written as Python source, where inf and nan
 * are names that nobody defined. */
static bool mark_written(void *user, struct jnode *child) {
  (void)user;
  child->no_inf = child->kind >= N_NAME && is_constant(child);
  return true;
}

static void bind_children(struct binder *b, struct jnode *node, const struct frame *f) {
  struct bind_child c = {b, f};
  jchildren(node, bind_child, &c);
}

NORETURN static void unknown_name(struct binder *b, const struct jnode *node,
                                  const struct jname *name) {
  b->st->line = node->line;
  jraise(b->st, "AssertionError",
         "Tried to resolve a name to a reference that was unknown to the frame ('%s')", name->s);
}

static struct jref ref_of(struct binder *b, const struct jnode *node, const struct jname *name,
                          const struct frame *f) {
  struct jref ref;
  if (!jsymbols_find(f->symbols, name, &ref, NULL))
    unknown_name(b, node, name);
  return ref;
}

/* The frame inside `f`: same function, symbols of its own. */
static struct frame inner(const struct frame *f, struct jsymbols *symbols) {
  jsymbols_init(symbols, f->symbols, f->symbols->fn);
  return (struct frame){.symbols = symbols, .in_loop = f->in_loop};
}

static bool stores_loop(void *user, struct jnode *n) {
  if (n->kind == N_NAME && n->ctx == CTX_STORE && !strcmp(n->name->s, "loop")) {
    *(struct jnode **)user = n;
    return false;
  }
  return jchildren(n, stores_loop, user);
}

static const struct jname *intern(struct binder *b, const char *name) {
  return jintern(b->st, b->program, name, strlen(name));
}

/* The filter's scope of a loop: slots that the body does not share. */
static void bind_loop_test(struct binder *b, struct jnode *n, const struct frame *f) {
  struct jsymbols symbols;
  struct frame test = inner(f, &symbols);
  symbols.level += 1u << 24;
  jsymbols_visit(b->st, &symbols, n->test_target, true);
  jsymbols_visit(b->st, &symbols, n->c, false);
  bind(b, n->test_target, &test);
  bind(b, n->c, &test);
  n->test_loads = jsymbols_loads(b->st, &symbols);
}

static void bind_for(struct binder *b, struct jnode *n, const struct frame *f) {
  struct jsymbols body_symbols, else_symbols;
  struct frame body = inner(f, &body_symbols), orelse = inner(f, &else_symbols);
  struct jnode *bad = NULL;
  n->extended = n->recursive || jundeclared(&n->body, "loop");
  if (n->recursive) {
    n->fn = new_fn(b, f->symbols->fn);
    body_symbols.fn = else_symbols.fn = n->fn;
    orelse.in_loop = false;
  }
  if (n->extended)
    n->ref.slot = jsymbols_param(b->st, &body_symbols, intern(b, "loop"));
  jsymbols_visit(b->st, &body_symbols, n->a, true);
  jsymbols_visit_all(b->st, &body_symbols, &n->body);
  if (n->orelse.n)
    jsymbols_visit_all(b->st, &else_symbols, &n->orelse);
  if (n->c)
    bind_loop_test(b, n, f);
  if (!jchildren(n, stores_loop, &bad))
    fail(b, bad, "TemplateAssertionError",
         "Can't assign to special loop variable in for-loop target");
  bind(b, n->b, f);
  body.in_loop = true;
  bind(b, n->a, &body);
  bind_all(b, &n->body, &body);
  n->loads = jsymbols_loads(b->st, &body_symbols);
  bind_all(b, &n->orelse, &orelse);
  n->else_loads = jsymbols_loads(b->st, &else_symbols);
}

/* A special parameter of a macro: taken when the body reads it and no argument has its name. */
static bool special(struct binder *b, struct jnode *n, struct jsymbols *symbols, const char *name,
                    struct jref *ref) {
  const struct jname *interned = intern(b, name);
  if (!jundeclared(&n->body, name))
    return false;
  for (size_t i = 0; i < n->args.n; i++)
    if (n->args.v[i]->name == interned)
      return false;
  ref->slot = jsymbols_param(b->st, symbols, interned);
  return true;
}

static void look_at_macro(struct binder *b, struct jnode *n, struct jsymbols *symbols) {
  jsymbols_visit_all(b->st, symbols, &n->args);
  jsymbols_visit_all(b->st, symbols, &n->defaults);
  jsymbols_visit_all(b->st, symbols, &n->body);
}

/* Macros, call blocks and generation blocks: functions with a buffer. */
static void bind_macro(struct binder *b, struct jnode *n, const struct frame *f) {
  struct jsymbols symbols;
  struct frame body = inner(f, &symbols);
  n->fn = symbols.fn = new_fn(b, f->symbols->fn);
  body.in_loop = false;
  look_at_macro(b, n, &symbols);
  for (size_t i = 0; i < n->args.n; i++) {
    if (strcmp(n->args.v[i]->name->s, "caller") != 0)
      continue;
    n->explicit_caller = true;
    if (jundeclared(&n->body, "caller") && n->args.n - i > n->defaults.n)
      fail(b, n, "TemplateAssertionError",
           "When defining macros or call blocks the special \"caller\" argument must be omitted or "
           "be given a default.");
  }
  bool reads_caller = jundeclared(&n->body, "caller");
  if (special(b, n, &symbols, "caller", &n->caller_ref) || reads_caller)
    n->uses_caller = true;
  n->catch_kwargs = special(b, n, &symbols, "kwargs", &n->kwargs_ref);
  n->catch_varargs = special(b, n, &symbols, "varargs", &n->varargs_ref);
  look_at_macro(b, n, &symbols);
  bind_all(b, &n->args, &body);
  bind_all(b, &n->defaults, &body);
  bind_all(b, &n->body, &body);
  n->loads = jsymbols_loads(b->st, &symbols);
}

static void bind_scoped(struct binder *b, struct jnode *n, const struct frame *f) {
  struct jsymbols symbols;
  struct frame body = inner(f, &symbols);
  if (n->kind == N_SCOPE)
    jsymbols_visit(b->st, &symbols, n->a, false);
  if (n->kind == N_WITH)
    jsymbols_visit_all(b->st, &symbols, &n->list);
  jsymbols_visit_all(b->st, &symbols, &n->body);
  if (n->kind == N_FILTERBLOCK)
    jsymbols_visit(b->st, &symbols, n->b, false);
  if (n->kind == N_WITH) {
    bind_all(b, &n->list, &body);
    bind_all(b, &n->defaults, f);
  }
  if (n->kind == N_SETBLOCK)
    bind(b, n->a, f);
  if (n->kind == N_SCOPE)
    bind(b, n->a, &body);
  bind_all(b, &n->body, &body);
  if (n->b)
    bind(b, n->b, &body);
  n->loads = jsymbols_loads(b->st, &symbols);
}

static void bind_if(struct binder *b, struct jnode *n, const struct frame *f) {
  struct frame soft = *f;
  soft.soft = true;
  bind(b, n->a, &soft);
  bind_all(b, &n->body, &soft);
  for (size_t i = 0; i < n->list.n; i++) {
    bind(b, n->list.v[i]->a, &soft);
    bind_all(b, &n->list.v[i]->body, &soft);
  }
  bind_all(b, &n->orelse, &soft);
}

static void bind_function(struct binder *b, struct jnode *n, const struct frame *f) {
  if (!n->function && !f->soft) {
    char text[160];
    struct buf *m = jbuf_open(b->st);
    buf_printf(m, "No %s named '%.*s'.", n->kind == N_FILTER ? "filter" : "test",
               (int)(n->value.len > 80 ? 80 : n->value.len), n->value.u.s);
    memcpy(text, m->data, m->len + 1);
    jbuf_drop(b->st, m);
    fail(b, n, "TemplateAssertionError", text);
  }
  bind_children(b, n, f);
}

static void bind_statement(struct binder *b, struct jnode *n, const struct frame *f) {
  switch (n->kind) {
  case N_IF:
    bind_if(b, n, f);
    break;
  case N_FOR:
    bind_for(b, n, f);
    break;
  case N_MACRO:
    n->ref = ref_of(b, n, n->name, f);
    bind_macro(b, n, f);
    break;
  case N_CALLBLOCK:
    bind_macro(b, n, f);
    bind(b, n->a, f);
    break;
  case N_GENERATION:
    bind_macro(b, n, f);
    break;
  case N_SETBLOCK:
  case N_FILTERBLOCK:
  case N_WITH:
  case N_SCOPE:
    bind_scoped(b, n, f);
    break;
  case N_BREAK:
  case N_CONTINUE:
    if (!f->in_loop)
      fail(b, n, "SyntaxError",
           n->kind == N_BREAK ? "'break' outside loop" : "'continue' not properly in loop");
    break;
  case N_BLOCK:
    if (n->scoped)
      fail(b, n, "TemplateSyntaxError", "scoped blocks are not supported; leave the word away");
    break;
  default:
    bind_children(b, n, f);
    break;
  }
}

static void bind(struct binder *b, struct jnode *n, const struct frame *f) {
  n->toplevel = f->toplevel;
  if (n->kind == N_OUTPUT || (n->kind >= N_NAME && is_constant(n)))
    jchildren(n, mark_folded, NULL);
  else
    jchildren(n, mark_written, NULL);
  switch (n->kind) {
  case N_NAME:
  case N_NSREF:
    n->ref = ref_of(b, n, n->name, f);
    break;
  case N_GETATTR:
    n->only_key = !jis_attribute_name(n->value.u.s, n->value.len);
    bind(b, n->a, f);
    break;
  case N_COND: {
    struct frame soft = *f;
    soft.soft = true;
    bind_children(b, n, &soft);
    break;
  }
  case N_FILTER:
  case N_TEST:
    bind_function(b, n, f);
    break;
  default:
    bind_statement(b, n, f);
    break;
  }
}

/* The root or a block: a function that sees nothing but the context. */
static void bind_root(struct binder *b, struct jnode *n, bool toplevel) {
  struct jsymbols symbols;
  n->fn = new_fn(b, NULL);
  jsymbols_init(&symbols, NULL, n->fn);
  if (jundeclared(&n->body, "self")) {
    n->uses_caller = true;
    n->ref.slot = jsymbols_param(b->st, &symbols, intern(b, "self"));
  }
  if (!toplevel && jundeclared(&n->body, "super")) {
    n->catch_kwargs = true;
    n->ref2.slot = jsymbols_param(b->st, &symbols, intern(b, "super"));
  }
  jsymbols_visit_all(b->st, &symbols, &n->body);
  struct frame f = {.symbols = &symbols, .toplevel = toplevel};
  bind_all(b, &n->body, &f);
  n->loads = jsymbols_loads(b->st, &symbols);
}

void jscope_bind(struct jst *st, struct jprogram *program) {
  struct binder b = {st, program};
  bind_root(&b, program->root, true);
  for (size_t i = 0; i < program->root->list.n; i++)
    bind_root(&b, program->root->list.v[i], false);
}
