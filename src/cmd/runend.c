/* runend.c: after the run: summary, expectations, outcome, files, and what is printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/printable.h"
#include "bind/script.h"
#include "cmd/cmd.h"
#include "cmd/patience.h"
#include "cmd/runjob.h"
#include "out/summary.h"
#include "out/verdict.h"
#include "text/json.h"

#define WAIT_NS (60 * NS_PER_S) /* what an expectation may wait, beyond its time */

static struct value build_summary(struct runjob *job) {
  struct table *table = writer_table(job->writer);
  for (size_t i = 0; i < job->fleet.n_replicas; i++)
    table_add_replica(table, job->fleet.replicas[i].id,
                      job->result.rotation ? job->result.rotation[i] : 1);
  if (job->result.window_end_ns > job->result.window_start_ns) /* interrupted before: no window */
    table_add_window(table, NULL, job->result.window_start_ns, job->result.window_end_ns);
  struct summary_options options = {
      .run_id = job->dir.id,
      .metrics = &job->metrics,
      .expects = job->expects,
      .n_expects = job->n_expects,
      .checks = {.limits = job->limits,
                 .closed_loop = !job->plan.load.open,
                 .parity_proven = job->fleet.simulated && job->fleet.tokenizer &&
                                  strcmp(job->fleet.tokenizer, "bytes") == 0,
                 .parity = job->parity.kind == VALUE_ARRAY ? &job->parity : NULL,
                 .parity_missing = job->parity_missing,
                 .clock_step_ns = job->clock_step_ns,
                 .virtual_time = job->is_dry,
                 .descriptor_hits = job->result.client.descriptor_limit_hits,
                 .gateway = job->fleet.gateway != NULL,
                 .expectations = job->plan.n_expect,
                 .lost_workers = job->result.n_lost,
                 .truth = job->has_verify ? &job->truth_checks : NULL,
                 .lost_sessions = job->result.sessions_lost,
                 .interrupted = job->result.interrupted},
      .interrupted = job->result.interrupted,
      .simulated = job->fleet.simulated,
      .write_error = job->run_error[0] ? job->run_error : NULL,
      .script_error = job->result.script_is_wrong ? job->result.stopped : NULL};
  runtimeline_check(job, &options.checks);
  struct value summary = summary_build(table, &options);
  runtimeline_add(job, &summary);
  runverify_add(job, &summary);
  return summary;
}

/* A call of a function, which may outlive its command: everything in it is its own. */
struct judging {
  const struct plan_source *source;
  size_t index;
  struct value summary;
  bool met;
  int rc;
  struct buf text;
  struct err err;
};

static void do_judge(void *user) {
  struct judging *j = user;
  j->rc = bind_plan_judge(j->source, j->index, &j->summary, &j->met, &j->text, &j->err);
}

/* Adds met, value and reason. One that does not come back costs its own answer, not the report. */
static void judge_function(struct runjob *job, size_t index, const struct value *summary,
                           struct value *out) {
  uint64_t limit_ns = (uint64_t)(job->options.runaway_s * 1e9) + RUNJOB_GRACE_NS;
  struct judging *j = MEM_NEW(struct judging);
  j->source = &job->source;
  j->index = index;
  j->summary = value_copy(summary);
  buf_init(&j->text, 1 << 16);
  bool back = patience_call(do_judge, j, limit_ns, limit_ns + WAIT_NS);
  value_set(out, "met", value_bool(back && !j->rc && j->met));
  value_set(out, "value", value_null());
  if (!back) {
    job->has_lost = true;
    value_set(out, "reason",
              value_cstring("not judged: it did not come back, from a function that cannot be "
                            "stopped from outside (a library's, string.find on a hard pattern, a "
                            "tokenizer on a very long text)"));
    return;
  }
  value_set(out, "reason",
            j->rc ? value_cstring(j->err.text)
                  : value_string(j->text.data ? j->text.data : "", j->text.len));
  value_free(&j->summary);
  buf_free(&j->text);
  mem_free(j);
}

/* Expectations that are Lua functions see the summary so far; the list ends in the order of the
 * plan. */
static void judge_functions(struct runjob *job, struct value *summary) {
  struct value *texts = value_get(summary, "expectations"), ordered = value_array();
  for (size_t i = 0, next = 0; i < job->plan.n_expect; i++) {
    if (job->plan.expect[i].text) {
      value_push(&ordered, value_copy(value_at(texts, next++)));
      continue;
    }
    char name[64];
    snprintf(name, sizeof name, "expectation %zu (a function)", i + 1);
    struct value e = value_object();
    value_set(&e, "text",
              value_cstring(job->plan.expect[i].name ? job->plan.expect[i].name : name));
    judge_function(job, i, summary, &e);
    value_push(&ordered, e);
  }
  value_set(summary, "expectations", ordered);
}

/* Checks that broken replies break, whoever measures. */
static const char *const of_replies[] = {"empty_200",           "missing_usage",
                                         "coalesced_events",    "impossible_usage",
                                         "incomplete_requests", "incomplete_sessions"};

/* And those that replies without any time between their events break. */
static const char *const of_no_time[] = {"coalesced_events"};

/* The first broken check of these; NULL when there is none. */
static const char *broken_one(const struct value *summary, const char *const *names, size_t n) {
  const struct value *checks = value_get(summary, "checks");
  for (size_t i = 0; i < value_count(checks); i++) {
    const struct value *ok = value_get(value_at(checks, i), "ok");
    const char *name = value_to_string(value_get(value_at(checks, i), "name"));
    for (size_t j = 0; j < n; j++)
      if (ok && !ok->u.boolean && strcmp(name, names[j]) == 0)
        return names[j];
  }
  return NULL;
}

/* Why the run was bound to be not valid, if its own options say so. */
static void add_note(const struct runjob *job, struct value *summary) {
  static const char faults[] = "Faults are staged (--fault), and what they break";
  static const char instant[] = "--profile instant is for the speed of the client, not for "
                                "figures: its events come together, and that";
  const char *broken = NULL, *why = faults;
  if (job->options.sim.faults.n)
    broken = broken_one(summary, of_replies, ARRAY_LEN(of_replies));
  if (!broken && job->options.sim.profile && strcmp(job->options.sim.profile, "instant") == 0) {
    broken = broken_one(summary, of_no_time, ARRAY_LEN(of_no_time));
    why = instant;
  }
  if (!broken)
    return;
  char note[300];
  snprintf(note, sizeof note,
           "%s makes a run not valid by design; --limit %s=100%% would allow it.", why, broken);
  value_set(value_get(summary, "outcome"), "note", value_cstring(note));
}

static int decide(struct runjob *job, struct value *summary) {
  struct verdict_input in = {0};
  struct verdict verdict = {0};
  verdict_input_from(summary, &in);
  if (job->run_error[0])
    in.run_error = job->run_error;
  verdict_decide(&in, &verdict);
  verdict_store(summary, &verdict);
  if (verdict.status == VERDICT_INVALID)
    add_note(job, summary);
  return verdict.status;
}

/* The name under scripts/ of a file: its path below the script's folder, or its last part. */
static void script_name(const struct runjob *job, const char *path, char *out, size_t size) {
  const char *slash = strrchr(job->script, '/');
  size_t dir = slash ? (size_t)(slash - job->script) + 1 : 0;
  const char *name = path;
  if (strncmp(name, "./", 2) == 0)
    name += 2;
  if (dir && strncmp(path, job->script, dir) == 0)
    name = path + dir;
  if (name[0] == '/' || strstr(name, ".."))
    name = strrchr(name, '/') + 1;
  snprintf(out, size, "scripts/%s", name);
}

/* The bytes that ran, not what the file has become since. */
static int keep_script(struct runjob *job, const char *path, struct err *err) {
  char name[4096];
  const struct blob *bytes = store_source(job->store, path);
  assert(bytes); /* the plan was read from it */
  script_name(job, path, name, sizeof name);
  return rundir_write(&job->dir, name, bytes->data, bytes->len, err);
}

static int keep_scripts(struct runjob *job, struct err *err) {
  int rc = keep_script(job, job->script, err);
  for (size_t i = 0; i < job->plan.n_files && !rc; i++)
    rc = keep_script(job, job->plan.files[i], err);
  return rc;
}

static int write_report(struct runjob *job, const struct value *info, const struct value *summary,
                        struct err *err) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  const struct value *args[] = {info, summary};
  int rc = script_text("perigee.report", "markdown", args, 2, &text, err);
  if (!rc)
    rc = rundir_write(&job->dir, "report.md", text.data, text.len, err);
  buf_free(&text);
  return rc;
}

/* Whatever can be written is; the first error is what is told. */
static int write_files(struct runjob *job, const struct value *info, const struct value *summary,
                       struct err *err) {
  struct err later;
  int rc = rundir_write_value(&job->dir, "summary.json", summary, err);
  if (rundir_write_value(&job->dir, "run.json", info, rc ? &later : err) && !rc)
    rc = err->code;
  if (write_report(job, info, summary, rc ? &later : err) && !rc)
    rc = err->code;
  if (keep_scripts(job, rc ? &later : err) && !rc)
    rc = err->code;
  return rc;
}

/* Are the files that grew during the run still where the report says they are? */
static void check_folder(struct runjob *job) {
  char samples[4096], log[4096];
  struct stat held, there;
  snprintf(samples, sizeof samples, "%s/samples.jsonl", job->dir.path);
  snprintf(log, sizeof log, "%s/log.txt", job->dir.path);
  bool same = fstat(job->log_fd, &held) == 0 && stat(log, &there) == 0 &&
              held.st_ino == there.st_ino && held.st_dev == there.st_dev;
  if ((!same || access(samples, F_OK) != 0) && !job->run_error[0])
    snprintf(job->run_error, sizeof job->run_error,
             "%.600s was removed or moved while the run went on: its rows are not there any more; "
             "what it measured is in the summary and the report",
             same ? samples : job->dir.path);
}

static int print_report(const struct runjob *job, const struct value *info,
                        const struct value *summary, struct err *err) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  int rc = 0;
  if (job->options.json) {
    json_write_pretty(&text, summary);
    buf_putc(&text, '\n');
  } else {
    const char *no_color = getenv("NO_COLOR"); /* no-color.org: set and not empty */
    bool color = live_can_draw(STDOUT_FILENO) && !(no_color && *no_color);
    struct value options = value_object();
    value_set(&options, "width", value_int((int64_t)live_report_columns()));
    value_set(&options, "color", value_bool(color));
    value_set(&options, "present", rundir_names(&job->dir));
    const struct value *args[] = {info, summary, &options};
    rc = script_text("perigee.report", "terminal", args, 3, &text, err);
    value_free(&options);
  }
  if (!rc)
    fwrite(text.data, 1, text.len, stdout);
  buf_free(&text);
  return rc;
}

int runend_finish(struct runjob *job) {
  struct err err = {0};
  check_folder(job);
  runverify_join(job);
  struct value summary = build_summary(job);
  if (job->is_dry)
    dry_set_summary(job, &summary);
  judge_functions(job, &summary);
  int status = decide(job, &summary);
  struct value info = runinfo_value(job);
  struct err file_err = {0};
  printable_make(job->run_error, strlen(job->run_error));
  /* The report says it first; where that goes elsewhere, stderr does. */
  if (job->run_error[0] && (job->options.json || !isatty(STDOUT_FILENO)))
    fprintf(stderr, "perigee %s: %s\n", job->command->name, job->run_error);
  rundir_release(&job->dir);
  if (write_files(job, &info, &summary, &file_err)) {
    fprintf(stderr,
            "perigee %s: %s\nperigee %s: %s is not complete; standard output has the figures\n",
            job->command->name, file_err.text, job->command->name, job->dir.path);
    if (!job->run_error[0]) { /* the status says it too, and so does what is printed */
      snprintf(job->run_error, sizeof job->run_error, "%s", file_err.text);
      status = decide(job, &summary);
    }
  }
  if (print_report(job, &info, &summary, &err)) {
    fprintf(stderr, "perigee %s: the report cannot be made: %s\n", job->command->name, err.text);
    status = status ? status : 1;
  }
  if (job->is_dry && !job->options.json)
    dry_print(&summary);
  value_free(&info);
  value_free(&summary);
  return status;
}
