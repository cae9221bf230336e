/* timers.c: the timer heap of a loop and the one timerfd behind it.
 *
 * The timerfd is absolute, so lateness does not add up. It is set again only when the earliest due
 * time moves forward or has passed: a cleared timer leaves it as it is, and at worst the loop wakes
 * once for nothing. That keeps a request with a timeout free of system calls for its timer.
 *
 * Who fires is mostly armed again soon, for a time that is near: its place at the top stays empty
 * until then, which spares moving the heap's last one through all of it, twice. */
#include "io/loop_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define HELD UINT32_C(0x80000000) /* in slot: the index is one of `held` */

/* `precise`: the timerfd goes off this early (a sleeping core takes tens of µs to wake). */
#define EARLY_NS (60 * NS_PER_US)
/* Until this near the spin polls descriptors too, so that their stamps stay good. */
#define TIGHT_NS (4 * NS_PER_US)

int timers_init(struct timers *t, struct err *err) {
  *t = (struct timers){.armed_ns = UINT64_MAX};
  t->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (t->fd < 0)
    return err_set(err, ERR_IO, "cannot create a timer descriptor: %s", strerror(errno));
  return 0;
}

void timers_free(struct timers *t) {
  close(t->fd);
  mem_free(t->heap);
  mem_free(t->held);
}

static bool before(const struct timer_at *a, const struct timer_at *b) {
  if (a->due_ns != b->due_ns)
    return a->due_ns < b->due_ns;
  return (int32_t)(a->order - b->order) < 0; /* right also where the counter wraps */
}

static void put(struct timers *t, size_t i, const struct timer_at *at) {
  t->heap[i] = *at;
  at->timer->slot = (uint32_t)i + 1;
}

static void sift_up(struct timers *t, size_t i, const struct timer_at *at) {
  while (i > 0 && before(at, &t->heap[(i - 1) / 2])) {
    put(t, i, &t->heap[(i - 1) / 2]);
    i = (i - 1) / 2;
  }
  put(t, i, at);
}

static void sift_down(struct timers *t, size_t i, const struct timer_at *at) {
  for (size_t child; (child = 2 * i + 1) < t->n; i = child) {
    if (child + 1 < t->n && before(&t->heap[child + 1], &t->heap[child]))
      child++;
    if (!before(&t->heap[child], at))
      break;
    put(t, i, &t->heap[child]);
  }
  put(t, i, at);
}

/* Puts `at` where its order belongs, starting from the hole at i. */
static void settle(struct timers *t, size_t i, const struct timer_at *at) {
  if (i > 0 && before(at, &t->heap[(i - 1) / 2]))
    sift_up(t, i, at);
  else
    sift_down(t, i, at);
}

/* Nobody was armed: the last one fills the place at the top. */
static void close_hole(struct timers *t) {
  if (!t->hole)
    return;
  t->hole = false;
  struct timer_at last = t->heap[--t->n];
  if (t->n)
    sift_down(t, 0, &last);
}

static void detach(struct timers *t, struct loop_timer *timer) {
  close_hole(t);
  size_t i = (timer->slot & ~HELD) - 1;
  if (timer->slot & HELD) {
    struct loop_timer *last = t->held[--t->n_held];
    t->held[i] = last; /* their place does not matter, `order` keeps the sequence */
    last->slot = timer->slot;
  } else {
    struct timer_at last = t->heap[--t->n];
    if (last.timer != timer)
      settle(t, i, &last);
  }
  timer->slot = 0;
}

static void insert(struct timers *t, struct loop_timer *timer) {
  struct timer_at at = {.due_ns = timer->due_ns, .timer = timer, .order = timer->order};
  if (t->hole) {
    t->hole = false;
    sift_down(t, 0, &at);
    return;
  }
  MEM_GROW(t->heap, t->n, t->cap);
  sift_up(t, t->n++, &at);
}

void loop_timer_init(struct loop_timer *t, void (*fire)(struct loop_timer *)) {
  *t = (struct loop_timer){.fire = fire};
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t due_ns) {
  struct timers *t = &loop->timers;
  if (timer->slot)
    detach(t, timer);
  timer->due_ns = due_ns;
  timer->order = t->order++;
  if (t->firing && due_ns <= t->limit_ns) {
    MEM_GROW(t->held, t->n_held, t->cap_held);
    t->held[t->n_held++] = timer;
    timer->slot = HELD | (uint32_t)t->n_held;
  } else {
    insert(t, timer);
  }
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer) {
  if (timer->slot)
    detach(&loop->timers, timer);
}

uint64_t timers_next(const struct timers *t) {
  uint64_t next = UINT64_MAX;
  if (!t->hole)
    return t->n ? t->heap[0].due_ns : next;
  for (size_t i = 1; i < t->n && i < 3; i++)
    next = t->heap[i].due_ns < next ? t->heap[i].due_ns : next;
  return next;
}

size_t timers_armed(const struct timers *t) {
  return t->n - t->hole;
}

void timers_ticked(struct timers *t) {
  t->armed_ns = 0; /* passed: timers_arm sets it anew, and setting also clears the readiness */
}

static void set_timerfd(struct timers *t, uint64_t ns) {
  struct itimerspec spec = {0};
  if (ns != UINT64_MAX) {
    spec.it_value.tv_sec = (time_t)(ns / NS_PER_S);
    spec.it_value.tv_nsec = (long)(ns % NS_PER_S);
  }
  int rc = timerfd_settime(t->fd, TFD_TIMER_ABSTIME, &spec, NULL);
  assert(rc == 0);
  (void)rc;
  t->armed_ns = ns;
}

bool timers_arm(struct timers *t, uint64_t now) {
  uint64_t next = timers_next(t);
  uint64_t early = t->precise ? EARLY_NS : 0;
  if (next != UINT64_MAX && (next <= early || next - early <= now))
    return false; /* a tick that has been seen stays readable, which does no harm: no block */
  uint64_t want = next == UINT64_MAX ? UINT64_MAX : next - early;
  if (want < t->armed_ns || t->armed_ns <= now)
    set_timerfd(t, want);
  return true;
}

void timers_run(struct loop *loop) {
  struct timers *t = &loop->timers;
  if (!t->n)
    return;
  uint64_t now = loop_refresh(loop);
  uint64_t next = timers_next(t);
  if (t->precise && next > now && next - now <= TIGHT_NS)
    while (now < next)
      now = loop_refresh(loop);
  t->firing = true;
  t->limit_ns = now;
  while (t->n && timers_next(t) <= t->limit_ns) {
    close_hole(t);
    struct loop_timer *timer = t->heap[0].timer;
    timer->slot = 0;
    t->hole = true;
    loop->worked = true;
    loop->stats.timers_fired++;
    now = loop_refresh(loop); /* the ones before took time: lateness counts it */
    if (loop->probe.timer_late)
      loop->probe.timer_late(loop->probe.user, now - timer->due_ns);
    timer->fire(timer);
  }
  t->firing = false;
  for (size_t i = 0; i < t->n_held; i++)
    insert(t, t->held[i]);
  t->n_held = 0;
}
