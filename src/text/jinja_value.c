/* jinja_value.c: the arena, values, lists, dictionaries and errors of a rendering; see jinja.h. */
#include "text/jinja.h"

#include "base/mem.h"
#include "text/jinja_ast.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)
#define INDEX_FROM 8

struct jchunk {
  struct jchunk *next;
  size_t size;
  char data[] __attribute__((aligned(16)));
};

NORETURN static void leave(struct jst *st, const char *cls, const char *text) {
  err_set(st->err, st->code, "template '%s' line %u: %s%s%s", template_name(st->tpl), st->line, cls,
          *cls ? ": " : "", text);
  longjmp(st->raise, 1);
}

void jraise(struct jst *st, const char *cls, const char *fmt, ...) {
  char text[900];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  st->code = ERR_INVALID;
  leave(st, cls, text);
}

void jlimit(struct jst *st, const char *fmt, ...) {
  char text[400];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  st->code = ERR_LIMIT;
  leave(st, "", text);
}

#define PAUSE_STEPS 65536 /* half a millisecond */

void jpause(struct jst *st, uint64_t steps) {
  if (st->steps_left < steps)
    jlimit(st, "it runs too long");
  const char *reason = st->stop ? st->stop(st->stop_user) : NULL;
  if (reason)
    jlimit(st, "%s", reason);
  uint64_t left = st->steps_left - steps;
  st->pause_at = st->stop && left > PAUSE_STEPS ? left - PAUSE_STEPS : 0;
}

/* A new chunk with room for `size` bytes. */
static void add_chunk(struct jst *st, size_t size) {
  size_t room = size > CHUNK_BYTES / 4 ? size : CHUNK_BYTES;
  if (room + sizeof(struct jchunk) > st->memory_left)
    jlimit(st, "it needs more memory than a rendering may have");
  st->memory_left -= room + sizeof(struct jchunk);
  jwork_copy(st, room); /* fresh pages */
  struct jchunk *c = mem_alloc(sizeof *c + room);
  c->next = st->chunks;
  c->size = room;
  st->chunks = c;
  if (room == CHUNK_BYTES || st->free == NULL) {
    st->free = c->data;
    st->free_end = c->data + room;
  }
}

void *jalloc(struct jst *st, size_t size) {
  if (size > SIZE_MAX / 4)
    jlimit(st, "it needs more memory than a rendering may have");
  size = (size + 7) & ~(size_t)7;
  if (size <= (size_t)(st->free_end - st->free)) {
    void *p = st->free;
    st->free += size;
    return p;
  }
  add_chunk(st, size);
  if (size > CHUNK_BYTES / 4) { /* a chunk of its own; the one in use goes on */
    if (st->free == st->chunks->data)
      st->free = st->free_end;
    return st->chunks->data;
  }
  return jalloc(st, size);
}

struct jv jcstr(const char *s) {
  return jstr(s, strlen(s));
}

struct jv jcopy(struct jst *st, const char *s, size_t len) {
  if (len > JSTR_MAX)
    jlimit(st, "a string of %zu bytes is too long", len);
  char *copy = jalloc(st, len + 1);
  memcpy(copy, s, len);
  copy[len] = '\0';
  return jstr(copy, len);
}

struct jv jbig(const struct bigint *b) {
  int64_t i;
  if (bigint_to_int(b, &i))
    return jint(i);
  return (struct jv){.type = J_BIG, .u.big = b};
}

struct jv jmarkup(struct jv s) {
  s.flags |= JF_MARKUP;
  return s;
}

struct jv jplain(struct jv s) {
  s.flags &= (uint8_t)~JF_MARKUP;
  return s;
}

static struct jv from_number(const struct value *v, struct jst *st) {
  if (!v->u.digits)
    return jfloat(v->u.number);
  bool negative = v->u.digits[0] == '-';
  const char *digits = v->u.digits + negative;
  struct bigint *b = bigint_from_digits(&st->big_memory, digits, strlen(digits), 10, negative);
  if (!b)
    jraise(st, "ValueError", "Exceeds the limit (4300 digits) for integer string conversion");
  return jbig(b);
}

struct jv jfrom(const struct value *v, struct jst *st) {
  switch (v->kind) {
  case VALUE_NULL:
    return jnone();
  case VALUE_BOOL:
    return jbool(v->u.boolean);
  case VALUE_INT:
    return jint(v->u.integer);
  case VALUE_DOUBLE:
    return from_number(v, st);
  case VALUE_STRING:
    if (v->u.string.len > JSTR_MAX)
      jlimit(st, "a string of %zu bytes is too long", v->u.string.len);
    return jstr(v->u.string.data, v->u.string.len);
  case VALUE_ARRAY:
    return (struct jv){.type = J_JLIST, .u.json = v};
  case VALUE_OBJECT:
    return (struct jv){.type = J_JDICT, .u.json = v};
  }
  return jnone();
}

static struct jv undefined(struct jst *st, const char *hint, const char *exception, struct jv obj,
                           struct jv name) {
  struct jundef *u = jalloc(st, sizeof *u);
  *u = (struct jundef){hint, exception, obj, name};
  return (struct jv){.type = J_UNDEF, .u.undef = u};
}

struct jv jundef_name(struct jst *st, struct jv name) {
  return undefined(st, NULL, "UndefinedError", (struct jv){.type = J_MISSING}, name);
}

struct jv jundef_attr(struct jst *st, struct jv obj, struct jv name) {
  return undefined(st, NULL, "UndefinedError", obj, name);
}

struct jv jundef_hint(struct jst *st, const char *hint) {
  return undefined(st, hint, "UndefinedError", (struct jv){.type = J_MISSING}, jnone());
}

struct jv jundef_unsafe(struct jst *st, struct jv obj, struct jv name) {
  return undefined(st, NULL, "SecurityError", obj, name);
}

/* How jinja2.utils.object_type_repr names an object. */
static const char *object_kind(struct jv v, char *text, size_t size) {
  if (v.type == J_NONE)
    return "None";
  const char *module = "";
  if (v.type == J_NS || v.type == J_CYCLER || v.type == J_JOINER)
    module = "jinja2.utils.";
  else if (v.type == J_MACRO || v.type == J_LOOP || v.type == J_SELF || v.type == J_BLOCK)
    module = "jinja2.runtime.";
  else if (v.type == J_STR && v.flags & JF_MARKUP)
    module = "markupsafe.";
  else if (v.type == J_TUPLE && v.flags & JF_NAMED)
    module = "jinja2.filters.";
  snprintf(text, size, "%s%s object", module, jtype_name(v));
  return text;
}

void jundef_fail(struct jst *st, struct jv v) {
  const struct jundef *u = v.u.undef;
  char kind[80];
  if (u->hint)
    jraise(st, u->exception, "%s", u->hint);
  const char *name = jrepr_c(st, u->name);
  if (u->obj.type == J_MISSING)
    jraise(st, u->exception, "%s is undefined", name);
  if (!strcmp(u->exception, "SecurityError"))
    jraise(st, u->exception, "access to attribute %s of '%s' object is unsafe.", name,
           jtype_name(u->obj));
  if (u->name.type != J_STR)
    jraise(st, u->exception, "%s has no element %s", object_kind(u->obj, kind, sizeof kind), name);
  jraise(st, u->exception, "'%s' has no attribute %s", object_kind(u->obj, kind, sizeof kind),
         name);
}

/* ---- lists */

struct jlist *jlist_new(struct jst *st, size_t cap) {
  struct jlist *l = jalloc(st, sizeof *l);
  *l = (struct jlist){.cap = cap};
  l->items = cap ? jalloc(st, cap * sizeof *l->items) : NULL;
  return l;
}

void jlist_add(struct jst *st, struct jlist *l, struct jv v) {
  if (l->n == l->cap) {
    size_t cap = l->cap ? l->cap * 2 : 4;
    struct jv *items = jalloc(st, cap * sizeof *items);
    if (l->n)
      memcpy(items, l->items, l->n * sizeof *items);
    l->items = items;
    l->cap = cap;
  }
  l->items[l->n++] = v;
}

struct jv jlist_value(struct jlist *l) {
  return (struct jv){.type = J_LIST, .u.list = l};
}

struct jv jtuple(struct jst *st, size_t n, const struct jv *items) {
  struct jlist *l = jlist_new(st, n);
  if (n)
    memcpy(l->items, items, n * sizeof *items);
  l->n = n;
  return (struct jv){.type = J_TUPLE, .u.list = l};
}

size_t jseq_len(struct jv v) {
  return v.type == J_JLIST ? v.u.json->u.array.n : v.u.list->n;
}

struct jv jseq_at(struct jst *st, struct jv v, size_t i) {
  return v.type == J_JLIST ? jfrom(&v.u.json->u.array.items[i], st) : v.u.list->items[i];
}

/* ---- dictionaries */

static uint64_t mix(uint64_t h) {
  h ^= h >> 31;
  h *= UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

static uint64_t hash_bytes(const char *s, size_t len) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < len; i++)
    h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
  return mix(h);
}

static uint64_t hash_double(double d) {
  if (d == floor(d) && d >= -9223372036854775808.0 && d < 9223372036854775808.0)
    return mix((uint64_t)(int64_t)d);
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return mix(bits);
}

uint64_t jhash(struct jst *st, struct jv v) {
  uint64_t h = 7;
  switch (v.type) {
  case J_BOOL:
  case J_INT:
    return mix((uint64_t)jsmall(v));
  case J_BIG:
    return hash_double(bigint_to_double(v.u.big));
  case J_FLOAT:
    return hash_double(v.u.f);
  case J_STR:
    jspend(st, v.len / 8);
    return hash_bytes(jbytes(st, v), v.len);
  case J_NONE:
  case J_UNDEF:
    return v.type;
  case J_RANGE:
    return mix((uint64_t)v.u.range->n + 99);
  case J_TUPLE:
    jenter(st);
    for (size_t i = 0; i < v.u.list->n; i++)
      h = mix(h * 31 + jhash(st, v.u.list->items[i]));
    jleave(st);
    return h;
  case J_LIST:
  case J_JLIST:
  case J_DICT:
  case J_JDICT:
  case J_SLICE:
    jraise(st, "TypeError", "unhashable type: '%s'", jtype_name(v));
  case J_VIEW:
    if (!(v.flags & JF_VALUES))
      jraise(st, "TypeError", "unhashable type: '%s'", jtype_name(v));
    return mix((uint64_t)(uintptr_t)v.u.p);
  default:
    return mix((uint64_t)(uintptr_t)v.u.p);
  }
}

struct jdict *jdict_new(struct jst *st) {
  struct jdict *d = jalloc(st, sizeof *d);
  *d = (struct jdict){0};
  return d;
}

struct jv jdict_value(struct jdict *d) {
  return (struct jv){.type = J_DICT, .u.dict = d};
}

static bool key_equal(struct jst *st, struct jv a, struct jv b) {
  if (a.type == J_STR && b.type == J_STR)
    return jstr_eq(st, a, b);
  return jis_same(a, b) || jequal(st, a, b);
}

/* Position of key, or -1. */
static int64_t find(struct jst *st, const struct jdict *d, struct jv key, uint64_t hash) {
  if (!d->index) {
    for (size_t i = 0; i < d->n; i++)
      if (key_equal(st, d->keys[i], key))
        return (int64_t)i;
    return -1;
  }
  size_t mask = d->cap * 2 - 1;
  for (size_t slot = (size_t)hash & mask; d->index[slot]; slot = (slot + 1) & mask)
    if (key_equal(st, d->keys[d->index[slot] - 1], key))
      return d->index[slot] - 1;
  return -1;
}

static void index_add(struct jst *st, struct jdict *d, size_t at) {
  size_t mask = d->cap * 2 - 1, slot = (size_t)jhash(st, d->keys[at]) & mask;
  while (d->index[slot])
    slot = (slot + 1) & mask;
  d->index[slot] = (uint32_t)at + 1;
}

static void grow(struct jst *st, struct jdict *d) {
  size_t cap = d->cap ? d->cap * 2 : INDEX_FROM;
  if (cap >= UINT32_MAX / 4)
    jlimit(st, "a dictionary of %zu keys is too large", d->n);
  struct jv *keys = jalloc(st, cap * sizeof *keys), *values = jalloc(st, cap * sizeof *values);
  if (d->n) {
    memcpy(keys, d->keys, d->n * sizeof *keys);
    memcpy(values, d->values, d->n * sizeof *values);
  }
  d->keys = keys;
  d->values = values;
  d->cap = cap;
  if (cap <= INDEX_FROM)
    return;
  d->index = jalloc(st, cap * 2 * sizeof *d->index);
  memset(d->index, 0, cap * 2 * sizeof *d->index);
  for (size_t i = 0; i < d->n; i++)
    index_add(st, d, i);
}

void jdict_set(struct jst *st, struct jdict *d, struct jv key, struct jv value) {
  uint64_t hash = jhash(st, key);
  int64_t at = find(st, d, key, hash);
  if (at >= 0) {
    d->values[at] = value;
    return;
  }
  if (d->n == d->cap)
    grow(st, d);
  d->keys[d->n] = key;
  d->values[d->n] = value;
  d->n++;
  if (d->index)
    index_add(st, d, d->n - 1);
}

struct jv jdict_get(struct jst *st, struct jv v, struct jv key) {
  if (v.type == J_JDICT) {
    const struct value *found = NULL;
    if (key.type == J_STR)
      found = value_get_len(v.u.json, jbytes(st, key), key.len);
    else
      (void)jhash(st, key);
    return found ? jfrom(found, st) : (struct jv){.type = J_MISSING};
  }
  int64_t at = find(st, v.u.dict, key, jhash(st, key));
  if (at < 0)
    return (struct jv){.type = J_MISSING};
  return v.u.dict->values[at];
}

size_t jdict_len(struct jv d) {
  return d.type == J_JDICT ? d.u.json->u.object.n : d.u.dict->n;
}

void jdict_at(struct jst *st, struct jv d, size_t i, struct jv *key, struct jv *value) {
  if (d.type == J_JDICT) {
    const struct value_pair *p = &d.u.json->u.object.pairs[i];
    if (key)
      *key = jstr(p->key, p->key_len);
    if (value)
      *value = jfrom(&p->value, st);
    return;
  }
  if (key)
    *key = d.u.dict->keys[i];
  if (value)
    *value = d.u.dict->values[i];
}

void jarena_free(struct jchunk *chunks) {
  while (chunks) {
    struct jchunk *next = chunks->next;
    mem_free(chunks);
    chunks = next;
  }
}
