/* test_curl_connect.c: connections made by libcurl and taken over: refused, out of descriptors, two
 * addresses, and TLS with every certificate that must and must not pass. Also what curl_setup.c
 * says about each failure. */
#include "tls_peer.h"

#include <sys/resource.h>

#include "net/client.h"
#include "net/connect.h"
#include "net/curl_loop.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define MS NS_PER_MS

static struct http_client_stats stats_of(struct net *n) {
  struct http_client_stats s;
  http_client_get_stats(n->client, &s);
  return s;
}

static void refused(void **state) {
  (void)state;
  struct net n;
  struct http_request r;
  char want[100];
  int port, fd = peer_listen(&port);
  close(fd);
  net_start(&n, NULL);
  net_request(&n, &r, net_target(&n, "http", "127.0.0.1", port, NULL), "GET", "/x");
  net_send(&n, &r);
  assert_int_equal(n.done, 0);
  net_wait(&n, 1);
  snprintf(want, sizeof want, "http://127.0.0.1:%d: connection refused; is the server running?",
           port);
  check_outcome(&r, SAMPLE_CONNECT, want);
  assert_true(r.stamp_ns[STAMP_CONNECTED] == SAMPLE_NEVER);
  assert_true(r.stamp_ns[STAMP_DONE] >= r.stamp_ns[STAMP_START]);
  http_request_free(&r);
  net_stop(&n);
}

/* The first addresses refuse: libcurl takes the next (on a socket with the same number, which it
 * does not announce anew), and the one that answered is the only one from then on. */
static void second_address(void **state) {
  (void)state;
  static const char *const addresses[] = {"[::1],127.0.0.1", "127.0.0.2,[::1],127.0.0.1"};
  for (size_t i = 0; i < ARRAY_LEN(addresses) * 2; i++) {
    struct net n;
    struct peer p = {.text = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"};
    struct http_request r;
    char text[100];
    peer_start(&p, peer_close);
    net_start(&n, NULL);
    struct http_target *t = net_target(&n, "http", "two.invalid", p.port,
                                       &(struct http_target_options){.full = i % 2 == 1});
    snprintf(text, sizeof text, "two.invalid:%d:%s", p.port, addresses[i / 2]);
    t->pinned = mem_strdup(text);
    t->state = TARGET_READY;
    for (int k = 0; k < 3; k++) {
      net_request(&n, &r, t, "GET", "/");
      net_send(&n, &r);
      net_wait(&n, k + 1);
      check_outcome(&r, SAMPLE_OK, "");
      check_has(p.request, "\r\nHost: two.invalid:");
      assert_false(r.reused_connection);
      snprintf(text, sizeof text, "two.invalid:%d:127.0.0.1", p.port);
      assert_string_equal(t->pinned, text);
      http_request_free(&r);
    }
    net_stop(&n);
    peer_stop(&p);
  }
}

static void no_descriptors(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY};
  struct http_request r[2];
  struct rlimit old, low;
  peer_start(&p, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  net_request(&n, &r[0], t, "GET", "/"); /* libcurl has what it needs itself */
  net_send(&n, &r[0]);
  net_wait(&n, 1);
  getrlimit(RLIMIT_NOFILE, &old);
  low = old;
  int spare[256], taken = 0;
  for (; taken < 256 && (spare[taken] = dup(0)) >= 0 && spare[taken] < 200; taken++)
    ;
  low.rlim_cur = 64;
  setrlimit(RLIMIT_NOFILE, &low);
  t = net_target(&n, "http", "127.0.0.2", p.port, NULL);
  net_request(&n, &r[1], t, "GET", "/");
  net_send(&n, &r[1]);
  net_wait(&n, 2);
  setrlimit(RLIMIT_NOFILE, &old);
  while (taken-- > 0)
    close(spare[taken]);
  check_outcome(
      &r[1], SAMPLE_CONNECT,
      "no descriptor is left for a connection (the limit is 64 open files); raise it with "
      "`ulimit -n`");
  assert_int_equal(stats_of(&n).descriptor_limit_hits, 1);
  http_request_free(&r[0]);
  http_request_free(&r[1]);
  net_stop(&n);
  peer_stop(&p);
}

static void raises_the_limit(void **state) {
  (void)state;
  struct rlimit limit, low;
  struct err err;
  getrlimit(RLIMIT_NOFILE, &limit);
  low = limit;
  low.rlim_cur = limit.rlim_max / 2;
  setrlimit(RLIMIT_NOFILE, &low);
  check_ok(http_global_init(&err), &err);
  getrlimit(RLIMIT_NOFILE, &low);
  assert_int_equal(low.rlim_cur, limit.rlim_max);
}

/* ---- TLS ---- */

struct tls_case {
  const char *name, *cert, *host; /* the server's certificate, the name in the URL */
  bool with_ca, insecure, ask_client, give_client;
  int max_version;
  enum sample_error error;
  const char *detail;
};

static const struct tls_case cases[] = {
    {"good", "good", "127.0.0.1", true, false, false, false, 0, SAMPLE_OK, ""},
    {"good by name", "good", "localhost", true, false, false, false, 0, SAMPLE_OK, ""},
    {"TLS 1.2", "good", "127.0.0.1", true, false, false, false, TLS1_2_VERSION, SAMPLE_OK, ""},
    {"own CA, not named", "good", "127.0.0.1", false, false, false, false, 0, SAMPLE_TLS,
     "certificate not accepted: unable to get local issuer certificate; if its CA is your own, "
     "name "
     "it with --ca-file"},
    {"self-signed", "self", "127.0.0.1", false, false, false, false, 0, SAMPLE_TLS,
     "certificate not accepted: self-signed certificate; if its CA is your own, name it with "
     "--ca-file"},
    {"self-signed, other CA", "self", "127.0.0.1", true, false, false, false, 0, SAMPLE_TLS,
     "self-signed certificate"},
    {"wrong name", "other", "127.0.0.1", true, false, false, false, 0, SAMPLE_TLS,
     "use the name that the certificate was made for"},
    {"expired", "expired", "127.0.0.1", true, false, false, false, 0, SAMPLE_TLS,
     "certificate has expired; renew it, or check this machine's clock"},
    {"insecure", "self", "127.0.0.1", false, true, false, false, 0, SAMPLE_OK, ""},
    {"insecure, wrong name", "other", "127.0.0.1", false, true, false, false, 0, SAMPLE_OK, ""},
    {"client certificate", "good", "127.0.0.1", true, false, true, true, 0, SAMPLE_OK, ""},
    {"client certificate missing, 1.3", "good", "127.0.0.1", true, false, true, false, 0,
     SAMPLE_TLS, "certificate required; does it ask for a client certificate?"},
    {"client certificate missing, 1.2", "good", "127.0.0.1", true, false, true, false,
     TLS1_2_VERSION, SAMPLE_TLS, "does it ask for a client certificate?"},
};

static void try_tls(const struct tls_case *c, bool full) {
  struct net n;
  struct tls_peer tls = {
      .files = &files, .cert = c->cert, .ask_client = c->ask_client, .max_version = c->max_version};
  struct peer p = {.text = OK_REPLY, .arg = &tls};
  struct http_request r;
  char cert[96], key[96], url[64];
  int before = open_descriptors();
  struct blob *body = blob_new("{\"x\":2}", 7);
  tls_path(&files, "client", "pem", cert);
  tls_path(&files, "client", "key", key);
  peer_start(&p, tls_keep);
  net_start(&n, NULL);
  struct http_target_options o = {.full = full,
                                  .tls = {.ca_file = c->with_ca ? files.ca : NULL,
                                          .cert_file = c->give_client ? cert : NULL,
                                          .key_file = c->give_client ? key : NULL,
                                          .insecure = c->insecure}};
  struct http_target *t = net_target(&n, "https", c->host, p.port, &o);
  for (int i = 0; i < 3; i++) {
    net_request(&n, &r, t, "POST", "/tls");
    r.parts = &body;
    r.n_parts = 1;
    net_send(&n, &r);
    net_wait(&n, i + 1);
    if (r.error != c->error || !strstr(r.detail, c->detail))
      fail_msg("%s%s: %s (%s)", c->name, full ? ", full" : "", sample_error_name(r.error),
               r.detail);
    if (c->error == SAMPLE_OK) {
      assert_string_equal(r.body.data, "ok");
      assert_int_equal(r.reused_connection, i > 0);
      check_has(p.request, "\r\n\r\n{\"x\":2}");
    } else {
      snprintf(url, sizeof url, "https://%s:%d: ", c->host, p.port);
      check_has(r.detail, url);
    }
    http_request_free(&r);
  }
  assert_int_equal(p.requests, c->error == SAMPLE_OK ? 3 : 0);
  blob_unref(body);
  net_stop(&n);
  peer_stop(&p);
  assert_int_equal(open_descriptors(), before);
}

static void certificates(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(cases); i++)
    for (int full = 0; full <= 1; full++)
      try_tls(&cases[i], full != 0);
}

/* No TLS on the other side. */
static void script_plain(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd)) {
    char some[1000];
    (void)!read(fd, some, sizeof some);
    peer_puts(fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  }
}

static void plain_server(void **state) {
  (void)state;
  struct net n;
  struct peer p = {0};
  struct http_request r;
  peer_start(&p, script_plain);
  net_start(&n, NULL);
  net_request(&n, &r, net_target(&n, "https", "127.0.0.1", p.port, NULL), "GET", "/");
  net_send(&n, &r);
  net_wait(&n, 1);
  check_outcome(&r, SAMPLE_TLS, "does the server speak plain http there?");
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&p);
}

/* A TLS connection that libcurl made is ours until we close it, though to libcurl it looks idle: in
 * a cache shared with others it would be closed under us when the server has closed it, or after
 * two minutes (libcurl looks when it makes another one, once a second at most). */
struct made {
  struct net *net;
  struct connecting *op;
  struct ssl_st *ssl;
  int fd;
};

static void note_made(void *user, struct connecting *op, int fd, struct ssl_st *ssl,
                      enum sample_error error, const char *text) {
  struct made *m = user;
  assert_true(error == SAMPLE_OK && text == NULL);
  m->op = op;
  m->fd = fd;
  m->ssl = ssl;
  loop_stop(m->net->loop);
}

static void script_hang_up(struct peer *p) {
  struct tls_peer *t = p->arg;
  SSL_CTX *ctx = tls_context(t);
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    SSL *ssl = tls_accept(ctx, fd);
    if (ssl)
      tls_close(ssl, false); /* nothing waits but the end of file */
    ;
  }
  SSL_CTX_free(ctx);
}

static void ours_until_closed(void **state) {
  (void)state;
  struct net n;
  struct tls_peer tls = {.files = &files, .cert = "good", .max_version = TLS1_2_VERSION};
  struct peer p = {.arg = &tls};
  struct made made[2] = {{.net = &n}, {.net = &n}};
  struct err err;
  int before = open_descriptors();
  peer_start(&p, script_hang_up);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "https", "127.0.0.1", p.port,
                                     &(struct http_target_options){.tls.ca_file = files.ca});
  struct connector *k = connector_new(n.client);
  for (int i = 0; i < 2; i++) {
    check_ok(connector_start(k, t, note_made, &made[i], &made[i].op, &err), &err);
    loop_run(n.loop);
    assert_non_null(made[i].ssl);
    clock_sleep_ns(1050 * MS); /* the server has closed it meanwhile */
  }
  for (int i = 0; i < 2; i++) {
    struct sockaddr_in a;
    socklen_t len = sizeof a;
    assert_int_equal(getsockname(made[i].fd, (struct sockaddr *)&a, &len), 0); /* still there */
    assert_true(made[i].fd != made[1 - i].fd);
    connect_close(made[i].op);
    assert_int_equal(getsockname(made[i].fd, (struct sockaddr *)&a, &len), -1);
  }
  connector_delete(k);
  net_stop(&n);
  peer_stop(&p);
  assert_int_equal(open_descriptors(), before);
}

/* Twenty servers, three rounds, every connection kept. */
static void many_tls_connections(void **state) {
  (void)state;
  enum { N = 20 };
  struct net n;
  static struct peer p[N];
  struct http_request r[N];
  struct http_target *t[N];
  struct tls_peer each[N];
  memset(p, 0, sizeof p);
  net_start(&n, NULL);
  for (int i = 0; i < N; i++) {
    each[i] = (struct tls_peer){.files = &files, .cert = "good"};
    p[i].text = OK_REPLY;
    p[i].arg = &each[i];
    peer_start(&p[i], tls_keep);
    t[i] = net_target(&n, "https", "127.0.0.1", p[i].port,
                      &(struct http_target_options){.tls.ca_file = files.ca});
  }
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < N; i++) {
      net_request(&n, &r[i], t[i], "GET", "/");
      net_send(&n, &r[i]);
    }
    net_wait(&n, (round + 1) * N);
    for (int i = 0; i < N; i++) {
      check_outcome(&r[i], SAMPLE_OK, "");
      assert_int_equal(r[i].reused_connection, round > 0);
      http_request_free(&r[i]);
    }
  }
  assert_int_equal(stats_of(&n).open_now, N);
  assert_int_equal(stats_of(&n).reconnects, 0);
  net_stop(&n);
  for (int i = 0; i < N; i++) {
    assert_int_equal(p[i].accepts, 1);
    peer_stop(&p[i]);
  }
}

/* Given up in the middle of a handshake. */
static void script_silent(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0;)
    peer_drain(fd);
}

static void cancelled_handshake(void **state) {
  (void)state;
  for (int full = 0; full <= 1; full++) {
    struct net n;
    struct peer p = {0};
    struct http_request r;
    int before = open_descriptors();
    peer_start(&p, script_silent);
    net_start(&n, NULL);
    net_request(&n, &r,
                net_target(&n, "https", "127.0.0.1", p.port,
                           &(struct http_target_options){.full = full != 0}),
                "GET", "/");
    net_send(&n, &r);
    net_run(&n, 20 * MS);
    assert_int_equal(p.accepts, 1);
    http_request_cancel(&r, SAMPLE_CANCELLED);
    http_request_free(&r);
    net_stop(&n);
    peer_stop(&p);
    assert_int_equal(open_descriptors(), before);
  }
}

/* ---- texts ---- */

static void failure_texts(void **state) {
  (void)state;
  static const struct {
    int code, os_errno;
    const char *said;
    enum sample_error error;
    const char *text;
  } texts[] = {
      {7, ENETUNREACH, "", SAMPLE_CONNECT,
       "Network is unreachable; are address and network right?"},
      {7, EADDRNOTAVAIL, "", SAMPLE_CONNECT, "no local port may be left"},
      {7, ETIMEDOUT, "", SAMPLE_CONNECT, "Connection timed out"},
      {6, 0, "Could not resolve host: x", SAMPLE_RESOLVE,
       "Could not resolve host: x; is the host name right?"},
      {28, 0, "Connection timed out after 300000 ms", SAMPLE_TIMEOUT_CONNECT, "300000 ms"},
      {77, 0, "error setting certificate file: x", SAMPLE_TLS, "TLS failed: error setting"},
      {97, 0, "CONNECT tunnel failed, response 403", SAMPLE_CONNECT,
       "no connection: CONNECT tunnel failed, response 403"},
  };
  struct net n;
  char text[CURL_FAILURE_BYTES];
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", 1, NULL);
  for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
    enum sample_error error =
        curl_setup_failure(t, NULL, texts[i].code, texts[i].os_errno, texts[i].said, text);
    assert_int_equal(error, texts[i].error);
    check_has(text, texts[i].text);
  }
  assert_int_equal(stats_of(&n).descriptor_limit_hits, 1);
  t->proxy = mem_strdup("http://127.0.0.1:1");
  assert_int_equal(curl_setup_failure(t, NULL, 43, 0, "", text), SAMPLE_CONNECT);
  check_has(text, "no connection through the proxy: what it answers is not HTTP");
  net_stop(&n);
}

/* More than libcurl is given at once: those in line have their turn when others are done, refused
 * or given up, and can be given up themselves. */
#define CROWD 600
static void crowd(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"};
  struct http_request *r = mem_calloc(CROWD, sizeof *r);
  peer_start(&p, peer_close);
  for (int round = 0; round < 3; round++) {
    int gone = 0;
    net_start(&n, NULL);
    struct http_target *t =
        net_target(&n, "http", "127.0.0.1", round == 1 ? 1 : p.port, NULL); /* nobody is at 1 */
    for (size_t i = 0; i < CROWD; i++) {
      net_request(&n, &r[i], t, "GET", "/");
      net_send(&n, &r[i]);
    }
    for (size_t i = 0; i < CROWD; i++) {
      bool give_up = round == 2 ? i < 590 : i % 60 == 7;
      if (!give_up)
        continue;
      http_request_cancel(&r[i], SAMPLE_CANCELLED);
      gone++;
    }
    net_wait(&n, CROWD - gone);
    for (size_t i = 0; i < CROWD; i++) {
      if (r[i].error != SAMPLE_CANCELLED)
        assert_int_equal(r[i].error, round == 1 ? SAMPLE_CONNECT : SAMPLE_OK);
      http_request_free(&r[i]);
    }
    net_stop(&n);
  }
  peer_stop(&p);
  mem_free(r);
}

/* Every connection makes a whole handshake, whoever had one before: it stands for a client that
 * comes for the first time, and runs do not differ by which handle was free. */
static int resumed; /* atomic */

static void script_tls_once(struct peer *p) {
  struct tls_peer *t = p->arg;
  SSL_CTX *ctx = tls_context(t);
  SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"t", 1);
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    SSL *ssl = tls_accept(ctx, fd);
    if (!ssl)
      continue;
    __atomic_add_fetch(&resumed, SSL_session_reused(ssl), __ATOMIC_RELAXED);
    if (tls_read(p, ssl))
      SSL_write(ssl, p->text, (int)strlen(p->text));
    tls_close(ssl, true);
  }
  SSL_CTX_free(ctx);
}

static void whole_handshakes(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct net n;
    struct tls_peer tls = {
        .files = &files, .cert = "good", .max_version = i % 2 ? TLS1_2_VERSION : 0};
    struct peer p = {.text = OK_REPLY, .arg = &tls};
    struct http_request r;
    resumed = 0;
    peer_start(&p, script_tls_once);
    net_start(&n, NULL);
    struct http_target *t =
        net_target(&n, "https", "localhost", p.port,
                   &(struct http_target_options){.full = i / 2, .tls.ca_file = files.ca});
    for (int k = 0; k < 4; k++) {
      net_request(&n, &r, t, "GET", "/");
      r.headers = k % 2 ? "Connection: close\r\n" : NULL;
      net_send(&n, &r);
      net_wait(&n, k + 1);
      check_outcome(&r, SAMPLE_OK, "");
      http_request_free(&r);
      net_run(&n, 5 * MS);
    }
    assert_int_equal(p.accepts, 4);
    assert_int_equal(resumed, 0);
    net_stop(&n);
    peer_stop(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refused),
      cmocka_unit_test(second_address),
      cmocka_unit_test(no_descriptors),
      cmocka_unit_test(raises_the_limit),
      cmocka_unit_test(certificates),
      cmocka_unit_test(plain_server),
      cmocka_unit_test(ours_until_closed),
      cmocka_unit_test(many_tls_connections),
      cmocka_unit_test(cancelled_handshake),
      cmocka_unit_test(failure_texts),
      cmocka_unit_test(whole_handshakes),
      cmocka_unit_test(crowd),
  };
  return cmocka_run_group_tests(tests, tls_group_start, tls_group_stop);
}
