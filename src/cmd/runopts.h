/* runopts.h: what `perigee run` can be told. */
#ifndef CMD_RUNOPTS_H
#define CMD_RUNOPTS_H

#include "cmd/fleetopts.h"
#include "cmd/simopts.h"
#include "cmd/sweep.h"
#include "out/checks.h"

#define RUN_HINTS 8
#define RUN_SIM_REPLICAS 3 /* of the built-in fleet, unless --sim says otherwise */

struct run_options {
  struct fleet_options fleet;
  struct simopts sim;
  struct sweep_options sweep;
  /* the run */
  struct options_list sets, limits;
  const char *label, *out, *exit_codes;
  int64_t seed, workers, max_users;
  double runaway_s;
  bool precise, verify, itl, json, plan, quiet, verbose, no_preflight, no_kernel_stamps;
};

extern const struct options_command run_command;
/* What `run` and `dry` say of options that others have. */
extern const struct options_hint run_hints[RUN_HINTS];

/* Parses argv into *o and *file (the script). As options_parse; free with
 * options_free(&run_command, …). */
NODISCARD int run_options_parse(int argc, char **argv, struct run_options *o,
                                struct options_list *args, struct err *err);
/* Whether --exit-codes is there, also where argv is wrong usage elsewhere: that status is mapped
 * too. */
bool run_options_bisect(int argc, char **argv);
/* The check limits with what --limit changed. */
NODISCARD int run_options_limits(const struct run_options *o, struct checks_limits *limits,
                                 struct err *err);

#endif
