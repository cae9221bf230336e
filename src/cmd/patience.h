/* patience.h: calls into a script, before and after a run, that may never come back.
 *
 * During a run run/rescue.c watches the workers. Before it the script is read, and after it its
 * expectations are judged, on no worker: there a C function without an end (string.find on a hard
 * pattern) would hold up the command for ever, and with it the report. */
#ifndef CMD_PATIENCE_H
#define CMD_PATIENCE_H

#include "base/base.h"

/* Calls fn(user) on a thread of its own and waits for it. False: it was given up, because it used
 * `cpu_ns` of CPU time, or, when that is not 0, took `wall_ns`. It still runs then: whatever it
 * may touch must stay for ever, and the process must end with _exit. Without a
 * thread to be had it is called without a watch. */
NODISCARD bool patience_call(void (*fn)(void *user), void *user, uint64_t cpu_ns, uint64_t wall_ns);

#endif
