/* simopts.c: what may be said of the built-in fleet; see simopts.h. */
#include "cmd/simopts.h"

#include <string.h>

#include "base/mem.h"
#include "cmd/readtable.h"
#include "sim/simfleet.h"

bool simopts_described(const struct simopts *o) {
  return o->spares || o->profile || o->truth || o->sets.n || o->faults.n;
}

static int check_fault(const char *text, int64_t replicas, struct err *err) {
  struct fault fault;
  char *replica;
  int rc = simfleet_parse_fault(text, &replica, &fault, err);
  size_t n = (size_t)replicas;
  bool found = rc || !replica || strcmp(replica, "*") == 0;
  for (size_t i = 0; i < n && !found; i++)
    found = simfleet_names(replica, i);
  if (!found)
    rc = err_set(err, ERR_NOT_FOUND, "no replica \"%.60s\"; there are r0 to r%zu", replica, n - 1);
  mem_free(replica);
  return rc ? err_prefix(err, "--fault") : 0;
}

int simopts_check(const struct simopts *o, int64_t replicas, struct err *err) {
  struct simconfig config;
  if (readtable_profile(o->profile ? o->profile : SIMCONFIG_DEFAULT_PROFILE, &config, err))
    return err->code;
  int rc = 0;
  for (size_t i = 0; i < o->sets.n && !rc; i++)
    rc = simconfig_set(&config, o->sets.items[i], err);
  if (!rc)
    rc = simconfig_check(&config, err);
  if (rc)
    return err_prefix(err, "--sim-set");
  for (size_t i = 0; i < o->faults.n && !rc; i++)
    rc = check_fault(o->faults.items[i], o->replicas ? o->replicas : replicas, err);
  return rc;
}
