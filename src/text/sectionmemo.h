/* sectionmemo.h: the ids of sections of text, remembered by content within a bound of memory.
 *
 * Two tables: what is put or found goes into the young one; when it holds half of the bound, it
 * becomes the old one, and what the old one held is forgotten. One thread's. */
#ifndef TEXT_SECTIONMEMO_H
#define TEXT_SECTIONMEMO_H

#include "text/tokens.h"

struct section;

struct sectiontable {
  struct section **slots; /* open addressing; NULL: free */
  size_t n, mask, bytes;
};

struct sectionmemo {
  size_t max_bytes;
  struct sectiontable young, old;
  uint64_t found, made;
};

void sectionmemo_init(struct sectionmemo *m, size_t max_bytes);
void sectionmemo_free(struct sectionmemo *m);
/* Appends the ids of this section; false when it is not known. `first`: it begins where the whole
 * text begins, where some tokenizers do otherwise. */
bool sectionmemo_get(struct sectionmemo *m, const char *text, size_t len, bool first,
                     struct tokens_list *out);
/* Remembers it, which was not known; copies. One that is larger than a quarter of the bound is not
 * kept. */
void sectionmemo_put(struct sectionmemo *m, const char *text, size_t len, bool first,
                     const uint32_t *ids, size_t n);

#endif
