/* loop_virtual.c: a loop whose time is its own, and chores, which go by the real clock on any loop.
 *
 * A round is what a wake-up is elsewhere: timers that are due, posts, the ready list. Between two
 * rounds the time stands still while anything is ready, and jumps to the next timer else. What
 * comes from outside (signals, posts of other threads) is looked at now and then. */
#include "base/clock.h"
#include "io/loop_internal.h"

#define LOOK_NS (2 * NS_PER_MS) /* between two looks at what comes from outside */

struct loop *loop_new_virtual(struct err *err) {
  struct loop *loop = loop_new(err);
  if (!loop)
    return NULL;
  uv_poll_stop(&loop->tick);
  uv_poll_stop(&loop->fds);
  uv_prepare_stop(&loop->prepare);
  uv_check_stop(&loop->check);
  loop->is_virtual = true;
  loop->offset_ns += (int64_t)loop->now_ns - (int64_t)LOOP_VIRTUAL_START_NS;
  loop->now_ns = loop->woke_ns = LOOP_VIRTUAL_START_NS;
  return loop;
}

bool loop_is_virtual(const struct loop *loop) {
  return loop->is_virtual;
}

void loop_set_stuck(struct loop *loop, void (*fn)(void *user), void *user) {
  loop->stuck = fn;
  loop->stuck_user = user;
}

static bool is_idle(const struct loop *loop) {
  return loop->ready.next == &loop->ready && !__atomic_load_n(&loop->posts, __ATOMIC_RELAXED);
}

static void run_chores(struct loop *loop, uint64_t now) {
  for (struct loop_chore *c = loop->chores, *next; c; c = next) {
    next = c->next; /* a chore may stop itself, no other */
    if (c->due_ns > now)
      continue;
    c->due_ns = now + c->every_ns;
    c->run(c);
  }
}

static void look_around(struct loop *loop) {
  uint64_t now = clock_coarse_ns(); /* asked each round: nobody knows how long one takes */
  if (now - loop->looked_ns < LOOK_NS)
    return;
  loop->looked_ns = now;
  uv_run(&loop->uv, UV_RUN_NOWAIT);
  run_chores(loop, now);
}

/* Nothing is ready, posted or armed: only a signal or another thread can help. */
static void wait_outside(struct loop *loop) {
  if (loop->stuck) {
    loop->stuck(loop->stuck_user);
    if (loop->stop || !is_idle(loop) || timers_next(&loop->timers) != UINT64_MAX)
      return;
  }
  uv_run(&loop->uv, UV_RUN_ONCE);
}

void loop_run_virtual(struct loop *loop) {
  loop->running = true;
  while (!loop->stop) {
    look_around(loop);
    if (is_idle(loop)) {
      uint64_t next = timers_next(&loop->timers);
      if (next == UINT64_MAX)
        wait_outside(loop);
      else if (next > loop->now_ns)
        loop->now_ns = loop->woke_ns = next;
    }
    timers_run(loop);
    loop_run_posts(loop);
    loop_run_ready(loop);
    loop->stats.wakeups++;
  }
  loop->stop = false;
  loop->running = false;
}

/* ---- chores ---- */

static void on_chore_timer(struct loop_timer *timer) {
  struct loop_chore *c = CONTAINER_OF(timer, struct loop_chore, timer);
  loop_timer_set(c->loop, &c->timer, loop_now(c->loop) + c->every_ns);
  c->run(c);
}

void loop_chore_start(struct loop *loop, struct loop_chore *c,
                      void (*run)(struct loop_chore *chore), uint64_t every_ns) {
  *c = (struct loop_chore){.run = run, .loop = loop, .every_ns = every_ns};
  loop_timer_init(&c->timer, on_chore_timer);
  if (!loop->is_virtual) {
    loop_timer_set(loop, &c->timer, loop_now(loop) + every_ns);
    return;
  }
  c->due_ns = clock_ns() + every_ns;
  c->next = loop->chores;
  loop->chores = c;
}

void loop_chore_stop(struct loop_chore *c) {
  if (!c->loop)
    return;
  loop_timer_clear(c->loop, &c->timer);
  struct loop_chore **at = &c->loop->chores;
  while (*at && *at != c)
    at = &(*at)->next;
  if (*at)
    *at = c->next;
  c->loop = NULL;
}
