/* plantimeline.h: the timeline of a plan: what is to be done to the fleet, and when. */
#ifndef BIND_PLANTIMELINE_H
#define BIND_PLANTIMELINE_H

#include "base/err.h"
#include "bind/plan.h"

/* Reads it into p->timeline, once the load is known as it will be (--set). perigee.plan has checked
 * the form. ERR_INVALID names the entry and the field: a time behind the load's end, repetitions
 * that never end. What an action is and what fields it takes is not known here: the command asks
 * the fleet's grammar (sim/actionrules.h). */
NODISCARD int bind_plan_timeline(struct state *s, struct plan_info *p, struct err *err);
void bind_plan_timeline_free(struct plan_info *p);

#endif
