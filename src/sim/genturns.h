/* genturns.h: the server's own tool loop: one Responses request, several turns of the model.
 *
 * When an answer calls a tool that the server runs itself (resptools.h), the tool takes its time
 * (gentools.h), its result goes behind the call, and the conversation is given to the engine as a
 * request of its own, which finds its prefix in the cache like any other. usage sums the turns and
 * has them one by one (facts/interfaces.md §1.5); each turn may have max_output_tokens. A gateway's
 * loop, where each round is a request that is routed anew, needs nothing of this: its rounds come
 * as requests with a longer input. */
#ifndef SIM_GENTURNS_H
#define SIM_GENTURNS_H

#include "sim/genrequest.h"
#include "sim/responses.h"

/* Whether the newest turn ended with a call that the server runs. */
bool genturns_go_on(const struct genrequest *r);
/* Runs it: call and result go into the conversation, and the next turn is added to *r. 400 when
 * the conversation is too long for the context; there is no next turn then. */
NODISCARD int genturns_next(struct response_ask *ask, struct genrequest *r,
                            const struct genmodel *model, struct apierror *e);

#endif
