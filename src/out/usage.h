/* usage.h: what of a server's token counts can be true.
 *
 * Usage is outside text: a count may be negative, beyond anything a model takes, or at odds with
 * the reply it came with. The row in samples.jsonl keeps what the server said; the table keeps a
 * count only when it can be true, so that no statistic is made of nonsense, and marks the request,
 * so that the check `impossible_usage` counts it. */
#ifndef OUT_USAGE_H
#define OUT_USAGE_H

#include "out/table.h"

/* Fills the counts of `row` (−1 = absent) and its cached_state from the sample. Left out are:
 * counts below 0 or over 2^31 − 1; a completion of 0 tokens beside output; cached tokens beyond the
 * prompt's. True when one was, or when the parser found the usage odd: a count that is none (a
 * text, a fraction), a running count that shrank. */
bool usage_fill(struct table_row *row, const struct sample *s);

#endif
