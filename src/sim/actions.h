/* actions.h: what can be done to the fleet while it runs: restarts, kills, drains, memory pressure,
 * faults, and what befalls its KV events.
 *
 * An action is an object {"action": name, …}; times are seconds or text with a unit ("500ms").
 * `replica` is an id ("r1"); "*" or nothing means all, where that makes sense. The grammar is
 * actionrules.h's. By name:
 *
 * - restart {replica, down = 2s}: its process ends (simhost_end) and is back after `down`, with an
 *   empty cache; one that was killed is started.
 *
 * - kill {replica}: its process ends, and stays away until a restart.
 *
 * - add {start = 0s}: one more replica, up after `start`: a spare of simfleet_options, else one on
 *   a new port. The answer has its id and url.
 *
 * - drain {replica, after = "down" | "keep", timeout}: it takes what still comes, and once nothing
 *   has been open for DRAIN_IDLE_NS it ends ("down"), or stays as it is. After `timeout` (none by
 *   default) it ends with what is open. That nothing new is sent to it is its clients' part.
 *
 * - pressure {replica = "*", share | blocks | tokens, lasts}: engine_fill: content of others evicts
 *   what was used longest ago. With `lasts` the blocks stay in use for so long. A share is of all
 *   blocks; no more than the free ones are taken. A replica that is down or starting has none: the
 *   answer lists it under `refused`; ERR_LIMIT when all are.
 *
 * - reset_cache {replica = "*", reset_running = false}: vLLM's; refused by replicas with blocks in
 *   use, which the answer lists with the reason; ERR_LIMIT when all of them refuse.
 *
 * - fault {replica = "*", fault, lasts}: grammar: faults.h. With `lasts` it ends by itself.
 *
 * - clear_faults {replica = "*"}.
 *
 * - delay_events {replica = "*", delay, lasts}: eventshaping.h; a delay of 0 ends it.
 *
 * - drop_events {replica = "*", p = 1 | count, lasts}: the same; p = 0 ends it. Both need a fleet
 *   that publishes events.
 *
 * Everything belongs to the fleet's loop and its thread. */
#ifndef SIM_ACTIONS_H
#define SIM_ACTIONS_H

#include "base/err.h"
#include "text/value.h"

struct simfleet;
struct simhost;
struct simactions;

#define ACTIONS_DOWN_S 2.0                      /* of a restart that does not say */
#define ACTIONS_DRAIN_IDLE_NS (100 * NS_PER_MS) /* requests may be on their way */
#define ACTIONS_DRAIN_LOOK_NS (10 * NS_PER_MS)

/* Does one action, or begins it. *answer (the caller's) is {"action", "id", "replicas": [ids],
 * "done", …}; what takes time ends by timers on the fleet's loop. ERR_INVALID names the field and
 * what would do, ERR_NOT_FOUND the replica, ERR_LIMIT: not in the state it is in. Then nothing was
 * done. */
NODISCARD int simfleet_act(struct simfleet *fleet, const struct value *action, struct value *answer,
                           struct err *err);

/* What goes on at a replica, newest first: [{action, id, until_ns}], on the loop's clock; null: as
 * long as it takes. The caller frees. */
struct value simactions_under_way(const struct simfleet *fleet, const struct simhost *host);

/* Waits for an action's end: `fn` is called once, on the loop, unless it is cancelled before. The
 * caller's memory. */
struct simactions_watch {
  void (*fn)(struct simactions_watch *watch);
  uint64_t id;
  struct simactions_watch *next;
};
/* False when action `id` has ended already (or never was): then fn is not called. */
bool simactions_watch(struct simfleet *fleet, uint64_t id, struct simactions_watch *watch);
void simactions_unwatch(struct simfleet *fleet, struct simactions_watch *watch);

struct simactions *simactions_new(struct simfleet *fleet);
/* What is under way stays half done; watches are forgotten. */
void simactions_delete(struct simactions *a);

#endif
