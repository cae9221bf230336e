/* background.h: responses that are made in the background (`background: true` of the Responses
 * API).
 *
 * As vLLM does it: the client has its answer at once, a response that is "queued"; what is made
 * lies in the store, "queued" until it is complete. It goes on when the client leaves. A streamed
 * one keeps its events: GET /v1/responses/ID?stream=true&starting_after=N reads them, from the one
 * behind number N on, while it is made and afterwards. POST /v1/responses/ID/cancel ends it; its
 * streams end then without a last event. When its id comes again, the store has the newer response
 * alone; who reads the older one reads it to its end. Lost with the process, as the store is. */
#ifndef SIM_BACKGROUND_H
#define SIM_BACKGROUND_H

#include "sim/endpoints.h"
#include "sim/genlife.h"

/* It was accepted, with its reply filled in: puts it in the store and, unless it is streamed,
 * answers the client. */
void background_begin(struct generation *x);
/* Whether the store still has a place for it: not when its id came again. */
bool background_keeps(const struct generation *x);
/* The next event of a streamed one, while x->working. */
void background_event(struct generation *x, const char *data, size_t len);
/* It is through (stored by the caller), or failed: nothing more comes. */
void background_end(struct generation *x);
void background_fail(struct generation *x);

/* GET with stream=true: takes the request over, or fills in why not. */
bool background_follow(struct simhost *h, struct httpd_request *req,
                       const struct response_entry *entry, struct apierror *e);
/* POST …/cancel: the response as it is then. */
void background_cancel(struct simhost *h, struct response_entry *entry, struct answer *a,
                       struct apierror *e);
/* The process ends: nobody is told. */
void background_drop_all(struct simhost *h);

#endif
