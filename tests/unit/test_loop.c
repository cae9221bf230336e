/* test_loop.c: the phases of a wake-up, the ready list, posts from threads, the idle function, the
 * figures, and that a loop with something open does not go away in silence. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/loop_internal.h"

/* ---- phases ---- */

struct phases {
  struct loop *loop;
  struct loop_fd *f;
  struct loop_timer timer;
  struct loop_task task, late;
  struct loop_post post;
  char log[32];
  uint64_t now;
};

static void add(struct phases *p, char c) {
  p->log[strlen(p->log)] = c;
}

static void fd_phase(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  (void)f;
  (void)events;
  struct phases *p = user;
  assert_true(stamp == loop_now(p->loop));
  p->now = stamp;
  add(p, 'f');
  loop_ready(p->loop, &p->task);
  loop_stop(p->loop); /* the wake-up is finished all the same */
}

static void timer_phase(struct loop_timer *t) {
  struct phases *p = CONTAINER_OF(t, struct phases, timer);
  assert_true(loop_now(p->loop) >= p->now);
  add(p, 't');
}

static void post_phase(struct loop_post *post) {
  add(CONTAINER_OF(post, struct phases, post), 'p');
}

static void late_phase(struct loop_task *task) {
  add(CONTAINER_OF(task, struct phases, late), 'l');
}

static void task_phase(struct loop_task *task) {
  struct phases *p = CONTAINER_OF(task, struct phases, task);
  uint64_t now = loop_now(p->loop);
  clock_sleep_ns(NS_PER_US);
  assert_true(loop_now(p->loop) == now); /* stands still … */
  assert_true(loop_refresh(p->loop) > now);
  assert_true(loop_now(p->loop) > now); /* … until asked to move on */
  add(p, 'r');
  loop_ready(p->loop, &p->late); /* next round: after the stop */
}

static void a_wakeup_runs_descriptors_timers_posts_ready(void **state) {
  (void)state;
  struct err err;
  int fds[2];
  struct phases p = {.loop = loop_new(&err),
                     .task.run = task_phase,
                     .late.run = late_phase,
                     .post.run = post_phase};
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  check_ok(loop_fd_open(p.loop, fds[0], LOOP_READ, fd_phase, &p, &p.f, &err), &err);
  loop_timer_init(&p.timer, timer_phase);
  loop_timer_set(p.loop, &p.timer, 1);
  loop_post(p.loop, &p.post);
  assert_int_equal(write(fds[1], "x", 1), 1);
  loop_run(p.loop);
  assert_string_equal(p.log, "ftpr");
  char byte;
  assert_int_equal(read(fds[0], &byte, 1), 1);
  loop_stop(p.loop); /* asked before it runs: returns at once, runs nothing */
  loop_run(p.loop);
  assert_string_equal(p.log, "ftpr");
  loop_unready(p.loop, &p.late);
  loop_fd_close(p.f);
  close(fds[0]);
  close(fds[1]);
  loop_delete(p.loop);
}

/* ---- ready list ---- */

struct fifo;
struct named {
  struct loop_task task;
  struct fifo *fifo;
  char name;
  void (*also)(struct fifo *);
};

struct fifo {
  struct loop *loop;
  struct named a, b, c, d;
  struct loop_fd *f;
  char log[64];
};

static void run_named(struct loop_task *task) {
  struct named *n = CONTAINER_OF(task, struct named, task);
  n->fifo->log[strlen(n->fifo->log)] = n->name;
  if (n->also)
    n->also(n->fifo);
}

static void fifo_init(struct fifo *f) {
  struct err err;
  *f = (struct fifo){.loop = loop_new(&err)};
  struct named *all[] = {&f->a, &f->b, &f->c, &f->d};
  for (int i = 0; i < 4; i++)
    *all[i] = (struct named){.task.run = run_named, .fifo = f, .name = (char)('a' + i)};
}

static void stop(struct fifo *f) {
  loop_stop(f->loop);
}

static void drop_c(struct fifo *f) {
  loop_unready(f->loop, &f->c.task);
  loop_unready(f->loop, &f->c.task); /* not queued: no effect */
}

static void ready_is_first_in_first_out(void **state) {
  (void)state;
  struct fifo f;
  fifo_init(&f);
  f.d.also = stop;
  loop_ready(f.loop, &f.b.task);
  loop_ready(f.loop, &f.a.task);
  loop_ready(f.loop, &f.b.task); /* queued: once */
  loop_ready(f.loop, &f.c.task);
  loop_ready(f.loop, &f.d.task);
  loop_run(f.loop);
  assert_string_equal(f.log, "bacd");
  loop_ready(f.loop, &f.a.task); /* free again after it ran */
  loop_ready(f.loop, &f.c.task);
  loop_ready(f.loop, &f.d.task);
  loop_unready(f.loop, &f.a.task);
  loop_run(f.loop);
  assert_string_equal(f.log, "bacdcd");
  f.a.also = drop_c; /* taken out while the round runs, from the middle … */
  loop_ready(f.loop, &f.a.task);
  loop_ready(f.loop, &f.c.task);
  loop_ready(f.loop, &f.d.task);
  loop_run(f.loop);
  assert_string_equal(f.log, "bacdcdad");
  loop_ready(f.loop, &f.d.task); /* … and from the end */
  loop_ready(f.loop, &f.a.task);
  loop_ready(f.loop, &f.c.task);
  loop_run(f.loop);
  assert_string_equal(f.log, "bacdcdadda");
  loop_delete(f.loop);
}

static void again_a(struct fifo *f) {
  loop_ready(f->loop, &f->a.task);
  assert_true(strlen(f->log) < 60); /* the descriptor must come in between */
}

static void on_turn(struct loop_fd *fd, void *user, unsigned events, uint64_t stamp) {
  (void)events;
  (void)stamp;
  struct fifo *f = user;
  f->log[strlen(f->log)] = '.';
  if (strlen(f->log) > 8) {
    loop_unready(f->loop, &f->a.task);
    loop_fd_close(fd);
    loop_stop(f->loop);
  }
}

/* A task that always queues itself runs once a round, with the descriptors polled in between. */
static void ready_tasks_do_not_starve_descriptors(void **state) {
  (void)state;
  struct err err;
  struct fifo f;
  int fds[2];
  fifo_init(&f);
  f.a.also = again_a;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  check_ok(loop_fd_open(f.loop, fds[0], LOOP_WRITE, on_turn, &f, &f.f, &err), &err);
  loop_ready(f.loop, &f.a.task);
  loop_run(f.loop);
  assert_string_equal(f.log, ".a.a.a.a.");
  close(fds[0]);
  close(fds[1]);
  loop_delete(f.loop);
}

/* ---- posts ---- */

#define THREADS 4
#define POSTS 10000

struct posted {
  struct loop_post post;
  struct poster *poster;
  int number;
};

struct poster {
  struct loop *loop;
  int *arrived; /* of all threads */
  pthread_t thread;
  pthread_t loop_thread;
  int next;
};

static void on_post(struct loop_post *post) {
  struct posted *p = CONTAINER_OF(post, struct posted, post);
  assert_true(pthread_equal(pthread_self(), p->poster->loop_thread));
  assert_int_equal(p->number, p->poster->next++); /* a thread's posts keep their order */
  if (++*p->poster->arrived == THREADS * POSTS)
    loop_stop(p->poster->loop);
  mem_free(p);
}

static void *post_many(void *arg) {
  struct poster *poster = arg;
  for (int i = 0; i < POSTS; i++) {
    struct posted *p = MEM_NEW(struct posted);
    *p = (struct posted){.post.run = on_post, .poster = poster, .number = i};
    loop_post(poster->loop, &p->post);
    if (i % 1000 == 999)
      clock_sleep_ns(200 * NS_PER_US); /* let the loop fall asleep now and then */
  }
  return NULL;
}

static void posts_of_four_threads_all_arrive(void **state) {
  (void)state;
  struct err err;
  struct loop *loop = loop_new(&err);
  struct poster posters[THREADS];
  int arrived = 0;
  for (int i = 0; i < THREADS; i++) {
    posters[i] = (struct poster){.loop = loop, .arrived = &arrived, .loop_thread = pthread_self()};
    assert_int_equal(pthread_create(&posters[i].thread, NULL, post_many, &posters[i]), 0);
  }
  loop_run(loop);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(posters[i].thread, NULL);
    assert_int_equal(posters[i].next, POSTS);
  }
  assert_int_equal(arrived, THREADS * POSTS);
  loop_delete(loop);
}

struct repost {
  struct loop_post post;
  struct loop *loop;
  int runs;
};

static void post_again(struct loop_post *post) {
  struct repost *r = CONTAINER_OF(post, struct repost, post);
  if (++r->runs == 3)
    loop_stop(r->loop);
  else
    loop_post(r->loop, post); /* it is ours again while it runs */
}

static void a_post_may_be_posted_again(void **state) {
  (void)state;
  struct err err;
  struct repost r = {.post.run = post_again, .loop = loop_new(&err)};
  loop_post(r.loop, &r.post);
  loop_run(r.loop);
  assert_int_equal(r.runs, 3);
  loop_delete(r.loop);
}

/* ---- idle ---- */

struct idle {
  struct loop *loop;
  struct loop_timer timer;
  struct loop_task task;
  int calls, want, fired, calls_at_fire, ran, rounds;
};

static bool on_idle(void *user) {
  struct idle *i = user;
  assert_false(i->task.queued); /* never while a task waits */
  if (++i->calls < i->want)
    return true;
  if (i->calls == i->want) /* wakes it from the sleep that must follow now */
    loop_timer_set(i->loop, &i->timer, loop_now(i->loop) + 20 * NS_PER_MS);
  return false;
}

static void idle_fire(struct loop_timer *t) {
  struct idle *i = CONTAINER_OF(t, struct idle, timer);
  i->fired++;
  i->calls_at_fire = i->calls;
  loop_stop(i->loop);
}

static void idle_task(struct loop_task *t) {
  struct idle *i = CONTAINER_OF(t, struct idle, task);
  if (++i->ran < i->rounds)
    loop_ready(i->loop, t);
}

/* Called after the ready list, again and again while it wants to, then the loop blocks. */
static void idle_runs_when_nothing_is_ready(void **state) {
  (void)state;
  struct err err;
  struct idle i = {.loop = loop_new(&err), .want = 5, .rounds = 3, .task.run = idle_task};
  loop_timer_init(&i.timer, idle_fire);
  loop_set_idle(i.loop, on_idle, &i, 10 * NS_PER_MS);
  loop_ready(i.loop, &i.task);
  loop_run(i.loop);
  assert_int_equal(i.ran, 3);
  assert_int_equal(i.fired, 1);
  assert_int_equal(i.calls_at_fire, 5);
  loop_delete(i.loop);
}

static void idle_keeps_away_from_a_near_timer(void **state) {
  (void)state;
  struct err err;
  struct idle i = {.loop = loop_new(&err), .want = 1000, .task.run = idle_task};
  loop_timer_init(&i.timer, idle_fire);
  loop_timer_set(i.loop, &i.timer, loop_now(i.loop) + 20 * NS_PER_MS);
  loop_set_idle(i.loop, on_idle, &i, 60 * NS_PER_S);
  loop_ready(i.loop, &i.task);
  loop_run(i.loop);
  assert_int_equal(i.calls_at_fire, 0);
  loop_set_idle(i.loop, NULL, NULL, 0);
  loop_ready(i.loop, &i.task);
  loop_timer_set(i.loop, &i.timer, 1);
  loop_run(i.loop);
  assert_int_equal(i.ran, 2);
  loop_delete(i.loop);
}

/* ---- naps ---- */

struct gathering {
  struct loop *loop;
  struct loop_timer timer; /* always near, when used */
  int peer, left;
  size_t pieces;
  bool near;
};

/* A slow machine fires it before the next piece: near again, then, so that it always is. */
static void near_fire(struct loop_timer *t) {
  struct gathering *g = CONTAINER_OF(t, struct gathering, timer);
  loop_timer_set(g->loop, t, loop_now(g->loop) + 50 * NS_PER_US);
}

static void on_piece(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  struct gathering *g = user;
  char byte;
  (void)events;
  (void)stamp;
  assert_int_equal(read(loop_fd_number(f), &byte, 1), 1);
  if (g->pieces)
    loop_unhurried(g->loop, g->pieces);
  if (g->near)
    loop_timer_set(g->loop, &g->timer, loop_now(g->loop) + 50 * NS_PER_US);
  if (--g->left == 0)
    loop_stop(g->loop);
  assert_int_equal(write(g->peer, "x", 1), 1);
}

static uint64_t naps_of(size_t pieces, bool near, bool precise) {
  struct err err;
  struct gathering g = {.loop = loop_new(&err), .left = 200, .pieces = pieces, .near = near};
  struct loop_fd *f;
  struct loop_stats stats;
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  g.peer = fds[1];
  loop_timer_init(&g.timer, near_fire);
  loop_set_precise(g.loop, precise);
  check_ok(loop_fd_open(g.loop, fds[0], LOOP_READ, on_piece, &g, &f, &err), &err);
  assert_int_equal(write(g.peer, "x", 1), 1);
  loop_run(g.loop);
  loop_get_stats(g.loop, &stats);
  loop_timer_clear(g.loop, &g.timer);
  loop_fd_close(f);
  close(fds[0]);
  close(fds[1]);
  loop_delete(g.loop);
  return stats.naps;
}

/* Many pieces that can wait are waited for; what nobody called so never is, nor few, nor with a
 * timer that would be late. */
static void unhurried_pieces_gather(void **state) {
  (void)state;
  assert_true(naps_of(1000000, false, false) > 150); /* of 200 wake-ups */
  assert_int_equal(naps_of(0, false, false), 0);
  assert_int_equal(naps_of(1000000, true, false), 0);
  assert_int_equal(naps_of(1000000, false, true), 0);
}

/* ---- figures ---- */

struct figures {
  struct loop *loop;
  struct loop_timer timer;
  uint64_t wakeups, busy, late;
};

static void on_busy(void *user, uint64_t busy_ns) {
  struct figures *f = user;
  f->wakeups++;
  f->busy += busy_ns;
}

static void on_late(void *user, uint64_t late_ns) {
  (void)late_ns;
  ((struct figures *)user)->late++;
}

static void work(struct loop_timer *t) {
  struct figures *f = CONTAINER_OF(t, struct figures, timer);
  clock_sleep_ns(NS_PER_MS);
  if (f->late == 3)
    loop_stop(f->loop);
  else
    loop_timer_set(f->loop, t, loop_now(f->loop) + 2 * NS_PER_MS);
}

static void figures_count_what_was_done(void **state) {
  (void)state;
  struct err err;
  uint64_t before = clock_ns();
  struct figures f = {.loop = loop_new(&err)};
  struct loop_probe probe = {on_late, on_busy, &f};
  loop_timer_init(&f.timer, work);
  loop_set_probe(f.loop, &probe);
  f.loop->offset_ns = 0; /* as if measured long ago: must be measured again */
  f.loop->offset_at_ns = 0;
  loop_timer_set(f.loop, &f.timer, loop_now(f.loop) + NS_PER_MS);
  loop_run(f.loop);
  uint64_t after = clock_ns();
  struct loop_stats s;
  loop_get_stats(f.loop, &s);
  assert_int_equal(s.timers_fired, 3);
  assert_int_equal(f.late, 3);
  assert_int_equal(s.wakeups, 3);
  assert_int_equal(f.wakeups, 3);
  assert_true(s.busy_ns == f.busy);
  assert_true(s.busy_ns >= 3 * NS_PER_MS && s.busy_ns <= after - before);
  assert_true(s.started_ns >= before && s.started_ns <= after);
  assert_true(s.cpu_ns > 0 && s.cpu_ns <= after - before);
  int64_t drift = loop_realtime_offset(f.loop) - clock_realtime_offset_ns();
  assert_true(drift > -(int64_t)NS_PER_S && drift < (int64_t)NS_PER_S);
  loop_delete(f.loop);
}

/* ---- what is left open ---- */

struct left {
  struct loop *loop;
  struct loop_timer timer;
  struct loop_post post;
  struct loop_fd *f;
  int fds[2];
};

static void leave_timer(struct left *l) {
  loop_timer_init(&l->timer, NULL);
  loop_timer_set(l->loop, &l->timer, 5);
}

static void leave_post(struct left *l) {
  loop_post(l->loop, &l->post);
}

static void leave_fd(struct left *l) {
  struct err err;
  check_ok(loop_fd_open(l->loop, l->fds[0], LOOP_READ, NULL, NULL, &l->f, &err), &err);
}

static void leave_nothing(struct left *l) {
  leave_fd(l);
  loop_fd_close(l->f);
}

/* Runs loop_delete in a child; returns its wait status and what it printed. */
static int delete_with(void (*leave)(struct left *), char *text, size_t size) {
  int out[2];
  assert_int_equal(pipe(out), 0);
  pid_t child = fork();
  if (child == 0) {
    struct err err;
    struct left l;
    signal(SIGABRT, SIG_DFL);
    dup2(out[1], STDERR_FILENO);
    l.loop = loop_new(&err);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, l.fds))
      _exit(2);
    leave(&l);
    loop_delete(l.loop);
    _exit(0);
  }
  close(out[1]);
  size_t n = 0;
  for (ssize_t got; (got = read(out[0], text + n, size - 1 - n)) > 0;)
    n += (size_t)got;
  text[n] = '\0';
  close(out[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void delete_names_what_is_open(void **state) {
  (void)state;
  char text[4096];
  int status = delete_with(leave_timer, text, sizeof text);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  check_has(text, "loop_delete: still armed: 1 timers");
  status = delete_with(leave_post, text, sizeof text);
  assert_true(WIFSIGNALED(status));
  check_has(text, "loop_delete: posts that have not run");
  status = delete_with(leave_fd, text, sizeof text);
  assert_true(WIFSIGNALED(status));
  check_has(text, "loop_delete: still open: poll, descriptor ");
  status = delete_with(leave_nothing, text, sizeof text);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_string_equal(text, "");
}

static void a_new_loop_ignores_sigpipe_unless_handled(void **state) {
  (void)state;
  struct err err;
  struct sigaction old;
  signal(SIGPIPE, SIG_DFL);
  loop_delete(loop_new(&err));
  sigaction(SIGPIPE, NULL, &old);
  assert_ptr_equal(old.sa_handler, SIG_IGN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wakeup_runs_descriptors_timers_posts_ready),
      cmocka_unit_test(ready_is_first_in_first_out),
      cmocka_unit_test(ready_tasks_do_not_starve_descriptors),
      cmocka_unit_test(posts_of_four_threads_all_arrive),
      cmocka_unit_test(a_post_may_be_posted_again),
      cmocka_unit_test(idle_runs_when_nothing_is_ready),
      cmocka_unit_test(idle_keeps_away_from_a_near_timer),
      cmocka_unit_test(unhurried_pieces_gather),
      cmocka_unit_test(figures_count_what_was_done),
      cmocka_unit_test(delete_names_what_is_open),
      cmocka_unit_test(a_new_loop_ignores_sigpipe_unless_handled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
