/* router.c: counters of one arm behind one mutex. A pick costs a few compares under the lock; with
 * 1,000 replicas a scan is still below a microsecond. */
#include "run/router.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

struct replica {
  uint64_t inflight, picked;
  uint64_t last_pick; /* the router's pick number, 0 = never */
  uint64_t since;     /* the router's picks when it came into rotation, while it is in */
  uint64_t rotated;   /* its picks of the times in rotation that are over */
  bool was_in;
  _Atomic bool in; /* written under the mutex, read anywhere */
};

struct turn {
  char *counter;
  size_t next;
};

struct router {
  pthread_mutex_t mutex;
  struct replica *replicas;
  size_t n;
  _Atomic size_t n_in; /* replicas in rotation, as `in` */
  uint64_t picks;
  struct turn *turns;
  size_t n_turns, cap_turns;
};

struct router *router_new(size_t n_replicas, size_t n_spares) {
  assert(n_replicas > 0 && n_spares <= n_replicas);
  struct router *r = MEM_NEW(struct router);
  int rc = pthread_mutex_init(&r->mutex, NULL);
  assert(rc == 0);
  r->replicas = mem_calloc(n_replicas, sizeof *r->replicas);
  r->n = n_replicas;
  r->n_in = n_replicas - n_spares;
  for (size_t i = 0; i < r->n_in; i++)
    r->replicas[i].in = r->replicas[i].was_in = true;
  return r;
}

void router_delete(struct router *r) {
  if (!r)
    return;
  for (size_t i = 0; i < r->n_turns; i++)
    mem_free(r->turns[i].counter);
  mem_free(r->turns);
  mem_free(r->replicas);
  pthread_mutex_destroy(&r->mutex);
  mem_free(r);
}

size_t router_replicas(const struct router *r) {
  return r->n;
}

static void lock(const struct router *r) {
  pthread_mutex_lock((pthread_mutex_t *)&r->mutex);
}

static void unlock(const struct router *r) {
  pthread_mutex_unlock((pthread_mutex_t *)&r->mutex);
}

/* ---- rotation ---- */

bool router_set_in_rotation(struct router *r, size_t index, bool in) {
  assert(index < r->n);
  lock(r);
  struct replica *replica = &r->replicas[index];
  bool changes = replica->in != in;
  if (changes && in) {
    replica->since = r->picks;
    replica->was_in = true;
    r->n_in++;
  } else if (changes) {
    replica->rotated += r->picks - replica->since;
    r->n_in--;
  }
  replica->in = in;
  unlock(r);
  return changes;
}

bool router_in_rotation(const struct router *r, size_t index) {
  assert(index < r->n);
  return r->replicas[index].in;
}

size_t router_n_in_rotation(const struct router *r) {
  return r->n_in;
}

size_t router_stand_in(const struct router *r, size_t index) {
  assert(index < r->n);
  for (size_t i = index; i < r->n; i++)
    if (r->replicas[i].in)
      return i;
  for (size_t i = 0; i < index; i++)
    if (r->replicas[i].in)
      return i;
  return ROUTER_NONE;
}

double router_rotation_share(const struct router *r, size_t index) {
  assert(index < r->n);
  lock(r);
  const struct replica *replica = &r->replicas[index];
  uint64_t rotated = replica->rotated + (replica->in ? r->picks - replica->since : 0);
  double share = !replica->was_in ? -1
                 : r->picks       ? (double)rotated / (double)r->picks
                                  : (double)replica->in;
  unlock(r);
  return share;
}

/* ---- picks ---- */

static struct turn *find_turn(struct router *r, const char *counter) {
  struct turn *turn = NULL;
  for (size_t i = 0; i < r->n_turns && !turn; i++) {
    if (strcmp(r->turns[i].counter, counter) == 0)
      turn = &r->turns[i];
  }
  if (!turn) {
    MEM_GROW(r->turns, r->n_turns, r->cap_turns);
    turn = &r->turns[r->n_turns++];
    *turn = (struct turn){.counter = mem_strdup(counter)};
  }
  return turn;
}

size_t router_next(struct router *r, const char *counter) {
  lock(r);
  struct turn *turn = find_turn(r, counter);
  size_t index = router_stand_in(r, turn->next);
  if (index != ROUTER_NONE)
    turn->next = index + 1 == r->n ? 0 : index + 1;
  unlock(r);
  return index;
}

static void count_pick(struct router *r, size_t index) {
  r->replicas[index].inflight++;
  r->replicas[index].picked++;
  r->replicas[index].last_pick = ++r->picks;
}

size_t router_take_least(struct router *r) {
  lock(r);
  size_t best = ROUTER_NONE;
  for (size_t i = 0; i < r->n; i++) {
    const struct replica *a = &r->replicas[i], *b = best != ROUTER_NONE ? &r->replicas[best] : NULL;
    if (a->in && (!b || a->inflight < b->inflight ||
                  (a->inflight == b->inflight && a->last_pick < b->last_pick)))
      best = i;
  }
  if (best != ROUTER_NONE)
    count_pick(r, best);
  unlock(r);
  return best;
}

void router_take(struct router *r, size_t index) {
  assert(index < r->n);
  lock(r);
  count_pick(r, index);
  unlock(r);
}

void router_done(struct router *r, size_t index) {
  assert(index < r->n);
  lock(r);
  assert(r->replicas[index].inflight > 0);
  r->replicas[index].inflight--;
  unlock(r);
}

uint64_t router_inflight(const struct router *r, size_t index) {
  assert(index < r->n);
  lock(r);
  uint64_t n = r->replicas[index].inflight;
  unlock(r);
  return n;
}

uint64_t router_picked(const struct router *r, size_t index) {
  assert(index < r->n);
  lock(r);
  uint64_t n = r->replicas[index].picked;
  unlock(r);
  return n;
}
