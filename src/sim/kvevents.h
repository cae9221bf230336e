/* kvevents.h: a replica's publisher of KV events: PUB for those who follow, ROUTER for those who
 * missed something, after vLLM's (facts/interfaces.md §3).
 *
 * One batch for each step of the engine in which something happened, numbered from 0. It leaves
 * when the step ends, before its tokens do. A message has the frames [topic, number, batch]; a
 * request for a replay [start] is answered with [number, batch] for each one that is still kept,
 * then [−1, ""], as a REQ's or DEALER's client sees it (vLLM's frames: an empty one stands before).
 * Messages can be late or lost on purpose (eventshaping.h): a lost one leaves a gap in the numbers,
 * a replay has it. A late one is kept for replays once it has left. One thread. */
#ifndef SIM_KVEVENTS_H
#define SIM_KVEVENTS_H

#include "io/zmqsock.h"
#include "sim/adapters.h"
#include "sim/eventshaping.h"
#include "sim/kvconfig.h"
#include "sim/replica.h"
#include "text/value.h"

/* What is kept for replays takes no more than this, however many batches are wanted. */
#define KVEVENTS_KEPT_BYTES ((size_t)256 << 20)

struct kvevents_options {
  const struct kvconfig *config; /* borrowed, outlives it; checked (kvconfig_check) */
  const struct engine_config *engine;
  struct loop *loop;
  struct zmqsock_hub *hub;
  const char *host;                 /* the fleet's address */
  const char *id, *model, *address; /* for the topic */
  size_t number;                    /* of the replica in the fleet, from 0 */
  uint64_t seed;                    /* of its hashes where no seed is set, and of what is lost */
  const struct adapters *adapters;  /* the replica's, borrowed: their ids */
  struct eventshaping *shaping;     /* borrowed, outlives it */
};

struct kvevents;
/* Errors name the endpoint. */
NODISCARD int kvevents_open(const struct kvevents_options *options, struct kvevents **out,
                            struct err *err);
/* Batches that are still late are lost. NULL is allowed. */
void kvevents_close(struct kvevents *k);
/* What the replica tells it: replica_listen. */
struct replica_listener kvevents_listener(struct kvevents *k);

/* The process ends: sockets close, what was kept or late is gone; the numbers begin again at 0.
 * kvevents_restart opens them on the same ports, now or, while the old ones are still being closed,
 * in a moment. */
void kvevents_end(struct kvevents *k);
void kvevents_restart(struct kvevents *k);

/* Where subscribers connect; bound to every address: by the loopback. "" of a replay that is off.
 */
const char *kvevents_endpoint(const struct kvevents *k, bool replay);
const char *kvevents_topic(const struct kvevents *k);

struct kvevents_counts {
  uint64_t batches;          /* = the next one's number */
  uint64_t sent, lost, late; /* of them: handed to the socket, dropped on purpose, waiting now */
  uint64_t kept;             /* for replays */
  uint64_t replays, refused; /* requests that were answered, that were none */
};
void kvevents_get_counts(const struct kvevents *k, struct kvevents_counts *out);

/* {"encoding","hashes","hash_scheme","hash_seed"}: what a consumer has to know of a fleet. The seed
 * is null where it is told to nobody. */
struct value kvevents_describe_config(const struct kvconfig *c);

#endif
