/* requestid.h: the X-Request-Id of each generation request: what joins its row to servers' logs.
 *
 * "perigee-" RUN "-" WORKER "-" NUMBER, in hexadecimal: no two requests have one id, whatever run,
 * worker, branch or attempt they are of. It is no part of what a session says: bodies do not hold
 * it. A request that is sent again on a new connection keeps its own (`reconnects` in its row). */
#ifndef RUN_REQUESTID_H
#define RUN_REQUESTID_H

#include "base/base.h"

#define REQUESTID_MAX 56 /* bytes, the NUL included */

/* A run's part: of two runs it is the same once in 2^48. */
uint64_t requestid_run(uint64_t wall_ns, uint64_t zero_ns);
/* Writes the id of a worker's request `number`; returns its length. */
size_t requestid_write(uint64_t run, uint32_t worker, uint64_t number, char out[REQUESTID_MAX]);

#endif
