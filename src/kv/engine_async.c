/* engine_async.c: asynchronous scheduling (shared/facts/interfaces.md §8.2b.12): a step is
 * scheduled before the one under way has said what it samples.
 *
 * After vLLM's async_scheduler.py: a request counts the tokens that are still to come
 * (num_pending), so the next step can compute them; who ends with them is not scheduled any more.
 * Blocks are registered as far as their tokens are known: at placement, and when a token arrives. A
 * request that is preempted meanwhile still gets its token. */
#include "base/mem.h"
#include "kv/engine_impl.h"

void engine_forget_pending(struct engine *e, struct engine_request *r) {
  for (uint32_t f = 0; f < e->n_flights; f++)
    for (size_t i = 0; i < e->flights[f].n; i++)
      if (e->flights[f].items[i].req == r)
        e->flights[f].items[i].req = NULL;
  r->num_pending = 0;
}

/* What was scheduled is under way. */
static void take_off(struct engine *e) {
  assert(e->n_flights < ARRAY_LEN(e->flights));
  struct engine_flight *f = &e->flights[e->n_flights++];
  f->n = 0;
  for (size_t i = 0; i < e->n_scheduled; i++) {
    struct engine_request *r = e->scheduled[i].req;
    r->num_computed += e->scheduled[i].tokens;
    bool samples = r->num_computed == r->num_tokens + r->num_pending;
    r->num_pending += samples;
    MEM_GROW(f->items, f->n, f->cap);
    f->items[f->n++] = (struct engine_flying){r, r->num_computed, samples};
  }
}

void engine_step_ahead(struct engine *e, uint64_t now_ns, struct engine_step *out) {
  assert(e->config.async_scheduling);
  engine_step_open(e);
  *out = (struct engine_step){0};
  if (engine_has_work(e)) {
    engine_schedule(e, now_ns, out);
    if (e->n_scheduled)
      take_off(e);
    out->wake_ns = engine_next_arrival(e);
  }
  e->totals.steps++;
  engine_step_publish(e, out);
}

/* A token has arrived: what it and those before it fill is registered, and the request may end. */
static void arrive(struct engine *e, struct engine_request *r) {
  struct engine_blocks *b = r->blocks;
  r->num_pending--;
  if (e->config.enable_prefix_caching) { /* of one that was preempted nothing is computed */
    uint32_t full = (r->num_computed - r->num_pending) / e->config.block_size;
    if (full > b->registered)
      engine_register(e, r, full);
  }
  engine_sample(e, r);
}

static void land(struct engine *e, const struct engine_flight *f) {
  bool tiers = engine_has_tiers(e);
  for (size_t i = 0; i < f->n; i++) {
    struct engine_request *r = f->items[i].req;
    if (!r)
      continue;
    if (tiers && r->blocks->where == ENGINE_IN_RUNNING)
      engine_store_chunks(e, r, f->items[i].end);
    if (f->items[i].samples)
      arrive(e, r);
  }
  for (size_t i = 0; i < e->n_finished; i++) { /* one that was preempted meanwhile waits */
    struct engine_request *r = e->finished[i];
    engine_leave_list(e, r);
    if (!r->hold)
      engine_blocks_put(e, r->blocks);
    r->blocks = NULL;
  }
}

void engine_step_done(struct engine *e, struct engine_step *out) {
  assert(e->n_flights);
  engine_step_open(e);
  *out = (struct engine_step){0};
  struct engine_flight first = e->flights[0];
  land(e, &first);
  e->flights[0] = e->flights[1];
  e->flights[1] = first; /* its memory serves again */
  e->n_flights--;
  engine_step_publish(e, out);
}

uint32_t engine_steps_under_way(const struct engine *e) {
  return e->n_flights;
}
