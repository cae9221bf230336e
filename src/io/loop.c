/* loop.c: the wake-up: poll, stamp, descriptors, timers, posts, ready list.
 *
 * uv_run gives the frame: its prepare callback runs before the poll and its check callback after
 * it. uv callbacks of servers (uv_tcp) run inside the poll; loop_now is right there too, because
 * the first reader after a poll takes the stamp. */
#include "io/loop.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/loop_internal.h"

/* The wall clock steps seldom; looking once a second is enough to convert kernel stamps. */
#define OFFSET_AGE_NS NS_PER_S
/* See loop_unhurried. A nap costs about as much as two wake-ups that it saves. */
#define NAP_NS (50 * NS_PER_US)
#define NAP_PAYS 3

uint64_t loop_touch(struct loop *loop) {
  if (loop->stale) {
    loop->stale = false;
    loop->now_ns = loop->woke_ns = clock_ns();
  }
  return loop->now_ns;
}

/* Asking for the time inside the poll means that a uv callback has work there. */
uint64_t loop_now(const struct loop *loop) {
  if (loop->is_virtual)
    return loop->now_ns;
  if (!loop->running)
    return clock_ns();
  if (!loop->polling)
    return loop->now_ns;
  struct loop *own = (struct loop *)loop; /* never a const object; readers see no change */
  own->worked = true;
  return loop_touch(own);
}

uint64_t loop_refresh(struct loop *loop) {
  if (loop->is_virtual)
    return loop->now_ns;
  if (loop->polling)
    loop_now(loop);
  return loop->now_ns = clock_ns();
}

uint64_t loop_clock(struct loop *loop) {
  return loop->is_virtual ? clock_ns() : loop_refresh(loop);
}

uint64_t loop_wakeup(struct loop *loop) {
  if (loop->is_virtual)
    return loop->now_ns;
  loop_now(loop);
  return loop->running ? loop->woke_ns : clock_ns();
}

int64_t loop_realtime_offset(const struct loop *loop) {
  return loop->offset_ns;
}

static void measure_offset(struct loop *loop) {
  loop->offset_ns = clock_realtime_offset_ns();
  loop->offset_at_ns = loop->now_ns;
}

/* ---- ready list ---- */

static void ring_init(struct loop_task *head) {
  head->next = head->prev = head;
}

void loop_ready(struct loop *loop, struct loop_task *task) {
  if (task->queued)
    return;
  task->queued = true;
  task->next = &loop->ready;
  task->prev = loop->ready.prev;
  task->prev->next = task;
  loop->ready.prev = task;
}

void loop_unready(struct loop *loop, struct loop_task *task) {
  (void)loop; /* a ring needs no owner to leave it */
  if (!task->queued)
    return;
  task->queued = false;
  task->prev->next = task->next;
  task->next->prev = task->prev;
}

void loop_run_ready(struct loop *loop) {
  if (loop->ready.next == &loop->ready)
    return;
  struct loop_task round; /* takes over the ring; newcomers go to the emptied one */
  round.next = loop->ready.next;
  round.prev = loop->ready.prev;
  round.next->prev = round.prev->next = &round;
  ring_init(&loop->ready);
  loop->worked = true;
  while (round.next != &round) {
    struct loop_task *task = round.next;
    loop_unready(loop, task);
    task->run(task);
  }
}

/* ---- posts ---- */

void loop_post(struct loop *loop, struct loop_post *post) {
  struct loop_post *head = __atomic_load_n(&loop->posts, __ATOMIC_RELAXED);
  do {
    post->next = head;
  } while (!__atomic_compare_exchange_n(&loop->posts, &head, post, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
  if (!head) /* others rely on the one that found it empty */
    uv_async_send(&loop->wake);
}

void loop_run_posts(struct loop *loop) {
  if (!__atomic_load_n(&loop->posts, __ATOMIC_RELAXED))
    return;
  struct loop_post *newest = __atomic_exchange_n(&loop->posts, NULL, __ATOMIC_ACQUIRE);
  struct loop_post *first = NULL;
  while (newest) {
    struct loop_post *older = newest->next;
    newest->next = first;
    first = newest;
    newest = older;
  }
  loop->worked = true;
  while (first) {
    struct loop_post *post = first;
    first = post->next; /* read before run: it may free the post or post it again */
    post->run(post);
  }
}

/* ---- the wake-up ---- */

static void on_wake(uv_async_t *handle) {
  loop_touch(handle->loop->data);
}

void loop_on_tick(uv_poll_t *handle, int status, int events) {
  (void)status;
  (void)events;
  struct loop *loop = handle->loop->data;
  loop_touch(loop);
  timers_ticked(&loop->timers);
}

static void on_spin(uv_idle_t *handle) {
  (void)handle;
}

static void end_wakeup(struct loop *loop, uint64_t now) {
  if (!loop->worked)
    return;
  loop->worked = false;
  uint64_t busy = now - loop->woke_ns;
  loop->stats.wakeups++;
  loop->stats.busy_ns += busy;
  if (loop->probe.wakeup_busy)
    loop->probe.wakeup_busy(loop->probe.user, busy);
}

/* Ends the wake-up before; returns whether the poll may block. */
static bool settle(struct loop *loop) {
  uint64_t now = loop->settled_ns = clock_ns();
  end_wakeup(loop, now);
  bool block = timers_arm(&loop->timers, now);
  loop->stale = loop->polling = true;
  return block && loop->ready.next == &loop->ready && !loop->again && !loop->stop;
}

/* ---- naps ---- */

void loop_unhurried(struct loop *loop, size_t n) {
  loop->unhurried += n;
}

static bool nap_pays(struct loop *loop) {
  if (!loop->unhurried)
    return false;
  uint64_t now = loop->settled_ns, next = timers_next(&loop->timers);
  double came = (double)loop->unhurried * (double)NAP_NS / (double)(now - loop->calm_ns + 1);
  loop->gathering += (came - loop->gathering) / 4;
  loop->calm_ns = now;
  return loop->gathering >= NAP_PAYS && !loop->timers.precise && next > now &&
         next - now > 2 * NAP_NS;
}

/* Sleeps have 50 µs of slack unless their thread says otherwise. */
static void nap(struct loop *loop) {
  if (!loop->prompt)
    prctl(PR_SET_TIMERSLACK, NS_PER_US);
  loop->prompt = true;
  loop->stats.naps++;
  clock_sleep_ns(NAP_NS);
}

/* ---- turns ---- */

void loop_before_poll(uv_prepare_t *handle) {
  struct loop *loop = handle->loop->data;
  if (settle(loop))
    uv_idle_stop(&loop->spin);
  else
    uv_idle_start(&loop->spin, on_spin);
}

static void run_idle(struct loop *loop) {
  loop->again = false;
  if (!loop->idle || loop->ready.next != &loop->ready)
    return;
  uint64_t next = timers_next(&loop->timers), now = loop_refresh(loop);
  if (next > now && next - now > loop->idle_quiet_ns)
    loop->again = loop->idle(loop->idle_user);
}

static void work(struct loop *loop) {
  loop->polling = false;
  loop->unhurried = 0;
  loop_touch(loop);
  if (loop->now_ns - loop->offset_at_ns > OFFSET_AGE_NS)
    measure_offset(loop);
  loopfd_run(loop);
  timers_run(loop);
  loop_run_posts(loop);
  loop_run_ready(loop);
  run_idle(loop);
}

void loop_after_poll(uv_check_t *handle) {
  work(handle->loop->data);
}

void loop_run(struct loop *loop) {
  assert(!loop->running);
  if (loop->is_virtual) {
    loop_run_virtual(loop);
    return;
  }
  loop->running = true;
  loop->now_ns = loop->woke_ns = clock_ns();
  while (!loop->stop) {
    uv_idle_stop(&loop->spin); /* a turn that finds it active does not wait, whatever comes */
    if (loopfd_direct(loop)) {
      bool block = settle(loop);
      if (block && nap_pays(loop))
        nap(loop);
      loopfd_poll(loop, block);
      work(loop);
    } else {
      uv_run(&loop->uv, UV_RUN_ONCE);
    }
  }
  loop->stop = false;
  loopfd_leave(loop);
  end_wakeup(loop, clock_ns());
  loop->running = false;
}

void loop_stop(struct loop *loop) {
  loop->stop = true;
}

struct uv_loop_s *loop_uv(struct loop *loop) {
  return &loop->uv;
}

/* ---- settings and figures ---- */

void loop_set_precise(struct loop *loop, bool precise) {
  loop->timers.precise = precise;
  timers_ticked(&loop->timers); /* forget what it was set to */
}

void loop_set_idle(struct loop *loop, bool (*fn)(void *user), void *user, uint64_t quiet_ns) {
  loop->idle = fn;
  loop->idle_user = user;
  loop->idle_quiet_ns = quiet_ns;
}

void loop_get_stats(const struct loop *loop, struct loop_stats *out) {
  *out = loop->stats;
  out->cpu_ns = clock_thread_cpu_ns() - loop->cpu_start_ns;
}

void loop_set_probe(struct loop *loop, const struct loop_probe *probe) {
  loop->probe = probe ? *probe : (struct loop_probe){0};
}

/* ---- life ---- */

/* libuv writes to sockets without MSG_NOSIGNAL: a client that went away must not kill us. */
static void ignore_sigpipe(void) {
  struct sigaction old;
  if (sigaction(SIGPIPE, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
    signal(SIGPIPE, SIG_IGN);
}

struct loop *loop_new(struct err *err) {
  struct loop *loop = MEM_NEW(struct loop);
  if (timers_init(&loop->timers, err))
    goto out;
  if (loopfd_init(loop, err))
    goto out_timers;
  int rc = uv_loop_init(&loop->uv);
  if (rc) {
    err_set(err, ERR_IO, "cannot create an event loop: %s", uv_strerror(rc));
    goto out_fds;
  }
  loop->uv.data = loop;
  rc = uv_async_init(&loop->uv, &loop->wake, on_wake);
  if (!rc)
    rc = uv_poll_init(&loop->uv, &loop->tick, loop->timers.fd);
  if (!rc)
    rc = uv_poll_start(&loop->tick, UV_READABLE, loop_on_tick);
  if (!rc)
    rc = loopfd_start(loop);
  assert(rc == 0); /* uv_loop_init has an async of its own, so these ask for nothing new */
  uv_prepare_init(&loop->uv, &loop->prepare);
  uv_prepare_start(&loop->prepare, loop_before_poll);
  uv_check_init(&loop->uv, &loop->check);
  uv_check_start(&loop->check, loop_after_poll);
  uv_idle_init(&loop->uv, &loop->spin);
  ring_init(&loop->ready);
  loop->now_ns = loop->stats.started_ns = clock_ns();
  loop->cpu_start_ns = clock_thread_cpu_ns();
  measure_offset(loop);
  ignore_sigpipe();
  return loop;

out_fds:
  loopfd_free(loop);
out_timers:
  timers_free(&loop->timers);
out:
  mem_free(loop);
  return NULL;
}

static bool is_ours(const struct loop *loop, const uv_handle_t *h) {
  return h == (const uv_handle_t *)&loop->prepare || h == (const uv_handle_t *)&loop->check ||
         h == (const uv_handle_t *)&loop->spin || h == (const uv_handle_t *)&loop->wake ||
         h == (const uv_handle_t *)&loop->tick || h == (const uv_handle_t *)&loop->fds;
}

static void count_left(uv_handle_t *h, void *arg) {
  size_t *n = arg;
  if (is_ours(h->loop->data, h) || uv_is_closing(h))
    return;
  uv_os_fd_t fd = -1;
  uv_fileno(h, &fd);
  log_error("loop_delete: still open: %s, descriptor %d", uv_handle_type_name(h->type), fd);
  ++*n;
}

void loop_delete(struct loop *loop) {
  assert(!loop->running);
  size_t left = 0;
  uv_walk(&loop->uv, count_left, &left);
  loopfd_name_open(loop);
  left += loop->n_fds;
  size_t armed = timers_armed(&loop->timers);
  if (armed)
    log_error("loop_delete: still armed: %zu timers", armed);
  if (loop->posts)
    log_error("loop_delete: posts that have not run");
  assert(left == 0 && armed == 0 && loop->posts == NULL);
  uv_close((uv_handle_t *)&loop->prepare, NULL);
  uv_close((uv_handle_t *)&loop->check, NULL);
  uv_close((uv_handle_t *)&loop->spin, NULL);
  uv_close((uv_handle_t *)&loop->wake, NULL);
  uv_close((uv_handle_t *)&loop->tick, NULL);
  uv_close((uv_handle_t *)&loop->fds, NULL);
  uv_run(&loop->uv, UV_RUN_DEFAULT); /* only closing handles are left: it returns */
  int rc = uv_loop_close(&loop->uv);
  assert(rc == 0);
  (void)rc;
  loopfd_free(loop);
  timers_free(&loop->timers);
  mem_free(loop);
}
