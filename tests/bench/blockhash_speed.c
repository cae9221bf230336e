/* blockhash_speed.c: block hashes per second.
 *
 * ic-xxh3: a chain extended by whole prompts, beside a loop that only reads the tokens' bytes with
 * XXH3 (one content hash per block, no chain); then every scheme that has blocks, through the same
 * seam as scripts use, with blocks of 16 tokens (64 bytes, 128 characters where text is hashed).
 * Usage: blockhash_speed [SECONDS]; prints {"chain", "bare", "schemes": {name: …}} in blocks per
 * second of thread CPU; schemes get a tenth of the time each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "kv/blockhash.h"
#include "kv/blockhash_chain.h"
#include "text/json.h"

#define TOKENS (128 * 1024) /* of a prompt */

static double per_second(uint64_t blocks, uint64_t since_cpu_ns) {
  return (double)blocks * 1e9 / (double)(clock_thread_cpu_ns() - since_cpu_ns);
}

/* What a scheme needs to open. */
static const char *options_of(const char *scheme) {
  static const struct {
    const char *begin, *options;
  } needs[] = {
      {"vllm-", "{\"seed\":\"0\",\"block_size\":16}"},
      {"lmcache-vllm", "{\"seed\":\"0\",\"algorithm\":\"sha256_cbor\",\"block_size\":16}"},
      {"lmcache-builtin", "{\"none_hash\":\"0\",\"block_size\":16}"},
      {"llmd-cbor-fnv-nomodel", "{\"block_size\":16}"},
      {"llmd-sha256", "{\"block_size\":16}"},
      {"llmd-", "{\"model\":\"m\",\"block_size\":16}"},
      {"epp-approx-tokens", "{\"model\":\"m\",\"block_size\":16}"},
      {"epp-approx-chars",
       "{\"model\":\"m\",\"variant\":\"gie-v1.1-v1.5\",\"max_blocks\":1000000,\"block_size\":64}"},
      {"aibrix", "{\"seed\":0,\"block_size\":64}"},
      {"pstack", "{\"variant\":\"python\"}"},
  };
  for (size_t i = 0; i < ARRAY_LEN(needs); i++)
    if (strncmp(scheme, needs[i].begin, strlen(needs[i].begin)) == 0)
      return needs[i].options;
  return "{\"block_size\":16}";
}

/* Whole prompts through one scheme for `limit` ns; 0 when it has no blocks. */
static double scheme_speed(const char *scheme, const uint32_t *tokens, const char *text,
                           uint64_t limit) {
  struct value options;
  struct err err;
  const char *json = options_of(scheme);
  bool of_text = strcmp(blockhash_scheme_input(blockhash_scheme_find(scheme)), "text") == 0;
  if (json_parse(json, strlen(json), &options, &err))
    abort();
  uint64_t blocks = 0, start = clock_thread_cpu_ns();
  do {
    struct blockhash_chain *c;
    int rc = blockhash_chain_open(scheme, &options, &c, &err);
    if (!rc)
      rc = of_text ? blockhash_chain_add_text(c, text, TOKENS * sizeof *tokens, &err)
                   : blockhash_chain_add(c, tokens, TOKENS, &err);
    if (rc) {
      fprintf(stderr, "%s: %s\n", scheme, err.text);
      exit(1);
    }
    blocks += blockhash_chain_count(c);
    blockhash_chain_delete(c);
  } while (clock_thread_cpu_ns() - start < limit);
  value_free(&options);
  return per_second(blocks, start);
}

/* Those with one hash for the whole prompt are left out. */
static void print_schemes(const uint32_t *tokens, uint64_t limit) {
  char *text = malloc(TOKENS * sizeof *tokens);
  const struct blockhash_scheme *s;
  bool any = false;
  if (!text)
    abort();
  for (size_t i = 0; i < TOKENS * sizeof *tokens; i++)
    text[i] = (char)('a' + i * UINT64_C(2654435761) % 26);
  printf("\"schemes\": {");
  for (size_t i = 0; (s = blockhash_scheme_at(i)); i++) {
    const char *name = blockhash_scheme_name(s);
    if (blockhash_scheme_block_size(s) == 0 || strcmp(name, "ranvier-fnv1a") == 0)
      continue;
    printf("%s\"%s\": %.0f", any ? ", " : "", name, scheme_speed(name, tokens, text, limit));
    any = true;
  }
  printf("}");
  free(text);
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
  printf("{\"chain\": %.0f, \"bare\": %.0f, \"sum\": \"%llx\", ", chain, bare,
         (unsigned long long)sum);
  print_schemes(tokens, limit / 10);
  printf("}\n");
  free(tokens);
  return 0;
}
