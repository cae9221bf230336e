/* verify_ledger.c: the token ledger from the fleet's truth log.
 *
 * `possible` comes from the tree of all blocks that the joined requests sent and received: each has
 * the earliest time at which one of them had it, which is never before that of the block before it.
 * A prompt counts as sent at its start, an answer as received when the reply was over. Of a request
 * with several prompts all counts as received then, and it has no ledger. What was received at the
 * very moment at which a later row starts was there before it (in virtual time a script takes
 * none); what was sent at that moment was not. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "out/rowfile.h"
#include "out/rowlog.h"
#include "out/verify.h"

/* The block of a chain at this depth, or its last when it is shorter. */
static uint32_t at_depth(const struct truthlog *t, uint32_t leaf, int64_t depth) {
  while (t->depth[leaf] > depth)
    leaf = t->parent[leaf];
  return leaf;
}

/* When a block was there first, and from which row on it counts at that very moment. */
struct first {
  uint64_t ns;
  uint32_t after; /* a row's number: only those behind it; SENT: none */
};
#define SENT UINT32_MAX

static bool is_before(struct first a, struct first b) {
  return a.ns != b.ns ? a.ns < b.ns : a.after < b.after;
}

/* This block and those before it were there then, if not earlier. */
static void mark(const struct truthlog *t, struct first *firsts, uint32_t block,
                 struct first when) {
  for (; is_before(when, firsts[block]); block = t->parent[block])
    firsts[block] = when;
}

static void mark_row(const struct verify *v, struct first *firsts, const struct verify_row *r) {
  const struct truthlog *t = &v->truth;
  int64_t whole = r->ledger.block_size ? r->ledger.prompt / r->ledger.block_size : -1;
  for (uint32_t i = 0; i < r->n_leaves; i++) {
    uint32_t leaf = v->leaves[r->first_leaf + i];
    if (whole >= 0)
      mark(t, firsts, at_depth(t, leaf, whole), (struct first){r->start, SENT});
    if (r->done != SAMPLE_NEVER)
      mark(t, firsts, leaf, (struct first){r->done, (uint32_t)(r - v->rows)});
  }
}

/* The first blocks of the prompt that were there before it started. */
static int64_t possible_of(const struct verify *v, const struct first *firsts,
                           const struct verify_row *r) {
  const struct truthlog *t = &v->truth;
  const struct ledger *l = &r->ledger;
  if (!r->n_leaves)
    return 0;
  uint32_t block = at_depth(t, v->leaves[r->first_leaf], (l->prompt - 1) / l->block_size);
  struct first now = {r->start, (uint32_t)(r - v->rows)};
  while (block && !is_before(firsts[block], now))
    block = t->parent[block];
  return t->depth[block] * l->block_size;
}

void verify_begin_ledger(struct verify *v, struct verify_row *r) {
  const struct truthlog_line *l = &v->truth.line;
  r->first_leaf = (uint32_t)v->n_leaves;
  r->n_leaves = (uint32_t)l->n_leaves;
  for (size_t i = 0; i < l->n_leaves; i++) {
    MEM_GROW(v->leaves, v->n_leaves, v->cap_leaves);
    v->leaves[v->n_leaves++] = l->leaves[i];
  }
  if (l->prompts != 1 || l->prompt_tokens <= 0 || r->start == SAMPLE_NEVER)
    return;
  r->ledger = (struct ledger){.prompt = l->prompt_tokens,
                              .block_size = l->block_size,
                              .possible = LEDGER_ABSENT,
                              .available = l->available_tokens,
                              .captured = l->captured_tokens,
                              .delivered = l->scheduled_ns ? l->cached_tokens : LEDGER_ABSENT,
                              .claimed = LEDGER_ABSENT,
                              .offload = l->offload_tokens,
                              .shared = l->shared_tokens,
                              .transfer = l->transfer_tokens};
}

void verify_fill_ledgers(struct verify *v) {
  struct first *firsts = mem_resize(NULL, v->truth.n_blocks, sizeof *firsts);
  memset(firsts, 0xff, v->truth.n_blocks * sizeof *firsts);
  firsts[0] = (struct first){0};
  for (size_t i = 0; i < v->n_rows; i++)
    mark_row(v, firsts, &v->rows[i]);
  for (size_t i = 0; i < v->n_rows; i++) {
    struct verify_row *r = &v->rows[i];
    if (!r->ledger.block_size)
      continue;
    r->ledger.possible = possible_of(v, firsts, r);
    ledger_cap(&r->ledger);
  }
  mem_free(firsts);
}

/* ---- into the table, the summary, the rows ---- */

/* The table has the rows of the file in the same order, and those that the disk refused besides. */
void verify_set_table(const struct verify *v, struct table *t) {
  for (size_t i = 0, k = 0; i < t->n_rows && k < v->n_rows; i++) {
    const struct verify_row *r = &v->rows[k];
    if (t->rows[i].request != r->hash || t->rows[i].start != r->start)
      continue;
    k++;
    if (!r->ledger.block_size)
      continue;
    t->rows[i].possible = (int32_t)r->ledger.possible;
    t->rows[i].available = (int32_t)r->ledger.available;
    t->rows[i].captured = (int32_t)r->ledger.captured;
    t->rows[i].delivered = (int32_t)r->ledger.delivered;
  }
}

static int64_t more_than(int64_t a, int64_t b) {
  return a > b ? a - b : 0;
}

static int64_t most_of(int64_t a, int64_t b) {
  return a > b ? a : b;
}

struct value verify_ledger_value(const struct verify *v) {
  int64_t causes[LEDGER_CAUSES], sums[LEDGER_CAUSES] = {0}, classes[LEDGER_CAUSES + 1] = {0};
  int64_t n = 0, tokens = 0, foreign = 0, gained = 0;
  for (size_t i = 0; i < v->n_rows; i++) {
    const struct verify_row *r = &v->rows[i];
    const struct ledger *l = &r->ledger;
    if (!r->good || !r->measured || !l->block_size)
      continue;
    n++;
    tokens += l->prompt;
    ledger_causes(l, causes);
    for (int k = 0; k < LEDGER_CAUSES; k++)
      sums[k] += causes[k];
    classes[ledger_class(l)]++;
    foreign += more_than(most_of(l->available, most_of(l->captured, l->delivered)), l->possible);
    gained += more_than(l->delivered, l->captured);
  }
  if (!n)
    return value_null();
  struct value out = value_object();
  value_set(&out, "source", value_cstring("truth"));
  value_set(&out, "requests", value_int(n));
  value_set(&out, "prompt_tokens", value_int(tokens));
  struct value *by_cause = value_set(&out, "causes", value_object());
  for (int k = 0; k < LEDGER_CAUSES; k++)
    value_set(by_cause, ledger_cause_name(k), value_int(sums[k]));
  struct value *by_class = value_set(&out, "classes", value_object());
  for (int k = 0; k <= LEDGER_CAUSES; k++)
    value_set(by_class, ledger_cause_name(k), value_int(classes[k]));
  value_set(&out, "foreign_tokens", value_int(foreign));
  value_set(&out, "gained_in_queue_tokens", value_int(gained));
  return out;
}

static void put_figure(struct buf *b, const char *key, int64_t n) {
  buf_puts(b, key);
  if (n < 0)
    buf_puts(b, "null");
  else
    buf_put_int(b, n);
}

static void put_ledger(struct buf *b, const struct ledger *l) {
  int64_t causes[LEDGER_CAUSES];
  bool any = false;
  put_figure(b, "\"possible\":", l->possible);
  put_figure(b, ",\"available\":", l->available);
  put_figure(b, ",\"captured\":", l->captured);
  put_figure(b, ",\"delivered\":", l->delivered);
  buf_puts(b, ",\"ledger_source\":\"truth\",\"causes\":{");
  ledger_causes(l, causes);
  for (int k = 0; k < LEDGER_CAUSES; k++) {
    if (!causes[k])
      continue;
    buf_printf(b, "%s\"%s\":", any ? "," : "", ledger_cause_name(k));
    buf_put_int(b, causes[k]);
    any = true;
  }
  buf_printf(b, "},\"class\":\"%s\"", ledger_cause_name(ledger_class(l)));
}

int verify_write_rows(const struct verify *v, const char *folder, struct err *err) {
  static const char name[] = "samples.jsonl.new";
  char from[4200], to[4200];
  struct rowfile f;
  rowfile_init(&f);
  int rc = rowfile_open(&f, folder, name, err);
  for (size_t i = 0; !rc && i < v->n_rows && rowfile_takes(&f); i++) {
    const struct verify_row *r = &v->rows[i];
    struct jsonslice line = verify_line(r);
    struct jsonslice nulls = r->ledger.block_size ? rowlog_ledger(line) : (struct jsonslice){0};
    if (nulls.p) {
      buf_put(&f.rows, line.p, (size_t)(nulls.p - line.p));
      put_ledger(&f.rows, &r->ledger);
      buf_put(&f.rows, nulls.end, (size_t)(line.end - nulls.end));
    } else {
      buf_put(&f.rows, line.p, (size_t)(line.end - line.p));
    }
    rowfile_row(&f);
  }
  rowfile_write(&f);
  rowfile_close(&f);
  if (!rc)
    rc = rowfile_result(&f, err);
  rowfile_free(&f);
  snprintf(from, sizeof from, "%s/%s", folder, name);
  snprintf(to, sizeof to, "%s/samples.jsonl", folder);
  if (!rc && rename(from, to) != 0)
    rc = err_set(err, ERR_IO, "cannot replace %s", to);
  if (rc)
    remove(from);
  return rc;
}
