/* conv.c: module perigee.chat.core, the C half of lua/perigee/chat.lua: the history of a chat.
 *
 * Each message is one piece of canonical JSON, made when the message is added and shared by every
 * fork and request that needs it. A request's body is a head, those pieces and a tail: nothing of
 * the history is copied per turn. Turns, steps, branches and open tool calls are kept in Lua. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bind/bind.h"
#include "bind/conv.h"
#include "bind/core.h"
#include "bind/hold.h"
#include "bind/rng.h"
#include "bind/text.h"
#include "text/json.h"

static const char *const role_names[] = {"system", "user", "assistant", "tool", NULL};

struct conv *conv_check(lua_State *L, int index) {
  return bind_check_userdata(L, index, CONV_TYPE);
}

static void drop_messages(struct conv *c, size_t keep) {
  conv_changed(c, keep);
  while (c->n > keep) {
    struct message *m = &c->messages[--c->n];
    c->text_bytes -= m->text_bytes;
    blob_unref(m->json);
    conv_prepared_unref(m->prepared);
  }
}

/* What was made for a template is made again. */
static void forget(struct conv_prepared **p) {
  conv_prepared_unref(*p);
  *p = NULL;
}

static int conv_gc(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  drop_messages(c, 0);
  mem_free(c->messages);
  blob_unref(c->head);
  blob_unref(c->tools);
  conv_prepared_unref(c->prepared_tools);
  conv_prompt_free(c);
  *c = (struct conv){0};
  return 0;
}

static void add_message(struct conv *c, struct blob *json, size_t text_bytes, enum role role) {
  MEM_GROW(c->messages, c->n, c->cap);
  conv_changed(c, c->n);
  c->messages[c->n++] = (struct message){blob_ref(json), text_bytes, role, NOT_COUNTED, NULL};
  c->text_bytes += text_bytes;
}

/* What is in the buffer becomes the next message; the buffer is empty afterwards. */
static void add_buf(lua_State *L, struct conv *c, struct buf *b, size_t text_bytes,
                    enum role role) {
  struct blob *json = blob_from_buf(b);
  blob_count_in(json, bind_gen_tokens(L).count);
  add_message(c, json, text_bytes, role);
  blob_unref(json);
}

static void open_message(const struct conv *c, struct buf *b, enum role role) {
  if (c->n)
    buf_putc(b, ',');
  buf_puts(b, "{\"role\":\"");
  buf_puts(b, role_names[role]);
  buf_puts(b, "\",");
}

static void put_string(struct buf *b, const char *name, const char *s, size_t len) {
  buf_putc(b, '"');
  buf_puts(b, name);
  buf_puts(b, "\":");
  json_write_string(b, s, len);
}

/* The piece for a plain message; kept with the text, so that a shared prompt is escaped once. */
MAY_RAISE static struct blob *plain_json(lua_State *L, const struct conv *c, struct text *t,
                                         const struct blob *text, enum role role) {
  int form = (int)role * 2 + (c->n ? 1 : 0);
  if (!t->json || t->json_form != form) {
    bind_reserve_text(L, (double)text->len);
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    open_message(c, &b, role);
    put_string(&b, "content", text->data, text->len);
    buf_putc(&b, '}');
    blob_unref(t->json);
    t->json = blob_from_buf(&b);
    blob_count_in(t->json, bind_gen_tokens(L).count);
    t->json_form = form;
    buf_free(&b);
  }
  return t->json;
}

static struct blob *check_text(lua_State *L, int index, const char *what, struct text **node) {
  *node = bind_check_text_node(L, index, what);
  return bind_text_blob(L, *node);
}

/* ---- module functions ---- */

static int conv_len(lua_State *L);
static MAY_RAISE struct conv *push_conv(lua_State *L);

static void set_head(struct conv *c, const char *model, size_t len) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_putc(&b, '{');
  if (model) {
    put_string(&b, "model", model, len);
    buf_putc(&b, ',');
  }
  buf_puts(&b, "\"messages\":[");
  c->head = blob_from_buf(&b);
  buf_free(&b);
}

static uint64_t split_key(struct rng *r) {
  struct rng child;
  rng_split(r, &child);
  return child.key;
}

/* new(model or nil, rng) -> conv */
static int conv_new(lua_State *L) {
  size_t len = 0;
  const char *model = luaL_optlstring(L, 1, NULL, &len);
  struct rng *r = bind_check_rng(L, 2);
  struct conv *c = push_conv(L);
  c->key = split_key(r);
  set_head(c, model, len);
  return 1;
}

/* conv:fork(rng) -> conv that shares every message so far */
static int conv_fork(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  struct rng *r = bind_check_rng(L, 2);
  struct conv *f = push_conv(L);
  f->key = split_key(r);
  f->head = blob_ref(c->head);
  f->tools = c->tools ? blob_ref(c->tools) : NULL;
  f->cap = c->n + 8; /* a fork goes on */
  f->messages = mem_calloc(f->cap, sizeof *f->messages);
  for (size_t i = 0; i < c->n; i++) {
    add_message(f, c->messages[i].json, c->messages[i].text_bytes, c->messages[i].role);
    f->messages[i].tokens = c->messages[i].tokens;
    f->messages[i].prepared = conv_prepared_ref(c->messages[i].prepared);
  }
  f->prepared_tools = conv_prepared_ref(c->prepared_tools);
  conv_prompt_fork(c, f);
  return 1;
}

/* conv:add(role, text, what): `what` the text is, for messages */
static int conv_add(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  enum role role = (enum role)luaL_checkoption(L, 2, NULL, role_names);
  struct text *node;
  struct blob *text = check_text(L, 3, luaL_optstring(L, 4, "the message"), &node);
  add_message(c, plain_json(L, c, node, text, role), text->len, role);
  c->answers += role == ROLE_ASSISTANT;
  return 0;
}

/* The generator of the next assistant message. */
static struct rng answer_rng(const struct conv *c) {
  struct rng r;
  rng_init(&r, c->key, c->answers);
  return r;
}

/* conv:answer(tokens): a scripted answer of that many tokens */
static int conv_answer(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  lua_Integer tokens = luaL_checkinteger(L, 2);
  luaL_argcheck(L, tokens >= 1 && tokens <= 1000000000, 2, "out of range");
  struct rng r = answer_rng(c);
  struct text **node = bind_new_text(L);
  *node = text_new_recipe(TEXT_TOKENS, (double)tokens, &r);
  struct blob *text = bind_text_blob(L, *node);
  add_message(c, plain_json(L, c, *node, text, ROLE_ASSISTANT), text->len, ROLE_ASSISTANT);
  c->answers++;
  return 0;
}

/* Nine letters and digits: the one length and alphabet that every chat template accepts. */
static void write_call_id(char id[10], struct rng *r) {
  static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  for (int i = 0; i < 9; i++)
    id[i] = alphabet[rng_int(r, 0, 35)];
  id[9] = '\0';
}

static size_t put_call(struct buf *b, const char *id, size_t id_len, const char *name,
                       size_t name_len, const char *arguments, size_t arguments_len) {
  buf_putc(b, '{');
  put_string(b, "id", id, id_len);
  buf_puts(b, ",\"type\":\"function\",\"function\":{");
  put_string(b, "name", name, name_len);
  buf_putc(b, ',');
  put_string(b, "arguments", arguments, arguments_len);
  buf_puts(b, "}}");
  return name_len + arguments_len;
}

/* conv:call(name, arguments_json) -> id: the assistant asks for a tool */
static int conv_call(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  size_t name_len, arguments_len;
  const char *name = luaL_checklstring(L, 2, &name_len);
  const char *arguments = luaL_checklstring(L, 3, &arguments_len);
  struct buf *b = bind_hold_buf(L);
  struct rng r = answer_rng(c);
  char id[10];
  write_call_id(id, &r);
  lua_pushstring(L, id);
  open_message(c, b, ROLE_ASSISTANT);
  buf_puts(b, "\"content\":null,\"tool_calls\":[");
  size_t text = put_call(b, id, 9, name, name_len, arguments, arguments_len);
  buf_puts(b, "]}");
  add_buf(L, c, b, text, ROLE_ASSISTANT);
  c->answers++;
  return 1;
}

static const char *field(lua_State *L, int index, const char *name, size_t *len) {
  if (lua_getfield(L, index, name) != LUA_TSTRING)
    luaL_error(L, "a tool call's %s must be a string", name);
  return lua_tolstring(L, -1, len);
}

/* The id of the call at the top of the stack; one without gets one. */
static MAY_RAISE void give_id(lua_State *L, struct rng *r) {
  char id[10];
  bool has = lua_getfield(L, -1, "id") != LUA_TNIL;
  lua_pop(L, 1);
  if (has)
    return;
  write_call_id(id, r);
  lua_pushstring(L, id);
  lua_setfield(L, -2, "id");
}

/* conv:live(text or nil, {{id=, name=, arguments=}…}, reasoning or nil): what the model really
 * said; a call without an id is given one. */
static int conv_live(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 4);
  size_t reasoning_len = 0;
  const char *reasoning = luaL_optlstring(L, 4, NULL, &reasoning_len);
  struct rng ids = answer_rng(c);
  struct buf *b = bind_hold_buf(L);
  size_t bytes = 0;
  lua_Integer calls = luaL_len(L, 3);
  open_message(c, b, ROLE_ASSISTANT);
  if (lua_isnil(L, 2)) {
    buf_puts(b, "\"content\":null");
  } else {
    struct text *node;
    struct blob *text = check_text(L, 2, "the answer", &node);
    put_string(b, "content", text->data, text->len);
    bytes = text->len;
  }
  for (lua_Integer i = 1; i <= calls; i++) {
    size_t id_len, name_len, arguments_len;
    buf_puts(b, i == 1 ? ",\"tool_calls\":[" : ",");
    int top = lua_gettop(L);
    lua_rawgeti(L, 3, i);
    luaL_checktype(L, -1, LUA_TTABLE);
    give_id(L, &ids);
    const char *id = field(L, top + 1, "id", &id_len);
    const char *name = field(L, top + 1, "name", &name_len);
    const char *arguments = field(L, top + 1, "arguments", &arguments_len);
    bytes += put_call(b, id, id_len, name, name_len, arguments, arguments_len);
    lua_settop(L, top);
  }
  buf_puts(b, calls ? "]" : "");
  if (reasoning) {
    buf_putc(b, ',');
    put_string(b, "reasoning", reasoning, reasoning_len);
  }
  buf_putc(b, '}');
  add_buf(L, c, b, bytes, ROLE_ASSISTANT);
  c->answers++;
  return 0;
}

/* conv:result(id, text): a tool's answer */
static int conv_result(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  size_t id_len;
  const char *id = luaL_checklstring(L, 2, &id_len);
  struct text *node;
  struct blob *text = check_text(L, 3, "conv:tool: the result", &node);
  struct buf *b = bind_hold_buf(L);
  open_message(c, b, ROLE_TOOL);
  put_string(b, "tool_call_id", id, id_len);
  buf_putc(b, ',');
  put_string(b, "content", text->data, text->len);
  buf_putc(b, '}');
  add_buf(L, c, b, text->len, ROLE_TOOL);
  return 0;
}

static MAY_RAISE struct message *check_message(lua_State *L, struct conv *c, int index) {
  lua_Integer i = luaL_checkinteger(L, index);
  luaL_argcheck(L, i >= 1 && (size_t)i <= c->n, index, "no such message");
  return &c->messages[i - 1];
}

/* conv:edit(i, text): another content for message i; role, ids and calls stay */
static int conv_edit(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  struct message *m = check_message(L, c, 2);
  struct text *node;
  struct blob *text = check_text(L, 3, "conv:edit: the new text", &node);
  struct value *v = bind_hold_value(L);
  struct buf *b = bind_hold_buf(L);
  size_t comma = m == c->messages ? 0 : 1;
  struct err err;
  if (json_parse(m->json->data + comma, m->json->len - comma, v, &err))
    return luaL_error(L, "message %d: %s", (int)lua_tointeger(L, 2), err.text);
  const struct value *content = value_get(v, "content");
  size_t before = content && content->kind == VALUE_STRING ? content->u.string.len : 0;
  value_set(v, "content", value_string(text->data, text->len));
  if (comma)
    buf_putc(b, ',');
  json_write(b, v);
  blob_unref(m->json);
  m->json = blob_from_buf(b);
  m->tokens = NOT_COUNTED;
  conv_changed(c, (size_t)(m - c->messages));
  forget(&m->prepared);
  blob_count_in(m->json, bind_gen_tokens(L).count);
  m->text_bytes = m->text_bytes - before + text->len;
  c->text_bytes = c->text_bytes - before + text->len;
  return 0;
}

/* conv:truncate(n): keeps the first n messages */
static int conv_truncate(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  lua_Integer n = luaL_checkinteger(L, 2);
  luaL_argcheck(L, n >= 0 && (size_t)n <= c->n, 2, "no such message");
  drop_messages(c, (size_t)n);
  return 0;
}

/* conv:message(i) -> its JSON; conv:role(i) -> "user" … */
static int conv_message(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  struct message *m = check_message(L, c, 2);
  size_t comma = m == c->messages ? 0 : 1;
  lua_pushlstring(L, m->json->data + comma, m->json->len - comma);
  return 1;
}
static int conv_role(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  lua_pushstring(L, role_names[check_message(L, c, 2)->role]);
  return 1;
}

/* conv:count(role) -> messages of that role */
static int conv_count(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  enum role role = (enum role)luaL_checkoption(L, 2, NULL, role_names);
  lua_Integer n = 0;
  for (size_t i = 0; i < c->n; i++)
    n += c->messages[i].role == role;
  lua_pushinteger(L, n);
  return 1;
}

static int conv_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)conv_check(L, 1)->n);
  return 1;
}

/* conv:text_bytes() -> bytes of message text, roles and JSON not counted */
static int conv_text_bytes(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)conv_check(L, 1)->text_bytes);
  return 1;
}

static MAY_RAISE lua_Integer count_string(lua_State *L, struct gen_tokens t,
                                          const struct value *v) {
  return v && v->kind == VALUE_STRING ? bind_count_tokens(L, t, v->u.string.data, v->u.string.len)
                                      : 0;
}

/* The text of a message: its content, and its calls' names and arguments. */
static MAY_RAISE lua_Integer count_message(lua_State *L, struct gen_tokens t,
                                           const struct message *m, bool first) {
  struct value *v = bind_scratch_value(L);
  struct err err;
  if (json_parse(m->json->data + !first, m->json->len - !first, v, &err))
    return luaL_error(L, "a message: %s", err.text);
  lua_Integer n = count_string(L, t, value_get(v, "content"));
  const struct value *calls = value_get(v, "tool_calls");
  for (size_t i = 0; i < value_count(calls); i++) {
    const struct value *function = value_get(value_at(calls, i), "function");
    n += count_string(L, t, value_get(function, "name"));
    n += count_string(L, t, value_get(function, "arguments"));
  }
  value_free(v);
  return n;
}

/* conv:text_tokens() -> tokens of message text, roles, JSON and templates not counted */
static int conv_text_tokens(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  struct gen_tokens t = bind_gen_tokens(L);
  lua_Integer n = 0;
  if (!t.encoder)
    n = (lua_Integer)floor((double)c->text_bytes / t.bytes_per_token + 0.5);
  for (size_t i = 0; i < c->n && t.encoder; i++) {
    struct message *m = &c->messages[i];
    if (m->tokens == NOT_COUNTED)
      m->tokens = count_message(L, t, m, i == 0);
    n += m->tokens;
  }
  lua_pushinteger(L, n);
  return 1;
}

/* conv:set_tools(list or nil) */
static int conv_set_tools(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  conv_changed(c, c->n);
  forget(&c->prepared_tools);
  if (lua_isnoneornil(L, 2)) {
    blob_unref(c->tools);
    c->tools = NULL;
    return 0;
  }
  luaL_checktype(L, 2, LUA_TTABLE);
  struct value *v = bind_hold_value(L);
  struct buf *b = bind_hold_buf(L);
  bind_to_value(L, 2, v);
  buf_puts(b, ",\"tools\":");
  json_write(b, v);
  blob_unref(c->tools);
  c->tools = blob_from_buf(b);
  return 0;
}

/* conv:tools() -> their JSON, or nil */
static int conv_tools(lua_State *L) {
  const struct conv *c = conv_check(L, 1);
  if (!c->tools)
    return 0;
  lua_pushlstring(L, c->tools->data + CONV_TOOLS_KEY, c->tools->len - CONV_TOOLS_KEY);
  return 1;
}

/* conv:body(options) -> body: the request of this moment */
static int conv_body(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  struct bind_body *body = bind_new_body(L);
  struct buf *tail = bind_scratch_buf(L);
  buf_putc(tail, ']');
  if (c->tools)
    buf_put(tail, c->tools->data, c->tools->len);
  size_t at = tail->len;
  bind_write_json(L, 2, tail);
  bool empty = tail->len - at == 2;
  tail->data[at] = empty ? '}' : ','; /* in place of the opening brace */
  tail->len -= empty;
  body->cap = c->n + 2;
  body->parts = mem_calloc(body->cap, sizeof(struct blob *));
  bind_body_add(body, c->head);
  for (size_t i = 0; i < c->n; i++)
    bind_body_add(body, c->messages[i].json);
  struct blob *last = blob_new(tail->data, tail->len);
  bind_body_add(body, last);
  blob_unref(last);
  return 1;
}

static MAY_RAISE struct conv *push_conv(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", conv_gc}, {"__close", conv_gc}, {"__len", conv_len}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"add", conv_add},
      {"answer", conv_answer},
      {"body", conv_body},
      {"call", conv_call},
      {"count", conv_count},
      {"edit", conv_edit},
      {"fork", conv_fork},
      {"grow", conv_grow},
      {"grow_differs", conv_grow_differs},
      {"grow_from", conv_grow_from},
      {"harmony", conv_harmony},
      {"hashes", conv_hashes},
      {"live", conv_live},
      {"message", conv_message},
      {"prompt_body", conv_prompt_body},
      {"prompt_ids", conv_prompt_ids},
      {"prompt_sent", conv_prompt_sent},
      {"prompt_text", conv_prompt_text},
      {"prompt_tokens", conv_prompt_tokens},
      {"prompt_unknown", conv_prompt_unknown},
      {"render", conv_render},
      {"result", conv_result},
      {"role", conv_role},
      {"set_tools", conv_set_tools},
      {"text_bytes", conv_text_bytes},
      {"text_tokens", conv_text_tokens},
      {"tools", conv_tools},
      {"truncate", conv_truncate},
      {NULL, NULL},
  };
  bind_new_type(L, CONV_TYPE, meta, methods);
  return bind_new_userdata(L, sizeof(struct conv), CONV_TYPE);
}

int luaopen_perigee_chat_core(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"check_time", conv_check_time},   {"clock", conv_clock}, {"is_harmony", conv_is_harmony},
      {"is_template", conv_is_template}, {"new", conv_new},     {"place_of", conv_place_of},
      {"run_reads", conv_run_reads},     {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
