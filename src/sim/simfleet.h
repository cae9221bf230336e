/* simfleet.h: the simulated fleet: N replicas in one process on one loop, an admin port, a truth
 * log.
 *
 * Everything belongs to the loop's thread. All listeners bind to 127.0.0.1 unless told otherwise,
 * the admin port always does. */
#ifndef SIM_SIMFLEET_H
#define SIM_SIMFLEET_H

#include "sim/simconfig.h"
#include "sim/simhost.h"
#include "text/value.h"

struct admin;
struct zmqsock_hub;
struct simactions;

#define SIMFLEET_MODEL "sim-model" /* the name of a model without one */

struct simfleet_options {
  size_t n_replicas;
  size_t n_spares;              /* ports that are kept for replicas to come (actions.h: add) */
  const char *host;             /* NULL = 127.0.0.1 */
  int port;                     /* of the first replica, the others follow; 0 = any free ones */
  int admin_port;               /* 0 = any free one */
  const char *model;            /* NULL = SIMFLEET_MODEL */
  struct genmodel_options text; /* tokenizer and template; zero: bytes and the fleet's own */
  struct simconfig config;      /* copied */
  struct adapters adapters;     /* copied */
  const char *truth;            /* path of the truth log; NULL = none */
  uint64_t seed;
  enum face_kind face;
  struct simhost_flags flags;
  bool in_memory;                    /* no ports and no admin API: requests come by simhost_take */
  const struct simhost_watch *watch; /* borrowed; NULL */
};

struct simfleet {
  struct loop *loop;
  struct simconfig config;
  struct genmodel model;
  char *model_name;
  struct adapters adapters; /* what every replica begins with */
  uint64_t seed;
  enum face_kind face;
  struct simhost **hosts;
  size_t n_hosts, cap_hosts;
  struct simhost **spares; /* those to come: down, in order */
  size_t n_spares;
  char *host_name; /* the address; NULL = 127.0.0.1 */
  int port;        /* of the first; 0: any */
  struct simhost_flags flags;
  bool in_memory;
  const struct simhost_watch *watch; /* borrowed */
  struct simactions *actions;
  struct truth *truth;
  struct tierstore *shared; /* storage of all replicas; NULL without */
  struct zmqsock_hub *hub;  /* of their KV events; NULL without */
  struct loop_chore flush;
  struct admin *admin;
};

/* Opens every port. Errors name the port, the field, the file. */
NODISCARD int simfleet_start(struct loop *loop, const struct simfleet_options *options,
                             struct simfleet **out, struct err *err);
/* Closes every connection; every request under way gets its line in the truth log first. ERR_IO
 * when that log is not whole. */
int simfleet_stop(struct simfleet *f);

/* One more replica, down: the next spare, or one on the port behind the last, else (those are
 * chosen by the system) any free one. ERR_LIMIT, ERR_IO. */
NODISCARD int simfleet_add_host(struct simfleet *f, struct simhost **out, struct err *err);

/* "r0", or its number; NULL when there is none. */
struct simhost *simfleet_find(const struct simfleet *f, const char *replica);
/* Adds a fault (grammar: faults.h) to one replica, or to all with NULL or "*". ERR_NOT_FOUND names
 * the replica, ERR_INVALID the word. */
NODISCARD int simfleet_add_fault(struct simfleet *f, const char *replica, const char *spec,
                                 struct err *err);
/* "[REPLICA:]SPEC", as the command line has it. */
NODISCARD int simfleet_add_fault_text(struct simfleet *f, const char *text, struct err *err);

/* What that text says, before there is a fleet; *replica (to be freed) is NULL where none is named.
 */
NODISCARD int simfleet_parse_fault(const char *text, char **replica, struct fault *out,
                                   struct err *err);
/* Whether "r2" or "2" is the replica with this number, from 0. */
bool simfleet_names(const char *replica, size_t index);

/* `spares`: where replicas that are added will be. `history_repeats`: an answer that a client
 * repeats becomes the ids that were sampled (speech.h). {"replicas":[{"id","url"}…] (with KV events
 * also kv_events, kv_events_replay, kv_events_topic),"spares":[…, the same],
 * "admin":{"url","token"},"model","profile","tokenizer":"bytes",
 * "template":"sim","history_repeats":true,"max_model_len","block_size","kv_blocks","simulated":true}:
 * the line of --announce. */
struct value simfleet_describe(const struct simfleet *f);

#endif
