/* dryact.c: see dryact.h. */
#include "cmd/dryact.h"

#include "base/mem.h"
#include "sim/actions.h"
#include "sim/simfleet.h"

struct dryact {
  struct fleetport port;
  struct simfleet *fleet;
};

struct carrier {
  struct dryact *dryact;
  struct fleetport_call *call;
  struct simactions_watch watch;
  bool watched;
  struct loop_task task; /* its end is told in a later round of the same moment */
};

static void on_told(struct loop_task *task) {
  struct carrier *c = CONTAINER_OF(task, struct carrier, task);
  struct fleetport_call *call = c->call;
  call->carrier = NULL;
  mem_free(c);
  call->done(call);
}

static void on_ended(struct simactions_watch *watch) {
  struct carrier *c = CONTAINER_OF(watch, struct carrier, watch);
  c->watched = false;
  value_set(&c->call->answer, "done", value_bool(true));
  loop_ready(c->dryact->fleet->loop, &c->task);
}

static void begin(void *self, struct fleetport_call *call) {
  struct dryact *d = self;
  struct carrier *c = MEM_NEW(struct carrier);
  int64_t id = 0;
  c->dryact = d;
  c->call = call;
  c->task.run = on_told;
  c->watch.fn = on_ended;
  call->carrier = c;
  call->rc = simfleet_act(d->fleet, call->action, &call->answer, &call->err);
  if (!call->rc) {
    value_to_int(value_get(&call->answer, "id"), &id);
    c->watched = simactions_watch(d->fleet, (uint64_t)id, &c->watch);
  }
  if (!c->watched)
    loop_ready(d->fleet->loop, &c->task);
}

static void cancel(void *self, struct fleetport_call *call) {
  struct dryact *d = self;
  struct carrier *c = call->carrier;
  if (c->watched)
    simactions_unwatch(d->fleet, &c->watch);
  loop_unready(d->fleet->loop, &c->task);
  value_free(&call->answer);
  call->carrier = NULL;
  mem_free(c);
}

struct dryact *dryact_new(struct simfleet *fleet) {
  struct dryact *d = MEM_NEW(struct dryact);
  d->fleet = fleet;
  d->port = (struct fleetport){.begin = begin, .cancel = cancel, .self = d};
  return d;
}

void dryact_delete(struct dryact *d) {
  mem_free(d);
}

const struct fleetport *dryact_port(struct dryact *d) {
  return &d->port;
}
