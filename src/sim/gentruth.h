/* gentruth.h: a generation request's line in the truth log (truth.h). */
#ifndef SIM_GENTRUTH_H
#define SIM_GENTRUTH_H

#include "sim/genlife.h"

/* At its end; nothing where the fleet keeps no log. */
void gentruth_log(struct generation *x);

#endif
