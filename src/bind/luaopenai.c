/* luaopenai.c: module perigee.openai: what an OpenAI-style response says, for scripts and tests.
 *
 * The same parser that times a run's requests (text/openai.h); the result has the fields of
 * openai_result_value, absent ones nil. */
#include "bind/bind.h"
#include "bind/core.h"
#include "bind/hold.h"
#include "bind/text.h"
#include "text/openai.h"

#define STREAM_TYPE "perigee.hold.openai"

struct held_stream {
  struct openai_stream stream;
  bool live;
};

static int stream_gc(lua_State *L) {
  struct held_stream *h = luaL_checkudata(L, 1, STREAM_TYPE);
  if (h->live)
    openai_stream_free(&h->stream);
  h->live = false;
  return 0;
}

static MAY_RAISE struct openai_stream *hold_stream(lua_State *L, enum openai_api api) {
  static const luaL_Reg meta[] = {{"__gc", stream_gc}, {"__close", stream_gc}, {NULL, NULL}};
  bind_new_type(L, STREAM_TYPE, meta, NULL);
  struct held_stream *h = bind_new_userdata(L, sizeof *h, STREAM_TYPE);
  struct openai_options options = {.api = api};
  openai_stream_init(&h->stream, &options);
  h->live = true;
  return &h->stream;
}

static MAY_RAISE enum openai_api check_api(lua_State *L, int index, const char *where) {
  static const char *const known[] = {"api"};
  static const char *const apis[] = {"chat", "completions", "responses"};
  if (lua_isnoneornil(L, index))
    return OPENAI_CHAT;
  bind_check_options(L, index, where, known, 1);
  if (lua_getfield(L, index, "api") == LUA_TNIL)
    return OPENAI_CHAT;
  if (lua_type(L, -1) != LUA_TSTRING)
    bind_raise(L, "%s: api must be a string, got %s", where, luaL_typename(L, -1));
  const char *name = lua_tostring(L, -1);
  enum openai_api api = openai_api_from(name);
  if (api == OPENAI_NONE) {
    const char *near = err_nearest(name, apis, ARRAY_LEN(apis));
    if (near)
      bind_raise(L, "%s: unknown api '%s' (did you mean '%s'?)", where, name, near);
    bind_raise(L, "%s: unknown api '%s' (known: chat, completions, responses)", where, name);
  }
  return api;
}

static int push_result(lua_State *L, const struct openai_stream *s) {
  struct value *v = bind_hold_value(L);
  *v = openai_result_value(&s->result);
  bind_push_value(L, v, false);
  return 1;
}

static int push_failure(lua_State *L, const struct err *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->text);
  return 2;
}

/* parse_stream(bytes, {api = "chat"}) -> result; nil, message when a limit was reached */
static int openai_parse_stream(lua_State *L) {
  enum openai_api api = check_api(L, 2, "openai.parse_stream");
  lua_settop(L, 1);
  const struct blob *bytes =
      bind_text_blob(L, bind_check_text_node(L, 1, "openai.parse_stream: the bytes"));
  struct openai_stream *s = hold_stream(L, api);
  struct err err;
  if (openai_stream_feed(s, bytes->data, bytes->len, 1, &err) || openai_stream_finish(s, &err))
    return push_failure(L, &err);
  return push_result(L, s);
}

/* parse_reply(bytes, {api = "chat"}) -> result of a whole JSON reply; nil, message */
static int openai_lua_parse_reply(lua_State *L) {
  enum openai_api api = check_api(L, 2, "openai.parse_reply");
  lua_settop(L, 1);
  const struct blob *bytes =
      bind_text_blob(L, bind_check_text_node(L, 1, "openai.parse_reply: the bytes"));
  struct openai_stream *s = hold_stream(L, api);
  struct err err;
  if (openai_parse_reply(s, bytes->data, bytes->len, 1, &err))
    return push_failure(L, &err);
  return push_result(L, s);
}

static const luaL_Reg functions[] = {
    {"parse_reply", openai_lua_parse_reply},
    {"parse_stream", openai_parse_stream},
    {NULL, NULL},
};

int luaopen_perigee_openai(lua_State *L) {
  luaL_newlib(L, functions);
  bind_name_module(L, "openai");
  return 1;
}
