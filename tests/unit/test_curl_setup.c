/* test_curl_setup.c: how libcurl is set up: HTTP/2, proxies, and that the environment says nothing.
 */
#include "tls_peer.h"

#include <signal.h>
#include <sys/wait.h>

#include "net/client.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define MS NS_PER_MS

static const struct http_target_options full = {.full = true};

static struct http_client_stats stats_of(struct net *n) {
  struct http_client_stats s;
  http_client_get_stats(n->client, &s);
  return s;
}

static void get(struct net *n, struct http_request *r, struct http_target *t, const char *path) {
  net_request(n, r, t, "GET", path);
  r->sample = sample_new();
  net_send(n, r);
  net_wait(n, n->done + 1);
}

/* ---- HTTP/2 ---- */

static pid_t start_nghttpd(int *port) {
  char number[16], key[96], cert[96];
  close(peer_listen(port));
  snprintf(number, sizeof number, "%d", *port);
  tls_path(&files, "good", "key", key);
  tls_path(&files, "good", "pem", cert);
  pid_t pid = fork();
  if (pid == 0) {
    execlp("nghttpd", "nghttpd", "-a", "127.0.0.1", "-d", files.dir, "--echo-upload", number, key,
           cert, NULL);
    _exit(127);
  }
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_port = htons((uint16_t)*port),
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  for (int i = 0; i < 500; i++) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = connect(fd, (struct sockaddr *)&a, sizeof a);
    close(fd);
    if (rc == 0)
      return pid;
    clock_sleep_ns(10 * MS);
  }
  fail_msg("nghttpd does not listen");
  return pid;
}

static void http2(void **state) {
  (void)state;
  enum { N = 60 };
  struct net n;
  static struct http_request r[N];
  struct blob *body[N];
  size_t len;
  int port, before = open_descriptors();
  pid_t pid = start_nghttpd(&port);
  net_start(&n, NULL);
  struct http_target *t =
      net_target(&n, "https", "localhost", port,
                 &(struct http_target_options){.http2 = true, .tls.ca_file = files.ca});
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < N; i++) {
      char text[64];
      int size = snprintf(text, sizeof text, "body %d of round %d", i, round);
      body[i] = blob_new(text, (size_t)size);
      net_request(&n, &r[i], t, "POST", "/upload");
      r[i].parts = &body[i];
      r[i].n_parts = 1;
      r[i].sample = sample_new();
      net_send(&n, &r[i]);
    }
    net_wait(&n, (round + 1) * N);
    for (int i = 0; i < N; i++) {
      check_outcome(&r[i], SAMPLE_OK, "");
      assert_int_equal(r[i].status, 200);
      assert_string_equal(r[i].body.data, body[i]->data);
      assert_true(r[i].reused_connection || round == 0);
      assert_non_null(http_response_header(&r[i], "server", &len));
      http_request_free(&r[i]);
      blob_unref(body[i]);
    }
  }
  assert_true(stats_of(&n).connections_opened <= 4); /* many streams on few connections */
  net_request(&n, &r[0], t, "GET", "/nothing-there");
  net_send(&n, &r[0]);
  net_run(&n, 0);
  if (r[0].exchange)
    http_request_cancel(&r[0], SAMPLE_CANCELLED);
  http_request_free(&r[0]);
  get(&n, &r[0], t, "/nothing-there");
  check_outcome(&r[0], SAMPLE_HTTP_4XX, "HTTP 404");
  http_request_free(&r[0]);
  net_stop(&n);
  kill(pid, SIGTERM);
  waitpid(pid, NULL, 0);
  assert_int_equal(open_descriptors(), before);
}

/* ---- proxies ---- */

static void environment_ignored(void **state) {
  (void)state;
  static const char *const names[] = {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++)
    setenv(names[i], "http://127.0.0.1:1", 1);
  for (int i = 0; i < 2; i++) {
    struct net n;
    struct peer p = {.text = OK_REPLY};
    struct http_request r;
    peer_start(&p, peer_keep);
    net_start(&n, NULL);
    get(&n, &r, net_target(&n, "http", "127.0.0.1", p.port, i ? &full : NULL), "/");
    check_outcome(&r, SAMPLE_OK, "");
    http_request_free(&r);
    net_stop(&n);
    peer_stop(&p);
  }
  for (size_t i = 0; i < ARRAY_LEN(names); i++)
    unsetenv(names[i]);
}

/* Says yes to CONNECT and is the server behind itself; p->step 1: says no. */
static void script_tunnel(struct peer *p) {
  struct tls_peer *t = p->arg;
  SSL_CTX *ctx = tls_context(t);
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    if (!peer_read(p, fd) || strncmp(p->request, "CONNECT secret.invalid:443 ", 27) != 0 ||
        p->step) {
      peer_puts(fd, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
      close(fd);
      continue;
    }
    peer_puts(fd, "HTTP/1.1 200 Connection established\r\n\r\n");
    SSL *ssl = tls_accept(ctx, fd);
    if (!ssl)
      continue;
    while (tls_read(p, ssl))
      SSL_write(ssl, p->text, (int)strlen(p->text));
    tls_close(ssl, true);
  }
  SSL_CTX_free(ctx);
}

static void proxies(void **state) {
  (void)state;
  struct net n;
  struct tls_peer tls = {.files = &files, .cert = "good"};
  struct peer plain = {.text = OK_REPLY}, tunnel = {.text = OK_REPLY, .arg = &tls};
  struct http_request r;
  char url[64];
  struct err err;
  struct http_target *t;
  peer_start(&plain, peer_keep);
  peer_start(&tunnel, script_tunnel);
  net_start(&n, NULL);
  /* Plain http: the whole URL goes to the proxy. */
  snprintf(url, sizeof url, "http://127.0.0.1:%d", plain.port);
  check_ok(http_client_target(
               n.client, &(struct http_target_options){.url = "http://no.invalid/v1", .proxy = url},
               &t, &err),
           &err);
  get(&n, &r, t, "/x");
  check_outcome(&r, SAMPLE_OK, "");
  check_has(plain.request, "GET http://no.invalid/v1/x HTTP/1.1\r\n");
  http_request_free(&r);
  /* TLS: through a tunnel, by name, twice on one connection. */
  snprintf(url, sizeof url, "http://127.0.0.1:%d", tunnel.port);
  struct http_target_options o = {
      .url = "https://secret.invalid", .proxy = url, .tls.insecure = true};
  check_ok(http_client_target(n.client, &o, &t, &err), &err);
  for (int i = 0; i < 2; i++) {
    get(&n, &r, t, "/y");
    check_outcome(&r, SAMPLE_OK, "");
    assert_int_equal(r.reused_connection, i);
    check_has(tunnel.request, "GET /y HTTP/1.1\r\nHost: secret.invalid\r\n");
    http_request_free(&r);
  }
  assert_int_equal(tunnel.accepts, 1);
  /* The same by libcurl's own HTTP: through a tunnel of its own. */
  http_client_delete(n.client); /* frees the one-connection-at-a-time proxy */
  struct http_client_options co = {.loop = n.loop, .recorder = &n.recorder};
  n.client = http_client_new(&co, &err);
  o.full = true;
  check_ok(http_client_target(n.client, &o, &t, &err), &err);
  for (int i = 0; i < 2; i++) {
    get(&n, &r, t, "/y");
    check_outcome(&r, SAMPLE_OK, "");
    assert_int_equal(r.reused_connection, i);
    check_has(tunnel.request, "GET /y HTTP/1.1\r\nHost: secret.invalid\r\n");
    http_request_free(&r);
  }
  assert_int_equal(tunnel.accepts, 2);
  o.full = false;
  /* Refused by the proxy; the certificate is checked through it. */
  o.tls = (struct http_tls){.ca_file = files.ca};
  check_ok(http_client_target(n.client, &o, &t, &err), &err);
  http_client_delete(n.client);
  n.client = http_client_new(&co, &err);
  check_ok(http_client_target(n.client, &o, &t, &err), &err);
  get(&n, &r, t, "/z");
  check_outcome(&r, SAMPLE_TLS, "use the name that the certificate was made for");
  http_request_free(&r);
  tunnel.step = 1;
  get(&n, &r, t, "/z");
  check_outcome(&r, SAMPLE_CONNECT,
                "https://secret.invalid: no connection through the proxy: CONNECT tunnel failed, "
                "response 403");
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&plain);
  peer_stop(&tunnel);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(http2),
      cmocka_unit_test(environment_ignored),
      cmocka_unit_test(proxies),
  };
  return cmocka_run_group_tests(tests, tls_group_start, tls_group_stop);
}
