#include "check.h"

#include "text/url.h"

static void good(const char *text, bool tls, const char *host, int port, const char *path,
                 const char *authority) {
  struct err err;
  struct url u;
  char a[URL_AUTHORITY_MAX];
  int rc = url_parse(text, strlen(text), &u, &err);
  if (rc)
    fail_msg("%s: %s", text, err.text);
  assert_int_equal(u.tls, tls);
  assert_string_equal(u.host, host);
  assert_int_equal(u.port, port);
  assert_string_equal(u.path, path);
  url_authority(&u, a, sizeof a);
  assert_string_equal(a, authority);
  assert_int_equal(u.ipv6, strchr(host, ':') != NULL);
  url_free(&u);
  assert_null(u.path);
}

static void test_accepted(void **state) {
  (void)state;
  good("http://localhost", false, "localhost", 80, "", "localhost");
  good("http://localhost/", false, "localhost", 80, "", "localhost");
  good("https://H.Example", true, "h.example", 443, "", "h.example");
  good("HTTPS://h:443", true, "h", 443, "", "h");
  good("http://h:443", false, "h", 443, "", "h:443");
  good("http://10.0.0.1:8000/v1//", false, "10.0.0.1", 8000, "/v1", "10.0.0.1:8000");
  good("http://my_pod-0.svc:65535/a/b@c:d", false, "my_pod-0.svc", 65535, "/a/b@c:d",
       "my_pod-0.svc:65535");
  good("http://[::1]:8000/x", false, "::1", 8000, "/x", "[::1]:8000");
  good("http://[::]", false, "::", 80, "", "[::]");
  good("https://[2001:DB8::a:1]", true, "2001:db8::a:1", 443, "", "[2001:db8::a:1]");
  good("http://[1:2:3:4:5:6:7:8]", false, "1:2:3:4:5:6:7:8", 80, "", "[1:2:3:4:5:6:7:8]");
  good("http://[::ffff:10.1.2.3]:1", false, "::ffff:10.1.2.3", 1, "", "[::ffff:10.1.2.3]:1");
  good("http://[1:2:3:4:5:6:1.2.3.4]", false, "1:2:3:4:5:6:1.2.3.4", 80, "",
       "[1:2:3:4:5:6:1.2.3.4]");
}

static void bad_len(const char *text, size_t len, const char *why) {
  struct err err;
  struct url u;
  if (url_parse(text, len, &u, &err) != ERR_INVALID)
    fail_msg("%s was accepted", text);
  assert_null(u.path);
  check_has(err.text, why);
}

static void bad(const char *text, const char *why) {
  bad_len(text, strlen(text), why);
}

static void test_refused(void **state) {
  (void)state;
  bad_len(NULL, 0, "has no scheme");
  bad("localhost:8000", "URL \"localhost:8000\": has no scheme; write http://");
  bad("ftp://h", "only http:// and https://");
  bad("http:/h", "has no scheme");
  bad("http://", "has no host");
  bad("http://:8000", "has no host");
  bad("http:///v1", "has no host");
  bad("http://h:", "no port after ':'");
  bad("http://h:/x", "no port after ':'");
  bad("http://h:0", "outside 1..65535");
  bad("http://h:65536", "outside 1..65535");
  bad("http://h:99999999999999999999", "outside 1..65535");
  bad("http://h:80a", "something other than a path");
  bad("http://h:8 0", "has a space");
  bad("http://h/a b", "has a space");
  bad("http://h/\n", "byte 0x0a at position 10");
  bad_len("http://h\0x", 10, "byte 0x00 at position 9");
  bad("http://h\xc3\xa9", "beyond ASCII");
  bad("http://h?x=1", "has a query");
  bad("http://h/p#f", "has a query or fragment");
  bad("http://h*", "no host name can have");
  bad("http://[::1", "has '[' without ']'");
  bad("http://[::1/]", "has '[' without ']'");
  bad("http://[::1]8000", "something other than a path");
  bad("http://::1", "IPv6 address without brackets");
  bad("http://fe80::1:8000", "IPv6 address without brackets");
  const char *no_ipv6[] = {"",
                           "1",
                           ":",
                           ":::",
                           "1:2",
                           "1:2:3:4:5:6:7",
                           "1:2:3:4:5:6:7:8:9",
                           "::1::",
                           "12345::",
                           "g::",
                           "::1.2.3",
                           "::1.2.3.256",
                           "1.2.3.4",
                           "::1.2.3.4.5",
                           "fe80::1%25eth0",
                           "1:2:3:4:5:6:7:1.2.3.4",
                           "::+1.2.3.4",
                           "1:",
                           "1:2:3:4:5:6:7::8"};
  for (size_t i = 0; i < ARRAY_LEN(no_ipv6); i++) {
    char text[64];
    snprintf(text, sizeof text, "http://[%s]", no_ipv6[i]);
    bad(text, "no valid IPv6 address");
  }
  char host[300];
  snprintf(host, sizeof host, "http://%0256d", 1);
  bad(host, "longer than 255");
}

/* Secrets never come back in a message. */
static void test_secrets(void **state) {
  (void)state;
  const char *texts[] = {"http://user:s3cret@h:1", "http://s3cret@h", "ftp://u:s3cret@h",
                         "http://u:s3cret@h/a b", "http://h/?key=s3cret"};
  for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
    struct err err;
    struct url u;
    assert_int_equal(url_parse(texts[i], strlen(texts[i]), &u, &err), ERR_INVALID);
    if (strstr(err.text, "s3cret"))
      fail_msg("%s", err.text);
  }
  bad("http://user:s3cret@h:1", "URL \"…@h:1\": has a user name or password");
  bad("http://user:s3cret@h:1", "as a header");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_accepted),
                                     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_secrets)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
