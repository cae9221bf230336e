/* luawrite.c: Lua values straight into canonical JSON, without a struct value in between.
 *
 * Request bodies are made of small plain tables, one per request, so this is a hot path. It knows
 * numbers, strings, lists, arrays of perigee.json and tables with string keys; anything else
 * (texts, shared data, ordered objects, what JSON cannot hold) goes the long way through
 * bind_to_value, which also has the messages. The bytes are the same either way. */
#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/hold.h"
#include "text/json.h"

#define MAX_KEYS 32
#define MAX_DEPTH 40
#define WALK_ROOM 8

static bool write_any(lua_State *L, int index, struct buf *b, int depth);

/* The first bytes as a number that orders as they do. */
static uint64_t head_of(const char *key, size_t len) {
  uint64_t head = 0;
  if (len >= 8) {
    memcpy(&head, key, 8);
  } else if (len >= 4 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) { /* no call for a few bytes */
    uint32_t from, to;
    memcpy(&from, key, 4);
    memcpy(&to, key + len - 4, 4);
    head = from | (uint64_t)to << 8 * (len - 4);
  } else {
    memcpy(&head, key, len);
  }
  return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap64(head) : head;
}

static bool comes_before(const struct bind_entry *a, const struct bind_entry *b) {
  if (a->head != b->head)
    return a->head < b->head;
  int order = memcmp(a->key, b->key, a->len < b->len ? a->len : b->len);
  return order ? order < 0 : a->len < b->len;
}

/* The keys are 1..n and nothing else: that is seen while they are written, as a list's come in
 * order. Those that do not go the long way. */
static bool write_list(lua_State *L, int index, lua_Integer n, struct buf *b, int depth) {
  lua_Integer seen = 0;
  int value = lua_gettop(L) + 2;
  buf_putc(b, '[');
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) != ++seen)
      return false;
    if (seen > 1)
      buf_putc(b, ',');
    if (!write_any(L, value, b, depth))
      return false;
    lua_pop(L, 1);
  }
  buf_putc(b, ']');
  return seen == n;
}

int bind_sorted_entries(lua_State *L, int index, struct bind_entry *entries, int max) {
  int n = 0;
  index = lua_absindex(L, index);
  luaL_checkstack(L, 2 * WALK_ROOM + 8, "table walk");
  if (lua_getmetatable(L, index)) /* what its entries are, the metatable may say */
    return -1;
  int top = lua_gettop(L) + 2; /* of the entry that comes next: key, value */
  lua_pushnil(L);
  for (; lua_next(L, index); top += 2) {
    if (n == max || lua_type(L, top - 1) != LUA_TSTRING)
      return -1;
    struct bind_entry e = {.at = top};
    e.key = lua_tolstring(L, top - 1, &e.len);
    e.head = head_of(e.key, e.len);
    int i = n++;
    for (; i > 0 && comes_before(&e, &entries[i - 1]); i--)
      entries[i] = entries[i - 1];
    entries[i] = e;
    if (n % WALK_ROOM == 0) /* an entry takes two places */
      luaL_checkstack(L, 2 * WALK_ROOM + 8, "table walk");
    lua_pushvalue(L, top - 1); /* where to go on from */
  }
  return n;
}

static bool write_entries(lua_State *L, int index, struct buf *b, int depth) {
  struct bind_entry entries[MAX_KEYS];
  int n = bind_sorted_entries(L, index, entries, MAX_KEYS);
  if (n < 0)
    return false;
  buf_putc(b, '{');
  for (int i = 0; i < n; i++) {
    if (i)
      buf_putc(b, ',');
    json_write_string(b, entries[i].key, entries[i].len);
    buf_putc(b, ':');
    if (!write_any(L, entries[i].at, b, depth))
      return false;
  }
  buf_putc(b, '}');
  return true;
}

static bool write_table(lua_State *L, int index, struct buf *b, int depth) {
  if (depth >= MAX_DEPTH)
    return false;
  luaL_checkstack(L, 8, "nested values");
  bool array = false;
  if (lua_getmetatable(L, index)) {
    lua_pop(L, 1);
    array = bind_is_array(L, index);
    if (!array)
      return false;
  }
  lua_Integer n = (lua_Integer)lua_rawlen(L, index);
  if (array || n > 0)
    return write_list(L, index, n, b, depth + 1);
  return write_entries(L, index, b, depth + 1);
}

/* False: not for here; `b` and the stack hold anything. `index` is absolute. */
static bool write_any(lua_State *L, int index, struct buf *b, int depth) {
  size_t len;
  const char *s;
  switch (lua_type(L, index)) {
  case LUA_TSTRING:
    s = lua_tolstring(L, index, &len);
    json_write_string(b, s, len);
    return true;
  case LUA_TNUMBER:
    if (lua_isinteger(L, index))
      buf_put_int(b, lua_tointeger(L, index));
    else if (isfinite(lua_tonumber(L, index)))
      json_write_double(b, lua_tonumber(L, index));
    else
      return false;
    return true;
  case LUA_TBOOLEAN:
    buf_puts(b, lua_toboolean(L, index) ? "true" : "false");
    return true;
  case LUA_TTABLE: {
    int top = lua_gettop(L);
    bool ok = write_table(L, index, b, depth);
    lua_settop(L, top);
    return ok;
  }
  case LUA_TLIGHTUSERDATA:
    if (lua_touserdata(L, index))
      return false;
    buf_puts(b, "null");
    return true;
  default:
    return false;
  }
}

void bind_write_json(lua_State *L, int index, struct buf *b) {
  index = lua_absindex(L, index);
  int top = lua_gettop(L);
  size_t before = b->len;
  luaL_checkstack(L, 8, "nested values");
  if (write_any(L, index, b, 0))
    return;
  lua_settop(L, top);
  b->len = before;
  struct value *v = bind_hold_value(L);
  bind_to_value(L, index, v);
  json_write(b, v);
  value_free(v);
  *v = value_null();
  lua_settop(L, top);
}
