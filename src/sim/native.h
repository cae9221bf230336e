/* native.h: what SGLang and llama.cpp take beside OpenAI's API: POST /generate and POST
 * /completion.
 *
 * A body becomes one of completions (genrequest.h); answers are forms of their own
 * (reply_native.c). Source: facts/interfaces.md §2.2, §9. */
#ifndef SIM_NATIVE_H
#define SIM_NATIVE_H

#include "sim/face.h"
#include "sim/genrequest.h"

/* The path of a face's own API, which may have a second one; NULL: it has none. */
const char *native_path(enum face_kind kind);
/* Whether a POST to `path` is for it. */
bool native_has(enum face_kind kind, const char *path);
const struct reply_form *native_form(enum face_kind kind);
/* As genrequest_parse, of the body that the face takes. */
NODISCARD int native_parse(enum face_kind kind, const char *body, size_t len,
                           const struct genmodel *model, struct genrequest *out,
                           struct apierror *e);
/* The body of a refusal. */
void native_refusal(enum face_kind kind, const struct apierror *e, struct buf *out);

#endif
