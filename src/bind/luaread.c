/* luaread.c: JSON text straight into Lua tables, without a struct value in between.
 *
 * Sessions decode a reply per request, so this is a hot path. It reads well-formed text; whatever
 * it does not know (an error, a repeated key, deep nesting) goes the long way through json_parse,
 * which also has the messages. What is pushed is the same either way. */
#include <lauxlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/hold.h"
#include "text/json_scan.h"
#include "text/utf8.h"

#define GATHERED 8 /* entries that wait on the stack until the table's size is known */
#define MAX_DEPTH 60
#define LEFT_OUT 16 /* null entries of one object that are kept in mind */

struct reader {
  lua_State *L;
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

/* The same of keys and values. Behind the table comes the list of its keys, until the end. */
static void make_object(lua_State *L, int base, int n) {
  bind_push_object_for(L, n ? (size_t)n + 1 : 0);
  lua_createtable(L, n, 0);
  lua_rotate(L, base + 1, 2);
  for (int i = n; i >= 1; i--) {
    lua_pushvalue(L, -2);
    lua_rawseti(L, base + 2, i);
    lua_rawset(L, base + 1);
  }
}

/* Whether the key on top, the n-th, is none of those before. */
static bool is_new_key(lua_State *L, int base, lua_Integer n) {
  if (n > GATHERED) {
    lua_pushvalue(L, -1);
    bool is_new = lua_rawget(L, base + 1) == LUA_TNIL;
    lua_pop(L, 1);
    return is_new;
  }
  for (lua_Integer i = 1; i < n; i++)
    if (lua_rawequal(L, -1, base + 2 * (int)i - 1))
      return false;
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

/* A key and its value. False in *kept: the value is null and was left out. */
static bool read_entry(struct reader *r, int base, lua_Integer n, bool *kept,
                       struct left_out *out) {
  lua_State *L = r->L;
  if (!take(r, '"'))
    return false;
  const char *key = r->cur;
  if (!read_string(r) || !is_new_key(L, base, n))
    return false;
  size_t len = (size_t)(r->cur - key) - 1;
  if ((out->n && was_left_out(out, key, len)) || !take(r, ':') || !read_any(r))
    return false;
  *kept = r->keep_null || !lua_islightuserdata(L, -1);
  if (!*kept) {
    lua_pop(L, 2);
    return leave_out(out, key, len);
  }
  if (n > GATHERED) {
    lua_pushvalue(L, -2);
    lua_rawseti(L, base + 2, n);
    lua_rawset(L, base + 1);
  } else if (n == GATHERED) {
    make_object(L, base, GATHERED);
  }
  return true;
}

static bool read_object(struct reader *r) {
  lua_State *L = r->L;
  int base = lua_gettop(L);
  lua_Integer n = 0;
  struct left_out out;
  bool kept;
  out.n = 0;
  if (!take(r, '}')) {
    do {
      if (!read_entry(r, base, n + 1, &kept, &out))
        return false;
      n += kept;
    } while (take(r, ','));
    if (!take(r, '}'))
      return false;
  }
  if (n < GATHERED)
    make_object(L, base, (int)n);
  if (n)
    lua_rawsetp(L, base + 1, bind_json_order());
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
  if (read_any(&r) && json_skip_space(r.cur, r.end) == r.end)
    return true;
  lua_settop(L, top);
  return false;
}
