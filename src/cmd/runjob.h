/* runjob.h: one `perigee run` from its options to its exit status: what the parts of the command
 * share.
 *
 * run.c goes through it in order; runinfo.c says what runs (run.json, the banner, --plan); runend.c
 * makes the summary, the files and the status. */
#ifndef CMD_RUNJOB_H
#define CMD_RUNJOB_H

#include "bind/plan.h"
#include "cmd/dryfleet.h"
#include "cmd/live.h"
#include "cmd/runopts.h"
#include "cmd/simchild.h"
#include "cmd/sweep.h"
#include "out/checks.h"
#include "out/expect.h"
#include "out/metrics.h"
#include "out/rundir.h"
#include "out/verify.h"
#include "out/writer.h"
#include "run/run.h"

#define RUNJOB_GRACE_NS (5 * NS_PER_S) /* beyond --runaway: the script outside of the run */

/* Of a dry run: when something was last seen to move. */
struct runjob_pace {
  uint64_t since_ns, requests;
  double elapsed_s;
  bool told;
};

struct runjob {
  const struct options_command *command; /* run_command or dry_command */
  bool is_dry;
  struct run_options options;
  struct options_list args; /* args.items[0]: the script */
  int argc;
  char **argv;
  const char *script;
  char found[8192]; /* its path, when it was looked up by name */
  /* what the script says */
  struct state_set *sets;
  size_t n_sets;
  struct store *store;
  struct plan_source source;
  struct plan_info plan;
  bool has_plan;
  struct sweep sweep; /* what the script returned, and which point this run is */
  struct metrics metrics;
  struct expect *expects; /* of the expectations that are text, in order */
  size_t n_expects;
  struct checks_limits limits;
  /* where it goes */
  struct fleet fleet;
  struct simchild sim;
  bool sim_asked;             /* --sim: instead of the plan's target */
  struct dryfleet dry;        /* of a dry run, instead */
  bool has_sim, own_fleet;    /* the child runs; the fleet is (or was) it */
  struct value parity;        /* paritycheck.h: what was compared before the load; null: nothing */
  const char *parity_missing; /* and why not; NULL */
  /* --verify on the built-in fleet */
  bool verifies, has_verify; /* has_verify: `verify` is filled in */
  char *truth_path;          /* of its log in the run's folder; NULL when --truth says where */
  struct verify verify;
  struct checks_truth truth_checks;
  /* the run */
  struct rundir dir;
  int log_fd;
  struct writer *writer;
  struct live_line live;
  struct run_result result;
  struct drynet_totals dry_totals;
  uint64_t dry_wall_ns; /* what the load took */
  bool has_lost;        /* a call that did not come back still runs: nothing of its may be freed */
  bool ran;             /* run_start returned 0 */
  bool ended;           /* it has returned */
  int64_t clock_offset_ns, clock_step_ns;
  struct runjob_pace pace;
  uint64_t started_wall_ns;
  char run_error[1024]; /* what makes the run fail although it took place; "" = nothing */
};

/* ---- run.c ---- */
/* The whole command: `perigee run`, or `perigee dry`. Returns the exit status. */
int runjob_main(int argc, char **argv, bool dry);

/* ---- dry.c ---- */
extern const struct options_command dry_command;
/* As run_options_parse; free with options_free(&dry_command, …). */
NODISCARD int dry_options_parse(int argc, char **argv, struct run_options *o,
                                struct options_list *args, struct err *err);
/* While it goes on: says so when the virtual time stands still. */
void dry_watch(struct runjob *job, const struct run_snapshot *s);
/* Fields virtual_time and dry of the summary. */
void dry_set_summary(const struct runjob *job, struct value *summary);
/* What stands behind the report. */
void dry_print(const struct value *summary);

/* ---- runinfo.c ---- */
/* run.json; the caller frees. */
struct value runinfo_value(const struct runjob *job);
/* Prints what would run. Errors: a sweep's point that the script refuses. */
NODISCARD int runinfo_print_plan(struct runjob *job, struct err *err);

/* ---- runparity.c ---- */
/* Compares the tokens of a few requests with each server, per arm and renderer, into job->parity.
 * Errors: a template that cannot be used. */
NODISCARD int runparity_check(struct runjob *job, struct err *err);

/* ---- runverify.c ---- */
/* Before the fleet starts, once there is a folder: says where it logs. */
void runverify_prepare(struct runjob *job);
/* After the run, the writer and the fleet have ended: joins, and writes the rows with their ledger.
 * What goes wrong is in job->run_error. */
void runverify_join(struct runjob *job);
/* Adds `verify`, `ledger` and `causes`. */
void runverify_add(const struct runjob *job, struct value *summary);
/* Frees, and takes away what a run that never began would leave. */
void runverify_forget(struct runjob *job);

/* ---- runtimeline.c ---- */
/* Adds `timeline` and `timeline_left_out`. */
void runtimeline_add(const struct runjob *job, struct value *summary);
/* How the plan's actions ended, for the check of that name. */
void runtimeline_check(const struct runjob *job, struct checks_input *in);

/* ---- runend.c ---- */
/* Summary, expectations, outcome, files, what is printed. Returns the exit status. */
int runend_finish(struct runjob *job);

#endif
