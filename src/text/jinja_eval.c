/* jinja_eval.c: expressions of the bound tree, evaluated. */
#include "text/jinja_trace.h"

#include <math.h>
#include <string.h>

static const struct jv MISSING = {.type = J_MISSING};

static struct jv eval_name(struct jst *st, const struct jnode *n) {
  struct jv v = *jslot(st, n->ref);
  if (v.type != J_MISSING)
    return v;
  struct jv none = jundef_name(st, jstr(n->name->s, n->name->len));
  none.origin = v.origin;
  return none;
}

static struct jv eval_items(struct jst *st, const struct jnode *n) {
  struct jlist *l = jlist_new(st, n->list.n);
  for (size_t i = 0; i < n->list.n; i++)
    jlist_add(st, l, jeval(st, n->list.v[i]));
  return (struct jv){.type = n->kind == N_TUPLE ? J_TUPLE : J_LIST, .u.list = l};
}

static struct jv eval_dict(struct jst *st, const struct jnode *n) {
  struct jdict *d = jdict_new(st);
  for (size_t i = 0; i < n->list.n; i += 2) {
    struct jv key = jeval(st, n->list.v[i]);
    jdict_set(st, d, key, jeval(st, n->list.v[i + 1]));
  }
  return jdict_value(d);
}

static struct jv eval_concat(struct jst *st, const struct jnode *n) {
  struct jv near[8], *parts = near;
  if (n->list.n > sizeof near / sizeof *near)
    parts = jalloc(st, n->list.n * sizeof *parts);
  bool markup = false;
  for (size_t i = 0; i < n->list.n; i++) {
    struct jv v = jeval(st, n->list.v[i]);
    parts[i] = st->autoescape ? jsoft_str(st, v) : jto_str(st, v);
    markup = markup || parts[i].flags & JF_MARKUP;
  }
  for (size_t i = 0; markup && i < n->list.n; i++)
    parts[i] = jescape(st, parts[i]);
  struct jv s = jconcat_all(st, n->list.n, parts);
  return markup ? jmarkup(s) : s;
}

static struct jv eval_compare(struct jst *st, const struct jnode *n) {
  struct jv left = jeval_soft(st, n->a);
  for (size_t i = 0; i < n->list.n; i++) {
    struct jv right = jeval_soft(st, n->list.v[i]);
    if (!jsoft_compare(st, (enum jcmp)n->ops[i], left, right))
      return jbool(false);
    left = right;
  }
  return jbool(true);
}

static void expand_args(struct jst *st, struct jv list, struct jargs *out) {
  struct jlist *more = jcollect(st, list);
  struct jv *pos = jalloc(st, (out->n + more->n) * sizeof *pos);
  if (out->n)
    memcpy(pos, out->pos, out->n * sizeof *pos);
  if (more->n)
    memcpy(pos + out->n, more->items, more->n * sizeof *pos);
  out->pos = pos;
  out->n += more->n;
}

static void expand_kwargs(struct jst *st, struct jv dict, struct jargs *out) {
  if (dict.type == J_UNDEF)
    jundef_fail(st, dict);
  if (!jis_dict(dict))
    jraise(st, "TypeError", "argument after ** must be a mapping, not %s", jtype_name(dict));
  size_t n = jdict_len(dict);
  struct jkw *kw = jalloc(st, (out->n_kw + n) * sizeof *kw);
  if (out->n_kw)
    memcpy(kw, out->kw, out->n_kw * sizeof *kw);
  for (size_t i = 0; i < n; i++) {
    struct jv key, value;
    jdict_at(st, dict, i, &key, &value);
    if (key.type != J_STR)
      jraise(st, "TypeError", "keywords must be strings");
    for (size_t k = 0; k < out->n_kw; k++)
      if (kw[k].len == key.len && !memcmp(kw[k].name, jbytes(st, key), key.len))
        jraise(st, "TypeError", "got multiple values for keyword argument %s", jrepr_c(st, key));
    kw[out->n_kw + i] = (struct jkw){jbytes(st, key), key.len, value};
  }
  out->kw = kw;
  out->n_kw += n;
}

void jeval_args(struct jst *st, const struct jnode *n, struct jv caller, struct jargs *out) {
  *out = (struct jargs){0};
  if (n->list.n)
    out->pos = jalloc(st, n->list.n * sizeof *out->pos);
  for (size_t i = 0; i < n->list.n; i++)
    out->pos[out->n++] = jeval(st, n->list.v[i]);
  bool has_caller = caller.type != J_MISSING;
  if (n->n_kw || has_caller)
    out->kw = jalloc(st, (n->n_kw + 1) * sizeof *out->kw);
  for (size_t i = 0; i < n->n_kw; i++)
    out->kw[out->n_kw++] =
        (struct jkw){n->kw[i].name->s, n->kw[i].name->len, jeval(st, n->kw[i].value)};
  if (has_caller)
    out->kw[out->n_kw++] = (struct jkw){"caller", 6, caller};
  if (n->b)
    expand_args(st, jeval(st, n->b), out);
  if (n->c)
    expand_kwargs(st, jeval(st, n->c), out);
}

struct jv jeval_call(struct jst *st, const struct jnode *n, struct jv callee, struct jv caller) {
  struct jargs args;
  jeval_args(st, n, caller, &args);
  st->line = n->line;
  return jcall(st, callee, &args); // cppcheck-suppress returnDanglingLifetime
}

/* A method of an object is called without making a value of it. */
static struct jv eval_method(struct jst *st, const struct jnode *n) {
  const struct jnode *a = n->a;
  struct jv obj = jeval(st, a->a);
  st->line = n->line;
  const struct jmethod_def *def = NULL;
  if (!a->only_key && obj.type != J_UNDEF && a->value.u.s[0] != '_')
    jattribute(st, obj, a->value.u.s, a->value.len, &def);
  if (!def || !def->call)
    return jeval_call(st, n, jgetattr(st, obj, a->value), MISSING);
  struct jargs args;
  jeval_args(st, n, MISSING, &args);
  st->line = n->line;
  if (obj.type == J_STR)
    jwork(st, obj.len);
  /* what args points to is in the arena */
  return def->call(st, obj, &args); // cppcheck-suppress returnDanglingLifetime
}

static struct jv eval_function(struct jst *st, const struct jnode *n) {
  struct jv v = n->a ? jeval_soft(st, n->a) : st->filter_input;
  struct jargs args;
  if (v.origin && st->trace && n->function) {
    struct jv known = jsoft_function(st, v, n);
    if (known.type != J_MISSING)
      return known;
  }
  v = jfirm(st, v);
  jeval_args(st, n, MISSING, &args);
  st->line = n->line;
  if (v.type == J_STR)
    jwork(st, v.len);
  if (!n->function)
    jraise(st, "TemplateRuntimeError", "No %s named '%.*s' found.",
           n->kind == N_FILTER ? "filter" : "test", (int)(n->value.len > 80 ? 80 : n->value.len),
           n->value.u.s);
  return n->function->call(st, v, &args); // cppcheck-suppress returnDanglingLifetime
}

static struct jv eval_item(struct jst *st, const struct jnode *n) {
  struct jv obj = jeval_soft(st, n->a);
  if (n->b->kind != N_SLICE) {
    struct jv key = jeval_soft(st, n->b);
    st->line = n->line;
    return jsoft_item(st, obj, key, n);
  }
  obj = jfirm(st, obj);
  struct jv start = n->b->a ? jeval(st, n->b->a) : jnone();
  struct jv stop = n->b->b ? jeval(st, n->b->b) : jnone();
  struct jv step = n->b->c ? jeval(st, n->b->c) : jnone();
  st->line = n->line;
  if (n->folded && !jis_seq(obj) && obj.type != J_STR && obj.type != J_UNDEF)
    return jundef_attr(st, obj, jcstr("slice"));
  return jslice_of(st, obj, start, stop, step);
}

static struct jv eval_condition(struct jst *st, const struct jnode *n) {
  if (jsoft_truth(st, jeval_soft(st, n->a)))
    return jeval_soft(st, n->b);
  if (n->c)
    return jeval_soft(st, n->c);
  struct buf *b = jbuf_open(st);
  buf_printf(b,
             "the inline if-expression on line %u evaluated to false and no else section was "
             "defined.",
             n->line);
  struct jv text = jbuf_close(st, b);
  return jundef_hint(st, text.u.s);
}

static struct jv eval_attr(struct jst *st, const struct jnode *n) {
  struct jv obj = jeval_soft(st, n->a);
  if (n->only_key && obj.type == J_JDICT && !obj.origin) {
    const struct value *found = value_get_len(obj.u.json, n->value.u.s, n->value.len);
    if (found)
      return jfrom(found, st);
  }
  st->line = n->line;
  return jsoft_attr(st, obj, n);
}

static struct jv eval_binary(struct jst *st, const struct jnode *n) {
  struct jv a = jeval_soft(st, n->a), b = jeval_soft(st, n->b);
  st->line = n->line;
  return jsoft_binary(st, (enum jop)n->op, a, b);
}

static struct jv eval_node(struct jst *st, const struct jnode *n) {
  struct jv v;
  switch (n->kind) {
  case N_TUPLE:
  case N_LIST:
    return eval_items(st, n);
  case N_DICT:
    return eval_dict(st, n);
  case N_CALL:
    if (n->a->kind == N_GETATTR)
      return eval_method(st, n);
    return jeval_call(st, n, jeval(st, n->a), MISSING);
  case N_FILTER:
  case N_TEST:
    return eval_function(st, n);
  case N_GETATTR:
    return eval_attr(st, n);
  case N_GETITEM:
    return eval_item(st, n);
  case N_COND:
    return eval_condition(st, n);
  case N_AND:
    v = jeval_soft(st, n->a);
    return jsoft_truth(st, v) ? jeval_soft(st, n->b) : v;
  case N_OR:
    v = jeval_soft(st, n->a);
    return jsoft_truth(st, v) ? v : jeval_soft(st, n->b);
  case N_NOT:
    return jbool(!jsoft_truth(st, jeval_soft(st, n->a)));
  case N_NEG:
    return jnegate(st, jeval(st, n->a));
  case N_POS:
    return jpositive(st, jeval(st, n->a));
  case N_BINARY:
    return eval_binary(st, n);
  case N_CONCAT:
    return eval_concat(st, n);
  case N_COMPARE:
    return eval_compare(st, n);
  default:
    jraise(st, "TemplateSyntaxError", "a slice stands where a value should");
  }
}

static struct jv written(struct jst *st, const struct jnode *n, struct jv v) {
  if (n->no_inf && v.type == J_FLOAT && !isfinite(v.u.f))
    jraise(st, "NameError", "name '%s' is not defined", isnan(v.u.f) ? "nan" : "inf");
  return v;
}

struct jv jeval_soft(struct jst *st, const struct jnode *n) {
  if (n->kind == N_CONST)
    return written(st, n, n->value);
  if (n->kind == N_NAME)
    return eval_name(st, n);
  jstep(st);
  jenter(st);
  struct jv v = eval_node(st, n);
  jleave(st);
  return written(st, n, v);
}

struct jv jeval(struct jst *st, const struct jnode *n) {
  return jfirm(st, jeval_soft(st, n));
}
