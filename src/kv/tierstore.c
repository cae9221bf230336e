/* tierstore.c: a least-recently-used list in an array, and a table that finds names in it.
 *
 * Entry 0 is the list's sentinel: its next is the least recently used entry, its prev the most
 * recently used one. The table keeps entry numbers, 0 = empty slot, and at most half of its slots
 * are used. */
#include "kv/tierstore.h"

#include <string.h>

#include "base/mem.h"

struct entry {
  uint64_t name;
  uint32_t prev, next;
};

struct tierstore {
  struct entry *entries;
  size_t n_entries, cap_entries; /* the sentinel included */
  uint32_t *slots;
  size_t mask;
  uint32_t capacity;
};

enum { FIRST_SLOTS = 16 };

struct tierstore *tierstore_new(uint32_t capacity) {
  assert(capacity);
  struct tierstore *s = MEM_NEW(struct tierstore);
  s->capacity = capacity;
  MEM_GROW(s->entries, s->n_entries, s->cap_entries);
  s->entries[s->n_entries++] = (struct entry){0};
  s->slots = mem_calloc(FIRST_SLOTS, sizeof *s->slots);
  s->mask = FIRST_SLOTS - 1;
  return s;
}

void tierstore_delete(struct tierstore *s) {
  if (!s)
    return;
  mem_free(s->entries);
  mem_free(s->slots);
  mem_free(s);
}

/* Where the name is, or the empty slot where it would go. Names are hashes: their low bits serve.
 */
static size_t slot_of(const struct tierstore *s, uint64_t name) {
  size_t i = (size_t)name & s->mask;
  while (s->slots[i] && s->entries[s->slots[i]].name != name)
    i = (i + 1) & s->mask;
  return i;
}

static void grow_slots(struct tierstore *s) {
  mem_free(s->slots);
  s->mask = s->mask * 2 + 1;
  s->slots = mem_calloc(s->mask + 1, sizeof *s->slots);
  for (uint32_t id = 1; id < s->n_entries; id++)
    s->slots[slot_of(s, s->entries[id].name)] = id;
}

/* Empties a slot and moves later ones of its cluster up, so that no search stops early. */
static void slot_remove(struct tierstore *s, size_t i) {
  for (size_t j = (i + 1) & s->mask; s->slots[j]; j = (j + 1) & s->mask) {
    size_t home = (size_t)s->entries[s->slots[j]].name & s->mask;
    if (((j - home) & s->mask) >= ((j - i) & s->mask)) {
      s->slots[i] = s->slots[j];
      i = j;
    }
  }
  s->slots[i] = 0;
}

static void unlink_entry(struct tierstore *s, uint32_t id) {
  struct entry *e = &s->entries[id];
  s->entries[e->prev].next = e->next;
  s->entries[e->next].prev = e->prev;
}

static void append_entry(struct tierstore *s, uint32_t id) {
  uint32_t last = s->entries[0].prev;
  s->entries[id].prev = last;
  s->entries[id].next = 0;
  s->entries[last].next = id;
  s->entries[0].prev = id;
}

bool tierstore_has(const struct tierstore *s, uint64_t name) {
  return s->slots[slot_of(s, name)] != 0;
}

bool tierstore_touch(struct tierstore *s, uint64_t name) {
  uint32_t id = s->slots[slot_of(s, name)];
  if (!id)
    return false;
  unlink_entry(s, id);
  append_entry(s, id);
  return true;
}

enum tierstore_put tierstore_put(struct tierstore *s, uint64_t name, uint64_t *evicted) {
  if (tierstore_touch(s, name))
    return TIERSTORE_KNOWN;
  enum tierstore_put result = TIERSTORE_ADDED;
  uint32_t id;
  if (tierstore_count(s) == s->capacity) {
    id = s->entries[0].next;
    *evicted = s->entries[id].name;
    slot_remove(s, slot_of(s, *evicted));
    unlink_entry(s, id);
    result = TIERSTORE_EVICTED;
  } else {
    if (s->n_entries > s->mask / 2)
      grow_slots(s);
    MEM_GROW(s->entries, s->n_entries, s->cap_entries);
    id = (uint32_t)s->n_entries++;
  }
  s->entries[id].name = name;
  append_entry(s, id);
  s->slots[slot_of(s, name)] = id;
  return result;
}

void tierstore_clear(struct tierstore *s) {
  s->n_entries = 1;
  s->entries[0] = (struct entry){0};
  memset(s->slots, 0, (s->mask + 1) * sizeof *s->slots);
}

uint32_t tierstore_count(const struct tierstore *s) {
  return (uint32_t)(s->n_entries - 1);
}

uint32_t tierstore_capacity(const struct tierstore *s) {
  return s->capacity;
}

uint64_t tierstore_at(const struct tierstore *s, uint32_t i) {
  assert(i < tierstore_count(s));
  uint32_t id = s->entries[0].next;
  while (i--)
    id = s->entries[id].next;
  return s->entries[id].name;
}
