/* recorder.c: collects a batch, hands it over.
 *
 * The batch has a lock of its own, which nobody else takes but the one who gives the thread up. It
 * is not held while the batch is handed over: that may wait for the disk. */
#include "out/recorder.h"

#include <pthread.h>

#include "base/mem.h"
#include "out/writer.h"

#define BATCH_FULL 256

struct recorder {
  struct writer *writer;
  uint32_t worker;
  pthread_mutex_t lock; /* of the next two */
  struct batch *batch;  /* NULL when nothing was recorded since the last flush */
  bool abandoned;
  bool probing;
  struct probe probe;
  uint64_t late_ns;        /* of this wake-up's timers, the latest */
  uint64_t busy_before_ns; /* the wake-up before this one */
};

struct recorder *recorder_new(struct writer *writer, uint32_t worker) {
  struct recorder *r = MEM_NEW(struct recorder);
  r->writer = writer;
  r->worker = worker;
  pthread_mutex_init(&r->lock, NULL);
  probe_init(&r->probe);
  writer_add_recorder(writer);
  return r;
}

void recorder_delete(struct recorder *r) {
  if (!r)
    return;
  assert(!r->abandoned);
  recorder_flush(r);
  writer_drop_recorder(r->writer, &r->probe);
  pthread_mutex_destroy(&r->lock);
  mem_free(r);
}

/* Takes the batch out when it is full, or whenever `all`. */
static struct batch *take(struct recorder *r, bool all) {
  struct batch *b = r->batch;
  if (!b || (!all && b->n_samples + b->n_sessions + b->n_values < BATCH_FULL))
    return NULL;
  r->batch = NULL;
  return b;
}

static void hand(struct recorder *r, struct batch *b) {
  if (b)
    writer_hand(r->writer, b);
}

void recorder_flush(struct recorder *r) {
  pthread_mutex_lock(&r->lock);
  struct batch *b = take(r, true);
  pthread_mutex_unlock(&r->lock);
  hand(r, b);
}

void recorder_abandon(struct recorder *r) {
  pthread_mutex_lock(&r->lock);
  assert(!r->abandoned);
  r->abandoned = true;
  struct batch *b = take(r, true);
  pthread_mutex_unlock(&r->lock);
  hand(r, b);
  writer_drop_recorder(r->writer, &r->probe);
}

/* The batch to add to, under the lock; NULL, without it, when nobody wants it any more. */
static struct batch *open_batch(struct recorder *r) {
  pthread_mutex_lock(&r->lock);
  if (r->abandoned) {
    pthread_mutex_unlock(&r->lock);
    return NULL;
  }
  if (!r->batch)
    r->batch = MEM_NEW(struct batch);
  return r->batch;
}

static void close_batch(struct recorder *r) {
  struct batch *full = take(r, false);
  pthread_mutex_unlock(&r->lock);
  hand(r, full);
}

void recorder_session_started(struct recorder *r) {
  struct batch *b = open_batch(r);
  if (!b)
    return;
  b->sessions_started++;
  close_batch(r);
}

void recorder_sample(struct recorder *r, struct sample *s) {
  struct batch *b = open_batch(r);
  if (!b) {
    sample_free(s);
    return;
  }
  MEM_GROW(b->samples, b->n_samples, b->cap_samples);
  b->samples[b->n_samples++] = s;
  close_batch(r);
}

void recorder_session(struct recorder *r, const struct session_record *s) {
  struct batch *b = open_batch(r);
  if (!b)
    return;
  MEM_GROW(b->sessions, b->n_sessions, b->cap_sessions);
  b->sessions[b->n_sessions++] = *s;
  close_batch(r);
}

void recorder_value(struct recorder *r, const struct value_record *v) {
  struct batch *b = open_batch(r);
  if (!b) {
    mem_free(v->tags);
    return;
  }
  MEM_GROW(b->values, b->n_values, b->cap_values);
  b->values[b->n_values++] = *v;
  close_batch(r);
}

void recorder_set_probing(struct recorder *r, bool on) {
  r->probing = on;
}

static void add(struct recorder *r, struct hist *h, uint64_t ns) {
  if (r->probing)
    hist_add(h, ns);
}

void recorder_timer_late(struct recorder *r, uint64_t late_ns) {
  add(r, &r->probe.timer_late, late_ns);
  if (late_ns > r->late_ns)
    r->late_ns = late_ns;
}

void recorder_wakeup_busy(struct recorder *r, uint64_t busy_ns) {
  add(r, &r->probe.wakeup_busy, busy_ns);
  /* A timer is also late when a wake-up, this one or the one before, was busy: counted there. */
  uint64_t known = r->busy_before_ns + busy_ns;
  uint64_t stall = busy_ns + (r->late_ns > known ? r->late_ns - known : 0);
  if (stall > RECORDER_STALL_NS && r->probing) {
    r->probe.stalled_ns += stall;
    if (stall > r->probe.longest_stall_ns)
      r->probe.longest_stall_ns = stall;
  }
  r->late_ns = 0;
  r->busy_before_ns = busy_ns;
}

void recorder_read_error(struct recorder *r, uint64_t error_ns) {
  add(r, &r->probe.read_error, error_ns);
}

void recorder_no_kernel_stamp(struct recorder *r) {
  r->probe.no_kernel_stamp += r->probing;
}

void recorder_start_lag(struct recorder *r, uint64_t lag_ns) {
  add(r, &r->probe.start_lag, lag_ns);
}

void recorder_cpu(struct recorder *r, double share) {
  r->probe.cpu_max = share;
  r->probe.cpu_worker = r->worker;
  r->probe.n_cpu = 1;
}
