/* zmqsock.h: ZeroMQ sockets on a loop: PUB, and ROUTER for those who ask.
 *
 * libzmq moves the bytes in one thread of its own (a hub has it); here is only what the loop's
 * thread does. Its descriptor (ZMQ_FD) says "something may have changed", once, and any call may
 * take that word away, so a socket is looked at again after each callback, and after each send
 * outside of one. Nothing waits: what a peer has no room for is refused or, by PUB, dropped for
 * that peer, which is what its bound (`hwm`) is for. Closing forgets what was not sent yet. */
#ifndef IO_ZMQSOCK_H
#define IO_ZMQSOCK_H

#include "base/buf.h"
#include "base/err.h"

struct loop;

/* ---- libzmq's context: one for the sockets of a fleet ---- */

struct zmqsock_hub;
NODISCARD int zmqsock_hub_new(size_t max_sockets, struct zmqsock_hub **out, struct err *err);
/* Its sockets are closed. Waits for libzmq's thread, which has nothing left to do. NULL is allowed.
 */
void zmqsock_hub_delete(struct zmqsock_hub *hub);

/* ---- a socket ---- */

enum zmqsock_kind { ZMQSOCK_PUB, ZMQSOCK_ROUTER };

struct zmqsock_options {
  enum zmqsock_kind kind;
  const char *endpoint; /* "tcp://127.0.0.1:5557"; port 0 or *: any free one */
  bool connect;         /* else bind */
  uint32_t hwm;         /* messages kept for a peer that does not take them; 0 = no bound */
  uint32_t max_bytes;   /* of a frame that is received; who sends more is cut off; 0 = no bound */
  /* Something may have come, or a peer may have room again; take all there is (zmqsock_receive
   * until ERR_NOT_FOUND). In phase two. May not close the socket. NULL: of no interest. */
  void (*ready)(void *user);
  void *user;
};

struct zmqsock;
/* ERR_INVALID: no endpoint of libzmq's; ERR_IO: in use, or the system refuses; ERR_LIMIT: the hub's
 * max_sockets are open. All name it. */
NODISCARD int zmqsock_open(struct loop *loop, struct zmqsock_hub *hub,
                           const struct zmqsock_options *options, struct zmqsock **out,
                           struct err *err);
/* Bound: with the port that was found. */
const char *zmqsock_endpoint(const struct zmqsock *s);
/* At once; the port becomes free a moment later, when libzmq's thread has seen it. NULL is allowed.
 */
void zmqsock_close(struct zmqsock *s);

/* A frame to send. It is copied: bytes that libzmq's thread referred to would be shared with it. */
struct zmqsock_part {
  const void *data;
  size_t len;
};
/* All frames of one message, or none. To a ROUTER's peer, whose name is the first frame: ERR_LIMIT
 * when it has no room now (`ready` tells of room; it can miss it, so ask again in a while),
 * ERR_CLOSED when there is no such peer. PUB always takes it. */
int zmqsock_send(struct zmqsock *s, const struct zmqsock_part *parts, size_t n);

/* A message that was received: frames one after the other. */
#define ZMQSOCK_MAX_FRAMES 8
struct zmqsock_message {
  struct buf bytes;
  size_t ends[ZMQSOCK_MAX_FRAMES]; /* offsets behind each frame */
  size_t n; /* frames there were; those beyond the first eight are not kept */
};
void zmqsock_message_init(struct zmqsock_message *m);
void zmqsock_message_free(struct zmqsock_message *m);
/* Frame i < n, at most ZMQSOCK_MAX_FRAMES. */
const uint8_t *zmqsock_frame(const struct zmqsock_message *m, size_t i, size_t *len);
/* Replaces the message. ERR_NOT_FOUND: there is none now. */
NODISCARD int zmqsock_receive(struct zmqsock *s, struct zmqsock_message *m);

#endif
