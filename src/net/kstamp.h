/* kstamp.h: the kernel's receive timestamps (SO_TIMESTAMPING), carried by reads.
 *
 * They say when bytes arrived, however late we are to read them. A read returns the stamp of the
 * last packet it touched, a peek of one byte that of the first; packets queued together may share
 * one. They count wall time and are converted with the loop's offset. */
#ifndef NET_KSTAMP_H
#define NET_KSTAMP_H

#include <sys/types.h>

#include "net/exchange.h"

/* Switches them on; a socket without them just has none. Before the first byte is received. */
void kstamp_enable(int fd);
/* recvmsg; *wall_ns gets the stamp in ns since 1970, 0 when there is none. As recv otherwise. */
ssize_t kstamp_recv(int fd, void *buf, size_t len, int flags, uint64_t *wall_ns);
/* The stamp of the first byte that waits, 0 when there is none. */
uint64_t kstamp_peek(int fd);
/* Puts a stamp on the loop's clock; 0 when there is none or it is later than the loop's own stamp
 * (bytes that came after the wake-up began: the loop's holds). */
uint64_t kstamp_convert(const struct loop *loop, uint64_t wall_ns, uint64_t loop_ns);

#endif
