/* jinja_macro.c: calling macros, as jinja2.runtime.Macro takes its arguments. */
#include "text/jinja_ast.h"

#include <string.h>

/* The keyword argument `name`, marked as taken; NULL when it was not given. */
static struct jkw *take(const struct jargs *args, bool *taken, const char *name) {
  for (size_t i = 0; i < args->n_kw; i++)
    if (!taken[i] && args->kw[i].len == strlen(name) &&
        !memcmp(args->kw[i].name, name, args->kw[i].len)) {
      taken[i] = true;
      return &args->kw[i];
    }
  return NULL;
}

static const char *macro_name(const struct jnode *n) {
  return n->name ? n->name->s : "None";
}

static struct jv rest_of_kwargs(struct jst *st, const struct jargs *args, const bool *taken) {
  struct jdict *d = jdict_new(st);
  for (size_t i = 0; i < args->n_kw; i++)
    if (!taken[i])
      jdict_set(st, d, jstr(args->kw[i].name, args->kw[i].len), args->kw[i].value);
  return jdict_value(d);
}

NORETURN static void unknown_kwarg(struct jst *st, const struct jnode *n, const struct jkw *kw) {
  if (kw->len == 6 && !memcmp(kw->name, "caller", 6))
    jraise(st, "TypeError",
           "macro '%s' was invoked with two values for the special caller argument. This is most "
           "likely a bug.",
           macro_name(n));
  jraise(st, "TypeError", "macro '%s' takes no keyword argument '%.*s'", macro_name(n),
         (int)(kw->len > 80 ? 80 : kw->len), kw->name);
}

/* Arguments into the slots of st->frame, which is the macro's; missing ones are left so. */
static void bind_args(struct jst *st, const struct jnode *n, const struct jargs *args) {
  bool near[16] = {false}, *taken = near;
  if (args->n_kw > sizeof near) {
    taken = jalloc(st, args->n_kw);
    memset(taken, 0, args->n_kw);
  }
  bool found_caller = args->n >= n->args.n && n->explicit_caller;
  for (size_t i = 0; i < n->args.n; i++) {
    struct jv *slot = jslot(st, n->args.v[i]->ref);
    const struct jname *name = n->args.v[i]->name;
    if (i < args->n) {
      *slot = args->pos[i];
      continue;
    }
    const struct jkw *kw = take(args, taken, name->s);
    if (kw)
      *slot = kw->value;
    found_caller = found_caller || !strcmp(name->s, "caller");
  }
  if (n->uses_caller && !found_caller) {
    const struct jkw *kw = take(args, taken, "caller");
    *jslot(st, n->caller_ref) =
        kw && kw->value.type != J_NONE ? kw->value : jundef_hint(st, "No caller defined");
  }
  if (n->catch_kwargs)
    *jslot(st, n->kwargs_ref) = rest_of_kwargs(st, args, taken);
  for (size_t i = 0; !n->catch_kwargs && i < args->n_kw; i++)
    if (!taken[i])
      unknown_kwarg(st, n, &args->kw[i]);
  size_t extra = args->n > n->args.n ? args->n - n->args.n : 0;
  if (n->catch_varargs)
    *jslot(st, n->varargs_ref) = jtuple(st, extra, extra ? args->pos + n->args.n : NULL);
  else if (extra)
    jraise(st, "TypeError", "macro '%s' takes not more than %zu argument(s)", macro_name(n),
           n->args.n);
}

static void fill_defaults(struct jst *st, const struct jnode *n) {
  size_t first = n->args.n - n->defaults.n;
  for (size_t i = 0; i < n->args.n; i++) {
    struct jv *slot = jslot(st, n->args.v[i]->ref);
    if (slot->type != J_MISSING)
      continue;
    if (i >= first) {
      *slot = jeval(st, n->defaults.v[i - first]);
      continue;
    }
    struct buf *b = jbuf_open(st);
    buf_printf(b, "parameter '%s' was not provided", n->args.v[i]->name->s);
    *slot = jundef_hint(st, jbuf_close(st, b).u.s);
  }
}

void jmacro_run(struct jst *st, struct jmacro *m, const struct jargs *args) {
  const struct jnode *n = m->node;
  struct jframe *frame = st->frame;
  uint32_t line = st->line;
  if (++st->macro_depth > JMACRO_MAX)
    jraise(st, "RecursionError", "maximum recursion depth exceeded");
  st->frame = jframe_new(st, n->fn, m->outer);
  bind_args(st, n, args);
  jenter_scope(st, &n->loads);
  fill_defaults(st, n);
  (void)jexec_all(st, &n->body);
  st->frame = frame;
  st->line = line;
  st->macro_depth--;
}
