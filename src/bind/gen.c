/* gen.c: module perigee.gen.core, the C half of lua/perigee/gen.lua: generated text.
 *
 * The words are plain English ones, picked so that a text looks like prose to a tokenizer (mean
 * length near five letters, mostly one token each); which text it is depends on the generator
 * alone. */
#include "bind/bind.h"
#include "bind/core.h"
#include "bind/text.h"

#include <math.h>
#include <string.h>

#include <lauxlib.h>

#include "bind/gentokens.h"
#include "bind/hold.h"
#include "bind/luatokenizer.h"
#include "bind/rng.h"
#include "run/state.h"

static const char tokens_key, costs_key, held_key; /* their addresses are registry keys */

void bind_gen_set_tokens(lua_State *L, double bytes_per_token, bool exact) {
  assert(bytes_per_token > 0);
  struct gen_tokens *t = lua_newuserdatauv(L, sizeof *t, 0);
  *t = (struct gen_tokens){.bytes_per_token = bytes_per_token, .exact = exact};
  lua_rawsetp(L, LUA_REGISTRYINDEX, &tokens_key);
}

void bind_gen_set_encoder(lua_State *L, struct tokens_encoder *encoder) {
  struct gen_costs *costs = lua_newuserdatauv(L, sizeof *costs, 0);
  memset(costs, 0, sizeof *costs);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &costs_key);
  struct gen_tokens *t = lua_newuserdatauv(L, sizeof *t, 0);
  *t = (struct gen_tokens){
      .bytes_per_token = GEN_BYTES_A_TOKEN, .exact = true, .encoder = encoder, .costs = costs};
  lua_rawsetp(L, LUA_REGISTRYINDEX, &tokens_key);
}

struct gen_tokens bind_gen_tokens(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &tokens_key);
  const struct gen_tokens *t = lua_touserdata(L, -1);
  struct gen_tokens result = t ? *t : (struct gen_tokens){.bytes_per_token = 1, .exact = true};
  const struct state *s = state_of(L);
  result.count = s ? s->texts : NULL;
  lua_pop(L, 1);
  return result;
}

/* 256 words, so that eight random bits pick one. */
static const char words[TEXT_WORDS_COUNT][12] = {
    "about",    "above",   "across",   "after",     "again",     "against",  "almost",  "along",
    "already",  "also",    "although", "always",    "among",     "another",  "answer",  "around",
    "away",     "back",    "because",  "become",    "before",    "begin",    "behind",  "below",
    "best",     "better",  "between",  "body",      "book",      "both",     "bring",   "build",
    "business", "call",    "came",     "can",       "care",      "carry",    "case",    "change",
    "child",    "city",    "class",    "clear",     "close",     "come",     "common",  "could",
    "country",  "course",  "day",      "deep",      "different", "door",     "down",    "draw",
    "drive",    "during",  "each",     "early",     "earth",     "east",     "easy",    "end",
    "enough",   "even",    "ever",     "every",     "example",   "face",     "fact",    "fall",
    "family",   "farm",    "fast",     "father",    "feel",      "field",    "find",    "fire",
    "first",    "follow",  "food",     "foot",      "form",      "found",    "four",    "free",
    "friend",   "from",    "full",     "game",      "give",      "good",     "great",   "green",
    "ground",   "group",   "grow",     "half",      "hand",      "hard",     "have",    "head",
    "hear",     "heat",    "help",     "here",      "high",      "hold",     "home",    "hour",
    "house",    "however", "idea",     "important", "inside",    "island",   "just",    "keep",
    "kind",     "know",    "land",     "large",     "last",      "late",     "later",   "lead",
    "learn",    "leave",   "left",     "less",      "letter",    "level",    "life",    "light",
    "line",     "list",    "listen",   "little",    "live",      "local",    "long",    "look",
    "machine",  "main",    "make",     "many",      "mark",      "matter",   "mean",    "measure",
    "method",   "might",   "mile",     "mind",      "minute",    "money",    "month",   "more",
    "morning",  "most",    "mother",   "mountain",  "move",      "much",     "music",   "must",
    "name",     "near",    "need",     "never",     "new",       "next",     "night",   "north",
    "note",     "nothing", "notice",   "now",       "number",    "object",   "often",   "old",
    "once",     "only",    "open",     "order",     "other",     "over",     "page",    "paper",
    "part",     "pass",    "past",     "pattern",   "people",    "perhaps",  "person",  "picture",
    "piece",    "place",   "plain",    "plan",      "plant",     "play",     "point",   "power",
    "press",    "problem", "produce",  "public",    "pull",      "question", "quick",   "quiet",
    "rain",     "reach",   "read",     "ready",     "real",      "reason",   "record",  "rest",
    "result",   "right",   "river",    "road",      "rock",      "room",     "round",   "rule",
    "same",     "school",  "science",  "second",    "seem",      "sentence", "several", "shape",
    "short",    "should",  "show",     "side",      "simple",    "since",    "small",   "some",
    "song",     "soon",    "sound",    "south",     "space",     "stand",    "start",   "state",
};

/* One draw gives five words of 8 bits, each with 3 bits that end a sentence one time in eight. */
unsigned text_next_word(struct text_words *w, bool *sentence_ends) {
  if (w->left == 0) {
    w->bits = rng_u64(w->rng);
    w->left = 5;
  }
  unsigned word = w->bits & 255;
  *sentence_ends = ((w->bits >> 8) & 7) == 0;
  w->bits >>= 11;
  w->left--;
  return word;
}

void text_put_word(struct buf *b, unsigned word, bool capital) {
  size_t start = b->len;
  buf_puts(b, words[word]);
  if (capital)
    b->data[start] = (char)(b->data[start] - 'a' + 'A');
}

void text_write_bytes(struct buf *b, size_t n, struct rng *rng) {
  struct text_words source = {.rng = rng};
  size_t end = b->len + n;
  bool capital = true, ends = false;
  while (b->len < end) {
    unsigned word = text_next_word(&source, &ends);
    text_put_word(b, word, capital);
    buf_puts(b, ends ? ". " : " ");
    capital = ends;
  }
  b->len = end;
  if (b->data[end - 1] == ' ') /* no text ends in a space: servers trim them */
    b->data[end - 1] = '.';
  b->data[end] = '\0';
}

void text_write_words(struct buf *b, size_t n, struct rng *rng) {
  struct text_words source = {.rng = rng};
  bool ends;
  for (size_t i = 0; i < n; i++) {
    if (i)
      buf_putc(b, ' ');
    text_put_word(b, text_next_word(&source, &ends), false);
  }
}

/* The generator of a text: named by a seed (same bytes in every run and state), or by one number
 * drawn now from a generator, so that the script's order of draws is what counts. */
static MAY_RAISE struct rng recipe_rng(lua_State *L, int seed, int rng) {
  struct rng out;
  struct rng *from = bind_test_rng(L, rng);
  if (from) {
    rng_init(&out, rng_u64(from), 0);
    return out;
  }
  size_t len;
  const char *name = luaL_tolstring(L, seed, &len); /* 1 and "1" name the same text */
  rng_init_bytes(&out, 0, name, len);
  lua_pop(L, 1);
  return out;
}

static int make(lua_State *L, enum text_kind kind) {
  lua_Integer amount = luaL_checkinteger(L, 1);
  luaL_argcheck(L, amount >= 1 && amount <= 1000000000, 1, "out of range");
  struct rng rng = recipe_rng(L, 2, 3);
  *bind_new_text(L) = text_new_recipe(kind, (double)amount, &rng);
  return 1;
}

/* tokens(n, seed or nil, rng or nil), words(n, seed or nil, rng or nil) -> text */
static int gen_tokens_text(lua_State *L) {
  return make(L, TEXT_TOKENS);
}
static int gen_words_text(lua_State *L) {
  return make(L, TEXT_WORDS);
}

/* of(text or string) -> text */
static int gen_of(lua_State *L) {
  bind_check_text_node(L, 1, "gen.of: the text");
  return 1;
}

/* Makes the handle at `joined` the join of itself and the text on top (popped). */
static MAY_RAISE void join_one(lua_State *L, int joined, const char *what) {
  struct text *right = bind_check_text_node(L, -1, what);
  struct text **out = bind_new_text(L);
  *out = text_join(L, "gen.join", bind_test_text(L, joined), right);
  lua_replace(L, joined);
  lua_pop(L, 2);
}

/* join({text or string…}, separator or nil) -> text */
static int gen_join(lua_State *L) {
  if (lua_type(L, 1) != LUA_TTABLE)
    bind_raise(L, "gen.join: a list of texts is expected, got %s", luaL_typename(L, 1));
  lua_settop(L, 2);
  bool separated = !lua_isnil(L, 2);
  if (separated)
    bind_check_text_node(L, 2, "gen.join: the separator");
  else
    lua_pushnil(L);
  lua_replace(L, 2);
  lua_Integer n = luaL_len(L, 1);
  if (n == 0)
    lua_pushliteral(L, "");
  else
    lua_geti(L, 1, 1);
  bind_check_text_node(L, 3, "gen.join: text 1"); /* 4: what is joined so far */
  for (lua_Integer i = 2; i <= n; i++) {
    if (separated) {
      lua_pushvalue(L, 2);
      join_one(L, 4, "gen.join: the separator");
    }
    const char *what = lua_pushfstring(L, "gen.join: text %I", (LUAI_UACINT)i);
    lua_geti(L, 1, i);
    join_one(L, 4, what);
    lua_pop(L, 1);
  }
  lua_settop(L, 4);
  return 1;
}

/* is_rng(x), is_text(x) */
static int gen_is_rng(lua_State *L) {
  lua_pushboolean(L, bind_test_rng(L, 1) != NULL);
  return 1;
}
static int gen_is_text(lua_State *L) {
  lua_pushboolean(L, bind_test_text(L, 1) != NULL);
  return 1;
}

/* rng(seed) -> generator named by a number or a string */
static int gen_rng(lua_State *L) {
  int type = lua_type(L, 1);
  luaL_argexpected(L, type == LUA_TNUMBER || type == LUA_TSTRING, 1, "number or string");
  size_t len;
  const char *name = luaL_tolstring(L, 1, &len);
  struct rng *r = bind_new_rng(L);
  rng_init_bytes(r, 0, name, len);
  return 1;
}

/* pow(x, y) for x > 0, ln(x): the same on every machine, unlike libm's. */
static int gen_pow(lua_State *L) {
  double x = luaL_checknumber(L, 1), y = luaL_checknumber(L, 2);
  luaL_argcheck(L, x > 0 && isfinite(x), 1, "must be positive");
  lua_pushnumber(L, rng_expm(y * rng_ln(x)));
  return 1;
}

/* count(text) -> its tokens (estimated when the tokenizer is not known), whether that is exact */
static int gen_count(lua_State *L) {
  struct gen_tokens t = bind_gen_tokens(L);
  const struct blob *text = bind_text_blob(L, bind_check_text_node(L, 1, "gen.count: the text"));
  lua_pushinteger(L, bind_count_tokens(L, t, text->data, text->len));
  lua_pushboolean(L, t.exact);
  return 2;
}

lua_Integer bind_count_tokens(lua_State *L, struct gen_tokens t, const char *text, size_t len) {
  const struct tokens_options options = {.special = true};
  struct err err;
  size_t n = 0;
  if (!t.encoder)
    return (lua_Integer)floor((double)len / t.bytes_per_token + 0.5);
  if (tokens_encoder_count(t.encoder, text, len, &options, &n, &err))
    bind_raise(L, "counting tokens: %s", err.text);
  return (lua_Integer)n;
}

/* use(tokenizer): texts are counted by it from now on, as a run counts by its own; for specs. */
static int gen_use(lua_State *L) {
  struct tokens_encoder *encoder = bind_test_tokenizer(L, 1);
  if (!encoder)
    bind_raise(L, "gen.use: a tokenizer of perigee.tokenizer is expected, got %s",
               bind_shown(L, 1));
  if (state_of(L))
    bind_raise(L, "gen.use: a run counts by its own tokenizer (--tokenizer)");
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &held_key); /* the encoder is the handle's */
  bind_gen_set_encoder(L, encoder);
  return 0;
}

static const luaL_Reg functions[] = {
    {"count", gen_count},
    {"is_rng", gen_is_rng},
    {"is_text", gen_is_text},
    {"join", gen_join},
    {"of", gen_of},
    {"pow", gen_pow},
    {"rng", gen_rng},
    {"tokens", gen_tokens_text},
    {"use", gen_use},
    {"words", gen_words_text},
    {NULL, NULL},
};

int luaopen_perigee_gen_core(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
