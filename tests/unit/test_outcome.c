/* test_outcome.c: the class and the text of every way a reply can end. A fake transport. */
#include "net_peer.h"

#include "net/client.h"

#define DONE "data: [DONE]\n\n"
#define ROLE                                                                                       \
  "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
#define WHOLE (-1)
#define SSE "text/event-stream"

struct ending {
  int status;
  const char *type, *body;
  int broken; /* WHOLE or an enum http_break */
  enum sample_error error;
  const char *text; /* what the detail must say; "" for ok */
};

static const struct ending streams[] = {
    {200, SSE, EVENT("a") DONE, WHOLE, SAMPLE_OK, ""},
    {200, SSE, EVENT("a") DONE, HTTP_BREAK_CLOSED, SAMPLE_OK, ""},
    {200, SSE, EVENT("a") DONE, HTTP_BREAK_RESET, SAMPLE_OK, ""},
    {200, SSE, EVENT("a"), HTTP_BREAK_RESET, SAMPLE_RESET, "reset after 57 bytes of the reply"},
    {429, "application/json", "{\"error\":{\"message\":\"slow down\",\"code\":429}}", WHOLE,
     SAMPLE_HTTP_429, "HTTP 429: slow down"},
    {400, "application/json", "{\"object\":\"error\",\"message\":\"too long\"}", WHOLE,
     SAMPLE_HTTP_4XX, "HTTP 400: too long"},
    {401, "application/json", "{\"error\":\"no\\nkey\"}", WHOLE, SAMPLE_HTTP_4XX,
     "HTTP 401: no key; is the API key right?"},
    {404, "application/json", "{\"detail\":\"Not Found\"}", WHOLE, SAMPLE_HTTP_4XX,
     "HTTP 404: Not Found"},
    {500, "text/html", "<h1>\r\n oops</h1>", WHOLE, SAMPLE_HTTP_5XX, "HTTP 500: <h1>   oops</h1>"},
    {503, SSE, "", WHOLE, SAMPLE_HTTP_5XX, "HTTP 503"},
    {503, "text/plain", "tired", HTTP_BREAK_CLOSED, SAMPLE_HTTP_5XX, "HTTP 503: tired"},
    {200, "text/html", "<p>welcome", WHOLE, SAMPLE_NOT_SSE, "the reply is text/html: <p>welcome"},
    {200, NULL, "x", WHOLE, SAMPLE_NOT_SSE, "the reply is without content type: x"},
    {200, "application/json", "", WHOLE, SAMPLE_NOT_SSE, "the reply is application/json"},
    {302, "text/html", "moved", WHOLE, SAMPLE_NOT_SSE,
     "HTTP 302, a redirect: name the final address, or follow it"},
    {200, "application/json", "{\"choices\":[]}", WHOLE, SAMPLE_NOT_SSE, "{\"choices\":[]}"},
    {200, "application/json", "{\"error\":{\"message\":\"engine dead\"}}", WHOLE,
     SAMPLE_STREAM_ERROR, "an error under status 200: engine dead"},
    {200, SSE, EVENT("a") "data: {\"error\":{\"message\":\"out of memory\"}}\n\n" DONE, WHOLE,
     SAMPLE_STREAM_ERROR, "an error in the stream: out of memory"},
    {200, SSE, "event: error\ndata: {\"message\":\"bad\",\"object\":\"error\"}\n\n", WHOLE,
     SAMPLE_STREAM_ERROR, "an error in the stream"},
    {200, SSE, "", WHOLE, SAMPLE_EMPTY_STREAM, "the stream is empty"},
    {200, SSE, "", HTTP_BREAK_CLOSED, SAMPLE_EMPTY_STREAM, "the stream is empty"},
    {200, NULL, "", WHOLE, SAMPLE_EMPTY_STREAM, "an empty reply under status 200"},
    {200, SSE, DONE, WHOLE, SAMPLE_EMPTY_STREAM, "nothing but its end marker"},
    {200, SSE, ": ping\n\n" DONE, WHOLE, SAMPLE_EMPTY_STREAM, "nothing but its end marker"},
    {200, SSE, EVENT("a"), WHOLE, SAMPLE_TRUNCATED, "ended without its end marker"},
    {200, SSE, EVENT("a"), HTTP_BREAK_CLOSED, SAMPLE_TRUNCATED, "without its end marker"},
    {200, SSE, EVENT("a") "data: {\"choices\":[{", WHOLE, SAMPLE_TRUNCATED,
     "cut off inside an event"},
    {200, SSE, "data: {\"choices\" nonsense}\n\n" DONE, WHOLE, SAMPLE_BAD_JSON, "not JSON"},
    {200, SSE, ROLE DONE, WHOLE, SAMPLE_NO_VISIBLE_OUTPUT, "carried no output"},
    {200, SSE, "{\"choices\":[]}", WHOLE, SAMPLE_NOT_SSE, "not an event stream in the stream"},
};

#define REPLY(content) "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"" content "\"}}]}"

/* A generation request without stream. */
static const struct ending replies[] = {
    {200, "application/json", REPLY("hello"), WHOLE, SAMPLE_OK, ""},
    {200, SSE, EVENT("a") DONE, WHOLE, SAMPLE_OK, ""},
    {200, "application/json", REPLY(""), WHOLE, SAMPLE_NO_VISIBLE_OUTPUT, "carries no output"},
    {200, "application/json", "", WHOLE, SAMPLE_EMPTY_STREAM, "the reply is empty"},
    {200, "application/json", "hello", WHOLE, SAMPLE_BAD_JSON, "not JSON in the reply"},
    {200, "application/json", "{\"error\":{\"message\":\"no\"}}", WHOLE, SAMPLE_STREAM_ERROR,
     "an error in the reply: no"},
    {200, "application/json", "{\"choices\":", HTTP_BREAK_CLOSED, SAMPLE_TRUNCATED,
     "ends early, after 11 bytes"},
    {200, "application/json", REPLY("hello"), HTTP_BREAK_RESET, SAMPLE_RESET, "was reset"},
    {307, NULL, "", WHOLE, SAMPLE_NOT_SSE, "HTTP 307, a redirect"},
};

/* Plain HTTP. */
static const struct ending plain[] = {
    {200, "text/plain", "x", WHOLE, SAMPLE_OK, ""},
    {200, NULL, "", WHOLE, SAMPLE_OK, ""},
    {301, NULL, "", WHOLE, SAMPLE_OK, ""},
    {429, NULL, "", WHOLE, SAMPLE_HTTP_429, "HTTP 429"},
    {499, NULL, "", WHOLE, SAMPLE_HTTP_4XX, "HTTP 499"},
    {599, NULL, "", WHOLE, SAMPLE_HTTP_5XX, "HTTP 599"},
    {200, NULL, "abc", HTTP_BREAK_CLOSED, SAMPLE_TRUNCATED, "ends early, after 3 bytes"},
    {200, NULL, "abc", HTTP_BREAK_GARBLED, SAMPLE_TRUNCATED, "ends early, after 3 bytes: because"},
    {200, NULL, "abc", HTTP_BREAK_RESET, SAMPLE_RESET, "reset after 3 bytes"},
    {0, NULL, NULL, HTTP_BREAK_RESET, SAMPLE_RESET, "was reset before the reply"},
    {0, NULL, NULL, HTTP_BREAK_CLOSED, SAMPLE_RESET, "was closed before the reply"},
    {0, NULL, NULL, HTTP_BREAK_GARBLED, SAMPLE_RESET, "not HTTP/1.1 (because)"},
};

enum kind { STREAM, JSON, PLAIN };

static void play(const struct ending *e, enum kind kind) {
  struct net n;
  struct fake f = {0};
  struct http_request r;
  net_start(&n, NULL);
  net_use_fake(&n, &f);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", 8000, NULL);
  net_request(&n, &r, t, "POST", "/v1/chat/completions?key=secret");
  r.api = kind == PLAIN ? OPENAI_NONE : OPENAI_CHAT;
  r.expect_stream = kind == STREAM;
  net_send(&n, &r);
  struct http_read read = {.loop_ns = r.stamp_ns[STAMP_START] + 5};
  if (e->status) {
    http_exchange_head(f.x);
    if (e->type)
      fake_header(f.x, "content-type", e->type);
    http_exchange_headers_done(f.x, e->status, &read);
    assert_int_equal(http_exchange_body(f.x, e->body, strlen(e->body), &read), 0);
  }
  if (e->broken == WHOLE)
    http_exchange_end(f.x, &read);
  else
    http_exchange_broken(f.x, (enum http_break)e->broken, "because", &read);
  assert_int_equal(n.done, 1);
  if (r.error != e->error)
    fail_msg("%d %s: ended as %s (%s), expected %s", e->status, e->body, sample_error_name(r.error),
             r.detail, sample_error_name(e->error));
  check_has(r.detail, e->text);
  assert_int_equal(r.detail[0] == '\0', e->error == SAMPLE_OK);
  assert_null(strstr(r.detail, "secret"));
  if (e->status && e->error != SAMPLE_OK)
    check_has(r.detail, "POST http://127.0.0.1:8000/v1/chat/completions: ");
  assert_int_equal(r.status, e->status);
  assert_int_equal(r.stamp_ns[STAMP_DONE], read.loop_ns);
  http_request_free(&r);
  net_stop(&n);
}

static void of_streams(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(streams); i++)
    play(&streams[i], STREAM);
}

static void of_replies(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(replies); i++)
    play(&replies[i], JSON);
}

static void of_plain_http(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(plain); i++)
    play(&plain[i], PLAIN);
}

static void retry_after(void **state) {
  (void)state;
  struct net n;
  struct fake f = {0};
  struct http_request r;
  net_start(&n, NULL);
  net_use_fake(&n, &f);
  net_request(&n, &r, net_target(&n, "http", "127.0.0.1", 1, NULL), "GET", "/");
  net_send(&n, &r);
  struct http_read read = {.loop_ns = 1};
  http_exchange_head(f.x);
  fake_header(f.x, "Retry-After", "2");
  http_exchange_headers_done(f.x, 429, &read);
  http_exchange_end(f.x, NULL);
  check_outcome(&r, SAMPLE_HTTP_429, "HTTP 429 (Retry-After: 2)");
  http_request_free(&r);
  net_stop(&n);
}

/* Long messages are cut at a character's boundary, and the whole fits. */
static void long_messages(void **state) {
  (void)state;
  for (size_t pad = 0; pad < 4; pad++) {
    struct net n;
    struct fake f = {0};
    struct http_request r;
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    buf_puts(&b, "{\"error\":{\"message\":\"");
    for (size_t i = 0; i < pad; i++)
      buf_putc(&b, 'x');
    for (int i = 0; i < 300; i++)
      buf_puts(&b, "€");
    buf_puts(&b, "\"}}");
    net_start(&n, NULL);
    net_use_fake(&n, &f);
    net_request(&n, &r, net_target(&n, "http", "127.0.0.1", 1, NULL), "GET", "/");
    net_send(&n, &r);
    struct http_read read = {.loop_ns = 1};
    http_exchange_headers_done(f.x, 500, &read);
    assert_int_equal(http_exchange_body(f.x, b.data, b.len, &read), 0);
    http_exchange_end(f.x, &read);
    check_outcome(&r, SAMPLE_HTTP_5XX, "€…");
    size_t message = strlen(strstr(r.detail, "500: ") + 5) - strlen("…");
    assert_true(message <= 200 && message > 196);
    buf_free(&b);
    http_request_free(&r);
    net_stop(&n);
  }
}

static void over_the_limit(void **state) {
  (void)state;
  struct net n;
  struct fake f = {0};
  struct http_request r;
  net_start(&n, NULL);
  net_use_fake(&n, &f);
  net_request(&n, &r, net_target(&n, "http", "127.0.0.1", 1, NULL), "GET", "/");
  r.max_body = 10;
  net_send(&n, &r);
  struct http_read read = {.loop_ns = 1};
  http_exchange_headers_done(f.x, 200, &read);
  assert_int_equal(http_exchange_body(f.x, "0123456789ab", 12, &read), ERR_LIMIT);
  http_exchange_end(f.x, &read);
  check_outcome(&r, SAMPLE_STREAM_ERROR, "longer than max_body");
  http_request_free(&r);
  net_stop(&n);
}

/* A transport that cannot start, and one that fails: the request ends later, once. */
static void failures(void **state) {
  (void)state;
  static const struct {
    int rc;
    enum sample_error error;
  } refusals[] = {{ERR_IO, SAMPLE_CONNECT}, {ERR_RESOLVE, SAMPLE_RESOLVE}, {ERR_TLS, SAMPLE_TLS}};
  struct net n;
  struct fake f = {0};
  struct http_request r;
  net_start(&n, NULL);
  net_use_fake(&n, &f);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", 1, NULL);
  for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
    f.refuse = refusals[i].rc;
    net_request(&n, &r, t, "GET", "/");
    net_send(&n, &r);
    assert_int_equal(n.done, (int)i);
    net_wait(&n, (int)i + 1);
    check_outcome(&r, refusals[i].error, "http://127.0.0.1:1: refused by the test");
    http_request_free(&r);
  }
  f.refuse = 0;
  net_request(&n, &r, t, "GET", "/");
  net_send(&n, &r);
  http_exchange_fail(f.x, SAMPLE_TLS, "not today");
  assert_int_equal(n.done, 4);
  check_outcome(&r, SAMPLE_TLS, "http://127.0.0.1:1: not today");
  http_request_free(&r);
  net_stop(&n);
  assert_int_equal(f.closes, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_streams),    cmocka_unit_test(of_replies),
      cmocka_unit_test(of_plain_http), cmocka_unit_test(retry_after),
      cmocka_unit_test(long_messages), cmocka_unit_test(over_the_limit),
      cmocka_unit_test(failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
