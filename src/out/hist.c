/* hist.c: log-linear buckets. The idea is HdrHistogram's (Gil Tene): the position of the highest
 * bit picks the group, the next seven bits the bucket inside it. */
#include "out/hist.h"

#include <math.h>
#include <string.h>

#define SUB (1u << HIST_SUB_BITS)

void hist_init(struct hist *h) {
  memset(h, 0, sizeof *h);
  h->min = UINT64_MAX;
}

/* Values below 2 × SUB have a bucket each; above, a group of SUB buckets per power of two. */
uint32_t hist_bucket(uint64_t value) {
  if (value < UINT64_C(2) * SUB)
    return (uint32_t)value;
  uint32_t shift = 63 - (uint32_t)__builtin_clzll(value) - HIST_SUB_BITS;
  return (shift << HIST_SUB_BITS) + (uint32_t)(value >> shift);
}

double hist_bucket_middle(uint32_t bucket) {
  if (bucket < 2 * SUB)
    return bucket;
  uint32_t shift = (bucket >> HIST_SUB_BITS) - 1;
  double low = ldexp((double)(SUB + (bucket & (SUB - 1))), (int)shift);
  /* The bucket holds low … low + 2^shift − 1. */
  return low + (ldexp(1, (int)shift) - 1) / 2;
}

void hist_add(struct hist *h, uint64_t value) {
  h->counts[hist_bucket(value)]++;
  h->n++;
  h->sum += (double)value;
  if (value < h->min)
    h->min = value;
  if (value > h->max)
    h->max = value;
}

void hist_merge(struct hist *h, const struct hist *other) {
  if (!other->n)
    return;
  for (size_t i = 0; i < HIST_BUCKETS; i++)
    h->counts[i] += other->counts[i];
  h->n += other->n;
  h->sum += other->sum;
  if (other->min < h->min)
    h->min = other->min;
  if (other->max > h->max)
    h->max = other->max;
}

double hist_quantile(const struct hist *h, double p) {
  assert(p >= 0 && p <= 1);
  if (!h->n)
    return NAN;
  uint64_t rank = (uint64_t)(p * (double)(h->n - 1) + 0.5);
  if (rank == 0)
    return (double)h->min;
  if (rank >= h->n - 1)
    return (double)h->max;
  uint64_t seen = 0;
  uint32_t i = 0;
  while ((seen += h->counts[i]) <= rank)
    i++;
  double middle = hist_bucket_middle(i);
  /* The ends are known exactly: never report what lies outside them. */
  return middle < (double)h->min   ? (double)h->min
         : middle > (double)h->max ? (double)h->max
                                   : middle;
}

double hist_mean(const struct hist *h) {
  return h->n ? h->sum / (double)h->n : NAN;
}
