/* runverify.c: `perigee run --verify` on the built-in fleet: the fleet keeps its own log of every
 * request, which the rows are joined with after the run (out/verify.h). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cmd/runjob.h"

#define LOG_NAME "truth.jsonl"

void runverify_prepare(struct runjob *job) {
  if (job->options.sim.truth)
    return;
  size_t size = strlen(job->dir.path) + sizeof "/" LOG_NAME;
  job->truth_path = mem_alloc(size);
  snprintf(job->truth_path, size, "%s/" LOG_NAME, job->dir.path);
  job->options.sim.truth = job->truth_path;
}

void runverify_forget(struct runjob *job) {
  if (job->truth_path && job->dir.path && !job->writer) { /* it never came to a run */
    unlink(job->truth_path);
    rmdir(job->dir.path);
  }
  if (job->has_verify)
    verify_close(&job->verify);
  mem_free(job->truth_path);
}

void runverify_join(struct runjob *job) {
  char samples[4200];
  struct err err = {0};
  if (!job->verifies || !job->ran)
    return;
  snprintf(samples, sizeof samples, "%s/samples.jsonl", job->dir.path);
  int rc = verify_open(&job->verify, samples, job->options.sim.truth, job->result.zero_ns, &err);
  job->has_verify = !rc;
  if (!rc) {
    verify_checks(&job->verify, &job->truth_checks);
    verify_set_table(&job->verify, writer_table(job->writer));
    rc = verify_write_rows(&job->verify, job->dir.path, &err);
  }
  if (rc && !job->run_error[0])
    snprintf(job->run_error, sizeof job->run_error, "--verify: %.900s", err.text);
}

void runverify_add(const struct runjob *job, struct value *summary) {
  if (!job->has_verify)
    return;
  struct value *v = value_set(summary, "verify", verify_value(&job->verify));
  value_set(v, "truth", value_cstring(job->options.sim.truth));
  struct value ledger = verify_ledger_value(&job->verify);
  if (ledger.kind == VALUE_OBJECT)
    value_set(summary, "causes", value_copy(value_get(&ledger, "causes")));
  value_set(summary, "ledger", ledger);
}
