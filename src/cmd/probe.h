/* probe.h: is the fleet there at all? One GET /v1/models per replica before a run starts.
 *
 * A name that does not resolve, a port that refuses, a certificate that does not verify: found
 * here, said once, and the run does not start. Any HTTP answer counts as "there". */
#ifndef CMD_PROBE_H
#define CMD_PROBE_H

#include "run/fleet.h"

/* Servers that say of themselves that they are simulated (perigee sim) make the fleet a simulated
 * one, with the tokenizer, template and time that they name: ERR_INVALID or ERR_NOT_FOUND when the
 * tokenizer is not here, or what was given is another by its hash. A model that a server lists
 * others instead of: ERR_NOT_FOUND. Asks every replica (or the gateway) at most 10 s. When
 * fleet->model is NULL it becomes the first model that an answer lists; none listed: ERR_NOT_FOUND
 * with the hint --model. */
NODISCARD int probe_fleet(struct fleet *fleet, struct err *err);
/* The same, but a tokenizer and a template that were given stay, whatever simulated servers say of
 * theirs: for those who want to see the difference; each is asked for `timeout_ns` at most. All
 * three note in fleet->taken what they took and from whom. */
NODISCARD int probe_models(struct fleet *fleet, uint64_t timeout_ns, struct err *err);
/* The same of an answer to /v1/models that is there already: what the server says of itself goes
 * into fleet->announced, and what was not given is taken from a simulated one. The model's name is
 * left alone. */
NODISCARD int probe_take(struct fleet *fleet, const char *url, const struct value *answer,
                         struct err *err);

#endif
