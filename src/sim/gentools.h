/* gentools.h: what the simulated model does with the tools it is offered, and what running one
 * takes where the server runs it itself (genturns.h). Set as fields of a replica (simconfig.h). */
#ifndef SIM_GENTOOLS_H
#define SIM_GENTOOLS_H

#include "base/base.h"

struct gentools {
  double call_p;   /* where the model may choose, an answer is a call with this probability … */
  uint32_t rounds; /* … until so many results have come since the user's last message */
  uint32_t result_tokens; /* length of a result of the server's own tools */
  uint64_t latency_ns;    /* how long such a tool takes */
  bool salt_lost;         /* what follows a tool's result is sent without the request's salt, as by
                             vLLM's Harmony loop before PR #51818 */
};

#define GENTOOLS_DEFAULTS                                                                          \
  ((struct gentools){.rounds = 8, .result_tokens = 64, .latency_ns = 100 * NS_PER_MS})

#endif
