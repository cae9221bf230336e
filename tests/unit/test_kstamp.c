/* test_kstamp.c: the kernel's receive stamps: there, in order, peeked, converted; and a stream's
 * stamps in a client that uses them. No check of real time: tests/clock has those. */
#include "net_peer.h"

#include "net/kstamp.h"

#define MS NS_PER_MS

static void pair(int *client, int *server, bool enable) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int port, fd = peer_listen(&port);
  a.sin_port = htons((uint16_t)port);
  *client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (enable)
    kstamp_enable(*client);
  assert_int_equal(connect(*client, (struct sockaddr *)&a, sizeof a), 0);
  *server = accept(fd, NULL, NULL);
  close(fd);
}

static void wait_for(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&p, 1, 5000), 1);
}

static void of_reads(void **state) {
  (void)state;
  int client, server;
  char buf[64];
  uint64_t peeked = 0, stamp = 0, last = 0;
  pair(&client, &server, true);
  /* The first packets come without: the kernel turns its switch in a work item of its own. */
  for (int i = 0; i < 5000 && !last; i++) {
    clock_sleep_ns(MS);
    peer_puts(server, "x");
    wait_for(client);
    assert_int_equal(kstamp_recv(client, buf, sizeof buf, 0, &last), 1);
  }
  assert_true(last > 0);
  for (int i = 0; i < 20; i++) {
    uint64_t before = clock_wall_ns();
    peer_puts(server, "abc");
    wait_for(client);
    peeked = kstamp_peek(client);
    assert_int_equal(kstamp_recv(client, buf, sizeof buf, 0, &stamp), 3);
    assert_memory_equal(buf, "abc", 3);
    assert_int_equal(peeked, stamp); /* one packet has one */
    assert_true(stamp >= last);
    assert_true(stamp + 5 * MS > before); /* this packet's, not an older one's */
    last = stamp;
  }
  assert_int_equal(kstamp_recv(client, buf, sizeof buf, MSG_DONTWAIT, &stamp), -1);
  assert_int_equal(errno, EAGAIN);
  assert_int_equal(stamp, 0);
  assert_int_equal(kstamp_peek(client), 0);
  close(server);
  assert_int_equal(kstamp_recv(client, buf, sizeof buf, 0, &stamp), 0);
  assert_int_equal(stamp, 0);
  close(client);
}

/* Stamps are on before the first socket that is read. */
static void begun(void **state) {
  (void)state;
  int client, server, fd = kstamp_begin();
  char buf[8];
  uint64_t stamp = 0;
  assert_true(fd >= 0);
  clock_sleep_ns(200 * MS); /* for the system's work item */
  pair(&client, &server, true);
  peer_puts(server, "x");
  wait_for(client);
  assert_int_equal(kstamp_recv(client, buf, sizeof buf, 0, &stamp), 1);
  assert_true(stamp > 0);
  close(fd);
  close(server);
  close(client);
}

static void without(void **state) {
  (void)state;
  int client, server;
  char buf[8];
  uint64_t stamp = 1;
  pair(&client, &server, false);
  peer_puts(server, "x");
  wait_for(client);
  assert_int_equal(kstamp_recv(client, buf, sizeof buf, 0, &stamp), 1);
  assert_int_equal(stamp, 0);
  close(server);
  close(client);
}

static void converted(void **state) {
  (void)state;
  struct err err;
  struct loop *loop = loop_new(&err);
  int64_t offset = loop_realtime_offset(loop);
  uint64_t woke = 5000000, by = woke;
  uint64_t wall = (uint64_t)((int64_t)woke + offset);
  assert_int_equal(kstamp_convert(loop, wall - 100, &by), woke - 100);
  assert_int_equal(kstamp_convert(loop, wall, &by), woke);
  assert_int_equal(kstamp_convert(loop, 0, &by), 0);
  assert_int_equal(by, woke);
  /* Bytes that came after the wake-up: their own stamp, never one from before they were there. */
  assert_int_equal(kstamp_convert(loop, wall + 700, &by), woke + 700);
  assert_true(by >= woke + 700 && by <= clock_ns());
  /* The future is no stamp. */
  by = woke;
  uint64_t later = (uint64_t)((int64_t)(clock_ns() + NS_PER_S) + offset);
  assert_int_equal(kstamp_convert(loop, later, &by), 0);
  assert_int_equal(by, woke);
  loop_delete(loop);
}

static void script_paced(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd))
    if (peer_read(p, fd)) {
      peer_puts(fd, HEAD_SSE "\r\n");
      for (int i = 0; i < 50; i++) {
        clock_sleep_ns(2 * MS);
        peer_puts(fd, EVENT("a"));
      }
      peer_puts(fd, "data: [DONE]\n\n");
    }
}

static void in_a_client(void **state) {
  (void)state;
  struct net n;
  struct peer p = {0};
  struct http_request r;
  peer_start(&p, script_paced);
  net_start(&n, &(struct http_client_options){.kernel_stamps = true, .keep_gaps = true});
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  for (int i = 0; i < 4; i++) { /* the switch has been turned on by then */
    net_stream(&n, &r, t);
    net_send(&n, &r);
    net_wait(&n, i + 1);
    check_outcome(&r, SAMPLE_OK, "");
    http_request_free(&r);
  }
  const struct sample *s = net_sample(&n, 3);
  assert_true(s->error_ns != SAMPLE_ABSENT && s->error_ns >= 0);
  for (int k = STAMP_SENT; k + 1 < STAMP_COUNT; k++)
    assert_true(s->t[k] <= s->t[k + 1]);
  assert_int_equal(s->output_events, 50);
  assert_true(n.recorder.read_errors > 4 * n.recorder.missing);
  struct http_client_stats stats;
  http_client_get_stats(n.client, &stats);
  assert_int_equal(stats.missing_kernel_stamps, n.recorder.missing);
  net_stop(&n);
  peer_stop(&p);
}

int main(void) {
  struct err err;
  if (http_global_init(&err))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(begun),     cmocka_unit_test(of_reads),    cmocka_unit_test(without),
      cmocka_unit_test(converted), cmocka_unit_test(in_a_client),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
