/* blake3.h: the BLAKE3 hash (default mode, 32-byte digest), fed piece by piece.
 *
 * LMCache's multiprocess server and SMG's path ids use it; Debian has no C library of it. Portable
 * code, one chunk at a time. Source: the BLAKE3 specification, sections 2.1 to 2.6. */
#ifndef KV_BLAKE3_H
#define KV_BLAKE3_H

#include "base/base.h"

#define BLAKE3_DIGEST 32

/* Plain memory: a copy of it goes on by itself. */
struct blake3 {
  uint64_t chunks; /* whole 1024-byte chunks so far */
  uint32_t cv[8];  /* of the chunk that is being read */
  uint8_t block[64];
  uint8_t n_block;  /* bytes in it */
  uint8_t n_blocks; /* compressed ones of this chunk */
  uint8_t depth;    /* subtrees on the stack */
  uint32_t stack[54][8];
};

void blake3_init(struct blake3 *h);
void blake3_add(struct blake3 *h, const void *data, size_t len);
/* The digest of what was added so far; h can be added to afterwards. */
void blake3_digest(const struct blake3 *h, uint8_t out[BLAKE3_DIGEST]);
/* All in one. */
void blake3(const void *data, size_t len, uint8_t out[BLAKE3_DIGEST]);

#endif
