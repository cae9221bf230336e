/* kvreplay.h: the batches of KV events that a publisher keeps, and the socket that gives them
 * again.
 *
 * A client that has no room for all of its replay at once gets the rest as it takes it (vLLM's
 * publisher would wait for it, libzmq's default would lose messages); others are served meanwhile.
 * What falls out of the buffer before a slow client got there is not sent. One thread. */
#ifndef SIM_KVREPLAY_H
#define SIM_KVREPLAY_H

#include "base/blob.h"
#include "io/zmqsock.h"

/* Replays under way at one time; whoever asks beyond is refused. */
#define KVREPLAY_MAX_PENDING 64

struct kvreplay;
/* At most `steps` batches, the newest ones, of `max_bytes` together. No socket yet. */
struct kvreplay *kvreplay_new(struct loop *loop, uint32_t steps, size_t max_bytes);
void kvreplay_delete(struct kvreplay *r); /* NULL is allowed */
/* Opens its socket. Errors as zmqsock_open. */
NODISCARD int kvreplay_listen(struct kvreplay *r, struct zmqsock_hub *hub, const char *endpoint,
                              struct err *err);
/* As zmqsock_endpoint; "" before it listens. */
const char *kvreplay_endpoint(const struct kvreplay *r);
/* The next batch, 0 being the first; holds a reference of its own. */
void kvreplay_keep(struct kvreplay *r, struct blob *batch);
/* Nothing kept, nothing under way, the next batch is 0 again; the socket closes. */
void kvreplay_end(struct kvreplay *r);

size_t kvreplay_kept(const struct kvreplay *r);
/* Requests that were answered, or are being, and those that were none or too many. */
void kvreplay_counts(const struct kvreplay *r, uint64_t *replays, uint64_t *refused);

/* A request as a ROUTER receives it: [client, "", start]. False when it is none: vLLM looks at the
 * number of frames alone, and so does this, beside a start that is no number. */
bool kvreplay_read_request(const struct zmqsock_message *m, uint64_t *start);

#endif
