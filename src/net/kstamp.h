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
/* The system takes stamps as long as any socket wants them, and begins in its own time: the first
 * packets of the first such socket have none. Opens one that is never used, for the caller to close
 * when it wants no more stamps; −1 when there is none to be had, which does no harm. */
int kstamp_begin(void);
/* recvmsg; *wall_ns gets the stamp in ns since 1970, 0 when there is none. As recv otherwise. */
ssize_t kstamp_recv(int fd, void *buf, size_t len, int flags, uint64_t *wall_ns);
/* The stamp of the first byte that waits, 0 when there is none. */
uint64_t kstamp_peek(int fd);
/* Puts a stamp on the loop's clock; 0 when there is none. `*loop_ns` is by when its bytes were
 * here: the wake-up's stamp, or, for bytes that came while the wake-up was being worked off, the
 * present, which it is then moved on to. A stamp that lies in the future even so cannot be used: 0.
 */
uint64_t kstamp_convert(struct loop *loop, uint64_t wall_ns, uint64_t *loop_ns);

#endif
