/* placements.c: sessions per replica, and whether the policy keeps sessions where they are. */
#include "out/placements.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct pair {
  uint64_t session;
  uint16_t arm, replica;
};

static int compare(const void *a, const void *b) {
  const struct pair *x = a, *y = b;
  if (x->arm != y->arm)
    return x->arm < y->arm ? -1 : 1;
  if (x->session != y->session)
    return x->session < y->session ? -1 : 1;
  return (x->replica > y->replica) - (x->replica < y->replica);
}

/* Policies that place every request by itself. Any other is judged by what it did. */
static bool places_requests(const char *policy) {
  static const char *const names[] = {"round_robin", "random", "least_inflight"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++)
    if (strcmp(policy, names[i]) == 0)
      return true;
  return false;
}

/* Different pairs, of different sessions, counted into p. */
static void count_pairs(struct placements *p, struct pair *pairs, size_t n, bool by_request) {
  uint64_t sessions = 0, different = 0;
  if (n)
    qsort(pairs, n, sizeof *pairs, compare);
  for (size_t i = 0; i < n; i++) {
    const struct pair *x = &pairs[i], *before = i ? &pairs[i - 1] : NULL;
    bool same_session = before && before->arm == x->arm && before->session == x->session;
    sessions += !same_session;
    if (same_session && before->replica == x->replica)
      continue;
    different++;
    p->sessions[x->replica]++;
  }
  p->sticky = !by_request && different == sessions && sessions < n;
  p->n = p->sticky ? sessions : n;
}

void placements_count(struct placements *p, const struct table *t, const struct filter_use *use) {
  *p = (struct placements){.sessions = mem_calloc(t->replicas.n, sizeof *p->sessions)};
  struct pair *pairs = mem_resize(NULL, t->n_rows ? t->n_rows : 1, sizeof *pairs);
  size_t n = 0;
  bool by_request = false;
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!(r->flags & ROW_MEASURED) || r->replica == TABLE_NO_REPLICA ||
        (t->has_generation && !(r->flags & ROW_GENERATION)) || (use && !filter_match_row(use, r)))
      continue;
    pairs[n++] = (struct pair){.session = r->session, .arm = r->arm, .replica = r->replica};
    by_request =
        by_request || ((r->flags & ROW_ROUTED) && places_requests(t->policies.items[r->policy]));
  }
  count_pairs(p, pairs, n, by_request);
  mem_free(pairs);
}

void placements_free(struct placements *p) {
  mem_free(p->sessions);
  *p = (struct placements){0};
}

double placements_idle_chance(uint64_t n, size_t replicas) {
  return replicas ? pow(1 - 1 / (double)replicas, (double)n) : 0;
}
