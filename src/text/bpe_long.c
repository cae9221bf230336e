/* bpe_long.c: merging many symbols, in a time per symbol that does not grow with their number.
 *
 * A long piece is merged window by window, each small enough for the processor's nearest memory. A
 * window begins at a token's beginning in the one before it, and the two are joined at a token that
 * both have at the same place. The result is exact for any list of merges, by two facts.
 * (1) What merging does between two places that no merge crosses does not depend on what is around
 *     them: it always takes the lowest rank there, of equal ones the leftmost. So neighbours in a
 *     window's result are what merging makes of the text of these two alone.
 * (2) A row of tokens in which each two neighbours are what merging makes of their text is what
 *     merging makes of the whole. Suppose not, and look at the first merge that crosses a border,
 *     between tokens x and y. Until then every merge in x and y was the one that the text xy alone
 *     would have seen, in the same order; the crossing one is the lowest there too: xy would not
 *     have become x and y.
 * Where two windows have no token in common both grow, at worst to the whole piece. */
#include "base/mem.h"
#include "text/bpe_impl.h"

#define WINDOW 1024           /* symbols */
#define OVERLAP 8             /* of a window's symbols one in eight is left to the next one too */
#define KEEP_BYTES (4u << 20) /* a long piece's memory is given back above this */

struct bpe_node {
  uint32_t id, made; /* a symbol; what it and the next one become */
  uint32_t prev, next;
};

struct bpe_token {
  uint32_t id, start, end; /* symbols of the piece */
};

void bpe_long_init(struct bpe_long *l) {
  *l = (struct bpe_long){.window = WINDOW};
}

static void drop(struct bpe_long *l) {
  mem_free(l->nodes);
  mem_free(l->tree);
  mem_free(l->tokens[0]);
  mem_free(l->tokens[1]);
  l->nodes = NULL;
  l->tree = NULL;
  l->tokens[0] = l->tokens[1] = NULL;
  l->cap = 0;
}

static void drop_symbols(struct bpe_long *l) {
  mem_free(l->symbols);
  l->symbols = NULL;
  l->cap_symbols = 0;
}

void bpe_long_free(struct bpe_long *l) {
  drop(l);
  drop_symbols(l);
}

uint32_t *bpe_long_symbols(struct bpe_long *l, size_t n) {
  if (n > l->cap_symbols) {
    mem_free(l->symbols);
    l->symbols = mem_resize(NULL, n, sizeof *l->symbols);
    l->cap_symbols = n;
  }
  return l->symbols;
}

/* Makes room for a window of n symbols, the tokens of the windows there are kept. */
static void reserve(struct bpe_long *l, size_t n) {
  if (n <= l->cap)
    return;
  size_t cap = l->cap ? l->cap : 64;
  while (cap < n)
    cap *= 2;
  mem_free(l->nodes);
  mem_free(l->tree);
  l->nodes = mem_resize(NULL, cap, sizeof *l->nodes);
  l->tree = mem_resize(NULL, cap * 2, sizeof *l->tree);
  for (int i = 0; i < 2; i++)
    l->tokens[i] = mem_resize(l->tokens[i], cap, sizeof *l->tokens[i]);
  l->cap = cap;
}

/* What the tree holds for the pair at `at`: its rank, then its place; all ones when no merge. */
static inline uint64_t pair_key(const struct bpe *b, struct bpe_node *y, uint32_t at, size_t n) {
  if (y[at].next >= n)
    return UINT64_MAX;
  struct bpe_made m = bpe_made_of(b, y[at].id, y[y[at].next].id);
  y[at].made = m.id;
  return m.rank == BPE_NONE ? UINT64_MAX : (uint64_t)m.rank << 32 | at;
}

static inline void renew(uint64_t *tree, size_t i) {
  uint64_t x = tree[2 * i], y = tree[2 * i + 1];
  tree[i] = x < y ? x : y;
}

/* The nodes of n symbols and the tree over their pairs: leaf i of `size` is the pair that begins
 * at symbol i, every node above the lower of its two. Of equal ranks the leftmost is the lowest. */
static void plant(const struct bpe *b, struct bpe_node *y, uint64_t *tree, size_t size,
                  const uint32_t *symbols, size_t n) {
  for (uint32_t i = 0; i < n; i++)
    y[i] = (struct bpe_node){symbols[i], 0, i - 1, i + 1};
  for (uint32_t i = 0; i < n; i++)
    tree[size + i] = pair_key(b, y, i, n);
  for (size_t i = n; i < size; i++)
    tree[size + i] = UINT64_MAX;
  for (size_t i = size; --i > 0;)
    renew(tree, i);
}

/* Merges the pair at `at` with everything the tree knows of it. */
static void merge_at(const struct bpe *b, struct bpe_node *y, uint64_t *tree, size_t size, size_t n,
                     uint32_t at) {
  uint32_t right = y[at].next, behind = y[right].next, before = y[at].prev;
  y[at].id = y[at].made;
  y[at].next = behind;
  if (behind < n)
    y[behind].prev = at;
  if (before >= n) /* the first one */
    before = at;
  tree[size + right] = UINT64_MAX;
  tree[size + before] = pair_key(b, y, before, n);
  tree[size + at] = pair_key(b, y, at, n);
  size_t i = (size + before) / 2, j = (size + at) / 2, k = (size + right) / 2;
  for (; i != k; i /= 2, j /= 2, k /= 2) { /* three ways up until they meet */
    renew(tree, i);
    renew(tree, j);
    renew(tree, k);
  }
  for (; i; i /= 2)
    renew(tree, i);
}

/* Merges the n symbols from place `from` of the piece on; the tokens go to `out`. */
static size_t merge_window(const struct bpe *b, struct bpe_long *l, const uint32_t *symbols,
                           uint32_t from, size_t n, struct bpe_token *out) {
  struct bpe_node *y = l->nodes;
  uint64_t *tree = l->tree;
  size_t size = 2, tokens = 0;
  while (size < n)
    size *= 2;
  plant(b, y, tree, size, symbols + from, n);
  while (tree[1] != UINT64_MAX)
    merge_at(b, y, tree, size, n, (uint32_t)tree[1]);
  for (uint32_t i = 0; i < n; i = y[i].next)
    out[tokens++] = (struct bpe_token){y[i].id, from + i, from + y[i].next};
  return tokens;
}

/* One piece on its way through the windows. */
struct walk {
  const struct bpe *b;
  struct bpe_long *l;
  const uint32_t *symbols;
  size_t n, window;
  uint32_t *out;
  size_t n_out;
  int now; /* whose tokens l->tokens[now] are: those of the window from `from` on */
  uint32_t from;
  size_t n_tokens, done; /* of them so many are in `out` */
  struct bpe_token last; /* the last one there */
};

static size_t merge_from(struct walk *w, uint32_t from, int which) {
  size_t n = w->n - from < w->window ? w->n - from : w->window;
  reserve(w->l, n);
  return merge_window(w->b, w->l, w->symbols, from, n, w->l->tokens[which]);
}

static void put(struct walk *w, size_t end) {
  const struct bpe_token *t = w->l->tokens[w->now];
  for (; w->done < end; w->done++)
    w->out[w->n_out++] = t[w->done].id;
  w->last = t[end - 1];
}

static bool same(const struct bpe_token *a, const struct bpe_token *b) {
  return a->start == b->start && a->end == b->end && a->id == b->id;
}

/* Merges the next window and joins it to this one. False: they have no token in common. */
static bool step(struct walk *w) {
  const struct bpe_token *t = w->l->tokens[w->now];
  uint32_t end = t[w->n_tokens - 1].end;
  size_t i = w->n_tokens - 1, k = 0;
  while (i > w->done && end - t[i].start < w->window / OVERLAP)
    i--;
  if (i <= w->done)
    return false;
  uint32_t from = t[i].start;
  size_t n = merge_from(w, from, !w->now);
  const struct bpe_token *u = w->l->tokens[!w->now];
  t = w->l->tokens[w->now];
  while (!same(&t[i], &u[k])) {
    bool forward = t[i].start <= u[k].start;
    if ((forward ? ++i : ++k) == (forward ? w->n_tokens : n))
      return false;
  }
  put(w, i + 1);
  w->now = !w->now;
  w->from = from;
  w->n_tokens = n;
  w->done = k + 1;
  return true;
}

/* Merges this window again, twice as large. What is in `out` stays when its last token is there
 * again; else the whole piece is merged at once. */
static void grow(struct walk *w) {
  w->window *= 2;
  w->n_tokens = merge_from(w, w->from, w->now);
  w->done = 0;
  if (!w->n_out)
    return;
  const struct bpe_token *t = w->l->tokens[w->now];
  while (w->done < w->n_tokens && !same(&t[w->done], &w->last))
    w->done++;
  if (w->done++ < w->n_tokens)
    return;
  w->window = w->n;
  w->n_out = w->done = 0;
  w->n_tokens = merge_from(w, 0, w->now);
}

size_t bpe_merge_long(const struct bpe *b, struct bpe_long *l, const uint32_t *symbols, size_t n,
                      uint32_t *out) {
  struct walk w = {.b = b, .l = l, .symbols = symbols, .n = n, .window = l->window, .out = out};
  if (!n)
    return 0;
  w.n_tokens = merge_from(&w, 0, 0);
  while (l->tokens[w.now][w.n_tokens - 1].end < n)
    if (!step(&w))
      grow(&w);
  put(&w, w.n_tokens);
  if (l->cap > KEEP_BYTES / sizeof *l->nodes)
    drop(l);
  if (l->cap_symbols > KEEP_BYTES / sizeof *l->symbols)
    drop_symbols(l);
  return w.n_out;
}
