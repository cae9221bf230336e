/* jinja_trace.h: what the round of a loop over messages depended on; private to the template
 * engine.
 *
 * A conversation's prompt is rendered anew for every turn, and all rounds of the loop over its
 * messages but the last few do again what they did the turn before. While a round runs, everything
 * it reads that it did not make itself is written down, as conditions under which it would do the
 * same again: the record. The next rendering (jinja_replay.c) checks the conditions and takes the
 * record's text and effects instead of running the round.
 *
 * A value that comes from outside the round has an origin: the number of an expression that reads
 * it again. It stays with the value through names, attributes, items, arithmetic of ints and
 * lengths (jeval_soft). What happens to it there is written down as weakly as it was used: the
 * outcome of a comparison, of a test, or its truth. Everywhere else (jeval) it becomes the
 * condition that the value is the very same. The item of a round is known by its identity and has
 * no origin. A read that cannot be told so ends the record: the round will simply run again. */
#ifndef TEXT_JINJA_TRACE_H
#define TEXT_JINJA_TRACE_H

#include "text/jinja_ast.h"

#define JFRAMES_MAX 8

enum jexpr_kind {
  JX_SLOT, /* frame a, slot b */
  JX_NAME, /* name id: what LOAD_RESOLVE finds */
  JX_LOOP, /* what: attribute of the loop itself */
  JX_NS,   /* a namespace, k name */
  JX_ATTR, /* a object of the caller's, k key */
  JX_ITEM, /* a list, index b or k */
  JX_OP,   /* what: operator, a or k with b or k */
  JX_LEN   /* a list */
};

struct jexpr {
  uint8_t kind, what;
  bool moves;    /* it is another one in each round */
  bool changing; /* it reads a namespace */
  uint16_t a, b;
  uint16_t next; /* in its hash chain */
  struct jv k;
  struct jv value; /* as worked out for `stamp` */
  uint64_t stamp;
};

enum jguard_kind { JG_SAME, JG_TRUTH, JG_COMPARE, JG_TEST };

struct jguard {
  uint8_t kind, op, left, right; /* types of the sides of a comparison, of a test's value */
  bool outcome;
  uint16_t a, b;                      /* expressions; 0: `k` stands there */
  struct jv k;                        /* kept: see jkeep */
  const struct jfilter_def *function; /* of a test */
};

struct jeffect { /* a namespace's attribute as the round leaves it */
  uint16_t ns;
  struct jv name, value;
};

struct jrecord { /* one piece of memory: it is looked at for every round that is passed over */
  uint32_t refs;
  uint32_t bytes; /* of memory */
  uint32_t len;   /* bytes of text */
  uint16_t n_guards, n_effects;
  uint64_t steps;
  bool autoescape;
  uint8_t flow;
  struct jeffect *effects; /* behind the guards */
  struct jguard guards[];
};

/* A loop's rounds at the last rendering. */
struct jentry {
  uint64_t key; /* of the item; 0: it has none */
  struct jrecord *record;
  size_t at; /* where its text begins */
};

/* Rounds next to each other that are passed over at once (jinja_blocks.c). */
#define JBLOCK 16
#define JBOUNDS_MAX 8
struct jbound {
  struct jguard guard; /* borrows from the rounds' records */
  bool moves;          /* it was made for places of the loop, from `first` to `last` */
  size_t first, last;
};
struct jspan {
  size_t from; /* entry */
  size_t len;  /* bytes of text */
  uint64_t steps;
  bool autoescape, placed; /* placed: some bound moves, so it holds at this place alone */
  uint8_t n_bounds;
  struct jbound bounds[JBOUNDS_MAX];
};

#define JCHAINS 64
struct jloopmemo {
  const struct jnode *node;
  struct jexpr *exprs; /* [0] is none */
  size_t n_exprs, cap_exprs;
  uint16_t chains[JCHAINS];
  size_t n_leaves;
  size_t n_frames, frames[JFRAMES_MAX]; /* how many slots each has */
  uint16_t *same_ns; /* by leaf: the first leaf with this namespace in it; 0: none in it */
  struct jentry *entries;
  size_t n;
  uint64_t most;        /* largest key */
  struct jspan *blocks; /* in order */
  size_t n_blocks, cap_blocks;
};

#define JGUARDS_MAX 64
#define JEFFECTS_MAX 32

/* The loop that is under way. */
struct jtrace {
  struct jloopmemo *m;
  struct jmemo_run *run;
  struct jloop *loop; /* NULL: the body does not ask for it */
  struct jiter *it;
  struct jv iterable;
  size_t n; /* items */
  size_t index;
  struct jframe *frames[JFRAMES_MAX];
  struct jentry *entries; /* of this rendering: room for n */
  size_t n_entries;
  struct jspan *blocks; /* of this rendering */
  size_t n_blocks, cap_blocks;
  size_t old;       /* entry of the last rendering that comes next … */
  size_t old_block; /* … and block */
  uint64_t state_stamp, round_stamp;
  /* the round under way */
  uint64_t key, steps;
  size_t at;
  bool autoescape, given_up;
  uint32_t n_guards, n_effects;
  struct jguard guards[JGUARDS_MAX];
  struct jeffect effects[JEFFECTS_MAX];
};

/* Text that is mostly the text of before: compared while it is the same, kept from there on. */
struct jsync {
  const char *old;
  size_t old_len, at; /* written so far */
  size_t most;
  bool parted;
};

/* What a conversation's renderings leave to the next one; see template.h. */
struct template_memo {
  uint32_t refs;
  bool valid;
  uint64_t stamp; /* the last that was given out */
  struct jloopmemo *loops;
  size_t n_loops, cap_loops;
  size_t bytes; /* of records and entries */
  size_t len;   /* of the text */
  /* what the text was made of beside messages: when it differs, all is forgotten */
  struct template *tpl;
  struct value kwargs, special;
  uint64_t tools_id;
  bool has_tools, add_generation_prompt, has_now;
  struct pytime now;
  uint64_t skipped, ran; /* rounds, ever */
};

/* One rendering with a memo. */
struct jmemo_run {
  struct template_memo *memo;
  const struct value *messages, *tools;
  const uint64_t *ids;
  struct jsync sync;
  size_t n_loops;
  struct jtrace *trace; /* room for the loop under way */
};

/* ---- writing down (jinja_trace.c) */

bool jtrace_is_loop(const struct jtrace *t, const struct jloop *l);
void jtrace_give_up(struct jst *st); /* the round under way gets no record */
/* v without its origin, which becomes a condition. */
struct jv jtrace_firm(struct jst *st, struct jv v);
static inline struct jv jfirm(struct jst *st, struct jv v) {
  return v.origin ? jtrace_firm(st, v) : v;
}
/* As jtruth and so on, of values that may have origins; the result of some has one. */
bool jsoft_truth(struct jst *st, struct jv v);
bool jsoft_compare(struct jst *st, enum jcmp op, struct jv a, struct jv b);
struct jv jsoft_binary(struct jst *st, enum jop op, struct jv a, struct jv b);
struct jv jsoft_attr(struct jst *st, struct jv obj, const struct jnode *n);
struct jv jsoft_item(struct jst *st, struct jv obj, struct jv key, const struct jnode *n);
struct jv jsoft_function(struct jst *st, struct jv v, const struct jnode *n); /* filter or test */
/* A namespace's attribute is about to be set. */
void jtrace_set(struct jst *st, struct jv ns, struct jv name, struct jv value);

/* A value that outlives the rendering: false when it cannot. `effect`: only what can be given
 * back. */
bool jkeep(struct jtrace *t, struct jv v, bool effect, struct jv *kept);
void jkept_free(struct jv *kept);
uint64_t jmessage_id(const struct jmemo_run *run, struct jv v); /* 0: it is no message */

/* ---- doing without (jinja_replay.c) */

/* The expression's value now; type J_SLICE where it has none any more. */
struct jv jexpr_work_out(struct jst *st, struct jtrace *t, struct jexpr *e, uint64_t stamp);
static inline struct jv jexpr_value(struct jst *st, struct jtrace *t, uint16_t id) {
  struct jexpr *e = &t->m->exprs[id];
  uint64_t stamp = e->moves ? t->round_stamp : t->state_stamp;
  return e->stamp == stamp ? e->value : jexpr_work_out(st, t, e, stamp);
}
/* Whether v is what was kept. */
bool jkept_same(struct jst *st, struct jtrace *t, struct jv kept, struct jv v);
bool jguard_holds(struct jst *st, struct jtrace *t, const struct jguard *g); /* at t->index */
/* Whether the round at t->index would do what the record says. */
bool jrecord_holds(struct jst *st, struct jtrace *t, const struct jrecord *r);

/* ---- runs of rounds (jinja_blocks.c) */

/* Of the JBLOCK entries from `from` on; false when they cannot be put together. */
bool jspan_make(const struct jloopmemo *m, size_t from, struct jspan *b);
/* Whether the rounds from t->index on, which have the same items, would do what theirs did. */
bool jspan_holds(struct jst *st, struct jtrace *t, const struct jspan *b);

/* ---- loops (jinja_memo.c) */

/* NULL: the loop is not one to remember. */
struct jtrace *jmemo_begin(struct jst *st, const struct jnode *n, struct jv iterable,
                           struct jiter *it, struct jloop *l);
/* Passes over the rounds that are known. FLOW_BREAK: one of them left the loop. *ended: one came to
 * its end. */
enum jflow jmemo_skip(struct jst *st, struct jtrace *t, bool *ended);
void jmemo_round(struct jst *st, struct jtrace *t, struct jv item); /* one begins … */
void jmemo_ran(struct jst *st, struct jtrace *t, enum jflow flow);  /* … and has ended */
void jmemo_end(struct jst *st, struct jtrace *t);
/* Forgets all loops from the `keep`th on. */
void jmemo_forget(struct template_memo *memo, size_t keep);
/* What a rendering that failed left in the middle of a loop. */
void jmemo_abandon(struct jmemo_run *run);
struct template_memo *jmemo_clone(const struct template_memo *from);

void jsync_write(struct jst *st, struct jout *o, const char *s, size_t len);

#endif
