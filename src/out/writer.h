/* writer.h: the process's one writer thread: it owns samples.jsonl, values.jsonl and the table of
 * results.
 *
 * Workers hand it batches through their recorders; rows are in the file within a recorder's flush
 * (100 ms), so that whatever ends the process, what was taken is on disk. When the disk refuses,
 * the file is cut back to its last whole row, the error is kept and logged once, and the run goes
 * on: the table still gets every request. The queue is bounded: who hands over while it is full
 * waits until the thread has caught up, which the loop lag shows and `hand_waits` counts. */
#ifndef OUT_WRITER_H
#define OUT_WRITER_H

#include "base/err.h"
#include "out/table.h"

struct writer;

#define WRITER_QUEUE_BYTES ((size_t)64 << 20)

struct writer_options {
  const char *dir;        /* the two files go here; NULL: none is written */
  const char *run_id;     /* the rows' `run` */
  bool with_itl;          /* the rows' `itl_ns` */
  size_t max_gaps;        /* 0 = TABLE_MAX_GAPS */
  size_t max_queue_bytes; /* of rows that wait for the thread; 0 = WRITER_QUEUE_BYTES */
};

/* ERR_IO: the file or the thread cannot be made. The strings are copied. */
NODISCARD int writer_start(const struct writer_options *options, struct writer **out,
                           struct err *err);

/* What the live line shows; all since the start of the run, warm-up included. */
struct live {
  uint64_t sessions_started, sessions_ended, sessions_failed;
  uint64_t requests; /* generation requests that ended, in any way */
  uint64_t ok, failed;
  uint64_t other_requests, other_failed; /* plain HTTP */
  uint64_t prompt_tokens, output_tokens;
  uint64_t rows_written;
  uint64_t backlog; /* rows handed over and not yet dealt with */
  size_t ttft_n;    /* how many of the latest requests the next two are made from, <= 512 */
  double ttft_p50_s, ttft_p95_s; /* NAN when ttft_n is 0 */
  bool write_failed;
  uint64_t hand_waits; /* times somebody had to wait because the queue was full */
};
/* Any thread, any time. */
void writer_live(struct writer *w, struct live *out);

/* What the table takes so far; a summary of it takes up to twice that more. Any thread, any time.
 */
size_t writer_table_bytes(const struct writer *w);

/* Takes what is still queued, closes the files, joins. All recorders must be deleted. Returns the
 * first write error of the run, if any (ERR_IO; the text says what is missing), or ERR_LIMIT when
 * the table had no memory for all of them: the run must then end non-zero. Call once. */
NODISCARD int writer_stop(struct writer *w, struct err *err);

/* The table, sessions numbered; after writer_stop only. Dies with the writer. */
struct table *writer_table(struct writer *w);
void writer_delete(struct writer *w); /* stopped; NULL is allowed */

/* ---- for recorder.c ---- */

struct batch {
  struct batch *next;
  struct sample **samples;
  size_t n_samples, cap_samples;
  struct session_record *sessions;
  size_t n_sessions, cap_sessions;
  struct value_record *values;
  size_t n_values, cap_values;
  uint64_t sessions_started;
  size_t bytes; /* in the queue; the writer's */
  bool counted; /* in what is live; the writer's */
};
/* The writer owns the batch from here on. Waits while the queue is full. */
void writer_hand(struct writer *w, struct batch *b);
void writer_add_recorder(struct writer *w);
void writer_drop_recorder(struct writer *w, const struct probe *probe);

#endif
