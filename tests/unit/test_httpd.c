/* test_httpd.c: listening: addresses, ports in use, refusing, pausing, closing with requests open.
 */
#include "check.h"

#include <netinet/tcp.h>

#include "httpd_peer.h"

static void on_close(struct httpd_request *req, void *user) {
  (void)req;
  struct peer *p = user;
  p->closes++;
}

static void on_request(void *user, struct httpd_request *req) {
  struct peer *p = user;
  p->requests++;
  if (!strcmp(httpd_path(req), "/hold")) {
    httpd_set_user(req, p);
    httpd_on_close(req, on_close);
  } else if (!strcmp(httpd_path(req), "/close-server")) {
    httpd_close(p->server); /* from inside a handler; this request has no on_close */
    p->server = NULL;
    httpd_reply(req, 200, NULL, NULL, 0);
  } else {
    httpd_reply(req, 200, NULL, "ok", 2);
  }
}

static bool on_accept(void *user) {
  struct peer *p = user;
  p->accepts++;
  return !p->refuse;
}

static void start(struct peer *p) {
  *p = (struct peer){.options = {.on_request = on_request, .on_accept = on_accept}};
  peer_start(p);
}

static void expect_ok(int fd) {
  peer_send(fd, "GET / HTTP/1.1\r\n\r\n");
  peer_expect(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok");
}

/* ---- binding ---- */

static void check_listen(const char *host, int port, int code, const char *text) {
  struct err err;
  struct loop *loop = loop_new(&err);
  struct httpd *server;
  struct httpd_options options = {.host = host, .port = port, .on_request = on_request};
  assert_int_equal(httpd_listen(loop, &options, &server, &err), code);
  assert_int_equal(err.code, code);
  assert_string_equal(err.text, text);
  loop_delete(loop);
}

static void errors_name_the_address_and_the_way_out(void **state) {
  (void)state;
  struct peer p;
  char text[200];
  start(&p);
  snprintf(text, sizeof text,
           "127.0.0.1:%d is in use by another process; choose another port or 0 for any free one",
           p.port);
  check_listen(NULL, p.port, ERR_IO, text);
  peer_stop(&p);
  check_listen("localhost", 0, ERR_INVALID,
               "\"localhost\" is not an address; give one like 127.0.0.1, ::1 or 0.0.0.0");
  check_listen(NULL, 65536, ERR_INVALID, "port 65536: a port is 1 to 65535, or 0 for any free one");
  check_listen(NULL, -1, ERR_INVALID, "port -1: a port is 1 to 65535, or 0 for any free one");
  check_listen("192.0.2.1", 0, ERR_IO,
               "192.0.2.1:0: this machine has no such address; 127.0.0.1 is always there");
  check_listen("2001:db8::1", 80, ERR_IO,
               "[2001:db8::1]:80: this machine has no such address; 127.0.0.1 is always there");
}

static void ipv6_works(void **state) {
  (void)state;
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int probe = socket(AF_INET6, SOCK_STREAM, 0);
  if (probe < 0 || bind(probe, (struct sockaddr *)&a, sizeof a)) {
    print_message("this machine has no ::1\n");
    skip();
  }
  close(probe);
  struct peer p = {.options = {.on_request = on_request, .host = "::1"}};
  peer_start(&p);
  a.sin6_port = htons((uint16_t)p.port);
  int fd = socket(AF_INET6, SOCK_STREAM, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
  expect_ok(fd);
  close(fd);
  peer_stop(&p);
}

/* ---- refusing and pausing ---- */

static void refuse(struct peer *p) {
  p->refuse = true;
}

static void accept_again(struct peer *p) {
  p->refuse = false;
}

static void on_accept_may_refuse_with_a_reset(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  peer_do(&p, refuse);
  int fd = peer_connect(&p);
  assert_int_equal(peer_end(fd), ECONNRESET);
  peer_do(&p, accept_again);
  fd = peer_connect(&p);
  expect_ok(fd);
  close(fd);
  peer_stop(&p);
  assert_int_equal(p.accepts, 2);
  assert_int_equal(p.requests, 1);
}

static void pause_server(struct peer *p) {
  httpd_pause(p->server);
  httpd_pause(p->server); /* twice is once */
}

static void resume_server(struct peer *p) {
  assert(httpd_resume(p->server, &p->err) == 0);
  assert(httpd_resume(p->server, &p->err) == 0);
}

static void resume_fails(struct peer *p) {
  assert(httpd_resume(p->server, &p->err) == ERR_IO);
}

static void a_paused_port_refuses_and_comes_back(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int old = peer_connect(&p);
  expect_ok(old);
  peer_do(&p, pause_server);
  assert_int_equal(peer_try_connect(p.port), -ECONNREFUSED);
  expect_ok(old); /* open connections go on */

  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p.port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int thief = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  setsockopt(thief, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  assert_int_equal(bind(thief, (struct sockaddr *)&a, sizeof a), 0);
  assert_int_equal(listen(thief, 1), 0);
  peer_do(&p, resume_fails);
  check_has(p.err.text, "is in use by another process");
  close(thief);

  peer_do(&p, resume_server);
  int fd = peer_connect(&p);
  expect_ok(fd);
  expect_ok(old);
  close(fd);
  close(old);
  peer_stop(&p);
  assert_int_equal(p.requests, 4);
}

/* The server's end of our connection, looked up among the process's descriptors. */
static int server_side(int fd) {
  struct sockaddr_in ours, theirs;
  socklen_t len = sizeof ours;
  assert_int_equal(getsockname(fd, (struct sockaddr *)&ours, &len), 0);
  for (int i = 3; i < 1024; i++) {
    len = sizeof theirs;
    if (getpeername(i, (struct sockaddr *)&theirs, &len) == 0 && theirs.sin_family == AF_INET &&
        theirs.sin_port == ours.sin_port)
      return i;
  }
  fail_msg("the server's end of the connection is nowhere");
  return -1;
}

/* Or small chunks would wait for the client's acknowledgement. */
static void nagle_is_off(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p), on = 0;
  socklen_t len = sizeof on;
  expect_ok(fd);
  assert_int_equal(getsockopt(server_side(fd), IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
  assert_int_equal(on, 1);
  close(fd);
  peer_stop(&p);
}

/* ---- closing ---- */

static void close_server(struct peer *p) {
  assert(httpd_connections(p->server) == 3);
  httpd_close(p->server);
  p->server = NULL;
}

static void closing_ends_every_connection(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fds[3];
  for (int i = 0; i < 3; i++)
    fds[i] = peer_connect(&p);
  peer_send(fds[0], "GET /hold HTTP/1.1\r\n\r\n");
  peer_send(fds[1], "GET /hold HTTP/1.1\r\n\r\n");
  expect_ok(fds[2]);
  peer_wait(&p, &p.requests, 3);
  peer_do(&p, close_server);
  assert_int_equal(p.closes, 2);
  for (int i = 0; i < 3; i++)
    assert_int_equal(peer_end(fds[i]), 0);
  assert_int_equal(peer_try_connect(p.port), -ECONNREFUSED);
  peer_stop(&p);
  assert_int_equal(p.closes, 2);
}

static void a_handler_may_close_the_server(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  peer_send(fd, "GET /close-server HTTP/1.1\r\n\r\nGET /next HTTP/1.1\r\n\r\n");
  assert_int_equal(peer_end(fd), 0);
  peer_stop(&p);
  assert_int_equal(p.requests, 1);
}

static void many_connections_at_once(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fds[200];
  for (int i = 0; i < 200; i++)
    fds[i] = peer_connect(&p);
  for (int i = 0; i < 200; i++)
    peer_send(fds[i], "GET / HTTP/1.1\r\n\r\n");
  for (int i = 199; i >= 0; i--) {
    peer_expect(fds[i], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok");
    close(fds[i]);
  }
  peer_stop(&p);
  assert_int_equal(p.requests, 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_name_the_address_and_the_way_out),
      cmocka_unit_test(ipv6_works),
      cmocka_unit_test(on_accept_may_refuse_with_a_reset),
      cmocka_unit_test(a_paused_port_refuses_and_comes_back),
      cmocka_unit_test(nagle_is_off),
      cmocka_unit_test(closing_ends_every_connection),
      cmocka_unit_test(a_handler_may_close_the_server),
      cmocka_unit_test(many_connections_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
