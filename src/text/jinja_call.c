/* jinja_call.c: calling what can be called, arguments by name, and the global functions. */
#include "text/jinja_ast.h"

#include <stdio.h>
#include <string.h>

/* ---- arguments */

struct parameter {
  const char *name;
  size_t len;
  bool optional;
};

#define PARAMETERS_MAX 12

static size_t read_spec(const char *spec, struct parameter *p, bool *positional) {
  size_t n = 0;
  bool optional = false;
  *positional = false;
  while (*spec) {
    if (*spec == '/') {
      *positional = true;
      break;
    }
    if (*spec == '?') {
      optional = true;
      spec++;
    }
    size_t len = strcspn(spec, ",/");
    assert(n < PARAMETERS_MAX);
    p[n++] = (struct parameter){spec, len, optional};
    spec += len;
    if (*spec == ',')
      spec++;
  }
  return n;
}

void jbind(struct jst *st, const char *who, const char *spec, const struct jargs *args,
           struct jv *out) {
  struct parameter p[PARAMETERS_MAX];
  bool positional;
  size_t n = read_spec(spec, p, &positional);
  if (args->n > n)
    jraise(st, "TypeError", "%s() takes at most %zu argument%s (%zu given)", who, n,
           n == 1 ? "" : "s", args->n);
  for (size_t i = 0; i < n; i++)
    out[i] = i < args->n ? args->pos[i] : (struct jv){.type = J_MISSING};
  for (size_t k = 0; k < args->n_kw; k++) {
    const struct jkw *kw = &args->kw[k];
    int shown = (int)(kw->len > 60 ? 60 : kw->len);
    if (positional)
      jraise(st, "TypeError", "%s() takes no keyword arguments", who);
    size_t i = 0;
    while (i < n && !(p[i].len == kw->len && !memcmp(p[i].name, kw->name, kw->len)))
      i++;
    if (i == n)
      jraise(st, "TypeError", "%s() got an unexpected keyword argument '%.*s'", who, shown,
             kw->name);
    if (out[i].type != J_MISSING)
      jraise(st, "TypeError", "%s() got multiple values for argument '%.*s'", who, shown, kw->name);
    out[i] = kw->value;
  }
  for (size_t i = 0; i < n; i++)
    if (out[i].type == J_MISSING && !p[i].optional)
      jraise(st, "TypeError", "%s() missing required argument '%.*s' (pos %zu)", who, (int)p[i].len,
             p[i].name, i + 1);
}

int64_t jto_index(struct jst *st, struct jv v) {
  if (v.type == J_BIG)
    return v.u.big->negative ? INT64_MIN : INT64_MAX;
  if (v.type != J_INT && v.type != J_BOOL)
    jraise(st, "TypeError", "'%s' object cannot be interpreted as an integer", jtype_name(v));
  return jsmall(v);
}

struct jv jneed_str(struct jst *st, struct jv v, const char *who) {
  if (v.type != J_STR)
    jraise(st, "TypeError", "%s must be str, not %s", who, jtype_name(v));
  return v;
}

/* ---- calls */

bool jcallable(struct jv v) {
  switch (v.type) {
  case J_UNDEF: /* it has a __call__, which raises */
  case J_MACRO:
  case J_LOOP:
  case J_FUNC:
  case J_METHOD:
  case J_JOINER:
  case J_BLOCK:
    return true;
  default:
    return false;
  }
}

static struct jv call_joiner(struct jst *st, struct jv self, const struct jargs *args) {
  struct jcycler *j = self.u.cycler;
  struct jv unused[1];
  jbind(st, "Joiner.__call__", "", args, unused);
  if (j->pos++ == 0)
    return jstr("", 0);
  return j->items[0];
}

static struct jv call_loop(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv iterable;
  jbind(st, "LoopContext.__call__", "iterable", args, &iterable);
  return jloop_call(st, self.u.loop, iterable);
}

static struct jv call_macro(struct jst *st, struct jmacro *m, const struct jargs *args) {
  struct jout out, *before;
  jout_begin(st, &out, &before);
  bool autoescape = st->autoescape;
  jmacro_run(st, m, args);
  struct jv text = jout_end(st, &out, before);
  return autoescape ? jmarkup(text) : text;
}

struct jv jcall(struct jst *st, struct jv f, const struct jargs *args) {
  struct jv v;
  jenter(st);
  switch (f.type) {
  case J_UNDEF:
    jundef_fail(st, f);
  case J_MACRO:
    v = call_macro(st, f.u.macro, args);
    break;
  case J_METHOD:
    v = f.u.method->def->call(st, f.u.method->self, args);
    break;
  case J_FUNC:
    v = f.u.func->call(st, f, args);
    break;
  case J_JOINER:
    v = call_joiner(st, f, args);
    break;
  case J_LOOP:
    v = call_loop(st, f, args);
    break;
  case J_BLOCK:
    v = jblock_text(st, f.u.block->node);
    break;
  default:
    jraise(st, "TypeError", "'%s' object is not callable", jtype_name(f));
  }
  jleave(st);
  return v;
}

/* ---- globals */

static struct jv make_range(struct jst *st, int64_t start, int64_t stop, int64_t step) {
  if (step == 0)
    jraise(st, "ValueError", "range() arg 3 must not be zero");
  uint64_t span = 0, size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  if (step > 0 && stop > start)
    span = (uint64_t)stop - (uint64_t)start;
  else if (step < 0 && start > stop)
    span = (uint64_t)start - (uint64_t)stop;
  uint64_t n = span ? (span - 1) / size + 1 : 0;
  if (n > JMAX_RANGE)
    jraise(st, "OverflowError",
           "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", JMAX_RANGE);
  struct jrange *r = jalloc(st, sizeof *r);
  *r = (struct jrange){start, stop, step, (int64_t)n};
  return (struct jv){.type = J_RANGE, .u.range = r};
}

static struct jv global_range(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  struct jv a[3];
  jbind(st, "range", "start,?stop,step/", args, a);
  if (a[1].type == J_MISSING)
    return make_range(st, 0, jto_index(st, a[0]), 1);
  int64_t step = a[2].type == J_MISSING ? 1 : jto_index(st, a[2]);
  return make_range(st, jto_index(st, a[0]), jto_index(st, a[1]), step);
}

/* dict(mapping or pairs, **kwargs) */
static struct jdict *build_dict(struct jst *st, const struct jargs *args) {
  struct jdict *d = jdict_new(st);
  if (args->n > 1)
    jraise(st, "TypeError", "dict expected at most 1 argument, got %zu", args->n);
  if (args->n && jis_dict(args->pos[0])) {
    for (size_t i = 0; i < jdict_len(args->pos[0]); i++) {
      struct jv key, value;
      jdict_at(st, args->pos[0], i, &key, &value);
      jstep(st);
      jdict_set(st, d, key, value);
    }
  } else if (args->n) {
    struct jiter *it = jiter_of(st, args->pos[0]);
    struct jv pair;
    for (size_t i = 0; jnext(st, it, &pair); i++) {
      if (!jiter_try(st, pair))
        jraise(st, "TypeError",
               "cannot convert dictionary update sequence element #%zu to a sequence", i);
      struct jlist *two = jcollect(st, pair);
      if (two->n != 2)
        jraise(st, "ValueError",
               "dictionary update sequence element #%zu has length %zu; 2 is required", i, two->n);
      jdict_set(st, d, two->items[0], two->items[1]);
    }
  }
  for (size_t i = 0; i < args->n_kw; i++)
    jdict_set(st, d, jstr(args->kw[i].name, args->kw[i].len), args->kw[i].value);
  return d;
}

static struct jv global_dict(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  return jdict_value(build_dict(st, args));
}

static struct jv global_namespace(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  return (struct jv){.type = J_NS, .u.dict = build_dict(st, args)};
}

static struct jcycler *new_cycler(struct jst *st, size_t n, const struct jv *items) {
  struct jcycler *c = jalloc(st, sizeof *c);
  *c = (struct jcycler){.items = jalloc(st, n * sizeof *items), .n = n};
  memcpy(c->items, items, n * sizeof *items);
  return c;
}

static struct jv global_cycler(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  if (args->n_kw)
    jraise(st, "TypeError", "Cycler.__init__() got an unexpected keyword argument");
  if (!args->n)
    jraise(st, "RuntimeError", "at least one item has to be provided");
  return (struct jv){.type = J_CYCLER, .u.cycler = new_cycler(st, args->n, args->pos)};
}

static struct jv global_joiner(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  struct jv sep;
  jbind(st, "Joiner.__init__", "?sep", args, &sep);
  if (sep.type == J_MISSING)
    sep = jcstr(", ");
  return (struct jv){.type = J_JOINER, .u.cycler = new_cycler(st, 1, &sep)};
}

static struct jv cycler_next(struct jst *st, struct jv self, const struct jargs *args) {
  struct jcycler *c = self.u.cycler;
  struct jv unused[1];
  jbind(st, "Cycler.next", "", args, unused);
  struct jv v = c->items[c->pos];
  c->pos = (c->pos + 1) % c->n;
  return v;
}

static struct jv cycler_reset(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, "Cycler.reset", "", args, unused);
  self.u.cycler->pos = 0;
  return jnone();
}

const struct jmethod_def jcycler_methods[] = {
    {"next", cycler_next}, {"reset", cycler_reset}, {NULL, NULL}};

static struct jv global_raise(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  struct jv message;
  jbind(st, "raise_exception", "message", args, &message);
  struct jv text = jto_str(st, message);
  jraise(st, "TemplateError", "%.*s", (int)text.len, jbytes(st, text));
}

#define STRFTIME_MAX 65536

static struct jv global_strftime(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  struct jv format = jnone();
  jbind(st, "strftime_now", "format", args, &format);
  jneed_str(st, format, "strftime() argument 1");
  if (!st->has_now)
    jraise(st, "ValueError", "strftime_now was called, and no time is given; give `now`");
  struct buf *b = jbuf_open(st);
  if (format.len > STRFTIME_MAX) /* a few letters may stand for many */
    jlimit(st, "a format of %u bytes for strftime_now is too long", format.len);
  jwork_copy(st, (size_t)format.len * 64);
  pytime_format(b, &st->now, jbytes(st, format), format.len);
  return jbuf_close(st, b);
}

static struct jv global_lipsum(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self, (void)args;
  jraise(st, "ValueError", "lipsum gives random text, which no prompt can be made of");
}

static const struct jfunc GLOBALS[] = {
    {"range", global_range, false},           {"dict", global_dict, true},
    {"namespace", global_namespace, true},    {"cycler", global_cycler, true},
    {"joiner", global_joiner, true},          {"lipsum", global_lipsum, false},
    {"raise_exception", global_raise, false}, {"strftime_now", global_strftime, false}};

const struct jfunc *jglobal_find(const char *name, size_t len) {
  for (size_t i = 0; i < sizeof GLOBALS / sizeof *GLOBALS; i++)
    if (strlen(GLOBALS[i].name) == len && !memcmp(GLOBALS[i].name, name, len))
      return &GLOBALS[i];
  return NULL;
}
