/* chainlog.h: chains of blocks told in few bytes: what a log said before is not said again.
 *
 * A block's name stands for all blocks before it too (kv/engine_prefix.c), so a chain that is told
 * is a number of blocks that were told before, and new ones behind them. Blocks are numbered from 1
 * as they are told; 0 stands before every first block. A reader that numbers them in the same order
 * has the tree of all prompts and answers, without any name. 24 bytes per different block. */
#ifndef SIM_CHAINLOG_H
#define SIM_CHAINLOG_H

#include "base/base.h"

struct chainlog {
  uint64_t *names; /* open addressing; a name's number in `numbers`, 0 = the slot is empty */
  uint32_t *numbers;
  size_t mask;
  uint32_t n; /* blocks so far */
};

/* The chain's first blocks that are known end with number `after`; `fresh` new ones follow, which
 * are numbered from the log's n + 1 on. */
struct chainlog_told {
  uint32_t after, fresh;
};

void chainlog_init(struct chainlog *c);
void chainlog_free(struct chainlog *c);
/* Tells a chain by its names, the first block first. */
struct chainlog_told chainlog_tell(struct chainlog *c, const uint64_t *names, uint32_t n);

#endif
