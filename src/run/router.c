/* router.c: counters of one arm behind one mutex. A pick costs a few compares under the lock; with
 * 1,000 replicas a scan is still below a microsecond. */
#include "run/router.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

struct replica {
  uint64_t inflight, picked;
  uint64_t last_pick; /* the router's pick number, 0 = never */
};

struct turn {
  char *counter;
  size_t next;
};

struct router {
  pthread_mutex_t mutex;
  struct replica *replicas;
  size_t n;
  uint64_t picks;
  struct turn *turns;
  size_t n_turns, cap_turns;
};

struct router *router_new(size_t n_replicas) {
  assert(n_replicas > 0);
  struct router *r = MEM_NEW(struct router);
  int rc = pthread_mutex_init(&r->mutex, NULL);
  assert(rc == 0);
  r->replicas = mem_calloc(n_replicas, sizeof *r->replicas);
  r->n = n_replicas;
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

size_t router_next(struct router *r, const char *counter) {
  lock(r);
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
  size_t index = turn->next;
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
  size_t best = 0;
  for (size_t i = 1; i < r->n; i++) {
    const struct replica *a = &r->replicas[i], *b = &r->replicas[best];
    if (a->inflight < b->inflight || (a->inflight == b->inflight && a->last_pick < b->last_pick))
      best = i;
  }
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
