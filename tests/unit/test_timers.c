/* test_timers.c: order of firing, changes from inside callbacks, due times in the past, and when
 * the timerfd is set. Times are compared with the loop's own; nothing here depends on how fast we
 * are. */
#include "check.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/loop_internal.h"

#define MANY 1000

struct item {
  struct loop_timer timer;
  struct suite *suite;
  uint64_t due; /* what the model expects; 0 = not armed */
  uint32_t order;
};

struct suite {
  struct loop *loop;
  struct item items[MANY];
  struct item *fired[4 * MANY];
  size_t n_fired, n_stop;
  uint32_t order;
  struct rng rng;
};

static struct suite *suite_new(void (*fire)(struct loop_timer *)) {
  struct err err;
  struct suite *s = MEM_NEW(struct suite);
  s->loop = loop_new(&err);
  assert_non_null(s->loop);
  for (size_t i = 0; i < MANY; i++) {
    s->items[i].suite = s;
    loop_timer_init(&s->items[i].timer, fire);
  }
  return s;
}

static void suite_delete(struct suite *s) {
  loop_delete(s->loop);
  mem_free(s);
}

static void arm(struct item *it, uint64_t due) {
  it->due = due;
  it->order = it->suite->order++;
  loop_timer_set(it->suite->loop, &it->timer, due);
}

/* Notes the firing and checks what always holds: armed, at its time, not before. */
static struct item *note(struct loop_timer *timer) {
  struct item *it = CONTAINER_OF(timer, struct item, timer);
  struct suite *s = it->suite;
  assert_true(it->due != 0);
  assert_true(it->due == timer->due_ns);
  assert_true(loop_now(s->loop) >= it->due);
  assert_int_equal(timer->slot, 0);
  it->due = 0;
  s->fired[s->n_fired++] = it;
  if (s->n_fired == s->n_stop)
    loop_stop(s->loop);
  return it;
}

static void fire_plain(struct loop_timer *timer) {
  note(timer);
}

static int by_due(const void *a, const void *b) {
  const struct item *x = *(struct item *const *)a, *y = *(struct item *const *)b;
  if (x->timer.due_ns != y->timer.due_ns)
    return x->timer.due_ns < y->timer.due_ns ? -1 : 1;
  return x->order < y->order ? -1 : 1;
}

/* A thousand timers on 60 different times, some moved, some cleared again. */
static void fires_in_order_of_time_then_of_arming(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 5; seed++) {
    struct suite *s = suite_new(fire_plain);
    struct item *expected[MANY];
    size_t n = 0;
    rng_init(&s->rng, seed, 0);
    uint64_t base = loop_now(s->loop) - 200 * NS_PER_US; /* a few are due already */
    for (size_t i = 0; i < MANY; i++)
      arm(&s->items[i], base + (uint64_t)rng_int(&s->rng, 0, 59) * 50 * NS_PER_US);
    for (size_t i = 0; i < MANY; i += 3)
      arm(&s->items[i], base + (uint64_t)rng_int(&s->rng, 0, 59) * 50 * NS_PER_US);
    for (size_t i = 0; i < MANY; i++) {
      if (i % 7 == 0)
        loop_timer_clear(s->loop, &s->items[i].timer);
      else
        expected[n++] = &s->items[i];
    }
    qsort(expected, n, sizeof *expected, by_due);
    s->n_stop = n;
    loop_run(s->loop);
    assert_int_equal(s->n_fired, n);
    for (size_t i = 0; i < n; i++)
      if (s->fired[i] != expected[i])
        fail_msg("seed %d: place %zu has timer %td, expected %td", (int)seed, i,
                 s->fired[i] - s->items, expected[i] - s->items);
    struct loop_stats stats;
    loop_get_stats(s->loop, &stats);
    assert_int_equal(stats.timers_fired, n);
    suite_delete(s);
  }
}

/* Each firing clears, moves and arms others at random; `note` compares with the model. */
static void fire_chaos(struct loop_timer *timer) {
  struct item *it = note(timer);
  struct suite *s = it->suite;
  for (int i = 0; i < 3 && s->n_fired < 2 * MANY; i++) {
    struct item *other = &s->items[rng_int(&s->rng, 0, MANY - 1)];
    int64_t what = rng_int(&s->rng, 0, 3);
    if (what == 0 && other != it) {
      loop_timer_clear(s->loop, &other->timer);
      other->due = 0;
    } else if (what < 3) {
      uint64_t now = loop_now(s->loop);
      arm(other, (uint64_t)((int64_t)now + rng_int(&s->rng, -300, 300) * 1000));
    }
  }
  bool any = false;
  for (size_t i = 0; i < MANY && !any; i++)
    any = s->items[i].due != 0;
  if (!any)
    loop_stop(s->loop);
}

static void changes_inside_callbacks_hold(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    struct suite *s = suite_new(fire_chaos);
    rng_init(&s->rng, seed, 1);
    uint64_t base = loop_now(s->loop);
    for (size_t i = 0; i < MANY; i++)
      arm(&s->items[i], base + (uint64_t)rng_int(&s->rng, 0, 500) * NS_PER_US);
    loop_run(s->loop);
    assert_true(s->n_fired >= MANY);
    for (size_t i = 0; i < MANY; i++)
      assert_true(s->items[i].due == 0);
    suite_delete(s);
  }
}

/* ---- due in the past, from inside a callback ---- */

struct past {
  struct loop *loop;
  struct loop_timer again, other, moved, cleared;
  int n_again, n_other, n_moved, reads, fds[2];
  int again_before_other; /* rounds of `again` until `other` fired */
};

static void fire_again(struct loop_timer *t) {
  struct past *p = CONTAINER_OF(t, struct past, again);
  p->n_again++;
  if (p->n_again == 1) {
    loop_timer_set(p->loop, &p->moved, 1); /* held for the next round … */
    loop_timer_set(p->loop, &p->cleared, 1);
    loop_timer_set(p->loop, &p->moved, 2);  /* … moved there … */
    loop_timer_clear(p->loop, &p->cleared); /* … and cleared there */
    assert_int_equal(p->cleared.slot, 0);
  }
  loop_timer_set(p->loop, t, 0);
  if (p->n_again == 3)
    assert_int_equal(write(p->fds[1], "x", 1), 1);
  assert_true(p->n_again < 1000); /* the descriptor must get its turn long before */
}

static void fire_other(struct loop_timer *t) {
  struct past *p = CONTAINER_OF(t, struct past, other);
  p->n_other++;
  p->again_before_other = p->n_again;
}

static void fire_moved(struct loop_timer *t) {
  struct past *p = CONTAINER_OF(t, struct past, moved);
  assert_int_equal(p->n_again, 2); /* armed with 2 ns after `again` with 0: next round, behind it */
  p->n_moved++;
}

static void fire_never(struct loop_timer *t) {
  (void)t;
  fail_msg("a cleared timer fired");
}

static void on_readable(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  (void)stamp;
  struct past *p = user;
  assert_int_equal(events, LOOP_READ);
  p->reads++;
  loop_fd_close(f);
  loop_timer_clear(p->loop, &p->again);
  loop_stop(p->loop);
}

/* A timer that always re-arms itself in the past fires once a round and starves nobody. */
static void the_past_waits_for_the_next_round(void **state) {
  (void)state;
  struct err err;
  struct past p = {.loop = loop_new(&err)};
  struct loop_fd *f;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p.fds), 0);
  check_ok(loop_fd_open(p.loop, p.fds[0], LOOP_READ, on_readable, &p, &f, &err), &err);
  loop_timer_init(&p.again, fire_again);
  loop_timer_init(&p.other, fire_other);
  loop_timer_init(&p.moved, fire_moved);
  loop_timer_init(&p.cleared, fire_never);
  loop_timer_set(p.loop, &p.again, 0);
  loop_timer_set(p.loop, &p.other, 5); /* behind `again`, before its second firing */
  loop_run(p.loop);
  assert_int_equal(p.reads, 1);
  assert_int_equal(p.n_other, 1);
  assert_int_equal(p.again_before_other, 1);
  assert_int_equal(p.n_moved, 1);
  close(p.fds[0]);
  close(p.fds[1]);
  loop_delete(p.loop);
}

/* ---- what fires may free itself ---- */

static void fire_and_free(struct loop_timer *t) {
  struct item *it = CONTAINER_OF(t, struct item, timer);
  struct loop *loop = it->suite->loop;
  bool last = it->order == 9;
  mem_free(it);
  if (last)
    loop_stop(loop);
}

static void a_callback_may_free_its_owner(void **state) {
  (void)state;
  struct suite *s = suite_new(fire_plain);
  for (uint32_t i = 0; i < 10; i++) {
    struct item *it = MEM_NEW(struct item);
    *it = (struct item){.suite = s, .order = i};
    loop_timer_init(&it->timer, fire_and_free);
    loop_timer_set(s->loop, &it->timer, 1 + i);
  }
  loop_run(s->loop);
  suite_delete(s);
}

static void equal_times_keep_their_order_when_the_counter_wraps(void **state) {
  (void)state;
  struct suite *s = suite_new(fire_plain);
  s->loop->timers.order = UINT32_MAX - 4;
  s->n_stop = 10;
  uint64_t due = loop_now(s->loop) + NS_PER_MS;
  for (size_t i = 0; i < 10; i++)
    arm(&s->items[i], due);
  loop_run(s->loop);
  for (size_t i = 0; i < 10; i++)
    assert_ptr_equal(s->fired[i], &s->items[i]);
  suite_delete(s);
}

/* ---- the timerfd ---- */

static void the_timerfd_is_set_only_when_the_earliest_moves_forward(void **state) {
  (void)state;
  struct suite *s = suite_new(fire_plain);
  struct timers *t = &s->loop->timers;
  uint64_t now = loop_now(s->loop), far = now + 100 * NS_PER_S;
  assert_true(timers_arm(t, now));
  assert_true(t->armed_ns == UINT64_MAX);
  arm(&s->items[0], far);
  assert_true(timers_arm(t, now));
  assert_true(t->armed_ns == far);
  arm(&s->items[1], far + 1); /* later: stays */
  assert_true(timers_arm(t, now));
  assert_true(t->armed_ns == far);
  arm(&s->items[2], far - 1); /* earlier: set */
  assert_true(timers_arm(t, now));
  assert_true(t->armed_ns == far - 1);
  loop_timer_clear(s->loop, &s->items[2].timer); /* cleared: stays, wakes once for nothing … */
  assert_true(timers_arm(t, now));
  assert_true(t->armed_ns == far - 1);
  timers_ticked(t); /* … and is then set for what is there */
  assert_true(timers_arm(t, now));
  assert_true(t->armed_ns == far);
  assert_false(timers_arm(t, far)); /* due: no blocking, nothing to set */
  loop_set_precise(s->loop, true);
  assert_true(timers_arm(t, now));
  assert_true(t->armed_ns == far - 60 * NS_PER_US);
  assert_false(timers_arm(t, far - 50 * NS_PER_US));
  loop_timer_clear(s->loop, &s->items[0].timer);
  loop_timer_clear(s->loop, &s->items[0].timer); /* not armed: no effect */
  loop_timer_clear(s->loop, &s->items[1].timer);
  timers_ticked(t);
  assert_true(timers_arm(t, now));
  assert_true(t->armed_ns == UINT64_MAX);
  suite_delete(s);
}

static void precise_timers_fire_in_order_and_never_early(void **state) {
  (void)state;
  struct suite *s = suite_new(fire_plain);
  loop_set_precise(s->loop, true);
  s->n_stop = 100;
  uint64_t base = loop_now(s->loop);
  for (size_t i = 0; i < 100; i++)
    arm(&s->items[i], base + (i + 1) * 37 * NS_PER_US);
  loop_run(s->loop); /* `note` checks that none is early */
  for (size_t i = 0; i < 100; i++)
    assert_ptr_equal(s->fired[i], &s->items[i]);
  suite_delete(s);
}

/* ---- lateness ---- */

struct late {
  struct loop *loop;
  uint64_t n, sum, expected;
};

static void on_late(void *user, uint64_t late_ns) {
  struct late *l = user;
  l->n++;
  l->sum += late_ns;
}

struct late_timer {
  struct loop_timer timer;
  struct late *late;
};

/* The second one, due with the first, has to wait for it: its lateness must say so. */
static void fire_slow(struct loop_timer *t) {
  struct late *l = CONTAINER_OF(t, struct late_timer, timer)->late;
  l->expected += loop_now(l->loop) - t->due_ns;
  clock_sleep_ns(2 * NS_PER_MS);
  if (l->n == 2)
    loop_stop(l->loop);
}

static void lateness_counts_the_timers_before(void **state) {
  (void)state;
  struct err err;
  struct late l = {.loop = loop_new(&err)};
  struct late_timer two[2] = {{.late = &l}, {.late = &l}};
  loop_set_probe(l.loop, &(struct loop_probe){.timer_late = on_late, .user = &l});
  uint64_t due = loop_now(l.loop) + NS_PER_MS;
  for (int i = 0; i < 2; i++) {
    loop_timer_init(&two[i].timer, fire_slow);
    loop_timer_set(l.loop, &two[i].timer, due);
  }
  loop_run(l.loop);
  assert_int_equal(l.n, 2);
  assert_true(l.sum == l.expected);
  assert_true(l.sum >= 2 * NS_PER_MS);
  loop_set_probe(l.loop, NULL);
  loop_delete(l.loop);
}

/* It is taken by the next one that is armed, or closed when another is cleared. */
static void who_fires_leaves_a_place(void **state) {
  (void)state;
  struct suite *s = suite_new(fire_plain);
  struct item *it = s->items;
  const struct timers *t = &s->loop->timers;
  uint64_t base = loop_now(s->loop), later = base + 1000 * NS_PER_S;
  arm(&it[0], base);
  arm(&it[1], later + 1);
  arm(&it[2], later + 2);
  arm(&it[3], later);
  timers_run(s->loop);
  assert_int_equal(s->n_fired, 1);
  assert_int_equal(timers_armed(t), 3);
  assert_true(timers_next(t) == later);
  arm(&it[0], later + 3);
  assert_int_equal(timers_armed(t), 4);
  assert_true(timers_next(t) == later);
  arm(&it[4], base);
  timers_run(s->loop);
  loop_timer_clear(s->loop, &it[3].timer);
  assert_int_equal(timers_armed(t), 3);
  assert_true(timers_next(t) == later + 1);
  arm(&it[4], base);
  timers_run(s->loop);
  for (int i = 0; i < 3; i++)
    loop_timer_clear(s->loop, &it[i].timer);
  assert_int_equal(timers_armed(t), 0);
  assert_true(timers_next(t) == UINT64_MAX);
  arm(&it[4], base);
  timers_run(s->loop);
  timers_run(s->loop); /* there is a place and nobody else */
  assert_int_equal(s->n_fired, 4);
  assert_int_equal(timers_armed(t), 0);
  assert_true(timers_next(t) == UINT64_MAX);
  suite_delete(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fires_in_order_of_time_then_of_arming),
      cmocka_unit_test(changes_inside_callbacks_hold),
      cmocka_unit_test(the_past_waits_for_the_next_round),
      cmocka_unit_test(a_callback_may_free_its_owner),
      cmocka_unit_test(equal_times_keep_their_order_when_the_counter_wraps),
      cmocka_unit_test(the_timerfd_is_set_only_when_the_earliest_moves_forward),
      cmocka_unit_test(precise_timers_fire_in_order_and_never_early),
      cmocka_unit_test(lateness_counts_the_timers_before),
      cmocka_unit_test(who_fires_leaves_a_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
