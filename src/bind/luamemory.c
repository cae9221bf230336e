/* luamemory.c: a small cache of strings, in sets of four slots, and the last heads of replies. */
#include "bind/luamemory.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

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

/* The place of a head that is remembered; MEMORY_HEADS: it is not. */
static unsigned find_head(const struct memory_strings *m, const char *bytes, size_t len,
                          uint64_t key) {
  for (unsigned i = 0; i < MEMORY_HEADS; i++)
    if (m->head_keys[i] == key && m->heads[i].len == len &&
        memcmp(m->heads[i].bytes, bytes, len) == 0)
      return i;
  return MEMORY_HEADS;
}

/* Where the fields of a head begin in the list. */
static lua_Integer head_place(unsigned i) {
  return MEMORY_STRING_PLACES + 1 + (lua_Integer)i * 2 * MEMORY_HEAD_FIELDS;
}

bool memory_push_head(lua_State *L, const struct memory_strings *m, int kept, const char *bytes,
                      size_t len) {
  if (len == 0 || len > MEMORY_HEAD_BYTES)
    return false;
  unsigned i = find_head(m, bytes, len, XXH3_64bits(bytes, len));
  if (i == MEMORY_HEADS || !m->heads[i].known)
    return false;
  lua_Integer at = head_place(i), end = at + (lua_Integer)2 * m->heads[i].n;
  lua_createtable(L, 0, m->heads[i].n);
  int table = lua_gettop(L);
  for (; at < end; at += 2) {
    lua_rawgeti(L, kept, at);
    lua_rawgeti(L, kept, at + 1);
    lua_rawset(L, table);
  }
  return true;
}

/* The second time: its fields are the strings of the table on top. */
static void keep_fields(lua_State *L, struct memory_strings *m, int kept, unsigned i) {
  int table = lua_gettop(L);
  lua_Integer n = 0, at = head_place(i);
  m->heads[i].known = false;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (n == MEMORY_HEAD_FIELDS) {
      lua_settop(L, table);
      return;
    }
    lua_rawseti(L, kept, at + 2 * n + 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, kept, at + 2 * n++);
  }
  m->heads[i].n = (uint8_t)n;
  m->heads[i].known = true;
}

void memory_note_head(lua_State *L, struct memory_strings *m, int kept, const char *bytes,
                      size_t len) {
  if (len == 0 || len > MEMORY_HEAD_BYTES)
    return;
  uint64_t key = XXH3_64bits(bytes, len);
  unsigned i = find_head(m, bytes, len, key);
  if (i < MEMORY_HEADS) {
    keep_fields(L, m, kept, i);
    return;
  }
  i = m->head_hand++ % MEMORY_HEADS;
  struct memory_head *h = &m->heads[i];
  memcpy(h->bytes, bytes, len);
  h->len = (uint16_t)len;
  h->known = false;
  m->head_keys[i] = key;
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
