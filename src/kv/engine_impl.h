/* engine_impl.h: what the engine's own files share: making and adding (engine_new.c), the scheduler
 * (engine.c, engine_async.c), lookup and placement (engine_place.c), what stands behind the pool
 * (engine_tiers.c) and the trace runner (engine_replay.c). Nobody else includes it. */
#ifndef KV_ENGINE_IMPL_H
#define KV_ENGINE_IMPL_H

#include "kv/blocklife.h"
#include "kv/engine.h"
#include "kv/pool.h"

/* No load takes longer, whatever the settings say: three years. */
#define ENGINE_MAX_LOAD_NS UINT64_C(100000000000000000)

enum engine_where { ENGINE_IN_WAITING, ENGINE_IN_LOADING, ENGINE_IN_RUNNING };

/* A request's blocks and the names of its full blocks. Taken at engine_add with room for the
 * longest the request can become, put back when it ends and used again: in steady state nothing is
 * allocated. Names are computed once, as far as they were needed, and survive preemption. */
struct engine_blocks {
  uint32_t *ids;   /* n held blocks in chain order */
  uint64_t *names; /* of the first n_names blocks of the request's tokens */
  uint32_t cap;    /* of both arrays */
  uint32_t n, n_names;
  uint32_t registered;     /* leading blocks that are in the cache */
  enum engine_where where; /* in which of the lists the request is */
  /* With tiers: names of the first n_chunks chunks of the tokens, of which n_stored were stored. */
  uint64_t *chunks;
  uint32_t cap_chunks, n_chunks, n_stored;
  /* The load under way, or that of the present admission. */
  uint32_t load[ENGINE_SOURCES]; /* tokens */
  uint64_t ready_ns;
  bool arrived;     /* the load is complete and its blocks are registered */
  bool transferred; /* remote_tokens were used */
  uint64_t hold_id;
  struct engine_blocks *next; /* of the unused ones, or of those held */
};

struct engine_list {
  struct engine_request *head, *tail;
  uint32_t n;
};

/* A step under way, of asynchronous scheduling. */
struct engine_flight {
  struct engine_flying {
    struct engine_request *req; /* NULL: it was aborted or reset */
    uint32_t end;               /* tokens that have KV when the step is done */
    bool samples;
  } * items;
  size_t n, cap;
};

struct engine {
  struct engine_config config;
  struct pool pool;
  struct engine_list running, waiting, loading; /* loading stands before waiting */
  struct engine_totals totals;
  /* Every engine_blocks ever made, and those that no request has now. */
  struct engine_blocks **all_blocks;
  size_t n_blocks, cap_blocks;
  struct engine_blocks *unused, *held;
  uint64_t last_hold;
  struct engine_fill *fills; /* foreign content: held, or not told of yet */
  uint64_t last_fill;
  struct blocklife *life;          /* NULL: nobody follows */
  struct engine_flight flights[2]; /* the oldest first */
  uint32_t n_flights;
  struct tierstore *offload;             /* NULL without */
  uint64_t link_free_ns[ENGINE_SOURCES]; /* until then earlier loads use the path */
  /* What happened since the last step was handed out; `published` says that it was. */
  struct engine_scheduled *scheduled;
  struct engine_admitted *admitted;
  struct engine_request **preempted, **sampled, **finished;
  struct engine_event *events;
  struct engine_load *loads;
  size_t n_scheduled, n_admitted, n_preempted, n_sampled, n_finished, n_events, n_loads;
  size_t cap_scheduled, cap_admitted, cap_preempted, cap_sampled, cap_finished, cap_events;
  size_t cap_loads;
  bool published, cleared;
};

/* Number of leading blocks of r's tokens that are in the cache now; the blocks to hit are left in
 * r->blocks->ids, still untouched. r holds no blocks. 0 with caching off. */
uint32_t engine_lookup(struct engine *e, struct engine_request *r);

/* P1 to P6: blocks for r's next n tokens. `hits` from engine_lookup for a waiting request, 0 for
 * one that has blocks. False when they do not fit; then nothing has changed. */
enum engine_place_how {
  ENGINE_PLACE_RUNNING,
  ENGINE_PLACE_ADMISSION, /* the gate P2 counts */
  ENGINE_PLACE_LOAD       /* so it does; new blocks are not registered until their KV is there */
};
NODISCARD bool engine_place(struct engine *e, struct engine_request *r, uint32_t n, uint32_t hits,
                            enum engine_place_how how);
/* P6 alone: blocks up to `full`, more than are registered, get their names. */
void engine_register(struct engine *e, struct engine_request *r, uint32_t full);

/* pool_take, told to who follows the blocks. */
NODISCARD bool engine_take_block(struct engine *e, uint32_t *id, uint64_t *lost);
/* Gives r's blocks back. */
void engine_release(struct engine *e, struct engine_request *r);
/* The memory for blocks, back to the unused. */
void engine_blocks_put(struct engine *e, struct engine_blocks *b);

void engine_list_append(struct engine_list *l, struct engine_request *r);
void engine_list_prepend(struct engine_list *l, struct engine_request *r);
/* Takes r out of the list that it is in, by r->blocks->where. */
void engine_leave_list(struct engine *e, struct engine_request *r);

/* Names: see engine_place.c. */
uint64_t engine_chain_root(const char *salt, const char *adapter);
uint64_t engine_chain_name(uint64_t parent, const uint32_t *tokens, uint32_t n);

/* ---- engine_tiers.c ---- */

/* Whether there is CPU memory or shared storage. */
static inline bool engine_has_tiers(const struct engine *e) {
  return e->config.enable_prefix_caching && (e->offload || e->config.tiers.shared);
}
/* Whether anything but the pool can have r's tokens. */
bool engine_has_external(const struct engine *e, const struct engine_request *r);
/* Whether a chunk is in CPU memory or in shared storage, and in which first. */
bool engine_in_tier(const struct engine *e, uint64_t name, enum engine_source *source);
/* How many of r's tokens behind the `cached` ones of the pool can be loaded; by source in
 * r->blocks->load. What is found counts as used. */
uint32_t engine_find_load(struct engine *e, struct engine_request *r, uint32_t cached);
/* Takes the paths for the load that was found; r has its blocks. */
void engine_begin_load(struct engine *e, struct engine_request *r, uint64_t now_ns);
/* Whether r's load is complete; at first sight its blocks are registered. */
bool engine_load_arrived(struct engine *e, struct engine_request *r, uint64_t now_ns);
/* Stores the chunks that r has completed: `computed` of its tokens have KV. With tiers only. */
void engine_store_chunks(struct engine *e, struct engine_request *r, uint32_t computed);

/* Starts a new list of happenings once the old one was handed out; hands it out. */
void engine_step_open(struct engine *e);
void engine_step_publish(struct engine *e, struct engine_step *out);
/* S2 to S4, and what the pass consists of. */
void engine_schedule(struct engine *e, uint64_t now_ns, struct engine_step *out);
/* S5 for one request that has computed all of its tokens: one more, and its end if that was the
 * last; it still is in its list then. */
void engine_sample(struct engine *e, struct engine_request *r);
/* When the next load is complete, 0 = none is under way. */
uint64_t engine_next_arrival(const struct engine *e);

/* ---- engine_async.c ---- */

/* Whether r ends with what it is going to sample. */
static inline bool engine_ends_with_pending(const struct engine *e,
                                            const struct engine_request *r) {
  return r->num_pending && (r->num_output + r->num_pending >= r->max_output ||
                            r->num_tokens + r->num_pending >= e->config.max_model_len);
}
/* Steps under way have nothing to do with r any more. */
void engine_forget_pending(struct engine *e, struct engine_request *r);
/* engine_fill.c: a step has told of the fills there are: those that hold nothing go, or `all`. */
void engine_fills_told(struct engine *e, bool all);

/* A new event at the end of the list; the pointer dies with the next one. */
struct engine_event *engine_event_add(struct engine *e, enum engine_event_kind kind);

#endif
