/* chainlog.c: see chainlog.h. Names are hashes: their low bits serve as they are. */
#include "sim/chainlog.h"

#include "base/mem.h"

enum { FIRST_SLOTS = 1024 };

void chainlog_init(struct chainlog *c) {
  *c = (struct chainlog){.names = mem_calloc(FIRST_SLOTS, sizeof *c->names),
                         .numbers = mem_calloc(FIRST_SLOTS, sizeof *c->numbers),
                         .mask = FIRST_SLOTS - 1};
}

void chainlog_free(struct chainlog *c) {
  mem_free(c->names);
  mem_free(c->numbers);
  *c = (struct chainlog){0};
}

/* Where the name is, or the empty slot where it would go. */
static size_t slot_of(const struct chainlog *c, uint64_t name) {
  size_t i = (size_t)name & c->mask;
  while (c->numbers[i] && c->names[i] != name)
    i = (i + 1) & c->mask;
  return i;
}

static void grow(struct chainlog *c) {
  struct chainlog old = *c;
  c->mask = old.mask * 2 + 1;
  c->names = mem_calloc(c->mask + 1, sizeof *c->names);
  c->numbers = mem_calloc(c->mask + 1, sizeof *c->numbers);
  for (size_t i = 0; i <= old.mask; i++) {
    if (!old.numbers[i])
      continue;
    size_t to = slot_of(c, old.names[i]);
    c->names[to] = old.names[i];
    c->numbers[to] = old.numbers[i];
  }
  chainlog_free(&old);
}

static void add(struct chainlog *c, uint64_t name) {
  if (c->n >= c->mask / 2)
    grow(c);
  size_t i = slot_of(c, name);
  c->names[i] = name;
  c->numbers[i] = ++c->n;
}

/* Whoever knows a block knows those before it, so the border is found by halves. */
static uint32_t known_of(const struct chainlog *c, const uint64_t *names, uint32_t n) {
  uint32_t low = 0, high = n; /* `low` blocks are known, high + 1 are not */
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (c->numbers[slot_of(c, names[middle - 1])])
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

struct chainlog_told chainlog_tell(struct chainlog *c, const uint64_t *names, uint32_t n) {
  uint32_t known = known_of(c, names, n);
  struct chainlog_told told = {.fresh = n - known};
  if (known)
    told.after = c->numbers[slot_of(c, names[known - 1])];
  for (uint32_t i = known; i < n; i++)
    add(c, names[i]);
  return told;
}
