/* pubhash.h: the block hashes that an engine publishes, from the names that its model has.
 *
 * kv/engine.h calls a block's content by 64 bits of its own. Whoever follows KV events knows vLLM's
 * hashes (kv/blockhash_chain.h, schemes vllm-*), so this keeps, for every content that is in the
 * cache now, the hash that vLLM gives it: fed with the engine's events in order, it hashes a
 * content when it is stored, once however many copies there are, and forgets it with its last copy.
 * Chunks of CPU memory are hashed as LMCache does with vLLM's hash (shared/facts/block-hashing.md
 * §6: no salt, no adapter). Pure; one thread. */
#ifndef KV_PUBHASH_H
#define KV_PUBHASH_H

#include "kv/engine.h"

#define PUBHASH_MAX_WIDTH 32
#define PUBHASH_DEFAULT_SCHEME "vllm-sha256"
#define PUBHASH_SGLANG "sglang" /* SHA-256 over tokens, as SGLang's events have it */

struct pubhash_options {
  const char *scheme; /* one of the vllm-* schemes, or PUBHASH_SGLANG */
  const char *seed;   /* PYTHONHASHSEED's text; "" is one too. SGLang has none */
  uint32_t block_size;
  uint32_t chunk_tokens; /* 0 = no CPU memory */
};

struct pubhash;
/* ERR_NOT_FOUND: no such scheme, or none of vLLM's; the text says which there are. */
NODISCARD int pubhash_open(const struct pubhash_options *options, struct pubhash **out,
                           struct err *err);
void pubhash_delete(struct pubhash *p); /* NULL is allowed */
/* As a new engine begins: nothing is in the cache. */
void pubhash_reset(struct pubhash *p);

/* Bytes of a hash: 32, 16, or 8 of the scheme whose hashes are numbers. */
uint32_t pubhash_width(const struct pubhash *p);
/* How many contents are known now, of both media. */
size_t pubhash_count(const struct pubhash *p);

/* The hashes that an event speaks of. */
struct pubhash_said {
  const uint8_t *hashes; /* n · width bytes, the most significant first; die with the next event */
  const uint8_t *parent; /* NULL: none */
  size_t n;
};
/* Every event of the engine, each once, in order, before the engine is called again. */
void pubhash_event(struct pubhash *p, const struct engine_event *event, struct pubhash_said *out);

/* A hash as vLLM publishes it by default: its last 8 bytes as a number. */
uint64_t pubhash_number(const uint8_t *hash, uint32_t width);
/* As SGLang does: its first 8 bytes. */
int64_t pubhash_sglang_number(const uint8_t *hash);

#endif
