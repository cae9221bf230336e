/* body.c: request bodies: a list of blobs that are sent one after the other, never copied into one.
 *
 * Made by conversations (bind/conv.c) and from whatever a script hands to vu:http as `body`. */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "bind/bind.h"
#include "bind/core.h"
#include "bind/hold.h"
#include "bind/text.h"
#include "text/json.h"

#define BODY_TYPE "perigee.body"

static int body_gc(lua_State *L) {
  struct bind_body *b = bind_check_userdata(L, 1, BODY_TYPE);
  for (size_t i = 0; i < b->n; i++)
    blob_unref(b->parts[i]);
  mem_free(b->parts);
  *b = (struct bind_body){0};
  return 0;
}

static int body_len(lua_State *L) {
  const struct bind_body *b = luaL_checkudata(L, 1, BODY_TYPE);
  size_t len = 0;
  for (size_t i = 0; i < b->n; i++)
    len += b->parts[i]->len;
  lua_pushinteger(L, (lua_Integer)len);
  return 1;
}

static int body_tostring(lua_State *L) {
  const struct bind_body *b = luaL_checkudata(L, 1, BODY_TYPE);
  struct buf *out = bind_hold_buf(L);
  for (size_t i = 0; i < b->n; i++)
    buf_put(out, b->parts[i]->data, b->parts[i]->len);
  lua_pushlstring(L, out->len ? out->data : "", out->len);
  return 1;
}

struct bind_body *bind_new_body(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", body_gc},
                                  {"__close", body_gc},
                                  {"__len", body_len},
                                  {"__tostring", body_tostring},
                                  {NULL, NULL}};
  bind_new_type(L, BODY_TYPE, meta, NULL);
  return bind_new_userdata(L, sizeof(struct bind_body), BODY_TYPE);
}

void bind_body_add(struct bind_body *b, struct blob *part) {
  MEM_GROW(b->parts, b->n, b->cap);
  b->parts[b->n++] = blob_ref(part);
}

static MAY_RAISE struct bind_body *body_of_value(lua_State *L, int index) {
  struct bind_body *body = bind_new_body(L);
  struct buf *b = bind_scratch_buf(L);
  bind_write_json(L, index, b);
  struct blob *blob = blob_new(b->data, b->len);
  bind_body_add(body, blob);
  blob_unref(blob);
  return body;
}

struct bind_body *bind_check_body(lua_State *L, int index) {
  index = lua_absindex(L, index);
  struct bind_body *body = bind_test_userdata(L, index, BODY_TYPE);
  if (body) {
    lua_pushvalue(L, index);
    return body;
  }
  if (lua_istable(L, index))
    return body_of_value(L, index);
  if (lua_type(L, index) != LUA_TSTRING && !bind_test_text(L, index))
    bind_raise(L, "the body must be a string, a text or a table (sent as JSON), got %s",
               luaL_typename(L, index));
  body = bind_new_body(L);
  bind_body_add(body, bind_check_text(L, index));
  lua_pop(L, 1);
  return body;
}

/* ---- perigee.completions.core ---- */

/* The JSON form of a text without its quotes, kept with the text: a shared prefix is escaped once
 * per state. */
MAY_RAISE static struct blob *escaped(lua_State *L, struct text *t, const struct blob *text) {
  if (!t->json || t->json_form != TEXT_JSON_BARE) {
    bind_reserve_text(L, (double)text->len);
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    json_write_string(&b, text->data, text->len);
    blob_unref(t->json);
    t->json = blob_new(b.data + 1, b.len - 2);
    blob_count_in(t->json, bind_gen_tokens(L).count);
    t->json_form = TEXT_JSON_BARE;
    buf_free(&b);
  }
  return t->json;
}

static void add_piece(struct bind_body *body, struct buf *b) {
  struct blob *blob = blob_from_buf(b);
  bind_body_add(body, blob);
  blob_unref(blob);
}

/* body(options, {text…}) -> body {…options…,"prompt":"texts joined"} */
static int completions_body(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  struct bind_body *body = bind_new_body(L);
  struct buf *b = bind_hold_buf(L);
  bind_write_json(L, 1, b);
  b->len--; /* the closing brace comes last */
  buf_puts(b, b->len > 1 ? ",\"prompt\":\"" : "\"prompt\":\"");
  add_piece(body, b);
  lua_Integer n = luaL_len(L, 2);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    struct text *t = bind_check_text_node(L, -1, "the prompt");
    bind_body_add(body, escaped(L, t, bind_text_blob(L, t)));
    lua_pop(L, 2);
  }
  buf_puts(b, "\"}");
  add_piece(body, b);
  lua_settop(L, 3);
  return 1;
}

int luaopen_perigee_completions_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"body", completions_body}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
