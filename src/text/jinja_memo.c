/* jinja_memo.c: the loops of a template's last rendering and their rounds; see jinja_trace.h. */
#include <string.h>

#include "base/mem.h"
#include "text/jinja_trace.h"

#define LOOPS_MAX 16
#define LEAVES_MAX 2000
#define GAP                                                                                        \
  (JBLOCK + JBLOCK / 2) /* rounds at a loop's end that may change soon are in no block             \
                         */
#define RANGE_FROM 4    /* a shorter range is no loop over messages */

/* ---- life ---- */

static void record_unref(struct jrecord *r) {
  if (!r || --r->refs)
    return;
  for (uint32_t i = 0; i < r->n_guards; i++)
    jkept_free(&r->guards[i].k);
  for (uint32_t i = 0; i < r->n_effects; i++)
    jkept_free(&r->effects[i].value);
  mem_free(r);
}

/* Entries whose record has gone elsewhere hold none. */
static void free_entries(struct template_memo *memo, struct jentry *entries, size_t n) {
  memo->bytes -= n * sizeof *entries;
  for (size_t i = 0; i < n; i++)
    if (entries[i].record) {
      memo->bytes -= entries[i].record->bytes;
      record_unref(entries[i].record);
    }
  mem_free(entries);
}

static void forget_entries(struct template_memo *memo, struct jloopmemo *m) {
  free_entries(memo, m->entries, m->n);
  mem_free(m->blocks);
  m->entries = NULL;
  m->blocks = NULL;
  m->n = m->n_blocks = m->cap_blocks = 0;
  m->most = 0;
}

static void loop_free(struct template_memo *memo, struct jloopmemo *m) {
  forget_entries(memo, m);
  mem_free(m->exprs);
  mem_free(m->same_ns);
  *m = (struct jloopmemo){0};
}

void jmemo_forget(struct template_memo *memo, size_t keep) {
  while (memo->n_loops > keep)
    loop_free(memo, &memo->loops[--memo->n_loops]);
}

struct template_memo *template_memo_new(void) {
  struct template_memo *memo = MEM_NEW(struct template_memo);
  memo->refs = 1;
  memo->kwargs = memo->special = value_null();
  return memo;
}

struct template_memo *template_memo_ref(struct template_memo *memo) {
  if (memo)
    memo->refs++;
  return memo;
}

void template_memo_unref(struct template_memo *memo) {
  if (!memo || --memo->refs)
    return;
  jmemo_forget(memo, 0);
  mem_free(memo->loops);
  value_free(&memo->kwargs);
  value_free(&memo->special);
  template_delete(memo->tpl);
  mem_free(memo);
}

size_t template_memo_bytes(const struct template_memo *memo) {
  size_t n = sizeof *memo + memo->bytes;
  for (size_t i = 0; i < memo->n_loops; i++)
    n += sizeof memo->loops[i] + memo->loops[i].cap_exprs * sizeof(struct jexpr) +
         memo->loops[i].cap_blocks * sizeof(struct jspan);
  return n;
}

void template_memo_stats(const struct template_memo *memo, uint64_t *skipped, uint64_t *ran) {
  *skipped = memo->skipped;
  *ran = memo->ran;
}

static void clone_loop(struct template_memo *memo, const struct jloopmemo *from,
                       struct jloopmemo *m) {
  *m = *from;
  m->cap_exprs = m->n_exprs;
  m->exprs = m->n_exprs ? mem_dup(m->exprs, m->n_exprs * sizeof *m->exprs) : NULL;
  m->same_ns = m->n_leaves ? mem_dup(m->same_ns, m->n_leaves * sizeof *m->same_ns) : NULL;
  m->entries = m->n ? mem_dup(m->entries, m->n * sizeof *m->entries) : NULL;
  m->cap_blocks = m->n_blocks;
  m->blocks = m->n_blocks ? mem_dup(m->blocks, m->n_blocks * sizeof *m->blocks) : NULL;
  for (size_t i = 0; m->entries && i < m->n; i++) {
    memo->bytes += sizeof *m->entries;
    if (!m->entries[i].record)
      continue;
    m->entries[i].record->refs++;
    memo->bytes += m->entries[i].record->bytes;
  }
}

struct template_memo *jmemo_clone(const struct template_memo *from) {
  struct template_memo *memo = MEM_NEW(struct template_memo);
  *memo = *from;
  memo->refs = 1;
  memo->bytes = 0;
  memo->kwargs = value_copy(&from->kwargs);
  memo->special = value_copy(&from->special);
  memo->tpl = from->tpl ? template_ref(from->tpl) : NULL;
  memo->cap_loops = from->n_loops;
  memo->loops = mem_calloc(from->n_loops ? from->n_loops : 1, sizeof *memo->loops);
  for (size_t i = 0; i < from->n_loops; i++)
    clone_loop(memo, &from->loops[i], &memo->loops[i]);
  return memo;
}

/* ---- the shape of a loop: where it can read from ---- */

static void add_leaf(struct jloopmemo *m, enum jexpr_kind kind, size_t a, size_t b) {
  MEM_GROW(m->exprs, m->n_exprs, m->cap_exprs);
  m->exprs[m->n_exprs++] =
      (struct jexpr){.kind = (uint8_t)kind, .a = (uint16_t)a, .b = (uint16_t)b};
}

static void shape(struct jloopmemo *m, const struct jnode *n, const struct jtrace *t,
                  size_t n_frames, uint32_t n_names) {
  m->node = n;
  m->n_frames = n_frames;
  add_leaf(m, JX_SLOT, 0, 0); /* none */
  for (size_t i = 0; i < n_frames; i++) {
    m->frames[i] = t->frames[i]->n;
    for (size_t k = 0; k < t->frames[i]->n; k++)
      add_leaf(m, JX_SLOT, i, k);
  }
  for (uint32_t i = 0; i < n_names; i++)
    add_leaf(m, JX_NAME, 0, i);
  m->n_leaves = m->n_exprs;
  m->same_ns = mem_calloc(m->n_leaves, sizeof *m->same_ns);
}

static bool same_shape(const struct jloopmemo *m, const struct jnode *n, const struct jtrace *t,
                       size_t n_frames) {
  if (m->node != n || m->n_frames != n_frames)
    return false;
  for (size_t i = 0; i < n_frames; i++)
    if (m->frames[i] != t->frames[i]->n)
      return false;
  return true;
}

static struct jv *leaf_at(struct jst *st, const struct jtrace *t, const struct jexpr *e) {
  if (e->kind == JX_SLOT)
    return &t->frames[e->a]->slots[e->b];
  return st->exported[e->b].type != J_MISSING ? &st->exported[e->b] : &st->globals[e->b];
}

/* Gives all that can be read from outside its origin; false when namespaces lie otherwise than
 * before. */
static bool mark(struct jst *st, struct jtrace *t) {
  struct jloopmemo *m = t->m;
  uint16_t spaces[64];
  size_t n = 0;
  bool same = true;
  for (size_t i = 1; i < m->n_leaves; i++) {
    struct jv *v = leaf_at(st, t, &m->exprs[i]);
    uint16_t first = 0;
    v->origin = (uint16_t)i;
    if (v->type == J_NS) {
      for (size_t k = 0; k < n && !first; k++)
        if (leaf_at(st, t, &m->exprs[spaces[k]])->u.dict == v->u.dict)
          first = spaces[k];
      if (!first && n < sizeof spaces / sizeof *spaces)
        first = spaces[n++] = (uint16_t)i;
    }
    same = same && m->same_ns[i] == first;
    m->same_ns[i] = first;
  }
  return same;
}

static void unmark(struct jst *st, const struct jtrace *t) {
  for (size_t i = 0; i < t->m->n_frames; i++)
    for (size_t k = 0; k < t->frames[i]->n; k++)
      t->frames[i]->slots[k].origin = 0;
  for (uint32_t i = 0; i < st->program->n_names; i++)
    st->exported[i].origin = st->globals[i].origin = 0;
}

/* ---- loops ---- */

static uint64_t key_of(const struct jmemo_run *run, struct jv item) {
  if (item.type == J_INT)
    return item.u.i >= 0 && item.u.i < INT32_MAX ? (uint64_t)item.u.i * 2 + 1 : 0;
  return jmessage_id(run, item) * 2;
}

static inline struct jv item_at(struct jst *st, const struct jtrace *t, size_t i) {
  if (t->iterable.type == J_LIST)
    return t->iterable.u.list->items[i];
  if (t->iterable.type == J_JLIST)
    return jfrom(&t->iterable.u.json->u.array.items[i], st);
  const struct jrange *r = t->iterable.u.range;
  return jint(r->start + (int64_t)i * r->step);
}

/* How many items a loop has that is worth it; 0 for others. */
static size_t items_of(struct jst *st, struct jv iterable, const struct jiter *it) {
  if (st->trace || !st->out->sync || !jiter_steps(it) || it->pos)
    return 0;
  if (iterable.type == J_RANGE)
    return iterable.u.range->n < RANGE_FROM ? 0 : (size_t)iterable.u.range->n;
  if (!jis_list(iterable) || !jseq_len(iterable) || !jmessage_id(st->run, jseq_at(st, iterable, 0)))
    return 0;
  return jseq_len(iterable);
}

static size_t frames_of(struct jst *st, struct jtrace *t) {
  size_t n = 0, leaves = st->program->n_names;
  for (struct jframe *f = st->frame; f; f = f->outer) {
    leaves += f->n;
    if (n == JFRAMES_MAX || leaves > LEAVES_MAX)
      return 0;
    t->frames[n++] = f;
  }
  return n;
}

struct jtrace *jmemo_begin(struct jst *st, const struct jnode *n, struct jv iterable,
                           struct jiter *it, struct jloop *l) {
  struct jmemo_run *run = st->run;
  struct template_memo *memo = run->memo;
  struct jtrace *t = run->trace;
  size_t items = items_of(st, iterable, it);
  if (!items || run->n_loops == LOOPS_MAX)
    return NULL;
  t->run = run;
  t->loop = l;
  t->it = it;
  t->iterable = iterable;
  t->n = items;
  t->index = t->old = t->old_block = 0;
  size_t n_frames = frames_of(st, t);
  if (!n_frames)
    return NULL;
  if (run->n_loops == memo->n_loops) {
    MEM_GROW(memo->loops, memo->n_loops, memo->cap_loops);
    memo->loops[memo->n_loops++] = (struct jloopmemo){0};
  }
  t->m = &memo->loops[run->n_loops++];
  if (t->m->node && !same_shape(t->m, n, t, n_frames))
    loop_free(memo, t->m);
  if (!t->m->node)
    shape(t->m, n, t, n_frames, st->program->n_names);
  if (!mark(st, t))
    forget_entries(memo, t->m);
  t->state_stamp = ++memo->stamp;
  t->entries = mem_calloc(items, sizeof *t->entries);
  memo->bytes += items * sizeof *t->entries;
  return t;
}

/* The round of the last rendering with this item. */
static struct jentry *entry_of(struct jtrace *t, uint64_t key) {
  const struct jloopmemo *m = t->m;
  if (!key || key > m->most)
    return NULL;
  for (size_t i = 0; i < m->n; i++) {
    size_t at = t->old + i < m->n ? t->old + i : t->old + i - m->n;
    if (m->entries[at].key != key)
      continue;
    t->old = at + 1;
    return &m->entries[at];
  }
  return NULL;
}

/* Takes the record over. There is room for all items. */
static void push(struct jtrace *t, uint64_t key, struct jrecord *r, size_t at) {
  assert(t->n_entries < t->n);
  t->entries[t->n_entries++] = (struct jentry){key, r, at};
}

static void have_effects(struct jst *st, struct jtrace *t, const struct jrecord *r) {
  for (uint32_t i = 0; i < r->n_effects; i++) {
    const struct jeffect *e = &r->effects[i];
    struct jv ns = jexpr_value(st, t, e->ns);
    struct jv now = jdict_get(st, jdict_value(ns.u.dict), e->name);
    if (now.type != J_MISSING && jkept_same(st, t, e->value, now))
      continue;
    jdict_set(st, ns.u.dict, e->name, e->value);
    t->state_stamp = ++t->run->memo->stamp;
  }
}

/* Takes the record of the next round; false when there is none that holds. */
static bool take(struct jst *st, struct jtrace *t, enum jflow *flow) {
  struct jsync *y = &t->run->sync;
  struct jv item = item_at(st, t, t->index);
  uint64_t key = key_of(t->run, item);
  struct jentry *e = entry_of(t, key);
  t->key = key;
  t->round_stamp = ++t->run->memo->stamp;
  if (!e || !e->record || e->record->len > y->most - y->at || !jrecord_holds(st, t, e->record))
    return false;
  struct jrecord *r = e->record;
  size_t at = y->at;
  if (!y->parted && at == e->at)
    y->at += r->len;
  else
    jsync_write(st, st->out, y->old + e->at, r->len);
  if (r->n_effects)
    have_effects(st, t, r);
  st->steps_left -= r->steps;
  jiter_skip(t->it, t->loop, 1, item, item);
  t->index++;
  e->record = NULL; /* no message comes twice */
  push(t, key, r, at);
  t->run->memo->skipped++;
  *flow = (enum jflow)r->flow;
  return true;
}

static bool same_items(struct jst *st, const struct jtrace *t) {
  const struct jentry *e = &t->m->entries[t->old];
  const struct jmemo_run *run = t->run;
  if (t->iterable.type == J_JLIST && t->iterable.u.json == run->messages) {
    for (size_t i = 0; i < JBLOCK; i++)
      if (run->ids[t->index + i] * 2 != e[i].key)
        return false;
    return true;
  }
  for (size_t i = 0; i < JBLOCK; i++)
    if (key_of(run, item_at(st, t, t->index + i)) != e[i].key)
      return false;
  return true;
}

/* Takes the block of the next rounds; false when there is none that holds. */
static bool take_block(struct jst *st, struct jtrace *t) {
  struct jloopmemo *m = t->m;
  struct jsync *y = &t->run->sync;
  while (t->old_block < m->n_blocks && m->blocks[t->old_block].from < t->old)
    t->old_block++;
  if (t->old_block == m->n_blocks || t->index + JBLOCK > t->n)
    return false;
  const struct jspan *b = &m->blocks[t->old_block];
  if (b->from != t->old || b->len > y->most - y->at || !same_items(st, t) || !jspan_holds(st, t, b))
    return false;
  struct jentry *old = &m->entries[t->old], *to = &t->entries[t->n_entries];
  size_t at = y->at;
  if (!y->parted && at == old->at)
    y->at += b->len;
  else
    jsync_write(st, st->out, y->old + old->at, b->len);
  MEM_GROW(t->blocks, t->n_blocks, t->cap_blocks);
  t->blocks[t->n_blocks] = *b;
  t->blocks[t->n_blocks++].from = t->n_entries;
  for (size_t i = 0, from = old->at; i < JBLOCK; i++) {
    to[i] = (struct jentry){old[i].key, old[i].record, old[i].at - from + at};
    old[i].record = NULL;
  }
  t->n_entries += JBLOCK;
  t->index += JBLOCK;
  t->old += JBLOCK;
  t->run->memo->skipped += JBLOCK;
  st->steps_left -= b->steps;
  jiter_skip(t->it, t->loop, JBLOCK, item_at(st, t, t->index - 2), item_at(st, t, t->index - 1));
  return true;
}

enum jflow jmemo_skip(struct jst *st, struct jtrace *t, bool *ended) {
  enum jflow flow = FLOW_NEXT;
  while (flow != FLOW_BREAK && t->index < t->n) {
    if (take_block(st, t))
      flow = FLOW_NEXT;
    else if (!take(st, t, &flow))
      return FLOW_NEXT;
    *ended = *ended || flow == FLOW_NEXT;
  }
  return flow;
}

/* ---- rounds that run ---- */

static void drop_round(struct jtrace *t) {
  while (t->n_guards)
    jkept_free(&t->guards[--t->n_guards].k);
  while (t->n_effects)
    jkept_free(&t->effects[--t->n_effects].value);
}

void jmemo_round(struct jst *st, struct jtrace *t, struct jv item) {
  t->key = key_of(t->run, item);
  t->at = t->run->sync.at;
  t->steps = st->steps_left;
  t->autoescape = st->autoescape;
  t->given_up = !t->key;
  st->trace = t;
}

static size_t kept_bytes(const struct jtrace *t) {
  size_t n = 0;
  for (uint32_t i = 0; i < t->n_guards; i++)
    n += t->guards[i].k.type == J_STR ? t->guards[i].k.len : 0;
  for (uint32_t i = 0; i < t->n_effects; i++)
    n += t->effects[i].value.type == J_STR ? t->effects[i].value.len : 0;
  return n;
}

static struct jrecord *record_of(struct jtrace *t, const struct jst *st, enum jflow flow) {
  size_t guards = t->n_guards * sizeof *t->guards, effects = t->n_effects * sizeof *t->effects;
  struct jrecord *r = mem_alloc(sizeof *r + guards + effects);
  *r = (struct jrecord){.refs = 1,
                        .bytes = (uint32_t)(sizeof *r + guards + effects + kept_bytes(t)),
                        .len = (uint32_t)(t->run->sync.at - t->at),
                        .n_guards = (uint16_t)t->n_guards,
                        .n_effects = (uint16_t)t->n_effects,
                        .steps = t->steps - st->steps_left,
                        .autoescape = t->autoescape,
                        .flow = (uint8_t)flow};
  r->effects = (struct jeffect *)(void *)(r->guards + t->n_guards);
  if (guards)
    memcpy(r->guards, t->guards, guards);
  if (effects)
    memcpy(r->effects, t->effects, effects);
  t->n_guards = t->n_effects = 0;
  t->run->memo->bytes += r->bytes;
  return r;
}

void jmemo_ran(struct jst *st, struct jtrace *t, enum jflow flow) {
  struct jrecord *r = NULL;
  st->trace = NULL;
  if (t->run->sync.at - t->at > UINT32_MAX || st->autoescape != t->autoescape)
    t->given_up = true;
  if (t->given_up)
    drop_round(t);
  else
    r = record_of(t, st, flow);
  t->index++;
  t->state_stamp = ++t->run->memo->stamp; /* it may have set what others read */
  t->run->memo->ran++;
  push(t, t->key, r, t->at);
}

/* Blocks of the entries from `from` to `to`, which are in none. */
static void make_blocks(struct jtrace *t, size_t from, size_t to) {
  struct jloopmemo *m = t->m;
  bool front = from == 0 && to < m->n; /* new rounds come in front: the last ones are the oldest */
  if (to - from < GAP)
    return;
  if (front)
    from = to - (to - from - JBLOCK / 2) / JBLOCK * JBLOCK;
  for (; from + (front ? JBLOCK : GAP) <= to; from += JBLOCK) {
    MEM_GROW(m->blocks, m->n_blocks, m->cap_blocks);
    if (jspan_make(m, from, &m->blocks[m->n_blocks]))
      m->n_blocks++;
  }
}

/* The blocks that were taken, and new ones between them. */
static void have_blocks(struct jtrace *t) {
  size_t from = 0;
  for (size_t i = 0; i < t->n_blocks; i++) {
    make_blocks(t, from, t->blocks[i].from);
    MEM_GROW(t->m->blocks, t->m->n_blocks, t->m->cap_blocks);
    t->m->blocks[t->m->n_blocks++] = t->blocks[i];
    from = t->blocks[i].from + JBLOCK;
  }
  make_blocks(t, from, t->m->n);
  mem_free(t->blocks);
  t->blocks = NULL;
  t->n_blocks = t->cap_blocks = 0;
}

void jmemo_end(struct jst *st, struct jtrace *t) {
  struct jloopmemo *m = t->m;
  unmark(st, t);
  forget_entries(t->run->memo, m);
  t->run->memo->bytes -= (t->n - t->n_entries) * sizeof *t->entries; /* after a break */
  m->entries = t->entries;
  m->n = t->n_entries;
  for (size_t i = 0; i < m->n; i++)
    m->most = m->entries[i].key > m->most ? m->entries[i].key : m->most;
  have_blocks(t);
  t->entries = NULL;
  t->n_entries = 0;
}

void jmemo_abandon(struct jmemo_run *run) {
  struct jtrace *t = run->trace;
  if (!t->run)
    return;
  drop_round(t);
  free_entries(run->memo, t->entries, t->entries ? t->n : 0);
  mem_free(t->blocks);
  t->blocks = NULL;
  t->entries = NULL;
  t->n_entries = 0;
}
