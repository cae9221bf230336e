/* meters_sglang.h: the same figures under SGLang's names, labels and edges (facts/interfaces.md
 * §2.2). What a simulated replica has no figure for (storage back ends, speculation, P/D queues) is
 * left out. */
#ifndef SIM_METERS_SGLANG_H
#define SIM_METERS_SGLANG_H

#include "sim/meterpage.h"

/* The histogram that SGLang has of this figure; NULL: none. */
const struct meter_spec *meters_sglang_spec(int which);
void meters_write_sglang(const struct meters *m, const struct meters_now *now, struct meterpage *w);

#endif
