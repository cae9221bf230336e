/* jinja_exec.c: statements of the bound tree, executed. */
#include "text/jinja_trace.h"

#include <string.h>

static const struct jv MISSING = {.type = J_MISSING};

struct jframe *jframe_new(struct jst *st, const struct jscope_fn *fn, struct jframe *outer) {
  struct jframe *f = jalloc(st, sizeof *f + fn->n_slots * sizeof f->slots[0]);
  f->outer = outer;
  f->n = fn->n_slots;
  memset(f->slots, 0, fn->n_slots * sizeof f->slots[0]); /* J_MISSING is 0 */
  return f;
}

void jenter_scope(struct jst *st, const struct jloads *loads) {
  for (size_t i = 0; i < loads->n; i++) {
    const struct jload *l = &loads->v[i];
    switch (l->how) {
    case LOAD_PARAM:
      break;
    case LOAD_RESOLVE:
      *jslot(st, l->to) = st->exported[l->name_id].type != J_MISSING ? st->exported[l->name_id]
                                                                     : st->globals[l->name_id];
      break;
    case LOAD_ALIAS:
      *jslot(st, l->to) = *jslot(st, l->from);
      break;
    case LOAD_UNDEFINED:
      *jslot(st, l->to) = MISSING;
      break;
    }
  }
}

void jleave_scope(struct jst *st, const struct jloads *loads) {
  for (size_t i = 0; i < loads->n; i++)
    *jslot(st, loads->v[i].to) = MISSING;
}

/* ---- assignment */

static void unpack(struct jst *st, const struct jnode *target, struct jv v) {
  struct jiter *it = jiter_try(st, v);
  size_t n = target->list.n;
  if (!it)
    jraise(st, "TypeError", "cannot unpack non-iterable %s object", jtype_name(v));
  struct jv *items = jalloc(st, (n + 1) * sizeof *items);
  for (size_t i = 0; i < n; i++)
    if (!jnext(st, it, &items[i]))
      jraise(st, "ValueError", "not enough values to unpack (expected %zu, got %zu)", n, i);
  if (jnext(st, it, &items[n]))
    jraise(st, "ValueError", "too many values to unpack (expected %zu)", n);
  for (size_t i = 0; i < n; i++)
    jassign(st, target->list.v[i], items[i]);
}

void jassign(struct jst *st, const struct jnode *target, struct jv v) {
  switch (target->kind) {
  case N_NAME:
    *jslot(st, target->ref) = v;
    if (target->toplevel)
      st->exported[target->name->id] = v;
    break;
  case N_NSREF:
    if (st->trace)
      jtrace_set(st, *jslot(st, target->ref), target->value, v);
    jdict_set(st, jslot(st, target->ref)->u.dict, target->value, v);
    break;
  default:
    unpack(st, target, v);
    break;
  }
}

static void need_namespaces(struct jst *st, const struct jnode *target) {
  if (target->kind == N_NSREF && jslot(st, target->ref)->type != J_NS)
    jraise(st, "TemplateRuntimeError", "cannot assign attribute on non-namespace object");
  for (size_t i = 0; target->kind == N_TUPLE && i < target->list.n; i++)
    need_namespaces(st, target->list.v[i]);
}

static void exec_set(struct jst *st, const struct jnode *n) {
  need_namespaces(st, n->a);
  struct jv v = n->a->kind == N_NAME ? jeval_soft(st, n->b) : jeval(st, n->b);
  st->line = n->line;
  jassign(st, n->a, v);
}

static struct jv filtered(struct jst *st, const struct jnode *filter, struct jv text) {
  if (!filter)
    return text;
  st->filter_input = st->autoescape ? jmarkup(text) : text;
  return jeval(st, filter);
}

static enum jflow exec_set_block(struct jst *st, const struct jnode *n) {
  struct jout out, *before;
  jenter_scope(st, &n->loads);
  jout_begin(st, &out, &before);
  enum jflow flow = jexec_all(st, &n->body);
  struct jv text = jout_end(st, &out, before);
  if (flow != FLOW_NEXT)
    return flow;
  struct jv v = filtered(st, n->b, text);
  st->line = n->line;
  if (n->a->kind == N_NSREF && jslot(st, n->a->ref)->type != J_NS)
    jraise(st, "TypeError", "'%s' object does not support item assignment",
           jtype_name(*jslot(st, n->a->ref)));
  jassign(st, n->a, st->autoescape ? jmarkup(jsoft_str(st, v)) : v);
  jleave_scope(st, &n->loads);
  return FLOW_NEXT;
}

/* ---- output */

/* Writes a value that must already be text: what a call block or filter block gives. */
static void put_text(struct jst *st, struct jv v) {
  if (v.type != J_STR)
    jraise(st, "TypeError", "sequence item 0: expected str instance, %s found", jtype_name(v));
  jout_put(st, v);
}

static void put_value(struct jst *st, struct jv v) {
  jout_put(st, st->autoescape ? jescape(st, v) : v.type == J_STR ? v : jto_str(st, v));
}

static void exec_output(struct jst *st, const struct jnode *n) {
  for (size_t i = 0; i < n->list.n; i++) {
    const struct jnode *c = n->list.v[i];
    if (c->kind == N_DATA) {
      jout_bytes(st, c->value.u.s, c->value.len);
      continue;
    }
    st->line = c->line;
    if (c->kind != N_CALL || c->a->kind != N_NAME || st->autoescape) {
      put_value(st, jeval(st, c));
      continue;
    }
    struct jv callee = jeval(st, c->a);
    if (callee.type != J_MACRO) {
      put_value(st, jeval_call(st, c, callee, MISSING));
      continue;
    }
    struct jargs args; /* a macro printed at once writes straight to where we write */
    jeval_args(st, c, MISSING, &args);
    st->line = c->line;
    jmacro_run(st, callee.u.macro, &args);
  }
}

/* ---- loops */

struct loop_test {
  const struct jnode *node;
  struct jframe *frame;
};

/* `for … if`: the items for which the test holds, asked for one by one. */
static bool next_tested(struct jst *st, struct jiter *it, struct jv *out) {
  const struct loop_test *t = it->p;
  struct jframe *frame = st->frame;
  bool found = false;
  st->frame = t->frame;
  if (!it->flag)
    jenter_scope(st, &t->node->test_loads);
  it->flag = true;
  while (!found && jnext(st, it->inner, out)) {
    jassign(st, t->node->test_target, *out);
    found = jtruth(st, jeval(st, t->node->c));
  }
  st->frame = frame;
  return found;
}

static struct jv tested(struct jst *st, const struct jnode *n, struct jv iterable,
                        struct jframe *frame) {
  if (!n->c)
    return iterable;
  struct loop_test *t = jalloc(st, sizeof *t);
  *t = (struct loop_test){n, frame};
  struct jiter *it = jiter_new(st, next_tested, "generator");
  it->inner = jiter_of(st, iterable);
  it->p = t;
  return jiter_value(it);
}

static enum jflow run_body(struct jst *st, const struct jnode *n, struct jv item, bool *ended) {
  jstep(st);
  jassign(st, n->a, item);
  jenter_scope(st, &n->loads);
  enum jflow flow = jexec_all(st, &n->body);
  *ended = *ended || flow == FLOW_NEXT;
  return flow;
}

static struct jloop *loop_new(struct jst *st, const struct jnode *n, struct jv iterable,
                              struct jiter *it, int64_t depth0, struct jframe *outer) {
  struct jloop *l = jalloc(st, sizeof *l);
  *l = (struct jloop){.iterable = iterable, .it = it, .index0 = -1, .depth0 = depth0};
  l->length = -1;
  l->node = n->recursive ? n : NULL;
  l->outer = outer;
  *jslot(st, n->ref) = MISSING;
  return l;
}

/* All rounds, but those that are known from an earlier rendering. */
static void run_rounds(struct jst *st, const struct jnode *n, struct jiter *it, struct jloop *l,
                       struct jv iterable, bool *ended) {
  struct jtrace *t = st->run ? jmemo_begin(st, n, iterable, it, l) : NULL;
  enum jflow flow = FLOW_NEXT;
  struct jv item;
  while (flow != FLOW_BREAK) {
    if (t && jmemo_skip(st, t, ended) == FLOW_BREAK)
      break;
    if (!(l ? jloop_next(st, l, &item) : jnext(st, it, &item)))
      break;
    if (l)
      *jslot(st, n->ref) = (struct jv){.type = J_LOOP, .u.loop = l};
    if (t)
      jmemo_round(st, t, item);
    flow = run_body(st, n, item, ended);
    if (t)
      jmemo_ran(st, t, flow);
  }
  if (t)
    jmemo_end(st, t);
}

/* Runs the loop over `iterable`. Its else part runs unless one round came to its end: Jinja2 notes
 * that behind the body, where continue and break do not come. */
static enum jflow run_loop(struct jst *st, const struct jnode *n, struct jv iterable,
                           int64_t depth0, struct jframe *outer) {
  iterable = tested(st, n, iterable, outer);
  struct jiter *it = jiter_of(st, iterable);
  bool ended = false;
  struct jloop *l = n->extended ? loop_new(st, n, iterable, it, depth0, outer) : NULL;
  run_rounds(st, n, it, l, iterable, &ended);
  if (!n->recursive || n->orelse.n)
    jleave_scope(st, &n->loads);
  if (ended || !n->orelse.n)
    return FLOW_NEXT;
  jenter_scope(st, &n->else_loads);
  enum jflow flow = jexec_all(st, &n->orelse);
  if (flow == FLOW_NEXT)
    jleave_scope(st, &n->else_loads);
  return flow;
}

static struct jv recurse(struct jst *st, const struct jnode *n, struct jv iterable, int64_t depth0,
                         struct jframe *outer) {
  struct jout out, *before;
  struct jframe *frame = st->frame;
  if (++st->macro_depth > JMACRO_MAX)
    jraise(st, "RecursionError", "maximum recursion depth exceeded");
  st->frame = jframe_new(st, n->fn, outer);
  jout_begin(st, &out, &before);
  (void)run_loop(st, n, iterable, depth0, outer);
  struct jv text = jout_end(st, &out, before);
  st->frame = frame;
  st->macro_depth--;
  return text;
}

struct jv jloop_call(struct jst *st, struct jloop *l, struct jv iterable) {
  if (!l->node)
    jraise(st, "TypeError", "The loop must have the 'recursive' marker to be called recursively.");
  return recurse(st, l->node, iterable, l->depth0 + 1, l->outer);
}

static enum jflow exec_for(struct jst *st, const struct jnode *n) {
  struct jv iterable = jeval(st, n->b);
  st->line = n->line;
  if (!n->recursive)
    return run_loop(st, n, iterable, 0, st->frame);
  jout_put(st, recurse(st, n, iterable, 0, st->frame));
  return FLOW_NEXT;
}

/* ---- the other blocks */

static enum jflow exec_if(struct jst *st, const struct jnode *n) {
  if (jsoft_truth(st, jeval_soft(st, n->a)))
    return jexec_all(st, &n->body);
  for (size_t i = 0; i < n->list.n; i++) {
    st->line = n->list.v[i]->line;
    if (jsoft_truth(st, jeval_soft(st, n->list.v[i]->a)))
      return jexec_all(st, &n->list.v[i]->body);
  }
  return jexec_all(st, &n->orelse);
}

static struct jv macro_value(struct jst *st, const struct jnode *n) {
  struct jmacro *m = jalloc(st, sizeof *m);
  *m = (struct jmacro){n, st->frame, st->autoescape};
  return (struct jv){.type = J_MACRO, .u.macro = m};
}

static void exec_macro(struct jst *st, const struct jnode *n) {
  struct jv m = macro_value(st, n);
  *jslot(st, n->ref) = m;
  if (n->toplevel)
    st->exported[n->name->id] = m;
}

static void exec_call_block(struct jst *st, const struct jnode *n) {
  struct jv caller = macro_value(st, n);
  struct jv callee = jeval(st, n->a->a);
  put_text(st, jeval_call(st, n->a, callee, caller));
}

static enum jflow exec_filter_block(struct jst *st, const struct jnode *n) {
  struct jout out, *before;
  jenter_scope(st, &n->loads);
  jout_begin(st, &out, &before);
  enum jflow flow = jexec_all(st, &n->body);
  struct jv text = jout_end(st, &out, before);
  if (flow != FLOW_NEXT)
    return flow;
  put_text(st, filtered(st, n->b, text));
  jleave_scope(st, &n->loads);
  return FLOW_NEXT;
}

static enum jflow exec_with(struct jst *st, const struct jnode *n) {
  jenter_scope(st, &n->loads);
  for (size_t i = 0; i < n->list.n; i++)
    jassign(st, n->list.v[i], jeval(st, n->defaults.v[i]));
  enum jflow flow = jexec_all(st, &n->body);
  if (flow == FLOW_NEXT)
    jleave_scope(st, &n->loads);
  return flow;
}

static enum jflow exec_scope(struct jst *st, const struct jnode *n) {
  bool before = st->autoescape;
  jenter_scope(st, &n->loads);
  st->autoescape = jtruth(st, jeval(st, n->a));
  enum jflow flow = jexec_all(st, &n->body);
  if (flow != FLOW_NEXT)
    return flow;
  st->autoescape = before;
  jleave_scope(st, &n->loads);
  return flow;
}

static void run_block(struct jst *st, const struct jnode *n) {
  struct jframe *frame = st->frame;
  if (++st->macro_depth > JMACRO_MAX)
    jraise(st, "RecursionError", "maximum recursion depth exceeded");
  if (n->required)
    jraise(st, "TemplateRuntimeError", "Required block '%s' not found", n->name->s);
  st->frame = jframe_new(st, n->fn, NULL);
  if (n->uses_caller)
    *jslot(st, n->ref) = (struct jv){.type = J_SELF};
  if (n->catch_kwargs) {
    struct buf *b = jbuf_open(st);
    buf_printf(b, "there is no parent block called '%s'.", n->name->s);
    *jslot(st, n->ref2) = jundef_hint(st, jbuf_close(st, b).u.s);
  }
  jenter_scope(st, &n->loads);
  (void)jexec_all(st, &n->body);
  st->frame = frame;
  st->macro_depth--;
}

struct jv jblock_text(struct jst *st, const struct jnode *block) {
  struct jout out, *before;
  jout_begin(st, &out, &before);
  run_block(st, block);
  struct jv text = jout_end(st, &out, before);
  return st->autoescape ? jmarkup(text) : text;
}

static enum jflow exec(struct jst *st, const struct jnode *n) {
  switch (n->kind) {
  case N_OUTPUT:
    exec_output(st, n);
    return FLOW_NEXT;
  case N_IF:
    return exec_if(st, n);
  case N_FOR:
    return exec_for(st, n);
  case N_SET:
    exec_set(st, n);
    return FLOW_NEXT;
  case N_SETBLOCK:
    return exec_set_block(st, n);
  case N_MACRO:
    exec_macro(st, n);
    return FLOW_NEXT;
  case N_CALLBLOCK:
    exec_call_block(st, n);
    return FLOW_NEXT;
  case N_GENERATION:
    jmacro_run(st, macro_value(st, n).u.macro, &(struct jargs){0});
    return FLOW_NEXT;
  case N_FILTERBLOCK:
    return exec_filter_block(st, n);
  case N_WITH:
    return exec_with(st, n);
  case N_SCOPE:
    return exec_scope(st, n);
  case N_BLOCK:
    run_block(st, n);
    return FLOW_NEXT;
  case N_BREAK:
    return FLOW_BREAK;
  case N_CONTINUE:
    return FLOW_CONTINUE;
  default:
    jraise(st, "TypeError", "no loader for this environment specified");
  }
}

enum jflow jexec_all(struct jst *st, const struct jnodes *body) {
  enum jflow flow = FLOW_NEXT;
  jenter(st);
  for (size_t i = 0; i < body->n && flow == FLOW_NEXT; i++) {
    jstep(st);
    st->line = body->v[i]->line;
    flow = exec(st, body->v[i]);
  }
  jleave(st);
  return flow;
}

void jrun(struct jst *st) {
  const struct jnode *root = st->program->root;
  st->frame = jframe_new(st, root->fn, NULL);
  if (root->uses_caller)
    *jslot(st, root->ref) = (struct jv){.type = J_SELF};
  jenter_scope(st, &root->loads);
  (void)jexec_all(st, &root->body);
}
