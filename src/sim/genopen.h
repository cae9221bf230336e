/* genopen.h: what is under way on a host, seen as a whole. */
#ifndef SIM_GENOPEN_H
#define SIM_GENOPEN_H

#include "sim/genlife.h"

/* What is under way against --max-num-queued-reqs and --max-num-queued-tokens: 0, or ERR_INVALID
 * with the 503 for x, counted. */
NODISCARD int genopen_room(const struct generation *x, struct apierror *e);

#endif
