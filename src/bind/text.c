/* text.c: text handles: message text, prompts and corpora as userdata over shared bytes.
 *
 * A conversation of 100,000 tokens costs the Lua heap one small userdata per text, and the bytes
 * are made once, at first use, for the tokenizer of the run (bind/gen.h). */
#include "bind/text.h"

#include <string.h>

#include "base/mem.h"
#include "bind/bind.h"
#include "bind/chunk.h"
#include "bind/gentokens.h"
#include "bind/hold.h"
#include "run/state.h"

#define TEXT_TYPE "perigee.text"

/* ---- nodes ---- */

static struct text *node(enum text_kind kind) {
  struct text *t = MEM_NEW(struct text);
  t->refs = 1;
  t->kind = kind;
  return t;
}

struct text *text_new_blob(struct blob *blob) {
  struct text *t = node(TEXT_MADE);
  t->blob = blob_ref(blob);
  t->most_bytes = (double)blob->len;
  return t;
}

struct text *text_new_recipe(enum text_kind kind, double amount, const struct rng *rng) {
  struct text *t = node(kind);
  t->amount = amount;
  t->most_bytes = amount * (kind == TEXT_TOKENS ? 12 : 16); /* no word has more */
  t->rng = *rng;
  return t;
}

struct text *text_new_joined(struct text *left, struct text *right) {
  if (left->most_bytes == 0 || right->most_bytes == 0) /* else joins of nothing nest without end */
    return text_ref(left->most_bytes == 0 ? right : left);
  struct text *t = node(TEXT_JOINED);
  t->left = text_ref(left);
  t->right = text_ref(right);
  t->most_bytes = left->most_bytes + right->most_bytes;
  return t;
}

struct text *text_ref(struct text *t) {
  t->refs++;
  return t;
}

/* Joins made in a loop nest a million deep on either side, so this is no recursion: a node whose
 * right side is still to be dropped waits in `pending`, linked through its left. */
void text_unref(struct text *t) {
  struct text *pending = NULL;
  for (;;) {
    while (t && --t->refs == 0) {
      struct text *left = t->left;
      blob_unref(t->blob);
      blob_unref(t->json);
      if (t->right) {
        t->left = pending;
        pending = t;
      } else {
        mem_free(t);
      }
      t = left;
    }
    if (!pending)
      return;
    struct text *cell = pending;
    pending = cell->left;
    t = cell->right;
    mem_free(cell);
  }
}

static void become_made(struct text *t, struct blob *blob, struct gen_tokens tokens) {
  blob_count_in(blob, tokens.count);
  t->blob = blob;
  t->kind = TEXT_MADE;
  text_unref(t->left);
  text_unref(t->right);
  t->left = t->right = NULL;
}

static struct blob *make_joined(struct text *t, struct gen_tokens tokens, struct err *err) {
  struct text **stack = NULL;
  size_t n = 0, cap = 0;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  bool failed = false;
  MEM_GROW(stack, n, cap);
  stack[n++] = t;
  while (n > 0 && !failed) {
    struct text *at = stack[--n];
    if (at->kind == TEXT_JOINED) {
      MEM_GROW(stack, n, cap);
      stack[n++] = at->right;
      MEM_GROW(stack, n, cap);
      stack[n++] = at->left;
    } else {
      const struct blob *part = text_blob(at, tokens, err);
      failed = !part;
      if (part)
        buf_put(&b, part->data, part->len);
    }
  }
  mem_free(stack);
  struct blob *blob = failed ? NULL : blob_from_buf(&b);
  buf_free(&b);
  return blob;
}

static size_t whole(double amount) {
  return amount < 1.5 ? 1 : (size_t)(amount + 0.5);
}

static int write_recipe(const struct text *t, struct gen_tokens tokens, struct buf *b,
                        struct err *err) {
  struct rng rng = t->rng;
  if (t->kind == TEXT_WORDS)
    text_write_words(b, whole(t->amount), &rng);
  else if (tokens.encoder)
    return text_write_tokens(b, whole(t->amount), &rng, tokens.encoder, tokens.costs, err);
  else
    text_write_bytes(b, whole((double)whole(t->amount) * tokens.bytes_per_token), &rng);
  return 0;
}

struct blob *text_blob(struct text *t, struct gen_tokens tokens, struct err *err) {
  struct blob *made = NULL;
  if (t->kind == TEXT_MADE)
    return t->blob;
  if (t->kind == TEXT_JOINED) {
    made = make_joined(t, tokens, err);
  } else {
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    if (write_recipe(t, tokens, &b, err) == 0)
      made = blob_from_buf(&b);
    buf_free(&b);
  }
  if (made)
    become_made(t, made, tokens);
  return made;
}

/* The bytes that making it takes, in parts and whole; goes no further than `most`. */
static double bytes_to_make(struct text *t, struct gen_tokens tokens, double most) {
  double sum = 0;
  struct text **stack = NULL;
  size_t n = 0, cap = 0;
  MEM_GROW(stack, n, cap);
  stack[n++] = t;
  while (n > 0 && sum <= most) {
    struct text *at = stack[--n];
    double joined = t->kind == TEXT_JOINED ? 2 : 1; /* a part that is made now, and in the whole */
    if (at->kind == TEXT_JOINED) {
      MEM_GROW(stack, n, cap);
      stack[n++] = at->right;
      MEM_GROW(stack, n, cap);
      stack[n++] = at->left;
    } else if (at->kind == TEXT_MADE) {
      sum += t == at ? 0 : (double)at->blob->len;
    } else {
      sum += joined * at->amount * (at->kind == TEXT_TOKENS ? tokens.bytes_per_token : 7);
    }
  }
  mem_free(stack);
  return sum;
}

void bind_reserve_text(lua_State *L, double bytes) {
  struct state *s = state_of(L);
  if (!s || state_has_room(s, L, bytes))
    return;
  char why[400];
  state_memory_error(s, why, sizeof why);
  lua_pushfstring(L, "%s (a text of %d MiB was to be made)", why, (int)(bytes / 1048576 + 1));
  lua_error(L);
}

struct blob *bind_text_blob(lua_State *L, struct text *t) {
  struct gen_tokens tokens = bind_gen_tokens(L);
  if (t->kind != TEXT_MADE)
    bind_reserve_text(L, bytes_to_make(t, tokens, TEXT_MAX_BYTES));
  struct err err;
  struct blob *made = text_blob(t, tokens, &err);
  if (!made)
    bind_raise(L, "gen.text: %s", err.text);
  return made;
}

/* ---- handles ---- */

static struct text *check_handle(lua_State *L, int index) {
  struct text **t =
      index == 1 ? bind_check_self(L, TEXT_TYPE) : bind_check_userdata(L, index, TEXT_TYPE);
  luaL_argcheck(L, *t, index, "this text was closed");
  return *t;
}

static struct blob *check_handle_blob(lua_State *L, int index) {
  return bind_text_blob(L, check_handle(L, index));
}

static int text_gc(lua_State *L) {
  struct text **t = bind_check_userdata(L, 1, TEXT_TYPE);
  text_unref(*t);
  *t = NULL;
  return 0;
}

static int text_tostring(lua_State *L) {
  struct blob *b = check_handle_blob(L, 1);
  lua_pushlstring(L, b->data, b->len);
  return 1;
}

static int text_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)check_handle_blob(L, 1)->len);
  return 1;
}

static int text_eq(lua_State *L) {
  struct text *a = bind_test_text(L, 1), *b = bind_test_text(L, 2);
  bool equal = a == b;
  if (a && b && !equal) {
    struct blob *x = bind_text_blob(L, a), *y = bind_text_blob(L, b);
    equal = x->len == y->len && memcmp(x->data, y->data, x->len) == 0;
  }
  lua_pushboolean(L, equal);
  return 1;
}

struct text *text_join(lua_State *L, const char *what, struct text *left, struct text *right) {
  double most = left->most_bytes + right->most_bytes;
  if (most > TEXT_MAX_BYTES)
    bind_raise(L, "%s: the joined text could have %.0f bytes; a text may have %.0f", what, most,
               TEXT_MAX_BYTES);
  return text_new_joined(left, right);
}

/* No call may move the stack in here: see bind/chunk.h. */
static int text_concat(lua_State *L) {
  static const char *const sides[] = {"", "the left side of ..", "the right side of .."};
  for (int i = 1; i <= 2; i++)
    if (!bind_test_text(L, i) && lua_type(L, i) != LUA_TSTRING)
      bind_raise(L, "%s must be a string or a text, got %s", sides[i], luaL_typename(L, i));
  bind_hold_collector(L);
  struct text **out = bind_new_text(L);
  struct text *left = bind_check_text_node(L, 1, sides[1]);
  struct text *right = bind_check_text_node(L, 2, sides[2]);
  bind_release_collector(L);
  *out = text_join(L, "..", left, right);
  lua_settop(L, 3);
  return 1;
}

/* text:sub(i, j) -> string, as string.sub */
static int text_sub(lua_State *L) {
  struct blob *b = check_handle_blob(L, 1);
  lua_Integer len = (lua_Integer)b->len, i = luaL_checkinteger(L, 2), j = luaL_optinteger(L, 3, -1);
  i = i < 0 ? i + len + 1 : i;
  j = j < 0 ? j + len + 1 : j;
  i = i < 1 ? 1 : i;
  j = j > len ? len : j;
  if (i <= j)
    lua_pushlstring(L, b->data + i - 1, (size_t)(j - i + 1));
  else
    lua_pushliteral(L, "");
  return 1;
}

struct text **bind_new_text(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", text_gc},   {"__close", text_gc}, {"__tostring", text_tostring},
      {"__len", text_len}, {"__eq", text_eq},    {"__concat", text_concat},
      {NULL, NULL}};
  static const luaL_Reg methods[] = {{"sub", text_sub}, {NULL, NULL}};
  bind_new_type(L, TEXT_TYPE, meta, methods);
  return bind_new_userdata(L, sizeof(struct text *), TEXT_TYPE);
}

struct text *bind_test_text(lua_State *L, int index) {
  struct text **t = bind_test_userdata(L, index, TEXT_TYPE);
  return t ? *t : NULL;
}

struct text *bind_check_text_node(lua_State *L, int index, const char *what) {
  index = lua_absindex(L, index);
  struct text *t = bind_test_text(L, index);
  if (t) {
    lua_pushvalue(L, index);
    return t;
  }
  if (lua_type(L, index) != LUA_TSTRING)
    bind_raise(L, "%s must be a string or a text, got %s", what, luaL_typename(L, index));
  struct text **out = bind_new_text(L);
  size_t len;
  const char *s = lua_tolstring(L, index, &len);
  bind_reserve_text(L, (double)len);
  struct blob *blob = blob_new(s, len);
  blob_count_in(blob, bind_gen_tokens(L).count);
  *out = text_new_blob(blob);
  blob_unref(blob);
  return *out;
}

struct blob *bind_check_text(lua_State *L, int index) {
  return bind_text_blob(L, bind_check_text_node(L, index, "the text"));
}

void bind_push_text(lua_State *L, struct blob *text) {
  *bind_new_text(L) = text_new_blob(text);
}
