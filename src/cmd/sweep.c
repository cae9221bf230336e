/* sweep.c: the points of a sweep one after another, and the files over them; see sweep.h. */
#include "cmd/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/units.h"
#include "bind/script.h"
#include "cmd/cmd.h"
#include "cmd/live.h"
#include "cmd/sweeppoint.h"
#include "out/verdict.h"
#include "text/json.h"

#define WRITE_EVERY_NS (2 * NS_PER_S) /* so that thousands of short points do not write all day */
#define LABEL_MOST 100

int sweep_read(struct sweep *sweep, const struct sweep_options *options,
               const struct plan_info *plan, struct simopts *sim, int64_t default_replicas,
               struct state_set **sets, size_t *n_sets, struct err *err) {
  *sweep = (struct sweep){0};
  if (!plan->n_axes) {
    if (options->point || options->over.n)
      return err_set(err, ERR_INVALID,
                     "%s is for a sweep, and %s returns a plan; perigee.sweep { plan = …, over = … "
                     "} makes one of it",
                     options->point ? "--point" : "--over", plan->where);
    return 0;
  }
  const struct sweepgrid_given given = {
      .sim = sim, .default_replicas = default_replicas, .sets = *sets, .n_sets = *n_sets};
  int rc = sweepgrid_build(plan, &options->over, &sweep->grid, err);
  if (!rc)
    rc = sweepgrid_check(&sweep->grid, plan, &given, err);
  if (rc)
    return rc;
  uint64_t n = sweep->grid.n_points, point = (uint64_t)options->point;
  if (point > n)
    return err_set(err, ERR_INVALID, "--point %" PRIu64 ": the sweep has %" PRIu64 " points", point,
                   n);
  if (!point && sim->truth)
    return err_set(err, ERR_INVALID,
                   "--truth names one file, and each point of a sweep has a fleet of its own: give "
                   "it with --point N");
  if (!point)
    return 0;
  sweep->point = point;
  *sets = mem_resize(*sets, *n_sets + sweep->grid.n_axes + 1, sizeof **sets);
  sweepgrid_apply(&sweep->grid, point, sim, *sets, n_sets, &sweep->route);
  char title[64];
  snprintf(title, sizeof title, "point %" PRIu64 " of %" PRIu64, point, n);
  sweep->title = mem_strdup(title);
  return 0;
}

void sweep_free(struct sweep *sweep) {
  sweepgrid_free(&sweep->grid);
  mem_free(sweep->title);
  *sweep = (struct sweep){0};
}

int sweep_check_servers(const struct sweep *sweep, const char *whose, struct err *err) {
  const char *axis = sweepgrid_fleet_axis(&sweep->grid);
  if (!axis)
    return 0;
  return err_set(err, ERR_INVALID,
                 "the sweep's axis %s is a setting of the built-in fleet, and %s names servers of "
                 "your own, which perigee does not set up: leave the servers out, or sweep over "
                 "the load, the routing policy or the script's parameters",
                 axis, whose);
}

struct value sweep_point_value(const struct sweep *sweep) {
  if (!sweep->point)
    return value_null();
  struct value v = value_object();
  value_set(&v, "point", value_int((int64_t)sweep->point));
  value_set(&v, "of", value_int((int64_t)sweep->grid.n_points));
  value_set(&v, "values", sweepgrid_point_value(&sweep->grid, sweep->point));
  return v;
}

/* ---- driving ---- */

struct driving {
  const struct sweep_job *job;
  const struct sweepgrid *grid;
  struct rundir dir;
  sigset_t signals, before;
  struct value doc, points; /* sweep.json; its points so far */
  bool interrupted;
  uint64_t started_ns, written_ns;
  int digits;
  char error[1024]; /* what could not be written; "" = nothing */
};

/* "03-replicas-2-kv_blocks-500": the folder's name, and the part of it that is no other's. */
static void point_label(const struct driving *d, uint64_t point, struct buf *label,
                        char prefix[24]) {
  snprintf(prefix, 24, "%0*" PRIu64 "-", d->digits, point);
  buf_puts(label, prefix);
  sweepgrid_describe(d->grid, point, label);
  for (size_t i = 0; i < label->len; i++)
    if (label->data[i] == ' ' || label->data[i] == '=')
      label->data[i] = '-';
  if (label->len > LABEL_MOST) {
    label->len = LABEL_MOST;
    label->data[LABEL_MOST] = '\0';
  }
}

/* The command's own arguments, without those that are for the sweep as a whole. */
static char **point_args(const struct driving *d, const char *label, const char *number) {
  const struct sweep_job *job = d->job;
  const char *const own[] = {"--point", number, "--label", label, "--out", d->dir.path};
  char **args = mem_calloc((size_t)job->argc + ARRAY_LEN(own) + 3, sizeof *args);
  size_t n = 0;
  int i = 0;
  args[n++] = mem_strdup("perigee");
  args[n++] = mem_strdup(job->command);
  for (; i < job->argc && strcmp(job->argv[i], "--") != 0; i++) {
    const char *a = job->argv[i];
    if (strcmp(a, "--exit-codes") == 0)
      i++;
    else if (strcmp(a, "--json") != 0 && strncmp(a, "--exit-codes=", 13) != 0)
      args[n++] = mem_strdup(a);
  }
  for (size_t k = 0; k < ARRAY_LEN(own); k++)
    args[n++] = mem_strdup(own[k]);
  for (; i < job->argc; i++)
    args[n++] = mem_strdup(job->argv[i]);
  return args;
}

static void free_args(char **args) {
  for (size_t i = 0; args[i]; i++)
    mem_free(args[i]);
  mem_free(args);
}

/* What became of a point, for who watches. */
static void say_point(const struct driving *d, const struct value *point, uint64_t number) {
  if (d->job->quiet)
    return;
  struct buf line;
  buf_init(&line, BUF_MAX_OWN);
  buf_printf(&line, "point %" PRIu64 " of %" PRIu64 "  ", number, d->grid->n_points);
  sweepgrid_describe(d->grid, number, &line);
  const char *reason = value_to_string(value_get(point, "reason"));
  buf_printf(&line, "  %s", reason && *reason ? reason : "done");
  const struct value *metrics = value_get(point, "metrics");
  double x;
  if (value_to_double(value_get(value_get(metrics, "cached_ratio"), "mean"), &x))
    buf_printf(&line, " · cached_ratio %.1f %%", 100 * x);
  if (value_to_double(value_get(value_get(metrics, "ttft"), "p50"), &x)) {
    char text[32];
    units_format_seconds(x, text, sizeof text);
    buf_printf(&line, " · ttft p50 %s", text);
  }
  printable_make(line.data, line.len);
  fprintf(stderr, "%s\n", line.data);
  buf_free(&line);
}

static int run_point(struct driving *d, uint64_t number, struct err *err) {
  struct buf label;
  buf_init(&label, BUF_MAX_OWN);
  char prefix[24], text[24], why[SWEEPPOINT_WHY];
  snprintf(text, sizeof text, "%" PRIu64, number);
  point_label(d, number, &label, prefix);
  char **args = point_args(d, label.data, text);
  int status = 0;
  int rc = sweeppoint_run(args, &d->signals, &d->before, &d->interrupted, &status, why, err);
  free_args(args);
  buf_free(&label);
  if (rc)
    return rc;
  struct value point = value_object();
  value_set(&point, "point", value_int((int64_t)number));
  value_set(&point, "values", sweepgrid_point_value(d->grid, number));
  sweeppoint_collect(d->dir.path, prefix, status, why, &point);
  say_point(d, &point, number);
  value_push(&d->points, point);
  return 0;
}

/* ---- over all points ---- */

/* First that holds, as of a run; one that was killed has failed. */
static int sweep_status(const struct driving *d) {
  static const int order[] = {EXIT_USAGE, EXIT_INTERRUPTED, EXIT_FAILED, EXIT_NOT_VALID,
                              EXIT_NOT_MET};
  bool had[256] = {false};
  had[EXIT_INTERRUPTED] = d->interrupted;
  had[EXIT_FAILED] = d->error[0] != '\0';
  for (size_t i = 0; i < value_count(&d->points); i++) {
    int64_t status = EXIT_FAILED;
    bool known = value_to_int(value_get(value_at(&d->points, i), "status"), &status) &&
                 (status == 0 || status == EXIT_USAGE || status == EXIT_INTERRUPTED ||
                  status == EXIT_NOT_VALID || status == EXIT_NOT_MET);
    had[known ? status : EXIT_FAILED] = true;
  }
  for (size_t i = 0; i < ARRAY_LEN(order); i++)
    if (had[order[i]])
      return order[i];
  return 0;
}

static struct value outcome(const struct driving *d) {
  static const struct {
    int status;
    const char *one, *many;
  } words[] = {{0, "is fine", "are fine"},
               {EXIT_NOT_MET, "does not meet its expectations", "do not meet their expectations"},
               {EXIT_NOT_VALID, "is not valid", "are not valid"},
               {EXIT_USAGE, "was refused", "were refused"},
               {EXIT_INTERRUPTED, "was interrupted", "were interrupted"}};
  uint64_t counts[ARRAY_LEN(words) + 1] = {0};
  for (size_t i = 0; i < value_count(&d->points); i++) {
    int64_t status = EXIT_FAILED;
    size_t w = 0;
    if (value_to_int(value_get(value_at(&d->points, i), "status"), &status))
      while (w < ARRAY_LEN(words) && words[w].status != status)
        w++;
    counts[w]++;
  }
  uint64_t done = value_count(&d->points), all = d->grid->n_points;
  struct buf reason;
  buf_init(&reason, BUF_MAX_OWN);
  if (done < all)
    buf_printf(&reason, "%" PRIu64 " of ", done);
  buf_printf(&reason, "%" PRIu64 " point%s", all, all == 1 ? "" : "s");
  for (size_t w = 0, shown = 0; w <= ARRAY_LEN(words); w++)
    if (counts[w])
      buf_printf(&reason, "%s%" PRIu64 " %s", shown++ ? ", " : ": ", counts[w],
                 w == ARRAY_LEN(words) ? "failed"
                 : counts[w] == 1      ? words[w].one
                                       : words[w].many);
  if (d->error[0])
    buf_printf(&reason, "; %s", d->error);
  struct value v = value_object();
  value_set(&v, "status", value_int(sweep_status(d)));
  value_set(&v, "reason", value_string(reason.data, reason.len));
  buf_free(&reason);
  return v;
}

/* Each expectation over the points that judged it. */
static struct value judged(const struct driving *d) {
  struct value list = value_array();
  for (size_t e = 0; e < d->job->plan->n_expect; e++) {
    struct value v = value_object(), not_met = value_array();
    int64_t met = 0, of = 0;
    for (size_t i = 0; i < value_count(&d->points); i++) {
      const struct value *point = value_at(&d->points, i);
      const struct value *one = value_at(value_get(point, "expectations"), e);
      if (!one)
        continue;
      if (!of++)
        value_set(&v, "text", value_copy(value_get(one, "text")));
      const struct value *is = value_get(one, "met");
      if (is && is->kind == VALUE_BOOL && is->u.boolean)
        met++;
      else
        value_push(&not_met, value_copy(value_get(point, "point")));
    }
    if (!of)
      value_set(&v, "text",
                value_cstring(d->job->plan->expect[e].text ? d->job->plan->expect[e].text
                                                           : d->job->plan->expect[e].name));
    value_set(&v, "met", value_int(met));
    value_set(&v, "of", value_int(of));
    value_set(&v, "not_met_at", not_met);
    value_push(&list, v);
  }
  return list;
}

static int report(const struct value *doc, const char *function, const struct value *options,
                  struct buf *out, struct err *err) {
  const struct value *args[] = {doc, options};
  return script_text("perigee.report_sweep", function, args, options ? 2 : 1, out, err);
}

static void note_error(struct driving *d, const struct err *err) {
  if (!d->error[0])
    snprintf(d->error, sizeof d->error, "%s", err->text);
}

/* Everything so far, into the folder. */
static void write_down(struct driving *d) {
  struct err err = {0};
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  const struct value *first = value_at(&d->points, 0);
  const struct value *simulated = value_get(first, "simulated");
  uint64_t now = clock_ns();
  value_set(&d->doc, "simulated", simulated ? value_copy(simulated) : value_null());
  value_set(&d->doc, "duration_s", value_double((double)(now - d->started_ns) / (double)NS_PER_S));
  value_set(&d->doc, "interrupted", value_bool(d->interrupted));
  value_set(&d->doc, "points", value_copy(&d->points));
  value_set(&d->doc, "expectations", judged(d));
  value_set(&d->doc, "outcome", outcome(d));
  d->written_ns = now;
  if (rundir_write_value(&d->dir, "sweep.json", &d->doc, &err) ||
      report(&d->doc, "markdown", NULL, &text, &err) ||
      rundir_write(&d->dir, "report.md", text.data, text.len, &err)) {
    note_error(d, &err);
    value_set(&d->doc, "outcome", outcome(d));
  }
  buf_free(&text);
}

static void print_result(struct driving *d) {
  struct err err = {0};
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  if (d->job->json) {
    json_write_pretty(&text, &d->doc);
    buf_putc(&text, '\n');
  } else {
    const char *no_color = getenv("NO_COLOR");
    struct value options = value_object();
    value_set(&options, "width", value_int((int64_t)live_report_columns()));
    value_set(&options, "color",
              value_bool(live_can_draw(STDOUT_FILENO) && !(no_color && *no_color)));
    value_set(&options, "present", rundir_names(&d->dir));
    if (report(&d->doc, "terminal", &options, &text, &err)) {
      fprintf(stderr, "perigee %s: the report cannot be made: %s\n", d->job->command, err.text);
      note_error(d, &err);
    }
    value_free(&options);
  }
  fwrite(text.data, 1, text.len, stdout);
  buf_free(&text);
}

static int begin(struct driving *d, struct err *err) {
  static const char *const kept[] = {"scenario", "name",    "description", "seed", "banner",
                                     "command",  "scripts", "versions",    "host"};
  const struct sweep_job *job = d->job;
  char label[128], started[40];
  const char *slash = strrchr(job->script, '/');
  snprintf(label, sizeof label, "%s", job->label ? job->label : slash ? slash + 1 : job->script);
  size_t len = strlen(label);
  if (!job->label && len > 4 && strcmp(label + len - 4, ".lua") == 0)
    label[len - 4] = '\0';
  uint64_t wall_ns = clock_wall_ns();
  int rc = rundir_create(job->out, label, wall_ns, &d->dir, err);
  if (rc)
    return rc;
  d->started_ns = clock_ns();
  clock_format_utc(wall_ns, started, sizeof started);
  d->doc = value_object();
  d->points = value_array();
  value_set(&d->doc, "v", value_int(1));
  value_set(&d->doc, "id", value_cstring(d->dir.id));
  value_set(&d->doc, "path", value_cstring(d->dir.path));
  for (size_t i = 0; i < ARRAY_LEN(kept); i++)
    if (value_get(job->info, kept[i]))
      value_set(&d->doc, kept[i], value_copy(value_get(job->info, kept[i])));
  value_set(&d->doc, "started", value_cstring(started));
  value_set(&d->doc, "n_points", value_int((int64_t)d->grid->n_points));
  value_set(&d->doc, "axes", sweepgrid_axes_value(d->grid));
  for (uint64_t n = d->grid->n_points; n >= 10; n /= 10)
    d->digits++;
  return 0;
}

int sweep_drive(const struct sweep_job *job) {
  struct driving d = {.job = job, .grid = &job->sweep->grid, .digits = 1};
  struct err err = {0};
  int status = EXIT_FAILED;
  if (begin(&d, &err))
    return cmd_fail(job->command, EXIT_FAILED, &err);
  sweeppoint_signals(&d.signals, &d.before);
  for (uint64_t p = 1; p <= d.grid->n_points && !d.interrupted; p++) {
    if (run_point(&d, p, &err)) {
      note_error(&d, &err);
      break;
    }
    d.interrupted = d.interrupted || sweeppoint_is_interrupted(&d.signals);
    if (p < d.grid->n_points && clock_ns() - d.written_ns >= WRITE_EVERY_NS)
      write_down(&d);
  }
  write_down(&d);
  print_result(&d);
  if (d.error[0])
    fprintf(stderr, "perigee %s: %s\n", job->command, d.error);
  status = sweep_status(&d); /* signals stay off: there is nothing left to end */
  value_free(&d.doc);
  value_free(&d.points);
  rundir_free(&d.dir);
  return status;
}
