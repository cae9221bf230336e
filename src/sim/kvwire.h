/* kvwire.h: batches of KV events as vLLM's publisher writes them (facts/interfaces.md §3).
 *
 * A batch is a MessagePack array [ts, events, data_parallel_rank]; an event in it a map with `type`
 * and named fields (vLLM since PR #42892, June 2026) or, as before, an array whose first element is
 * the tag; SGLang has arrays of its own. Fields are those of vLLM main in July 2026, in its order,
 * and what its encoder leaves out (a default at the end of an array, any default of a map) is left
 * out. Pure. */
#ifndef SIM_KVWIRE_H
#define SIM_KVWIRE_H

#include "base/buf.h"

enum kvwire_encoding {
  KVWIRE_MAP,
  KVWIRE_ARRAY,
  KVWIRE_SGLANG /* arrays too: seven fields and metadata, hashes are signed numbers */
};

struct kvwire {
  enum kvwire_encoding encoding;
  bool raw_hashes; /* digests as bytes; else their last 8 bytes as a number, vLLM's default */
  uint32_t width;  /* bytes of a digest */
};

/* Digests lie one after the other. */
struct kvwire_stored {
  const uint8_t *hashes, *parent; /* parent: NULL = none */
  size_t n_hashes;
  const uint32_t *tokens; /* n_hashes · block_size */
  uint32_t block_size;
  const char *medium;    /* "GPU", "CPU" */
  uint32_t lora_id;      /* 0 = none */
  const char *lora_name; /* NULL = none */
  const char *salt;      /* of the first block, which is a chain's first; SGLang's: of any. NULL:
                            none */
  bool has_keys;         /* extra_keys, group_idx and kv_cache_spec_kind are said */
};

/* Appends the beginning of a batch of n events, which follow, and its end. Its time is set
 * afterwards: `at` is where the batch begins. `has_group`: group_idx is said. */
void kvwire_begin(struct buf *b, size_t n);
void kvwire_add_stored(struct buf *b, const struct kvwire *w, const struct kvwire_stored *s);
void kvwire_add_removed(struct buf *b, const struct kvwire *w, const uint8_t *hashes,
                        size_t n_hashes, const char *medium, bool has_group);
void kvwire_add_cleared(struct buf *b, const struct kvwire *w);
void kvwire_end(struct buf *b, uint32_t data_parallel_rank);
void kvwire_set_time(struct buf *b, size_t at, double seconds);

/* ---- replay ---- */

#define KVWIRE_SEQUENCE_BYTES 8
/* A batch's number as it goes over the wire; UINT64_MAX (−1) marks the end of a replay. */
void kvwire_put_sequence(uint8_t out[KVWIRE_SEQUENCE_BYTES], uint64_t sequence);
/* The start that a request for a replay names: a frame of at most 8 bytes, big endian. False: it is
 * longer. */
bool kvwire_read_sequence(const uint8_t *frame, size_t len, uint64_t *out);

#endif
