/* sweepgrid.h: the points of a sweep: the axes of the script's perigee.sweep, with what --over says
 * instead of their values, and what each point means for the options of the run that it is.
 *
 * A point is one run. Points are counted from 1; the last axis varies fastest. An axis is a
 * parameter of the script or a figure of its load (then a --set), a setting of the built-in fleet
 * (--sim, --profile, --sim-set), or the routing policy, by its name. */
#ifndef CMD_SWEEPGRID_H
#define CMD_SWEEPGRID_H

#include "base/buf.h"
#include "bind/plan.h"
#include "cmd/simopts.h"

#define SWEEPGRID_MOST_POINTS 10000 /* unless the sweep's limit says more */

enum sweepgrid_kind {
  SWEEPGRID_PARAM,
  SWEEPGRID_LOAD,
  SWEEPGRID_ROUTE,
  SWEEPGRID_REPLICAS,
  SWEEPGRID_PROFILE,
  SWEEPGRID_FLEET /* a field of the replicas */
};

struct sweepgrid_axis {
  char *name;
  enum sweepgrid_kind kind;
  char **values;
  size_t n_values;
};

struct sweepgrid {
  struct sweepgrid_axis *axes;
  size_t n_axes; /* 0: the script returned a plan */
  uint64_t n_points;
  char **made; /* texts that applied points borrow */
  size_t n_made, cap_made;
};

/* What the command line says by itself, which an axis must not say again. */
struct sweepgrid_given {
  const struct simopts *sim;
  int64_t default_replicas;
  const struct state_set *sets;
  size_t n_sets;
};

/* The grid of a plan with axes; `over` are "NAME=V1,V2…" of the command line. ERR_INVALID names the
 * script's line or the option, and the nearest known word. Nothing of the plan is kept. On failure
 * *out is empty. */
NODISCARD int sweepgrid_build(const struct plan_info *plan, const struct options_list *over,
                              struct sweepgrid *out, struct err *err);
void sweepgrid_free(struct sweepgrid *g);

/* Whether every value is one that its option takes, alone and (settings of the fleet, figures of
 * the load) together, and nothing is said twice. */
NODISCARD int sweepgrid_check(const struct sweepgrid *g, const struct plan_info *plan,
                              const struct sweepgrid_given *given, struct err *err);

/* The value of axis `axis` at point 1..n_points. */
const char *sweepgrid_value(const struct sweepgrid *g, uint64_t point, size_t axis);
/* The first axis that only the built-in fleet has; NULL when there is none. */
const char *sweepgrid_fleet_axis(const struct sweepgrid *g);
/* Whether the script has to be read again for a point: a parameter or the policy varies. */
bool sweepgrid_rereads(const struct sweepgrid *g);

/* Makes the point's values those of the options: appends to the fleet's settings and to *sets (of
 * *n_sets, with room for n_axes more), sets *route. The texts live as long as the grid. */
void sweepgrid_apply(struct sweepgrid *g, uint64_t point, struct simopts *sim,
                     struct state_set *sets, size_t *n_sets, const char **route);

/* "replicas=2 kv_blocks=500 route=sticky" */
void sweepgrid_describe(const struct sweepgrid *g, uint64_t point, struct buf *out);
/* {"replicas": 2, "kv_blocks": 500, "route": "sticky"}: what reads as a number is one. */
struct value sweepgrid_point_value(const struct sweepgrid *g, uint64_t point);
/* [{"name":, "kind":, "values": […]}, …] */
struct value sweepgrid_axes_value(const struct sweepgrid *g);

#endif
