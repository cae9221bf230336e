/* clock.h: the only file that asks the system for the time.
 *
 * Everything else takes `loop_now` or a time as an argument, which is what lets a dry run advance
 * the time by itself. tests/lint enforces it. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>

#include "base/base.h"

/* CLOCK_MONOTONIC in ns. Called by io/loop.c and by commands that run no loop. */
uint64_t clock_ns(void);
/* The same, a few ms behind, for a quarter of the price: only to see that some time has passed. */
uint64_t clock_coarse_ns(void);
/* Wall time in ns since 1970, for names, headers and the report; never for a difference. */
uint64_t clock_wall_ns(void);
/* CPU time used by the calling thread, ns. */
uint64_t clock_thread_cpu_ns(void);
/* CPU time used by another thread that was not joined yet, ns; false when it has ended. */
NODISCARD bool clock_cpu_of_thread(pthread_t thread, uint64_t *ns);
/* CLOCK_REALTIME − CLOCK_MONOTONIC in ns, taken as the tightest of a few tries: converts the
 * kernel's receive timestamps, and shows a clock step when it changes. */
int64_t clock_realtime_offset_ns(void);
/* Sleeps; for commands and tests only, never on a loop. */
void clock_sleep_ns(uint64_t ns);

/* "2026-11-29T14:38:16Z" for a wall time; `out` holds at least 32 bytes. */
void clock_format_utc(uint64_t wall_ns, char *out, size_t size);

#endif
