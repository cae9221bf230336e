/* bpe.h: a byte-pair vocabulary: pieces of text to ids by merging.
 *
 * Built once (add tokens, seal, add merges, finish), read-only afterwards and shared by threads.
 * What one thread needs while it encodes is a `struct bpe_scratch`. Merging is the reference's:
 * the pair of lowest rank first, of equal ranks the leftmost. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "base/buf.h"
#include "base/err.h"
#include "text/tokens.h"

#define BPE_NONE UINT32_MAX
#define BPE_MAX_IDS (1u << 22) /* ids at or above it are refused: tables are indexed by id */

struct bpe_pair {
  uint64_t key; /* left id << 32 | right id */
  uint32_t rank, id;
};

/* What a pair becomes; rank BPE_NONE: it is none. */
struct bpe_made {
  uint32_t rank, id;
};

struct bpe {
  /* Set by the owner before bpe_finish. */
  bool bytes;         /* a symbol is a byte (byte-level models); else a character */
  bool ignore_merges; /* a piece that is a token is that token */
  bool byte_fallback; /* a character without a token becomes tokens <0x00>..<0xFF> */
  bool fuse_unk;      /* unknown characters in a row become one unknown token */
  uint32_t unk;       /* BPE_NONE: characters without a token vanish */

  uint32_t n_ids; /* ids are below it; some may be unused */
  uint32_t n_tokens;
  uint32_t *start, *len; /* of a token's bytes in `text`; len BPE_NONE: the id is unused */
  struct buf text;
  uint32_t *by_text; /* hash table of ids + 1 */
  uint32_t by_text_mask;

  struct bpe_pair *pairs; /* hash table; rank BPE_NONE: free */
  size_t n_pairs;
  uint64_t pair_mask;

  /* What pairs of first symbols become: left - firsts_from, right - firsts_from, each below 256. A
   * table of its own, since most look-ups are for these. */
  uint32_t firsts_from;
  struct bpe_made *firsts;

  uint32_t *plain, n_plain; /* ids that bpe_to_bytes left as they were, in order */

  uint32_t byte_id[256]; /* the token of a byte: with `bytes` the first symbols, else fallbacks */
  bool fallback_all;     /* all 256 are there */
  uint16_t *char_index;  /* code point >> 7 -> block of char_ids; not with `bytes` */
  uint32_t *char_ids;    /* 128 ids a block; block 0 is empty */
  bool cuts;             /* a text may be cut where no merge can reach across */
  /* Characters that stand side by side inside a merge: a bit by the hash of both. Some pairs have
   * the bit without being one: there no cut is made that could be, which changes nothing. */
  uint64_t *inside;
  uint64_t small_inside[129][3]; /* the same for ASCII and U+2581 (as 128), a bit each */
  /* Only with `bytes`, where tokens may begin and end inside a character. Two bits a code point:
   * some merge's result has it right before, right after a part of another; and a bit for each last
   * and first byte that stand side by side in one that has only parts of both. */
  uint8_t *edges;
  uint8_t partial[256][32];
};

/* What merging needs beside the vocabulary. Belongs to one thread and one vocabulary. */
struct bpe_scratch;
struct bpe_scratch *bpe_scratch_new(const struct bpe *b, bool with_memo);
void bpe_scratch_delete(struct bpe_scratch *s);

void bpe_init(struct bpe *b);
void bpe_free(struct bpe *b);

/* Before bpe_seal, in any order. ERR_INVALID: the id is taken (`text` is quoted in the message) or
 * too large. */
NODISCARD int bpe_add(struct bpe *b, uint32_t id, const char *text, size_t len, struct err *err);
/* Ends adding; bpe_find works from here on. ERR_INVALID when two ids have the same text;
 * ERR_UNSUPPORTED when far more ids are unused than used. */
NODISCARD int bpe_seal(struct bpe *b, struct err *err);
/* The id of a token's text; BPE_NONE. */
uint32_t bpe_find(const struct bpe *b, const char *text, size_t len);

/* Makes room for `n` merges, dropping those there are. */
void bpe_pairs_reserve(struct bpe *b, size_t n);
/* The pair becomes `id` with that rank; a pair given again takes the later rank, as in the
 * reference. Not more than were reserved. */
void bpe_pairs_add(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
const struct bpe_pair *bpe_pairs_find(const struct bpe *b, uint32_t left, uint32_t right);

/* Every split of every token into two tokens is a merge with the token's id as rank: what a rank
 * file means. */
void bpe_pairs_from_ranks(struct bpe *b);

/* The texts of the tokens are written in the alphabet of byte-level models (Ġ for a space);
 * replaces each by its bytes. Tokens with other characters keep their text: no text is cut into
 * them. bpe_find then takes bytes. */
void bpe_to_bytes(struct bpe *b);

/* Ends building. ERR_UNSUPPORTED: a combination of the settings above that no model uses and that
 * is not done. */
NODISCARD int bpe_finish(struct bpe *b, struct err *err);

/* The bytes of an id; NULL when it is not in the vocabulary. */
const char *bpe_text(const struct bpe *b, uint32_t id, size_t *len);

/* Appends how the vocabulary writes the token, which exists: with `bytes` in the alphabet of
 * byte-level models. ERR_LIMIT. */
NODISCARD int bpe_put_name(const struct bpe *b, uint32_t id, struct buf *out);

/* Appends the ids of one piece of valid UTF-8, merged as a whole. */
void bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *piece, size_t len,
                struct tokens_list *out);
/* The same for n pieces: piece i of `text` ends at ends[i] and begins where the one before it ends,
 * the first at `from`. */
void bpe_encode_pieces(const struct bpe *b, struct bpe_scratch *s, const char *text, size_t len,
                       size_t from, const uint32_t *ends, size_t n, struct tokens_list *out);
/* Without memo and cuts, by the plainest method there is (time n²): the tests' reference. */
void bpe_encode_plain(const struct bpe *b, const char *piece, size_t len, struct tokens_list *out);

#endif
