/* jinja.h: values and state of one rendering; private to the template engine (text/jinja_*.c).
 *
 * A value is 16 bytes passed by copy. Everything it points to is either borrowed (the template, the
 * caller's struct value) or lives in the rendering's arena, which is given back as a whole: nothing
 * is freed singly, so an error leaves by longjmp from any depth and loses nothing. Strings are
 * UTF-8 (lone surrogates as three bytes, refused when printed); long concatenations are ropes, so a
 * message's text is not copied before it is printed. */
#ifndef TEXT_JINJA_H
#define TEXT_JINJA_H

#include <setjmp.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/bigint.h"
#include "text/template.h"
#include "text/value.h"

enum jtype {
  J_MISSING, /* no value: an unset slot, an absent argument */
  J_UNDEF,
  J_NONE,
  J_BOOL,
  J_INT,
  J_BIG, /* an int beyond 64 bits */
  J_FLOAT,
  J_STR,
  J_LIST,
  J_JLIST, /* a JSON array of the caller */
  J_TUPLE,
  J_DICT,
  J_JDICT, /* a JSON object of the caller */
  J_RANGE,
  J_VIEW, /* dict keys, values, items */
  J_ITER, /* generators and iterators */
  J_NS,
  J_MACRO,
  J_LOOP,
  J_FUNC,   /* a global function */
  J_METHOD, /* a method with its object */
  J_CYCLER,
  J_JOINER,
  J_SELF, /* `self`, the blocks of the template */
  J_BLOCK,
  J_SLICE
};

enum jflag {
  JF_MARKUP = 1, /* str is markupsafe's Markup */
  JF_ROPE = 2,   /* not one run of bytes yet */
  JF_ASCII = 4,  /* known to be ASCII only */
  JF_WIDE = 8,   /* known not to be */
  JF_NAMED = 16, /* tuple is groupby's (grouper, list) */
  JF_KEYS = 32,  /* which view */
  JF_VALUES = 64,
  JF_ITEMS = 128
};

struct jv {
  uint8_t type, flags;
  uint16_t origin; /* how it is read again (jinja_trace.h); 0 but for what jeval_soft returns */
  uint32_t len;    /* of a str, in bytes */
  union {
    bool b;
    int64_t i;
    double f;
    const char *s;
    struct jrope *rope;
    const struct bigint *big;
    const struct value *json;
    struct jlist *list;
    struct jdict *dict;
    struct jundef *undef;
    struct jrange *range;
    struct jiter *iter;
    struct jmacro *macro;
    struct jloop *loop;
    const struct jfunc *func;
    struct jmethod *method;
    struct jcycler *cycler;
    struct jblock *block;
    struct jslice *slice;
    struct jview *view;
    void *p;
  } u;
};

struct jrope {
  const char *flat; /* once joined; then n is 0 */
  uint32_t n, len;
  struct jgrow *grow; /* where `flat` lies, when more can be put behind it */
  struct jv parts[];  /* strings, in order */
};
struct jgrow {
  char *data;
  uint32_t len, cap;
};
struct jlist {
  struct jv *items;
  size_t n, cap;
};
struct jdict {
  struct jv *keys, *values;
  size_t n, cap;
  uint32_t *index; /* of 2 × cap slots, holding position + 1, once cap > 8 */
};
struct jundef {
  const char *hint;      /* the whole message, or NULL */
  const char *exception; /* class it raises */
  struct jv obj, name;   /* obj J_MISSING: a variable of that name */
};
struct jrange {
  int64_t start, stop, step, n;
};
struct jview {
  struct jv dict;
};
struct jslice {
  struct jv start, stop, step;
};
struct jmethod {
  struct jv self;
  const struct jmethod_def *def;
};
struct jcycler {
  struct jv *items;
  size_t n, pos;
};
struct jblock {
  const struct jnode *node;
};
struct jkw {
  const char *name;
  uint32_t len;
  struct jv value;
};
struct jargs {
  struct jv *pos;
  size_t n;
  struct jkw *kw;
  size_t n_kw;
};

struct jst;
typedef struct jv (*jfunction)(struct jst *st, struct jv self, const struct jargs *args);
struct jfunc {
  const char *name;
  jfunction call;
  bool is_class; /* prints as <class 'name'> */
};
struct jmethod_def {
  const char *name;
  jfunction call; /* NULL: it exists, and the sandbox refuses it */
};

struct jframe { /* the slots of one activation of a function scope */
  struct jframe *outer;
  size_t n;
  struct jv slots[];
};
struct jmacro {
  const struct jnode *node;
  struct jframe *outer;
  bool autoescape;
};

/* Where text goes: straight to the caller's buffer, or kept as pieces of a string to be. */
struct jout {
  struct buf *direct; /* NULL when kept */
  struct jsync *sync; /* of a rendering that follows on another: what to write into */
  struct jv *pieces;
  size_t n, cap;
  size_t len;
  char *tail; /* small pieces are gathered here */
  uint32_t tail_len, tail_cap;
};

/* Where the characters of a long str are, so that looking them up again and again costs little. */
struct jindex {
  const char *s;
  uint32_t len, chars, uses;
  uint32_t *at; /* offset of every JINDEX_EVERY-th character, once it is asked for often */
};
#define JINDEX_EVERY 64
#define JINDEX_SLOTS 16

struct jchunk;
struct jmemo_run;
struct jtrace;
struct jst {
  const struct template *tpl;
  const struct jprogram *program;
  jmp_buf raise;
  struct err *err;
  int code; /* what the error will return */
  uint32_t line;
  uint32_t depth, macro_depth;
  struct jv filter_input; /* what a filter block or set block collected */
  bool autoescape;
  bool has_now;
  struct pytime now;
  unsigned tojson; /* enum template_tojson */
  uint64_t steps_left;
  uint64_t pause_at; /* when so few are left, `stop` is asked; 0 without one */
  uint32_t unpaid;   /* bytes written that are no whole step yet */
  const char *(*stop)(void *user);
  void *stop_user;
  size_t memory_left;
  struct jchunk *chunks;
  char *free, *free_end; /* of the newest chunk */
  struct jout *out;
  struct jv *globals;  /* by name id: what the context and the environment have */
  struct jv *exported; /* by name id: set at top level, goes before */
  struct jframe *frame;
  struct jmemo_run *run; /* what earlier renderings left (jinja_memo.h); NULL: nothing */
  struct jtrace *trace;  /* the round of a loop that is written down (jinja_trace.h); mostly NULL */
  struct bigint_memory big_memory;
  struct buf **bufs; /* a stack of buffers in use, the rest idle */
  size_t n_bufs, bufs_in_use;
  struct jindex indexes[JINDEX_SLOTS];
};

#define JDEPTH_MAX 2000 /* nested evaluations; Python's own stack holds about as many */
#define JMACRO_MAX 200  /* macros within macros */
#define JMAX_RANGE 100000
#define JSTR_MAX ((size_t)1 << 30)

/* ---- errors (jinja_value.c) */

/* Ends the rendering with "template 'x' line n: CLASS: text". */
NORETURN void jraise(struct jst *st, const char *cls, const char *fmt, ...) PRINTF_LIKE(3, 4);
NORETURN void jlimit(struct jst *st, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Called when `steps` more may not simply be taken: ends the rendering, or lets it go on. */
void jpause(struct jst *st, uint64_t steps);
static inline void jspend(struct jst *st, uint64_t steps) {
  if (st->steps_left < st->pause_at || st->steps_left - st->pause_at < steps)
    jpause(st, steps);
  st->steps_left -= steps;
}
static inline void jstep(struct jst *st) {
  jspend(st, 1);
}
/* Work that grows with a text's length counts as steps too: what the C library does in words or
 * vectors; what is looked at character by character; and what is copied to fresh memory, in pieces
 * that each have a price as well. */
static inline void jwork(struct jst *st, size_t bytes) {
  jspend(st, bytes / 256);
}
static inline void jwork_chars(struct jst *st, size_t bytes) {
  jspend(st, bytes);
}
static inline void jwork_copy(struct jst *st, size_t bytes) {
  uint64_t all = (uint64_t)st->unpaid + bytes + 32;
  st->unpaid = (uint32_t)(all % 64);
  jspend(st, all / 64);
}
static inline void jenter(struct jst *st) {
  if (++st->depth > JDEPTH_MAX)
    jraise(st, "RecursionError", "maximum recursion depth exceeded");
}
static inline void jleave(struct jst *st) {
  st->depth--;
}

/* ---- memory and making values (jinja_value.c) */

void *jalloc(struct jst *st, size_t size); /* 8-byte aligned, not cleared */
void jarena_free(struct jchunk *chunks);
static inline struct jv jnone(void) {
  return (struct jv){.type = J_NONE};
}
static inline struct jv jbool(bool b) {
  return (struct jv){.type = J_BOOL, .u.b = b};
}
static inline struct jv jint(int64_t i) {
  return (struct jv){.type = J_INT, .u.i = i};
}
static inline struct jv jfloat(double f) {
  return (struct jv){.type = J_FLOAT, .u.f = f};
}
static inline struct jv jstr(const char *s, size_t len) { /* borrows */
  return (struct jv){.type = J_STR, .len = (uint32_t)len, .u.s = s};
}
struct jv jcstr(const char *s);
struct jv jcopy(struct jst *st, const char *s, size_t len); /* a str of its own */
struct jv jbig(const struct bigint *b);                     /* J_INT when it fits */
struct jv jfrom(const struct value *v, struct jst *st);     /* borrows */
struct jv jundef_name(struct jst *st, struct jv name);
struct jv jundef_attr(struct jst *st, struct jv obj, struct jv name);
struct jv jundef_hint(struct jst *st, const char *hint);
struct jv jundef_unsafe(struct jst *st, struct jv obj, struct jv name);
NORETURN void jundef_fail(struct jst *st, struct jv v); /* raises what the Undefined v stands for */
struct jv jmarkup(struct jv s);                         /* a str as Markup */
struct jv jplain(struct jv s);                          /* a Markup as str */

struct jlist *jlist_new(struct jst *st, size_t cap);
void jlist_add(struct jst *st, struct jlist *l, struct jv v);
struct jv jlist_value(struct jlist *l);
struct jv jtuple(struct jst *st, size_t n, const struct jv *items);
/* Sequences: J_LIST, J_JLIST, J_TUPLE. */
static inline bool jis_list(struct jv v) {
  return v.type == J_LIST || v.type == J_JLIST;
}
static inline bool jis_seq(struct jv v) {
  return jis_list(v) || v.type == J_TUPLE;
}
static inline bool jis_dict(struct jv v) {
  return v.type == J_DICT || v.type == J_JDICT;
}
static inline bool jis_int(struct jv v) { /* bool is one */
  return v.type == J_INT || v.type == J_BIG || v.type == J_BOOL;
}
static inline int64_t jsmall(struct jv v) { /* of J_INT and J_BOOL */
  return v.type == J_BOOL ? v.u.b : v.u.i;
}
size_t jseq_len(struct jv v);
struct jv jseq_at(struct jst *st, struct jv v, size_t i);

struct jdict *jdict_new(struct jst *st);
void jdict_set(struct jst *st, struct jdict *d, struct jv key, struct jv value);
struct jv jdict_value(struct jdict *d);
/* Dictionaries of both kinds; J_MISSING when there is no such key. */
struct jv jdict_get(struct jst *st, struct jv v, struct jv key);
size_t jdict_len(struct jv d);
void jdict_at(struct jst *st, struct jv d, size_t i, struct jv *key, struct jv *value);
uint64_t jhash(struct jst *st, struct jv v); /* TypeError when unhashable */

/* ---- strings (jinja_string.c) */

/* The bytes of a str (joins a rope); valid as long as the rendering. */
const char *jbytes(struct jst *st, struct jv s);
/* Code points. */
size_t jchars(struct jst *st, struct jv s);
bool jascii(struct jst *st, struct jv *s);                   /* remembers the answer in *s */
struct jv jconcat(struct jst *st, struct jv a, struct jv b); /* plain str */
struct jv jconcat_all(struct jst *st, size_t n, const struct jv *parts);
struct jv jsub(struct jst *st, struct jv s, size_t at, size_t len); /* by bytes; keeps Markup out */
size_t joffset(struct jst *st, struct jv s, size_t chars); /* byte offset of a code point */
bool jstr_eq(struct jst *st, struct jv a, struct jv b);
int jstr_cmp(struct jst *st, struct jv a, struct jv b);
/* A buffer to build a string in: the state's own, so that an error leaks nothing. Opened and closed
 * (or dropped) in nesting order; filled with jput, which keeps the bounds. */
struct buf *jbuf_open(struct jst *st);
struct jv jbuf_close(struct jst *st, struct buf *b);
void jbuf_drop(struct jst *st, struct buf *b);
void jput(struct jst *st, struct buf *b, const char *s, size_t len);
void jputc(struct jst *st, struct buf *b, char c);
void jputs(struct jst *st, struct buf *b, const char *s);
void jput_char(struct jst *st, struct buf *b, uint32_t c);             /* a code point */
void jput_repeat(struct jst *st, struct buf *b, uint32_t c, size_t n); /* n times */
void jput_times(struct jst *st, struct buf *b, const char *s, size_t len, size_t n);
void jput_str(struct jst *st, struct buf *b, struct jv s);

/* ---- output (jinja_out.c) */

void jout_put(struct jst *st, struct jv str); /* to st->out */
void jout_bytes(struct jst *st, const char *s, size_t len);
/* Collects what is written from here on; jout_end gives it as a str. */
void jout_begin(struct jst *st, struct jout *o, struct jout **before);
struct jv jout_end(struct jst *st, struct jout *o, struct jout *before);

/* ---- text of values (jinja_repr.c) */

const char *jtype_name(struct jv v);              /* 'int', 'NoneType', 'dict' … */
struct jv jto_str(struct jst *st, struct jv v);   /* str(v): a Markup becomes a plain str */
struct jv jsoft_str(struct jst *st, struct jv v); /* a str as it is */
struct jv jrepr(struct jst *st, struct jv v);
const char *jrepr_c(struct jst *st, struct jv v); /* short, for error texts */
void jrepr_float(struct buf *b, double d);
struct jv jescape(struct jst *st, struct jv v); /* markupsafe.escape */

/* ---- operators (jinja_number.c, jinja_ops.c) */

enum jop { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW };
enum jcmp { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE, CMP_IN, CMP_NOTIN };
bool jis_number(struct jv v);
struct jv jnumber_op(struct jst *st, enum jop op, struct jv a, struct jv b);
int jnumber_cmp(struct jst *st, struct jv a, struct jv b); /* -1 0 1, 2 with a NaN */
struct jv jnegate(struct jst *st, struct jv v);
struct jv jpositive(struct jst *st, struct jv v);
double jto_double(struct jst *st, struct jv v);            /* of a number */
const struct bigint *jto_big(struct jst *st, struct jv v); /* of an int */
/* int(str, base) and float(str) as Python reads them; false when it would raise. */
bool jread_int(struct jst *st, const char *s, size_t len, int base, struct jv *out);
bool jread_float(const char *s, size_t len, double *out);

struct jv jbinary(struct jst *st, enum jop op, struct jv a, struct jv b);
bool jequal(struct jst *st, struct jv a, struct jv b);
bool jis_same(struct jv a, struct jv b);
bool jcompare(struct jst *st, enum jcmp op, struct jv a, struct jv b);
bool jcontains(struct jst *st, struct jv container, struct jv item);
bool jtruth(struct jst *st, struct jv v);
/* len(v); false when v has none. */
bool jlen(struct jst *st, struct jv v, size_t *out);
size_t jlen_or_raise(struct jst *st, struct jv v);

/* ---- iterating (jinja_iter.c) */

struct jiter {
  bool (*next)(struct jst *st, struct jiter *it, struct jv *out);
  const char *name; /* as repr shows it: "generator", "list_iterator" */
  struct jv src;
  size_t pos;
  struct jiter *inner;
  struct jv a, b;
  struct jargs args;
  void *p;
  int64_t i;
  bool flag, done;
};
/* An iterator over v (v itself when it is one); NULL when v is not iterable. */
struct jiter *jiter_try(struct jst *st, struct jv v);
struct jiter *jiter_of(struct jst *st, struct jv v); /* TypeError instead */
bool jnext(struct jst *st, struct jiter *it, struct jv *out);
struct jiter *jiter_new(struct jst *st, bool (*next)(struct jst *, struct jiter *, struct jv *),
                        const char *name);
struct jv jiter_value(struct jiter *it);
struct jlist *jcollect(struct jst *st, struct jv v); /* list(v) */

struct jloop {
  struct jv iterable;
  struct jiter *it;
  int64_t index0, depth0;
  int64_t length; /* -1 until asked */
  struct jv after, current, before, changed;
  const struct jnode *node; /* of a recursive loop */
  struct jframe *outer;
};
bool jloop_next(struct jst *st, struct jloop *l, struct jv *out);
int64_t jloop_length(struct jst *st, struct jloop *l);
enum jloop_what {
  LOOP_INDEX0,
  LOOP_INDEX,
  LOOP_FIRST,
  LOOP_LAST,
  LOOP_LENGTH,
  LOOP_DEPTH0,
  LOOP_DEPTH,
  LOOP_REVINDEX,
  LOOP_REVINDEX0,
  LOOP_PREVITEM,
  LOOP_NEXTITEM,
  LOOP_NOTHING
};
enum jloop_what jloop_what(const char *name, size_t len);
struct jv jloop_get(struct jst *st, struct jloop *l, enum jloop_what what); /* not written down */
struct jv jloop_attr(struct jst *st, struct jv loop, const char *name, size_t len);
/* Whether an iterator has items that stay where they are, so that jiter_skip may pass some over. */
bool jiter_steps(const struct jiter *it);
/* Passes over n items, the last two of which are given. l: NULL when there is none. */
void jiter_skip(struct jiter *it, struct jloop *l, size_t n, struct jv before, struct jv item);

/* ---- attributes and calls (jinja_attr.c, jinja_call.c) */

struct jv jgetattr(struct jst *st, struct jv obj, struct jv name);
struct jv jgetitem(struct jst *st, struct jv obj, struct jv key);
struct jv jslice_of(struct jst *st, struct jv obj, struct jv start, struct jv stop, struct jv step);
/* The value of an existing attribute, whatever the sandbox thinks; J_MISSING when there is none.
 * Methods come as their definition in *def. */
struct jv jattribute(struct jst *st, struct jv obj, const char *name, size_t len,
                     const struct jmethod_def **def);
struct jv jcall(struct jst *st, struct jv f, const struct jargs *args);
bool jcallable(struct jv v);
struct jv jmethod_value(struct jst *st, struct jv self, const struct jmethod_def *def);
/* Puts arguments in the order of `spec`, a list of parameter names divided by commas, those after a
 * '?' optional: "old,new,?count". A trailing '/' makes them positional only. out[] gets J_MISSING
 * for what is absent. TypeErrors name `who`. */
void jbind(struct jst *st, const char *who, const char *spec, const struct jargs *args,
           struct jv *out);

extern const struct jmethod_def jstr_methods[], jlist_methods[], jtuple_methods[], jdict_methods[],
    jint_methods[], jfloat_methods[], jrange_methods[], jview_methods[], jiter_methods[],
    jcycler_methods[], jloop_methods[];

/* ---- filters, tests, globals, formatting */

struct jfilter_def {
  const char *name;
  jfunction call; /* self is the value */
};
const struct jfilter_def *jfilter_find(const char *name, size_t len);
const struct jfilter_def *jtest_find(const char *name, size_t len);
extern const struct jfilter_def jfilters_text[], jfilters_seq[], jfilters_misc[], jfilters_html[];
struct jv jcall_filter(struct jst *st, struct jv name, struct jv v, const struct jargs *args);
bool jcall_test(struct jst *st, struct jv name, struct jv v, const struct jargs *args);
const struct jfunc *jglobal_find(const char *name, size_t len);

/* "..." % args and format(value, spec), str.format with its fields (jinja_percent.c,
 * jinja_format.c). */
struct jv jpercent(struct jst *st, struct jv format, struct jv args);
void jformat_value(struct jst *st, struct buf *b, struct jv v, const char *spec, size_t len);
struct jv jformat(struct jst *st, struct jv format, const struct jargs *args, struct jv mapping);
struct jv jascii_repr(struct jst *st, struct jv v); /* ascii(v) */
/* The pieces both are made of. */
struct jspec {
  uint32_t fill;
  char align, sign, type;
  bool alternate, zero, minus_zero;
  char group;               /* ',' or '_' */
  int64_t width, precision; /* -1: not given */
};
void jformat_number(struct jst *st, struct buf *b, struct jv v, const struct jspec *spec);
/* snprintf of a finite double with a format like "%.*f"; the point is a point in every locale. */
char *jprint_double(struct jst *st, const char *format, int64_t precision, double d);
void jpad(struct jst *st, struct buf *b, const char *s, size_t len, size_t chars,
          const struct jspec *spec, char default_align);

struct jv jtojson(struct jst *st, struct jv v, const struct jargs *args);
struct jv jwordwrap(struct jst *st, struct jv v, const struct jargs *args);
struct jv jpprint(struct jst *st, struct jv v, const struct jargs *args);

/* Python's str methods other files need (jinja_strcase.c, jinja_strmeth.c). */
enum jcase { JCASE_LOWER, JCASE_UPPER, JCASE_TITLE, JCASE_CAPITALIZE, JCASE_SWAP, JCASE_FOLD };
struct jv jcase(struct jst *st, struct jv s, enum jcase how); /* plain str */
struct jv jstrip(struct jst *st, struct jv s, struct jv chars, bool left, bool right);
struct jv jreplace(struct jst *st, struct jv s, struct jv old, struct jv new, int64_t count);
struct jlist *jsplit_space(struct jst *st, struct jv s, int64_t max);
struct jlist *jsplit(struct jst *st, struct jv s, struct jv sep, int64_t max, bool right);
/* The last place of `needle` (n > 0 bytes) in p[0..len), NULL when there is none. */
const char *jfind_last(struct jst *st, const char *p, size_t len, const char *needle, size_t n);
struct jlist *jsplit_lines(struct jst *st, struct jv s, bool keep);
struct jv jjoin(struct jst *st, struct jv sep, struct jlist *parts); /* all str; plain str */
bool jis_class(struct jst *st, struct jv s, const char *which);      /* "isalpha" … */
/* An index argument: int or bool, clamped to 64 bits; TypeError names the type. */
int64_t jto_index(struct jst *st, struct jv v);
struct jv jneed_str(struct jst *st, struct jv v, const char *who);
struct jv jascii_center(struct jst *st, struct jv s, struct jv width, struct jv fill, char align);

/* Whether an object of any type has an attribute of that name: others are found as keys only. */
bool jis_attribute_name(const char *name, size_t len);

/* Runs a macro (or caller) with its output to st->out (jinja_macro.c). */
void jmacro_run(struct jst *st, struct jmacro *m, const struct jargs *args);
struct jv jblock_text(struct jst *st, const struct jnode *block);
struct jv jloop_call(struct jst *st, struct jloop *l, struct jv iterable);

/* Runs the program's root; raises (jinja_exec.c). */
void jrun(struct jst *st);

#endif
