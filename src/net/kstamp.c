/* kstamp.c: reading with SO_TIMESTAMPING; see kstamp.h. */
#include "net/kstamp.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

void kstamp_enable(int fd) {
  int flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
  (void)setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags);
}

int kstamp_begin(void) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd >= 0)
    kstamp_enable(fd);
  return fd;
}

static uint64_t stamp_of(struct msghdr *msg) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPING)
      continue;
    struct scm_timestamping stamps;
    memcpy(&stamps, CMSG_DATA(c), sizeof stamps);
    if (stamps.ts[0].tv_sec > 0)
      return (uint64_t)stamps.ts[0].tv_sec * NS_PER_S + (uint64_t)stamps.ts[0].tv_nsec;
  }
  return 0;
}

ssize_t kstamp_recv(int fd, void *buf, size_t len, int flags, uint64_t *wall_ns) {
  union {
    char space[256];
    struct cmsghdr align;
  } control;
  struct iovec iov = {.iov_base = buf, .iov_len = len};
  struct msghdr msg = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof control.space};
  ssize_t n = recvmsg(fd, &msg, flags);
  *wall_ns = n > 0 ? stamp_of(&msg) : 0;
  return n;
}

uint64_t kstamp_peek(int fd) {
  char byte;
  uint64_t wall_ns;
  kstamp_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT, &wall_ns);
  return wall_ns;
}

uint64_t kstamp_convert(struct loop *loop, uint64_t wall_ns, uint64_t *loop_ns) {
  int64_t at = wall_ns ? (int64_t)wall_ns - loop_realtime_offset(loop) : 0;
  if (at <= 0)
    return 0;
  if ((uint64_t)at > *loop_ns) {
    uint64_t now = loop_refresh(loop);
    if ((uint64_t)at > now)
      return 0;
    *loop_ns = now;
  }
  return (uint64_t)at;
}
