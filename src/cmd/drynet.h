/* drynet.h: the transport of a dry run: requests go to the simulated fleet of this process, on the
 * same virtual loop, with no sockets.
 *
 * What is asked and answered is what a socket would carry: the fleet gets method, path, headers and
 * body, the client gets status, headers and the body write by write. Neither takes any time of its
 * own: what a request takes is the engine's time. One thread. */
#ifndef CMD_DRYNET_H
#define CMD_DRYNET_H

#include "net/transport.h"
#include "sim/simfleet.h"

struct drynet;

/* What the fleet was sent. */
struct drynet_totals {
  uint64_t requests;        /* of every kind */
  uint64_t generations;     /* accepted ones, measured ones or not */
  uint64_t prompt_tokens;   /* of measured generation requests that were accepted */
  uint64_t possible_tokens; /* of those, what the best possible cache would have held */
  uint64_t blocks;          /* different ones that were sent or received */
};

struct drynet *drynet_new(struct loop *loop);
void drynet_delete(struct drynet *n); /* NULL is allowed; no request is under way */
/* For simfleet_options, before the fleet is started. */
const struct simhost_watch *drynet_watch(struct drynet *n);
/* The fleet that answers; it outlives the requests. */
void drynet_set_fleet(struct drynet *n, struct simfleet *fleet);
/* Valid as long as `n` is. */
const struct transport *drynet_transport(struct drynet *n);
void drynet_get_totals(const struct drynet *n, struct drynet_totals *out);

#endif
