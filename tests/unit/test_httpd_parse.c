/* test_httpd_parse.c: requests from bytes: every field, every split, every limit. */
#include "check.h"

#include "base/mem.h"
#include "io/httpd_parse.h"

/* Feeds text that holds one request and nothing else. */
static enum httpd_parse feed(struct httpd_parser *p, const char *text) {
  size_t used = 0, len = strlen(text);
  enum httpd_parse got = httpd_parser_feed(p, text, len, &used);
  if (got == HTTPD_PARSE_REQUEST)
    assert_int_equal(used, len);
  return got;
}

static void check_target(const char *target, const char *path, const char *query) {
  struct httpd_parser p;
  char text[256];
  httpd_parser_init(&p, 100, 1000);
  snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
  assert_int_equal(feed(&p, text), HTTPD_PARSE_REQUEST);
  assert_string_equal(p.head.data + p.path, path);
  assert_string_equal(p.head.data + p.query, query);
  assert_string_equal(httpd_parser_header(&p, "host"), "h");
  httpd_parser_free(&p);
}

static void targets_are_split(void **state) {
  (void)state;
  check_target("/", "/", "");
  check_target("/v1/models?a=b&c=%20?d", "/v1/models", "a=b&c=%20?d");
  check_target("/x?", "/x", "");
  check_target("http://127.0.0.1:8000/v1/chat?x=1", "/v1/chat", "x=1");
  check_target("http://host", "/", "");
  check_target("http://host?x=1", "/", "x=1");
  check_target("/a://b/c", "/a://b/c", "");
}

static void other_forms_are_ordinary_requests(void **state) {
  (void)state;
  struct httpd_parser p;
  httpd_parser_init(&p, 100, 1000);
  assert_int_equal(feed(&p, "OPTIONS * HTTP/1.1\r\n\r\n"), HTTPD_PARSE_REQUEST);
  assert_string_equal(p.head.data + p.path, "*");
  assert_string_equal(p.method, "OPTIONS");
  assert_int_equal(feed(&p, "CONNECT host:80 HTTP/1.1\r\n\r\n"), HTTPD_PARSE_REQUEST);
  assert_string_equal(p.head.data + p.path, "host:80");
  assert_string_equal(p.method, "CONNECT");
  /* curl --http2 offers an upgrade with each request */
  assert_int_equal(feed(&p, "GET /up HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                            "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"),
                   HTTPD_PARSE_REQUEST);
  assert_true(p.keep_alive);
  assert_int_equal(feed(&p, "POST /up HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
                            "Content-Length: 3\r\n\r\nabc"),
                   HTTPD_PARSE_REQUEST);
  assert_string_equal(p.body.data, "abc");
  assert_int_equal(feed(&p, "GET /next HTTP/1.1\r\n\r\n"), HTTPD_PARSE_REQUEST);
  assert_string_equal(p.head.data + p.path, "/next");
  httpd_parser_free(&p);
}

static void headers_are_found_in_any_case(void **state) {
  (void)state;
  struct httpd_parser p;
  httpd_parser_init(&p, 100, 1000);
  assert_int_equal(feed(&p, "POST / HTTP/1.1\r\nX-Key:  a b \t \r\nempty:\r\nTwice: 1\r\n"
                            "twice: 2\r\nContent-Length: 2\r\n\r\nhi"),
                   HTTPD_PARSE_REQUEST);
  assert_string_equal(httpd_parser_header(&p, "x-kEY"), "a b");
  assert_string_equal(httpd_parser_header(&p, "Empty"), "");
  assert_string_equal(httpd_parser_header(&p, "twice"), "1");
  assert_null(httpd_parser_header(&p, "x-ke"));
  assert_null(httpd_parser_header(&p, "x-keyy"));
  assert_int_equal(p.n_headers, 5);
  assert_string_equal(p.body.data, "hi");
  assert_int_equal(p.body.len, 2);
  assert_int_equal(feed(&p, "GET / HTTP/1.1\r\n\r\n"), HTTPD_PARSE_REQUEST);
  assert_null(httpd_parser_header(&p, "x-key")); /* nothing stays from the one before */
  assert_int_equal(p.body.len, 0);
  assert_string_equal(p.body.data, "");
  httpd_parser_free(&p);
}

/* ---- splits ---- */

static const char stream[] =
    "\r\nPOST /first?q=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nX-Long: one two\r\n\r\nhello "
    "world"
    "GET /second HTTP/1.1\r\nHost: b\r\n\r\n"
    "PUT /third HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
    "5;name=value\r\nchunk\r\nb\r\ned together\r\n0\r\nX-Sum: 12\r\n\r\n"
    "DELETE /fourth HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    "HEAD /fifth HTTP/1.1\r\nConnection: close\r\n\r\n";

static const char told[] = "POST /first ?q=1 keep 1.1 headers=3 [hello world]\n"
                           "GET /second ? keep 1.1 headers=1 []\n"
                           "PUT /third ? keep 1.1 headers=2 [chunked together]\n"
                           "DELETE /fourth ? keep 1.0 headers=1 []\n"
                           "HEAD /fifth ? close 1.1 headers=1 []\n";

static void tell(struct httpd_parser *p, char *text) {
  sprintf(text + strlen(text), "%s %s ?%s %s %s headers=%zu [%s]\n", p->method,
          p->head.data + p->path, p->head.data + p->query, p->keep_alive ? "keep" : "close",
          p->http10 ? "1.0" : "1.1", p->n_headers, p->body.data);
  assert_null(httpd_parser_header(p, "x-sum"));
}

static void feed_piece(struct httpd_parser *p, const char *data, size_t len, char *text) {
  while (len) {
    size_t used;
    enum httpd_parse got = httpd_parser_feed(p, data, len, &used);
    assert_int_not_equal(got, HTTPD_PARSE_BAD);
    assert_true(used <= len);
    if (got == HTTPD_PARSE_REQUEST)
      tell(p, text);
    else
      assert_int_equal(used, len);
    data += used;
    len -= used;
  }
}

static void every_split_gives_the_same_requests(void **state) {
  (void)state;
  size_t len = sizeof stream - 1;
  for (size_t cut = 0; cut <= len; cut++) {
    struct httpd_parser p;
    char text[1024] = "";
    httpd_parser_init(&p, 100, 1000);
    feed_piece(&p, stream, cut, text);
    feed_piece(&p, stream + cut, len - cut, text);
    assert_string_equal(text, told);
    httpd_parser_free(&p);
  }
  for (size_t step = 1; step < 8; step++) {
    struct httpd_parser p;
    char text[1024] = "";
    httpd_parser_init(&p, 100, 1000);
    for (size_t at = 0; at < len; at += step) {
      size_t n = len - at < step ? len - at : step;
      char *copy = mem_dup(stream + at, n); /* nothing may point into bytes that are gone */
      feed_piece(&p, copy, n, text);
      mem_free(copy);
    }
    assert_string_equal(text, told);
    httpd_parser_free(&p);
  }
}

/* ---- limits ---- */

static void check_bad(size_t max_body, size_t max_headers, const char *text, int status,
                      const char *why) {
  struct httpd_parser p;
  httpd_parser_init(&p, max_body, max_headers);
  assert_int_equal(feed(&p, text), HTTPD_PARSE_BAD);
  if (p.bad_status != status)
    fail_msg("status %d, expected %d for: %s", p.bad_status, status, text);
  check_has(p.bad_text, why);
  httpd_parser_free(&p);
}

static void check_good(size_t max_body, size_t max_headers, const char *text) {
  struct httpd_parser p;
  httpd_parser_init(&p, max_body, max_headers);
  assert_int_equal(feed(&p, text), HTTPD_PARSE_REQUEST);
  httpd_parser_free(&p);
}

static void a_long_body_is_refused_before_it_arrives(void **state) {
  (void)state;
  check_good(5, 1000, "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345");
  check_bad(5, 1000, "POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\n", 413,
            "the body is longer than 5 bytes");
  check_good(5, 1000,
             "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n12\r\n3\r\n345\r\n"
             "0\r\n\r\n");
  check_bad(5, 1000,
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n12\r\n4\r\n3456\r\n", 413,
            "the body is longer than 5 bytes");
  check_bad(5, 1000, "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400,
            "Content-Length overflow");
}

/* GET, 4 bytes of target, and one header line: how many bytes that is. */
static const char measured[] = "GET /abc HTTP/1.1\r\nName: value\r\n\r\n";
#define MEASURED (sizeof "GET /abc HTTP/1.1\r\n" - 1 + sizeof "Name: value\r\n" - 1)

static void a_long_head_is_refused(void **state) {
  (void)state;
  check_good(5, MEASURED, measured);
  check_bad(5, MEASURED - 1, measured, 431, "request line and headers are longer than 31 bytes");
  char text[4096] = "GET /";
  memset(text + 5, 'a', 2000); /* no end in sight */
  check_bad(5, 1000, text, 431, "longer than 1000 bytes");
  strcpy(text, "GET / HTTP/1.1\r\n");
  for (int i = 0; i < 300; i++)
    strcat(text, "a:\r\n"); /* many small ones */
  check_bad(5, 1000, text, 431, "longer than 1000 bytes");
  strcpy(text, "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx-trailer: ");
  memset(text + strlen(text), 'b', 1000);
  check_bad(5, 1000, text, 431, "longer than 1000 bytes");
}

static void bad_requests_say_why(void **state) {
  (void)state;
  check_bad(9, 999, "hello\r\n\r\n", 400, "Invalid method");
  check_bad(9, 999, "GET / HTTX/1.1\r\n\r\n", 400, "Expected HTTP/");
  check_bad(9, 999, "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400,
            "Invalid character in Content-Length");
  check_bad(9, 999, "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400,
            "Duplicate Content-Length");
  check_bad(9, 999, "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400, "");
  check_bad(9, 999, "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nx", 400,
            "Transfer-Encoding");
  check_bad(9, 999, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400,
            "Invalid character in chunk size");
  check_bad(9, 999, "GET / HTTP/1.1\r\nBad Name: x\r\n\r\n", 400, "Space in a header name");
  check_bad(9, 999, "GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "Space in a header name");
  check_bad(9, 999, "GET / HTTP/2.0\r\n\r\n", 505, "HTTP/1.0 and HTTP/1.1 are spoken here");
  check_bad(9, 999, "GET / HTTP/0.9\r\n\r\n", 505, "HTTP/1.0 and HTTP/1.1 are spoken here");
}

/* ---- wishes of the client ---- */

static void check_keep(const char *text, bool keep) {
  struct httpd_parser p;
  httpd_parser_init(&p, 100, 1000);
  assert_int_equal(feed(&p, text), HTTPD_PARSE_REQUEST);
  if (p.keep_alive != keep)
    fail_msg("keep_alive is %d for: %s", p.keep_alive, text);
  httpd_parser_free(&p);
}

static void keep_alive_follows_version_and_header(void **state) {
  (void)state;
  check_keep("GET / HTTP/1.1\r\n\r\n", true);
  check_keep("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", false);
  check_keep("GET / HTTP/1.1\r\nconnection: x, CLOSE\r\n\r\n", false);
  check_keep("GET / HTTP/1.0\r\n\r\n", false);
  check_keep("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true);
}

static void check_expect(const char *text, bool expects) {
  struct httpd_parser p;
  size_t used;
  httpd_parser_init(&p, 100, 1000);
  enum httpd_parse got = httpd_parser_feed(&p, text, strlen(text), &used);
  assert_int_not_equal(got, HTTPD_PARSE_BAD);
  if (p.expects_continue != expects)
    fail_msg("expects_continue is %d for: %s", p.expects_continue, text);
  httpd_parser_free(&p);
}

static void expect_counts_only_before_a_body(void **state) {
  (void)state;
  check_expect("POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n", true);
  check_expect("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
               true);
  check_expect("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n", false);
  check_expect("POST / HTTP/1.1\r\nExpect: tea\r\nContent-Length: 5\r\n\r\n", false);
  check_expect("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", false);
  check_expect("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", false);
}

/* A connection that once had a long body does not keep its memory. */
static void memory_of_a_long_body_is_given_back(void **state) {
  (void)state;
  struct httpd_parser p;
  size_t len = 1 << 20, used;
  char *body = mem_calloc(len, 1);
  httpd_parser_init(&p, len, 1000);
  assert_int_equal(feed(&p, "POST / HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n"),
                   HTTPD_PARSE_MORE);
  assert_int_equal(httpd_parser_feed(&p, body, len, &used), HTTPD_PARSE_REQUEST);
  assert_int_equal(used, len);
  assert_int_equal(p.body.len, len);
  assert_true(p.body.cap > len);
  assert_int_equal(feed(&p, "GET / HTTP/1.1\r\n\r\n"), HTTPD_PARSE_REQUEST);
  assert_true(p.body.cap <= 16 * 1024);
  httpd_parser_free(&p);
  mem_free(body);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(targets_are_split),
      cmocka_unit_test(other_forms_are_ordinary_requests),
      cmocka_unit_test(headers_are_found_in_any_case),
      cmocka_unit_test(every_split_gives_the_same_requests),
      cmocka_unit_test(a_long_body_is_refused_before_it_arrives),
      cmocka_unit_test(a_long_head_is_refused),
      cmocka_unit_test(bad_requests_say_why),
      cmocka_unit_test(keep_alive_follows_version_and_header),
      cmocka_unit_test(expect_counts_only_before_a_body),
      cmocka_unit_test(memory_of_a_long_body_is_given_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
