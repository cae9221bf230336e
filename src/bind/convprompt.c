/* convprompt.c: a conversation's prompt when it is rendered on this side: ids, JSON, block hashes.
 *
 * A template renders the messages as values that are made once per message; the text goes into
 * text/promptids, which tokenizes what is new. Harmony makes ids of what is new by itself
 * (text/harmony_grown). A renderer in Lua hands in a text or ids. What is
 * sent are the ids, in pieces that most requests of a conversation share. */
#include "bind/conv.h"

#include <lauxlib.h>
#include <string.h>

#include "base/mem.h"
#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/luablockhash.h"
#include "bind/luaharmony.h"
#include "bind/luatemplate.h"
#include "bind/luatokenizer.h"
#include "bind/text.h"
#include "io/loop.h"
#include "run/state.h"
#include "text/chatmessages.h"
#include "text/json.h"

#define MEMO_TYPE "perigee.prompt.memo"
#define ROUNDS_TYPE "perigee.prompt.rounds"
#define MEMO_BYTES ((size_t)8 << 20)    /* of a Lua state: sections of text … */
#define ROUNDS_BYTES ((size_t)32 << 20) /* … and what templates did with messages */
#define LOOSE_MARKS 3 /* special tokens at the end of a prompt that the next one may change */

/* ---- what is kept ---- */

struct conv_prepared *conv_prepared_ref(struct conv_prepared *p) {
  if (p)
    p->refs++;
  return p;
}

void conv_prepared_unref(struct conv_prepared *p) {
  if (!p || --p->refs)
    return;
  value_free(&p->value);
  mem_free(p);
}

static void free_hashing(struct conv_hashing *h) {
  blockhash_chain_delete(h->chain);
  mem_free(h->options);
  *h = (struct conv_hashing){0};
}

/* ---- what templates did with the messages ---- */

/* A state's. */
struct conv_memos {
  struct conv_memo *newest, *oldest;
  size_t bytes;
  uint64_t ids; /* given out to messages and tools */
};

static void memo_unlink(struct conv_memo *m) {
  struct conv_memos *all = m->all;
  if (!all)
    return;
  *(m->newer ? &m->newer->older : &all->newest) = m->older;
  *(m->older ? &m->older->newer : &all->oldest) = m->newer;
  all->bytes -= m->bytes;
  m->all = NULL;
  m->newer = m->older = NULL;
  m->bytes = 0;
}

static void memo_forget(struct conv_memo *m) {
  memo_unlink(m);
  template_memo_unref(m->memo);
  m->memo = NULL;
}

/* It was used just now: it becomes the newest, and the oldest go when all are too large. */
static void memo_used(struct conv_memos *all, struct conv_memo *m) {
  memo_unlink(m);
  m->all = all;
  m->bytes = template_memo_bytes(m->memo);
  m->older = all->newest;
  *(m->older ? &m->older->newer : &all->oldest) = m;
  all->newest = m;
  all->bytes += m->bytes;
  while (all->bytes > ROUNDS_BYTES && all->oldest != m)
    memo_forget(all->oldest);
}

static int memos_gc(lua_State *L) {
  struct conv_memos *all = luaL_checkudata(L, 1, ROUNDS_TYPE);
  while (all->oldest)
    memo_forget(all->oldest);
  *all = (struct conv_memos){.ids = all->ids};
  return 0;
}

static MAY_RAISE struct conv_memos *memos_of(lua_State *L) {
  static const char key;
  static const luaL_Reg meta[] = {{"__gc", memos_gc}, {NULL, NULL}};
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    bind_new_type(L, ROUNDS_TYPE, meta, NULL);
    (void)bind_new_userdata(L, sizeof(struct conv_memos), ROUNDS_TYPE);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
  }
  struct conv_memos *all = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return all;
}

void conv_prompt_free(struct conv *c) {
  mem_free(c->list.items);
  mem_free(c->list.ids);
  memo_forget(&c->memo);
  harmony_grown_free(&c->harmony);
  promptsteps_free(&c->steps);
  promptids_free(&c->prompt);
  free_hashing(&c->hashing);
}

void conv_prompt_fork(const struct conv *c, struct conv *f) {
  promptids_fork(&c->prompt, &f->prompt);
  harmony_grown_fork(&c->harmony, &f->harmony);
  f->harmony_same = c->harmony_same;
  promptsteps_fork(&c->steps, &f->steps);
  f->memo = (struct conv_memo){.memo = template_memo_ref(c->memo.memo), .changes = c->memo.changes};
  if (f->memo.memo)
    memo_used(c->memo.all, &f->memo);
  f->changes = c->changes; /* the same messages */
  f->has_sent = c->has_sent;
  f->made_by = c->made_by;
  f->hashing = c->hashing;
  if (c->hashing.chain) {
    f->hashing.chain = blockhash_chain_fork(c->hashing.chain);
    f->hashing.options = mem_strdup(c->hashing.options);
  }
}

/* ---- the state's memos ---- */

struct held_memo {
  const struct tokens *bytes; /* when there is no model's tokenizer */
  struct tokens_encoder *own;
  const struct tokens *tokens; /* the one it is of */
  struct promptids_memo *memo;
};

static int memo_gc(lua_State *L) {
  struct held_memo *h = luaL_checkudata(L, 1, MEMO_TYPE);
  promptids_memo_delete(h->memo);
  tokens_encoder_delete(h->own);
  tokens_close(h->bytes);
  *h = (struct held_memo){0};
  return 0;
}

/* Pushes a memo for the encoder; NULL: of bytes. */
static MAY_RAISE struct held_memo *push_memo(lua_State *L, struct tokens_encoder *e) {
  static const luaL_Reg meta[] = {{"__gc", memo_gc}, {NULL, NULL}};
  struct err err;
  bind_new_type(L, MEMO_TYPE, meta, NULL);
  struct held_memo *h = bind_new_userdata(L, sizeof *h, MEMO_TYPE);
  if (!e) {
    if (tokens_open("bytes", NULL, &h->bytes, &err))
      bind_raise(L, "%s", err.text);
    e = h->own = tokens_encoder_new(h->bytes);
  }
  h->tokens = e->tokens;
  h->memo = promptids_memo_new(e, MEMO_BYTES);
  return h;
}

/* Pushes the table of memos: tokenizer (the state's own: `true`) -> memo, which it keeps. */
static MAY_RAISE void push_memos(lua_State *L) {
  static const char key;
  bind_push_weak(L, &key, "k");
}

/* The memo for the tokenizer at `index` (a perigee.tokenizer; none or nil: the run's); the
 * conversation's prompt begins anew when its text became ids by another. */
static MAY_RAISE struct promptids_memo *memo_of(lua_State *L, struct conv *c, int index) {
  struct tokens_encoder *e = bind_gen_tokens(L).encoder;
  bool own = lua_isnoneornil(L, index);
  if (!own) {
    e = bind_test_tokenizer(L, index);
    luaL_argcheck(L, e, index, "no tokenizer, or a closed one");
  } else if (!e && !bind_gen_tokens(L).exact) {
    bind_raise(L, "a renderer needs the model's tokenizer: give the run --tokenizer");
  }
  push_memos(L);
  int memos = lua_gettop(L);
  if (own)
    lua_pushboolean(L, true);
  else
    lua_pushvalue(L, index);
  if (lua_rawget(L, memos) == LUA_TNIL) {
    if (own)
      lua_pushboolean(L, true);
    else
      lua_pushvalue(L, index);
    push_memo(L, e);
    lua_pushvalue(L, -1);
    lua_replace(L, memos + 1); /* in place of nil */
    lua_rawset(L, memos);
  }
  const struct held_memo *h = lua_touserdata(L, memos + 1);
  lua_settop(L, memos - 1);
  if (c->prompt.len && c->made_by != h->tokens->hash)
    promptids_set_ids(&c->prompt, NULL, 0);
  c->made_by = h->tokens->hash;
  return h->memo;
}

struct promptids_memo *conv_sections(lua_State *L, int index) {
  return memo_of(L, conv_check(L, 1), index);
}

uint64_t conv_now_ns(lua_State *L) {
  const struct state *s = state_of(L);
  return s && s->options.loop ? loop_refresh(s->options.loop) : 0;
}

static MAY_RAISE void push_spent(lua_State *L, uint64_t from, uint64_t to) {
  if (from)
    lua_pushinteger(L, (lua_Integer)(to - from));
  else
    lua_pushnil(L);
}

static int push_failure(lua_State *L, const struct err *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->text);
  return 2;
}

static void touched(struct conv *c) {
  if (c->prompt.kept < c->hashing.stable)
    c->hashing.stable = c->prompt.kept;
}

void conv_prompt_changed(struct conv *c) {
  memo_forget(&c->memo);
  touched(c);
}

/* ---- rendering ---- */

/* Takes the value over. */
static struct conv_prepared *prepared_new(struct conv_memos *h, struct value v) {
  struct conv_prepared *p = MEM_NEW(struct conv_prepared);
  *p = (struct conv_prepared){.refs = 1, .id = ++h->ids, .value = v};
  return p;
}

static int prepare_message(struct conv_memos *h, struct conv *c, size_t i, struct err *err) {
  struct message *m = &c->messages[i];
  size_t comma = i == 0 ? 0 : 1;
  struct value list = value_array(), prepared;
  int rc =
      json_parse(m->json->data + comma, m->json->len - comma, value_push(&list, value_null()), err);
  if (!rc)
    rc = chatmessages_prepare(&list, &prepared, err);
  value_free(&list);
  if (rc)
    return err_prefix(err, "message %zu", i + 1);
  m->prepared = prepared_new(h, *value_at(&prepared, 0));
  *value_at(&prepared, 0) = value_null();
  value_free(&prepared);
  return 0;
}

static int prepare_tools(struct conv_memos *h, struct conv *c, struct err *err) {
  struct value raw, prepared;
  if (c->prepared_tools || !c->tools)
    return 0;
  int rc = json_parse(c->tools->data + CONV_TOOLS_KEY, c->tools->len - CONV_TOOLS_KEY, &raw, err);
  if (rc)
    return rc;
  rc = chatmessages_tools(&raw, &prepared, err);
  value_free(&raw);
  if (!rc)
    c->prepared_tools = prepared_new(h, prepared);
  return rc;
}

/* The messages as a list whose items are borrowed, and what each is known by. */
static int list_messages(struct conv_memos *h, struct conv *c, struct err *err) {
  struct conv_list *l = &c->list;
  if (c->n > l->cap) {
    l->cap = c->n * 2;
    l->items = mem_resize(l->items, l->cap, sizeof *l->items);
    l->ids = mem_resize(l->ids, l->cap, sizeof *l->ids);
  }
  for (; l->n < c->n; l->n++) {
    int rc = c->messages[l->n].prepared ? 0 : prepare_message(h, c, l->n, err);
    if (rc)
      return rc;
    const struct conv_prepared *p = c->messages[l->n].prepared;
    assert(p);
    l->items[l->n] = p->value;
    l->ids[l->n] = p->id;
  }
  return 0;
}

/* Renders; what differs from the prompt that is there goes into `tail`. */
static int render(struct conv_memos *h, struct conv *c, const struct held_template *tpl,
                  const struct value *kwargs, const struct template_options *options,
                  struct buf *tail, size_t *common, struct err *err) {
  struct value messages = value_array();
  int rc = prepare_tools(h, c, err);
  if (!rc)
    rc = list_messages(h, c, err);
  if (rc)
    return rc;
  messages.u.array.items = c->list.items;
  messages.u.array.n = c->n;
  struct template_chat chat = {.messages = &messages,
                               .tools = c->prepared_tools ? &c->prepared_tools->value : NULL,
                               .kwargs = kwargs,
                               .add_generation_prompt = true};
  struct template_grown grown = {.ids = c->list.ids,
                                 .tools_id = c->prepared_tools ? c->prepared_tools->id : 0,
                                 .unchanged = c->memo.changes == c->changes,
                                 .old = promptids_text(&c->prompt),
                                 .old_len = c->prompt.len};
  if (!c->memo.memo)
    c->memo.memo = template_memo_new();
  rc = bind_template_render(tpl, &c->memo.memo, &chat, &grown, options, tail, common, err);
  c->memo.changes = c->changes;
  memo_used(h, &c->memo);
  return rc;
}

/* conv:render(template's core, kwargs or nil, now or nil, tokenizer or nil) -> render_ns,
 * tokenize_ns (nil without a run's clock); nil, message. */
int conv_render(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  const struct held_template *tpl = bind_test_template(L, 2);
  luaL_argcheck(L, tpl, 2, "no template");
  struct template_options options = {0};
  struct err err;
  lua_settop(L, 5);
  size_t len = 0, common = 0;
  const char *now = luaL_optlstring(L, 4, NULL, &len);
  struct value *kwargs = lua_isnil(L, 3) ? NULL : bind_hold_value(L);
  if (kwargs)
    bind_to_value(L, 3, kwargs);
  options.has_now = now != NULL;
  if (now && pytime_parse(now, len, &options.now, &err) < 0)
    return push_failure(L, &err);
  struct promptids_memo *memo = memo_of(L, c, 5);
  struct conv_memos *h = memos_of(L);
  struct buf *tail = bind_scratch_buf(L);
  uint64_t t0 = conv_now_ns(L);
  bind_template_watch(L, &options);
  int rc = render(h, c, tpl, kwargs, &options, tail, &common, &err);
  if (rc == ERR_LIMIT)
    state_check_time(L);
  if (rc)
    return push_failure(L, &err);
  uint64_t t1 = conv_now_ns(L);
  if (promptids_set_tail(&c->prompt, memo, common, tail->len ? tail->data : "", tail->len, &err)) {
    memo_forget(&c->memo); /* its text is not the prompt's */
    return push_failure(L, &err);
  }
  touched(c);
  push_spent(L, t0, t1);
  push_spent(L, t1, conv_now_ns(L));
  return 2;
}

static struct blob *message_json(const void *of, size_t i) {
  const struct conv *c = of;
  return c->messages[i].json;
}

/* conv:harmony(renderer, options) -> render_ns, tokenize_ns (nil without a run's clock); nil,
 * message. The options are those of renderer:render_ids, without tools: the conversation has them.
 */
int conv_harmony(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  struct err err;
  lua_settop(L, 3);
  luaL_argcheck(L, bind_harmony_is_ours(L, 2), 2, "no Harmony renderer");
  struct harmony_history h = {.of = c,
                              .message = message_json,
                              .n = c->n,
                              .same = c->harmony_same,
                              .tools = c->tools,
                              .tools_skip = CONV_TOOLS_KEY};
  h.chat = bind_harmony_chat(L, 2, 3, "harmony_renderer:render_ids");
  bool for_run = lua_istable(L, 3) && lua_getfield(L, 3, "for_run") && lua_toboolean(L, -1);
  struct harmony_memo *memo = bind_harmony_memo(L, 2, for_run, &err);
  if (!memo)
    return push_failure(L, &err);
  uint64_t t0 = conv_now_ns(L);
  if (harmony_grown_render(&c->harmony, &c->prompt, memo, &h, &err))
    return push_failure(L, &err);
  uint64_t t1 = conv_now_ns(L);
  if (harmony_grown_tokenize(&c->harmony, &c->prompt, memo, &h, &err))
    return push_failure(L, &err);
  memo_forget(&c->memo);
  c->harmony_same = c->n;
  touched(c);
  push_spent(L, t0, t1);
  push_spent(L, t1, conv_now_ns(L));
  return 2;
}

/* is_harmony(x) -> whether conv:harmony takes it */
int conv_is_harmony(lua_State *L) {
  lua_pushboolean(L, bind_harmony_is_ours(L, 1));
  return 1;
}

/* conv:prompt_text(text, tokenizer or nil) -> tokenize_ns: what a renderer made; nil, message */
int conv_prompt_text(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  struct err err;
  lua_settop(L, 3);
  const struct blob *text = bind_text_blob(L, bind_check_text_node(L, 2, "the renderer's text"));
  struct promptids_memo *memo = memo_of(L, c, 3);
  uint64_t t0 = conv_now_ns(L);
  memo_forget(&c->memo);
  if (promptids_set_text(&c->prompt, memo, text->data, text->len, &err))
    return push_failure(L, &err);
  touched(c);
  push_spent(L, t0, conv_now_ns(L));
  return 1;
}

uint32_t *conv_check_ids(lua_State *L, int index, int tokenizer, size_t before, size_t *out) {
  luaL_checktype(L, index, LUA_TTABLE);
  struct tokens_encoder *e = bind_test_tokenizer(L, tokenizer);
  e = e ? e : bind_gen_tokens(L).encoder;
  size_t n = (size_t)luaL_len(L, index);
  uint32_t *ids = lua_newuserdatauv(L, (n ? n : 1) * sizeof *ids, 0);
  for (size_t i = 0; i < n; i++) {
    int whole = 0, number = (int)(before + i + 1);
    lua_geti(L, index, (lua_Integer)i + 1);
    lua_Integer id = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &whole) : 0;
    if (!whole || id < 0 || id > UINT32_MAX)
      bind_raise(L, "the renderer's token %d is %s, not a token id", number, bind_shown(L, -1));
    if (e && id >= e->tokens->vocab_size)
      bind_raise(L, "the renderer's token %d is %lld, and tokenizer %s has ids below %d", number,
                 (long long)id, e->tokens->name, (int)e->tokens->vocab_size);
    ids[i] = (uint32_t)id;
    lua_pop(L, 1);
  }
  *out = n;
  return ids;
}

/* conv:prompt_ids(list, tokenizer or nil): what a renderer made, in ids of that or the run's */
int conv_prompt_ids(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  size_t n;
  lua_settop(L, 3);
  const uint32_t *ids = conv_check_ids(L, 2, 3, 0, &n);
  promptids_set_ids(&c->prompt, ids, n);
  conv_prompt_changed(c);
  return 0;
}

/* ---- what becomes of it ---- */

/* conv:prompt_tokens() -> number of ids */
int conv_prompt_tokens(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)conv_check(L, 1)->prompt.n);
  return 1;
}

/* conv:prompt_sent() -> how many leading ids the prompt shares with the one that was sent before;
 * nil for the first. From here on this one is. */
int conv_prompt_sent(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  if (c->has_sent)
    lua_pushinteger(L, (lua_Integer)promptids_survived(&c->prompt));
  else
    lua_pushnil(L);
  promptids_send(&c->prompt);
  c->has_sent = true;
  return 1;
}

/* conv:prompt_unknown(): the server renders a prompt itself, so the next one has none to share
 * with. */
int conv_prompt_unknown(lua_State *L) {
  conv_check(L, 1)->has_sent = false;
  return 0;
}

static void add_piece(struct bind_body *body, struct buf *b) {
  struct blob *blob = blob_from_buf(b);
  bind_body_add(body, blob);
  blob_unref(blob);
}

/* conv:prompt_body(options) -> body {…options…,"prompt":[ids]} */
int conv_prompt_body(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  struct buf *b = bind_hold_buf(L);
  struct bind_body *body = bind_new_body(L);
  bind_write_json(L, 2, b);
  b->len--; /* the closing brace comes last */
  buf_puts(b, b->len > 1 ? ",\"prompt\":[" : "\"prompt\":[");
  bind_reserve_text(L, (double)(c->prompt.n - (c->prompt.n_parts ? c->prompt.kept : 0)) * 7);
  promptids_write(&c->prompt);
  body->cap = c->prompt.n_parts + 2;
  body->parts = mem_calloc(body->cap, sizeof(struct blob *));
  add_piece(body, b);
  struct blob_count *count = bind_gen_tokens(L).count;
  for (size_t i = 0; i < c->prompt.n_parts; i++) {
    blob_count_in(c->prompt.parts[i].json, count);
    bind_body_add(body, c->prompt.parts[i].json);
  }
  buf_puts(b, "]}");
  add_piece(body, b);
  return 1;
}

/* ---- block hashes ---- */

/* The chain of the beginning, opened anew when the options are others or it changed. */
static MAY_RAISE void open_chain(lua_State *L, struct conv *c, const char *scheme,
                                 const struct value *options) {
  struct conv_hashing *h = &c->hashing;
  struct buf *key = bind_hold_buf(L);
  struct err err;
  buf_puts(key, scheme);
  if (options)
    json_write(key, options);
  if (h->chain && strcmp(h->options, key->data) == 0 && h->n <= h->stable)
    return;
  free_hashing(h);
  if (blockhash_chain_open(scheme, options, &h->chain, &err))
    bind_raise(L, "conv:hashes: %s", err.text);
  h->options = mem_strdup(key->data);
}

/* conv:hashes(options or nil) -> hashes of the prompt, hash_ns; nil, message */
int conv_hashes(lua_State *L) {
  struct conv *c = conv_check(L, 1);
  const struct value *options;
  struct conv_hashing *h = &c->hashing;
  struct err err;
  lua_settop(L, 2);
  uint64_t t0 = conv_now_ns(L);
  const char *scheme = bind_check_scheme(L, 2, &options);
  open_chain(L, c, scheme, options);
  const uint32_t *ids = promptids_ids(&c->prompt);
  size_t firm = promptids_firm(&c->prompt, LOOSE_MARKS);
  if (firm > h->n) {
    if (blockhash_chain_add(h->chain, ids + h->n, firm - h->n, &err)) {
      free_hashing(h);
      return push_failure(L, &err);
    }
    h->n = firm;
  }
  h->stable = c->prompt.n;
  struct blockhash_chain *chain = bind_push_hashes(L, h->chain);
  if (c->prompt.n > h->n && blockhash_chain_add(chain, ids + h->n, c->prompt.n - h->n, &err))
    return push_failure(L, &err);
  push_spent(L, t0, conv_now_ns(L));
  return 2;
}

/* clock() -> ns; nil without a run */
int conv_clock(lua_State *L) {
  uint64_t now = conv_now_ns(L);
  if (!now)
    return 0;
  lua_pushinteger(L, (lua_Integer)now);
  return 1;
}

/* is_template(x) -> whether it is the core of a template */
int conv_is_template(lua_State *L) {
  lua_pushboolean(L, bind_test_template(L, 1) != NULL);
  return 1;
}

/* run_reads(tokenizer) -> true; nil, message when the run's tokenizer is another */
int conv_run_reads(lua_State *L) {
  const struct tokens_encoder *e = bind_test_tokenizer(L, 1);
  struct err err;
  luaL_argcheck(L, e, 1, "no tokenizer, or a closed one");
  if (bind_run_reads(L, e->tokens, &err))
    return push_failure(L, &err);
  lua_pushboolean(L, true);
  return 1;
}
