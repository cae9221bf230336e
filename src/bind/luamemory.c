/* luamemory.c: a small cache of strings, in sets of four slots, and the last head of a reply. */
#include "bind/luamemory.h"

#include <string.h>

#include "bind/bind.h"
#include "run/state.h"

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

bool memory_push_head(lua_State *L, const struct memory_strings *m, int kept, const char *bytes,
                      size_t len) {
  const struct memory_head *h = &m->head;
  if (!h->known || h->len != len || memcmp(h->bytes, bytes, len) != 0)
    return false;
  lua_createtable(L, 0, h->n);
  int table = lua_gettop(L);
  for (lua_Integer i = 0; i < h->n; i++) {
    lua_rawgeti(L, kept, MEMORY_STRING_PLACES + 1 + 2 * i);
    lua_rawgeti(L, kept, MEMORY_STRING_PLACES + 2 + 2 * i);
    lua_rawset(L, table);
  }
  return true;
}

void memory_note_head(lua_State *L, struct memory_strings *m, int kept, const char *bytes,
                      size_t len) {
  struct memory_head *h = &m->head;
  bool again = h->len == len && memcmp(h->bytes, bytes, len) == 0;
  h->known = false;
  h->len = 0;
  if (len == 0 || len > sizeof h->bytes)
    return;
  if (!again) {
    memcpy(h->bytes, bytes, len);
    h->len = (uint16_t)len;
    return;
  }
  int table = lua_gettop(L);
  lua_Integer n = 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (n == MEMORY_HEAD_FIELDS) {
      lua_settop(L, table);
      return;
    }
    lua_rawseti(L, kept, MEMORY_STRING_PLACES + 2 + 2 * n);
    lua_pushvalue(L, -1);
    lua_rawseti(L, kept, MEMORY_STRING_PLACES + 1 + 2 * n++);
  }
  h->len = (uint16_t)len;
  h->n = (uint8_t)n;
  h->known = true;
}

/* ---- the state's ---- */

static const char memory_key, kept_key; /* their addresses are registry keys */

/* The list goes in last: without it the memory is made anew. */
static struct memory *make_memory(lua_State *L) {
  struct memory *m = lua_newuserdatauv(L, sizeof *m, 0);
  *m = (struct memory){0};
  lua_rawsetp(L, LUA_REGISTRYINDEX, &memory_key);
  lua_createtable(L, MEMORY_ALL, 0);
  for (int i = 1; i < MEMORY_ALL; i++) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, i);
  }
  bind_push_array_type(L);
  lua_rawseti(L, -2, MEMORY_ARRAY);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kept_key);
  return m;
}

struct memory *memory_open(lua_State *L, int *kept) {
  struct state *s = state_of(L);
  struct memory *m = s ? s->memory : NULL;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kept_key) == LUA_TNIL) {
    lua_pop(L, 1);
    m = make_memory(L);
  } else if (!m) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &memory_key);
    m = lua_touserdata(L, -1);
    lua_pop(L, 1);
  }
  if (s)
    s->memory = m;
  *kept = lua_gettop(L);
  return m;
}

void bind_known_open(lua_State *L, struct bind_known *known) {
  known->memory = memory_open(L, &known->kept);
}

void bind_push_known(lua_State *L, const struct bind_known *known, const char *s, size_t len) {
  struct memory *m = known->memory;
  bool made;
  if (len == 0 || len > MEMORY_SHORT_MAX)
    lua_pushlstring(L, s, len);
  else
    memory_push(L, &m->strings, known->kept, MEMORY_HEADERS, s, len, &made);
}

bool bind_push_known_head(lua_State *L, const struct bind_known *known, const char *bytes,
                          size_t len) {
  const struct memory *m = known->memory;
  return memory_push_head(L, &m->strings, known->kept, bytes, len);
}

void bind_note_head(lua_State *L, const struct bind_known *known, const char *bytes, size_t len) {
  struct memory *m = known->memory;
  memory_note_head(L, &m->strings, known->kept, bytes, len);
}
