/* blockhash.h: a chain of block hashes over token ids that grows with its tokens.
 *
 * Scheme `ic-xxh3` (shared/facts/block-hashing.md §1; inference-cache, SMG, Mooncake RFC #1527; the
 * same values are Dynamo's sequence hashes): content_i = XXH3-64 of the block's tokens as u32
 * little endian; hash_0 = content_0, or link(parent, content_0) when the block before is known;
 * hash_i = link(hash_{i−1}, content_i); link = XXH3-64 of both as u64 little endian. Full blocks
 * only; model, adapter and salt are not hashed. On the wire a hash is 8 bytes, big endian. */
#ifndef KV_BLOCKHASH_H
#define KV_BLOCKHASH_H

#include "base/base.h"

struct blockhash_options {
  uint32_t block_size; /* tokens, >= 1 */
  uint64_t seed;
  bool has_parent; /* `parent` is the hash of the block before the first; 0 is a value too */
  uint64_t parent;
};
#define BLOCKHASH_DEFAULTS ((struct blockhash_options){.block_size = 16, .seed = 1337})

struct blockhash {
  struct blockhash_options options;
  uint64_t *hashes; /* n of them, one per full block; moves when the chain is extended */
  size_t n, cap;
  uint32_t *tail; /* n_tail tokens of the block that is not full yet */
  uint32_t n_tail;
};

void blockhash_init(struct blockhash *h, struct blockhash_options options);
void blockhash_free(struct blockhash *h);

/* Appends tokens; the cost is that of the new ones, however long the chain is. Any split of the
 * same tokens gives the same chain. */
void blockhash_extend(struct blockhash *h, const uint32_t *tokens, size_t n);

/* The two steps by themselves. */
uint64_t blockhash_content(uint64_t seed, const uint32_t *tokens, uint32_t block_size);
uint64_t blockhash_link(uint64_t seed, uint64_t parent, uint64_t content);

#endif
