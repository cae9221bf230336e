/* replica.h: a simulated engine with its step loop: kv/engine driven by time, and its metrics.
 *
 * A step begins when there is work, is settled in the engine at once, and ends after the time that
 * the step-time model gives; the tokens it sampled are handed out at its end. What arrives, leaves
 * or is reset in between counts for the next step, as in vLLM; with async_scheduling for the one
 * after, since the next is scheduled when a step begins. Pure: time is an argument, the caller owns
 * the timers. One thread. */
#ifndef SIM_REPLICA_H
#define SIM_REPLICA_H

#include "kv/engine.h"
#include "kv/steptime.h"
#include "sim/meters.h"

struct replica;

/* One request in the engine; the caller embeds it. */
struct replica_seq {
  struct engine_request engine; /* fill in what engine.h asks for, before replica_add */
  /* One more token, at a step's end: the newest is engine.tokens[engine.num_tokens − 1]. `last`:
   * the request has left the engine. May call replica_abort for this or other requests. `quiet`:
   * only called for the first token and the last. */
  void (*on_token)(struct replica_seq *seq, bool last, uint64_t now_ns);
  /* At the end of a step that computed some of its prompt (with async_scheduling: of the one that
   * computed the last of it), before on_token; NULL. Must not abort requests. */
  void (*on_progress)(struct replica_seq *seq, uint64_t now_ns);
  /* After replica_abort, once nothing refers to the request any more: at once, or at the end of the
   * step that is under way. The place to free it. */
  void (*on_gone)(struct replica_seq *seq);
  bool quiet;
  uint64_t *stamps;      /* the ends of the steps of its tokens are put here; NULL: nobody asks */
  uint32_t n_stamps;     /* so many so far */
  uint32_t max_tokens;   /* as asked for, for the metrics */
  uint64_t received_ns;  /* the caller's stamp of its arrival */
  uint64_t queued_ns;    /* the caller's stamp of replica_add: later by the request's overhead */
  uint64_t scheduled_ns; /* its first step began, or was scheduled behind another; 0 before */
  uint64_t first_ns, last_ns; /* ends of the steps of its first and latest token; 0 before */
  enum meter_finish finish;   /* by what it ends if it is not aborted: METER_STOP or METER_LENGTH */
  bool in_step, gone;         /* the replica's own */
};

/* NULL with ERR_INVALID when the engine cannot work so. `style`: of its metrics. `created_s`: Unix
 * time, for the metrics. */
struct replica *replica_new(const struct engine_config *config,
                            const struct steptime_profile *profile, enum meters_style style,
                            double created_s, struct err *err);
/* Requests that are still in are forgotten: end them first. */
void replica_delete(struct replica *r);

/* Puts a request at the back of the queue. */
NODISCARD int replica_add(struct replica *r, struct replica_seq *seq, struct err *err);
/* Takes it out, wherever it is; on_gone follows. Not after its last on_token. */
void replica_abort(struct replica *r, struct replica_seq *seq);
/* False when refused because blocks are in use. */
bool replica_reset_cache(struct replica *r, bool reset_running);

/* Begins a step if none is under way and there is something to do: true, with the time at which it
 * is to end in *due_ns. A step that follows the last one at once (call this right after
 * replica_end) begins when that one was due, so that the timer's lateness does not add up; after a
 * hold-up of more than REPLICA_CATCH_UP_NS it begins now. */
bool replica_begin(struct replica *r, uint64_t now_ns, uint64_t *due_ns);
#define REPLICA_CATCH_UP_NS (5 * NS_PER_MS)
/* After replica_begin said false: when to call it again although nothing happened until then (KV is
 * loaded from a tier); 0 = no need. */
uint64_t replica_wake_ns(const struct replica *r);
/* Ends the step under way: on_token of everyone who sampled, in the engine's order. */
void replica_end(struct replica *r, uint64_t now_ns);
bool replica_in_step(const struct replica *r);

/* The KV that a prefill leg left behind (engine_request.hold_id) is not needed any more; false:
 * there is none. What waits may go on: replica_begin. */
bool replica_release_hold(struct replica *r, uint64_t hold_id);

/* Who follows the KV events: told of those of each engine step when it begins (pointers die when
 * `events` returns), and when they are to be published: at the step's end before its tokens, or at
 * once where no step follows. */
struct replica_listener {
  void (*events)(void *user, const struct engine_event *events, size_t n);
  void (*publish)(void *user, uint64_t now_ns);
  void *user;
};
/* From the beginning, before anything was added; zero: nobody. */
void replica_listen(struct replica *r, struct replica_listener listener);

/* --kv-cache-metrics: this share of the blocks' lives is measured. From the beginning. */
void replica_measure_blocks(struct replica *r, double share, uint64_t seed);

/* Foreign content in the cache: engine_fill and engine_release_fill. */
uint32_t replica_fill(struct replica *r, uint32_t blocks, uint64_t now_ns, uint64_t *hold_id);
bool replica_release_fill(struct replica *r, uint64_t hold_id);

/* For /metrics and the admin port. */
struct engine *replica_engine(struct replica *r);
const struct engine_config *replica_config(const struct replica *r);
struct replica_state { /* what /metrics says and the replica does not know */
  const char *model;
  int asleep;                                      /* the level; 0 = awake */
  bool limits;                                     /* admission is limited: rejections are told */
  size_t adapters;                                 /* how many are served */
  const char *running_adapters, *waiting_adapters; /* names with commas */
  double now_s;                                    /* Unix time */
};
void replica_write_metrics(const struct replica *r, const struct replica_state *state,
                           struct buf *out);
/* A request was not taken in: too many of them (`requests`), or of their tokens. */
void replica_count_rejection(struct replica *r, bool requests);
/* A request with all of its choices has ended: its n, and the output tokens of the longest. */
void replica_count_request(struct replica *r, uint32_t n, uint32_t longest);
/* Running and waiting as vLLM publishes them: as of the end of the last step. */
void replica_gauges(const struct replica *r, uint32_t *running, uint32_t *waiting, double *usage);

#endif
