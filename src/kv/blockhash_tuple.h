/* blockhash_tuple.h: vLLM's hash of one block: of the Python tuple (parent, tokens, extra) in a
 * canonical encoding.
 *
 * Encodings: pickle protocol 5 as CPython's C pickler writes it, and canonical CBOR as cbor2 does.
 * Hashes: SHA-256 and XXH3-128. Source: shared/facts/block-hashing.md section 2. */
#ifndef KV_BLOCKHASH_TUPLE_H
#define KV_BLOCKHASH_TUPLE_H

#include "base/buf.h"
#include "kv/blockhash_scheme.h"

/* "sha256", "sha256_cbor", "xxhash", "xxhash_cbor" -> the hash. */
enum tuple_hash tuple_hash_from(struct blockhash_text name);
static inline bool tuple_is_pickled(enum tuple_hash h) {
  return h == TUPLE_SHA256 || h == TUPLE_XXHASH;
}
static inline uint8_t tuple_width(enum tuple_hash h) {
  return h == TUPLE_SHA256 || h == TUPLE_SHA256_CBOR ? 32 : 16;
}

/* One thing of the extra keys. */
struct tuple_extra {
  enum { EXTRA_TEXT, EXTRA_PAIR, EXTRA_BYTES } kind;
  struct blockhash_text text; /* EXTRA_BYTES: the bytes */
  int64_t offset;             /* EXTRA_PAIR: (text, offset) */
};

struct tuple {
  const uint8_t *parent; /* NULL: the parent is the number `parent_number` */
  size_t parent_len;
  uint64_t parent_number;
  const int64_t *tokens; /* from -2^31 to 2^32 - 1 */
  size_t n_tokens;
  const struct tuple_extra *extra; /* n_extra 0: None */
  size_t n_extra;
};

/* Replace the buffer's content by the encoding. */
void tuple_encode_cbor(struct buf *b, const struct tuple *t);
void tuple_encode_pickle(struct buf *b, const struct tuple *t);
/* The same of one text. */
void tuple_encode_text(struct buf *b, enum tuple_hash h, struct blockhash_text text);

/* tuple_width(h) bytes of what is encoded. */
void tuple_digest(enum tuple_hash h, const struct buf *b, uint8_t *out);

/* Appends CBOR's head for a value of a major type in its shortest form. */
void tuple_cbor_head(struct buf *b, unsigned major, uint64_t n);
void tuple_cbor_text(struct buf *b, struct blockhash_text text);
/* The array of a block's tokens. */
void tuple_cbor_tokens(struct buf *b, const int64_t *tokens, size_t n);

#endif
