/* dial.c: each step that can fail, and what is told of it. */
#include "tls_peer.h"

#include <signal.h>

#include "cmd/dial.h"

static struct tls_files files;

static int set_up(void **state) {
  (void)state;
  signal(SIGPIPE, SIG_IGN); /* as main does */
  tls_files_make(&files);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  tls_files_remove(&files);
  return 0;
}

static struct value dial_to(const char *scheme, int port, const struct http_tls *tls) {
  char url[64];
  bool lost = false;
  snprintf(url, sizeof url, "%s://127.0.0.1:%d", scheme, port);
  struct value v =
      dial(&(struct dial_options){.url = url, .tls = *tls, .timeout_ns = 2 * NS_PER_S}, &lost);
  assert_false(lost);
  return v;
}

static const char *text_of(const struct value *v, const char *key) {
  const char *text = value_to_string(value_get(v, key));
  return text ? text : "";
}

static int64_t int_of(const struct value *v, const char *key) {
  int64_t n = INT64_MIN;
  (void)value_to_int(value_get(v, key), &n);
  return n;
}

static struct value dial_tls(const char *cert, bool ask_client, const struct http_tls *tls) {
  struct tls_peer each = {.files = &files, .cert = cert, .ask_client = ask_client};
  struct peer p = {.arg = &each};
  peer_start(&p, tls_keep);
  struct value v = dial_to("https", p.port, tls);
  peer_stop(&p);
  return v;
}

static void test_a_plain_server(void **state) {
  (void)state;
  struct peer p = {0};
  peer_start(&p, peer_close);
  struct value v = dial_to("http", p.port, &(struct http_tls){0});
  peer_stop(&p);
  assert_string_equal(text_of(&v, "step"), "ok");
  assert_string_equal(text_of(&v, "address"), "127.0.0.1");
  assert_int_equal(value_count(value_get(&v, "addresses")), 1);
  double ms = -1;
  assert_true(value_to_double(value_get(&v, "connect_ms"), &ms) && ms >= 0 && ms < 2000);
  assert_null(value_get(&v, "tls_ms"));
  value_free(&v);
}

static void test_a_certificate_that_is_good(void **state) {
  (void)state;
  struct value v = dial_tls("good", false, &(struct http_tls){.ca_file = files.ca});
  assert_string_equal(text_of(&v, "step"), "ok");
  assert_string_equal(text_of(&v, "version"), "TLSv1.3");
  assert_string_equal(text_of(&v, "subject"), "good");
  assert_string_equal(text_of(&v, "issuer"), "ca");
  const struct value *names = value_get(&v, "names");
  assert_int_equal(value_count(names), 2);
  assert_string_equal(value_to_string(value_at(names, 0)), "localhost");
  assert_string_equal(value_to_string(value_at(names, 1)), "127.0.0.1");
  assert_in_range(int_of(&v, "days_left"), 0, 1);
  assert_null(value_get(&v, "verify"));
  value_free(&v);
}

static void test_certificates_that_are_not(void **state) {
  (void)state;
  static const struct {
    const char *cert;
    int64_t code;
    int64_t days_left;
  } cases[] = {{"expired", X509_V_ERR_CERT_HAS_EXPIRED, -1},
               {"other", X509_V_ERR_IP_ADDRESS_MISMATCH, 0},
               {"self", X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, 0}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct http_tls tls = {.ca_file = files.ca};
    struct value v = dial_tls(cases[i].cert, false, &tls);
    assert_string_equal(text_of(&v, "step"), "tls");
    assert_string_equal(text_of(&v, "code"), "verify");
    assert_string_equal(text_of(&v, "subject"), cases[i].cert);
    assert_int_equal(int_of(&v, "verify_code"), cases[i].code);
    assert_true(*text_of(&v, "reason"));
    if (cases[i].days_left < 0)
      assert_int_equal(int_of(&v, "days_left"), -1);
    value_free(&v);
    tls.insecure = true;
    v = dial_tls(cases[i].cert, false, &tls);
    assert_string_equal(text_of(&v, "step"), "ok");
    assert_int_equal(int_of(&v, "verify_code"), cases[i].code);
    value_free(&v);
  }
}

static void test_an_authority_that_is_not_known(void **state) {
  (void)state;
  struct value v = dial_tls("good", false, &(struct http_tls){0});
  assert_string_equal(text_of(&v, "code"), "verify");
  assert_int_equal(int_of(&v, "verify_code"), X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
  value_free(&v);
}

/* Answers whatever comes at once, as a web server does with what is no HTTP. */
static void script_speak(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    peer_reply(p, fd);
    shutdown(fd, SHUT_WR);
    peer_drain(fd);
  }
}

static void script_hang_up(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    shutdown(fd, SHUT_WR);
    peer_drain(fd);
  }
}

static void test_no_tls_is_spoken_there(void **state) {
  (void)state;
  struct peer p = {.text = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"};
  peer_start(&p, script_speak);
  struct value v = dial_to("https", p.port, &(struct http_tls){.ca_file = files.ca});
  peer_stop(&p);
  assert_string_equal(text_of(&v, "step"), "tls");
  assert_string_equal(text_of(&v, "code"), "not_tls");
  assert_true(*text_of(&v, "reason"));
  value_free(&v);
  p = (struct peer){0};
  peer_start(&p, script_hang_up);
  v = dial_to("https", p.port, &(struct http_tls){.ca_file = files.ca});
  peer_stop(&p);
  assert_string_equal(text_of(&v, "step"), "tls");
  assert_string_equal(text_of(&v, "code"), "closed");
  value_free(&v);
}

static void test_nobody_answers_the_handshake(void **state) {
  (void)state;
  int port, fd = peer_listen(&port);
  struct value v = dial_to("https", port, &(struct http_tls){.ca_file = files.ca});
  close(fd);
  assert_string_equal(text_of(&v, "step"), "tls");
  assert_string_equal(text_of(&v, "code"), "timeout");
  value_free(&v);
}

static void test_nothing_listens(void **state) {
  (void)state;
  int port, fd = peer_listen(&port);
  close(fd);
  struct value v = dial_to("http", port, &(struct http_tls){0});
  assert_string_equal(text_of(&v, "step"), "connect");
  assert_string_equal(text_of(&v, "code"), "refused");
  assert_string_equal(text_of(&v, "reason"), "Connection refused");
  value_free(&v);
}

static void test_what_is_no_address(void **state) {
  (void)state;
  bool lost = false;
  struct dial_options o = {.url = "ftp://x", .timeout_ns = NS_PER_S};
  struct value v = dial(&o, &lost);
  assert_string_equal(text_of(&v, "step"), "resolve");
  check_has(text_of(&v, "reason"), "ftp://x");
  value_free(&v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_plain_server),
      cmocka_unit_test(test_a_certificate_that_is_good),
      cmocka_unit_test(test_certificates_that_are_not),
      cmocka_unit_test(test_an_authority_that_is_not_known),
      cmocka_unit_test(test_no_tls_is_spoken_there),
      cmocka_unit_test(test_nobody_answers_the_handshake),
      cmocka_unit_test(test_nothing_listens),
      cmocka_unit_test(test_what_is_no_address),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
