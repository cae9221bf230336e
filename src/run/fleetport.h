/* fleetport.h: the way to what can be done to a fleet while it runs (restart, kill, pressure, …).
 *
 * An action is an object {"action": name, …}, as the simulated fleet takes it; only such a fleet
 * has this port. Two implementations: HTTP to an admin port (fleetport_http_new), and of a dry run
 * its own fleet (cmd/dryact.c). One thread's: that of the loop. */
#ifndef RUN_FLEETPORT_H
#define RUN_FLEETPORT_H

#include "base/err.h"
#include "io/loop.h"
#include "run/fleet.h"
#include "text/value.h"

/* One action on its way; the caller's memory until it is over. */
struct fleetport_call {
  const struct value *action; /* borrowed until then */
  /* Called once when the action has ended: what it lasts is part of it. On the loop, never from
   * inside begin. */
  void (*done)(struct fleetport_call *call);
  void *user;
  /* Set then. 0, or the code of *err: ERR_INVALID and ERR_NOT_FOUND: it is wrong; ERR_LIMIT: the
   * replica is not in the state for it; ERR_IO: nobody answered. */
  int rc;
  struct err err;
  struct value answer; /* the caller's; null after an error */
  void *carrier;       /* the port's own */
};

struct fleetport {
  void (*begin)(void *self, struct fleetport_call *call);
  /* Over on return, `done` is not called; what has begun at the fleet goes on there. */
  void (*cancel)(void *self, struct fleetport_call *call);
  void *self;
};

struct fleetport_http;
/* To the admin port at `url` (http://127.0.0.1:PORT); `token` may be NULL. Actions, answers and
 * errors have the names that `fleet` (NULL: none) gives its replicas (actionids.h). ERR_INVALID
 * names the URL. The loop must not be a virtual one. */
NODISCARD int fleetport_http_new(struct loop *loop, const char *url, const char *token,
                                 const struct fleet *fleet, struct fleetport_http **out,
                                 struct err *err);
/* No call is under way; NULL is allowed. */
void fleetport_http_delete(struct fleetport_http *p);
/* Valid as long as `p` is. */
const struct fleetport *fleetport_http_port(struct fleetport_http *p);

#endif
