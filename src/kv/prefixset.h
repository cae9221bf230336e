/* prefixset.h: every block that was ever seen, by its content and all that stands before it: how
 * much of a prompt the best possible cache would have held. Pure. One thread.
 *
 * Eight bytes a block, and as much again for room to search; nothing is ever taken out. */
#ifndef KV_PREFIXSET_H
#define KV_PREFIXSET_H

#include "base/base.h"

struct prefixset;

struct prefixset *prefixset_new(uint32_t block_size);
void prefixset_delete(struct prefixset *s); /* NULL is allowed */

/* Adds the full blocks of n tokens, and returns how many of the leading ones, in tokens, were there
 * before (at most so many that one token of the prompt is left to compute). `salt` and `adapter`:
 * NULL or not empty; other ones are other content. */
uint32_t prefixset_add(struct prefixset *s, const uint32_t *tokens, uint32_t n, const char *salt,
                       const char *adapter);
uint64_t prefixset_blocks(const struct prefixset *s);
/* Of its table. */
size_t prefixset_bytes(const struct prefixset *s);

#endif
