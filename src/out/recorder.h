/* recorder.h: a worker's end of the queue to the writer thread.
 *
 * Everything a run keeps goes through here: no file is written on a loop. Handing over is a push on
 * a per-worker batch; a full batch (or recorder_flush) goes to the writer under its lock, and waits
 * there while the writer is far behind (writer.h). */
#ifndef OUT_RECORDER_H
#define OUT_RECORDER_H

#include "base/clock.h"
#include "base/err.h"
#include "out/sample.h"

struct recorder;
struct writer; /* out/writer.h: one thread per process, owns the files and the table of results */

/* One thread's: made before or on that thread, used by it alone, but for recorder_abandon and the
 * three calls named there. */
struct recorder *recorder_new(struct writer *writer, uint32_t worker);
/* Flushes, and hands the lateness histograms over. NULL is allowed. Before writer_stop. */
void recorder_delete(struct recorder *r);

/* For a thread that was given up (run/rescue.c) somewhere inside a script, by the one who gave it
 * up: hands over its rows and its lateness; what the thread still records is dropped. Rows,
 * sessions and values may come from the two threads at the same time, the lateness may not. The
 * recorder is never freed. Once, instead of recorder_delete. */
void recorder_abandon(struct recorder *r);

/* A session began; counted for the live line only. */
void recorder_session_started(struct recorder *r);
/* Owns `s` from here on. */
void recorder_sample(struct recorder *r, struct sample *s);
void recorder_session(struct recorder *r, const struct session_record *s);
/* Owns v->tags from here on. */
void recorder_value(struct recorder *r, const struct value_record *v);

/* The client's own lateness, into histograms (loop probe): ns. They feed the validity checks, so
 * they are kept only while this is on: from the window's opening until the last session ended or
 * was cancelled. Off at first. A wake-up is told by the timers that fired in it, if any, and then
 * by how long it kept the loop busy. When it came, or kept the loop, for more than
 * RECORDER_STALL_NS too long, that time is a standstill: a worker's flush timer wakes it every 100
 * ms, so hardly one goes unseen, while percentiles show none that is alone. */
#define RECORDER_STALL_NS (20 * NS_PER_MS)
void recorder_set_probing(struct recorder *r, bool on);
void recorder_timer_late(struct recorder *r, uint64_t late_ns);
void recorder_wakeup_busy(struct recorder *r, uint64_t busy_ns);
/* callback − kernel stamp of one read, ns; or that there was no usable kernel stamp. */
void recorder_read_error(struct recorder *r, uint64_t error_ns);
void recorder_no_kernel_stamp(struct recorder *r);
/* session start − its schedule, ns (open load) */
void recorder_start_lag(struct recorder *r, uint64_t lag_ns);
/* CPU share of the worker over the window, 0..1; set once at the end. */
void recorder_cpu(struct recorder *r, double share);

/* Called now and then by the worker (a timer, 100 ms), and at the end. */
void recorder_flush(struct recorder *r);

#endif
