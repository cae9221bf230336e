/* test_target.c: addresses and settings that are accepted, refused, or the same. */
#include "net_peer.h"

#include "net/client.h"

static int make(struct net *n, struct http_target_options o, struct http_target **t,
                struct err *err) {
  return http_client_target(n->client, &o, t, err);
}

static void urls(void **state) {
  (void)state;
  struct net n;
  struct err err;
  struct http_target *t;
  net_start(&n, NULL);
  check_ok(make(&n, (struct http_target_options){.url = "HTTP://Example.COM:80/v1/"}, &t, &err),
           &err);
  assert_string_equal(http_target_url(t), "http://example.com/v1");
  assert_string_equal(t->authority, "example.com");
  assert_int_equal(t->origin_len, strlen("http://example.com"));
  assert_int_equal(t->state, TARGET_NEW);
  check_ok(make(&n, (struct http_target_options){.url = "https://[::1]:8443"}, &t, &err), &err);
  assert_string_equal(http_target_url(t), "https://[::1]:8443");
  assert_int_equal(t->state, TARGET_READY); /* an address needs no name */
  check_ok(make(&n, (struct http_target_options){.url = "http://10.1.2.3"}, &t, &err), &err);
  assert_int_equal(t->state, TARGET_READY);
  net_stop(&n);
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    struct http_target_options o;
    int rc;
    const char *text;
  } bad[] = {
      {{.url = "ftp://x"}, ERR_INVALID, "ftp://x"},
      {{.url = "localhost:8000"}, ERR_INVALID, "localhost:8000"},
      {{.url = "http://x:99999"}, ERR_INVALID, "99999"},
      {{.url = "http://x", .http2 = true},
       ERR_UNSUPPORTED,
       "http://x: HTTP/2 without TLS is refused"},
      {{.url = "https://x", .tls.ca_file = "/nowhere/ca.pem"},
       ERR_INVALID,
       "https://x: cannot read the CA file /nowhere/ca.pem: No such file"},
      {{.url = "https://x", .tls.cert_file = "/nowhere/c.pem"},
       ERR_INVALID,
       "client certificate /nowhere/c.pem"},
      {{.url = "https://x", .tls.key_file = "/dev/null"},
       ERR_INVALID,
       "a client key needs its certificate"},
      {{.url = "http://x", .proxy = "proxy:3128"},
       ERR_INVALID,
       "proxy \"proxy:3128\": it must begin with"},
      {{.url = "http://x", .proxy = "http://me:secret@"}, ERR_INVALID, "names no host"},
      {{.url = "http://x", .proxy = "http://me:secret@p:x"},
       ERR_INVALID,
       "proxy \"p:x\": the port"},
      {{.url = "http://x", .proxy = "http://p:70000"}, ERR_INVALID, "1 to 65535"},
      {{.url = "http://x", .proxy = "http://[::1"}, ERR_INVALID, "names no host"},
      {{.url = "http://x", .proxy = "http://[::g]:1"}, ERR_INVALID, "\"http://[::g]:1\": its host"},
      {{.url = "http://x", .proxy = "http://a_b!c:1"}, ERR_INVALID, "neither a name nor an"},
      {{.url = "http://x", .proxy = "http://a:1\nb"}, ERR_INVALID, "no spaces and control"},
      {{.url = "http://x", .proxy = "http://p:"}, ERR_INVALID, "1 to 65535"},
      {{.url = "http://x", .proxy = "http://p:0"}, ERR_INVALID, "1 to 65535"},
      {{.url = "http://x", .proxy = "http://p:+8"}, ERR_INVALID, "1 to 65535"},
      {{.url = "http://x", .proxy = "http://p:8080/way"}, ERR_INVALID, "nothing behind it"},
      {{.url = "http://x", .proxy = "ftp://u:w@p:21"},
       ERR_INVALID,
       "proxy \"p:21\": it must begin"},
  };
  struct net n;
  net_start(&n, NULL);
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    struct err err = {0};
    struct http_target *t = NULL;
    int rc = make(&n, bad[i].o, &t, &err);
    if (rc != bad[i].rc)
      fail_msg("case %zu: %d (%s)", i, rc, err.text);
    check_has(err.text, bad[i].text);
    assert_null(strstr(err.text, "secret"));
    assert_null(t);
  }
  net_stop(&n);
}

static void the_same(void **state) {
  (void)state;
  struct net n;
  struct err err;
  struct http_target *first, *t;
  struct http_target_options o = {.url = "https://h:443/a/", .tls.ca_file = "/dev/null"};
  _Atomic bool shared = false;
  net_start(&n, NULL);
  check_ok(make(&n, o, &first, &err), &err);
  o.url = "https://H/a";
  check_ok(make(&n, o, &t, &err), &err);
  assert_ptr_equal(t, first);
  struct http_target_options others[] = {o, o, o, o, o, o, o, o};
  others[0].url = "https://h/b";
  others[1].tls.ca_file = NULL;
  others[2].tls.insecure = true;
  others[3].http2 = true;
  others[4].full = true;
  others[5].proxy = "socks5h://p:1";
  others[6].reports_cached = true;
  others[7].reports = &shared;
  for (size_t i = 0; i < ARRAY_LEN(others); i++) {
    struct http_target *once;
    check_ok(make(&n, others[i], &once, &err), &err);
    assert_ptr_not_equal(once, first);
    check_ok(make(&n, others[i], &t, &err), &err);
    assert_ptr_equal(t, once);
  }
  net_stop(&n);
}

static void proxies(void **state) {
  (void)state;
  static const struct {
    const char *proxy, *name;
    uint16_t port;
  } good[] = {{"http://p:3128", "p", 3128},
              {"http://u:w@p:3128/", "p", 3128},
              {"socks5h://[fe80::1]:9", "fe80::1", 9},
              {"HTTPS://p", "p", 443},
              {"socks4://10.0.0.1", "10.0.0.1", 1080}};
  struct net n;
  struct err err;
  struct http_target *t;
  struct http_request r;
  net_start(&n, NULL);
  for (size_t i = 0; i < ARRAY_LEN(good); i++) {
    check_ok(make(&n, (struct http_target_options){.url = "https://h", .proxy = good[i].proxy}, &t,
                  &err),
             &err);
    assert_string_equal(t->name, good[i].name);
    assert_int_equal(t->name_port, good[i].port);
    check_ok(http_proxy_check(good[i].proxy, &err), &err);
  }
  assert_int_equal(http_proxy_check("http://me:secret@p:x", &err), ERR_INVALID);
  check_has(err.text, "proxy \"p:x\": the port");
  /* Who carries what. */
  static const struct {
    struct http_target_options o;
    const char *transport;
  } carried[] = {
      {{.url = "http://h"}, "h1"},
      {{.url = "https://h"}, "h1"},
      {{.url = "https://h", .proxy = "http://p:1"}, "h1"},
      {{.url = "http://h", .proxy = "socks5h://p:1"}, "h1"},
      {{.url = "http://h", .proxy = "http://p:1"}, "full"},
      {{.url = "https://h", .proxy = "https://p:1"}, "full"},
      {{.url = "http://h", .proxy = "HTTP://p:1"}, "full"},
      {{.url = "https://h", .http2 = true}, "full"},
      {{.url = "http://h", .full = true}, "full"},
  };
  for (size_t i = 0; i < ARRAY_LEN(carried); i++) {
    check_ok(make(&n, carried[i].o, &t, &err), &err);
    http_request_init(&r);
    assert_string_equal(http_client_choose(n.client, &r, t)->name, carried[i].transport);
  }
  check_ok(make(&n, (struct http_target_options){.url = "http://h"}, &t, &err), &err);
  r.follow_redirects = true;
  assert_string_equal(http_client_choose(n.client, &r, t)->name, "full");
  r.follow_redirects = false;
  r.accept_compressed = true;
  assert_string_equal(http_client_choose(n.client, &r, t)->name, "full");
  http_request_free(&r);
  net_stop(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(urls),
      cmocka_unit_test(refusals),
      cmocka_unit_test(the_same),
      cmocka_unit_test(proxies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
