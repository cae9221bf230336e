/* loopfd.c: descriptors on a loop: stamped when the poll returns, called in phase two.
 *
 * A loop_fd keeps its place in epoll while the mask of wanted events stays the same, so a
 * connection that is always wanted for reading costs no system call between requests. */
#include "io/loop_internal.h"

#include <string.h>

#include "base/mem.h"

struct loop_fd {
  uv_poll_t poll;
  struct loop *loop;
  loop_fd_fn *ready;
  void *user;
  uint64_t stamp_ns;
  struct loop_fd *next; /* in loop->pending */
  unsigned want;
  unsigned seen; /* events of this wake-up; 0 = not in loop->pending */
  int fd;
  bool closed;
  bool halted; /* libuv stops watching on an error; loopfd_run starts it again */
};

static void on_poll(uv_poll_t *handle, int status, int events) {
  struct loop_fd *f = CONTAINER_OF(handle, struct loop_fd, poll);
  struct loop *loop = f->loop;
  uint64_t stamp = loop_touch(loop);
  unsigned seen = 0;
  if (status < 0) { /* EPOLLERR: whoever reads or writes learns what it is */
    seen = LOOP_READ | LOOP_WRITE;
    f->halted = true;
  }
  if (events & (UV_READABLE | UV_DISCONNECT))
    seen |= LOOP_READ;
  if (events & UV_WRITABLE)
    seen |= LOOP_WRITE;
  if (!seen)
    return;
  if (!f->seen) { /* a big poll may show it twice: the first stamp holds */
    f->stamp_ns = stamp;
    f->next = NULL;
    *loop->pending_end = f;
    loop->pending_end = &f->next;
  }
  f->seen |= seen;
}

/* Makes libuv watch what f->want says. Starting can fail only for a descriptor that another handle
 * of this loop watches, or one that was closed under us: misuse. */
static void watch(struct loop_fd *f) {
  int events = (f->want & LOOP_READ ? UV_READABLE : 0) | (f->want & LOOP_WRITE ? UV_WRITABLE : 0);
  int rc = events ? uv_poll_start(&f->poll, events, on_poll) : uv_poll_stop(&f->poll);
  assert(rc == 0);
  (void)rc;
  f->halted = false;
}

int loop_fd_open(struct loop *loop, int fd, unsigned want, loop_fd_fn *ready, void *user,
                 struct loop_fd **out, struct err *err) {
  struct loop_fd *f = MEM_NEW(struct loop_fd);
  int rc = uv_poll_init(&loop->uv, &f->poll, fd);
  if (rc) {
    mem_free(f);
    return err_set(err, ERR_IO, "cannot watch descriptor %d: %s", fd, uv_strerror(rc));
  }
  f->loop = loop;
  f->fd = fd;
  f->ready = ready;
  f->user = user;
  f->want = want;
  if (want)
    watch(f);
  *out = f;
  return 0;
}

void loop_fd_want(struct loop_fd *f, unsigned want) {
  assert(!f->closed);
  if (f->want == want)
    return;
  f->want = want;
  watch(f);
}

int loop_fd_number(const struct loop_fd *f) {
  return f->fd;
}

static void on_closed(uv_handle_t *handle) {
  mem_free(CONTAINER_OF(handle, struct loop_fd, poll));
}

/* The memory outlives this call until the end of the wake-up, so that loop->pending may still name
 * it. */
void loop_fd_close(struct loop_fd *f) {
  assert(!f->closed);
  f->closed = true;
  uv_close((uv_handle_t *)&f->poll, on_closed);
}

void loopfd_run(struct loop *loop) {
  struct loop_fd *f = loop->pending, *next;
  loop->pending = NULL;
  loop->pending_end = &loop->pending;
  for (; f; f = next) {
    next = f->next;
    unsigned seen = f->seen;
    f->seen = 0;
    if (f->closed)
      continue;
    loop->worked = true;
    f->ready(f, f->user, seen, f->stamp_ns);
    if (!f->closed && f->halted)
      watch(f);
  }
}
