/* jinja_attr.c: obj.name, obj[key] and obj[a:b:c] under the immutable sandbox.
 *
 * An attribute goes before a key of the same name (`d.items` is the method), a key before an
 * attribute with brackets. What begins with an underscore and what would change a list or a
 * dictionary is there but unsafe: an Undefined that raises SecurityError when it is used. */
#include "text/jinja_ast.h"

#include "text/pychar.h"

#include <string.h>

static const struct jmethod_def UNSAFE = {"unsafe", NULL};
static const struct jmethod_def NO_METHODS[] = {{NULL, NULL}};

/* Names with underscores, from Python 3.11's dir(): of every object, then of single types. */
static const char OBJECT_NAMES[] =
    " __class__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__ __getattribute__ __getstate__ "
    "__gt__ __hash__ __init__ __init_subclass__ __le__ __lt__ __ne__ __new__ __reduce__ "
    "__reduce_ex__ __repr__ __setattr__ __sizeof__ __str__ __subclasshook__ ";
static const char STR_NAMES[] = " __add__ __contains__ __getitem__ __getnewargs__ __iter__ __len__ "
                                "__mod__ __mul__ __rmod__ __rmul__ ";
static const char MARKUP_NAMES[] = " __html__ __html_format__ __module__ __radd__ __slots__ ";
static const char LIST_NAMES[] =
    " __add__ __class_getitem__ __contains__ __delitem__ __getitem__ __iadd__ __imul__ __iter__ "
    "__len__ __mul__ __reversed__ __rmul__ __setitem__ ";
static const char TUPLE_NAMES[] = " __add__ __class_getitem__ __contains__ __getitem__ "
                                  "__getnewargs__ __iter__ __len__ __mul__ __rmul__ ";
static const char DICT_NAMES[] =
    " __class_getitem__ __contains__ __delitem__ __getitem__ __ior__ __iter__ __len__ __or__ "
    "__reversed__ __ror__ __setitem__ ";
static const char INT_NAMES[] =
    " __abs__ __add__ __and__ __bool__ __ceil__ __divmod__ __float__ __floor__ __floordiv__ "
    "__getnewargs__ __index__ __int__ __invert__ __lshift__ __mod__ __mul__ __neg__ __or__ __pos__ "
    "__pow__ __radd__ __rand__ __rdivmod__ __rfloordiv__ __rlshift__ __rmod__ __rmul__ __ror__ "
    "__round__ __rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __sub__ __truediv__ "
    "__trunc__ __xor__ ";
static const char FLOAT_NAMES[] =
    " __abs__ __add__ __bool__ __ceil__ __divmod__ __float__ __floor__ __floordiv__ __getformat__ "
    "__getnewargs__ __int__ __mod__ __mul__ __neg__ __pos__ __pow__ __radd__ __rdivmod__ "
    "__rfloordiv__ __rmod__ __rmul__ __round__ __rpow__ __rsub__ __rtruediv__ __sub__ __truediv__ "
    "__trunc__ ";
static const char UNDEF_NAMES[] =
    " __add__ __aiter__ __bool__ __call__ __complex__ __div__ __float__ __floordiv__ __getattr__ "
    "__getitem__ __int__ __iter__ __len__ __mod__ __module__ __mul__ __neg__ __pos__ __pow__ "
    "__radd__ __rdiv__ __rfloordiv__ __rmod__ __rmul__ __rpow__ __rsub__ __rtruediv__ __slots__ "
    "__sub__ __truediv__ _fail_with_undefined_error _undefined_exception _undefined_hint "
    "_undefined_message _undefined_name _undefined_obj ";
static const char OTHER_NAMES[] =
    " __bool__ __call__ __contains__ __dict__ __getitem__ __iter__ __len__ __module__ __name__ "
    "__next__ __qualname__ __reversed__ __self__ __weakref__ ";

static bool has_word(const char *words, const char *name, size_t len) {
  for (const char *p = words; (p = memmem(p, strlen(p), name, len)) != NULL; p++)
    if (p[-1] == ' ' && p[len] == ' ')
      return true;
  return false;
}

static bool has_underscored(struct jv obj, const char *name, size_t len) {
  if (has_word(OBJECT_NAMES, name, len))
    return true;
  switch (obj.type) {
  case J_STR:
    return has_word(STR_NAMES, name, len) ||
           (obj.flags & JF_MARKUP && has_word(MARKUP_NAMES, name, len));
  case J_LIST:
  case J_JLIST:
    return has_word(LIST_NAMES, name, len);
  case J_TUPLE:
    return has_word(TUPLE_NAMES, name, len);
  case J_DICT:
  case J_JDICT:
    return has_word(DICT_NAMES, name, len);
  case J_BOOL:
  case J_INT:
  case J_BIG:
    return has_word(INT_NAMES, name, len);
  case J_FLOAT:
    return has_word(FLOAT_NAMES, name, len);
  case J_UNDEF:
    return has_word(UNDEF_NAMES, name, len);
  case J_NONE:
    return len == 8 && !memcmp(name, "__bool__", 8);
  case J_NS:
    return false;
  default:
    return has_word(OTHER_NAMES, name, len);
  }
}

static const struct jmethod_def *methods_of(struct jv obj) {
  switch (obj.type) {
  case J_STR:
    return jstr_methods;
  case J_LIST:
  case J_JLIST:
    return jlist_methods;
  case J_TUPLE:
    return jtuple_methods;
  case J_DICT:
  case J_JDICT:
    return jdict_methods;
  case J_BOOL:
  case J_INT:
  case J_BIG:
    return jint_methods;
  case J_FLOAT:
    return jfloat_methods;
  case J_RANGE:
    return jrange_methods;
  case J_VIEW:
    return jview_methods;
  case J_ITER:
    return jiter_methods;
  case J_CYCLER:
    return jcycler_methods;
  case J_LOOP:
    return jloop_methods;
  default:
    return NO_METHODS;
  }
}

static bool is_name(const char *name, size_t len, const char *text) {
  return strlen(text) == len && !memcmp(name, text, len);
}

static const struct jmethod_def *find_method(const struct jmethod_def *m, const char *name,
                                             size_t len) {
  for (; m->name; m++)
    if (m->name[0] == name[0] && is_name(name, len, m->name))
      return m;
  return NULL;
}

bool jis_attribute_name(const char *name, size_t len) {
  static const struct jmethod_def *const tables[] = {
      jstr_methods,   jlist_methods, jtuple_methods, jdict_methods,   jint_methods, jfloat_methods,
      jrange_methods, jview_methods, jiter_methods,  jcycler_methods, jloop_methods};
  if (!len || name[0] == '_')
    return true;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    if (find_method(tables[i], name, len))
      return true;
  return false;
}

/* Properties that are no methods. */
static struct jv property(struct jst *st, struct jv obj, const char *name, size_t len) {
  const struct jv none = {.type = J_MISSING};
  bool real = is_name(name, len, "real") || is_name(name, len, "numerator");
  switch (obj.type) {
  case J_NS:
    return jdict_get(st, jdict_value(obj.u.dict), jstr(name, len));
  case J_LOOP:
    return jloop_attr(st, obj, name, len);
  case J_BOOL:
  case J_INT:
  case J_BIG:
    if (real)
      return obj.type == J_BOOL ? jint(obj.u.b) : obj;
    if (is_name(name, len, "imag"))
      return jint(0);
    return is_name(name, len, "denominator") ? jint(1) : none;
  case J_FLOAT:
    if (is_name(name, len, "real"))
      return obj;
    return is_name(name, len, "imag") ? jfloat(0) : none;
  case J_RANGE:
    if (is_name(name, len, "start"))
      return jint(obj.u.range->start);
    if (is_name(name, len, "stop"))
      return jint(obj.u.range->stop);
    return is_name(name, len, "step") ? jint(obj.u.range->step) : none;
  case J_TUPLE:
    if (obj.flags & JF_NAMED && is_name(name, len, "grouper"))
      return obj.u.list->items[0];
    return obj.flags & JF_NAMED && is_name(name, len, "list") ? obj.u.list->items[1] : none;
  case J_VIEW:
    return is_name(name, len, "mapping") ? obj.u.view->dict : none;
  case J_CYCLER:
    if (is_name(name, len, "current"))
      return obj.u.cycler->items[obj.u.cycler->pos];
    if (is_name(name, len, "items"))
      return jtuple(st, obj.u.cycler->n, obj.u.cycler->items);
    return is_name(name, len, "pos") ? jint((int64_t)obj.u.cycler->pos) : none;
  default:
    return none;
  }
}

static struct jv macro_property(struct jst *st, const struct jnode *n, const char *name,
                                size_t len) {
  if (is_name(name, len, "name"))
    return n->name ? jstr(n->name->s, n->name->len) : jnone();
  if (is_name(name, len, "catch_kwargs"))
    return jbool(n->catch_kwargs);
  if (is_name(name, len, "catch_varargs"))
    return jbool(n->catch_varargs);
  if (is_name(name, len, "caller"))
    return jbool(n->uses_caller);
  if (is_name(name, len, "explicit_caller"))
    return jbool(n->explicit_caller);
  if (!is_name(name, len, "arguments"))
    return (struct jv){.type = J_MISSING};
  struct jlist *l = jlist_new(st, n->args.n);
  for (size_t i = 0; i < n->args.n; i++)
    jlist_add(st, l, jstr(n->args.v[i]->name->s, n->args.v[i]->name->len));
  return (struct jv){.type = J_TUPLE, .u.list = l};
}

struct jv jattribute(struct jst *st, struct jv obj, const char *name, size_t len,
                     const struct jmethod_def **def) {
  struct jv v = obj.type == J_MACRO ? macro_property(st, obj.u.macro->node, name, len)
                                    : property(st, obj, name, len);
  *def = NULL;
  if (!len)
    return v;
  if (v.type == J_MISSING) {
    *def = find_method(methods_of(obj), name, len);
    if (*def && !strcmp((*def)->name, "escape") && !(obj.flags & JF_MARKUP))
      *def = NULL;
    if (*def && (!strcmp((*def)->name, "striptags") || !strcmp((*def)->name, "unescape")) &&
        !(obj.flags & JF_MARKUP))
      *def = NULL;
  }
  bool there = v.type != J_MISSING || *def;
  if (name[0] == '_' && (there || has_underscored(obj, name, len)))
    *def = &UNSAFE;
  return v;
}

struct jv jmethod_value(struct jst *st, struct jv self, const struct jmethod_def *def) {
  struct jmethod *m = jalloc(st, sizeof *m);
  *m = (struct jmethod){self, def};
  return (struct jv){.type = J_METHOD, .u.method = m};
}

/* The attribute as the sandbox gives it; J_MISSING when there is none. */
static struct jv safe_attribute(struct jst *st, struct jv obj, struct jv name) {
  const struct jmethod_def *def;
  struct jv v = jattribute(st, obj, jbytes(st, name), name.len, &def);
  if (!def)
    return v;
  return def->call ? jmethod_value(st, obj, def) : jundef_unsafe(st, obj, name);
}

static const struct jnode *find_block(struct jst *st, struct jv name) {
  const struct jnodes *blocks = &st->program->root->list;
  for (size_t i = 0; i < blocks->n; i++)
    if (is_name(jbytes(st, name), name.len, blocks->v[i]->name->s))
      return blocks->v[i];
  return NULL;
}

static struct jv block_value(struct jst *st, const struct jnode *node) {
  struct jblock *b = jalloc(st, sizeof *b);
  b->node = node;
  return (struct jv){.type = J_BLOCK, .u.block = b};
}

struct jv jgetattr(struct jst *st, struct jv obj, struct jv name) {
  if (obj.type == J_UNDEF) {
    if (!name.len || *jbytes(st, name) != '_' || !has_underscored(obj, jbytes(st, name), name.len))
      jundef_fail(st, obj);
    return jundef_unsafe(st, obj, name);
  }
  struct jv v = safe_attribute(st, obj, name);
  if (v.type == J_MISSING && jis_dict(obj))
    v = jdict_get(st, obj, name);
  if (v.type == J_MISSING && obj.type == J_SELF) {
    const struct jnode *block = find_block(st, name);
    if (block)
      v = block_value(st, block);
  }
  return v.type == J_MISSING ? jundef_attr(st, obj, name) : v;
}

static bool hashable(struct jv v) {
  if (v.type == J_TUPLE)
    for (size_t i = 0; i < v.u.list->n; i++)
      if (!hashable(v.u.list->items[i]))
        return false;
  return !jis_list(v) && !jis_dict(v) && v.type != J_SLICE &&
         !(v.type == J_VIEW && !(v.flags & JF_VALUES));
}

/* The index as a position in n items; -1 when there is none. */
static int64_t position(struct jv key, size_t n) {
  if (key.type != J_INT && key.type != J_BOOL)
    return -1;
  int64_t i = jsmall(key);
  if (i < 0)
    i += (int64_t)n;
  return i >= 0 && i < (int64_t)n ? i : -1;
}

static struct jv char_at(struct jst *st, struct jv s, struct jv key) {
  int64_t i = position(key, jchars(st, s));
  if (i < 0)
    return (struct jv){.type = J_MISSING};
  size_t at = joffset(st, s, (size_t)i), size;
  pychar_read(jbytes(st, s) + at, s.len - at, &size);
  struct jv c = jsub(st, s, at, size);
  return s.flags & JF_MARKUP ? jmarkup(c) : c;
}

/* obj[key] by the type's own rules; J_MISSING where Python raises LookupError or TypeError. */
static struct jv subscript(struct jst *st, struct jv obj, struct jv key) {
  const struct jv none = {.type = J_MISSING};
  int64_t i;
  switch (obj.type) {
  case J_UNDEF:
    jundef_fail(st, obj);
  case J_STR:
    return char_at(st, obj, key);
  case J_LIST:
  case J_JLIST:
  case J_TUPLE:
    i = position(key, jseq_len(obj));
    return i < 0 ? none : jseq_at(st, obj, (size_t)i);
  case J_DICT:
  case J_JDICT:
    return hashable(key) ? jdict_get(st, obj, key) : (struct jv){.type = J_MISSING};
  case J_RANGE:
    i = position(key, (size_t)obj.u.range->n);
    return i < 0 ? none : jint(obj.u.range->start + i * obj.u.range->step);
  case J_SELF:
    if (key.type == J_STR) {
      const struct jnode *block = find_block(st, key);
      if (block)
        return block_value(st, block);
    }
    return (struct jv){.type = J_MISSING};
  default:
    return (struct jv){.type = J_MISSING};
  }
}

struct jv jgetitem(struct jst *st, struct jv obj, struct jv key) {
  struct jv v = subscript(st, obj, key);
  if (v.type == J_MISSING && key.type == J_STR)
    v = safe_attribute(st, obj, jplain(key));
  return v.type == J_MISSING ? jundef_attr(st, obj, key) : v;
}

/* ---- slices */

static int64_t slice_index(struct jst *st, struct jv v, int64_t absent) {
  if (v.type == J_NONE)
    return absent;
  if (v.type == J_BIG)
    return v.u.big->negative ? INT64_MIN / 2 : INT64_MAX / 2;
  if (v.type != J_INT && v.type != J_BOOL)
    jraise(st, "TypeError", "slice indices must be integers or None or have an __index__ method");
  int64_t i = jsmall(v);
  return i > INT64_MAX / 2 ? INT64_MAX / 2 : i < INT64_MIN / 2 ? INT64_MIN / 2 : i;
}

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high) {
  if (i < 0)
    i += n;
  return i < low ? low : i > high ? high : i;
}

struct bounds {
  int64_t start, end, step, count;
};

static struct bounds slice_bounds(struct jst *st, struct jv start, struct jv stop, struct jv step,
                                  int64_t n) {
  struct bounds b = {.step = slice_index(st, step, 1)};
  if (b.step == 0)
    jraise(st, "ValueError", "slice step cannot be zero");
  bool down = b.step < 0;
  int64_t low = down ? -1 : 0, high = down ? n - 1 : n;
  b.start =
      start.type == J_NONE ? (down ? high : low) : clamp(slice_index(st, start, 0), n, low, high);
  int64_t end =
      stop.type == J_NONE ? (down ? low : high) : clamp(slice_index(st, stop, 0), n, low, high);
  if (down)
    b.count = end < b.start ? (b.start - end - 1) / -b.step + 1 : 0;
  else
    b.count = end > b.start ? (end - b.start - 1) / b.step + 1 : 0;
  b.end = end;
  return b;
}

static struct jv slice_str(struct jst *st, struct jv s, struct bounds b) {
  struct jv r;
  if (b.count == 0) {
    r = jstr("", 0);
  } else if (b.step == 1) {
    size_t from = joffset(st, s, (size_t)b.start);
    r = jsub(st, s, from, joffset(st, s, (size_t)(b.start + b.count)) - from);
  } else {
    jspend(st, s.len / 4);
    uint32_t *at = jalloc(st, (jchars(st, s) + 1) * sizeof *at); /* offsets of all characters */
    const char *p = jbytes(st, s);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
      if (((unsigned char)p[i] & 0xc0) != 0x80)
        at[n++] = (uint32_t)i;
    at[n] = s.len;
    struct buf *out = jbuf_open(st);
    for (int64_t i = 0, k = b.start; i < b.count; i++, k += b.step)
      jput(st, out, p + at[k], at[k + 1] - at[k]);
    r = jbuf_close(st, out);
  }
  return s.flags & JF_MARKUP ? jmarkup(r) : r;
}

struct jv jslice_of(struct jst *st, struct jv obj, struct jv start, struct jv stop,
                    struct jv step) {
  if (obj.type == J_UNDEF)
    jundef_fail(st, obj);
  if (obj.type == J_STR)
    return slice_str(st, obj, slice_bounds(st, start, stop, step, (int64_t)jchars(st, obj)));
  if (jis_dict(obj))
    jraise(st, "TypeError", "unhashable type: 'slice'");
  if (obj.type == J_RANGE) {
    struct bounds b = slice_bounds(st, start, stop, step, obj.u.range->n);
    struct jrange *r = jalloc(st, sizeof *r);
    r->start = obj.u.range->start + b.start * obj.u.range->step;
    r->step = obj.u.range->step * b.step;
    r->n = b.count;
    r->stop = obj.u.range->start + b.end * obj.u.range->step;
    return (struct jv){.type = J_RANGE, .u.range = r};
  }
  if (!jis_seq(obj))
    jraise(st, "TypeError", "'%s' object is not subscriptable", jtype_name(obj));
  struct bounds b = slice_bounds(st, start, stop, step, (int64_t)jseq_len(obj));
  jspend(st, (uint64_t)b.count);
  struct jlist *l = jlist_new(st, (size_t)b.count);
  for (int64_t i = 0, k = b.start; i < b.count; i++, k += b.step)
    jlist_add(st, l, jseq_at(st, obj, (size_t)k));
  return (struct jv){.type = obj.type == J_TUPLE ? J_TUPLE : J_LIST, .u.list = l};
}
