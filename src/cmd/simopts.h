/* simopts.h: the options of commands that start the built-in fleet when no server is given: one
 * table, one check, one wish handed to simchild.h. */
#ifndef CMD_SIMOPTS_H
#define CMD_SIMOPTS_H

#include "cmd/options.h"

struct simopts {
  int64_t replicas; /* 0 = not said */
  int64_t spares;   /* of --spares, SIMOPTS_SPARES_SPEC; a plan's timeline may ask for more */
  const char *profile, *truth;
  struct options_list sets, faults; /* of its --set and --fault */
};

/* The rows for a command's table; `type` has a field `field` of struct simopts. The text of --sim
 * is the command's: each has a default of its own. */
#define SIMOPTS_SPECS(type, field, sim_text)                                                       \
  {"--sim", "N", OPTIONS_COUNT, offsetof(type, field.replicas), sim_text},                         \
      {"--profile", "NAME|FILE", OPTIONS_TEXT, offsetof(type, field.profile),                      \
       "what a built-in replica is: tiny (default), llama-3.1-8b, qwen3-32b, gpt-oss-20b, "        \
       "adr-04, fixed, instant (for the speed of the client, not for figures: its events come "    \
       "together, and a run is not valid), or a profile file, as in `perigee sim --help`"},        \
      {"--sim-set", "KEY=VALUE", OPTIONS_LIST, offsetof(type, field.sets),                         \
       "a setting of the built-in replicas, as in `perigee sim --set`"},                           \
  {                                                                                                \
    "--fault", "[ID:]SPEC", OPTIONS_LIST, offsetof(type, field.faults),                            \
        "a fault of the built-in replicas, as in `perigee sim --fault`"                            \
  }

/* Of commands that put load on it. */
#define SIMOPTS_SPARES_SPEC(type, field)                                                           \
  {                                                                                                \
    "--spares", "N", OPTIONS_COUNT, offsetof(type, field.spares),                                  \
        "replicas of the built-in fleet that are down, and get nothing, until they are added "     \
        "(perigee sim, action add; default 0)"                                                     \
  }

/* Whether anything is said of the built-in fleet, --sim aside. */
bool simopts_described(const struct simopts *o);

/* Profile, settings and faults under the names that they have here: the child would say it under
 * its own. `replicas` is the command's default. */
NODISCARD int simopts_check(const struct simopts *o, int64_t replicas, struct err *err);

#endif
