/* test_h1_pool.c: how many connections a target gets, who waits, who comes first, which one is
 * taken. */
#include "net_peer.h"

#include "net/client.h"
#include "net/h1.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define MS NS_PER_MS

struct order {
  struct net net;
  struct http_request r[12];
  int ended[12];
  int n;
};

static void note_end(struct http_request *r) {
  struct order *o = r->user;
  o->ended[o->n++] = (int)(r - o->r);
  check_outcome(r, SAMPLE_OK, "");
  r->user = &o->net;
  net_done(r);
}

static void start(struct order *o, int i, struct http_target *t) {
  net_request(&o->net, &o->r[i], t, "GET", "/");
  o->r[i].user = o;
  o->r[i].done = note_end;
  net_send(&o->net, &o->r[i]);
}

static void line_in_order(void **state) {
  (void)state;
  struct order o = {0};
  struct peer p = {.text = OK_REPLY};
  struct http_client_stats stats;
  peer_start(&p, peer_keep);
  net_start(&o.net, &(struct http_client_options){.max_connections = 1});
  struct http_target *t = net_target(&o.net, "http", "127.0.0.1", p.port, NULL);
  for (int i = 0; i < 12; i++)
    start(&o, i, t);
  http_request_cancel(&o.r[5], SAMPLE_CANCELLED); /* out of the line */
  net_wait(&o.net, 11);
  static const int want[] = {0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11};
  for (int i = 0; i < 11; i++) {
    assert_int_equal(o.ended[i], want[i]);
    /* It waited: `start` is when it was handed over, `connected` when the connection was its. */
    const struct http_request *r = &o.r[want[i]];
    assert_true(r->stamp_ns[STAMP_CONNECTED] > r->stamp_ns[STAMP_START]);
    assert_int_equal(r->reused_connection, want[i] > 0);
  }
  assert_int_equal(p.accepts, 1);
  http_client_get_stats(o.net.client, &stats);
  assert_int_equal(stats.waits_for_connection, 11);
  assert_int_equal(stats.connections_opened, 1);
  for (int i = 0; i < 12; i++)
    http_request_free(&o.r[i]);
  net_stop(&o.net);
  peer_stop(&p);
}

/* Replies, then closes: each place in the line needs a connection of its own. */
static void line_after_closing(void **state) {
  (void)state;
  struct order o = {0};
  struct peer p = {.text = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"};
  peer_start(&p, peer_close);
  net_start(&o.net, &(struct http_client_options){.max_connections = 1});
  struct http_target *t = net_target(&o.net, "http", "127.0.0.1", p.port, NULL);
  for (int i = 0; i < 6; i++)
    start(&o, i, t);
  net_wait(&o.net, 6);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(o.ended[i], i);
    http_request_free(&o.r[i]);
  }
  assert_int_equal(p.accepts, 6);
  net_stop(&o.net);
  peer_stop(&p);
}

/* What holds the only connection is given up: the next in line goes on. */
static void script_mute_first(struct peer *p) {
  int fd = peer_accept(p);
  peer_read(p, fd);
  peer_keep(p);
  close(fd);
}

static void line_after_cancel(void **state) {
  (void)state;
  struct order o = {0};
  struct peer p = {.text = OK_REPLY};
  peer_start(&p, script_mute_first);
  net_start(&o.net, &(struct http_client_options){.max_connections = 1});
  struct http_target *t = net_target(&o.net, "http", "127.0.0.1", p.port, NULL);
  start(&o, 0, t);
  start(&o, 1, t);
  net_run(&o.net, 20 * MS);
  assert_int_equal(o.n, 0);
  http_request_cancel(&o.r[0], SAMPLE_CANCELLED);
  net_wait(&o.net, 1);
  assert_int_equal(o.ended[0], 1);
  http_request_free(&o.r[0]);
  http_request_free(&o.r[1]);
  net_stop(&o.net);
  peer_stop(&p);
}

/* Nobody answers connections: everyone in line learns it. */
static void line_of_failures(void **state) {
  (void)state;
  struct net n;
  struct http_request r[4];
  int port, fd = peer_listen(&port);
  close(fd);
  net_start(&n, &(struct http_client_options){.max_connections = 1});
  struct http_target *t = net_target(&n, "http", "127.0.0.1", port, NULL);
  for (int i = 0; i < 4; i++) {
    net_request(&n, &r[i], t, "GET", "/");
    net_send(&n, &r[i]);
  }
  net_wait(&n, 4);
  for (int i = 0; i < 4; i++) {
    check_outcome(&r[i], SAMPLE_CONNECT, "connection refused; is the server running?");
    http_request_free(&r[i]);
  }
  net_stop(&n);
}

/* The connection used last is used next. */
static void last_in_first_out(void **state) {
  (void)state;
  struct h1 h1 = {0};
  struct http_client client = {.options.max_connections = 3};
  struct http_target target = {0};
  struct h1_conn a = {0}, b = {0}, c = {0};
  h1.client = &client;
  struct h1_pool *pool = h1_pool_of(&h1, &target);
  assert_ptr_equal(h1_pool_of(&h1, &target), pool);
  assert_null(h1_pool_take(pool));
  a.pool = b.pool = c.pool = pool;
  h1_pool_put(&a);
  h1_pool_put(&b);
  h1_pool_put(&c);
  h1_pool_forget(&b); /* closed by the server, in the middle */
  assert_ptr_equal(h1_pool_take(pool), &c);
  h1_pool_put(&c);
  h1_pool_put(&b);
  assert_ptr_equal(h1_pool_take(pool), &b);
  assert_ptr_equal(h1_pool_take(pool), &c);
  assert_ptr_equal(h1_pool_take(pool), &a);
  assert_null(h1_pool_take(pool));
  pool->open = 2;
  assert_false(h1_pool_full(pool));
  pool->open = 3;
  assert_true(h1_pool_full(pool));
  pool->open = 0;
  h1_pool_close(&h1);
  assert_null(target.h1);
}

int main(void) {
  struct err err;
  if (http_global_init(&err))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(line_in_order),     cmocka_unit_test(line_after_closing),
      cmocka_unit_test(line_after_cancel), cmocka_unit_test(line_of_failures),
      cmocka_unit_test(last_in_first_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
