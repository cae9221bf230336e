/* dryfleet.h: the built-in fleet in this process, in virtual time and without ports: what a dry run
 * stands on. */
#ifndef CMD_DRYFLEET_H
#define CMD_DRYFLEET_H

#include "cmd/dryact.h"
#include "cmd/drynet.h"
#include "cmd/simopts.h"
#include "run/fleet.h"

struct dryfleet {
  struct loop *loop; /* NULL: not started */
  struct simfleet *fleet;
  struct drynet *net;
  struct dryact *act;
};

/* Starts it as wished (`replicas`, unless that says how many), with the fleet's model, tokenizer
 * and template, as simchild_start_fleet does, and makes its replicas the fleet's. Errors name the
 * option. After an error too: dryfleet_stop. */
NODISCARD int dryfleet_start(struct dryfleet *d, const struct simopts *wish, int64_t replicas,
                             int64_t seed, struct fleet *fleet, struct err *err);
/* ERR_IO: the truth log is not whole. */
int dryfleet_stop(struct dryfleet *d);

#endif
