/* blockhash_chain.h: block hashes of any scheme, over a prompt that grows.
 *
 * A chain is opened with a scheme's name and its parameters, then fed with token ids or text; every
 * scheme of shared/facts/block-hashing.md is there (blockhash_scheme_at). Feeding costs the work of
 * what is new, and a fork shares the hashes that are there already. Any split of the same input
 * gives the same chain. A chain and its forks belong to one thread at a time. The `ic-xxh3` chain
 * of the simulator and the generators is blockhash.h; it has no parameters to read. */
#ifndef KV_BLOCKHASH_CHAIN_H
#define KV_BLOCKHASH_CHAIN_H

#include "base/err.h"
#include "text/value.h"

#define BLOCKHASH_DEFAULT_SCHEME "ic-xxh3"
#define BLOCKHASH_MAX_WIDTH 32                           /* bytes of the widest hash */
#define BLOCKHASH_MAX_TEXT (2 * BLOCKHASH_MAX_WIDTH + 1) /* of one hash, with its NUL */
#define BLOCKHASH_MAX_BLOCK (UINT32_C(1) << 20)

struct blockhash_scheme;
struct blockhash_chain;

/* ---- what there is ---- */

/* Scheme i in the order of the documentation, NULL behind the last. */
const struct blockhash_scheme *blockhash_scheme_at(size_t i);
const struct blockhash_scheme *blockhash_scheme_find(const char *name);
const char *blockhash_scheme_name(const struct blockhash_scheme *s);
/* One line: whose it is. */
const char *blockhash_scheme_about(const struct blockhash_scheme *s);
/* What its blocks are made of: "tokens", "text", "tokens or text". */
const char *blockhash_scheme_input(const struct blockhash_scheme *s);
/* In the unit of the scheme (tokens, bytes, characters); 0: one hash of the whole. */
uint32_t blockhash_scheme_block_size(const struct blockhash_scheme *s);
/* Parameter i that it knows, NULL behind the last; *json (may be NULL): whether the value is no
 * plain text or number but a flag, a list or an object. */
const char *blockhash_scheme_param(const struct blockhash_scheme *s, size_t i, bool *json);
/* Field i beside block_hashes, NULL behind the last. */
const char *blockhash_scheme_field(const struct blockhash_scheme *s, size_t i);

/* ---- a chain ---- */

/* Opens the chain of scheme `name` (ERR_NOT_FOUND names the nearest). `options` is an object, or
 * NULL: block_size and the scheme's parameters, as in tests/data/blockhash/README.md; it is copied.
 * ERR_INVALID names the parameter that is unknown, missing, of the wrong type or out of range, and
 * what would do. Free with blockhash_chain_delete. */
NODISCARD int blockhash_chain_open(const char *name, const struct value *options,
                                   struct blockhash_chain **out, struct err *err);
/* NULL is allowed. */
void blockhash_chain_delete(struct blockhash_chain *c);
/* A chain that goes on by itself from here; what is there is shared, not copied. */
struct blockhash_chain *blockhash_chain_fork(const struct blockhash_chain *c);

/* Appends token ids. ERR_INVALID, and nothing is appended: the scheme hashes text, or text came
 * before. */
NODISCARD int blockhash_chain_add(struct blockhash_chain *c, const uint32_t *ids, size_t n,
                                  struct err *err);
/* The same for ids that may be negative: down to -2^31 where the scheme's engine hashes signed ids,
 * and up to 2^32 - 1; the first that is out of range is named. */
NODISCARD int blockhash_chain_add_signed(struct blockhash_chain *c, const int64_t *ids, size_t n,
                                         struct err *err);
/* Appends text, any bytes; for a scheme that counts characters, whole characters of UTF-8. */
NODISCARD int blockhash_chain_add_text(struct blockhash_chain *c, const char *text, size_t len,
                                       struct err *err);

const struct blockhash_scheme *blockhash_chain_scheme(const struct blockhash_chain *c);
/* Number of hashes, that of an incomplete block included where the scheme has one. */
size_t blockhash_chain_count(struct blockhash_chain *c);
/* Hash i < count as its bytes, most significant first; returns how many (8, 16 or 32). */
size_t blockhash_chain_bytes(struct blockhash_chain *c, size_t i, uint8_t out[BLOCKHASH_MAX_WIDTH]);

/* A field's number for blockhash_chain_text: 0 is block_hashes. ERR_NOT_FOUND names the nearest.
 * *list: whether there is one text per hash (else one for the chain). */
NODISCARD int blockhash_chain_field(const struct blockhash_chain *c, const char *name, int *field,
                                    bool *list, struct err *err);
/* The field that the scheme's engine publishes in its events; 0 when that is the hash itself. */
int blockhash_chain_event_field(const struct blockhash_chain *c);
/* Writes the field of hash i (of the chain: i is ignored) as the vectors print it; returns its
 * length. */
size_t blockhash_chain_text(struct blockhash_chain *c, int field, size_t i,
                            char out[BLOCKHASH_MAX_TEXT]);

#endif
