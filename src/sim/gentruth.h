/* gentruth.h: a generation request's line in the truth log (truth.h). */
#ifndef SIM_GENTRUTH_H
#define SIM_GENTRUTH_H

#include "sim/genlife.h"

/* It is about to wait for the engine: what is resident of its prompt. */
void gentruth_arrived(struct generation *x);
/* One more token of a choice, at a step's end. */
void gentruth_token(struct gen_part *part, uint64_t now_ns);
/* At its end; nothing where the fleet keeps no log. */
void gentruth_log(struct generation *x);

#endif
