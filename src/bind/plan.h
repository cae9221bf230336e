/* plan.h: what a script's plan says, for commands: read in a throw-away state, before a run. */
#ifndef BIND_PLAN_H
#define BIND_PLAN_H

#include "base/buf.h"
#include "base/err.h"
#include "run/schedule.h"
#include "run/state.h"
#include "run/timeline.h"
#include "text/value.h"

/* What struct run_config.binding wants. */
const struct state_binding *bind_state_binding(void);

struct plan_expectation {
  char *text; /* NULL: a Lua function, judged by bind_plan_judge */
  char *name; /* of a function that the script named; else NULL */
};

struct plan_word {
  char *name, *text; /* a metric and its unit; a parameter and its default; one may be NULL */
  char *doc;         /* parameters: their description, or NULL */
  char *value;       /* parameters: as text, after --set; NULL = nil */
  const char *type;  /* parameters: the Lua type of their default */
};

/* What varies in a sweep, as the script wrote it. */
struct plan_axis {
  char *name;
  char *kind; /* "param", "load", "replicas", "profile", "route", or "fleet": not known here */
  char **values;
  size_t n_values;
};

struct plan_info {
  char *name;        /* the plan's, else the file's without ".lua" */
  char *description; /* or NULL */
  char *where;       /* "FILE:LINE" of the plan, for messages */
  struct schedule load;
  double drain_s; /* −1: not said */
  struct plan_expectation *expect;
  size_t n_expect;
  struct plan_word *metrics, *params, *slo; /* slo: text is the limit as written */
  size_t n_metrics, n_params, n_slo;
  char **targets; /* URLs */
  size_t n_targets;
  char **files; /* Lua files that were read, sorted; the script itself aside */
  size_t n_files;
  struct timeline_entry *timeline; /* in the order of their times; each repetition is one */
  size_t n_timeline;
  bool has_route, has_setup, has_teardown;
  struct plan_axis *axes; /* of perigee.sweep, in order; the rest is then of its plan */
  size_t n_axes;          /* 0: the script returned a plan */
  uint64_t point_limit;   /* how many points the sweep allows itself; 0 = not said */
};

struct plan_source {
  const char *script;           /* path */
  const struct state_set *sets; /* --set, in order; of one name the last one counts */
  size_t n_sets;
  const char *route;   /* the policy of a sweep's point, by its name; NULL = none is chosen */
  uint64_t runaway_ns; /* of the script itself and its expectations; 0 = 2 s */
  struct store *store; /* as in run_config: perigee.shared is made once for both */
  void (*print)(void *user, const char *line, size_t len); /* NULL = log */
  void *print_user;
};

/* Runs the script in a state of its own and reads its plan. A --set names a parameter of the script
 * (perigee.param or the plan's params), or else a figure of the load: users, rate, duration,
 * sessions, warmup. ERR_INVALID names file and line, or the --set, and the nearest known word. On
 * failure *out is empty. */
NODISCARD int bind_plan_load(const struct plan_source *source, struct plan_info *out,
                             struct err *err);
void plan_info_free(struct plan_info *p);

/* Gives a figure of the load (users, rate, duration, sessions, warmup) the value of `set`.
 * ERR_NOT_FOUND: it is none of them. ERR_INVALID: the value is not one of its kind, or the load has
 * no such figure; the text does not name the set. */
NODISCARD int bind_plan_set_load(struct schedule *load, const struct state_set *set,
                                 struct err *err);

/* Calls expectation `index` (from 0), a Lua function, with `results` as ordered tables: *met gets
 * its first value, `text` its second (when it is a string; cut at 4,000 bytes). ERR_INVALID: it
 * raised. */
NODISCARD int bind_plan_judge(const struct plan_source *source, size_t index,
                              const struct value *results, bool *met, struct buf *text,
                              struct err *err);

#endif
