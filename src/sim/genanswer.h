/* genanswer.h: what the simulated model says to a prompt.
 *
 * The answer depends on the prompt, the fleet's seed, the request's `seed` and the choice's number
 * alone (temperature and the like change nothing), ends by itself after about babble_length tokens
 * (exactly that with `bytes`) unless ignore_eos, at a stop string, or at max_tokens. */
#ifndef SIM_GENANSWER_H
#define SIM_GENANSWER_H

#include "sim/genrequest.h"

/* What a request says of its answers: the same for all of its choices. */
struct genanswer_ask {
  bool ignore_eos, skip_special;
  int64_t min_tokens, seed;
  const struct value *stop; /* of the body; NULL */
};

/* Reads seed, ignore_eos, min_tokens, skip_special_tokens, stop. */
NODISCARD int genanswer_read(const struct value *body, struct genanswer_ask *out,
                             struct apierror *e);
/* What the answer of choice number `index` of its prompt is drawn from. */
uint64_t genanswer_key(const struct genchoice *c, uint32_t index, const struct genanswer_ask *ask,
                       const struct genmodel *model);
/* Fills in the answer of choice number `index` of its prompt, whose prompt and max_tokens are
 * there. 400 when min_tokens is beyond max_tokens. */
NODISCARD int genanswer_settle(struct genchoice *c, enum gen_api api, uint32_t index,
                               const struct genanswer_ask *ask, const struct genmodel *model,
                               struct apierror *e);

#endif
