/* generation.h: one generation request of a replica, from its arrival to its line in the truth log.
 *
 * The order of events is vLLM's: role event (chat) with the engine's first output, one event per
 * output (more tokens with stream_interval), the last of them with the finish reason, usage when
 * asked for, the end marker. The head of a stream goes out when the request is accepted. A client
 * that leaves aborts the request in the engine. */
#ifndef SIM_GENERATION_H
#define SIM_GENERATION_H

#include "sim/simhost.h"

/* Takes over the request. */
void generation_begin(struct simhost *h, struct httpd_request *req, enum gen_api api);
/* Ends every request that is in the engine, with finish reason "abort" and what it has so far (the
 * host goes to sleep). */
void generation_abort_all(struct simhost *h);
/* Names of the adapters that requests in the engine run or wait with, each once, with commas. */
void generation_adapters(const struct simhost *h, struct buf *running, struct buf *waiting);
/* Every request's client sees a reset, and the request ends as "abort": the process of a host in
 * memory ends. */
void generation_reset_all(struct simhost *h);
/* Ends it as "abort", whoever waits for it. It may be gone afterwards. */
struct generation;
void generation_give_up(struct generation *x);
/* Requests that are not answered yet. */
size_t generation_open(const struct simhost *h);

#endif
