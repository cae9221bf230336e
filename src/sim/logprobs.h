/* logprobs.h: log-probabilities of a simulated answer, in vLLM's forms.
 *
 * The numbers are made up: drawn from token and place, the sampled one always first. Shapes, limits
 * and refusals are vLLM's (--max-logprobs 20). A request with prompt_logprobs (or echo with
 * logprobs) looks nothing up in the prefix cache. */
#ifndef SIM_LOGPROBS_H
#define SIM_LOGPROBS_H

#include "sim/reply.h"

/* Whether a body of Responses has "message.output_text.logprobs" in its `include`. */
bool logprobs_included(const struct value *body);
/* Reads logprobs, top_logprobs, prompt_logprobs, return_tokens_as_token_ids. `echo`: of
 * completions. */
NODISCARD int logprobs_read(const struct value *body, enum gen_api api, bool stream, bool echo,
                            const struct genmodel *model, struct logprobs_ask *out,
                            struct apierror *e);
/* One reply's are made in one go while every replica waits: 400 for more than this many. */
#define LOGPROBS_MOST ((uint64_t)1 << 20)
NODISCARD int logprobs_check(const struct genrequest *r, struct apierror *e);
/* `,"logprobs":` of a choice's output tokens from..to−1, in the way of chat or completions (with
 * the prompt before them when it is echoed and `from` is 0); null when nobody asked, or nothing is
 * there. */
void logprobs_put(const struct reply *r, const struct genchoice *c, uint32_t from, uint32_t to,
                  struct buf *out);
/* The list that Responses has, of output tokens from..to−1; `bytes`: of a whole text, where each
 * token has them. Empty when nobody asked. */
void logprobs_put_list(const struct reply *r, const struct genchoice *c, uint32_t from, uint32_t to,
                       bool bytes, struct buf *out);
/* `,"prompt_logprobs":` of a choice's prompt, or null. */
void logprobs_put_prompt(const struct reply *r, const struct genchoice *c, struct buf *out);

#endif
