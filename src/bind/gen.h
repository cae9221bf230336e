/* gen.h: how many bytes a token of generated text has in this Lua state.
 *
 * Generated text is made for the run's tokenizer. Until exact tokenizers exist there is `bytes`
 * (one token = one byte, exact); for a target whose tokenizer is not known sizes are estimated at 4
 * bytes a token. The run says which, before it loads the script; without a run it is `bytes`. */
#ifndef BIND_GEN_H
#define BIND_GEN_H

#include <lua.h>

#include "base/base.h"

struct blob_count;

struct gen_tokens {
  double bytes_per_token;
  bool exact;               /* counts are those of the server's tokenizer */
  struct blob_count *count; /* where the state counts texts; NULL = nowhere */
};

void bind_gen_set_tokens(lua_State *L, double bytes_per_token, bool exact);
struct gen_tokens bind_gen_tokens(lua_State *L);

#endif
