/* luamemory.c: a small cache of strings, in sets of four slots. */
#include "bind/luamemory.h"

#include <string.h>

#define SETS (MEMORY_SLOTS / MEMORY_WAYS)

static inline uint64_t load8(const char *s) {
  uint64_t x;
  memcpy(&x, s, sizeof x);
  return x;
}

/* Of its length, beginning and end: texts that are alike differ there. */
static inline uint32_t hash_of(const char *s, size_t len) {
  uint64_t x = len * UINT64_C(0xD6E8FEB86659FD93);
  if (len >= 8) {
    uint64_t end = load8(s + len - 8);
    x += load8(s) ^ (end << 29 | end >> 35);
  } else if (len >= 4) {
    uint32_t head, tail;
    memcpy(&head, s, 4);
    memcpy(&tail, s + len - 4, 4);
    x += (uint64_t)tail << 32 | head;
  } else {
    x += (uint64_t)(unsigned char)s[0] | (uint64_t)(unsigned char)s[len / 2] << 8 |
         (uint64_t)(unsigned char)s[len - 1] << 16;
  }
  return (uint32_t)(x * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

/* The place that is given away: one that was not used since it was last passed over. */
static unsigned make_room(struct memory_set *set) {
  for (;;) {
    unsigned i = set->hand = (set->hand + 1) % MEMORY_WAYS;
    if (!set->used[i])
      return i;
    set->used[i] = false;
  }
}

static COLD void push_new(lua_State *L, struct memory_set *set, unsigned i, int kept,
                          lua_Integer at, const char *s, size_t len, uint32_t hash) {
  set->len[i] = 0; /* whatever raises below: nothing is there */
  const char *bytes = lua_pushlstring(L, s, len);
  lua_pushvalue(L, -1);
  lua_rawseti(L, kept, at);
  set->bytes[i] = bytes;
  set->hash[i] = hash;
  set->len[i] = (uint8_t)len;
}

size_t memory_push(lua_State *L, struct memory_strings *m, int kept, enum memory_kind kind,
                   const char *s, size_t len, bool *made) {
  uint32_t hash = hash_of(s, len);
  size_t from = (size_t)(hash & (SETS - 1)) * MEMORY_WAYS;
  lua_Integer at = (lua_Integer)((size_t)kind * MEMORY_SLOTS + from) + 1;
  struct memory_set *set = &m->sets[(size_t)kind * SETS + (hash & (SETS - 1))];
  *made = false;
  for (unsigned i = 0; i < MEMORY_WAYS; i++) {
    if (set->hash[i] != hash || set->len[i] != len || memcmp(set->bytes[i], s, len) != 0)
      continue;
    set->used[i] = true;
    lua_rawgeti(L, kept, at + i);
    return from + i;
  }
  unsigned i = make_room(set);
  *made = true;
  push_new(L, set, i, kept, at + i, s, len, hash);
  return from + i;
}
