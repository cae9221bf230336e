/* dryfleet.c: starting and ending the fleet of a dry run. */
#include "cmd/dryfleet.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/fleetopts.h"
#include "cmd/readtable.h"
#include "cmd/simchild.h"

static int read_config(const struct simopts *wish, const struct fleet *fleet, struct simconfig *c,
                       struct err *err) {
  char block_size[40]; /* --sim-set stands over a fleet file */
  int rc = readtable_profile(wish->profile ? wish->profile : SIMCONFIG_DEFAULT_PROFILE, c, err);
  snprintf(block_size, sizeof block_size, "block_size=%u", fleet->block_size);
  if (!rc && fleet->block_size)
    rc = simconfig_set(c, block_size, err);
  for (size_t i = 0; !rc && i < wish->sets.n; i++)
    if (simconfig_set(c, wish->sets.items[i], err))
      return err_prefix(err, "--sim-set");
  return rc;
}

static int add_faults(struct simfleet *f, const struct options_list *faults, struct err *err) {
  for (size_t i = 0; i < faults->n; i++)
    if (simfleet_add_fault_text(f, faults->items[i], err))
      return err_prefix(err, "--fault");
  return 0;
}

static void take_text(char **field, const char *value) {
  if (!*field && value)
    *field = mem_strdup(value);
}

/* The fleet as the client sees it. */
static int describe(const struct simfleet *f, struct fleet *fleet, struct err *err) {
  struct value v = simfleet_describe(f);
  int rc = 0;
  for (size_t i = 0; i < f->n_hosts + f->n_spares && !rc; i++) {
    const struct simhost *h = i < f->n_hosts ? f->hosts[i] : f->spares[i - f->n_hosts];
    char text[160];
    snprintf(text, sizeof text, "%s=%s", h->id, h->url);
    rc = fleet_add_replica(fleet, text, err);
  }
  fleet->n_spares = f->n_spares;
  take_text(&fleet->model, f->model.name);
  take_text(&fleet->tokenizer, "bytes");
  fleet->block_size = f->config.engine.block_size;
  if (value_get(&v, "template_hash"))
    take_text(&fleet->template, value_to_string(value_get(&v, "template")));
  value_free(&v);
  if (!rc && fleet->template)
    rc = fleet_options_find_template(fleet, err);
  fleet->simulated = fleet->reports_cached = true;
  return rc;
}

int dryfleet_start(struct dryfleet *d, const struct simopts *wish, int64_t replicas, int64_t seed,
                   struct fleet *fleet, struct err *err) {
  *d = (struct dryfleet){0};
  simchild_set_now(fleet);
  struct simfleet_options o = {
      .in_memory = true,
      .n_replicas = (size_t)(wish->replicas ? wish->replicas : replicas),
      .n_spares = (size_t)wish->spares,
      .model = fleet->model,
      .text = {fleet->tokenizer, fleet->family, fleet->template, fleet->now, fleet->shared},
      .truth = wish->truth,
      .seed = (uint64_t)seed,
  };
  int rc = read_config(wish, fleet, &o.config, err);
  if (rc)
    return rc;
  d->loop = loop_new_virtual(err);
  if (!d->loop)
    return err->code;
  d->net = drynet_new(d->loop);
  o.watch = drynet_watch(d->net);
  rc = simfleet_start(d->loop, &o, &d->fleet, err);
  if (rc)
    return rc;
  drynet_set_fleet(d->net, d->fleet);
  d->act = dryact_new(d->fleet);
  rc = add_faults(d->fleet, &wish->faults, err);
  return rc ? rc : describe(d->fleet, fleet, err);
}

int dryfleet_stop(struct dryfleet *d) {
  int rc = d->fleet ? simfleet_stop(d->fleet) : 0;
  dryact_delete(d->act);
  drynet_delete(d->net);
  if (d->loop)
    loop_delete(d->loop);
  *d = (struct dryfleet){0};
  return rc;
}
