/* run.c: `perigee run`: reads the script, makes sure there is a fleet, runs, and hands over to
 * runend.c. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/adminask.h"
#include "cmd/cmd.h"
#include "cmd/patience.h"
#include "cmd/plancheck.h"
#include "cmd/probe.h"
#include "cmd/runjob.h"
#include "cmd/shipped.h"
#include "net/http.h"
#include "out/verdict.h"

static const int late_signals[] = {SIGINT, SIGTERM, SIGHUP};

#define FLEET_ENDED "the built-in fleet failed or ended before the run did (it %s)"
#define LAST_SECONDS 120 /* for the report of a run that lost a worker */

static int usage(const struct runjob *job, const struct err *err) {
  return cmd_fail(job->command->name, EXIT_USAGE, err);
}

/* print and vu:log of a script: on the terminal, and kept in log.txt. Any thread. */
static void on_print(void *user, const char *line, size_t len) {
  struct runjob *job = user;
  live_print(&job->live, line, len);
  log_keep(line, len);
}

static int split_sets(struct runjob *job, struct err *err) {
  const struct options_list *list = &job->options.sets;
  job->sets = mem_calloc(list->n + 1, sizeof *job->sets);
  for (size_t i = 0; i < list->n; i++) {
    const char *eq = strchr(list->items[i], '=');
    if (!eq || eq == list->items[i])
      return err_set(err, ERR_INVALID, "--set: \"%s\" is not NAME=VALUE", list->items[i]);
    job->sets[job->n_sets++] = (struct state_set){
        .name = mem_strndup(list->items[i], (size_t)(eq - list->items[i])), .value = eq + 1};
  }
  return 0;
}

/* The plan's metrics and objectives into the list, then the expectations against it. */
static int read_expectations(struct runjob *job, struct err *err) {
  const struct plan_info *p = &job->plan;
  int rc = 0;
  for (size_t i = 0; i < p->n_metrics && !rc; i++)
    rc = metrics_declare(&job->metrics, p->metrics[i].name, p->metrics[i].text, err);
  for (size_t i = 0; i < p->n_slo && !rc; i++)
    rc = metrics_add_slo(&job->metrics, p->slo[i].name, p->slo[i].text, err);
  job->expects = mem_calloc(p->n_expect + 1, sizeof *job->expects);
  for (size_t i = 0; i < p->n_expect && !rc; i++) {
    if (!p->expect[i].text)
      continue;
    rc =
        expect_parse(p->expect[i].text, &job->metrics, NULL, 0, &job->expects[job->n_expects], err);
    if (!rc)
      job->n_expects++;
  }
  if (rc)
    err_prefix(err, "%s", p->where);
  return rc;
}

struct loading {
  struct runjob *job;
  struct err *err;
  int rc;
};

static void do_load_plan(void *user) {
  struct loading *l = user;
  l->rc = bind_plan_load(&l->job->source, &l->job->plan, l->err);
}

/* A script may wait before the run, so that only counts what it computes. */
static int load_plan(struct runjob *job, struct err *err) {
  struct loading l = {.job = job, .err = err};
  uint64_t limit_ns = (uint64_t)(job->options.runaway_s * 1e9) + RUNJOB_GRACE_NS;
  if (patience_call(do_load_plan, &l, limit_ns, 0))
    return l.rc;
  fprintf(stderr,
          "perigee %s: %s has not been read after %.1f s of CPU time: it is in a function that "
          "cannot be stopped from outside (a library's, string.find on a hard pattern, table.move "
          "without an end, a tokenizer on a very long text)\n",
          job->command->name, job->script, (double)limit_ns / 1e9);
  _exit(job->options.exit_codes ? verdict_bisect(EXIT_USAGE) : EXIT_USAGE);
}

/* Of a sweep, its grid; at one of its points, the plan as it is there. */
static int take_sweep(struct runjob *job, struct err *err) {
  int rc = sweep_read(&job->sweep, &job->options.sweep, &job->plan, &job->options.sim,
                      RUN_SIM_REPLICAS, &job->sets, &job->n_sets, err);
  job->source.sets = job->sets;
  job->source.n_sets = job->n_sets;
  job->source.route = job->sweep.route;
  job->live.title = job->sweep.title;
  if (rc || !job->sweep.point)
    return rc;
  plan_info_free(&job->plan);
  job->has_plan = false;
  rc = load_plan(job, err);
  job->has_plan = rc == 0;
  return rc;
}

static uint64_t runaway_ns(const struct runjob *job) {
  return (uint64_t)(job->options.runaway_s * (double)NS_PER_S);
}

static int read_script(struct runjob *job, struct err *err) {
  int rc = shipped_find(&job->script, job->found, sizeof job->found, err);
  if (!rc)
    rc = split_sets(job, err);
  if (rc)
    return rc;
  job->source = (struct plan_source){.script = job->script,
                                     .sets = job->sets,
                                     .n_sets = job->n_sets,
                                     .runaway_ns = runaway_ns(job),
                                     .store = job->store,
                                     .print = on_print,
                                     .print_user = job};
  job->sim_asked = job->options.sim.replicas != 0;
  rc = load_plan(job, err);
  if (rc)
    return rc;
  job->has_plan = true;
  rc = take_sweep(job, err);
  if (rc)
    return rc;
  job->plan.load.seed = (uint64_t)job->options.seed;
  rc = plancheck_actions(&job->plan, err);
  return rc ? rc : read_expectations(job, err);
}

/* Options first, then the plan's own target; neither: the built-in fleet, later. */
static int find_fleet(struct runjob *job, struct err *err) {
  int rc = fleet_options_build(&job->options.fleet, &job->fleet, err);
  if (rc)
    return rc;
  const struct run_options *o = &job->options;
  job->fleet.verify = o->verify;
  bool own = job->fleet.n_replicas || job->fleet.gateway;
  bool given = own || o->sim.replicas || job->is_dry;
  if (own || (job->plan.n_targets && !job->sim_asked && !job->is_dry))
    rc = sweep_check_servers(&job->sweep,
                             !own                  ? "the plan's target"
                             : o->fleet.fleet_file ? "--fleet"
                             : job->fleet.gateway  ? "--gateway"
                                                   : "--replica",
                             err);
  if (rc)
    return rc;
  if (own && (o->sim.replicas || simopts_described(&o->sim)))
    return err_set(err, ERR_INVALID,
                   "--sim, --spares, --profile, --sim-set, --fault and --truth are for the "
                   "built-in fleet, and "
                   "--fleet %s names servers of your own",
                   o->fleet.fleet_file);
  if (!given && job->plan.n_targets && simopts_described(&o->sim))
    return err_set(
        err, ERR_INVALID,
        "--spares, --profile, --sim-set, --fault and --truth are for the built-in fleet, and the "
        "plan (%s) has its own target; --sim %d takes the built-in fleet instead",
        job->plan.where, RUN_SIM_REPLICAS);
  for (size_t i = 0; i < job->plan.n_targets && !rc && !given; i++) {
    rc = fleet_add_replica(&job->fleet, job->plan.targets[i], err);
    if (rc)
      err_prefix(err, "%s: target", job->plan.where);
  }
  if (!rc && o->fleet.fleet_file && !job->fleet.n_replicas && !job->fleet.gateway &&
      !o->sim.replicas)
    return err_set(
        err, ERR_INVALID,
        "--fleet %s names no server: it returns {replicas = {{url = \"http://...\"}}}, or "
        "{gateway = ...}; --sim %d beside it gives the built-in fleet its settings",
        o->fleet.fleet_file, RUN_SIM_REPLICAS);
  if (!rc && o->max_users && !job->plan.load.open)
    return err_set(err, ERR_INVALID,
                   "--max-users bounds the sessions of an open load, and that of %s is closed: it "
                   "has as many as users; leave it out",
                   job->plan.where);
  if (rc)
    return rc;
  own = job->fleet.n_replicas || job->fleet.gateway;
  size_t n_sim = (size_t)(o->sim.replicas ? o->sim.replicas : RUN_SIM_REPLICAS);
  int64_t added = (int64_t)plancheck_added(&job->plan); /* known to the client from the start */
  if (!own && job->options.sim.spares < added)
    job->options.sim.spares = added;
  rc = plancheck_fleet(&job->plan, &job->fleet, own ? 0 : n_sim, err);
  return rc ? rc : fleet_options_check(&job->fleet, err);
}

/* Once the servers have said what they know of themselves. */
static int check_verify(struct runjob *job, struct err *err) {
  struct fleet *f = &job->fleet;
  bool bytes = f->tokenizer && strcmp(f->tokenizer, "bytes") == 0;
  if (job->verifies && !f->template) /* its own log has the counts, too */
    f->verify = false;
  if (!f->verify ||
      (f->tokenizer && f->template && (f->now || strcmp(f->template, "harmony") != 0)))
    return 0;
  if (f->tokenizer && f->template)
    return err_set(err, ERR_INVALID,
                   "--verify with Harmony needs the date of the servers' system message: --now "
                   "2026-08-22 (vLLM: VLLM_SYSTEM_START_DATE, else its day)");
  return err_set(
      err, ERR_INVALID, "--verify counts prompts with --tokenizer and --template; give both%s",
      f->simulated && bytes ? " (the fleet's own template, sim, is not one of them)" : "");
}

static int start_sim(struct runjob *job, struct err *err) {
  const struct run_options *o = &job->options;
  if (job->is_dry) {
    job->own_fleet = true;
    return dryfleet_start(&job->dry, &o->sim, RUN_SIM_REPLICAS, o->seed, &job->fleet, err);
  }
  int rc = simchild_start_fleet(&job->sim, &o->sim, RUN_SIM_REPLICAS, o->seed, &job->fleet, err);
  job->has_sim = job->own_fleet = job->sim.pid != 0;
  return rc;
}

/* A summary with its report is some 100 kB, and more with many tags and metrics. */
#define REPORT_ROOM (1u << 20)

/* The room for what is written at the end, the scripts too. */
static uint64_t room_needed(const struct runjob *job) {
  const struct blob *bytes = store_source(job->store, job->script);
  uint64_t room = REPORT_ROOM + (bytes ? bytes->len : 0);
  for (size_t i = 0; i < job->plan.n_files; i++) {
    bytes = store_source(job->store, job->plan.files[i]);
    room += bytes ? bytes->len : 0;
  }
  return room;
}

static int make_folder(struct runjob *job, struct err *err) {
  char label[128];
  const char *slash = strrchr(job->script, '/');
  snprintf(label, sizeof label, "%s",
           job->options.label ? job->options.label
           : slash            ? slash + 1
                              : job->script);
  size_t len = strlen(label);
  if (!job->options.label && len > 4 && strcmp(label + len - 4, ".lua") == 0)
    label[len - 4] = '\0';
  job->started_wall_ns = clock_wall_ns();
  return rundir_create(job->options.out, label, job->started_wall_ns, &job->dir, err);
}

static int open_results(struct runjob *job, struct err *err) {
  int rc = job->dir.path ? 0 : make_folder(job, err);
  if (!rc)
    rc = rundir_reserve(&job->dir, room_needed(job), err);
  if (rc)
    return rc;
  rc = rundir_open_log(&job->dir, &job->log_fd, err);
  if (rc)
    return rc;
  log_set_sink(job->log_fd);
  struct writer_options w = {
      .dir = job->dir.path, .run_id = job->dir.id, .with_itl = job->options.itl || job->verifies};
  return writer_start(&w, &job->writer, err);
}

/* Were this process killed, its rows would say nothing without it. What cannot be written now is
 * written, or complained of, at the end. */
static void on_begins(void *user) {
  struct runjob *job = user;
  struct value info = runinfo_value(job);
  struct err err = {0};
  if (rundir_write_value(&job->dir, "run.json", &info, &err))
    log_warn("%s", err.text);
  value_free(&info);
}

/* Besides drawing, keeps an eye on the wall clock: a step makes the run invalid. */
static void on_progress(void *user, const struct run_snapshot *s) {
  struct runjob *job = user;
  int64_t step = job->is_dry ? 0 : clock_realtime_offset_ns() - job->clock_offset_ns;
  if (step < 0)
    step = -step;
  if (step > job->clock_step_ns)
    job->clock_step_ns = step;
  if (job->is_dry)
    dry_watch(job, s);
  live_progress(&job->live, s);
}

/* Without its fleet a run would only count failures until its end. */
static bool on_broken(void *user, struct err *err) {
  const struct runjob *job = user;
  char how[80];
  if (!job->has_sim || !simchild_has_ended(&job->sim, how, sizeof how))
    return false;
  err_set(err, ERR_CLOSED, FLEET_ENDED, how);
  return true;
}

/* A thread that was given up goes on inside some C function, and may hold what the rest of this
 * command needs: a stream, a lock of the C library. Should the end be held up by that, this ends
 * it. */
static void on_alarm(int number) {
  (void)number;
  _exit(EXIT_FAILED);
}

static void on_alarm_bisect(int number) {
  (void)number;
  _exit(verdict_bisect(EXIT_FAILED));
}

static void hurry(const struct runjob *job) {
  signal(SIGALRM, job->options.exit_codes ? on_alarm_bisect : on_alarm);
  alarm(LAST_SECONDS);
}

/* Ends the process under a thread that still runs: nothing is freed, no exit handler is called. */
static NORETURN void leave(struct runjob *job, int status) {
  char how[80];
  if (job->has_sim)
    simchild_stop(&job->sim, how, sizeof how);
  if (ftrylockfile(stdout) == 0) {
    status = cmd_flush(status);
    funlockfile(stdout);
  }
  _exit(run_options_bisect(job->argc, job->argv) ? verdict_bisect(status) : status);
}

static void on_last_signal(int number) {
  (void)number;
  _exit(EXIT_INTERRUPTED);
}

/* None of these may allocate: they interrupt whatever runs. */
static void on_early_signal(int number) {
  (void)number;
}

static void on_second_later(int number) {
  (void)number;
  for (size_t i = 0; i < ARRAY_LEN(late_signals); i++)
    signal(late_signals[i], on_last_signal);
}

/* One that follows at once is the same wish: a key held down, a terminal that sends two kinds. */
static void on_late_signal(int number) {
  static const char text[] =
      "perigee run: the report is being written; once more ends it as it is (from 1 s on)\n";
  (void)number;
  for (size_t i = 0; i < ARRAY_LEN(late_signals); i++)
    signal(late_signals[i], on_early_signal);
  unsigned left = alarm(1);
  if (left) /* hurry()'s, which ends it anyway */
    alarm(left);
  else
    signal(SIGALRM, on_second_later);
  ssize_t done = write(STDERR_FILENO, text, sizeof text - 1);
  (void)done; /* the terminal may be what went away: the report is written all the same */
}

/* The run is over, its report is not: a signal must not cost it, and may not be needed any more. */
static void keep_signals_off(void) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < ARRAY_LEN(late_signals); i++) {
    struct sigaction now_is;
    sigaddset(&set, late_signals[i]);
    if (sigaction(late_signals[i], NULL, &now_is) == 0 && now_is.sa_handler != SIG_IGN)
      signal(late_signals[i], on_late_signal);
  }
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int execute(struct runjob *job, struct err *err) {
  const struct run_options *o = &job->options;
  struct run_config config = {.script = job->script,
                              .binding = bind_state_binding(),
                              .sets = job->sets,
                              .n_sets = job->n_sets,
                              .route = job->sweep.route,
                              .load = &job->plan.load,
                              .drain_s = job->plan.drain_s,
                              .timeline = job->plan.timeline,
                              .n_timeline = job->plan.n_timeline,
                              .seed = (uint64_t)o->seed,
                              .workers = (uint32_t)o->workers,
                              .fleet = &job->fleet,
                              .store = job->store,
                              .writer = job->writer,
                              .precise = o->precise,
                              .no_kernel_stamps = o->no_kernel_stamps,
                              .catch_signals = true,
                              .runaway_ns = runaway_ns(job),
                              .max_users = (uint64_t)o->max_users,
                              .status_no_memory = o->exit_codes ? verdict_bisect(EXIT_FAILED) : 0,
                              .print = on_print,
                              .print_user = job,
                              .begins = on_begins,
                              .progress = on_progress,
                              .progress_user = job,
                              .broken = on_broken};
  if (job->is_dry) {
    config.loop = job->dry.loop;
    config.transport = drynet_transport(job->dry.net);
    config.fleetport = dryact_port(job->dry.act);
    config.no_kernel_stamps = true;
  }
  job->clock_offset_ns = clock_realtime_offset_ns();
  uint64_t began_ns = clock_ns();
  log_set_printer(live_print, &job->live);
  int rc = run_start(&config, &job->result, err);
  job->dry_wall_ns = clock_ns() - began_ns;
  keep_signals_off();
  log_set_printer(NULL, NULL);
  live_end(&job->live);
  job->ran = rc == 0;
  job->ended = true;
  if (job->result.n_lost)
    hurry(job);
  bool stopped = job->result.stopped[0] && !job->result.script_is_wrong; /* that one is not ours */
  if (stopped || job->result.n_lost)
    snprintf(job->run_error, sizeof job->run_error, "%s",
             stopped ? job->result.stopped : job->result.lost_text);
  struct err write_err = {0};
  if (writer_stop(job->writer, &write_err)) {
    if (job->run_error[0])
      log_error("%s", write_err.text);
    else
      snprintf(job->run_error, sizeof job->run_error, "%s", write_err.text);
  }
  if (job->is_dry) {
    drynet_get_totals(job->dry.net, &job->dry_totals);
    if (dryfleet_stop(&job->dry) && !job->run_error[0])
      snprintf(job->run_error, sizeof job->run_error,
               "the truth log is not whole (the reason is above)");
  }
  if (job->has_sim) {
    char how[80];
    job->has_sim = false;
    if (!simchild_stop(&job->sim, how, sizeof how) && !job->run_error[0])
      snprintf(job->run_error, sizeof job->run_error, FLEET_ENDED, how);
  }
  if (job->result.teardown_error[0] && !job->run_error[0])
    snprintf(job->run_error, sizeof job->run_error, "teardown: %.900s", job->result.teardown_error);
  return rc;
}

/* Users of a closed load may all wait for an answer at once, each on a connection of its own. Said
 * beforehand, and no more than said: with long pauses far fewer are open, and those that find no
 * descriptor are counted (the check `descriptors`). */
static void warn_of_descriptors(const struct runjob *job, size_t others) {
  uint64_t users = job->plan.load.open ? 0 : schedule_users(&job->plan.load);
  uint64_t limit = cmd_descriptor_limit(), wanted = users + others;
  if (limit && wanted > limit)
    log_warn("%" PRIu64 " users may need %" PRIu64 " descriptors, and the limit is %" PRIu64
             " open files; raise it with `ulimit -n %" PRIu64 "`, or use fewer users",
             users, wanted, limit, (wanted / 1024 + 1) * 1024);
}

#define DESCRIPTORS_TO_READ 24 /* and some to spare; what the run needs is known behind that */

static int drive_sweep(struct runjob *job) {
  struct value info = runinfo_value(job);
  const struct sweep_job sweep = {.command = job->command->name,
                                  .argc = job->argc,
                                  .argv = job->argv,
                                  .script = job->script,
                                  .label = job->options.label,
                                  .out = job->options.out,
                                  .json = job->options.json,
                                  .quiet = job->options.quiet,
                                  .sweep = &job->sweep,
                                  .plan = &job->plan,
                                  .info = &info};
  int status = sweep_drive(&sweep);
  value_free(&info);
  return status;
}

/* Everything up to the run; returns −1 to go on, else the exit status. */
static int prepare(struct runjob *job, struct err *err) {
  uint32_t workers = job->options.workers ? (uint32_t)job->options.workers : run_default_workers();
  if (cmd_need_descriptors(DESCRIPTORS_TO_READ, "reading a script", err) || http_global_init(err))
    return cmd_fail(job->command->name, 1, err);
  if (read_script(job, err) || run_options_limits(&job->options, &job->limits, err) ||
      find_fleet(job, err))
    return usage(job, err);
  if (job->options.plan)
    return runinfo_print_plan(job, err) ? usage(job, err) : 0;
  if (job->sweep.grid.n_axes && !job->sweep.point)
    return drive_sweep(job);
  cmd_end_on_signals(); /* until the load takes them over; a script that is read is just ended */
  bool own = !job->fleet.n_replicas && !job->fleet.gateway;
  size_t need = 32 + 8 * (size_t)workers;
  size_t fleet_need =
      (size_t)(job->options.sim.replicas ? job->options.sim.replicas : RUN_SIM_REPLICAS) +
      (size_t)job->options.sim.spares + 64;
  if (own && fleet_need > need) /* the built-in fleet has a process and a limit of its own */
    need = fleet_need;
  if (!job->is_dry) {
    if (cmd_need_descriptors(need, "this run", err))
      return cmd_fail(job->command->name, 1, err);
    warn_of_descriptors(job, need);
  }
  job->verifies = own && job->options.verify;
  if (job->verifies && make_folder(job, err))
    return cmd_fail(job->command->name, 1, err);
  if (job->verifies)
    runverify_prepare(job);
  int rc = own ? start_sim(job, err) : 0;
  if (rc)
    return cmd_fail(job->command->name, rc == ERR_INVALID ? EXIT_USAGE : 1, err);
  if (!own && !job->options.no_preflight && probe_fleet(&job->fleet, err))
    return cmd_fail(job->command->name, 1, err);
  if (!own && job->fleet.admin && job->fleet.n_replicas && adminask_names(&job->fleet, err))
    return cmd_fail(job->command->name, err->code == ERR_INVALID ? EXIT_USAGE : 1, err);
  if (check_verify(job, err))
    return cmd_fail(job->command->name, EXIT_USAGE, err);
  if (fleet_load_tokens(&job->fleet, err) || runparity_check(job, err) || open_results(job, err))
    return cmd_fail(job->command->name, 1, err);
  return -1;
}

static void clean(struct runjob *job) {
  char how[80];
  if (job->has_sim)
    simchild_stop(&job->sim, how, sizeof how);
  dryfleet_stop(&job->dry);
  runverify_forget(job);
  run_result_free(&job->result);
  writer_delete(job->writer);
  log_set_sink(-1);
  if (job->log_fd >= 0)
    close(job->log_fd);
  rundir_free(&job->dir);
  for (size_t i = 0; i < job->n_expects; i++)
    expect_free(&job->expects[i]);
  mem_free(job->expects);
  metrics_free(&job->metrics);
  if (job->has_plan)
    plan_info_free(&job->plan);
  store_delete(job->store);
  for (size_t i = 0; i < job->n_sets; i++)
    mem_free((char *)(uintptr_t)job->sets[i].name);
  mem_free(job->sets);
  sweep_free(&job->sweep);
  value_free(&job->parity);
  fleet_free(&job->fleet);
  options_free(job->command, &job->options, &job->args);
}

static int run(int argc, char **argv, bool dry) {
  struct err err = {0};
  struct runjob job = {.command = dry ? &dry_command : &run_command,
                       .is_dry = dry,
                       .argc = argc,
                       .argv = argv,
                       .log_fd = -1};
  int rc = (dry ? dry_options_parse : run_options_parse)(argc, argv, &job.options, &job.args, &err);
  int status = rc < 0 ? usage(&job, &err) : 0;
  if (rc == 0) {
    job.script = job.args.items[0];
    log_set_level(job.options.verbose ? LOG_INFO : LOG_WARN);
    live_init(&job.live, job.options.quiet);
    metrics_init(&job.metrics);
    job.store = store_new();
    job.fleet.shared = store_tokenizers(job.store);
    status = prepare(&job, &err);
    if (status < 0) {
      if (execute(&job, &err))
        status = cmd_fail(job.command->name, 1, &err);
      else
        status = runend_finish(&job);
    }
  }
  if (job.result.n_lost || job.has_lost)
    leave(&job, status);
  clean(&job);
  return status;
}

/* The one way out: whatever ended the command is mapped here. */
int runjob_main(int argc, char **argv, bool dry) {
  int status = cmd_flush(run(argc, argv, dry));
  return run_options_bisect(argc, argv) ? verdict_bisect(status) : status;
}

int cmd_run(int argc, char **argv) {
  return runjob_main(argc, argv, false);
}
