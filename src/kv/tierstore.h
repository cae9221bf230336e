/* tierstore.h: which chunks of KV a slower memory holds: a replica's CPU memory, or storage that
 * replicas share.
 *
 * Contents only, no bytes: a chunk is a 64-bit name (engine_tiers.c makes them). The least recently
 * used chunk gives way; whoever uses a chain touches it from its end, so that the head of a chain
 * outlives what builds on it. Every operation takes constant time on average. One thread. */
#ifndef KV_TIERSTORE_H
#define KV_TIERSTORE_H

#include "base/base.h"

struct tierstore;

/* Holds at most `capacity` chunks, >= 1. Memory grows with what is in it. */
struct tierstore *tierstore_new(uint32_t capacity);
void tierstore_delete(struct tierstore *s); /* NULL is fine */

bool tierstore_has(const struct tierstore *s, uint64_t name);
/* Makes it the most recently used one; false when it is not there. */
bool tierstore_touch(struct tierstore *s, uint64_t name);

enum tierstore_put { TIERSTORE_KNOWN, TIERSTORE_ADDED, TIERSTORE_EVICTED };
/* Puts a chunk in as the most recently used one. KNOWN: it was there (and counts as used). EVICTED:
 * it was added and *evicted had to go for it. */
enum tierstore_put tierstore_put(struct tierstore *s, uint64_t name, uint64_t *evicted);

void tierstore_clear(struct tierstore *s);
uint32_t tierstore_count(const struct tierstore *s);
uint32_t tierstore_capacity(const struct tierstore *s);
/* The i-th least recently used, i < count; for tests: takes i steps. */
uint64_t tierstore_at(const struct tierstore *s, uint32_t i);

#endif
