/* lateness.c: a run of sessions that do nothing, at a rate, as `perigee run` makes it, and how late
 * they started. A command's summary has the 99th percentile alone (it is a check).
 * Usage: lateness SCRIPT RATE SECONDS, with tests/bench/empty.lua; prints {"n", "p50_us", "p99_us",
 * "cpu"} (cpu: share of a core). */
#include <stdio.h>
#include <stdlib.h>

#include "bind/plan.h"
#include "net/http.h"
#include "run/run.h"

static int measure(const char *script, const struct state_set *sets, struct store *store,
                   struct err *err) {
  const struct plan_source source = {.script = script, .sets = sets, .n_sets = 2, .store = store};
  struct plan_info plan;
  struct writer_options to_nowhere = {0};
  struct writer *writer = NULL;
  struct run_result result = {0};
  int rc = bind_plan_load(&source, &plan, err);
  if (rc)
    return rc;
  struct run_config config = {.script = script,
                              .binding = bind_state_binding(),
                              .sets = sets,
                              .n_sets = 2,
                              .load = &plan.load,
                              .drain_s = plan.drain_s,
                              .seed = 1,
                              .workers = 1,
                              .store = store};
  rc = writer_start(&to_nowhere, &writer, err);
  if (rc)
    goto out;
  config.writer = writer;
  rc = run_start(&config, &result, err);
  struct err ignored;
  if (writer_stop(writer, &ignored) || rc)
    goto out;
  const struct probe *probe = &writer_table(writer)->probe;
  printf("{\"n\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"cpu\": %.3f}\n",
         (unsigned long long)probe->start_lag.n, hist_quantile(&probe->start_lag, 0.5) / 1e3,
         hist_quantile(&probe->start_lag, 0.99) / 1e3, probe->cpu_max);
out:
  run_result_free(&result);
  writer_delete(writer);
  plan_info_free(&plan);
  return rc;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: lateness SCRIPT RATE SECONDS\n");
    return 2;
  }
  const struct state_set sets[] = {{.name = "rate", .value = argv[2]},
                                   {.name = "seconds", .value = argv[3]}};
  struct store *store = store_new();
  struct err err;
  int rc = http_global_init(&err);
  if (!rc)
    rc = measure(argv[1], sets, store, &err);
  if (rc)
    fprintf(stderr, "lateness: %s\n", err.text);
  store_delete(store);
  return rc ? 1 : 0;
}
