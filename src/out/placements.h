/* placements.h: how a run's sessions and requests were placed on its replicas.
 *
 * A policy that keeps a session where it is (session_hash) places each session once, however many
 * requests it makes; others place every request. What is uneven, or idle, by chance goes by that
 * number. */
#ifndef OUT_PLACEMENTS_H
#define OUT_PLACEMENTS_H

#include "out/filter.h"

struct placements {
  uint64_t *sessions; /* per replica of the table: different sessions that sent it a request */
  uint64_t n;         /* placements the policy made: sessions, or requests */
  bool sticky;        /* n counts sessions */
};

/* Of measured generation requests that match (`use`: filter_match_row); of plain HTTP where there
 * is nothing else. */
void placements_count(struct placements *p, const struct table *t, const struct filter_use *use);
void placements_free(struct placements *p);

/* Probability that one given replica of `replicas` gets none of n independent placements. */
double placements_idle_chance(uint64_t n, size_t replicas);

#endif
