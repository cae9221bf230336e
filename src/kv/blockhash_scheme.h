/* blockhash_scheme.h: what the files of block-hash schemes share: a scheme's table entry, the
 * settings that are made of its options, the chain that its functions work on.
 *
 * A scheme sees bytes: token ids as u32 (little endian, as they lie in memory) or int64, or text.
 * The chain cuts them into blocks and keeps what the functions return. To add a scheme: a table
 * entry in one of the blockhash_*.c files, its line in blockhash_scheme.c, its vectors. */
#ifndef KV_BLOCKHASH_SCHEME_H
#define KV_BLOCKHASH_SCHEME_H

#include "base/buf.h"
#include "kv/blake3.h"
#include "kv/blockhash_chain.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tokens are hashed as they lie in memory");

/* ---- parameters (blockhash_options.c) ---- */

enum blockhash_param {
  PARAM_SEED_NUMBER,
  PARAM_SEED_TEXT,
  PARAM_NONE_HASH,
  PARAM_NONE_HASH_STRING,
  PARAM_PYTHONHASHSEED,
  PARAM_HASH_SEED,
  PARAM_MODEL,
  PARAM_PARENT_HEX,
  PARAM_PARENT_NUMBER,
  PARAM_PARENT_PREFIX,
  PARAM_ADDITIONAL_SALT,
  PARAM_CACHE_SALT,
  PARAM_LORA_NAME,
  PARAM_MM,
  PARAM_MM_FORM,
  PARAM_PROMPT_EMBEDS,
  PARAM_CACHE_NAMESPACE,
  PARAM_BLOCK_MM,
  PARAM_IS_EAGLE,
  PARAM_BIGRAM,
  PARAM_PARTIAL,
  PARAM_CHAIN,
  PARAM_EXTRA_KEY,
  PARAM_VARIANT_EPP,
  PARAM_VARIANT_PSTACK,
  PARAM_MAX_BLOCKS,
  PARAM_PREFIX_TOKEN_COUNT,
  PARAM_PREFIX_TOKEN_LENGTH,
  PARAM_ALGORITHM,
  PARAM_SAVE_UNFULL_CHUNK,
  PARAM_COUNT
};
#define PARAM(p) (UINT64_C(1) << PARAM_##p)

struct blockhash_text {
  const char *data; /* NULL: not given */
  size_t len;
};

struct blockhash_number {
  bool given;
  uint64_t value;
};

/* A multimodal item that lies over the tokens offset .. offset + length. */
struct blockhash_mm {
  struct blockhash_text id;
  uint64_t offset, length;
};

/* A multimodal hash that goes into one block. */
struct blockhash_block_mm {
  uint64_t block, hash;
};

/* vLLM's hashes of a block (blockhash_tuple.h). */
enum tuple_hash { TUPLE_SHA256, TUPLE_SHA256_CBOR, TUPLE_XXHASH, TUPLE_XXHASH_CBOR };

/* What a chain's options say, and what the scheme made of them. Read-only once the chain is open;
 * shared by its forks. */
struct blockhash_settings {
  uint32_t refs;
  const struct blockhash_scheme *scheme;
  struct value options; /* the texts below point into it */

  uint32_t block_size;
  struct blockhash_number seed, parent, max_blocks, prefix;
  struct blockhash_text seed_text, none_hash, none_hash_string, pythonhashseed, hash_seed, model,
      additional_salt, cache_salt, lora_name, mm_form, cache_namespace, partial, chain, extra_key,
      variant, algorithm;
  bool is_eagle, bigram, save_unfull_chunk;
  struct blockhash_mm *mm; /* by offset */
  size_t n_mm;
  struct blockhash_block_mm *block_mm; /* by block, then hash */
  size_t n_block_mm;
  uint8_t (*embeds)[32]; /* of each block's prompt embeds */
  size_t n_embeds;

  /* Set before the scheme's open, which may change them. */
  uint8_t width;    /* bytes of a hash: 8 (a native uint64_t in memory), 16 or 32 */
  uint8_t unit;     /* bytes of a token: 4 (u32), 8 (int64); 1 for bytes of text */
  uint8_t overlap;  /* units of the next block that a block looks at too */
  uint64_t cap;     /* blocks; 0: no limit */
  size_t stride;    /* bytes of a block; 0: no blocks, all goes to `absorb` */
  bool lead;        /* the first block is preceded by the entry `init` */
  uint64_t init;    /* where a chain of 8-byte hashes starts */
  uint8_t root[32]; /* where one of digests starts: `root_len` bytes */
  uint8_t root_len;
  enum tuple_hash hash; /* of the vLLM family */
};

/* ---- chains (blockhash_chain.c) ---- */

struct blockhash_chain {
  struct blockhash_settings *settings;
  struct blockhash_chunk **chunks; /* of BLOCKHASH_CHUNK hashes; shared by forks while unchanged */
  size_t n_chunks, cap_chunks;
  size_t n;      /* hashes of full blocks (and the lead) */
  size_t blocks; /* full blocks */
  union {
    uint64_t number;
    uint8_t digest[32];
  } last;                 /* of the last full block; at first settings->init or root */
  struct buf tail;        /* bytes behind the last full block; the overlap of the next one */
  struct buf scratch;     /* for the scheme's functions */
  struct blake3 *running; /* of a scheme without blocks */
  uint64_t overwritten;   /* what the next block begins with (epp-approx-chars) */
  enum { INPUT_NONE, INPUT_TOKENS, INPUT_TEXT } input;
  enum { REST_UNKNOWN, REST_NONE, REST_KNOWN } rest; /* of the tail */
  union {
    uint64_t number;
    uint8_t digest[32];
  } rest_hash, rest_second;
};

/* n blocks of `each` bytes, a stride apart; each is followed by the overlap. */
struct blockhash_run {
  const uint8_t *data;
  size_t n, each;
};

/* ---- schemes ---- */

/* How a field is printed. */
enum blockhash_form {
  FORM_SECOND,  /* the second column in hex */
  FORM_LAST8,   /* the hash's last 8 bytes in hex */
  FORM_FIRST8,  /* its first 8 bytes as a signed decimal number */
  FORM_SIGNED,  /* the hash as a signed decimal number */
  FORM_ROOT,    /* settings->root in hex, once per chain; with root_len 0 settings->init */
  FORM_INIT,    /* settings->init in hex, once per chain */
  FORM_INIT_DEC /* the same in decimal */
};

struct blockhash_field {
  const char *name; /* NULL ends a list */
  enum blockhash_form form;
  bool published; /* in the engine's events */
};

/* What can be fed: ids down to -2^31, ids that are hashed in big-endian order. */
enum { TAKES_TOKENS = 1, TAKES_TEXT = 2, TAKES_NEGATIVE = 4, TAKES_BIG_ENDIAN = 8 };

struct blockhash_scheme {
  const char *name, *about;
  const struct blockhash_field *fields; /* NULL: none */
  uint64_t params;                      /* PARAM(X) | … */
  uint32_t block_size;                  /* default; 0: the scheme has none */
  unsigned takes;
  uint8_t width, second; /* bytes of a hash and of the second column (0: none) */
  uint8_t unit;          /* of tokens: 4 or 8 */
  /* Checks what only the scheme knows and fills the derived settings. NULL: nothing to do. */
  int (*open)(struct blockhash_settings *s, struct err *err);
  /* Hashes full blocks into out (and second); c->blocks counts those before, c->last is the
   * function's own and must be that of the last block when it returns. */
  void (*run)(struct blockhash_chain *c, const struct blockhash_run *run, void *out, void *second);
  /* The hash of an incomplete block of `len` bytes (0 too), c->last unchanged; false: there is
   * none. NULL: never. */
  bool (*rest)(struct blockhash_chain *c, const uint8_t *data, size_t len, void *out, void *second);
  /* Bytes of the block at the beginning of data, 0: it is not whole. NULL: the stride. */
  size_t (*cut)(const struct blockhash_settings *s, const uint8_t *data, size_t len);
};

extern const struct blockhash_scheme blockhash_schemes_xxh3[], blockhash_schemes_xxh64[],
    blockhash_schemes_vllm[], blockhash_schemes_llmd[], blockhash_schemes_digest[],
    blockhash_schemes_python[]; /* each ends with a NULL name */

/* Reads options into cleared settings that know their scheme; makes the copy that they point into.
 * Free with blockhash_settings_unref, also on error. */
NODISCARD int blockhash_settings_read(struct blockhash_settings *s, const struct value *options,
                                      struct err *err);
void blockhash_settings_unref(struct blockhash_settings *s);
/* ERR_INVALID "SCHEME: PARAM is missing: why" when it was not given. */
NODISCARD int blockhash_settings_need(const struct blockhash_settings *s,
                                      const struct blockhash_text *text, const char *param,
                                      const char *why, struct err *err);
/* Exactly n bytes from hex; false when text is something else. */
bool blockhash_from_hex(struct blockhash_text text, uint8_t *out, size_t n);
/* Whether item m lies over block number `block`. */
bool blockhash_mm_in_block(const struct blockhash_settings *s, const struct blockhash_mm *m,
                           uint64_t block);

/* ---- bytes ---- */

static inline bool blockhash_text_is(struct blockhash_text a, const char *b) {
  return a.data && a.len == strlen(b) && memcmp(a.data, b, a.len) == 0;
}
static inline uint64_t blockhash_be64(const uint8_t *p) {
  uint64_t x;
  memcpy(&x, p, sizeof x);
  return __builtin_bswap64(x);
}

#endif
