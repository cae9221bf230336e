/* sessions.h: starts a worker's sessions when they are due, and keeps count of them. One thread's.
 */
#ifndef RUN_SESSIONS_H
#define RUN_SESSIONS_H

#include "out/sample.h"

struct worker;

void sessions_init(struct worker *w);
/* The load begins: run->load_start_ns is its zero. WORKER_EXHAUSTED and WORKER_DRAINED follow. */
void sessions_start(struct worker *w);
/* Starts no more and cancels those that run, which end soon after. */
void sessions_cancel(struct worker *w, enum sample_error error, const char *why);

#endif
