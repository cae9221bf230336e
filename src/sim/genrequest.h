/* genrequest.h: the body of POST /v1/chat/completions and /v1/completions, read and checked.
 *
 * Fields and defaults as vLLM has them (facts/interfaces.md §1.1, §1.2); unknown fields are
 * accepted, fields whose effect a simulated replica cannot give are refused by name. What the model
 * will say is settled here too: the answer depends on the prompt, the fleet's seed and the
 * request's `seed` alone (temperature and the like change nothing), ends by itself after about
 * babble_length tokens (exactly that with `bytes`) unless ignore_eos, at a stop string, or at
 * max_tokens. */
#ifndef SIM_GENREQUEST_H
#define SIM_GENREQUEST_H

#include "sim/apierror.h"
#include "sim/genmodel.h"

enum gen_api { GEN_CHAT, GEN_COMPLETION };

struct genrequest {
  enum gen_api api;
  uint32_t *tokens; /* the prompt, and room for output_len more */
  uint32_t prompt_len;
  uint32_t max_tokens; /* asked for, or what the context leaves */
  uint32_t output_len; /* tokens that will be sampled, >= 1 */
  uint32_t *output;    /* their ids */
  uint32_t *shown;     /* bytes of text that are out after each: whole characters */
  char *text;
  uint32_t visible;   /* bytes of text that are shown at the end: less when a stop string ends it */
  uint32_t hidden;    /* leading output tokens that no event is made for (speech.h) */
  uint32_t thought;   /* leading bytes of text that are reasoning, of chat */
  const char *finish; /* "stop" or "length" */
  char *stop;         /* the stop string that ends it; NULL */
  bool stream, include_usage, continuous_usage, return_token_ids;
  uint32_t stream_interval; /* tokens per event, >= 1 */
  char *salt;               /* NULL or not empty */
  char *request_id;         /* of the body; NULL when absent */
};

/* Reads a body. Returns 0, or ERR_INVALID with *e as vLLM would answer (400 naming the field, 404
 * for a model that is not served); *out is empty then. Free with genrequest_free. */
NODISCARD int genrequest_parse(enum gen_api api, const char *body, size_t len,
                               const struct genmodel *model, struct genrequest *out,
                               struct apierror *e);
void genrequest_free(struct genrequest *r);

/* ---- shared with the other endpoints that read JSON ---- */

/* The body as an object; 400 otherwise. Free with value_free. */
NODISCARD int genrequest_object(const char *body, size_t len, struct value *out,
                                struct apierror *e);
/* 404 when the body names a model that is not served (absent or null: fine). */
NODISCARD int genrequest_check_model(const struct value *body, const struct genmodel *model,
                                     struct apierror *e);
/* Optional fields; absent and null leave *out alone. */
NODISCARD int genrequest_bool(const struct value *body, const char *name, bool *out,
                              struct apierror *e);
NODISCARD int genrequest_int(const struct value *body, const char *name, int64_t least,
                             int64_t *out, struct apierror *e);
/* A list of token ids below the vocabulary's size; *out is allocated, mem_free it. */
NODISCARD int genrequest_tokens(const struct value *list, const char *name,
                                const struct genmodel *model, uint32_t **out, uint32_t *n,
                                struct apierror *e);

#endif
