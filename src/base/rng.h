/* rng.h: randomness that every machine agrees on.
 *
 * xoshiro256** seeded through SplitMix64. What a session says comes from (seed, session number,
 * spawn path) alone, so a generator is *derived*, never shared: rng_init(seed, session), then
 * rng_split for each spawned child. Real-valued draws use only + − × ÷ √ in IEEE double (own
 * logarithm, no libm), so the bytes of a session are the same with any compiler and C library. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include "base/base.h"

struct rng {
  uint64_t s[4];
  uint64_t key;    /* identity of this generator: what splits are derived from */
  uint64_t splits; /* how many children were split off */
};

/* The generator of stream `stream` under `seed` (a session number, say). */
void rng_init(struct rng *r, uint64_t seed, uint64_t stream);
/* A child generator: depends on r's identity and on how many were split before, not on draws. */
void rng_split(struct rng *r, struct rng *child);
/* A generator named by bytes (for "seed = 'system-prompt'"): equal bytes, equal draws. */
void rng_init_bytes(struct rng *r, uint64_t seed, const void *data, size_t len);

uint64_t rng_u64(struct rng *r);
/* Uniform in [0, 1), 53 bits. */
double rng_unit(struct rng *r);
/* Uniform integer in [lo, hi], without bias; lo <= hi. */
int64_t rng_int(struct rng *r, int64_t lo, int64_t hi);
/* Exponential with the given mean. */
double rng_exp(struct rng *r, double mean);
double rng_normal(struct rng *r, double mean, double sd);
/* exp(normal(mu, sigma)). */
double rng_lognormal(struct rng *r, double mu, double sigma);

/* Natural logarithm and exponential built from basic operations only: identical everywhere, within
 * 2 units in the last place. x > 0 for rng_ln. */
double rng_ln(double x);
double rng_expm(double x);

#endif
