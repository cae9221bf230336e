/* luaread.c: JSON text straight into Lua tables, without a struct value in between.
 *
 * Sessions decode a reply per request, so this is a hot path. It reads well-formed text; whatever
 * it does not know (an error, a repeated key, deep nesting) goes the long way through json_parse,
 * which also has the messages. What is pushed is the same either way.
 *
 * Replies are alike, so a state remembers the keys it has read, to make no string of the same bytes
 * again, and the shapes of objects, which then share one list of keys. */
#include <lauxlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/hold.h"
#include "text/json_scan.h"
#include "text/utf8.h"

#define GATHERED 12 /* entries that wait on the stack until the table's size is known */
#define MAX_DEPTH 60
#define LEFT_OUT 16 /* null entries of one object that are kept in mind */

#define KEY_SLOTS 128 /* powers of 2 */
#define SHAPE_SLOTS 32
#define KEY_MAX 40 /* strings up to here are interned: equal ones have the same address */

/* What a state remembers. Strings and lists live in the list `kept`: slot i of the keys at i + 1,
 * of the shapes at KEY_SLOTS + i + 1. */
struct memory {
  struct {
    const char *bytes;
    size_t len; /* 0: nothing here */
  } keys[KEY_SLOTS];
  struct {
    const char *keys[GATHERED];
    int n;
  } shapes[SHAPE_SLOTS];
};

static const char memory_key; /* its address is a registry key */

struct reader {
  lua_State *L;
  struct memory *memory;
  int kept; /* stack index */
  const char *cur, *end;
  struct buf *escaped; /* a string that had escapes */
  bool keep_null;      /* of objects */
  int depth;
};

/* Keys of an object that were left out for their null value, as written. One that comes again
 * stands where it stood first, which only the long way knows how to do. */
struct left_out {
  const char *key[LEFT_OUT];
  size_t len[LEFT_OUT];
  int n;
};

/* An object on its way: base is the stack's top before it. */
struct entries {
  int base;
  lua_Integer n;
  const char *address[GATHERED]; /* of the first keys' strings; NULL: not interned for sure */
  struct left_out out;
};

static bool read_any(struct reader *r);

static bool take(struct reader *r, char c) {
  r->cur = json_skip_space(r->cur, r->end);
  if (r->cur == r->end || *r->cur != c)
    return false;
  r->cur++;
  return true;
}

/* Behind its opening quote; pushes it. */
static bool read_string(struct reader *r) {
  const char *run = r->cur;
  bool copied = false;
  for (;;) {
    r->cur = json_plain_run(r->cur, r->end);
    if (r->cur == r->end)
      return false;
    uint32_t cp;
    if (*r->cur == '"') {
      break;
    } else if ((unsigned char)*r->cur >= 0x80) {
      unsigned n = utf8_decode(r->cur, r->end, &cp);
      if (!n)
        return false;
      r->cur += n;
    } else {
      if (!copied)
        buf_reset(r->escaped);
      copied = true;
      buf_put(r->escaped, run, (size_t)(r->cur - run));
      if (*r->cur != '\\' || json_scan_escape(&r->cur, r->end, &cp) != JSON_ESCAPE_OK)
        return false;
      char bytes[4];
      buf_put(r->escaped, bytes, utf8_encode(cp, bytes));
      run = r->cur;
    }
  }
  size_t len = (size_t)(r->cur - run);
  r->cur++;
  if (copied)
    buf_put(r->escaped, run, len);
  lua_pushlstring(r->L, copied ? r->escaped->data : run, copied ? r->escaped->len : len);
  return true;
}

/* Makes the table of the gathered values above `base` and leaves it alone there. */
static void make_array(lua_State *L, int base, int n) {
  bind_push_array_for(L, (size_t)n);
  lua_insert(L, base + 1);
  for (int i = n; i >= 1; i--)
    lua_rawseti(L, base + 1, i);
}

static bool read_array(struct reader *r) {
  lua_State *L = r->L;
  int base = lua_gettop(L);
  lua_Integer n = 0;
  if (!take(r, ']')) {
    do {
      if (!read_any(r))
        return false;
      n++;
      if (n > GATHERED)
        lua_rawseti(L, base + 1, n);
      else if (n == GATHERED)
        make_array(L, base, GATHERED);
    } while (take(r, ','));
    if (!take(r, ']'))
      return false;
  }
  if (n < GATHERED)
    make_array(L, base, (int)n);
  return true;
}

/* ---- objects ---- */

static void push_memory(lua_State *L, struct reader *r) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &memory_key) == LUA_TNIL) {
    lua_pop(L, 1);
    r->memory = lua_newuserdatauv(L, sizeof *r->memory, 1);
    *r->memory = (struct memory){0};
    lua_createtable(L, KEY_SLOTS + SHAPE_SLOTS, 0);
    for (int i = 1; i <= KEY_SLOTS + SHAPE_SLOTS; i++) {
      lua_pushboolean(L, 0);
      lua_rawseti(L, -2, i);
    }
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &memory_key);
  }
  r->memory = lua_touserdata(L, -1);
  lua_getiuservalue(L, -1, 1);
  lua_replace(L, -2);
  r->kept = lua_gettop(L);
}

/* Behind its opening quote; pushes it and says where its bytes are, NULL for one that may have been
 * made twice. */
static bool read_key(struct reader *r, const char **address) {
  const char *end = json_plain_run(r->cur, r->end);
  size_t len = (size_t)(end - r->cur);
  *address = NULL;
  if (end == r->end || *end != '"' || len == 0 || len > KEY_MAX)
    return read_string(r);
  const unsigned char *u = (const unsigned char *)r->cur;
  size_t slot = (len * 7 + u[0] + (size_t)3 * u[len / 2] + (size_t)5 * u[len - 1]) % KEY_SLOTS;
  if (r->memory->keys[slot].len == len && memcmp(r->memory->keys[slot].bytes, u, len) == 0) {
    lua_rawgeti(r->L, r->kept, (lua_Integer)slot + 1);
  } else {
    lua_pushlstring(r->L, r->cur, len);
    lua_pushvalue(r->L, -1);
    lua_rawseti(r->L, r->kept, (lua_Integer)slot + 1);
    r->memory->keys[slot].bytes = lua_tostring(r->L, -1);
    r->memory->keys[slot].len = len;
  }
  *address = r->memory->keys[slot].bytes;
  r->cur = end + 1;
  return true;
}

/* The place of these keys among the shapes: theirs, or the one that becomes theirs. */
static size_t shape_slot(const struct entries *e) {
  uintptr_t mix = (uintptr_t)e->n;
  for (lua_Integer i = 0; i < e->n; i++)
    mix = mix * 31 + ((uintptr_t)e->address[i] >> 4);
  return mix % SHAPE_SLOTS;
}

static bool is_shape(const struct reader *r, size_t slot, const struct entries *e) {
  if (r->memory->shapes[slot].n != e->n)
    return false;
  for (lua_Integer i = 0; i < e->n; i++)
    if (r->memory->shapes[slot].keys[i] != e->address[i])
      return false;
  return true;
}

/* Pushes a list of the gathered keys; remembers it where that can be. */
static void push_order(struct reader *r, const struct entries *e, bool complete) {
  lua_State *L = r->L;
  bool known = complete;
  for (lua_Integer i = 0; i < e->n; i++)
    known = known && e->address[i];
  size_t slot = known ? shape_slot(e) : 0;
  if (known && is_shape(r, slot, e)) {
    lua_rawgeti(L, r->kept, (lua_Integer)(KEY_SLOTS + slot) + 1);
    return;
  }
  lua_createtable(L, (int)e->n, known ? 1 : 0);
  for (lua_Integer i = 1; i <= e->n; i++) {
    lua_pushvalue(L, e->base + 2 * (int)i - 1);
    lua_rawseti(L, -2, i);
  }
  if (!known)
    return;
  bind_share_order(L);
  r->memory->shapes[slot].n = 0; /* the list of before goes: its strings may */
  lua_pushvalue(L, -1);
  lua_rawseti(L, r->kept, (lua_Integer)(KEY_SLOTS + slot) + 1);
  memcpy(r->memory->shapes[slot].keys, e->address, sizeof e->address);
  r->memory->shapes[slot].n = (int)e->n;
}

/* Makes the object of the gathered keys and values; behind it comes the list of its keys. */
static void make_object(struct reader *r, const struct entries *e, bool complete) {
  lua_State *L = r->L;
  bind_push_object_for(L, e->n ? (size_t)e->n + 1 : 0);
  push_order(r, e, complete);
  lua_rotate(L, e->base + 1, 2);
  for (lua_Integer i = e->n; i >= 1; i--) /* from the last pair on, which is on top */
    lua_rawset(L, e->base + 1);
}

/* Whether the key on top, the n-th, is none of those before. */
static bool is_new_key(lua_State *L, const struct entries *e, const char *address) {
  if (e->n >= GATHERED) {
    lua_pushvalue(L, -1);
    bool is_new = lua_rawget(L, e->base + 1) == LUA_TNIL;
    lua_pop(L, 1);
    return is_new;
  }
  for (int i = 0; i < (int)e->n; i++) {
    bool same = address && e->address[i] ? address == e->address[i]
                                         : lua_rawequal(L, -1, e->base + 2 * i + 1);
    if (same)
      return false;
  }
  return true;
}

/* A key with an escape could be any, so it counts as seen. */
static bool was_left_out(const struct left_out *out, const char *key, size_t len) {
  if (memchr(key, '\\', len))
    return true;
  for (int i = 0; i < out->n; i++)
    if (out->len[i] == len && memcmp(out->key[i], key, len) == 0)
      return true;
  return false;
}

static bool leave_out(struct left_out *out, const char *key, size_t len) {
  if (out->n == LEFT_OUT || was_left_out(out, key, len))
    return false;
  out->key[out->n] = key;
  out->len[out->n++] = len;
  return true;
}

/* A key and its value, unless the value is null and left out. */
static bool read_entry(struct reader *r, struct entries *e) {
  lua_State *L = r->L;
  const char *address;
  if (!take(r, '"'))
    return false;
  const char *key = r->cur;
  if (!read_key(r, &address) || !is_new_key(L, e, address))
    return false;
  size_t len = (size_t)(r->cur - key) - 1;
  if ((e->out.n && was_left_out(&e->out, key, len)) || !take(r, ':') || !read_any(r))
    return false;
  if (!r->keep_null && lua_islightuserdata(L, -1)) {
    lua_pop(L, 2);
    return leave_out(&e->out, key, len);
  }
  if (e->n < GATHERED)
    e->address[e->n] = address;
  if (++e->n > GATHERED) {
    lua_pushvalue(L, -2);
    lua_rawseti(L, e->base + 2, e->n);
    lua_rawset(L, e->base + 1);
  } else if (e->n == GATHERED) {
    make_object(r, e, false);
  }
  return true;
}

static bool read_object(struct reader *r) {
  lua_State *L = r->L;
  struct entries e;
  e.base = lua_gettop(L);
  e.n = 0;
  e.out.n = 0;
  if (!take(r, '}')) {
    do {
      if (!read_entry(r, &e))
        return false;
    } while (take(r, ','));
    if (!take(r, '}'))
      return false;
  }
  if (e.n < GATHERED)
    make_object(r, &e, true);
  if (e.n)
    lua_rawsetp(L, e.base + 1, bind_json_order());
  else
    lua_pop(L, 1);
  return true;
}

static bool read_word(struct reader *r, const char *word, size_t len) {
  if ((size_t)(r->end - r->cur) < len || memcmp(r->cur, word, len) != 0)
    return false;
  r->cur += len;
  return true;
}

static bool read_nested(struct reader *r, bool object) {
  if (++r->depth > MAX_DEPTH)
    return false;
  luaL_checkstack(r->L, 2 * GATHERED + 8, "nested values");
  r->cur++;
  bool ok = object ? read_object(r) : read_array(r);
  r->depth--;
  return ok;
}

static bool read_any(struct reader *r) {
  lua_State *L = r->L;
  struct json_number n;
  r->cur = json_skip_space(r->cur, r->end);
  if (r->cur == r->end)
    return false;
  switch (*r->cur) {
  case '"':
    r->cur++;
    return read_string(r);
  case '{':
    return read_nested(r, true);
  case '[':
    return read_nested(r, false);
  case 't':
    lua_pushboolean(L, 1);
    return read_word(r, "true", 4);
  case 'f':
    lua_pushboolean(L, 0);
    return read_word(r, "false", 5);
  case 'n':
    lua_pushlightuserdata(L, NULL);
    return read_word(r, "null", 4);
  default:
    r->cur = json_scan_number(r->cur, r->end, &n);
    if (!r->cur || n.range)
      return false;
    if (n.is_int)
      lua_pushinteger(L, n.integer);
    else
      lua_pushnumber(L, n.number);
    return true;
  }
}

bool bind_read_json(lua_State *L, const char *text, size_t len, bool keep_null) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 8, "JSON");
  struct reader r = {.L = L,
                     .cur = text,
                     .end = text + len,
                     .escaped = bind_scratch_buf(L),
                     .keep_null = keep_null};
  push_memory(L, &r);
  if (read_any(&r) && json_skip_space(r.cur, r.end) == r.end) {
    lua_replace(L, top + 1);
    return true;
  }
  lua_settop(L, top);
  return false;
}
