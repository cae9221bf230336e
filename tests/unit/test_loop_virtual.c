/* test_loop_virtual.c: a loop whose time jumps from timer to timer; what it does when nothing is
 * left; chores by the real clock, on both kinds of loop. */
#include "check.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/loop.h"

static struct loop *new_loop(void) {
  struct err err;
  struct loop *loop = loop_new_virtual(&err);
  assert_non_null(loop);
  return loop;
}

struct ticker {
  struct loop_timer timer;
  struct loop_task task;
  struct loop *loop;
  uint64_t every_ns, at_ns[8];
  int fired, most, tasks;
};

static void on_tick(struct loop_timer *timer) {
  struct ticker *t = CONTAINER_OF(timer, struct ticker, timer);
  t->at_ns[t->fired++] = loop_now(t->loop);
  assert_int_equal(loop_now(t->loop), timer->due_ns); /* never late */
  assert_int_equal(loop_now(t->loop), loop_refresh(t->loop));
  assert_int_equal(loop_now(t->loop), loop_wakeup(t->loop));
  loop_ready(t->loop, &t->task);
  if (t->fired < t->most)
    loop_timer_set(t->loop, timer, loop_now(t->loop) + t->every_ns);
}

static void on_task(struct loop_task *task) {
  struct ticker *t = CONTAINER_OF(task, struct ticker, task);
  t->tasks++;
  assert_int_equal(loop_now(t->loop), t->at_ns[t->fired - 1]); /* the same moment still */
  if (t->fired == t->most)
    loop_stop(t->loop);
}

static void test_time_jumps(void **state) {
  (void)state;
  struct loop *loop = new_loop();
  assert_true(loop_is_virtual(loop));
  assert_int_equal(loop_now(loop), LOOP_VIRTUAL_START_NS);
  struct ticker t = {.loop = loop, .every_ns = 3600 * NS_PER_S, .most = 4, .task.run = on_task};
  loop_timer_init(&t.timer, on_tick);
  loop_timer_set(loop, &t.timer, loop_now(loop) + 1);
  uint64_t began = clock_ns();
  loop_run(loop);
  assert_true(clock_ns() - began < 60 * NS_PER_S); /* three hours */
  assert_int_equal(t.fired, 4);
  assert_int_equal(t.tasks, 4);
  for (int i = 0; i < 4; i++)
    assert_int_equal(t.at_ns[i], LOOP_VIRTUAL_START_NS + 1 + (uint64_t)i * 3600 * NS_PER_S);
  assert_int_equal(loop_now(loop), t.at_ns[3]); /* it stays where it was */
  uint64_t before = loop_clock(loop);
  assert_true(loop_clock(loop) >= before && clock_ns() - before < 60 * NS_PER_S);
  loop_delete(loop);
}

/* A due time in the past fires, and does not take the time back. */
static void test_past_due(void **state) {
  (void)state;
  struct loop *loop = new_loop();
  struct ticker t = {.loop = loop, .most = 1, .task.run = on_task};
  loop_timer_init(&t.timer, on_tick);
  loop_timer_set(loop, &t.timer, LOOP_VIRTUAL_START_NS);
  loop_run(loop);
  assert_int_equal(loop_now(loop), LOOP_VIRTUAL_START_NS);
  loop_delete(loop);
}

struct stuck {
  struct loop *loop;
  struct ticker ticker;
  int calls;
};

static void on_stuck(void *user) {
  struct stuck *s = user;
  if (s->calls++ == 0) {
    s->ticker = (struct ticker){.loop = s->loop, .most = 2, .every_ns = 5, .task.run = on_task};
    loop_timer_init(&s->ticker.timer, on_tick);
    loop_timer_set(s->loop, &s->ticker.timer, loop_now(s->loop) + 5);
  }
}

/* Nothing ready, posted or armed: it is told, and goes on when that gave it something. */
static void test_stuck(void **state) {
  (void)state;
  struct stuck s = {.loop = new_loop()};
  loop_set_stuck(s.loop, on_stuck, &s);
  loop_run(s.loop);
  assert_int_equal(s.calls, 1);
  assert_int_equal(s.ticker.fired, 2);
  assert_int_equal(loop_now(s.loop), LOOP_VIRTUAL_START_NS + 10);
  loop_delete(s.loop);
}

struct posted {
  struct loop_post post;
  struct loop *loop;
};

static void on_post(struct loop_post *post) {
  loop_stop(CONTAINER_OF(post, struct posted, post)->loop);
}

static void *post_late(void *arg) {
  struct posted *p = arg;
  clock_sleep_ns(20 * NS_PER_MS);
  loop_post(p->loop, &p->post);
  return NULL;
}

/* A post of another thread wakes a loop that has nothing else, and leaves its time alone. */
static void test_post(void **state) {
  (void)state;
  struct posted p = {.loop = new_loop(), .post.run = on_post};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, post_late, &p), 0);
  loop_run(p.loop);
  pthread_join(thread, NULL);
  assert_int_equal(loop_now(p.loop), LOOP_VIRTUAL_START_NS);
  loop_delete(p.loop);
}

struct busy {
  struct loop_chore chore;
  struct loop_timer timer;
  struct loop *loop;
  int done;
  uint64_t began;
};

static void on_chore(struct loop_chore *chore) {
  struct busy *b = CONTAINER_OF(chore, struct busy, chore);
  if (++b->done == 3) {
    loop_chore_stop(chore);
    loop_stop(b->loop);
  }
}

static void on_busy(struct loop_timer *timer) {
  struct busy *b = CONTAINER_OF(timer, struct busy, timer);
  loop_timer_set(b->loop, timer, loop_now(b->loop) + NS_PER_S);
}

/* Three times in 3 × 5 ms of real time, however many hours of its own pass meanwhile. */
static void run_chore(struct loop *loop) {
  struct busy b = {.loop = loop, .began = clock_ns()};
  loop_timer_init(&b.timer, on_busy);
  loop_timer_set(loop, &b.timer, loop_now(loop) + NS_PER_S);
  loop_chore_start(loop, &b.chore, on_chore, 5 * NS_PER_MS);
  loop_run(loop);
  assert_int_equal(b.done, 3);
  assert_true(clock_ns() - b.began >= 15 * NS_PER_MS);
  loop_timer_clear(loop, &b.timer);
  loop_chore_stop(&b.chore); /* stopped already: no effect */
  loop_delete(loop);
}

static void test_chores(void **state) {
  (void)state;
  struct err err;
  struct loop *real = loop_new(&err);
  assert_non_null(real);
  assert_false(loop_is_virtual(real));
  run_chore(real);
  run_chore(new_loop());
}

static void on_slow(struct loop_timer *timer) {
  struct busy *b = CONTAINER_OF(timer, struct busy, timer);
  clock_sleep_ns(20 * NS_PER_MS);
  if (loop_now(b->loop) >= LOOP_VIRTUAL_START_NS + 20 * NS_PER_S)
    loop_stop(b->loop);
  else
    loop_timer_set(b->loop, timer, loop_now(b->loop) + NS_PER_S);
}

/* Rounds that take long are few: chores (and with them signals) do not count rounds. */
static void test_slow_rounds(void **state) {
  (void)state;
  struct busy b = {.loop = new_loop()};
  loop_timer_init(&b.timer, on_slow);
  loop_timer_set(b.loop, &b.timer, loop_now(b.loop) + NS_PER_S);
  loop_chore_start(b.loop, &b.chore, on_chore, 5 * NS_PER_MS);
  loop_run(b.loop);
  assert_int_equal(b.done, 3); /* after three rounds or four, not after sixty-four */
  assert_true(loop_now(b.loop) < LOOP_VIRTUAL_START_NS + 8 * NS_PER_S);
  loop_timer_clear(b.loop, &b.timer);
  loop_delete(b.loop);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_time_jumps), cmocka_unit_test(test_past_due),
      cmocka_unit_test(test_stuck),      cmocka_unit_test(test_post),
      cmocka_unit_test(test_chores),     cmocka_unit_test(test_slow_rounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
