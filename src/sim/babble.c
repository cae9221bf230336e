/* babble.c: deterministic words. */
#include "sim/babble.h"

#include <xxhash.h>

static const char *const words[BABBLE_WORDS] = {
    "the",    "cache", "holds",  "every", "block",  "we",    "have",  "seen",   "before", "and",
    "a",      "new",   "prompt", "walks", "along",  "its",   "chain", "until",  "one",    "name",
    "is",     "not",   "there",  "then",  "model",  "reads", "what",  "left",   "token",  "by",
    "slowly", "or",    "fast",   "while", "others", "wait",  "in",    "line",   "for",    "room",
    "some",   "leave", "early",  "many",  "stay",   "long",  "each",  "turn",   "adds",   "more",
    "words",  "that",  "next",   "will",  "find",   "again", "when",  "router", "sends",  "it",
    "to",     "same",  "warm",   "place"};

const char *babble_word(uint64_t i) {
  return words[i];
}

uint64_t babble_mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

uint64_t babble_key(const uint32_t *tokens, size_t n, uint64_t seed) {
  return XXH3_64bits_withSeed(tokens, n * sizeof *tokens, babble_mix(seed));
}

uint32_t babble_length(uint64_t key) {
  return 16 + (uint32_t)(babble_mix(key ^ 1) & 0xff);
}

void babble_text(uint64_t key, char *out, size_t n) {
  size_t at = 0;
  for (uint64_t i = 2; at < n; i++) {
    uint64_t draw = babble_mix(key + i);
    for (const char *word = words[draw & 63]; *word && at < n; word++)
      out[at++] = *word;
    if (at < n && (draw >> 6 & 15) == 0)
      out[at++] = '.';
    if (at < n)
      out[at++] = ' ';
  }
}
