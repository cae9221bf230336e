/* babble.h: what a simulated model says: words drawn from the prompt's hash.
 *
 * Greedy and repeatable: equal prompt tokens and equal seeds give equal text, on every replica and
 * machine. Only lower-case letters, spaces and full stops, so with the tokenizer `bytes` one token
 * is one printable byte. With a model's tokenizer speech.h makes the answers out of the same words.
 */
#ifndef SIM_BABBLE_H
#define SIM_BABBLE_H

#include "base/base.h"

/* The words, lower-case letters alone; i < BABBLE_WORDS. */
#define BABBLE_WORDS 64u
const char *babble_word(uint64_t i);
/* Well-mixed bits of x. */
uint64_t babble_mix(uint64_t x);
/* Where the text and the natural length come from: the prompt's tokens and the fleet's seed. A
 * salt takes no part: it separates caches, not answers. */
uint64_t babble_key(const uint32_t *tokens, size_t n, uint64_t seed);
/* Tokens after which the model would end by itself: 16 to 271, drawn from the key. */
uint32_t babble_length(uint64_t key);
/* Writes the first n bytes of the key's endless text; no NUL. A longer text begins with a shorter
 * one. */
void babble_text(uint64_t key, char *out, size_t n);

#endif
