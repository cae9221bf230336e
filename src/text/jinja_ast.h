/* jinja_ast.h: the tree a template is compiled to; private to the template engine.
 *
 * jinja_lex.c makes tokens, jinja_parse.c and jinja_expr.c the tree, jinja_scope.c binds every name
 * to a slot exactly as Jinja2's compiler would have put it into a Python local. After that the tree
 * is constant. It lives in the program's own arena. */
#ifndef TEXT_JINJA_AST_H
#define TEXT_JINJA_AST_H

#include "text/jinja.h"

enum jkind {
  /* statements */
  N_OUTPUT,      /* list: expressions and N_DATA */
  N_DATA,        /* value */
  N_IF,          /* a test, body, list: elif nodes (N_IF), orelse */
  N_FOR,         /* a target, b iter, c test, body, orelse, recursive */
  N_SET,         /* a target, b value */
  N_SETBLOCK,    /* a target, b filter, body */
  N_MACRO,       /* name, args, defaults, body */
  N_CALLBLOCK,   /* a call (N_CALL), args, defaults, body */
  N_GENERATION,  /* body, as a call block whose call prints the caller */
  N_FILTERBLOCK, /* b filter, body */
  N_WITH,        /* list: targets, defaults: values, body */
  N_SCOPE,       /* body: autoescape; a option */
  N_BLOCK,       /* name, body, scoped, required */
  N_BREAK,
  N_CONTINUE,
  N_NOLOADER, /* include, import, extends: a template expression; targets in list */
  /* expressions */
  N_NAME,
  N_NSREF, /* name, attr in value */
  N_CONST,
  N_TUPLE,
  N_LIST,
  N_DICT,    /* list: keys and values in turn */
  N_CALL,    /* a callee, list args, kw, b *args, c **kwargs */
  N_FILTER,  /* a (may be NULL), the same; value: name */
  N_TEST,    /* the same */
  N_GETATTR, /* a, value: name */
  N_GETITEM, /* a, b */
  N_SLICE,   /* a start, b stop, c step; all may be NULL */
  N_COND,    /* a test, b then, c else (may be NULL) */
  N_AND,
  N_OR,
  N_NOT,
  N_NEG,
  N_POS,
  N_BINARY, /* op */
  N_CONCAT, /* list */
  N_COMPARE /* a, list operands, ops */
};

enum jctx { CTX_LOAD, CTX_STORE, CTX_PARAM };

#define JNAME_CHAINS 1024
struct jname { /* an interned name */
  const char *s;
  uint32_t len, id;
  const struct jname *next;
};

struct jnodes {
  struct jnode **v;
  size_t n, cap;
};

struct jref { /* a slot: of the `up`th function scope outwards */
  uint16_t up;
  uint16_t slot;
};

enum jload_how { LOAD_PARAM, LOAD_RESOLVE, LOAD_ALIAS, LOAD_UNDEFINED };
struct jload {
  struct jref to, from;
  enum jload_how how;
  uint32_t name_id;
};
struct jloads { /* what happens when a scope is entered; leaving it unsets every `to` */
  struct jload *v;
  size_t n, cap;
};

/* A function scope of the Python code Jinja2 would write: the root, a block, a macro, a recursive
 * loop. */
struct jscope_fn {
  struct jscope_fn *outer;
  size_t n_slots;
  struct jslot_name {
    const struct jname *name;
    uint32_t level;
  } * slots;
  size_t cap;
};

struct jnode {
  uint8_t kind, op, ctx;
  bool recursive, scoped, required, extended;
  bool catch_kwargs, catch_varargs, uses_caller, explicit_caller;
  bool toplevel;    /* assignments here are seen by macros and blocks through the context */
  bool folded;      /* N_GETITEM with a slice: see jinja_scope.c, bind_constant */
  bool no_inf;      /* a folded constant that Jinja2 writes into its Python by repr */
  bool only_key;    /* N_GETATTR: no object has a method of that name */
  uint8_t constant; /* jinja_scope.c's memory of is_constant: 0 not asked, 1 no, 2 yes */
  uint16_t height;  /* of an expression's tree */
  uint32_t line;
  const struct jname *name;
  struct jnode *a, *b, *c;
  struct jnode *test_target; /* N_FOR with a test: the target once more, in the test's scope */
  struct jnodes list, body, orelse, args, defaults;
  struct jkeyword {
    const struct jname *name;
    struct jnode *value;
  } * kw;
  size_t n_kw;
  uint8_t *ops; /* N_COMPARE */
  struct jv value;
  struct jref ref, ref2, caller_ref, kwargs_ref, varargs_ref;
  struct jloads loads, test_loads, else_loads;
  struct jscope_fn *fn; /* N_MACRO, N_CALLBLOCK, N_GENERATION, N_BLOCK, recursive for */
  const struct jfilter_def *function; /* N_FILTER, N_TEST; NULL when there is none of that name */
};

struct jprogram {
  struct jnode *root; /* body, loads, fn, list: all blocks */
  struct jname *names[JNAME_CHAINS];
  uint32_t n_names;
  const struct jname **by_id;
  struct jref self_ref;
  bool uses_self;
};

/* ---- running (jinja_exec.c, jinja_eval.c) */

enum jflow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };
enum jflow jexec_all(struct jst *st, const struct jnodes *body);
struct jv jeval(struct jst *st, const struct jnode *n);
/* The same; the value may have an origin (jinja_trace.h), which the caller must heed. */
struct jv jeval_soft(struct jst *st, const struct jnode *n);
/* A call's value when its callee is known; `caller` (or J_MISSING) becomes a keyword argument. */
struct jv jeval_call(struct jst *st, const struct jnode *n, struct jv callee, struct jv caller);
void jeval_args(struct jst *st, const struct jnode *n, struct jv caller, struct jargs *out);
void jassign(struct jst *st, const struct jnode *target, struct jv v);
void jenter_scope(struct jst *st, const struct jloads *loads);
void jleave_scope(struct jst *st, const struct jloads *loads);
struct jframe *jframe_new(struct jst *st, const struct jscope_fn *fn, struct jframe *outer);
static inline struct jv *jslot(struct jst *st, struct jref ref) {
  struct jframe *f = st->frame;
  for (uint16_t up = ref.up; up; up--) {
    f = f->outer;
    assert(f); /* jinja_scope.c counted them */
  }
  return &f->slots[ref.slot];
}

/* ---- tokens */

enum jtoken_type {
  T_EOF,
  T_DATA,
  T_VAR_BEGIN,
  T_VAR_END,
  T_BLOCK_BEGIN,
  T_BLOCK_END,
  T_NAME,
  T_STRING,
  T_INT,
  T_FLOAT,
  T_ADD,
  T_SUB,
  T_DIV,
  T_FLOORDIV,
  T_MUL,
  T_MOD,
  T_POW,
  T_TILDE,
  T_LBRACKET,
  T_RBRACKET,
  T_LPAREN,
  T_RPAREN,
  T_LBRACE,
  T_RBRACE,
  T_EQ,
  T_NE,
  T_GT,
  T_GE,
  T_LT,
  T_LE,
  T_ASSIGN,
  T_DOT,
  T_COLON,
  T_PIPE,
  T_COMMA,
  T_SEMICOLON
};
struct jtoken {
  enum jtoken_type type;
  uint32_t line;
  struct jv value; /* data, name, string: a str; numbers */
};
/* All tokens of a source, ended by T_EOF; raises TemplateSyntaxError. The source is normalised
 * into st's arena first. */
struct jtoken *jlex(struct jst *st, const char *source, size_t len, size_t *n);
/* How Jinja2 calls a token in errors. */
const char *jtoken_describe(struct jst *st, const struct jtoken *t);
const char *jtoken_type_describe(enum jtoken_type t);

/* ---- parser */

struct jparser {
  struct jst *st;
  struct jprogram *program;
  const struct jtoken *tokens;
  size_t at;
  uint32_t depth;
  const char *tags[128]; /* open tags, innermost last */
  size_t n_tags;
  const char *const *ends[128]; /* the end tags looked for, NULL-ended lists */
  size_t n_ends;
};

struct jprogram *jparse(struct jst *st, const char *source, size_t len);
NORETURN void jparse_fail(struct jparser *p, uint32_t line, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* What Python's own compiler refuses: SyntaxError "what: name". */
NORETURN void jparse_refuse(struct jparser *p, uint32_t line, const char *what, const char *name);
const struct jname *jintern(struct jst *st, struct jprogram *program, const char *s, size_t len);
struct jnode *jnode_new(struct jparser *p, enum jkind kind, uint32_t line);
void jnodes_add(struct jst *st, struct jnodes *list, struct jnode *node);

/* A list whose every new name is looked for among all before it; templates in use have some dozen.
 */
#define JMAX_NAMES 4096
static inline void jbound_names(struct jst *st, size_t n, const char *what) {
  if (n >= JMAX_NAMES)
    jlimit(st, "more than %d %s", JMAX_NAMES, what);
}

static inline const struct jtoken *jp_token(const struct jparser *p) {
  return &p->tokens[p->at];
}
const struct jtoken *jp_next(struct jparser *p); /* the current one, then one further */
bool jp_is(const struct jparser *p, enum jtoken_type type);
bool jp_is_name(const struct jparser *p, const char *name);
bool jp_skip(struct jparser *p, enum jtoken_type type);
bool jp_skip_name(struct jparser *p, const char *name);
const struct jtoken *jp_expect(struct jparser *p, enum jtoken_type type);
void jp_expect_name(struct jparser *p, const char *name);
void jp_deeper(struct jparser *p);

/* What a tuple may be ended by beside a closing token. */
struct jtuple_rules {
  bool simplified, no_cond, parentheses, namespaces;
  const char *end_name; /* a name that ends it, or NULL */
};
struct jnode *jparse_tuple(struct jparser *p, const struct jtuple_rules *rules);
struct jnode *jparse_expression(struct jparser *p);
struct jnode *jparse_primary(struct jparser *p, bool namespaces);
/* A chain of filters on `node` (NULL within filter blocks and set blocks); the first without its
 * bar when start_inline. */
struct jnode *jparse_filters(struct jparser *p, struct jnode *node, bool start_inline);

/* ---- binding names */

void jscope_bind(struct jst *st, struct jprogram *program);
/* Symbols of one frame (jinja_symbols.c), as jinja2.idtracking has them. */
struct jsymbols {
  struct jsymbols *parent;
  struct jscope_fn *fn;
  uint32_t level;
  struct jsymbol {
    const struct jname *name;
    uint16_t slot;
    bool has_load;
    enum jload_how how;
    struct jref from; /* relative to fn */
    bool stored;
  } * v;
  size_t n, cap;
};
void jsymbols_init(struct jsymbols *s, struct jsymbols *parent, struct jscope_fn *fn);
uint16_t jsymbols_param(struct jst *st, struct jsymbols *s, const struct jname *name);
bool jsymbols_find(const struct jsymbols *s, const struct jname *name, struct jref *out,
                   enum jload_how *how);
/* Looks at one child of a scoped node. as_param: its stores are parameters. */
void jsymbols_visit(struct jst *st, struct jsymbols *s, const struct jnode *node, bool as_param);
void jsymbols_visit_all(struct jst *st, struct jsymbols *s, const struct jnodes *list);
struct jloads jsymbols_loads(struct jst *st, const struct jsymbols *s);
/* Whether `name` is read within the nodes before it is set there; blocks are not looked into. */
bool jundeclared(const struct jnodes *list, const char *name);
/* Calls fn for every child of node in Jinja2's order; stops when it returns false. */
bool jchildren(const struct jnode *node, bool (*fn)(void *user, struct jnode *child), void *user);

#endif
