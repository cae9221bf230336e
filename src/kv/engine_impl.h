/* engine_impl.h: what the engine's own files share: the scheduler (engine.c), lookup and placement
 * (engine_place.c) and the trace runner (engine_replay.c). Nobody else includes it. */
#ifndef KV_ENGINE_IMPL_H
#define KV_ENGINE_IMPL_H

#include "kv/engine.h"
#include "kv/pool.h"

/* A request's blocks and the names of its full blocks. Taken at engine_add with room for the
 * longest the request can become, put back when it ends and used again: in steady state nothing is
 * allocated. Names are computed once, as far as they were needed, and survive preemption. */
struct engine_blocks {
  uint32_t *ids;   /* n held blocks in chain order */
  uint64_t *names; /* of the first n_names blocks of the request's tokens */
  uint32_t cap;    /* of both arrays */
  uint32_t n, n_names;
  uint32_t registered; /* leading blocks that are in the cache */
  bool running;        /* in which of the two lists the request is */
  struct engine_blocks *next_unused;
};

struct engine_list {
  struct engine_request *head, *tail;
  uint32_t n;
};

struct engine {
  struct engine_config config;
  struct pool pool;
  struct engine_list running, waiting;
  struct engine_totals totals;
  /* Every engine_blocks ever made, and those that no request has now. */
  struct engine_blocks **all_blocks;
  size_t n_blocks, cap_blocks;
  struct engine_blocks *unused;
  /* What happened since the last step was handed out; `published` says that it was. */
  struct engine_scheduled *scheduled;
  struct engine_admitted *admitted;
  struct engine_request **preempted, **sampled, **finished;
  struct engine_event *events;
  size_t n_scheduled, n_admitted, n_preempted, n_sampled, n_finished, n_events;
  size_t cap_scheduled, cap_admitted, cap_preempted, cap_sampled, cap_finished, cap_events;
  bool published, cleared;
};

/* Number of leading blocks of r's tokens that are in the cache now; the blocks to hit are left in
 * r->blocks->ids, still untouched. r holds no blocks. 0 with caching off. */
uint32_t engine_lookup(struct engine *e, struct engine_request *r);

/* P1 to P6: blocks for r's next n tokens. `hits` from engine_lookup for a waiting request
 * (`admission`), 0 for a running one. False when they do not fit; then nothing has changed. */
NODISCARD bool engine_place(struct engine *e, struct engine_request *r, uint32_t n, uint32_t hits,
                            bool admission);

/* Gives r's blocks back. */
void engine_release(struct engine *e, struct engine_request *r);

/* A new event at the end of the list; the pointer dies with the next one. */
struct engine_event *engine_event_add(struct engine *e, enum engine_event_kind kind);

#endif
