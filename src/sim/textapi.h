/* textapi.h: the endpoints that turn text into tokens and back, without generating: vLLM's
 * /tokenize, /detokenize, /v1/chat/completions/render and /v1/completions/render. */
#ifndef SIM_TEXTAPI_H
#define SIM_TEXTAPI_H

#include "sim/genrequest.h"

/* Each appends the reply's JSON to *out, or sets *e to what vLLM would answer. Prompts are made
 * as for generation (genprompt.h). */

/* A prompt (add_special_tokens true by default) or messages; with return_token_strs how the
 * vocabulary writes each token ("Ġthe"); with `bytes` the byte, as "<0xC3>" where it is no
 * character by itself. */
NODISCARD int textapi_tokenize(const struct genmodel *model, const struct value *body,
                               struct buf *out, struct apierror *e);
/* Special tokens are written out; broken characters become U+FFFD. */
NODISCARD int textapi_detokenize(const struct genmodel *model, const struct value *body,
                                 struct buf *out, struct apierror *e);
/* What the engine would be given for a generation request, whose body this is: one object, in a
 * list for completions. sampling_params holds what the request said and the limit that follows. */
NODISCARD int textapi_render(const struct genmodel *model, enum gen_api api, const char *body,
                             size_t len, const char *id, struct buf *out, struct apierror *e);

#endif
