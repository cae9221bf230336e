/* recorder.c: collects a batch without a lock, hands it over with one. */
#include "out/recorder.h"

#include "base/mem.h"
#include "out/writer.h"

#define BATCH_FULL 256

struct recorder {
  struct writer *writer;
  uint32_t worker;
  struct batch *batch; /* NULL when nothing was recorded since the last flush */
  struct probe probe;
};

struct recorder *recorder_new(struct writer *writer, uint32_t worker) {
  struct recorder *r = MEM_NEW(struct recorder);
  r->writer = writer;
  r->worker = worker;
  probe_init(&r->probe);
  writer_add_recorder(writer);
  return r;
}

void recorder_delete(struct recorder *r) {
  if (!r)
    return;
  recorder_flush(r);
  writer_drop_recorder(r->writer, &r->probe);
  mem_free(r);
}

void recorder_flush(struct recorder *r) {
  if (!r->batch)
    return;
  writer_hand(r->writer, r->batch);
  r->batch = NULL;
}

static struct batch *batch_of(struct recorder *r) {
  if (!r->batch)
    r->batch = MEM_NEW(struct batch);
  return r->batch;
}

static void flush_when_full(struct recorder *r) {
  if (r->batch->n_samples + r->batch->n_sessions + r->batch->n_values >= BATCH_FULL)
    recorder_flush(r);
}

void recorder_session_started(struct recorder *r) {
  batch_of(r)->sessions_started++;
}

void recorder_sample(struct recorder *r, struct sample *s) {
  struct batch *b = batch_of(r);
  MEM_GROW(b->samples, b->n_samples, b->cap_samples);
  b->samples[b->n_samples++] = s;
  flush_when_full(r);
}

void recorder_session(struct recorder *r, const struct session_record *s) {
  struct batch *b = batch_of(r);
  MEM_GROW(b->sessions, b->n_sessions, b->cap_sessions);
  b->sessions[b->n_sessions++] = *s;
  flush_when_full(r);
}

void recorder_value(struct recorder *r, const struct value_record *v) {
  struct batch *b = batch_of(r);
  MEM_GROW(b->values, b->n_values, b->cap_values);
  b->values[b->n_values++] = *v;
  flush_when_full(r);
}

void recorder_timer_late(struct recorder *r, uint64_t late_ns) {
  hist_add(&r->probe.timer_late, late_ns);
}

void recorder_wakeup_busy(struct recorder *r, uint64_t busy_ns) {
  hist_add(&r->probe.wakeup_busy, busy_ns);
}

void recorder_read_error(struct recorder *r, uint64_t error_ns) {
  hist_add(&r->probe.read_error, error_ns);
}

void recorder_no_kernel_stamp(struct recorder *r) {
  r->probe.no_kernel_stamp++;
}

void recorder_start_lag(struct recorder *r, uint64_t lag_ns) {
  hist_add(&r->probe.start_lag, lag_ns);
}

void recorder_cpu(struct recorder *r, double share) {
  r->probe.cpu_max = share;
  r->probe.cpu_worker = r->worker;
  r->probe.n_cpu = 1;
}
