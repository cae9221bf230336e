/* addedtokens.h: tokens that are cut out of a text before anything else: special tokens and others
 * that were added to a vocabulary.
 *
 * Matching is the reference's: leftmost, of those the longest, none inside another; `single_word`
 * drops a match with a word character beside it, `lstrip` and `rstrip` take the white space beside
 * it along. Two sets are used, one on the text as it is and one on the normalized text. */
#ifndef TEXT_ADDEDTOKENS_H
#define TEXT_ADDEDTOKENS_H

#include "base/base.h"

struct added_token {
  char *text; /* owned by the set; what is looked for */
  size_t len;
  uint32_t id;
  bool special, single_word, lstrip, rstrip;
};

struct added_edge;

struct addedtokens {
  struct added_token *tokens;
  size_t n, cap;
  /* The trie: a hash table of (node, byte) -> node, and which token ends at a node. */
  struct added_edge *edges;
  size_t n_edges, edge_mask;
  uint32_t *ends; /* token + 1 per node */
  size_t n_nodes, cap_nodes;
  uint16_t n_first; /* how many bytes a match can begin with */
  unsigned char only_first;
  bool first[256];
};

void addedtokens_init(struct addedtokens *a);
void addedtokens_free(struct addedtokens *a);
/* Copies the text. Empty ones are ignored; of equal texts the first counts. */
void addedtokens_add(struct addedtokens *a, const char *text, size_t len,
                     const struct added_token *flags);

/* Where the search stands; zero-initialised is the beginning. */
struct added_place {
  size_t at;    /* where it goes on */
  size_t taken; /* behind the last match, with what it stripped */
};

struct added_match {
  size_t start, end; /* start may lie before `taken` of the match before; then nothing is between */
  uint32_t id;
};

/* The next match in `text` (valid UTF-8); false when there is none. Without `special` the special
 * tokens are passed over as text. Time: len × the longest token at worst. */
bool addedtokens_next(const struct addedtokens *a, const char *text, size_t len, bool special,
                      struct added_place *place, struct added_match *match);

#endif
