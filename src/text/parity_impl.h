/* parity_impl.h: what parity.c, parityvariants.c, parityrest.c, parityfix.c and paritydate.c share.
 */
#ifndef TEXT_PARITY_IMPL_H
#define TEXT_PARITY_IMPL_H

#include "text/parity.h"

/* One comparison under way. */
struct parity_trial {
  const struct parity_local *local;
  const struct parity_case *c;
  const struct tokens_list *ours;
  const uint32_t *server; /* NULL: the count alone */
  size_t server_n;
  size_t common; /* leading ids that are equal */
  /* Of both ids, when the server's could be decoded. */
  bool decoded;
  struct buf our_text, server_text;
  size_t common_bytes;
};

/* Appends a cause, unless there are PARITY_MAX_CAUSES or one of that name already; texts are
 * copied. */
void parity_add_cause(struct parity_result *out, const char *name, enum parity_strength strength,
                      const char *text, const char *test);
/* What is to be done about a cause of that name; NULL: none of the list. */
const char *parity_fix(const char *name);
/* The same of the cause "date", where it is there: with the day that the server's text has. */
void parity_fix_date(const struct parity_trial *t, struct parity_result *out);
/* Tries what needs no rendering, where no cause explains everything: parityrest.c. */
void parity_try_rest(const struct parity_trial *t, struct parity_result *out);
/* Ids that cannot be of our vocabulary. */
void parity_add_vocabulary(const struct parity_trial *t, const char *test,
                           struct parity_result *out);
/* Bytes as they can be shown: valid UTF-8 as in JSON, the rest as \xNN; quoted. The caller frees.
 */
char *parity_quote(const char *bytes, size_t len);
/* Tries every variant, single ones first, then pairs. */
void parity_try_variants(const struct parity_trial *t, struct parity_result *out);

/* A date in a text, in one of the forms that templates print: 2026-08-01, 01 Aug 2026, 1 August
 * 2026, August 1, 2026. */
struct paritydate {
  size_t start, len;
  struct pytime time; /* midnight */
};
/* The date whose bytes hold position `near`, or end just before it; false when there is none. */
bool paritydate_find(const char *text, size_t len, size_t near, struct paritydate *out);

/* How many leading ids two lists share. */
size_t parity_common(const uint32_t *a, size_t n, const uint32_t *b, size_t m);

#endif
