/* admin.h: the fleet's admin port: scenarios and tests stage faults through it.
 *
 * Bound to 127.0.0.1. Every request needs `Authorization: Bearer TOKEN` (401 otherwise) and a Host
 * header that names this listener (403 otherwise: a web page that reaches it by another name is
 * refused). Bodies and answers are JSON; errors are {"error": text} with 400, 404, or
 * 409 when a replica is not in the state for it.
 *
 * - GET /admin/state: the fleet as it is now: of each replica its state (up, draining, starting,
 *   down), since when, its faults, its engine.
 *
 * - POST /admin/ACTION {…}: does an action (actions.h: restart, kill, add, drain, pressure, fault,
 *   …) with these fields, and answers at once what began; with {"wait": true} when it has ended.
 *
 * - POST /admin/peek {tokens | prompt, cache_salt?}: tokens of it cached now: {"cached": {id: n}}.
 */
#ifndef SIM_ADMIN_H
#define SIM_ADMIN_H

#include "base/err.h"

struct admin;
struct simfleet;

/* `fleet` is borrowed and outlives it. The token is made here, 32 random hex digits. */
NODISCARD int admin_start(struct simfleet *fleet, int port, struct admin **out, struct err *err);
void admin_stop(struct admin *a); /* NULL is allowed */
const char *admin_url(const struct admin *a);
const char *admin_token(const struct admin *a);

#endif
