/* writer.c: the thread, its queue, its two files.
 *
 * The thread sleeps until a batch comes, takes all there are, and writes their rows with one call:
 * there is no buffer that could lose rows, and no clock. */
#include "out/writer.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "out/rowfile.h"
#include "out/stats.h"

#define RECENT 512

struct writer {
  pthread_t thread;
  pthread_mutex_t lock; /* of everything down to `live` */
  pthread_cond_t wake, room;
  struct batch *head, **tail;
  size_t queued_bytes, max_queue_bytes; /* handed over and not yet dealt with */
  bool stopping;
  uint32_t n_recorders;
  struct live live;
  double recent_ttft[RECENT];
  uint64_t n_ttft; /* ever; the ring holds the last RECENT */

  /* The thread's own until it is joined. */
  char *run_id;
  bool with_itl, stopped;
  struct rowfile samples, values;
  struct table *table;
  size_t table_bytes; /* atomic */
};

/* ---- the thread ---- */

static void count_sample(struct live *live, const struct sample *s) {
  bool failed = sample_error_failed(s->error);
  if (!s->is_generation) {
    live->other_requests++;
    live->other_failed += failed;
    return;
  }
  live->requests++;
  live->failed += failed;
  live->ok += s->error == SAMPLE_OK;
  int64_t out = s->output_tokens != SAMPLE_ABSENT ? s->output_tokens : s->output_tokens_local;
  int64_t in = s->prompt_tokens != SAMPLE_ABSENT ? s->prompt_tokens : s->prompt_tokens_local;
  live->output_tokens += out > 0 && out <= INT32_MAX ? (uint64_t)out : 0;
  live->prompt_tokens += in > 0 && in <= INT32_MAX ? (uint64_t)in : 0;
}

static void note_ttft(struct writer *w, const struct sample *s) {
  if (!s->is_generation || !s->streamed || s->error != SAMPLE_OK ||
      s->t[STAMP_FIRST_TOKEN] == SAMPLE_NEVER || s->t[STAMP_START] == SAMPLE_NEVER)
    return;
  uint64_t ns = s->t[STAMP_FIRST_TOKEN] - s->t[STAMP_START];
  w->recent_ttft[w->n_ttft++ % RECENT] = (double)ns / 1e9;
}

/* Under the lock: short, no I/O. */
static void count_batch(struct writer *w, struct batch *b) {
  struct live *live = &w->live;
  if (b->counted)
    return;
  b->counted = true;
  live->sessions_started += b->sessions_started;
  live->sessions_ended += b->n_sessions;
  for (size_t i = 0; i < b->n_sessions; i++)
    live->sessions_failed += sample_error_failed(b->sessions[i].error);
  for (size_t i = 0; i < b->n_samples; i++) {
    count_sample(live, b->samples[i]);
    note_ttft(w, b->samples[i]);
  }
}

static void free_batch(struct batch *b) {
  for (size_t i = 0; i < b->n_samples; i++)
    sample_free(b->samples[i]);
  for (size_t i = 0; i < b->n_values; i++)
    mem_free(b->values[i].tags);
  mem_free(b->samples);
  mem_free(b->sessions);
  mem_free(b->values);
  mem_free(b);
}

static void take_batch(struct writer *w, struct batch *b) {
  for (size_t i = 0; i < b->n_samples; i++) {
    table_add_sample(w->table, b->samples[i]);
    if (rowfile_takes(&w->samples)) {
      sample_write(&w->samples.rows, b->samples[i], w->run_id, w->with_itl);
      rowfile_row(&w->samples);
    }
  }
  for (size_t i = 0; i < b->n_sessions; i++)
    table_add_session(w->table, &b->sessions[i]);
  for (size_t i = 0; i < b->n_values; i++) {
    table_add_value(w->table, &b->values[i]);
    if (rowfile_takes(&w->values)) {
      value_record_write(&w->values.rows, &b->values[i], w->run_id);
      rowfile_row(&w->values);
    }
  }
  const struct table *t = w->table;
  __atomic_store_n(&w->table_bytes,
                   t->n_rows * sizeof *t->rows + t->n_sessions * sizeof *t->sessions +
                       t->n_values * sizeof *t->values + t->n_gaps * sizeof *t->gaps,
                   __ATOMIC_RELAXED);
}

static void *writer_main(void *arg) {
  struct writer *w = arg;
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (!w->head && !w->stopping)
      pthread_cond_wait(&w->wake, &w->lock);
    struct batch *list = w->head;
    w->head = NULL;
    w->tail = &w->head;
    if (!list)
      break;
    uint64_t taken = 0;
    size_t bytes = 0;
    for (struct batch *b = list; b; b = b->next) {
      count_batch(w, b);
      taken += b->n_samples;
      bytes += b->bytes;
    }
    pthread_mutex_unlock(&w->lock);
    while (list) {
      struct batch *b = list;
      list = b->next;
      take_batch(w, b);
      free_batch(b);
    }
    rowfile_write(&w->samples);
    rowfile_write(&w->values);
    pthread_mutex_lock(&w->lock);
    w->live.backlog -= taken;
    w->queued_bytes -= bytes;
    pthread_cond_broadcast(&w->room);
    w->live.rows_written = w->samples.written;
    w->live.write_failed = w->samples.error.code || w->values.error.code;
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* Signals are the main thread's business, and SIGXFSZ must come as an error of write. */
static int start_thread(struct writer *w) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int rc = pthread_create(&w->thread, NULL, writer_main, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}

int writer_start(const struct writer_options *options, struct writer **out, struct err *err) {
  struct writer *w = MEM_NEW(struct writer);
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, NULL);
  pthread_cond_init(&w->room, NULL);
  w->max_queue_bytes = options->max_queue_bytes ? options->max_queue_bytes : WRITER_QUEUE_BYTES;
  w->tail = &w->head;
  rowfile_init(&w->samples);
  rowfile_init(&w->values);
  w->run_id = mem_strdup(options->run_id ? options->run_id : "");
  w->with_itl = options->with_itl;
  w->table = table_new(options->max_gaps);
  int rc = 0;
  if (options->dir)
    rc = rowfile_open(&w->samples, options->dir, "samples.jsonl", err);
  if (options->dir && !rc)
    rc = rowfile_open(&w->values, options->dir, "values.jsonl", err);
  if (!rc) {
    int error = start_thread(w);
    if (error)
      rc = err_set(err, ERR_IO, "cannot start the writer thread: %s", strerror(error));
  }
  if (rc) {
    w->stopped = true;
    writer_delete(w);
    return rc;
  }
  *out = w;
  return 0;
}

int writer_stop(struct writer *w, struct err *err) {
  pthread_mutex_lock(&w->lock);
  assert(!w->stopping && w->n_recorders == 0);
  w->stopping = true;
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  w->stopped = true;
  rowfile_close(&w->samples);
  rowfile_close(&w->values);
  table_finish(w->table);
  int rc = rowfile_result(&w->samples, err);
  if (!rc)
    rc = rowfile_result(&w->values, err);
  if (!rc && w->table->dropped)
    rc = err_set(err, ERR_LIMIT,
                 "out of memory: %llu requests, sessions and values are missing from the summary "
                 "and the report; the requests are in samples.jsonl, the values in values.jsonl",
                 (unsigned long long)w->table->dropped);
  return rc;
}

struct table *writer_table(struct writer *w) {
  assert(w->stopped);
  return w->table;
}

void writer_delete(struct writer *w) {
  if (!w)
    return;
  assert(w->stopped);
  pthread_mutex_destroy(&w->lock);
  pthread_cond_destroy(&w->wake);
  pthread_cond_destroy(&w->room);
  rowfile_free(&w->samples);
  rowfile_free(&w->values);
  table_free(w->table);
  mem_free(w->run_id);
  mem_free(w);
}

/* ---- from other threads ---- */

void writer_live(struct writer *w, struct live *out) {
  double recent[RECENT];
  pthread_mutex_lock(&w->lock);
  for (struct batch *b = w->head; b; b = b->next) /* handed over, and not taken yet */
    count_batch(w, b);
  *out = w->live;
  size_t n = w->n_ttft < RECENT ? (size_t)w->n_ttft : RECENT;
  memcpy(recent, w->recent_ttft, n * sizeof *recent);
  pthread_mutex_unlock(&w->lock);
  stats_sort(recent, NULL, n);
  out->ttft_n = n;
  out->ttft_p50_s = stats_quantile(recent, n, 0.5);
  out->ttft_p95_s = stats_quantile(recent, n, 0.95);
}

/* What a batch keeps alive, near enough: strings are left out. */
static size_t batch_bytes(const struct batch *b) {
  size_t bytes = sizeof *b + b->n_sessions * sizeof *b->sessions + b->n_values * sizeof *b->values;
  for (size_t i = 0; i < b->n_samples; i++)
    bytes += sizeof **b->samples + b->samples[i]->n_gaps * (sizeof(uint64_t) + sizeof(int32_t));
  return bytes;
}

size_t writer_table_bytes(const struct writer *w) {
  return __atomic_load_n(&w->table_bytes, __ATOMIC_RELAXED);
}

void writer_hand(struct writer *w, struct batch *b) {
  b->next = NULL;
  b->bytes = batch_bytes(b);
  pthread_mutex_lock(&w->lock);
  bool first = w->queued_bytes >= w->max_queue_bytes && w->live.hand_waits++ == 0;
  while (w->queued_bytes >= w->max_queue_bytes)
    pthread_cond_wait(&w->room, &w->lock);
  w->queued_bytes += b->bytes;
  *w->tail = b;
  w->tail = &b->next;
  w->live.backlog += b->n_samples;
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
  if (first)
    log_warn("rows come faster than they are written: the load waits for the disk");
}

void writer_add_recorder(struct writer *w) {
  pthread_mutex_lock(&w->lock);
  w->n_recorders++;
  pthread_mutex_unlock(&w->lock);
}

/* The table is the thread's, but its probe is touched by nobody else before the end. */
void writer_drop_recorder(struct writer *w, const struct probe *probe) {
  pthread_mutex_lock(&w->lock);
  assert(w->n_recorders > 0);
  w->n_recorders--;
  probe_merge(&w->table->probe, probe);
  pthread_mutex_unlock(&w->lock);
}
