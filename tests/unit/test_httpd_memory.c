/* test_httpd_memory.c: requests in memory: what a handler sees of them, and what its answers, in
 * every form of httpd.h, become on the other side. */
#include "check.h"

#include <string.h>

#include "io/httpd_request.h"
#include "text/openai.h"

struct seen {
  struct httpd_memory m;
  struct loop *loop;
  char log[400];
  int left;
};

static void add(struct seen *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void add(struct seen *s, const char *fmt, ...) {
  size_t len = strlen(s->log);
  va_list args;
  va_start(args, fmt);
  vsnprintf(s->log + len, sizeof s->log - len, fmt, args);
  va_end(args);
}

static struct seen *seen_of(struct httpd_request *req) {
  return CONTAINER_OF(httpd_memory_of(req), struct seen, m);
}

static void on_head(struct httpd_request *req, int status, const char *headers, size_t length) {
  add(seen_of(req), "head %d [%s] %lld|", status, headers ? headers : "",
      length == HTTPD_CHUNKED ? -1LL : (long long)length);
}

static void on_body(struct httpd_request *req, const void *data, size_t len) {
  add(seen_of(req), "body %.*s|", (int)len, (const char *)data);
}

static void on_end(struct httpd_request *req, enum httpd_ending how) {
  static const char *const names[] = {"ended", "closed", "reset"};
  add(seen_of(req), "%s|", names[how]);
}

static bool on_takes(const struct httpd_request *req, size_t text, size_t events) {
  (void)req;
  return text <= 9 && events <= 2;
}

static void on_tell(struct httpd_request *req, const struct openai_told *told) {
  add(seen_of(req), "told %.*s %d|", (int)told->pieces[0].visible, told->text, (int)told->bytes);
}

static const struct httpd_peer listener = {
    .head = on_head, .body = on_body, .end = on_end, .takes = on_takes, .tell = on_tell};
static const struct httpd_peer peer = {.head = on_head, .body = on_body, .end = on_end};

static struct httpd_request *begin(struct seen *s, const char *method) {
  s->log[0] = '\0';
  s->m.method = method;
  s->m.path = "/v1/chat";
  s->m.query = "a=1";
  s->m.body = "{}";
  s->m.body_len = 2;
  httpd_memory_begin(&s->m, "X-One: 1\r\nContent-Type:text/plain\r\n");
  return &s->m.request;
}

static void open_seen(struct seen *s) {
  struct err err;
  *s = (struct seen){.loop = loop_new_virtual(&err)};
  assert_non_null(s->loop);
  httpd_memory_init(&s->m, s->loop, &peer);
}

static void close_seen(struct seen *s) {
  httpd_memory_free(&s->m);
  loop_delete(s->loop);
}

static void test_request(void **state) {
  (void)state;
  struct seen s;
  open_seen(&s);
  struct httpd_request *req = begin(&s, "POST");
  size_t len = 0;
  assert_string_equal(httpd_method(req), "POST");
  assert_string_equal(httpd_path(req), "/v1/chat");
  assert_string_equal(httpd_query(req), "a=1");
  assert_string_equal(httpd_header(req, "x-one"), "1");
  assert_string_equal(httpd_header(req, "CONTENT-TYPE"), "text/plain");
  assert_null(httpd_header(req, "X-On"));
  assert_string_equal(httpd_body(req, &len), "{}");
  assert_int_equal(len, 2);
  assert_int_equal(httpd_received_ns(req), LOOP_VIRTUAL_START_NS);
  assert_ptr_equal(httpd_loop(req), s.loop);
  assert_int_equal(httpd_pending(req), 0);
  httpd_set_user(req, &s);
  assert_ptr_equal(httpd_user(req), &s);
  httpd_reply(req, 200, "A: b\r\n", "hello", 5);
  assert_string_equal(s.log, "head 200 [A: b\r\n] 5|body hello|ended|");
  req = begin(&s, "POST"); /* the memory serves the next one */
  assert_null(httpd_user(req));
  httpd_reply(req, 204, NULL, "ignored", 7);
  assert_string_equal(s.log, "head 204 [] 0|ended|");
  httpd_reply(begin(&s, "HEAD"), 200, NULL, "ignored", 7);
  assert_string_equal(s.log, "head 200 [] 0|ended|");
  close_seen(&s);
}

static void test_streams(void **state) {
  (void)state;
  struct seen s;
  open_seen(&s);
  struct httpd_request *req = begin(&s, "POST");
  httpd_stream(req, 200, "T: s\r\n");
  httpd_write(req, "one", 3);
  httpd_write(req, "", 0);
  httpd_write(req, "two", 3);
  httpd_end(req);
  assert_string_equal(s.log, "head 200 [T: s\r\n] -1|body one|body two|ended|");
  req = begin(&s, "POST");
  httpd_stream(req, 200, NULL);
  httpd_close_connection(req);
  assert_string_equal(s.log, "head 200 [] -1|closed|");
  httpd_reset_connection(begin(&s, "POST"));
  assert_string_equal(s.log, "reset|");
  httpd_half(begin(&s, "POST"), 200, NULL, "abcdef", 6, 3);
  assert_string_equal(s.log, "head 200 [] 6|body abc|closed|");
  close_seen(&s);
}

static void on_left(struct httpd_request *req, void *user) {
  struct seen *s = user;
  s->left++;
  httpd_write(req, "late", 4); /* goes nowhere */
  httpd_end(req);
}

static void test_client_leaves(void **state) {
  (void)state;
  struct seen s;
  open_seen(&s);
  struct httpd_request *req = begin(&s, "POST");
  httpd_set_user(req, &s);
  httpd_on_close(req, on_left);
  httpd_stream(req, 200, NULL);
  httpd_memory_leave(&s.m);
  httpd_memory_leave(&s.m); /* once */
  assert_int_equal(s.left, 1);
  assert_string_equal(s.log, "head 200 [] -1|");
  req = begin(&s, "POST"); /* without on_close the handler does not hear of it */
  httpd_memory_leave(&s.m);
  httpd_reply(req, 200, NULL, "x", 1);
  assert_string_equal(s.log, "");
  close_seen(&s);
}

static void on_look(struct httpd_request *req, void *user) {
  (void)user;
  const struct openai_piece piece = {.visible = 4};
  httpd_tell(req,
             &(struct openai_told){.text = "late", .pieces = &piece, .n_pieces = 1, .bytes = 80});
}

static void test_telling(void **state) {
  (void)state;
  struct seen s;
  const struct openai_piece piece = {.visible = 4};
  const struct openai_told told = {.text = "word", .pieces = &piece, .n_pieces = 1, .bytes = 90};
  open_seen(&s);
  struct httpd_request *req = begin(&s, "POST");
  httpd_stream(req, 200, NULL);
  assert_false(httpd_takes(req, 1, 1)); /* this peer wants bytes */
  httpd_end(req);
  s.m.peer = &listener;
  req = begin(&s, "POST");
  httpd_stream(req, 200, NULL);
  assert_true(httpd_takes(req, 9, 2));
  assert_false(httpd_takes(req, 10, 2));
  httpd_memory_look(&s.m); /* nobody tells anything later */
  httpd_tell(req, &told);
  httpd_on_look(req, on_look);
  httpd_memory_look(&s.m);
  httpd_end(req);
  assert_string_equal(s.log, "head 200 [] -1|told word 90|told late 80|ended|");
  assert_false(httpd_takes(req, 1, 1)); /* it is over */
  httpd_memory_look(&s.m);
  httpd_tell(req, &told);
  req = begin(&s, "HEAD");
  httpd_stream(req, 200, NULL);
  assert_false(httpd_takes(req, 1, 1)); /* no body */
  httpd_end(req);
  assert_string_equal(s.log, "head 200 [] -1|ended|");
  close_seen(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_request),
      cmocka_unit_test(test_streams),
      cmocka_unit_test(test_client_leaves),
      cmocka_unit_test(test_telling),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
