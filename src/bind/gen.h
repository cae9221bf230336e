/* gen.h: how texts become tokens in this Lua state.
 *
 * Generated text is made for the run's tokenizer: `bytes` (one token = one byte) or a model's own,
 * both exact; for a target whose tokenizer is not known sizes are estimated at 4 bytes a token. The
 * run says which, before it loads the script; without a run it is `bytes`. */
#ifndef BIND_GEN_H
#define BIND_GEN_H

#include <lua.h>

#include "base/base.h"

struct blob_count;
struct gen_costs;
struct tokens_encoder;

#define GEN_BYTES_A_TOKEN 6 /* of generated text, about: to know what memory it takes */

struct gen_tokens {
  double bytes_per_token;         /* with an encoder only about */
  bool exact;                     /* counts are those of the server's tokenizer */
  struct blob_count *count;       /* where the state counts texts; NULL = nowhere */
  struct tokens_encoder *encoder; /* of a model's tokenizer; NULL: bytes are counted */
  struct gen_costs *costs;        /* of that tokenizer; the state's */
};

void bind_gen_set_tokens(lua_State *L, double bytes_per_token, bool exact);
/* Texts are counted by this encoder, the worker's, which outlives the state. */
void bind_gen_set_encoder(lua_State *L, struct tokens_encoder *encoder);
struct gen_tokens bind_gen_tokens(lua_State *L);

/* Tokens of a text: with an encoder counted, special tokens in the text included; else by bytes. */
MAY_RAISE lua_Integer bind_count_tokens(lua_State *L, struct gen_tokens t, const char *text,
                                        size_t len);

#endif
