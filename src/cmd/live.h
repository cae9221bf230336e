/* live.h: what a run shows while it goes on.
 *
 * On a terminal (that is no dumb one) one line, never wider than it, on stderr, rewritten a few
 * times a second; elsewhere a plain line at each change of phase and every ten seconds. Lines of
 * scripts (print, vu:log) and log lines go above it. */
#ifndef CMD_LIVE_H
#define CMD_LIVE_H

#include <pthread.h>

#include "run/run.h"

struct live_line {
  pthread_mutex_t lock; /* script output comes from workers */
  bool terminal, quiet, drawn;
  const char *title; /* what each line begins with; NULL = nothing. Set before the run */
  enum run_phase phase;
  double last_s;    /* elapsed, at the last plain line */
  double rate_at_s; /* where the request rate is counted from */
  uint64_t rate_requests, rate_tokens;
  double rate, token_rate;
};

/* Whether fd is a terminal that knows escape sequences: TERM is set and not "dumb". */
bool live_can_draw(int fd);
/* Columns of the terminal, as they are now; 80 when it does not say. */
size_t live_columns(int fd);
/* Columns for a report on standard output: those of its terminal; elsewhere what COLUMNS says (40
 * or more), else 100. */
size_t live_report_columns(void);

void live_init(struct live_line *l, bool quiet);
/* run_config.progress: `user` is the struct live_line. */
void live_progress(void *user, const struct run_snapshot *s);
/* run_config.print. Any thread. */
void live_print(void *user, const char *line, size_t len);
/* Takes the line off the terminal, for good. */
void live_end(struct live_line *l);

#endif
