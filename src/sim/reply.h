/* reply.h: the bytes of an answer: vLLM's chat and completions replies, streamed and whole.
 *
 * Shapes, key order and what is left out follow facts/interfaces.md §1 and fixtures/sse (01 to 03):
 * unset fields are omitted in events, null in whole replies; prompt_tokens_details is there only on
 * a cache hit. Pure: bytes in a buffer, no sockets. */
#ifndef SIM_REPLY_H
#define SIM_REPLY_H

#include "sim/genrequest.h"

struct reply {
  const struct genrequest *request; /* borrowed, outlives the reply */
  struct buf head; /* `{"id":…,"model":…,"choices":[`: what all events begin with */
};

/* `id` is the whole response id ("chatcmpl-…"), `created_s` Unix seconds. */
void reply_init(struct reply *r, const struct genrequest *request, const char *model,
                const char *id, uint64_t created_s);
void reply_free(struct reply *r);

/* The events, each "data: …\n\n", appended to out. */
void reply_role(const struct reply *r, struct buf *out); /* chat only */
/* Output tokens from..to−1 as one event; `last` adds the finish reason. `hide` leaves the text out
 * (fault no_output). */
void reply_delta(const struct reply *r, uint32_t from, uint32_t to, bool last, bool hide,
                 struct buf *out);
void reply_usage(const struct reply *r, uint32_t cached, uint32_t completion, struct buf *out);
void reply_error(const struct apierror *e, struct buf *out);
void reply_done(struct buf *out);

/* The whole reply as one JSON object. `usage` false leaves the object out (fault no_usage). */
void reply_whole(const struct reply *r, uint32_t cached, bool usage, bool hide, struct buf *out);

#endif
