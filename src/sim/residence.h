/* residence.h: what is resident of a prompt, here and on the other replicas, at the moment it
 * arrives: what only the fleet knows of the token ledger. Asked for the truth log alone. */
#ifndef SIM_RESIDENCE_H
#define SIM_RESIDENCE_H

#include "sim/simhost.h"

/* Tokens: the longest leading run, whole blocks, never all of the prompt. */
struct residence {
  uint32_t captured, captured_pool;   /* on this replica: with its tiers, in its pool alone */
  uint32_t available, available_pool; /* on the replica that has most, by either figure */
  char best[32]; /* the one with most, tiers counted: this one when it has as much as
                    any, else the first; "" when none has anything */
};

/* Replicas that do not run have nothing. */
void residence_ask(const struct simhost *h, const struct engine_prefix *prompt,
                   struct residence *out);

#endif
