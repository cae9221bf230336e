/* plancheck.c: see plancheck.h. */
#include "cmd/plancheck.h"

#include <string.h>

#include "sim/actionrules.h"
#include "sim/simfleet.h"

static bool is_action(const struct timeline_entry *e) {
  return e->action.kind == VALUE_OBJECT;
}

static int prefix(const struct plan_info *plan, const struct timeline_entry *e, struct err *err) {
  return err_prefix(err, "%s: plan: timeline[%u]", plan->where, e->number);
}

/* What the load's end overtakes has nothing behind it to be compared with. */
static int check_end(const struct plan_info *plan, const struct timeline_entry *e,
                     struct err *err) {
  double end_s = plan->load.duration_s, takes_s = actionrules_takes(&e->action);
  if (!(end_s > 0) || !(takes_s > 0) || e->at_s + takes_s < end_s)
    return 0;
  return err_set(err, ERR_INVALID,
                 "%s at %g s takes %g s (%s), and the load ends at %g s: it would be cut off, with "
                 "nothing behind it to compare; do it earlier or for less time, or give the load a "
                 "longer duration",
                 value_to_string(value_get(&e->action, "action")), e->at_s, takes_s,
                 value_get(&e->action, "lasts")   ? "lasts"
                 : value_get(&e->action, "start") ? "start"
                 : value_get(&e->action, "down")  ? "down"
                                                  : "down, by default",
                 end_s);
}

int plancheck_actions(const struct plan_info *plan, struct err *err) {
  for (size_t i = 0; i < plan->n_timeline; i++) {
    const struct timeline_entry *e = &plan->timeline[i];
    if (is_action(e) && (actionrules_check(&e->action, err) || check_end(plan, e, err)))
      return prefix(plan, e, err);
  }
  return 0;
}

static bool adds(const struct timeline_entry *e) {
  const char *name = value_to_string(value_get(&e->action, "action"));
  return name && strcmp(name, "add") == 0;
}

size_t plancheck_added(const struct plan_info *plan) {
  size_t n = 0;
  for (size_t i = 0; i < plan->n_timeline; i++)
    n += adds(&plan->timeline[i]);
  return n;
}

/* Of the built-in fleet: r0 to the last one, those added before included. */
static bool is_built_in(const char *replica, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (simfleet_names(replica, i))
      return true;
  return false;
}

static bool is_known(const struct fleet *fleet, const char *replica) {
  for (size_t i = 0; i < fleet->n_replicas; i++)
    if (strcmp(fleet->replicas[i].id, replica) == 0)
      return true;
  return false;
}

static int check_replica(const struct timeline_entry *e, const struct fleet *fleet, size_t built_in,
                         const char *more, struct err *err) {
  const char *replica = value_to_string(value_get(&e->action, "replica"));
  if (!replica || strcmp(replica, "*") == 0)
    return 0;
  if (built_in && !is_built_in(replica, built_in))
    return err_set(err, ERR_NOT_FOUND,
                   "replica: there is no \"%.60s\"; the built-in fleet then has r0 to r%zu (%s)",
                   replica, built_in - 1, more);
  if (!built_in && fleet->n_replicas && !is_known(fleet, replica))
    return err_set(err, ERR_NOT_FOUND, "replica: there is no \"%.60s\" among the fleet's %zu",
                   replica, fleet->n_replicas);
  return 0;
}

int plancheck_fleet(const struct plan_info *plan, const struct fleet *fleet, size_t built_in,
                    struct err *err) {
  const char *more = "--sim N starts more";
  for (size_t i = 0; i < plan->n_axes; i++)
    if (strcmp(plan->axes[i].name, "replicas") == 0)
      more = "the sweep's axis replicas has a value for which that is too few: --over replicas=N,N "
             "takes larger ones";
  for (size_t i = 0; i < plan->n_timeline; i++) {
    const struct timeline_entry *e = &plan->timeline[i];
    if (!is_action(e))
      continue;
    if (!built_in && !fleet->admin) {
      err_set(
          err, ERR_INVALID,
          "%s is for the built-in fleet, or for a `perigee sim` whose admin port the fleet file "
          "names as admin = {url =, token =}; these servers have none: leave them out (--sim N "
          "takes the built-in fleet), or the entry",
          value_to_string(value_get(&e->action, "action")));
      return prefix(plan, e, err);
    }
    if (check_replica(e, fleet, built_in, more, err))
      return prefix(plan, e, err);
    built_in += built_in && adds(e);
  }
  return 0;
}
