/* promptids.c: the ids of a prompt that grows; see promptids.h.
 *
 * A mark is kept behind each special token that was found: where the search goes on, where the
 * section behind it begins, how many ids come before. What is in front of a mark does not depend on
 * what is behind it, but for the few bytes that a longer token or white space beside it could
 * reach: those must be common too. */
#include "text/promptids.h"

#include <string.h>

#include "base/mem.h"
#include "text/json.h"
#include "text/sectionmemo.h"
#include "text/tokenizer.h"

#define PART_IDS 4096 /* in one piece of JSON: what is cut inside one is written again */
#define MOST_SECTIONS_BYTES ((size_t)800 << 20)

/* ---- buffers that grow at their end ---- */

struct promptids_trunk {
  uint32_t refs;
  size_t n, cap, each;
  char *data;
};

static void trunk_unref(struct promptids_trunk *t) {
  if (!t || --t->refs)
    return;
  mem_free(t->data);
  mem_free(t);
}

static struct promptids_trunk *trunk_ref(struct promptids_trunk *t) {
  if (t)
    t->refs++;
  return t;
}

static struct promptids_trunk *trunk_new(size_t each, size_t cap) {
  struct promptids_trunk *t = MEM_NEW(struct promptids_trunk);
  *t = (struct promptids_trunk){.refs = 1, .each = each, .cap = cap};
  t->data = mem_calloc(cap ? cap : 1, each);
  return t;
}

/* The first `keep` items stay and n follow. In place, unless somebody else uses what lies behind
 * the first `keep`. */
static void trunk_change(struct promptids_trunk **at, size_t each, size_t keep, const void *items,
                         size_t n) {
  struct promptids_trunk *t = *at;
  if (!t || (t->refs > 1 && keep < t->n)) {
    struct promptids_trunk *own = trunk_new(each, keep + n);
    assert(t || !keep);
    if (t && keep)
      memcpy(own->data, t->data, keep * each);
    trunk_unref(t);
    *at = t = own;
  }
  if (t->cap < keep + n) {
    t->cap = keep + n > t->cap * 2 ? keep + n : t->cap * 2;
    t->data = mem_resize(t->data, t->cap, each);
  }
  if (n && items)
    memcpy(t->data + keep * each, items, n * each);
  t->n = keep + n;
}

/* How many of the n items are there already behind the first `keep`: what only grows is never
 * copied. */
static size_t trunk_same(const struct promptids_trunk *t, size_t have, size_t keep,
                         const void *items, size_t n) {
  size_t same = 0, most = have - keep < n ? have - keep : n;
  const char *new = items;
  assert(items || !n);
  while (same < most &&
         memcmp(t->data + (keep + same) * t->each, new + same * t->each, t->each) == 0)
    same++;
  return same;
}

/* ---- what was sent ---- */

/* Ids from `keep` on are about to go: those that were sent are put aside. */
static void put_aside(struct promptids *p, size_t keep) {
  struct promptids_sent *s = &p->sent;
  if (keep >= s->shared)
    return;
  size_t more = s->shared - keep;
  uint32_t *rest = mem_calloc(more + s->n_rest, sizeof *rest);
  memcpy(rest, promptids_ids(p) + keep, more * sizeof *rest);
  if (s->n_rest)
    memcpy(rest + more, s->rest, s->n_rest * sizeof *rest);
  mem_free(s->rest);
  *s = (struct promptids_sent){.shared = keep, .rest = rest, .n_rest = more + s->n_rest};
}

void promptids_send(struct promptids *p) {
  mem_free(p->sent.rest);
  p->sent = (struct promptids_sent){.shared = p->n};
}

size_t promptids_survived(const struct promptids *p) {
  const struct promptids_sent *s = &p->sent;
  const uint32_t *ids = promptids_ids(p);
  size_t i = 0;
  while (i < s->n_rest && s->shared + i < p->n && ids[s->shared + i] == s->rest[i])
    i++;
  return s->shared + i;
}

/* ---- marks ---- */

struct mark {
  struct added_place place;
  size_t n; /* ids before it */
};

static const struct mark *marks_of(const struct promptids *p) {
  return p->marks ? (const struct mark *)(const void *)p->marks->data : NULL;
}

/* The longest text that decides whether and where a token is found, counted from its end. */
static size_t reach_of(const struct addedtokens *a) {
  size_t most = 0;
  for (size_t i = 0; i < a->n; i++)
    most = a->tokens[i].len > most ? a->tokens[i].len : most;
  return most + 4; /* and a character behind it */
}

/* How many marks lie safely within the first `common` bytes. */
static size_t safe_marks(const struct promptids *p, size_t common, size_t reach) {
  const struct mark *marks = marks_of(p);
  size_t lo = 0, hi = p->n_marks;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    const struct added_place *place = &marks[mid].place;
    size_t end = place->taken > place->at ? place->taken : place->at;
    if (end + reach <= common)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* How many bytes of the text are there already behind the first `keep`. */
static size_t common_bytes(const struct promptids *p, size_t keep, const char *text, size_t len) {
  size_t most = p->len - keep < len ? p->len - keep : len, at = 0;
  if (!most)
    return 0;
  const char *old = p->text->data + keep;
  for (size_t step = 4096; at + step <= most && memcmp(old + at, text + at, step) == 0;)
    at += step;
  while (at < most && old[at] == text[at])
    at++;
  return at;
}

/* ---- tokenizing ---- */

struct promptids_memo {
  struct tokens_encoder *e;
  struct sectionmemo sections;
  size_t reach;
  struct tokens_list ids; /* of the change under way */
  struct mark *marks;
  size_t n_marks, cap_marks;
};

struct promptids_memo *promptids_memo_new(struct tokens_encoder *e, size_t max_bytes) {
  struct promptids_memo *m = MEM_NEW(struct promptids_memo);
  m->e = e;
  if (e->tokens->kind == TOKENS_BPE)
    m->reach = reach_of(&tokenizer_of(e->tokens)->raw);
  sectionmemo_init(&m->sections, max_bytes);
  return m;
}

void promptids_memo_delete(struct promptids_memo *m) {
  if (!m)
    return;
  sectionmemo_free(&m->sections);
  tokens_list_free(&m->ids);
  mem_free(m->marks);
  mem_free(m);
}

void promptids_memo_stats(const struct promptids_memo *m, uint64_t *found, uint64_t *made) {
  *found = m->sections.found;
  *made = m->sections.made;
}

static int add_section(struct promptids_memo *m, const char *text, size_t len, bool first,
                       struct err *err) {
  if (!len)
    return 0;
  if (sectionmemo_get(&m->sections, text, len, first, &m->ids))
    return 0;
  size_t before = m->ids.n;
  int rc = tokenizer_encode_section(m->e, text, len, first, &m->ids, err);
  if (!rc)
    sectionmemo_put(&m->sections, text, len, first, m->ids.ids + before, m->ids.n - before);
  return rc;
}

static void add_mark(struct promptids_memo *m, const struct added_place *place, size_t n) {
  MEM_GROW(m->marks, m->n_marks, m->cap_marks);
  m->marks[m->n_marks++] = (struct mark){*place, n};
}

/* Ids and marks of what is behind `from`, the ids before which are `before`. */
static int encode_behind(struct promptids_memo *m, const char *text, size_t len,
                         struct added_place from, size_t before, struct err *err) {
  const struct addedtokens *raw = &tokenizer_of(m->e->tokens)->raw;
  struct added_match match;
  size_t done = from.taken;
  int rc = 0;
  while (!rc && addedtokens_next(raw, text, len, true, &from, &match)) {
    if (match.start > done)
      rc = add_section(m, text + done, match.start - done, done == 0, err);
    tokens_list_reserve(&m->ids, 1);
    m->ids.ids[m->ids.n++] = match.id;
    done = match.end;
    add_mark(m, &from, before + m->ids.n);
  }
  if (!rc && done < len)
    rc = add_section(m, text + done, len - done, done == 0, err);
  return rc;
}

/* ---- changing ---- */

static void drop_parts(struct promptids *p, size_t keep) {
  while (p->n_parts > keep)
    blob_unref(p->parts[--p->n_parts].json);
}

/* Of the JSON, what holds kept ids alone; a part that is cut is written again. */
static void keep_parts(struct promptids *p, size_t kept) {
  size_t keep = p->n_parts;
  while (keep && p->parts[keep - 1].end > kept)
    keep--;
  drop_parts(p, keep);
}

static void commit(struct promptids *p, size_t kept, const uint32_t *ids, size_t n) {
  size_t before = p->n;
  size_t same = p->ids ? trunk_same(p->ids, p->n, kept, ids, n) : 0;
  p->kept = kept + same;
  put_aside(p, p->kept);
  trunk_change(&p->ids, sizeof *ids, p->kept, n > same ? ids + same : NULL, n - same);
  keep_parts(p, p->kept);
  p->n = kept + n;
  if (p->kept != before || p->n != before)
    p->firm = p->kept;
  p->changes++;
}

static void commit_marks(struct promptids *p, size_t keep, const struct mark *marks, size_t n) {
  size_t same = p->marks ? trunk_same(p->marks, p->n_marks, keep, marks, n) : 0;
  trunk_change(&p->marks, sizeof *marks, keep + same, n > same ? marks + same : NULL, n - same);
  p->n_marks = keep + n;
}

static int set_bytes(struct promptids *p, struct promptids_memo *m, const char *text, size_t len,
                     size_t common, struct err *err) {
  m->ids.n = 0;
  int rc = tokens_encoder_encode(m->e, text + common, len - common, NULL, &m->ids, err);
  if (!rc)
    commit(p, common, m->ids.ids, m->ids.n);
  return rc;
}

/* The ids of a text of which `common` bytes are as they were for the ids that are there. */
static int set_ids_of(struct promptids *p, struct promptids_memo *m, const char *text, size_t len,
                      size_t common, struct err *err) {
  const struct tokens_options special = {.special = true};
  size_t kept = 0, keep_marks = safe_marks(p, common, m->reach);
  struct added_place from = {0};
  int rc;
  if (keep_marks) {
    from = marks_of(p)[keep_marks - 1].place;
    kept = marks_of(p)[keep_marks - 1].n;
  }
  m->ids.n = m->n_marks = 0;
  if (len >= MOST_SECTIONS_BYTES || json_utf8_valid(text + from.taken, len - from.taken) <
                                        len - from.taken) { /* mended as a whole, or refused */
    keep_marks = kept = 0;
    rc = tokens_encoder_encode(m->e, text, len, &special, &m->ids, err);
  } else {
    rc = encode_behind(m, text, len, from, kept, err);
  }
  if (rc)
    return rc;
  commit(p, kept, m->ids.ids, m->ids.n);
  commit_marks(p, keep_marks, m->marks, m->n_marks);
  return 0;
}

int promptids_set_tail(struct promptids *p, struct promptids_memo *m, size_t common,
                       const char *tail, size_t len, struct err *err) {
  size_t old_len = p->len, lost = old_len - common;
  bool bytes = m->e->tokens->kind == TOKENS_BYTES, known = p->n == old_len;
  assert(common <= old_len);
  if (!len && !lost && old_len) {
    p->kept = p->n;
    return 0;
  }
  char *before = lost ? mem_dup(p->text->data + common, lost) : NULL; /* mostly short */
  trunk_change(&p->text, 1, common, tail, len);
  p->len = common + len;
  int rc = bytes ? set_bytes(p, m, p->text->data, p->len, known ? common : 0, err)
                 : set_ids_of(p, m, p->text->data, p->len, common, err);
  if (rc) {
    trunk_change(&p->text, 1, common, before, lost);
    p->len = old_len;
  }
  mem_free(before);
  return rc;
}

int promptids_set_from(struct promptids *p, struct promptids_memo *m, size_t keep, const char *text,
                       size_t len, struct err *err) {
  assert(keep <= p->len);
  size_t common = common_bytes(p, keep, text, len);
  return promptids_set_tail(p, m, keep + common, text + common, len - common, err);
}

int promptids_set_text(struct promptids *p, struct promptids_memo *m, const char *text, size_t len,
                       struct err *err) {
  return promptids_set_from(p, m, 0, text, len, err);
}

const char *promptids_text(const struct promptids *p) {
  return p->text ? p->text->data : NULL;
}

void promptids_set_ids(struct promptids *p, const uint32_t *ids, size_t n) {
  const uint32_t *old = promptids_ids(p);
  size_t most = p->n < n ? p->n : n, kept = 0;
  while (kept < most && old[kept] == ids[kept])
    kept++;
  promptids_set_behind(p, kept, n > kept ? ids + kept : NULL, n - kept);
}

void promptids_set_behind(struct promptids *p, size_t keep, const uint32_t *ids, size_t n) {
  assert(keep <= p->n);
  commit(p, keep, ids, n);
  trunk_change(&p->marks, sizeof(struct mark), 0, NULL, 0);
  trunk_change(&p->text, 1, 0, NULL, 0);
  p->n_marks = p->len = 0;
}

/* ---- looking ---- */

const uint32_t *promptids_ids(const struct promptids *p) {
  return p->ids ? (const uint32_t *)(const void *)p->ids->data : NULL;
}

size_t promptids_firm(const struct promptids *p, size_t loose) {
  return p->n_marks > loose ? marks_of(p)[p->n_marks - 1 - loose].n : p->firm;
}

void promptids_write(struct promptids *p) {
  const uint32_t *ids = promptids_ids(p);
  size_t at = p->n_parts ? p->parts[p->n_parts - 1].end : 0;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  while (ids && at < p->n) {
    size_t end = p->n - at < PART_IDS ? p->n : at + PART_IDS;
    for (; at < end; at++) {
      if (at)
        buf_putc(&b, ',');
      buf_put_uint(&b, ids[at]);
    }
    MEM_GROW(p->parts, p->n_parts, p->cap_parts);
    p->parts[p->n_parts++] = (struct promptids_part){blob_from_buf(&b), end};
  }
  buf_free(&b);
}

/* ---- life ---- */

void promptids_init(struct promptids *p) {
  *p = (struct promptids){0};
}

void promptids_free(struct promptids *p) {
  drop_parts(p, 0);
  mem_free(p->parts);
  mem_free(p->sent.rest);
  trunk_unref(p->ids);
  trunk_unref(p->text);
  trunk_unref(p->marks);
  *p = (struct promptids){0};
}

void promptids_fork(const struct promptids *p, struct promptids *out) {
  *out = *p;
  trunk_ref(out->ids);
  trunk_ref(out->text);
  trunk_ref(out->marks);
  if (p->sent.n_rest)
    out->sent.rest = mem_dup(p->sent.rest, p->sent.n_rest * sizeof *p->sent.rest);
  out->cap_parts = out->n_parts;
  out->parts = p->n_parts ? mem_dup(p->parts, p->n_parts * sizeof *p->parts) : NULL;
  for (size_t i = 0; out->parts && i < out->n_parts; i++)
    blob_ref(out->parts[i].json);
}
