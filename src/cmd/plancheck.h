/* plancheck.h: what a plan's timeline asks of the fleet, held against what there is to be done and
 * which servers there are, before anything starts. */
#ifndef CMD_PLANCHECK_H
#define CMD_PLANCHECK_H

#include "base/err.h"
#include "bind/plan.h"
#include "run/fleet.h"

/* The actions alone, and whether each can end before the load does. ERR_INVALID names the plan's
 * line, the entry and the field. */
NODISCARD int plancheck_actions(const struct plan_info *plan, struct err *err);
/* How many replicas it adds, in all. */
size_t plancheck_added(const struct plan_info *plan);
/* Whether the servers can be told to do it, and have the replicas it names: r0, r1 … where
 * `built_in` of them (0 = the fleet's own servers) are to be started. */
NODISCARD int plancheck_fleet(const struct plan_info *plan, const struct fleet *fleet,
                              size_t built_in, struct err *err);

#endif
