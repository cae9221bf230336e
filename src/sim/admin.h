/* admin.h: the fleet's admin port: scenarios and tests stage faults through it.
 *
 * Bound to 127.0.0.1. Every request needs `Authorization: Bearer TOKEN` (401 otherwise) and a Host
 * header that names this listener (403 otherwise: a web page that reaches it by another name is
 * refused). Bodies and answers are JSON; errors are {"error": text} with 400 or 404.
 *   GET  /admin/state                       the fleet as it is now
 *   POST /admin/fault {replica?, fault}     adds a fault; without replica (or "*") to all
 *   POST /admin/clear_faults {replica?}     removes faults, reopens a refusing port
 *   POST /admin/reset_cache {replica?, reset_running?}  answers which replicas did: {"reset":
 * [ids]} POST /admin/peek {tokens | prompt, cache_salt?}     tokens of it cached now: {"cached":
 * {id: n}} */
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
