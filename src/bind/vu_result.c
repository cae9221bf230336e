/* vu_result.c: a finished request as the table that vu:http returns. */
#include <lauxlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/vu_bind.h"
#include "net/http.h"

static MAY_RAISE void set_buf(lua_State *L, const char *field, const struct buf *b) {
  lua_pushlstring(L, b->len ? b->data : "", b->len);
  lua_setfield(L, -2, field);
}

static MAY_RAISE void set_count(lua_State *L, const char *field, int64_t n) {
  if (n == OPENAI_ABSENT)
    return;
  lua_pushinteger(L, n);
  lua_setfield(L, -2, field);
}

static MAY_RAISE void set_seconds(lua_State *L, const char *field, uint64_t from, uint64_t to) {
  if (from == SAMPLE_NEVER || to == SAMPLE_NEVER || to < from)
    return;
  lua_pushnumber(L, (double)(to - from) / 1e9);
  lua_setfield(L, -2, field);
}

#define NOTED 16 /* header names that are compared as bytes, not looked up */

struct names {
  const char *at[NOTED];
  size_t len[NOTED];
  int n;
};

/* Whether the name was not there before, as far as can be seen without a look into the table. */
static bool is_new_name(struct names *names, const char *name, size_t len) {
  if (names->n == NOTED)
    return false;
  for (int i = 0; i < names->n; i++)
    if (names->len[i] == len && memcmp(names->at[i], name, len) == 0)
      return false;
  names->at[names->n] = name;
  names->len[names->n++] = len;
  return true;
}

/* On top are the table and a name that may be in it: joins the value to what is there. */
static MAY_RAISE void push_joined(lua_State *L, const char *value, size_t len) {
  lua_pushvalue(L, -1);
  if (lua_rawget(L, -3) == LUA_TSTRING) {
    lua_pushliteral(L, ", ");
    lua_pushlstring(L, value, len);
    lua_concat(L, 3);
  } else {
    lua_pop(L, 1);
    lua_pushlstring(L, value, len);
  }
}

/* One header of the table on top. */
static MAY_RAISE void set_header(lua_State *L, const struct bind_known *known, struct names *names,
                                 const char *name, size_t name_len, const char *value, size_t len) {
  while (len && *value == ' ') {
    value++;
    len--;
  }
  bind_push_known(L, known, name, name_len);
  if (is_new_name(names, name, name_len))
    bind_push_known(L, known, value, len);
  else
    push_joined(L, value, len);
  lua_rawset(L, -3);
}

/* headers: lower-case names; of repeated ones the values are joined with ", ". */
static MAY_RAISE void set_headers(lua_State *L, const struct http_request *r,
                                  const struct bind_known *known) {
  const char *p = r->response_headers.len ? r->response_headers.data : "";
  const char *head = p, *stop = p + r->response_headers.len, *end;
  struct names names = {.n = 0};
  if (bind_push_known_head(L, known, head, r->response_headers.len)) {
    lua_setfield(L, -2, "headers");
    return;
  }
  int lines = r->n_listed > 0 ? r->n_listed : 0;
  for (const char *q = p; r->n_listed < 0 && (q = memchr(q, '\n', (size_t)(stop - q))); q++)
    lines++;
  lua_createtable(L, 0, lines);
  for (int i = 0; i < r->n_listed; i++) {
    const struct http_header *h = &r->listed[i];
    set_header(L, known, &names, p + h->name_at, h->name_len, p + h->value_at, h->value_len);
  }
  for (; r->n_listed < 0 && (end = memchr(p, '\n', (size_t)(stop - p))); p = end + 1) {
    const char *colon = memchr(p, ':', (size_t)(end - p));
    if (colon)
      set_header(L, known, &names, p, (size_t)(colon - p), colon + 1, (size_t)(end - colon) - 1);
  }
  bind_note_head(L, known, head, r->response_headers.len);
  lua_setfield(L, -2, "headers");
}

static MAY_RAISE void set_tool_calls(lua_State *L, const struct openai_result *o) {
  lua_createtable(L, (int)o->n_tool_calls, 0);
  for (size_t i = 0; i < o->n_tool_calls; i++) {
    const struct openai_tool_call *call = &o->tool_calls[i];
    lua_createtable(L, 0, 3);
    set_buf(L, "id", &call->id);
    set_buf(L, "name", &call->name);
    set_buf(L, "arguments", &call->arguments);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "tool_calls");
}

static MAY_RAISE void set_usage(lua_State *L, const struct openai_usage *u) {
  if (!u->present)
    return;
  lua_createtable(L, 0, 5);
  set_count(L, "prompt_tokens", u->prompt);
  set_count(L, "completion_tokens", u->completion);
  set_count(L, "total_tokens", u->total);
  set_count(L, "cached_tokens", u->cached);
  set_count(L, "reasoning_tokens", u->reasoning);
  lua_setfield(L, -2, "usage");
}

static MAY_RAISE void set_generation(lua_State *L, const struct http_request *r) {
  const struct openai_result *o = &r->stream.result;
  static const struct buf nothing;
  const struct openai_choice *first = o->n_choices ? &o->choices[0] : NULL;
  set_buf(L, "text", first ? &first->text : &nothing);
  set_buf(L, "reasoning", &o->reasoning);
  if (first && first->finish_reason.len)
    set_buf(L, "finish_reason", &first->finish_reason);
  if (o->response_id.len)
    set_buf(L, "response_id", &o->response_id);
  set_tool_calls(L, o);
  set_usage(L, &o->usage);
  int64_t tokens = o->usage.present ? o->usage.completion : OPENAI_ABSENT;
  set_count(L, "output_tokens", tokens != OPENAI_ABSENT ? tokens : o->token_ids_total);
  set_seconds(L, "ttft", r->stamp_ns[STAMP_START], r->stamp_ns[STAMP_FIRST_TOKEN]);
}

/* Seconds, the form that is in use; a date stays a header. */
static MAY_RAISE void set_retry_after(lua_State *L, const struct http_request *r) {
  size_t len = 0;
  const char *text = http_response_header(r, "retry-after", &len);
  if (!text || !len || len > 15 || strspn(text, "0123456789.") < len)
    return;
  lua_pushlstring(L, text, len);
  int is_number;
  lua_Number seconds = lua_tonumberx(L, -1, &is_number);
  lua_pop(L, 1);
  if (!is_number)
    return;
  lua_pushnumber(L, seconds);
  lua_setfield(L, -2, "retry_after");
}

void vu_push_response(lua_State *L, const struct http_request *r) {
  struct bind_known known;
  luaL_checkstack(L, 12, "response");
  bind_known_open(L, &known);
  lua_createtable(L, 0, 3);
  if (r->status > 0)
    set_count(L, "status", r->status);
  set_headers(L, r, &known);
  set_retry_after(L, r);
  lua_remove(L, known.kept);
}

void vu_push_result(lua_State *L, const struct http_request *r, const char *replica_id) {
  struct bind_known known;
  luaL_checkstack(L, 12, "result");
  bind_known_open(L, &known);
  lua_createtable(L, 0, r->api != OPENAI_NONE ? 12 : 5);
  lua_pushinteger(L, r->status);
  lua_setfield(L, -2, "status");
  set_headers(L, r, &known);
  set_seconds(L, "e2e", r->stamp_ns[STAMP_START], r->stamp_ns[STAMP_DONE]);
  size_t len = 0;
  const char *served = http_response_header(r, "x-inference-pod", &len);
  if (!served)
    served = http_response_header(r, "x-backend-id", &len);
  if (!served && replica_id) {
    served = replica_id;
    len = strlen(replica_id);
  }
  if (served) {
    bind_push_known(L, &known, served, len);
    lua_setfield(L, -2, "served");
  }
  if (r->api != OPENAI_NONE)
    set_generation(L, r);
  else
    set_buf(L, "body", &r->body);
  lua_remove(L, known.kept);
}
