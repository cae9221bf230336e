/* luavalue.c: Lua values <-> struct value, and the checks every binding makes.
 *
 * A value under construction belongs to a holder (hold.h) until it is whole, because reading a
 * table may raise at any key. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/shared.h"
#include "bind/text.h"
#include "text/json.h"

/* ---- struct value -> Lua ---- */

/* Filled raw, its order beside it: no __newindex per key. */
static void push_object_value(lua_State *L, const struct value *v, bool keep_null) {
  size_t n = v->u.object.n;
  lua_Integer kept = 0;
  bind_push_object_for(L, n ? n + 1 : 0);
  if (!n)
    return;
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    const struct value_pair *pair = &v->u.object.pairs[i];
    if (pair->value.kind == VALUE_NULL && !keep_null)
      continue;
    lua_pushlstring(L, pair->key, pair->key_len);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, ++kept);
    bind_push_value(L, &pair->value, keep_null);
    lua_rawset(L, -4);
  }
  lua_rawsetp(L, -2, bind_json_order());
}

void bind_push_value(lua_State *L, const struct value *v, bool keep_null) {
  luaL_checkstack(L, 8, "nested values");
  switch (v->kind) {
  case VALUE_NULL:
    if (keep_null)
      lua_pushlightuserdata(L, NULL);
    else
      lua_pushnil(L);
    break;
  case VALUE_BOOL:
    lua_pushboolean(L, v->u.boolean);
    break;
  case VALUE_INT:
    lua_pushinteger(L, v->u.integer);
    break;
  case VALUE_DOUBLE:
    lua_pushnumber(L, v->u.number);
    break;
  case VALUE_STRING:
    lua_pushlstring(L, v->u.string.data, v->u.string.len);
    break;
  case VALUE_ARRAY:
    bind_push_array_for(L, v->u.array.n);
    for (size_t i = 0; i < v->u.array.n; i++) {
      const struct value *item = &v->u.array.items[i];
      bind_push_value(L, item, keep_null || item->kind == VALUE_NULL); /* a list has no holes */
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    break;
  case VALUE_OBJECT:
    push_object_value(L, v, keep_null);
    break;
  }
}

/* ---- Lua -> struct value ---- */

/* Where in the value we are, for messages; lives on the C stack. */
struct path {
  const struct path *up;
  const char *key; /* NULL: an element of an array */
  lua_Integer at;
};

static void write_path(struct buf *b, const struct path *p) {
  if (!p)
    return;
  write_path(b, p->up);
  if (p->key)
    buf_printf(b, ".%s", p->key);
  else
    buf_printf(b, "[%lld]", (long long)p->at);
}

static MAY_RAISE NORETURN void refuse(lua_State *L, const struct path *p, const char *what) {
  luaL_checkstack(L, 8, "message");
  struct buf *where = bind_hold_buf(L);
  if (p) {
    buf_puts(where, " (at ");
    write_path(where, p);
    buf_putc(where, ')');
  }
  bind_raise(L, "cannot make JSON of %s%s", what, where->len ? where->data : "");
}

static void convert(lua_State *L, int index, struct value *out, const struct path *path, int depth);

/* n when the keys are exactly 1..n (n > 0), else 0. */
static lua_Integer sequence_length(lua_State *L, int index) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, index), seen = 0;
  if (n == 0)
    return 0;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 1 || lua_tointeger(L, -1) > n) {
      lua_pop(L, 1);
      return 0;
    }
    seen++;
  }
  return seen == n ? n : 0;
}

static void convert_list(lua_State *L, int index, lua_Integer n, struct value *out,
                         const struct path *path, int depth) {
  *out = value_array();
  for (lua_Integer i = 1; i <= n; i++) {
    struct path here = {.up = path, .at = i};
    lua_rawgeti(L, index, i);
    convert(L, lua_gettop(L), value_push(out, value_null()), &here, depth + 1);
    lua_pop(L, 1);
  }
}

static void convert_keys(lua_State *L, int index, struct value *out, const struct path *path,
                         int depth) {
  *out = value_object();
  bind_push_sorted_keys(L, index);
  int keys = lua_gettop(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, keys);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, keys, i); /* key */
    lua_pushvalue(L, -1);
    lua_rawget(L, index); /* value */
    if (lua_type(L, -2) != LUA_TSTRING && !lua_isinteger(L, -2))
      refuse(L, path, "a table whose keys are neither strings nor whole numbers");
    size_t len;
    lua_pushvalue(L, -2);
    const char *key = lua_tolstring(L, -1, &len); /* a copy: the list's number stays a number */
    struct path here = {.up = path, .key = key};
    if (value_get_len(out, key, len))
      refuse(L, &here, "a table that has this key as a number and as a string");
    convert(L, lua_gettop(L) - 1, value_set_len(out, key, len, value_null()), &here, depth + 1);
    lua_pop(L, 3);
  }
  lua_pop(L, 1);
}

static void copy_shared(const struct shared *s, struct value *out) {
  switch (s->kind) {
  case SHARED_NULL:
    break;
  case SHARED_BOOL:
    *out = value_bool(s->u.boolean);
    break;
  case SHARED_INT:
    *out = value_int(s->u.integer);
    break;
  case SHARED_NUMBER:
    *out = value_double(s->u.number);
    break;
  case SHARED_STRING:
  case SHARED_TEXT:
    *out = value_string(s->u.blob->data, s->u.blob->len);
    break;
  case SHARED_ARRAY:
    *out = value_array();
    for (size_t i = 0; i < s->u.array.n; i++)
      copy_shared(&s->u.array.items[i], value_push(out, value_null()));
    break;
  case SHARED_OBJECT:
    *out = value_object();
    for (size_t i = 0; i < s->u.object.n; i++) {
      const struct shared_pair *p = &s->u.object.pairs[i];
      copy_shared(&p->value, value_set_len(out, p->key, p->key_len, value_null()));
    }
    break;
  }
}

static void convert_table(lua_State *L, int index, struct value *out, const struct path *path,
                          int depth) {
  const struct shared *shared = bind_test_shared(L, index);
  if (shared) {
    copy_shared(shared, out);
    return;
  }
  if (depth >= JSON_MAX_DEPTH)
    refuse(L, NULL, "a table nested deeper than 200 (does it contain itself?)");
  luaL_checkstack(L, 12, "nested values");
  if (bind_is_array(L, index)) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, index);
    if (n != sequence_length(L, index))
      refuse(L, path, "a json.array with holes or other keys (use json.null for an absent item)");
    convert_list(L, index, n, out, path, depth);
    return;
  }
  lua_Integer n = bind_is_object(L, index) ? 0 : sequence_length(L, index);
  if (n > 0)
    convert_list(L, index, n, out, path, depth);
  else
    convert_keys(L, index, out, path, depth);
}

static void convert_userdata(lua_State *L, int index, struct value *out, const struct path *path) {
  if (!bind_test_text(L, index))
    refuse(L, path, "a userdata");
  const struct blob *text = bind_check_text(L, index);
  *out = value_string(text->data, text->len);
  lua_pop(L, 1);
}

/* `out` is a part of a held value: whatever is in it is freed when this raises. */
static void convert(lua_State *L, int index, struct value *out, const struct path *path,
                    int depth) {
  switch (lua_type(L, index)) {
  case LUA_TNIL:
    *out = value_null();
    break;
  case LUA_TBOOLEAN:
    *out = value_bool(lua_toboolean(L, index));
    break;
  case LUA_TNUMBER:
    if (lua_isinteger(L, index)) {
      *out = value_int(lua_tointeger(L, index));
      break;
    }
    if (!isfinite(lua_tonumber(L, index)))
      refuse(L, path, isnan(lua_tonumber(L, index)) ? "NaN" : "an infinite number");
    *out = value_double(lua_tonumber(L, index));
    break;
  case LUA_TSTRING: {
    size_t len;
    const char *s = lua_tolstring(L, index, &len);
    *out = value_string(s, len);
    break;
  }
  case LUA_TTABLE:
    convert_table(L, index, out, path, depth);
    break;
  case LUA_TLIGHTUSERDATA:
    if (lua_touserdata(L, index))
      refuse(L, path, "a light userdata");
    *out = value_null();
    break;
  case LUA_TUSERDATA:
    convert_userdata(L, index, out, path);
    break;
  default:
    refuse(L, path, lua_type(L, index) == LUA_TFUNCTION ? "a function" : "a coroutine");
  }
}

void bind_to_value(lua_State *L, int index, struct value *out) {
  *out = value_null();
  index = lua_absindex(L, index);
  luaL_checkstack(L, 12, "nested values");
  struct value *held = bind_hold_value(L);
  convert(L, index, held, NULL, 0);
  *out = *held;
  *held = value_null();
  lua_pop(L, 1);
}

/* ---- in messages ---- */

#define SHOWN_BYTES 200

/* Cuts `b` between two characters. */
static void cut(struct buf *b) {
  if (b->len <= SHOWN_BYTES)
    return;
  size_t len = SHOWN_BYTES;
  while (len > 0 && ((unsigned char)b->data[len] & 0xC0) == 0x80)
    len--;
  b->len = len;
  buf_puts(b, "...");
}

const char *bind_shown(lua_State *L, int index) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 4, "message");
  int type = lua_type(L, index);
  if (type == LUA_TNUMBER || type == LUA_TBOOLEAN || type == LUA_TNIL)
    return luaL_tolstring(L, index, NULL);
  if (type != LUA_TSTRING) {
    lua_pushstring(L, luaL_typename(L, index));
    return lua_tostring(L, -1);
  }
  size_t len;
  const char *text = lua_tolstring(L, index, &len);
  struct buf *b = bind_hold_buf(L);
  buf_put(b, text, len);
  cut(b);
  lua_pushfstring(L, "the string \"%s\"", b->data ? b->data : "");
  lua_remove(L, -2);
  return lua_tostring(L, -1);
}

static int write_shown(lua_State *L) { /* (table, held buf) */
  struct buf *b = lua_touserdata(L, 2);
  struct value *v = bind_hold_value(L);
  bind_to_value(L, 1, v);
  json_write(b, v);
  return 0;
}

void bind_push_error_text(lua_State *L, int index) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 8, "message");
  bool fields = lua_istable(L, index);
  if (fields && luaL_getmetafield(L, index, "__tostring") != LUA_TNIL) {
    lua_pop(L, 1);
    fields = false;
  }
  if (!fields) {
    luaL_tolstring(L, index, NULL);
    return;
  }
  bind_push_author_line(L);
  struct buf *b = bind_hold_buf(L);
  lua_pushcfunction(L, write_shown);
  lua_pushvalue(L, index);
  lua_pushvalue(L, -3);
  if (lua_pcall(L, 2, 0, 0) == LUA_OK) {
    cut(b);
    lua_pushlstring(L, b->data, b->len);
  } else { /* functions in it, or no memory */
    lua_pop(L, 1);
    luaL_tolstring(L, index, NULL);
  }
  lua_remove(L, -2); /* the buffer */
  lua_concat(L, 2);
}

/* ---- checks ---- */

void bind_check_options(lua_State *L, int index, const char *where, const char *const *known,
                        size_t n) {
  index = lua_absindex(L, index);
  if (!lua_istable(L, index))
    bind_raise(L, "%s: options must be a table, got %s", where, luaL_typename(L, index));
  bind_push_sorted_keys(L, index);
  lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, -1, i);
    if (lua_type(L, -1) != LUA_TSTRING)
      bind_raise(L, "%s: option names are words, got a %s key", where, luaL_typename(L, -1));
    const char *key = lua_tostring(L, -1);
    bool found = false;
    for (size_t k = 0; k < n && !found; k++)
      found = strcmp(key, known[k]) == 0;
    if (!found) {
      const char *near = err_nearest(key, known, n);
      if (near)
        bind_raise(L, "%s: unknown option '%s' (did you mean '%s'?)", where, key, near);
      struct buf *list = bind_hold_buf(L);
      for (size_t k = 0; k < n; k++)
        buf_printf(list, "%s%s", k ? ", " : "", known[k]);
      bind_raise(L, "%s: unknown option '%s' (known: %s)", where, key, n ? list->data : "none");
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}
