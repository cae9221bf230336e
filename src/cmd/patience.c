/* patience.c: a call on a thread of its own, given up when it takes too long. */
#include "cmd/patience.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"

#define LOOK_NS (100 * NS_PER_MS)

struct call {
  void (*fn)(void *user);
  void *user;
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool done;
};

static void *call_it(void *arg) {
  struct call *c = arg;
  c->fn(c->user);
  pthread_mutex_lock(&c->lock);
  c->done = true;
  pthread_cond_signal(&c->ended);
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

/* Until it is done, or for LOOK_NS; whether it is done. */
static bool wait_a_little(struct call *c) {
  uint64_t until = clock_wall_ns() + LOOK_NS; /* what a condition counts in, by default */
  struct timespec ts = {.tv_sec = (time_t)(until / NS_PER_S), .tv_nsec = (long)(until % NS_PER_S)};
  pthread_mutex_lock(&c->lock);
  if (!c->done)
    pthread_cond_timedwait(&c->ended, &c->lock, &ts);
  bool done = c->done;
  pthread_mutex_unlock(&c->lock);
  return done;
}

bool patience_call(void (*fn)(void *user), void *user, uint64_t cpu_ns, uint64_t wall_ns) {
  struct call *c = MEM_NEW(struct call);
  pthread_t thread;
  uint64_t began_ns = clock_ns(), used_ns = 0;
  c->fn = fn;
  c->user = user;
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->ended, NULL);
  if (pthread_create(&thread, NULL, call_it, c) != 0) { /* no thread: without a watch, then */
    fn(user);
    mem_free(c);
    return true;
  }
  while (!wait_a_little(c)) {
    if (clock_cpu_of_thread(thread, &used_ns) &&
        (used_ns >= cpu_ns || (wall_ns && clock_ns() - began_ns >= wall_ns))) {
      pthread_detach(thread);
      return false; /* `c` stays: it is still used */
    }
  }
  pthread_join(thread, NULL);
  pthread_cond_destroy(&c->ended);
  pthread_mutex_destroy(&c->lock);
  mem_free(c);
  return true;
}
