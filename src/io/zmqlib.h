/* zmqlib.h: libzmq, loaded when somebody first needs it.
 *
 * With it come libstdc++, libsodium and six more: 8 ms of every start of perigee, of which one
 * command in one mode makes use. So it is not linked; its functions are looked up here. */
#ifndef IO_ZMQLIB_H
#define IO_ZMQLIB_H

#include <zmq.h>

#include "base/err.h"

#define ZMQLIB_FUNCTIONS(X)                                                                        \
  X(ctx_new)                                                                                       \
  X(ctx_get)                                                                                       \
  X(ctx_set)                                                                                       \
  X(ctx_term)                                                                                      \
  X(socket)                                                                                        \
  X(close)                                                                                         \
  X(bind)                                                                                          \
  X(connect)                                                                                       \
  X(getsockopt)                                                                                    \
  X(setsockopt)                                                                                    \
  X(msg_init)                                                                                      \
  X(msg_init_size)                                                                                 \
  X(msg_data)                                                                                      \
  X(msg_size)                                                                                      \
  X(msg_more)                                                                                      \
  X(msg_send)                                                                                      \
  X(msg_recv)                                                                                      \
  X(msg_close)                                                                                     \
  X(strerror)

struct zmqlib {
#define ZMQLIB_FIELD(name) __typeof__(&zmq_##name) name;
  ZMQLIB_FUNCTIONS(ZMQLIB_FIELD)
#undef ZMQLIB_FIELD
};

/* Fills the table; the library stays loaded. ERR_NOT_FOUND: it is not on this machine, and how it
 * comes there. `soname`: NULL, or another name for tests. */
NODISCARD int zmqlib_load(struct zmqlib *lib, const char *soname, struct err *err);

#endif
