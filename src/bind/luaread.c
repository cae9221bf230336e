/* luaread.c: JSON text straight into Lua tables, without a struct value in between.
 *
 * Sessions decode a reply per request, so this is a hot path. It reads well-formed text; whatever
 * it does not know (an error, a repeated key, deep nesting) goes the long way through json_parse,
 * which also has the messages. What is pushed is the same either way.
 *
 * Replies are alike, so a state remembers the short strings it has read, to make none of the same
 * bytes again, and the shapes of objects: their keys in order. Objects of one shape share one
 * metatable, which has that order. An object that begins as one of a known shape did is taken for
 * one of them until a key says otherwise. */
#include <lauxlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/luamemory.h"
#include "text/json_scan.h"
#include "text/utf8.h"

#define GATHERED                                                                                   \
  MEMORY_SHAPE_KEYS /* entries that wait on the stack until the table's size is known */
#define MAX_DEPTH 60
#define LEFT_OUT 16 /* null entries of one object that are kept in mind */

struct reader {
  lua_State *L;
  struct memory *memory;
  int kept; /* stack index */
  const char *cur, *end;
  struct buf *escaped; /* a string that had escapes */
  bool keep_null;      /* of objects */
  size_t slot;         /* 1 + that of the string read last, if it has one */
  int depth;
};

/* Keys of an object that were left out for their null value, as written. One that comes again
 * stands where it stood first, which only the long way knows how to do. */
struct left_out {
  const char *key[LEFT_OUT];
  size_t len[LEFT_OUT];
  int n;
};

/* An object on its way: base is the stack's top before it. Keys and values wait above it, or, once
 * made, the table and the list of its keys so far lie there. */
struct entries {
  int base;
  lua_Integer n;
  bool made;
  const char *address[GATHERED]; /* of the first keys' strings; NULL: not interned for sure */
  size_t lens[GATHERED];
  size_t first;               /* the first key's slot */
  struct memory_shape *shape; /* that it is taken for; NULL: none */
  uint32_t serial;            /* the shape's then */
  int expected;               /* its keys */
  struct left_out out;
};

static bool read_any(struct reader *r);

static inline bool take(struct reader *r, char c) {
  if (r->cur < r->end && *r->cur == c) {
    r->cur++;
    return true;
  }
  r->cur = json_skip_space(r->cur, r->end);
  if (r->cur == r->end || *r->cur != c)
    return false;
  r->cur++;
  return true;
}

/* Behind its opening quote; pushes it. */
static bool read_long_string(struct reader *r) {
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

static bool read_string(struct reader *r) {
  const char *s = r->cur, *end = json_plain_run(s, r->end);
  size_t len = (size_t)(end - s);
  bool made;
  if (end == r->end || *end != '"')
    return read_long_string(r);
  r->cur = end + 1;
  if (len == 0 || len > MEMORY_SHORT_MAX)
    lua_pushlstring(r->L, s, len);
  else
    r->slot = 1 + memory_push(r->L, &r->memory->strings, r->kept, MEMORY_STRINGS, s, len, &made);
  return true;
}

/* Makes the table of the gathered values above `base` and leaves it alone there. */
static void make_array(struct reader *r, int base, int n) {
  lua_State *L = r->L;
  lua_createtable(L, n, 0);
  lua_rawgeti(L, r->kept, MEMORY_ARRAY);
  lua_setmetatable(L, -2);
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
        make_array(r, base, GATHERED);
    } while (take(r, ','));
    if (!take(r, ']'))
      return false;
  }
  if (n < GATHERED)
    make_array(r, base, (int)n);
  return true;
}

/* ---- objects ---- */

/* Behind its opening quote; pushes it and says where its bytes are (NULL for one that may have been
 * made twice) and in which slot. */
static bool read_key(struct reader *r, const char **address, size_t *slot) {
  const char *s = r->cur, *end = json_plain_run(s, r->end);
  size_t len = (size_t)(end - s);
  bool made;
  *address = NULL;
  if (end == r->end || *end != '"' || len == 0 || len > MEMORY_SHORT_MAX)
    return read_string(r);
  *slot = memory_push(r->L, &r->memory->strings, r->kept, MEMORY_KEYS, s, len, &made);
  if (made)
    r->memory->begins[*slot] = 0;
  *address = memory_bytes(&r->memory->strings, MEMORY_KEYS, *slot, &len);
  r->cur = end + 1;
  return true;
}

/* ---- shapes ---- */

static bool is_shape(const struct memory_shape *s, const struct entries *e) {
  if (s->n != e->n)
    return false;
  for (lua_Integer i = 0; i < e->n; i++)
    if (s->keys[i] != e->address[i])
      return false;
  return true;
}

/* The shape of the gathered keys; NULL: it is none so far. */
static struct memory_shape *find_shape(struct memory *m, const struct entries *e) {
  for (size_t i = 0; i < MEMORY_SHAPES; i++)
    if (is_shape(&m->shapes[i], e))
      return &m->shapes[i];
  return NULL;
}

/* Room for another: one that was not used since the last search. */
static struct memory_shape *shape_room(struct memory *m) {
  for (;;) {
    m->hand = (m->hand + 1) % MEMORY_SHAPES;
    struct memory_shape *s = &m->shapes[m->hand];
    if (!s->used)
      return s;
    s->used = false;
  }
}

/* Pushes a list of the gathered keys. */
static void push_keys(lua_State *L, const struct entries *e) {
  lua_createtable(L, (int)e->n, 0);
  for (lua_Integer i = 1; i <= e->n; i++) {
    lua_pushvalue(L, e->base + 2 * (int)i - 1);
    lua_rawseti(L, -2, i);
  }
}

/* Objects with these keys have come twice: they get a type. */
static void learn_shape(struct reader *r, struct memory_shape *s, size_t slot,
                        const struct entries *e) {
  lua_State *L = r->L;
  push_keys(L, e);
  bind_push_object_type(L);
  lua_rawseti(L, r->kept, MEMORY_TYPES + (lua_Integer)slot);
  lua_rawseti(L, r->kept, MEMORY_ORDERS + (lua_Integer)slot);
  memcpy(s->lens, e->lens, sizeof e->lens);
  memset(s->guess, 0, sizeof s->guess);
  s->known = true;
}

/* Pushes the type of objects with the gathered keys, when they have one. */
static bool push_shape(struct reader *r, const struct entries *e) {
  for (lua_Integer i = 0; i < e->n; i++)
    if (!e->address[i])
      return false;
  struct memory_shape *s = find_shape(r->memory, e);
  if (!s) {
    s = shape_room(r->memory);
    memcpy(s->keys, e->address, sizeof e->address);
    s->n = (int)e->n;
    s->known = false;
    s->serial = ++r->memory->serial;
    return false;
  }
  size_t slot = (size_t)(s - r->memory->shapes);
  s->used = true;
  if (!s->known)
    learn_shape(r, s, slot, e);
  r->memory->begins[e->first] = (uint8_t)(slot + 1);
  lua_rawgeti(r->L, r->kept, MEMORY_TYPES + (lua_Integer)slot);
  return true;
}

/* Makes the object of the gathered keys and values. One without a shape gets `made`: behind it
 * comes the list of its keys. */
static void make_object(struct reader *r, struct entries *e, bool complete) {
  lua_State *L = r->L;
  bool shaped = e->n && complete && push_shape(r, e);
  if (shaped) {
    lua_createtable(L, 0, (int)e->n);
    lua_insert(L, -2);
    lua_setmetatable(L, -2);
  } else {
    bind_push_object_for(L, e->n ? (size_t)e->n + 1 : 0);
  }
  if (!shaped && e->n) {
    push_keys(L, e);
    e->made = true;
    lua_rotate(L, e->base + 1, 2);
  } else {
    lua_insert(L, e->base + 1);
  }
  for (lua_Integer i = e->n; i >= 1; i--) /* from the last pair on, which is on top */
    lua_rawset(L, e->base + 1);
}

/* Whether the key on top, the n-th, is none of those before. */
static bool is_new_key(lua_State *L, const struct entries *e, const char *address) {
  if (e->made) {
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

/* ---- objects taken for one of a known shape ---- */

/* With the first key on top: makes the table if objects that begin so are expected to have a shape.
 */
static void expect_shape(struct reader *r, struct entries *e, size_t slot, const char *key) {
  lua_State *L = r->L;
  size_t shape = r->memory->begins[slot];
  e->first = slot;
  if (!shape || !r->memory->shapes[shape - 1].known || r->memory->shapes[shape - 1].keys[0] != key)
    return;
  e->shape = &r->memory->shapes[shape - 1];
  e->serial = e->shape->serial;
  e->expected = e->shape->n;
  e->made = true;
  lua_createtable(L, 0, e->expected);
  lua_rawgeti(L, r->kept, MEMORY_ORDERS + (lua_Integer)shape - 1);
  lua_rotate(L, e->base + 1, 2);
}

/* It is not of that shape. The list of keys at base + 2 becomes one of its own. */
static void leave_shape(struct reader *r, struct entries *e) {
  lua_State *L = r->L;
  e->shape = NULL;
  r->memory->begins[e->first] = 0;
  lua_createtable(L, (int)e->n + 4, 0);
  for (lua_Integer i = 1; i <= e->n; i++) {
    lua_rawgeti(L, e->base + 2, i);
    lua_rawseti(L, -2, i);
  }
  lua_replace(L, e->base + 2);
  lua_pushvalue(L, e->base + 1);
  bind_make_object(L);
  lua_pop(L, 1);
}

/* Pushes the shape's next key if it is what follows, without its opening quote. A shape's slot may
 * have been given away by an object inside this one. */
static bool read_expected(struct reader *r, struct entries *e) {
  const struct memory_shape *s = e->shape;
  if (!s || s->serial != e->serial || e->n == e->expected)
    return false;
  size_t len = s->lens[e->n];
  if ((size_t)(r->end - r->cur) <= len || memcmp(r->cur, s->keys[e->n], len) != 0 ||
      r->cur[len] != '"')
    return false;
  r->cur += len + 1;
  lua_rawgeti(r->L, e->base + 2, e->n + 1);
  return true;
}

/* Behind its opening quote; pushes a key that the object has not yet. */
static bool read_new_key(struct reader *r, struct entries *e, const char **address) {
  size_t slot = 0;
  if (read_expected(r, e))
    return true;
  if (e->shape)
    leave_shape(r, e);
  if (!read_key(r, address, &slot) || !is_new_key(r->L, e, *address))
    return false;
  if (e->n == 0 && !e->out.n && !e->made && *address)
    expect_shape(r, e, slot, *address);
  return true;
}

/* Pushes the value of a field of a known shape: mostly the string that it was last, else whatever
 * stands there. */
static bool read_field(struct reader *r, struct entries *e) {
  struct memory_shape *s = e->shape;
  uint8_t *guess = &s->guess[e->n];
  uint32_t serial = e->serial;
  r->cur = json_skip_space(r->cur, r->end);
  bool string = r->cur < r->end && *r->cur == '"';
  if (string && *guess) {
    size_t len;
    const char *bytes = memory_bytes(&r->memory->strings, MEMORY_STRINGS, *guess - 1u, &len);
    if (len && (size_t)(r->end - r->cur) >= len + 2 && r->cur[len + 1] == '"' &&
        memcmp(r->cur + 1, bytes, len) == 0) {
      r->cur += len + 2;
      lua_rawgeti(r->L, r->kept, (lua_Integer)MEMORY_STRINGS * MEMORY_SLOTS + *guess);
      return true;
    }
  }
  r->slot = 0;
  if (!read_any(r))
    return false;
  if (string && s->serial == serial)
    *guess = (uint8_t)r->slot;
  return true;
}

/* A key and its value, unless the value is null and left out. */
static bool read_entry(struct reader *r, struct entries *e) {
  lua_State *L = r->L;
  const char *address = NULL;
  if (!take(r, '"'))
    return false;
  const char *key = r->cur;
  if (!read_new_key(r, e, &address))
    return false;
  size_t len = (size_t)(r->cur - key) - 1;
  if ((e->out.n && was_left_out(&e->out, key, len)) || !take(r, ':'))
    return false;
  if (!(e->shape ? read_field(r, e) : read_any(r)))
    return false;
  if (!r->keep_null && lua_islightuserdata(L, -1)) {
    lua_pop(L, 2);
    return leave_out(&e->out, key, len);
  }
  if (e->made) {
    if (!e->shape) {
      lua_pushvalue(L, -2);
      lua_rawseti(L, e->base + 2, e->n + 1);
    }
    lua_rawset(L, e->base + 1);
    e->n++;
    return true;
  }
  e->address[e->n] = address;
  e->lens[e->n] = len;
  if (++e->n == GATHERED)
    make_object(r, e, false);
  return true;
}

/* The object is whole: leaves it alone at base + 1. */
static void end_object(struct reader *r, struct entries *e) {
  lua_State *L = r->L;
  if (!e->made) // cppcheck-suppress ctuuninitvar
    make_object(r, e, true);
  if (e->shape && e->n == e->expected && e->shape->serial == e->serial) {
    r->memory->shapes[e->shape - r->memory->shapes].used = true;
    lua_rawgeti(L, r->kept, MEMORY_TYPES + (e->shape - r->memory->shapes));
    lua_setmetatable(L, e->base + 1);
    lua_settop(L, e->base + 1);
    return;
  }
  if (e->shape)
    leave_shape(r, e);
  if (e->made)
    lua_rawsetp(L, e->base + 1, bind_json_order());
}

static bool read_object(struct reader *r) {
  struct entries e;
  e.base = lua_gettop(r->L);
  e.n = 0;
  e.made = false;
  e.shape = NULL;
  e.first = 0;
  e.out.n = 0;
  if (!take(r, '}')) {
    do {
      if (!read_entry(r, &e))
        return false;
    } while (take(r, ','));
    if (!take(r, '}'))
      return false;
  }
  end_object(r, &e);
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
  if (!lua_checkstack(r->L, 2 * GATHERED + 8))
    luaL_error(r->L, "stack overflow (nested values)");
  r->cur++;
  bool ok = object ? read_object(r) : read_array(r);
  r->depth--;
  return ok;
}

#define SMALL_DIGITS 18

/* A whole number of few digits, as most are; else it is json_scan_number's. */
static bool read_small_integer(struct reader *r) {
  const char *p = r->cur, *digits = p + (*p == '-');
  lua_Integer n = 0;
  for (p = digits; p < r->end && *p >= '0' && *p <= '9' && p - digits < SMALL_DIGITS; p++)
    n = n * 10 + (*p - '0');
  bool odd = p == digits || (*digits == '0' && (p - digits > 1 || digits != r->cur));
  if (odd || (p < r->end && (*p == '.' || (*p | 0x20) == 'e' || (*p >= '0' && *p <= '9'))))
    return false;
  lua_pushinteger(r->L, digits == r->cur ? n : -n);
  r->cur = p;
  return true;
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
    if (read_small_integer(r))
      return true;
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
  r.memory = memory_open(L, &r.kept);
  if (read_any(&r) && json_skip_space(r.cur, r.end) == r.end) {
    lua_replace(L, top + 1);
    return true;
  }
  lua_settop(L, top);
  return false;
}
