/* sweep.h: a command that runs a sweep: what it takes, and the driving of all points.
 *
 * Each point is a process of its own, this same binary with the same options and `--point N`: a
 * point that fails, crashes or loses a thread costs that point, and what finished is there. The
 * folder of the sweep holds a folder per point, as the command leaves it, with sweep.json and
 * report.md over them, which are written again as points end. */
#ifndef CMD_SWEEP_H
#define CMD_SWEEP_H

#include "cmd/sweepgrid.h"
#include "out/rundir.h"

struct sweep_options {
  struct options_list over;
  int64_t point; /* 0 = all */
};

/* The rows for a command's table; `type` has a field `field` of struct sweep_options. */
#define SWEEP_OPTIONS_SPECS(type, field)                                                           \
  {"--over", "AXIS=V,V…", OPTIONS_LIST, offsetof(type, field.over),                                \
   "of a sweep: other values for one of its axes; a single one pins it"},                          \
  {                                                                                                \
    "--point", "N", OPTIONS_COUNT, offsetof(type, field.point),                                    \
        "of a sweep: only point N, as a run of its own (--plan numbers them from 1)"               \
  }

struct sweep {
  struct sweepgrid grid; /* no axes: the script returned a plan */
  uint64_t point;        /* what runs, from 1; 0 = all of them */
  const char *route;     /* of the point, by its name; NULL = the plan's */
  char *title;           /* of the point: "point 3 of 18", or NULL */
};

/* Once the plan is read: builds and checks the grid. With --point its values are in *sim, and in
 * *sets, which then have to be read again with the script (sweep->point is not 0). ERR_INVALID
 * names the option or the script's line; also for --over and --point where the script is no sweep.
 */
NODISCARD int sweep_read(struct sweep *sweep, const struct sweep_options *options,
                         const struct plan_info *plan, struct simopts *sim,
                         int64_t default_replicas, struct state_set **sets, size_t *n_sets,
                         struct err *err);
void sweep_free(struct sweep *sweep);
/* Whether servers that are not the built-in fleet can be swept over so; `whose` names them in the
 * error, as in "--replica". */
NODISCARD int sweep_check_servers(const struct sweep *sweep, const char *whose, struct err *err);
/* What run.json says of the point: {point, of, values}; null for what is no point of a sweep. */
struct value sweep_point_value(const struct sweep *sweep);

struct sweep_job {
  const char *command; /* "run" */
  int argc;            /* behind its name */
  char **argv;
  const char *script, *label, *out;
  bool json, quiet;
  const struct sweep *sweep;
  const struct plan_info *plan;
  const struct value *info; /* what run.json would say of it */
};

/* Runs every point, one after another, and prints the report. Returns the exit status: the first of
 * 2, 130, 1, 98, 99 that a point had, else 0. */
int sweep_drive(const struct sweep_job *job);

/* ---- --plan ---- */

/* Prints the axes, the points, and how long they last at most; `source` reads the script again for
 * each point's load. Errors: a point's values that the script refuses. */
NODISCARD int sweep_print_plan(struct sweep *sweep, const struct plan_source *source,
                               struct err *err);

#endif
