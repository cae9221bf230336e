/* loopfd.c: descriptors on a loop: stamped when the poll returns, called in phase two.
 *
 * They stand in an epoll of their own, which libuv watches. libuv's own poll asks again, up to 48
 * times, whenever 1,024 descriptors are ready at once, and those that wait for phase two are ready
 * every time: milliseconds a wake-up. Here all that is ready is asked for once. In direct wake-ups
 * (loop_internal.h) it is the other way round: libuv's epoll stands in ours. A loop_fd keeps its
 * place as long as the mask of wanted events stays the same, so a connection that is always wanted
 * for reading costs no system call between requests. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/loop_internal.h"

#define MIN_EVENTS 64
#define OWN_EVENTS 2 /* of direct wake-ups: the timerfd, libuv */

struct loop_fd {
  struct loop *loop;
  loop_fd_fn *ready;
  void *user;
  uint64_t stamp_ns;
  struct loop_fd *next; /* in loop->pending */
  struct loop_fd *all_next, *all_prev;
  unsigned want;
  unsigned seen; /* events of this wake-up; 0 = not in loop->pending */
  int fd;
  bool listed; /* in the epoll */
  bool closed;
  bool called; /* its callback runs */
};

static void note(struct loop_fd *f, uint32_t events, uint64_t stamp) {
  struct loop *loop = f->loop;
  unsigned seen = 0;
  if (events & EPOLLERR) /* whoever reads or writes learns what it is */
    seen = LOOP_READ | LOOP_WRITE;
  if (events & EPOLLHUP)
    seen |= f->want;
  if (events & EPOLLIN)
    seen |= LOOP_READ;
  if (events & EPOLLOUT)
    seen |= LOOP_WRITE;
  if (!seen)
    return;
  f->stamp_ns = stamp;
  f->next = NULL;
  *loop->pending_end = f;
  loop->pending_end = &f->next;
  f->seen = seen;
}

/* Phase one: some are ready. There is room for all, so that none is told twice. */
static void on_poll(uv_poll_t *handle, int status, int events) {
  struct loop *loop = CONTAINER_OF(handle, struct loop, fds);
  (void)status;
  (void)events;
  uint64_t stamp = loop_touch(loop);
  if (loop->pending) /* libuv polled again, for servers: what is ready has been noted */
    return;
  int n = epoll_wait(loop->epoll, loop->events, (int)loop->cap_events, 0);
  for (int i = 0; i < n; i++)
    note(loop->events[i].data.ptr, loop->events[i].events, stamp);
}

int loopfd_init(struct loop *loop, struct err *err) {
  loop->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (loop->epoll < 0)
    return err_set(err, ERR_IO, "cannot create an event loop: %s", strerror(errno));
  loop->pending_end = &loop->pending;
  loop->cap_events = MIN_EVENTS;
  loop->events = mem_alloc(MIN_EVENTS * sizeof *loop->events);
  return 0;
}

int loopfd_start(struct loop *loop) {
  int rc = uv_poll_init(&loop->uv, &loop->fds, loop->epoll);
  return rc ? rc : uv_poll_start(&loop->fds, UV_READABLE, on_poll);
}

/* ---- direct wake-ups ---- */

/* What tells the loop's own two from a loop_fd: where they are. */
static int add_own(struct loop *loop, int fd, void *tag) {
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = tag};
  return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &e);
}

static void resume_uv(struct loop *loop) {
  int rc = uv_poll_start(&loop->tick, UV_READABLE, loop_on_tick);
  if (!rc)
    rc = uv_poll_start(&loop->fds, UV_READABLE, on_poll);
  assert(rc == 0); /* it only notes them */
  (void)rc;
  uv_prepare_start(&loop->prepare, loop_before_poll);
  uv_check_start(&loop->check, loop_after_poll);
}

/* Two epolls may not watch each other: one is let go of first. */
static bool enter(struct loop *loop) {
  uv_poll_stop(&loop->fds);
  uv_poll_stop(&loop->tick);
  uv_prepare_stop(&loop->prepare);
  uv_check_stop(&loop->check);
  loop->direct = add_own(loop, loop->timers.fd, &loop->tick) == 0;
  if (loop->direct && add_own(loop, uv_backend_fd(&loop->uv), &loop->uv)) {
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, loop->timers.fd, NULL);
    loop->direct = false;
  }
  if (!loop->direct)
    resume_uv(loop);
  return loop->direct;
}

void loopfd_leave(struct loop *loop) {
  if (!loop->direct)
    return;
  loop->direct = false;
  epoll_ctl(loop->epoll, EPOLL_CTL_DEL, loop->timers.fd, NULL);
  epoll_ctl(loop->epoll, EPOLL_CTL_DEL, uv_backend_fd(&loop->uv), NULL);
  resume_uv(loop);
}

/* Whether libuv has nothing but our own handles, and nothing to do by itself: no name that was
 * looked up, nothing to close, nothing noted that its epoll does not know yet. */
static bool uv_is_quiet(const struct loop *loop) {
  unsigned own = loop->direct ? 1 : 5; /* wake; tick, fds, prepare, check */
  return loop->uv.active_handles == own && uv_backend_timeout(&loop->uv) < 0;
}

bool loopfd_direct(struct loop *loop) {
  if (loop->n_fds && uv_is_quiet(loop))
    return loop->direct || enter(loop);
  loopfd_leave(loop);
  return false;
}

void loopfd_poll(struct loop *loop, bool block) {
  int n = epoll_wait(loop->epoll, loop->events, (int)loop->cap_events, block ? -1 : 0);
  uint64_t stamp = loop_touch(loop);
  bool uv = false;
  for (int i = 0; i < n; i++) {
    void *of = loop->events[i].data.ptr;
    if (of == &loop->tick)
      timers_ticked(&loop->timers);
    else if (of == &loop->uv)
      uv = true;
    else
      note(of, loop->events[i].events, stamp);
  }
  if (uv)
    uv_run(&loop->uv, UV_RUN_NOWAIT);
}

void loopfd_free(struct loop *loop) {
  close(loop->epoll);
  mem_free(loop->events);
}

/* Puts what f->want says into the epoll: 0 or an errno. Nothing wanted: out of it, or hang-ups
 * would be told. */
static int list(struct loop_fd *f) {
  struct epoll_event e = {.events = (f->want & LOOP_READ ? EPOLLIN : 0u) |
                                    (f->want & LOOP_WRITE ? EPOLLOUT : 0u),
                          .data.ptr = f};
  int op = !f->listed ? EPOLL_CTL_ADD : f->want ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
  if (!f->listed && !f->want)
    return 0;
  if (epoll_ctl(f->loop->epoll, op, f->fd, &e))
    return errno;
  f->listed = f->want != 0;
  return 0;
}

static void join(struct loop *loop, struct loop_fd *f) {
  f->all_next = loop->all_fds;
  if (f->all_next)
    f->all_next->all_prev = f;
  loop->all_fds = f;
  if (++loop->n_fds + OWN_EVENTS <= loop->cap_events)
    return;
  loop->cap_events *= 2;
  loop->events = mem_resize(loop->events, loop->cap_events, sizeof *loop->events);
}

int loop_fd_open(struct loop *loop, int fd, unsigned want, loop_fd_fn *ready, void *user,
                 struct loop_fd **out, struct err *err) {
  struct loop_fd *f = MEM_NEW(struct loop_fd);
  *f = (struct loop_fd){
      .loop = loop, .fd = fd, .ready = ready, .user = user, .want = want ? want : LOOP_READ};
  int flags = fcntl(fd, F_GETFL), rc = flags < 0 ? errno : 0;
  if (!rc && !(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK))
    rc = errno;
  if (!rc)
    rc = list(f);
  if (rc) {
    mem_free(f);
    return err_set(err, ERR_IO, "cannot watch descriptor %d: %s", fd, uv_strerror(-rc));
  }
  join(loop, f);
  loop_fd_want(f, want);
  *out = f;
  return 0;
}

/* Changing can fail only for a descriptor that was closed under us: misuse. */
void loop_fd_want(struct loop_fd *f, unsigned want) {
  assert(!f->closed);
  if (f->want == want)
    return;
  f->want = want;
  int rc = list(f);
  assert(rc == 0);
  (void)rc;
}

int loop_fd_number(const struct loop_fd *f) {
  return f->fd;
}

void loopfd_name_open(const struct loop *loop) {
  for (const struct loop_fd *f = loop->all_fds; f; f = f->all_next)
    log_error("loop_delete: still open: poll, descriptor %d", f->fd);
}

/* As long as loop->pending names it, or its own callback runs, the memory stays. */
void loop_fd_close(struct loop_fd *f) {
  assert(!f->closed);
  f->closed = true;
  f->want = 0;
  if (f->listed)
    (void)list(f); /* it may be closed already, and then it is out */
  if (f->all_prev)
    f->all_prev->all_next = f->all_next;
  else
    f->loop->all_fds = f->all_next;
  if (f->all_next)
    f->all_next->all_prev = f->all_prev;
  f->loop->n_fds--;
  if (!f->seen && !f->called)
    mem_free(f);
}

void loopfd_run(struct loop *loop) {
  struct loop_fd *f = loop->pending, *next;
  loop->pending = NULL;
  loop->pending_end = &loop->pending;
  for (; f; f = next) {
    next = f->next;
    unsigned seen = f->seen;
    f->seen = 0;
    if (!f->closed) {
      loop->worked = true;
      f->called = true;
      f->ready(f, f->user, seen, f->stamp_ns);
      f->called = false;
    }
    if (f->closed)
      mem_free(f);
  }
}
