/* jinja_iter.c: iterating over values, and what `loop` knows. */
#include "text/jinja_ast.h"
#include "text/jinja_trace.h"

#include "text/pychar.h"

#include <string.h>

struct jiter *jiter_new(struct jst *st, bool (*next)(struct jst *, struct jiter *, struct jv *),
                        const char *name) {
  struct jiter *it = jalloc(st, sizeof *it);
  *it = (struct jiter){.next = next, .name = name};
  return it;
}

struct jv jiter_value(struct jiter *it) {
  return (struct jv){.type = J_ITER, .u.iter = it};
}

bool jnext(struct jst *st, struct jiter *it, struct jv *out) {
  jstep(st);
  if (it->done)
    return false;
  it->done = !it->next(st, it, out);
  return !it->done;
}

static bool next_item(struct jst *st, struct jiter *it, struct jv *out) {
  if (it->pos >= jseq_len(it->src))
    return false;
  *out = jseq_at(st, it->src, it->pos++);
  return true;
}

static bool next_char(struct jst *st, struct jiter *it, struct jv *out) {
  if (it->pos >= it->src.len)
    return false;
  size_t size;
  pychar_read(jbytes(st, it->src) + it->pos, it->src.len - it->pos, &size);
  *out = jsub(st, it->src, it->pos, size);
  it->pos += size;
  return true;
}

static bool next_key(struct jst *st, struct jiter *it, struct jv *out) {
  if (it->pos >= jdict_len(it->src))
    return false;
  jdict_at(st, it->src, it->pos++, out, NULL);
  return true;
}

static bool next_of_view(struct jst *st, struct jiter *it, struct jv *out) {
  struct jv d = it->src.u.view->dict, pair[2];
  if (it->pos >= jdict_len(d))
    return false;
  jdict_at(st, d, it->pos++, &pair[0], &pair[1]);
  if (it->src.flags & JF_ITEMS)
    *out = jtuple(st, 2, pair);
  else
    *out = it->src.flags & JF_KEYS ? pair[0] : pair[1];
  return true;
}

static bool next_in_range(struct jst *st, struct jiter *it, struct jv *out) {
  (void)st;
  const struct jrange *r = it->src.u.range;
  if ((int64_t)it->pos >= r->n)
    return false;
  *out = jint(r->start + (int64_t)it->pos++ * r->step);
  return true;
}

/* What is written down of a round must not read its own loop behind the trace's back. */
static void unseen(struct jst *st, const struct jloop *l) {
  if (st->trace && jtrace_is_loop(st->trace, l))
    jtrace_give_up(st);
}

static bool next_of_loop(struct jst *st, struct jiter *it, struct jv *out) {
  struct jv pair[2] = {{.type = J_MISSING}, it->src};
  unseen(st, it->src.u.loop);
  if (!jloop_next(st, it->src.u.loop, &pair[0]))
    return false;
  *out = jtuple(st, 2, pair);
  return true;
}

static bool next_none(struct jst *st, struct jiter *it, struct jv *out) {
  (void)st, (void)it, (void)out;
  return false;
}

struct jiter *jiter_try(struct jst *st, struct jv v) {
  struct jiter *it;
  switch (v.type) {
  case J_ITER:
    return v.u.iter;
  case J_STR:
    it = jiter_new(st, next_char, "str_iterator");
    break;
  case J_LIST:
  case J_JLIST:
    it = jiter_new(st, next_item, "list_iterator");
    break;
  case J_TUPLE:
    it = jiter_new(st, next_item, "tuple_iterator");
    break;
  case J_DICT:
  case J_JDICT:
    it = jiter_new(st, next_key, "dict_keyiterator");
    break;
  case J_VIEW:
    it = jiter_new(st, next_of_view, "dict_itemiterator");
    break;
  case J_RANGE:
    it = jiter_new(st, next_in_range, "range_iterator");
    break;
  case J_LOOP:
    it = jiter_new(st, next_of_loop, "LoopContext");
    break;
  case J_UNDEF:
    it = jiter_new(st, next_none, "generator");
    break;
  default:
    return NULL;
  }
  it->src = v;
  return it;
}

struct jiter *jiter_of(struct jst *st, struct jv v) {
  struct jiter *it = jiter_try(st, v);
  if (!it)
    jraise(st, "TypeError", "'%s' object is not iterable", jtype_name(v));
  return it;
}

bool jiter_steps(const struct jiter *it) {
  return (it->next == next_item || it->next == next_in_range) && !it->done;
}

void jiter_skip(struct jiter *it, struct jloop *l, size_t n, struct jv before, struct jv item) {
  it->pos += n;
  if (!l)
    return;
  if (l->after.type != J_MISSING)
    it->pos--; /* the first is taken out already */
  l->after.type = J_MISSING;
  l->index0 += (int64_t)n;
  l->before = n > 1 ? before : l->current;
  l->current = item;
}

struct jlist *jcollect(struct jst *st, struct jv v) {
  struct jiter *it = jiter_of(st, v);
  struct jlist *l = jlist_new(st, jis_seq(v) ? jseq_len(v) : 0);
  struct jv item;
  while (jnext(st, it, &item))
    jlist_add(st, l, item);
  return l;
}

/* ---- loop */

bool jloop_next(struct jst *st, struct jloop *l, struct jv *out) {
  if (l->after.type != J_MISSING) {
    *out = l->after;
    l->after.type = J_MISSING;
  } else if (!jnext(st, l->it, out)) {
    return false;
  }
  l->index0++;
  l->before = l->current;
  l->current = *out;
  return true;
}

static int64_t length_of(struct jst *st, struct jloop *l) {
  size_t n;
  if (l->length >= 0)
    return l->length;
  if (jlen(st, l->iterable, &n)) {
    l->length = (int64_t)n;
    return l->length;
  }
  struct jv rest = jlist_value(jcollect(st, jiter_value(l->it)));
  l->it = jiter_of(st, rest);
  l->length = (int64_t)jseq_len(rest) + l->index0 + 1 + (l->after.type != J_MISSING);
  return l->length;
}

int64_t jloop_length(struct jst *st, struct jloop *l) {
  unseen(st, l);
  return length_of(st, l);
}

static struct jv peek(struct jst *st, struct jloop *l) {
  if (l->after.type == J_MISSING && !jnext(st, l->it, &l->after))
    l->after.type = J_MISSING;
  return l->after;
}

enum jloop_what jloop_what(const char *name, size_t len) {
  static const char *const names[] = {"index0",    "index",    "first",   "last",
                                      "length",    "depth0",   "depth",   "revindex",
                                      "revindex0", "previtem", "nextitem"};
  size_t which = 0, n = sizeof names / sizeof *names;
  while (which < n && !(strlen(names[which]) == len && !memcmp(names[which], name, len)))
    which++;
  return (enum jloop_what)which;
}

struct jv jloop_get(struct jst *st, struct jloop *l, enum jloop_what what) {
  struct jv v;
  switch (what) {
  case LOOP_INDEX0:
    return jint(l->index0);
  case LOOP_INDEX:
    return jint(l->index0 + 1);
  case LOOP_FIRST:
    return jbool(l->index0 == 0);
  case LOOP_LAST:
    return jbool(peek(st, l).type == J_MISSING);
  case LOOP_LENGTH:
    return jint(length_of(st, l));
  case LOOP_DEPTH0:
    return jint(l->depth0);
  case LOOP_DEPTH:
    return jint(l->depth0 + 1);
  case LOOP_REVINDEX:
    return jint(length_of(st, l) - l->index0);
  case LOOP_REVINDEX0:
    return jint(length_of(st, l) - l->index0 - 1);
  case LOOP_PREVITEM:
    if (l->index0 == 0)
      return jundef_hint(st, "there is no previous item");
    return l->before;
  case LOOP_NEXTITEM:
    v = peek(st, l);
    return v.type == J_MISSING ? jundef_hint(st, "there is no next item") : v;
  default:
    return (struct jv){.type = J_MISSING};
  }
}

struct jv jloop_attr(struct jst *st, struct jv loop, const char *name, size_t len) {
  enum jloop_what what = jloop_what(name, len);
  if (what != LOOP_NOTHING)
    unseen(st, loop.u.loop);
  return jloop_get(st, loop.u.loop, what);
}

static struct jv loop_cycle(struct jst *st, struct jv self, const struct jargs *args) {
  if (args->n_kw)
    jraise(st, "TypeError", "LoopContext.cycle() got an unexpected keyword argument");
  unseen(st, self.u.loop);
  if (args->n)
    return args->pos[(size_t)self.u.loop->index0 % args->n];
  jraise(st, "TypeError", "no items for cycling given");
}

static struct jv loop_changed(struct jst *st, struct jv self, const struct jargs *args) {
  struct jloop *l = self.u.loop;
  unseen(st, l);
  struct jv value = jtuple(st, args->n, args->pos);
  if (l->changed.type == J_TUPLE && jequal(st, l->changed, value))
    return jbool(false);
  l->changed = value;
  return jbool(true);
}

const struct jmethod_def jloop_methods[] = {
    {"cycle", loop_cycle}, {"changed", loop_changed}, {NULL, NULL}};
