/* sweepplan.c: --plan of a sweep: the axes, the points, and how long they last at most. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"
#include "base/units.h"
#include "cmd/sweep.h"
#include "run/run.h"

#define MOST_SHOWN 100 /* points that are listed, and whose scripts are read for their loads */

static void print_axes(const struct sweepgrid *g) {
  for (size_t i = 0; i < g->n_axes; i++) {
    const struct sweepgrid_axis *a = &g->axes[i];
    struct buf line;
    buf_init(&line, BUF_MAX_OWN);
    for (size_t k = 0; k < a->n_values; k++)
      buf_printf(&line, "%s%s", k ? ", " : "", a->values[k]);
    printable_make(line.data, line.len);
    printf("%-11s %s: %s\n", i ? "" : "sweep over", a->name, line.data);
    buf_free(&line);
  }
}

/* Seconds that a point's load lasts at most, its start and end aside; below 0: its sessions decide.
 */
static int point_seconds(struct sweepgrid *g, uint64_t point, const struct plan_source *source,
                         double *seconds, struct err *err) {
  struct plan_source here = *source;
  struct simopts sim = {0};
  struct plan_info plan;
  struct state_set *sets = mem_calloc(source->n_sets + g->n_axes + 1, sizeof *sets);
  for (size_t i = 0; i < source->n_sets; i++)
    sets[i] = source->sets[i];
  here.sets = sets;
  sweepgrid_apply(g, point, &sim, sets, &here.n_sets, &here.route);
  int rc = bind_plan_load(&here, &plan, err);
  if (!rc) {
    double drain = plan.drain_s < 0 ? RUN_DRAIN_DEFAULT_S : plan.drain_s;
    *seconds = plan.load.duration_s > 0 ? plan.load.warmup_s + plan.load.duration_s + drain : -1;
    plan_info_free(&plan);
  }
  for (size_t i = source->n_sets; i < here.n_sets; i++)
    mem_free((char *)(uintptr_t)sets[i].name);
  mem_free(sets);
  mem_free(sim.sets.items);
  return rc;
}

int sweep_print_plan(struct sweep *sweep, const struct plan_source *source, struct err *err) {
  struct sweepgrid *g = &sweep->grid;
  uint64_t shown = g->n_points < MOST_SHOWN ? g->n_points : MOST_SHOWN;
  double total = 0;
  bool bounded = shown == g->n_points;
  print_axes(g);
  for (uint64_t p = 1; p <= shown; p++) {
    double seconds = -1;
    struct buf line;
    buf_init(&line, BUF_MAX_OWN);
    sweepgrid_describe(g, p, &line);
    int rc = point_seconds(g, p, source, &seconds, err);
    if (rc) {
      err_prefix(err, "point %" PRIu64 " (%s)", p, line.data);
      buf_free(&line);
      return rc;
    }
    printable_make(line.data, line.len);
    printf("%-11s %*" PRIu64 "  %s\n", p == 1 ? "points" : "", g->n_points > 99 ? 4 : 2, p,
           line.data);
    buf_free(&line);
    bounded = bounded && seconds >= 0;
    total += seconds;
  }
  if (shown < g->n_points)
    printf("%-11s … and %" PRIu64 " more\n", "", g->n_points - shown);
  char text[32];
  units_format_seconds(total, text, sizeof text);
  printf("%-11s %" PRIu64 " point%s, one after another", "in all", g->n_points,
         g->n_points == 1 ? "" : "s");
  if (bounded)
    printf(": at most %s with the drains, and the fleets' starts\n", text);
  else if (shown < g->n_points)
    printf("; how long is not computed beyond %d points\n", MOST_SHOWN);
  else
    printf(", each until its sessions have ended\n");
  return 0;
}
