/* sweeppoint.h: one point of a sweep as a process, and what it left. */
#ifndef CMD_SWEEPPOINT_H
#define CMD_SWEEPPOINT_H

#include <signal.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/value.h"

/* Blocks SIGCHLD and those of SIGINT, SIGTERM, SIGHUP that are not ignored, for sweeppoint_run;
 * *before gets the mask. */
void sweeppoint_signals(sigset_t *set, sigset_t *before);

/* Starts this binary with `args` (NULL at the end, the program's name first), standard output and
 * input at /dev/null, in a group of its own, and waits for its end; meanwhile each signal of `set`
 * is passed on to it and *interrupted becomes true. Should we be killed, it is ended. *status gets
 * its exit status, or 128 + the signal that ended it; `why` the last error it printed, "" when it
 * printed none. */
#define SWEEPPOINT_WHY 1200
NODISCARD int sweeppoint_run(char *const *args, const sigset_t *set, const sigset_t *before,
                             bool *interrupted, int *status, char why[SWEEPPOINT_WHY],
                             struct err *err);
/* Whether a signal of `set` has come meanwhile, SIGCHLD aside. */
bool sweeppoint_is_interrupted(const sigset_t *set);

/* Adds to *point what the point's run left in `parent`: "folder" (the name that begins with
 * `prefix`), "status", "reason", "valid", and the parts of its summary.json that a sweep is about.
 * `why`: what it printed, the reason where there is no summary. */
void sweeppoint_collect(const char *parent, const char *prefix, int status, const char *why,
                        struct value *point);

#endif
