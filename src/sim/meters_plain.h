/* meters_plain.h: the same figures as TGI and llama.cpp tell them (facts/interfaces.md §2.8):
 * without labels, `_total` where the name has it, no `_created`.
 *
 * TGI's duration buckets are 35 from 0.15 ms on, each half as long again. Sizes of batches,
 * validation and the like, which a simulated replica has no figure for, are left out. */
#ifndef SIM_METERS_PLAIN_H
#define SIM_METERS_PLAIN_H

#include "sim/meterpage.h"

/* The histogram that TGI has of this figure; NULL: none. */
const struct meter_spec *meters_tgi_spec(int which);
void meters_write_plain(const struct meters *m, const struct meters_now *now, struct meterpage *w);

#endif
