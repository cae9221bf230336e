/* blockhash_speed.c: ic-xxh3 block hashes per second: a chain extended by whole prompts, beside a
 * loop that only reads the tokens' bytes with XXH3 (one content hash per block, no chain).
 * Usage: blockhash_speed [SECONDS]; prints {"chain", "bare"} in blocks per second of thread CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/clock.h"
#include "kv/blockhash.h"

#define TOKENS (128 * 1024) /* of a prompt */

static double per_second(uint64_t blocks, uint64_t since_cpu_ns) {
  return (double)blocks * 1e9 / (double)(clock_thread_cpu_ns() - since_cpu_ns);
}

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 0.5;
  uint32_t *tokens = calloc(TOKENS, sizeof *tokens);
  if (!(seconds > 0) || !tokens) {
    fprintf(stderr, "usage: blockhash_speed [SECONDS]\n");
    return 2;
  }
  for (uint32_t i = 0; i < TOKENS; i++)
    tokens[i] = i * UINT32_C(2654435761) % 128256;
  uint64_t blocks = 0, sum = 0, limit = (uint64_t)(seconds * 1e9), start = clock_thread_cpu_ns();
  while (clock_thread_cpu_ns() - start < limit) {
    struct blockhash h;
    blockhash_init(&h, BLOCKHASH_DEFAULTS);
    blockhash_extend(&h, tokens, TOKENS);
    blocks += h.n;
    sum += h.hashes[h.n - 1];
    blockhash_free(&h);
  }
  double chain = per_second(blocks, start);
  blocks = 0;
  start = clock_thread_cpu_ns();
  while (clock_thread_cpu_ns() - start < limit) {
    for (size_t i = 0; i < TOKENS; i += 16)
      sum += XXH3_64bits_withSeed(tokens + i, 16 * sizeof *tokens, 1337);
    blocks += TOKENS / 16;
  }
  double bare = per_second(blocks, start);
  printf("{\"chain\": %.0f, \"bare\": %.0f, \"sum\": \"%llx\"}\n", chain, bare,
         (unsigned long long)sum);
  free(tokens);
  return 0;
}
