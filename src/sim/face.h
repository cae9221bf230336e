/* face.h: which server a replica plays on the wire: vLLM, or another by `perigee sim --face`.
 *
 * A face is a way to write chat and completions (forms of reply.h), refusals, the owner of models
 * and a page of metrics; the engine behind it is the same. Source: facts/interfaces.md §9, §2.2,
 * fixtures/sse 09 to 15. Only vLLM's has /v1/responses, /v1/…/render, sleep and return_token_ids;
 * SGLang and llama.cpp have APIs of their own too (native.h).
 * Every answer says that it is simulated where vLLM's does. */
#ifndef SIM_FACE_H
#define SIM_FACE_H

#include "sim/meters.h"
#include "sim/reply.h"

enum face_kind {
  FACE_VLLM,
  FACE_SGLANG,
  FACE_TGI,
  FACE_LLAMACPP,
  FACE_TRTLLM,
  FACE_OLLAMA,
  FACE_KINDS
};

struct face {
  const char *name;  /* "sglang" */
  const char *title; /* "SGLang" */
  const char *owned_by;
  const struct reply_form *form;
  bool has_responses;
  bool says_cached;         /* usage has cached tokens; TGI's and Ollama's never has */
  enum meters_style meters; /* of its page of metrics, where it has one */
  uint64_t keep_alive_ns;   /* a comment after so much silence in a stream; 0 = none */
};

/* ERR_NOT_FOUND names those that exist. */
NODISCARD int face_find(const char *name, enum face_kind *out, struct err *err);
const struct face *face_get(enum face_kind kind);
/* The id of a response, as the face writes it: vLLM's with its prefix, the others' own. */
void face_id(enum face_kind kind, const char *vllm, char *out, size_t size);
/* The status with which a face refuses what vLLM refuses with this one: TGI's validation is 422. */
int face_status(enum face_kind kind, int status);
/* The body of a refusal; e->status is vLLM's. */
void face_refusal(enum face_kind kind, const struct apierror *e, struct buf *out);

#endif
