/* coord.h: how the ranks of a run agree: who they are, when they start, who does what only once.
 *
 * A rank is one process that generates load. How ranks are launched is the site's business; that
 * they agree goes through the six calls below and nothing else, so a version that reaches other
 * machines replaces this one behind the same header. Here is the local one: all ranks are in this
 * process, on one loop; a run of its own is one rank. Callbacks come from the loop's ready list,
 * never from inside a call. One thread's. */
#ifndef RUN_COORD_H
#define RUN_COORD_H

#include "io/loop.h"
#include "run/store.h"

struct coord;

/* What a rank waits for: the caller's memory, in use until `done` was called or the coord is gone.
 */
struct coord_wait {
  void (*done)(struct coord_wait *wait); /* set by the caller; may start other calls */
  uint32_t rank, ranks;                  /* join: this one, of so many */
  bool mine;                             /* once: this rank does it */
  const struct shared *value;            /* watch: lives as long as the coord */
  const char *text;                      /* abort: why */
  /* its own */
  struct loop_task task;
  struct coord *coord;
  struct coord_wait *next;
};

struct coord *coord_local_new(struct loop *loop, uint32_t ranks);
/* Frees what was published; no callback follows. NULL is allowed. */
void coord_delete(struct coord *c);

/* Enters the run: done once all ranks have. `aborted` is done when any rank aborts, at most once.
 */
void coord_join(struct coord *c, struct coord_wait *wait, struct coord_wait *aborted);
/* Done when every rank has come to this name, each once. */
void coord_barrier(struct coord *c, const char *name, struct coord_wait *wait);
/* Done soon: `mine` for exactly one of the ranks that ask for this name. */
void coord_once(struct coord *c, const char *name, struct coord_wait *wait);
/* Makes a value known under a name, once in a run. Takes the tree over (sealed here). */
void coord_publish(struct coord *c, const char *name, struct shared *value);
/* Done when a value is known under this name: now, or whenever it is published. */
void coord_watch(struct coord *c, const char *name, struct coord_wait *wait);
/* Ends the run for all ranks; the first reason counts. Nothing that is waited for is done any more,
 * but for `aborted`. */
void coord_abort(struct coord *c, const char *text);

#endif
