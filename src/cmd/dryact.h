/* dryact.h: what a dry run can do to its own fleet: actions without an admin port, on the loop that
 * all of it shares. */
#ifndef CMD_DRYACT_H
#define CMD_DRYACT_H

#include "run/fleetport.h"

struct simfleet;
struct dryact;

/* `fleet` is borrowed and outlives it. */
struct dryact *dryact_new(struct simfleet *fleet);
void dryact_delete(struct dryact *d); /* no call is under way; NULL is allowed */
/* Valid as long as `d` is. */
const struct fleetport *dryact_port(struct dryact *d);

#endif
