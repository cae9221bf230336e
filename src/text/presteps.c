/* presteps.c: pre-tokenizers; see tokensteps.h.
 *
 * Each step cuts the pieces of the step before it; the last step's pieces are encoded at once.
 * Where the last step is a known pattern whose matches tile the text, pieces go to the vocabulary
 * in batches: the common case of every byte-level model. */
#include "text/tokensteps.h"

#include "base/mem.h"
#include "text/unicode.h"

#define BATCH 256

void presteps_free(struct presteps *p) {
  for (size_t i = 0; i < p->n; i++)
    pattern_free(&p->steps[i].pattern);
  p->n = 0;
}

static int run_step(const struct prerun *r, size_t i, const char *text, size_t len, bool first);

/* Matches and the text between them, put together by the step's behaviour. */
struct joiner {
  const struct prerun *run;
  size_t next; /* step of the pieces */
  const char *text;
  bool first;
  enum pre_behavior behavior;
  bool has, last_matched; /* a piece is held back; the segment before was a match */
  size_t start, end;
};

static int emit(struct joiner *j, size_t start, size_t end) {
  if (start == end)
    return 0;
  return run_step(j->run, j->next, j->text + start, end - start, j->first && start == 0);
}

static int flush(struct joiner *j) {
  bool has = j->has;
  j->has = false;
  return has ? emit(j, j->start, j->end) : 0;
}

/* The reference's rules, segment by segment; "merged with next" is told by it from the end. */
static int feed(struct joiner *j, size_t start, size_t end, bool matched) {
  bool join = false;
  switch (j->behavior) {
  case PRE_ISOLATED:
    return emit(j, start, end);
  case PRE_REMOVED:
    return matched ? 0 : emit(j, start, end);
  case PRE_CONTIGUOUS:
    join = j->has && matched == j->last_matched;
    break;
  case PRE_MERGED_WITH_PREVIOUS:
    join = j->has && matched && !j->last_matched;
    break;
  case PRE_MERGED_WITH_NEXT:
    join = j->has && !matched && j->last_matched;
    break;
  }
  j->last_matched = matched;
  if (join) {
    j->end = end;
    return 0;
  }
  int rc = flush(j);
  j->has = true;
  j->start = start;
  j->end = end;
  return rc;
}

static int split(const struct prerun *r, size_t i, const char *text, size_t len, bool first) {
  const struct prestep *step = &r->steps->steps[i];
  struct joiner j = {
      .run = r, .next = i + 1, .text = text, .first = first, .behavior = step->behavior};
  struct pattern_search search;
  size_t start, end, done = 0;
  int rc, found;
  pattern_begin(&search, &step->pattern, text, len);
  do {
    rc = 0;
    found = pattern_next(&search, &start, &end, r->err);
    if (found <= 0)
      start = end = len;
    if (start > done)
      rc = feed(&j, done, start, step->invert);
    if (!rc && found > 0)
      rc = feed(&j, start, end, !step->invert);
    done = end;
  } while (found > 0 && !rc);
  if (!rc && found < 0)
    rc = err_prefix(r->err, "pre_tokenizer's Split");
  else if (!rc)
    rc = flush(&j);
  pattern_end(&search);
  return rc;
}

static void split_tiles(const struct prerun *r, enum splitter s, const char *text, size_t len) {
  uint32_t ends[BATCH];
  size_t from = 0, n;
  while ((n = splitter_ends(s, text, len, from, ends, BATCH)) > 0) {
    bpe_encode_pieces(r->bpe, r->scratch, text, len, from, ends, n, r->out);
    from = ends[n - 1];
  }
}

/* A piece after the step's change, in the step's own buffer where it differs. */
static int change(const struct prerun *r, size_t i, const char **text, size_t *len, bool first) {
  const struct prestep *step = &r->steps->steps[i];
  struct buf *b = &r->bufs[i];
  size_t n = step->change == PRE_SPACE_FIRST ? 1 : strlen(step->meta);
  if (*len > b->max / 5)
    return err_set(r->err, ERR_LIMIT, "a text of %zu bytes is too long (at most %zu)", *len,
                   b->max / 5);
  buf_reset(b);
  if (step->change == PRE_SPACE_FIRST) {
    if (**text == ' ')
      return 0;
    buf_putc(b, ' ');
    buf_put(b, *text, *len);
  } else {
    const char *p = *text, *end = p + *len, *space;
    bool there = *p == ' ' || (*len >= n && memcmp(p, step->meta, n) == 0);
    if (!there && (step->change == PRE_META_ALWAYS || (step->change == PRE_META_FIRST && first)))
      buf_put(b, step->meta, n);
    for (; (space = memchr(p, ' ', (size_t)(end - p))); p = space + 1) {
      buf_put(b, p, (size_t)(space - p));
      buf_put(b, step->meta, n);
    }
    buf_put(b, p, (size_t)(end - p));
  }
  *text = b->data;
  *len = b->len;
  return 0;
}

static int run_step(const struct prerun *r, size_t i, const char *text, size_t len, bool first) {
  if (!len)
    return 0;
  if (i == r->steps->n) {
    bpe_encode(r->bpe, r->scratch, text, len, r->out);
    return 0;
  }
  const struct prestep *step = &r->steps->steps[i];
  if (step->change != PRE_AS_IS) {
    int rc = change(r, i, &text, &len, first);
    if (rc)
      return rc;
  }
  if (!step->splits)
    return run_step(r, i + 1, text, len, first);
  bool all = step->behavior == PRE_ISOLATED || (step->behavior == PRE_REMOVED && step->invert);
  if (all && step->pattern.kind == PATTERN_SPLITTER && splitter_tiles(step->pattern.splitter) &&
      i + 1 == r->steps->n) {
    split_tiles(r, step->pattern.splitter, text, len);
    return 0;
  }
  return split(r, i, text, len, first);
}

int presteps_run(const struct prerun *r, const char *text, size_t len, bool first) {
  return run_step(r, 0, text, len, first);
}
