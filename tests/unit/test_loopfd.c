/* test_loopfd.c: stamps before callbacks, closing in the middle of a wake-up, masks, errors. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/loop_internal.h"

struct side {
  struct pair *pair;
  struct loop_fd *f;
  int fd, peer;
  int calls;
  unsigned events;
  uint64_t stamp, called_at;
};

struct pair {
  struct loop *loop;
  struct side sides[2];
  int order[8], n; /* which side was called when */
  bool close_other;
  struct loop_timer timer;
  uint64_t written_at;
};

static void on_side(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  struct side *s = user;
  struct pair *p = s->pair;
  char byte;
  assert_ptr_equal(f, s->f);
  s->calls++;
  s->events = events;
  s->stamp = stamp;
  s->called_at = clock_ns();
  p->order[p->n++] = (int)(s - p->sides);
  assert_int_equal(read(loop_fd_number(f), &byte, 1), 1);
  if (p->close_other && p->n == 1)
    loop_fd_close(p->sides[s == &p->sides[0]].f);
  loop_stop(p->loop);
}

static void open_pair(struct pair *p) {
  struct err err;
  *p = (struct pair){.loop = loop_new(&err)};
  for (int i = 0; i < 2; i++) {
    struct side *s = &p->sides[i];
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    s->pair = p;
    s->fd = fds[0];
    s->peer = fds[1];
    check_ok(loop_fd_open(p->loop, s->fd, LOOP_READ, on_side, s, &s->f, &err), &err);
    assert_int_equal(loop_fd_number(s->f), s->fd);
  }
}

static void close_pair(struct pair *p) {
  for (int i = 0; i < 2; i++) {
    if (!(p->close_other && p->order[0] != i))
      loop_fd_close(p->sides[i].f);
    close(p->sides[i].fd);
    close(p->sides[i].peer);
  }
  loop_delete(p->loop);
}

/* Both stamps are taken before the first callback runs, and one wake-up has one stamp. */
static void stamps_come_before_callbacks(void **state) {
  (void)state;
  struct pair p;
  open_pair(&p);
  uint64_t before = clock_ns();
  for (int i = 0; i < 2; i++)
    assert_int_equal(write(p.sides[i].peer, "x", 1), 1);
  loop_run(p.loop);
  assert_int_equal(p.n, 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(p.sides[i].calls, 1);
    assert_int_equal(p.sides[i].events, LOOP_READ);
    assert_true(p.sides[i].stamp >= before);
  }
  struct side *first = &p.sides[p.order[0]], *second = &p.sides[p.order[1]];
  assert_true(first->stamp == second->stamp);
  assert_true(second->stamp <= first->called_at);
  close_pair(&p);
}

static void write_now(struct loop_timer *t) {
  struct pair *p = CONTAINER_OF(t, struct pair, timer);
  p->written_at = clock_ns();
  assert_int_equal(write(p->sides[0].peer, "x", 1), 1);
}

/* The stamp belongs to the wake-up that saw the event, not to the one before. */
static void each_wakeup_has_its_own_stamp(void **state) {
  (void)state;
  struct pair p;
  open_pair(&p);
  loop_timer_init(&p.timer, write_now);
  loop_timer_set(p.loop, &p.timer, 1);
  loop_run(p.loop);
  assert_int_equal(p.sides[0].calls, 1);
  assert_true(p.sides[0].stamp >= p.written_at);
  assert_true(p.sides[0].stamp <= p.sides[0].called_at);
  close_pair(&p);
}

static void closing_a_stamped_descriptor_keeps_its_callback_away(void **state) {
  (void)state;
  struct pair p;
  open_pair(&p);
  p.close_other = true;
  for (int i = 0; i < 2; i++)
    assert_int_equal(write(p.sides[i].peer, "x", 1), 1);
  loop_run(p.loop);
  assert_int_equal(p.n, 1);
  assert_int_equal(p.sides[!p.order[0]].calls, 0);
  close_pair(&p);
}

/* More than libuv looks at in one poll: each is called once a wake-up, and one poll finds them. */
enum { MANY = 1500 };

struct crowd {
  struct loop *loop;
  int calls[MANY], total, peers[MANY];
  uint64_t stamps[MANY];
  struct loop_fd *f[MANY];
};

static void on_member(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  struct crowd *c = user;
  (void)events;
  for (int i = 0; i < MANY; i++)
    if (c->f[i] == f) {
      c->calls[i]++;
      c->stamps[i] = stamp;
    }
  if (++c->total == MANY)
    loop_stop(c->loop);
}

static void all_that_are_ready_are_told_once(void **state) {
  (void)state;
  static struct crowd c;
  struct err err;
  struct loop_stats stats;
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  c.loop = loop_new(&err);
  for (int i = 0; i < MANY; i++) {
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    c.peers[i] = fds[1];
    check_ok(loop_fd_open(c.loop, fds[0], LOOP_READ, on_member, &c, &c.f[i], &err), &err);
    assert_int_equal(write(fds[1], "x", 1), 1);
  }
  loop_run(c.loop);
  loop_get_stats(c.loop, &stats);
  assert_int_equal(stats.wakeups, 1);
  for (int i = 0; i < MANY; i++) {
    assert_int_equal(c.calls[i], 1);
    assert_true(c.stamps[i] == c.stamps[0]);
    int fd = loop_fd_number(c.f[i]);
    loop_fd_close(c.f[i]);
    close(fd);
    close(c.peers[i]);
  }
  loop_delete(c.loop);
}

/* ---- masks ---- */

struct mask {
  struct loop *loop;
  struct loop_fd *f;
  struct loop_timer timer;
  unsigned events;
  int calls;
};

static void on_mask(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  (void)f;
  (void)stamp;
  struct mask *m = user;
  m->events = events;
  m->calls++;
  loop_stop(m->loop);
}

static void on_timeout(struct loop_timer *t) {
  loop_stop(CONTAINER_OF(t, struct mask, timer)->loop);
}

/* One turn with `want`; waits 5 ms where nothing may come. */
static unsigned turn(struct mask *m, unsigned want, bool silent) {
  m->events = 0;
  loop_fd_want(m->f, want);
  loop_fd_want(m->f, want); /* unchanged */
  if (silent)
    loop_timer_set(m->loop, &m->timer, loop_now(m->loop) + 5 * NS_PER_MS);
  loop_run(m->loop);
  return m->events;
}

static void the_mask_decides_what_is_told(void **state) {
  (void)state;
  struct err err;
  struct mask m = {.loop = loop_new(&err)};
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  loop_timer_init(&m.timer, on_timeout);
  check_ok(loop_fd_open(m.loop, fds[0], 0, on_mask, &m, &m.f, &err), &err);
  assert_int_equal(turn(&m, 0, true), 0);
  assert_int_equal(turn(&m, LOOP_READ, true), 0);
  assert_int_equal(turn(&m, LOOP_WRITE, false), LOOP_WRITE);
  assert_int_equal(turn(&m, LOOP_READ | LOOP_WRITE, false), LOOP_WRITE);
  assert_int_equal(write(fds[1], "x", 1), 1);
  assert_int_equal(turn(&m, LOOP_READ | LOOP_WRITE, false), LOOP_READ | LOOP_WRITE);
  assert_int_equal(turn(&m, LOOP_READ, false), LOOP_READ);
  assert_int_equal(turn(&m, 0, true), 0);
  assert_int_equal(turn(&m, LOOP_READ, false), LOOP_READ);
  assert_int_equal(m.calls, 5);
  close(fds[1]); /* hang-up reaches a reader … */
  assert_int_equal(turn(&m, LOOP_READ, false), LOOP_READ);
  assert_int_equal(turn(&m, 0, true), 0); /* … and stays away from who wants nothing */
  loop_fd_close(m.f);
  close(fds[0]);
  loop_delete(m.loop);
}

/* ---- errors ---- */

static void connect_pair(int *client, int *server) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
  *client = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(connect(*client, (struct sockaddr *)&address, len), 0);
  *server = accept(listener, NULL, NULL);
  close(listener);
}

/* A reset is told as readable and writable; who does nothing about it is told again. */
static void an_error_is_told_as_ready_for_both(void **state) {
  (void)state;
  struct err err;
  struct mask m = {.loop = loop_new(&err)};
  int client, server;
  connect_pair(&client, &server);
  check_ok(loop_fd_open(m.loop, client, LOOP_READ, on_mask, &m, &m.f, &err), &err);
  struct linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(server, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(server);
  loop_run(m.loop);
  assert_int_equal(m.calls, 1);
  assert_int_equal(m.events, LOOP_READ | LOOP_WRITE);
  loop_run(m.loop);
  assert_int_equal(m.calls, 2);
  char byte;
  assert_int_equal(recv(client, &byte, 1, 0), -1);
  assert_int_equal(errno, ECONNRESET);
  loop_fd_close(m.f);
  close(client);
  loop_delete(m.loop);
}

static void what_cannot_be_watched_is_an_error(void **state) {
  (void)state;
  struct err err;
  struct loop *loop = loop_new(&err);
  struct loop_fd *f = NULL, *g = NULL;
  assert_int_equal(loop_fd_open(loop, 1000000, LOOP_READ, on_mask, NULL, &f, &err), ERR_IO);
  check_has(err.text, "cannot watch descriptor 1000000: bad file descriptor");
  int fd = open("/proc/self/exe", O_RDONLY);
  assert_int_equal(loop_fd_open(loop, fd, LOOP_READ, on_mask, NULL, &f, &err), ERR_IO);
  check_has(err.text, "operation not permitted");
  close(fd);
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  check_ok(loop_fd_open(loop, fds[0], LOOP_READ, on_mask, NULL, &f, &err), &err);
  assert_int_equal(loop_fd_open(loop, fds[0], LOOP_READ, on_mask, NULL, &g, &err), ERR_IO);
  check_has(err.text, "file already exists");
  loop_fd_close(f);
  close(fds[0]);
  close(fds[1]);
  loop_delete(loop);
}

/* ---- a number that comes back at once ---- */

struct reuse {
  struct loop *loop;
  struct loop_fd *old, *fresh;
  int fd, peer, calls_fresh;
};

static void on_fresh(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  (void)stamp;
  struct reuse *r = user;
  assert_ptr_equal(f, r->fresh);
  assert_int_equal(events, LOOP_READ);
  r->calls_fresh++;
  loop_stop(r->loop);
}

static void on_old(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  (void)events;
  (void)stamp;
  struct err err;
  struct reuse *r = user;
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  loop_fd_close(f);
  assert_int_equal(dup2(fds[0], r->fd), r->fd); /* closes the old one, takes its number */
  close(fds[0]);
  close(r->peer);
  r->peer = fds[1];
  check_ok(loop_fd_open(r->loop, r->fd, LOOP_READ, on_fresh, r, &r->fresh, &err), &err);
  assert_int_equal(write(r->peer, "y", 1), 1);
}

static void a_number_can_be_used_again_at_once(void **state) {
  (void)state;
  struct err err;
  struct reuse r = {.loop = loop_new(&err)};
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  r.fd = fds[0];
  r.peer = fds[1];
  check_ok(loop_fd_open(r.loop, r.fd, LOOP_READ, on_old, &r, &r.old, &err), &err);
  assert_int_equal(write(r.peer, "x", 1), 1);
  loop_run(r.loop);
  assert_int_equal(r.calls_fresh, 1);
  loop_fd_close(r.fresh);
  close(r.fd);
  close(r.peer);
  loop_delete(r.loop);
}

/* ---- both kinds of wake-up ---- */

struct turns {
  struct loop *loop;
  struct loop_fd *f;
  struct loop_timer timer;
  struct loop_post post;
  uv_timer_t guest; /* libuv has work of its own as long as it runs */
  pthread_t thread;
  int fds[2], fired;
  char log[32];
};

/* Small letters: in a direct wake-up. */
static void tell_turn(struct turns *t, char c) {
  t->log[strlen(t->log)] = t->loop->direct ? c : (char)(c - 'a' + 'A');
}

static void *post_soon(void *arg) {
  struct turns *t = arg;
  clock_sleep_ns(2 * NS_PER_MS);
  loop_post(t->loop, &t->post);
  return NULL;
}

static void on_guest_gone(uv_handle_t *handle) {
  struct turns *t = handle->data;
  tell_turn(t, 'g');
  loop_timer_set(t->loop, &t->timer, loop_now(t->loop) + NS_PER_MS);
}

static void on_guest(uv_timer_t *guest) {
  struct turns *t = guest->data;
  tell_turn(t, 'u');
  assert_int_equal(write(t->fds[1], "x", 1), 1);
}

static void on_turn_post(struct loop_post *post) {
  struct turns *t = CONTAINER_OF(post, struct turns, post);
  tell_turn(t, 'p');
  pthread_join(t->thread, NULL);
  uv_timer_init(loop_uv(t->loop), &t->guest);
  t->guest.data = t;
  /* Long enough not to run out before libuv waits for it: then it fires behind that wait. */
  uv_timer_start(&t->guest, on_guest, 50, 0);
}

static void on_turn_fd(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  (void)events;
  (void)stamp;
  struct turns *t = user;
  char byte;
  tell_turn(t, 'f');
  assert_int_equal(read(loop_fd_number(f), &byte, 1), 1);
  if (t->fired == 1) { /* the guest's timer has run out, which makes it inactive */
    uv_close((uv_handle_t *)&t->guest, on_guest_gone);
    return;
  }
  loop_stop(t->loop);
}

static void on_turn_timer(struct loop_timer *timer) {
  struct turns *t = CONTAINER_OF(timer, struct turns, timer);
  tell_turn(t, 't');
  if (t->fired++ == 0)
    pthread_create(&t->thread, NULL, post_soon, t);
  else
    assert_int_equal(write(t->fds[1], "y", 1), 1);
}

static void on_lone_timer(struct loop_timer *timer) {
  struct turns *t = CONTAINER_OF(timer, struct turns, timer);
  tell_turn(t, 'l');
  loop_stop(t->loop);
}

/* The loop waits by itself while libuv has nothing to do, and with libuv while it has: timers,
 * posts and descriptors wake it either way. */
static void wakeups_are_direct_while_libuv_is_quiet(void **state) {
  (void)state;
  struct err err;
  struct turns t = {.loop = loop_new(&err), .post.run = on_turn_post};
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, t.fds), 0);
  loop_timer_init(&t.timer, on_turn_timer);
  loop_timer_set(t.loop, &t.timer, loop_now(t.loop) + NS_PER_MS);
  check_ok(loop_fd_open(t.loop, t.fds[0], LOOP_READ, on_turn_fd, &t, &t.f, &err), &err);
  loop_run(t.loop);
  assert_string_equal(t.log,
                      "TpUfGtf"); /* the first turn tells libuv's epoll what it has only noted */
  assert_false(t.loop->direct);   /* others may run libuv now */
  loop_fd_close(t.f);
  /* Without descriptors of ours it is libuv that waits. */
  memset(t.log, 0, sizeof t.log);
  loop_timer_set(t.loop, &t.timer, 1);
  t.timer.fire = on_lone_timer;
  loop_run(t.loop);
  assert_string_equal(t.log, "L");
  close(t.fds[0]);
  close(t.fds[1]);
  loop_delete(t.loop);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stamps_come_before_callbacks),
      cmocka_unit_test(each_wakeup_has_its_own_stamp),
      cmocka_unit_test(all_that_are_ready_are_told_once),
      cmocka_unit_test(closing_a_stamped_descriptor_keeps_its_callback_away),
      cmocka_unit_test(the_mask_decides_what_is_told),
      cmocka_unit_test(an_error_is_told_as_ready_for_both),
      cmocka_unit_test(what_cannot_be_watched_is_an_error),
      cmocka_unit_test(a_number_can_be_used_again_at_once),
      cmocka_unit_test(wakeups_are_direct_while_libuv_is_quiet),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
