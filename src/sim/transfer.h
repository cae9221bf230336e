/* transfer.h: kv_transfer_params: a prefill replica and a decode replica of one fleet hand KV over,
 * as with vLLM's NIXL connector (facts/interfaces.md §1.8).
 *
 * The prefill leg ({do_remote_decode: true}, not streamed, one choice) keeps its blocks when it has
 * ended; its reply says where. The decode leg, sent with those parameters, loads the KV instead of
 * computing it (the engine's ENGINE_TRANSFER link says how long that takes) and has the blocks
 * released with its first token, or when it ends before. KV that nobody fetches is released after
 * TRANSFER_KEEP_NS. A decode leg whose KV is nowhere (released, the replica unknown) computes its
 * prompt itself. One thread. */
#ifndef SIM_TRANSFER_H
#define SIM_TRANSFER_H

#include "sim/simhost.h"

#define TRANSFER_KEEP_NS (480 * NS_PER_S) /* vLLM's own default */

void transfer_init(struct simhost *h, struct simhost *(*find)(void *user, const char *id),
                   void *user);
void transfer_free(struct simhost *h);

/* A prefill leg ended with hold_id: the parameters for its reply as JSON text, to be freed with
 * mem_free. `id`: of the response. */
char *transfer_offer(struct simhost *h, const char *id, const struct engine_request *req);
/* How many leading tokens of the decode leg can be loaded; 0: the KV is nowhere. */
uint32_t transfer_ask(const struct simhost *h, const struct genrequest *r);
/* The KV has arrived, or the decode leg is over. */
void transfer_done(const struct simhost *h, const struct genrequest *r);

#endif
