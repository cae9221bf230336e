/* sectionmemo.c: sections of text and their ids; see sectionmemo.h. */
#include "text/sectionmemo.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

struct section {
  uint64_t hash;
  size_t len, n;
  bool first;
  uint32_t ids[]; /* n of them, then len bytes of text */
};

static const char *text_of(const struct section *s) {
  return (const char *)(s->ids + s->n);
}

static size_t bytes_of(size_t len, size_t n) {
  return sizeof(struct section) + n * sizeof(uint32_t) + len;
}

static void table_free(struct sectiontable *t) {
  for (size_t i = 0; t->slots && i <= t->mask; i++)
    mem_free(t->slots[i]);
  mem_free(t->slots);
  *t = (struct sectiontable){0};
}

void sectionmemo_init(struct sectionmemo *m, size_t max_bytes) {
  *m = (struct sectionmemo){.max_bytes = max_bytes};
}

void sectionmemo_free(struct sectionmemo *m) {
  table_free(&m->young);
  table_free(&m->old);
}

/* Where the section is, or would be. */
static size_t slot_of(const struct sectiontable *t, uint64_t hash, const char *text, size_t len,
                      bool first) {
  size_t i = hash & t->mask;
  for (const struct section *s; (s = t->slots[i]); i = (i + 1) & t->mask)
    if (s->hash == hash && s->len == len && s->first == first && memcmp(text_of(s), text, len) == 0)
      break;
  return i;
}

static void grow(struct sectiontable *t) {
  struct sectiontable old = *t;
  t->mask = old.slots ? old.mask * 2 + 1 : 63;
  t->slots = mem_calloc(t->mask + 1, sizeof(struct section *));
  for (size_t i = 0; old.slots && i <= old.mask; i++) {
    struct section *s = old.slots[i];
    if (s)
      t->slots[slot_of(t, s->hash, text_of(s), s->len, s->first)] = s;
  }
  mem_free(old.slots);
}

/* Takes s over. */
static void insert(struct sectionmemo *m, struct section *s) {
  struct sectiontable *t = &m->young;
  size_t bytes = bytes_of(s->len, s->n);
  if (t->bytes + bytes > m->max_bytes / 2) {
    table_free(&m->old);
    m->old = *t;
    *t = (struct sectiontable){0};
  }
  if (!t->slots || (t->n + 1) * 2 > t->mask)
    grow(t);
  t->slots[slot_of(t, s->hash, text_of(s), s->len, s->first)] = s;
  t->n++;
  t->bytes += bytes;
}

/* Takes the section out of the old table, closing the gap it leaves. */
static struct section *take_old(struct sectiontable *t, size_t i) {
  struct section *s = t->slots[i];
  size_t gap = i;
  t->slots[gap] = NULL;
  t->n--;
  t->bytes -= bytes_of(s->len, s->n);
  for (size_t k = (gap + 1) & t->mask; t->slots[k]; k = (k + 1) & t->mask) {
    size_t home = t->slots[k]->hash & t->mask;
    if (((k - home) & t->mask) < ((k - gap) & t->mask))
      continue;
    t->slots[gap] = t->slots[k];
    t->slots[k] = NULL;
    gap = k;
  }
  return s;
}

static void put_ids(const struct section *s, struct tokens_list *out) {
  tokens_list_reserve(out, s->n);
  if (s->n)
    memcpy(out->ids + out->n, s->ids, s->n * sizeof *out->ids);
  out->n += s->n;
}

bool sectionmemo_get(struct sectionmemo *m, const char *text, size_t len, bool first,
                     struct tokens_list *out) {
  uint64_t hash = XXH3_64bits(text, len);
  for (int old = 0; old < 2; old++) {
    struct sectiontable *t = old ? &m->old : &m->young;
    size_t i = t->slots ? slot_of(t, hash, text, len, first) : 0;
    if (!t->slots || !t->slots[i])
      continue;
    put_ids(t->slots[i], out);
    if (old)
      insert(m, take_old(t, i));
    m->found++;
    return true;
  }
  return false;
}

void sectionmemo_put(struct sectionmemo *m, const char *text, size_t len, bool first,
                     const uint32_t *ids, size_t n) {
  m->made++;
  if (bytes_of(len, n) > m->max_bytes / 4)
    return;
  struct section *s = mem_alloc(bytes_of(len, n));
  *s = (struct section){.hash = XXH3_64bits(text, len), .len = len, .n = n, .first = first};
  if (n)
    memcpy(s->ids, ids, n * sizeof *ids);
  memcpy(s->ids + n, text, len);
  insert(m, s);
}
