/* text.h: text handles from the inside: a node that may still have to be made.
 *
 * A node is bytes, or a recipe: generated text (amount and generator fixed when the script asked
 * for it, bytes made for the run's tokenizer at first use) or two other nodes joined. Nodes are
 * counted and belong to one Lua state; the blobs they make may go anywhere. */
#ifndef BIND_TEXT_H
#define BIND_TEXT_H

#include <lua.h>

#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "bind/gen.h"

enum text_kind { TEXT_MADE, TEXT_TOKENS, TEXT_WORDS, TEXT_JOINED };

struct text {
  uint32_t refs;
  enum text_kind kind;
  struct blob *blob; /* TEXT_MADE; the others become that at first use */
  double amount;     /* tokens or words */
  double most_bytes; /* the bytes it may come to */
  struct rng rng;
  struct text *left, *right;
  /* The last JSON form that was made of it, so that a shared system prompt is escaped once
   * per state and not once per conversation. */
  struct blob *json;
  int json_form; /* of a message: see conv.c; of a prompt: TEXT_JSON_BARE */
};
#define TEXT_JSON_BARE (-1)
/* What a text may come to; joining beyond it raises, since the memory would not be there. */
#define TEXT_MAX_BYTES ((double)((size_t)4 << 30))

struct text *text_new_blob(struct blob *blob); /* takes a reference of its own */
struct text *text_new_recipe(enum text_kind kind, double amount, const struct rng *rng);
struct text *text_new_joined(struct text *left, struct text *right); /* own references */
/* The same for scripts: raises, as function `what`, when the joined text would be too long. */
MAY_RAISE struct text *text_join(lua_State *L, const char *what, struct text *left,
                                 struct text *right);
struct text *text_ref(struct text *t);
void text_unref(struct text *t); /* NULL is allowed */
/* The bytes, made now if need be; borrowed, lives as long as the node. NULL with *err: there is no
 * text of exactly that many tokens (gentokens.h). */
struct blob *text_blob(struct text *t, struct gen_tokens tokens, struct err *err);

/* The same for scripts, counted with the state's memory: raises when there is none left. The node
 * is held by the caller's stack. */
MAY_RAISE struct blob *bind_text_blob(lua_State *L, struct text *t);
/* Raises, with the script's line, when the state has no room for so many bytes more. */
MAY_RAISE void bind_reserve_text(lua_State *L, double bytes);

/* Pushes a handle that takes over the caller's reference to the node; `make` first gives the
 * userdata, so that nothing leaks when there is no memory for it. */
MAY_RAISE struct text **bind_new_text(lua_State *L);
/* A string or a handle at `index`: pushes a handle and returns its node. `what` names the argument
 * in errors. */
MAY_RAISE struct text *bind_check_text_node(lua_State *L, int index, const char *what);
struct text *bind_test_text(lua_State *L, int index); /* NULL when it is no handle */

/* Appends exactly `n` bytes of ASCII words drawn from *rng. */
void text_write_bytes(struct buf *b, size_t n, struct rng *rng);
/* Appends `n` words separated by single spaces. */
void text_write_words(struct buf *b, size_t n, struct rng *rng);

#endif
