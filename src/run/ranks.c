/* ranks.c: what all ranks agree on: setup once, for all of them, then the load starts everywhere.
 */
#include "base/log.h"
#include "run/conductor.h"

/* An interrupt or an error came while the others were waited for. */
static bool is_over(struct conductor *c) {
  if (c->interrupts && !c->quitting)
    conductor_quit(c);
  return c->quitting;
}

static void on_joined(struct coord_wait *wait) {
  struct conductor *c = CONTAINER_OF(wait, struct conductor, join);
  if (is_over(c))
    return;
  log_info("run rank=%u ranks=%u", wait->rank, wait->ranks);
  conductor_start_workers(c);
}

static void on_all_ready(struct coord_wait *wait) {
  struct conductor *c = CONTAINER_OF(wait, struct conductor, ready);
  if (is_over(c))
    return;
  coord_watch(c->coord, "setup", &c->setup_known);
  coord_once(c->coord, "setup", &c->setup);
}

static void on_setup_given(struct coord_wait *wait) {
  struct conductor *c = CONTAINER_OF(wait, struct conductor, setup);
  if (is_over(c))
    return;
  if (c->run.workers[0].states[0]->has_setup)
    conductor_enter(c, RUN_SETUP);
  if (wait->mine && c->phase == RUN_SETUP) {
    worker_tell(&c->run.workers[0], WORKER_SETUP);
  } else if (wait->mine) {
    struct shared nothing = {.kind = SHARED_NULL};
    coord_publish(c->coord, "setup", &nothing);
  }
}

static void on_setup_known(struct coord_wait *wait) {
  struct conductor *c = CONTAINER_OF(wait, struct conductor, setup_known);
  if (is_over(c))
    return;
  c->run.setup = wait->value;
  coord_barrier(c->coord, "start", &c->start);
}

static void on_start(struct coord_wait *wait) {
  struct conductor *c = CONTAINER_OF(wait, struct conductor, start);
  if (!is_over(c))
    conductor_start_load(c);
}

static void on_aborted(struct coord_wait *wait) {
  struct conductor *c = CONTAINER_OF(wait, struct conductor, aborted);
  struct err err;
  err_set(&err, ERR_CANCELLED, "%s", wait->text);
  conductor_fail(c, &err); /* by this rank itself: it has failed already */
}

void ranks_join(struct conductor *c) {
  c->coord = coord_local_new(c->run.loop, 1);
  c->join.done = on_joined;
  c->aborted.done = on_aborted;
  c->ready.done = on_all_ready;
  c->setup.done = on_setup_given;
  c->setup_known.done = on_setup_known;
  c->start.done = on_start;
  coord_join(c->coord, &c->join, &c->aborted);
}
