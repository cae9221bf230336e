/* adminask.h: which replica of a fleet file is which of the simulated fleet behind its admin port.
 */
#ifndef CMD_ADMINASK_H
#define CMD_ADMINASK_H

#include "run/fleet.h"

/* Asks GET /admin/state of fleet->admin, at most 10 s, and fills in admin_id of each replica by its
 * URL. ERR_INVALID: a replica that the port does not have, two that are the same one, or the port
 * refuses (its token); ERR_IO: nobody answers, or something else does. */
NODISCARD int adminask_names(struct fleet *fleet, struct err *err);
/* The same with the answer at hand. */
NODISCARD int adminask_take(struct fleet *fleet, const struct value *state, struct err *err);

#endif
