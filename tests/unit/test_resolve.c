/* test_resolve.c: names: asked for once, pinned, wrong, given up while asked for. */
#include "net_peer.h"

#include "net/client.h"

static void pinned_once(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"};
  struct http_request r[8];
  peer_start(&p, peer_keep);
  net_start(&n, &(struct http_client_options){.max_connections = 1});
  struct http_target *t = net_target(&n, "http", "localhost", p.port, NULL);
  for (size_t i = 0; i < ARRAY_LEN(r); i++) {
    net_request(&n, &r[i], t, "GET", "/");
    net_send(&n, &r[i]);
    assert_int_equal(t->state, TARGET_RESOLVING);
  }
  struct resolve *only = t->resolve;
  assert_non_null(only);
  net_wait(&n, ARRAY_LEN(r));
  assert_int_equal(t->state, TARGET_READY);
  assert_null(t->resolve);
  char want[64];
  snprintf(want, sizeof want, "localhost:%d:", p.port);
  check_has(t->pinned, want);
  check_has(t->pinned, "127.0.0.1");
  for (size_t i = 0; i < ARRAY_LEN(r); i++) {
    check_outcome(&r[i], SAMPLE_OK, "");
    http_request_free(&r[i]);
  }
  net_request(&n, &r[0], t, "GET", "/");
  net_send(&n, &r[0]);
  assert_int_equal(t->state, TARGET_READY);
  net_wait(&n, ARRAY_LEN(r) + 1);
  check_outcome(&r[0], SAMPLE_OK, "");
  http_request_free(&r[0]);
  net_stop(&n);
  peer_stop(&p);
}

static void no_such_name(void **state) {
  (void)state;
  struct net n;
  struct http_request r[2];
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "no-such-host.invalid", 80, NULL);
  for (int round = 0; round < 2; round++) { /* a failure is not pinned */
    for (size_t i = 0; i < ARRAY_LEN(r); i++) {
      net_request(&n, &r[i], t, "GET", "/");
      net_send(&n, &r[i]);
    }
    net_wait(&n, 2 * round + 2);
    for (size_t i = 0; i < ARRAY_LEN(r); i++) {
      check_outcome(&r[i], SAMPLE_RESOLVE,
                    "http://no-such-host.invalid: cannot resolve no-such-host.invalid: ");
      check_has(r[i].detail, "is the host name right?");
      assert_true(r[i].stamp_ns[STAMP_CONNECTED] == SAMPLE_NEVER);
      http_request_free(&r[i]);
    }
  }
  net_stop(&n);
}

static void given_up(void **state) {
  (void)state;
  struct net n;
  struct http_request r[3];
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "localhost", 1, NULL);
  for (size_t i = 0; i < ARRAY_LEN(r); i++) {
    net_request(&n, &r[i], t, "GET", "/");
    r[i].sample = sample_new();
    net_send(&n, &r[i]);
  }
  http_request_cancel(&r[1], SAMPLE_CANCELLED); /* the middle one */
  assert_null(r[1].exchange);
  assert_int_equal(n.recorder.n, 1);
  assert_int_equal(n.recorder.samples[0]->error, SAMPLE_CANCELLED);
  net_wait(&n, 2); /* the others find no server */
  assert_int_equal(r[0].error, SAMPLE_CONNECT);
  assert_int_equal(r[2].error, SAMPLE_CONNECT);
  for (size_t i = 0; i < ARRAY_LEN(r); i++)
    http_request_free(&r[i]);
  /* The client goes away while the system still looks. */
  t = net_target(&n, "http", "no-such-host.invalid", 1, NULL);
  net_request(&n, &r[0], t, "GET", "/");
  net_send(&n, &r[0]);
  net_stop(&n);
  assert_int_equal(r[0].error, SAMPLE_CANCELLED);
  http_request_free(&r[0]);
}

static void times_out(void **state) {
  (void)state;
  struct net n;
  struct http_request r;
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "no-such-host.invalid", 80, NULL);
  net_request(&n, &r, t, "GET", "/");
  r.timeouts.connect_ns = 1; /* over before any name server answers */
  net_send(&n, &r);
  net_wait(&n, 1);
  check_outcome(&r, SAMPLE_TIMEOUT_CONNECT, "http://no-such-host.invalid: no connection within");
  http_request_free(&r);
  net_stop(&n);
}

int main(void) {
  struct err err;
  if (http_global_init(&err))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pinned_once),
      cmocka_unit_test(no_such_name),
      cmocka_unit_test(given_up),
      cmocka_unit_test(times_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
