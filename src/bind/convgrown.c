/* convgrown.c: a conversation's prompt from a renderer in Lua that gives what is new.
 *
 * lua/perigee/prompt.lua asks from which message on (grow_from), calls the renderer's render_more,
 * holds what came against the whole where that is due (grow_differs), and hands it in (grow). Which
 * part stays is known here, text and ids lie in C; the Lua heap keeps nothing of a conversation. */
#include <string.h>

#include "bind/bind.h"
#include "bind/conv.h"
#include "bind/hold.h"
#include "bind/text.h"
#include "text/pytime.h"

#define SHOWN 24 /* bytes of a text on each side of a difference, ids of a list */

/* conv:grow_from(key) -> the first message (from 1) that is to be rendered, whether it is to be
 * compared; nothing when the prompt is what it has to be. `key`: the renderer and its options. */
int conv_grow_from(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  const char *key = luaL_checkstring(L, 2);
  if (!promptsteps_begin(&c->steps, &c->prompt, key, c->tools, c->n))
    return 0;
  c->steps_changes = c->changes;
  lua_pushinteger(L, (lua_Integer)c->steps.call.from + 1);
  lua_pushboolean(L, c->steps.call.compare);
  return 2;
}

/* What render_more gave: the text (or ids) that stays with the ending behind it. */
struct made {
  const char *text;
  const uint32_t *ids;
  size_t n, staying; /* bytes or ids */
};

/* A part of a text, as bytes that stay while the stack is as it is. */
static MAY_RAISE const struct blob *part(lua_State *L, int index, const char *what) {
  return bind_text_blob(L, bind_check_text_node(L, index, what));
}

static MAY_RAISE void join_texts(lua_State *L, int index, struct made *made) {
  const struct blob *stays = part(L, index, "the renderer's text"), *ending = NULL;
  if (!lua_isnil(L, index + 1))
    ending = part(L, index + 1, "the renderer's ending");
  *made = (struct made){.text = stays->data, .n = stays->len, .staying = stays->len};
  if (!ending || !ending->len)
    return;
  bind_reserve_text(L, (double)stays->len + (double)ending->len);
  struct buf *both = bind_hold_buf(L);
  buf_put(both, stays->data, stays->len);
  buf_put(both, ending->data, ending->len);
  made->text = both->data;
  made->n = both->len;
}

static MAY_RAISE void join_ids(lua_State *L, int index, int tokenizer, struct made *made) {
  size_t staying, more = 0;
  const uint32_t *stays = conv_check_ids(L, index, tokenizer, 0, &staying), *ending = NULL;
  if (!lua_isnil(L, index + 1))
    ending = conv_check_ids(L, index + 1, tokenizer, staying, &more);
  *made = (struct made){.text = "", .ids = stays, .n = staying + more, .staying = staying};
  if (!more)
    return;
  uint32_t *both = lua_newuserdatauv(L, made->n * sizeof *both, 0);
  if (staying)
    memcpy(both, stays, staying * sizeof *both);
  memcpy(both + staying, ending, more * sizeof *both);
  made->ids = both;
}

/* Text and ending at `index` and the one behind it; they live as long as the stack. */
static MAY_RAISE struct made check_made(lua_State *L, int index, int tokenizer) {
  struct made made;
  if (lua_istable(L, index))
    join_ids(L, index, tokenizer, &made);
  else
    join_texts(L, index, &made);
  return made;
}

static MAY_RAISE void push_ids(lua_State *L, const uint32_t *ids, size_t n, size_t at) {
  struct buf *b = bind_scratch_buf(L);
  for (size_t i = at; i < n && i < at + 4; i++)
    buf_printf(b, "%s%u", i > at ? ", " : "", ids[i]);
  if (at >= n)
    buf_puts(b, "nothing");
  lua_pushlstring(L, b->data, b->len);
}

static char byte_at(const char *a, size_t a_len, const char *b, size_t i) {
  return i < a_len ? a[i] : b[i - a_len];
}

static bool inside_character(char c) {
  return ((unsigned char)c & 0xc0) == 0x80;
}

/* The characters around byte `at` of two texts in a row. */
static MAY_RAISE void push_around(lua_State *L, const char *a, size_t a_len, const char *b,
                                  size_t b_len, size_t at) {
  size_t len = a_len + b_len, from = at > SHOWN ? at - SHOWN : 0;
  size_t end = at + SHOWN < len ? at + SHOWN : len;
  struct buf *shown = bind_scratch_buf(L);
  assert(b);
  while (from < at && inside_character(byte_at(a, a_len, b, from)))
    from++;
  while (end < len && inside_character(byte_at(a, a_len, b, end)))
    end++;
  for (size_t i = from; i < end; i++)
    buf_putc(shown, byte_at(a, a_len, b, i));
  lua_pushlstring(L, shown->len ? shown->data : "", shown->len);
}

/* conv:grow_differs(text, ending, whole, tokenizer or nil) -> nothing when both make one prompt;
 * else the first byte (or id) that differs, from 1, and both there. */
int conv_grow_differs(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  size_t at, keep = c->steps.call.keep;
  lua_settop(L, 5);
  bool ids = lua_istable(L, 4);
  struct made made = check_made(L, 2, 5);
  luaL_argcheck(L, ids == (made.ids != NULL), 4, "text and ids cannot be compared");
  if (c->prompt.changes != c->steps.call.changes)
    bind_raise(L, "the conversation was rendered anew meanwhile");
  if (ids) {
    size_t n;
    const uint32_t *whole = conv_check_ids(L, 4, 5, 0, &n);
    if (!promptsteps_ids_differ(&c->steps, &c->prompt, made.ids, made.n, whole, n, &at))
      return 0;
    lua_pushinteger(L, (lua_Integer)at + 1);
    if (at < keep)
      push_ids(L, promptids_ids(&c->prompt), keep, at);
    else
      push_ids(L, made.ids, made.n, at - keep);
    push_ids(L, whole, n, at);
  } else {
    const struct blob *whole = part(L, 4, "the whole text");
    if (!promptsteps_differs(&c->steps, &c->prompt, made.text, made.n, whole->data, whole->len,
                             &at))
      return 0;
    lua_pushinteger(L, (lua_Integer)at + 1);
    push_around(L, promptids_text(&c->prompt), keep, made.text, made.n, at);
    push_around(L, whole->data, whole->len, "", 0, at);
  }
  promptsteps_forget(&c->steps); /* nothing of it is to be trusted */
  return 3;
}

static int push_failure(lua_State *L, const struct err *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->text);
  return 2;
}

/* conv:grow(text, ending or nil, upto, tokenizer or nil) -> tokenize_ns: what render_more made of
 * the messages from the one that was asked for up to number `upto`; nil, message */
int conv_grow(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  struct err err;
  lua_settop(L, 5);
  lua_Integer upto = luaL_checkinteger(L, 4);
  struct made made = check_made(L, 2, 5);
  bool as_asked = c->prompt.changes == c->steps.call.changes;
  struct promptids_memo *memo = made.ids ? NULL : conv_sections(L, 5);
  if (as_asked && !c->steps.call.keep) /* what another tokenizer made may have gone just now */
    c->steps.call.changes = c->prompt.changes;
  uint64_t t0 = conv_now_ns(L);
  int rc = 0;
  if (c->changes != c->steps_changes)
    rc = err_set(&err, ERR_INVALID, "it changed the conversation that it renders");
  else if (upto < 0 && !c->steps.call.from)
    upto = 0; /* the last k are written otherwise, and there are no k yet */
  else if (upto < 0)
    rc = err_set(&err, ERR_INVALID, "what stays cannot be of %lld messages", (long long)upto);
  if (rc)
    return push_failure(L, &err);
  if (made.ids)
    rc = promptsteps_set_ids(&c->steps, &c->prompt, made.ids, made.n, made.staying, (size_t)upto,
                             &err);
  else
    rc = promptsteps_set_text(&c->steps, &c->prompt, memo, made.text, made.n, made.staying,
                              (size_t)upto, &err);
  if (rc)
    return push_failure(L, &err);
  conv_prompt_changed(c);
  if (!t0 || made.ids)
    lua_pushnil(L);
  else
    lua_pushinteger(L, (lua_Integer)(conv_now_ns(L) - t0));
  return 1;
}

/* place_of(function) -> "FILE:LINE" where it is written */
int conv_place_of(lua_State *L) {
  lua_Debug ar;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_getinfo(L, ">S", &ar);
  lua_pushfstring(L, "%s:%d", ar.short_src, ar.linedefined);
  return 1;
}

/* check_time(text) -> true; nil, message when it is no time as "2026-08-01T12:00:00" */
int conv_check_time(lua_State *L) {
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  struct pytime time;
  struct err err;
  if (pytime_parse(text, len, &time, &err) < 0)
    return push_failure(L, &err);
  lua_pushboolean(L, true);
  return 1;
}
