#include "check.h"

#include "text/sse.h"

/* What was reported, as text: "E<type>|<data>\n", with "!error" "#comment" "$" (at the end of the
 * stream) where they apply, and "C<comment>\n". */
struct log {
  struct buf text;
  int stop_at, stop_with; /* the nth event answers stop_with */
  int seen;
};

static int on_event(void *user, const struct sse_event *e) {
  struct log *l = user;
  buf_puts(&l->text, "E");
  buf_put(&l->text, e->type, e->type_len);
  buf_puts(&l->text, "|");
  buf_put(&l->text, e->data, e->len);
  if (e->error_field) {
    buf_puts(&l->text, "!");
    buf_put(&l->text, e->error_field, e->error_field_len);
  }
  if (e->comment) {
    buf_puts(&l->text, "#");
    buf_put(&l->text, e->comment, e->comment_len);
  }
  if (e->at_eof)
    buf_puts(&l->text, "$");
  buf_puts(&l->text, "\n");
  return ++l->seen == l->stop_at ? l->stop_with : 0;
}

static void on_comment(void *user, const char *text, size_t len) {
  struct log *l = user;
  buf_puts(&l->text, "C");
  buf_put(&l->text, text, len);
  buf_puts(&l->text, "\n");
}

static const struct sse_handler base = {.on_event = on_event, .on_comment = on_comment};

/* The log of `bytes` cut at `cut` (in single bytes when it is past the end); pieces are copies of
 * exactly their size, so that a read beyond one is seen by the sanitizer. */
static int run(const char *bytes, size_t len, size_t cut, size_t max_event, struct log *l) {
  struct sse p;
  struct sse_handler handler = base;
  struct err err;
  handler.user = l;
  sse_init(&p, &handler, max_event);
  int rc = 0;
  for (size_t at = 0; at < len && rc == 0;) {
    size_t n = cut > len ? 1 : at < cut ? cut - at : len - at;
    char *piece = malloc(n);
    memcpy(piece, bytes + at, n);
    rc = sse_feed(&p, piece, n, &err);
    free(piece);
    at += n;
  }
  if (rc == 0)
    rc = sse_finish(&p, &err);
  if (rc == 0)
    assert_int_equal(sse_finish(&p, &err), 0);
  sse_free(&p);
  return rc;
}

/* At every cut in two, and byte by byte. */
static void check_len(const char *bytes, size_t len, const char *want) {
  for (size_t cut = 0; cut <= len + 1; cut++) {
    struct log l = {0};
    buf_init(&l.text, BUF_MAX_OWN);
    buf_puts(&l.text, "");
    assert_int_equal(run(bytes, len, cut, 0, &l), 0);
    if (strcmp(l.text.data, want) != 0)
      fail_msg("cut at %zu:\n%s\nexpected:\n%s", cut, l.text.data, want);
    buf_free(&l.text);
  }
}

static void check(const char *bytes, const char *want) {
  check_len(bytes, strlen(bytes), want);
}

static void test_fields(void **state) {
  (void)state;
  check("", "");
  check("data: a\n\n", "E|a\n");
  check("data:a\n\n", "E|a\n");
  check("data:  a \n\n", "E| a \n"); /* exactly one space */
  check("data\n\n", "");
  check("data:\n\ndata: \n\ndata: \t \n\n", "");
  check("data:\ndata: x\n\n", "E|\nx\n");
  check("data: x\ndata\n\n", "E|x\n\n");
  check("data: a\ndata: b\ndata:c\n\ndata: d\n\n", "E|a\nb\nc\nE|d\n");
  check("event: t\nid: 7\nretry: 10\nfoo: bar\ndata: a\n\ndata: b\n\n", "Et|a\nE|b\n");
  check("event: t\n\ndata: a\n\n", "E|a\n"); /* an event without data leaves nothing behind */
  check("event: a\nevent: bc\ndata: x\n\n", "Ebc|x\n");
  check("Data: a\ndatax: b\n data: c\nx\n\n", "");
  check("\n\n\n\ndata: a\n\n\n\n", "E|a\n");
  check_len("data: a\0b\n\n", 11, "E|a"); /* the log is cut at the NUL, the event is not */
}

static void test_line_ends(void **state) {
  (void)state;
  check("data: a\r\n\r\ndata: b\r\n\r\n", "E|a\nE|b\n");
  check("data: a\r\rdata: b\r\r", "E|a\nE|b\n");
  check("data: a\ndata: b\r\ndata: c\r\r\n", "E|a\nb\nc\n");
  check("data: a\n\r", "E|a\n");
  check("data: a\r\n\ndata: b\n\r\n", "E|a\nE|b\n");
  check(":x\r:y\r\n:z\n\r", "Cx\nCy\nCz\n");
  /* U+0085, U+2028, form feed and vertical tab are no line ends. */
  check("data: {\"a\":\"x\xc2\x85y\xe2\x80\xa8z\x0b\x0c\"}\n\n",
        "E|{\"a\":\"x\xc2\x85y\xe2\x80\xa8z\x0b\x0c\"}\n");
}

static void test_bom(void **state) {
  (void)state;
  check("\xef\xbb\xbf"
        "data: a\n\n",
        "E|a\n");
  check("\xef\xbb\xbf\xef\xbb\xbf"
        "data: a\n\ndata: b\n\n",
        "E|b\n"); /* only one */
  check("\xef\xbb"
        "data: a\n\ndata: b\n\n",
        "E|b\n");
  check("\n\xef\xbb\xbf"
        "data: a\n\ndata: b\n\n",
        "E|b\n"); /* only at the start */
  check("\xef\xbb\xbf", "");
  check("\xef\xbb\xbf\r\n\r\ndata: a\n\n", "E|a\n");
}

static void test_comments(void **state) {
  (void)state;
  check(":\n\n: keep\n\n:  two\ndata: a\n\n", "C\nCkeep\nC two\nE|a# two\n");
  check(": a\n: b\ndata: x\n\ndata: y\n\n", "Ca\nCb\nE|x#b\nE|y\n");
  check("data: x\n: tail", "Ctail\nE|x#tail$\n");
}

static void test_errors(void **state) {
  (void)state;
  check("event: error\n: it broke\n\n", "Cit broke\nEerror|#it broke\n");
  check("event:error\n:it broke\n", "Cit broke\nEerror|#it broke$\n");
  check("event: error\n\n", "Eerror|\n");
  check("event: error\ndata:\n\n", "Eerror|\n");
  check("event: error\ndata: {}\n\n", "Eerror|{}\n");
  check("error: {\"code\":1}\n\ndata: a\n\n", "E|!{\"code\":1}\nE|a\n");
  check("error: one\nerror: two\ndata: a\n\n", "E|a!one\n"); /* the first one is the cause */
  check("error: at the end", "E|!at the end$\n");
}

static void test_end(void **state) {
  (void)state;
  check("data: a", "E|a$\n");
  check("data: a\n", "E|a$\n");
  check("data: a\r", "E|a$\n");
  check("data: a\ndata: b", "E|a\nb$\n");
  check("data: a\n\ndat", "E|a\n");
  check("event: x", "");
}

static void test_counts(void **state) {
  (void)state;
  struct log l = {0};
  struct sse p;
  struct err err;
  struct sse_handler handler = base;
  handler.user = &l;
  buf_init(&l.text, BUF_MAX_OWN);
  sse_init(&p, &handler, 0);
  assert_false(p.seen_bytes);
  check_ok(sse_feed(&p, "", 0, &err), &err);
  assert_false(p.seen_bytes);
  check_ok(sse_feed(&p, ":a\n\ndata: b\n\nevent: error\n\ndata: c", 34, &err), &err);
  assert_true(p.seen_bytes);
  assert_int_equal(p.comments, 1);
  assert_int_equal(p.events, 1);
  sse_reset(&p);
  assert_int_equal(p.events, 0);
  check_ok(sse_feed(&p, "data: d\n\n", 9, &err), &err);
  check_ok(sse_finish(&p, &err), &err);
  assert_string_equal(l.text.data, "Ca\nE|b\nEerror|\nE|d\n");
  sse_free(&p);
  buf_free(&l.text);
}

static void test_no_comment_handler(void **state) {
  (void)state;
  struct sse p;
  struct err err;
  struct log l = {0};
  struct sse_handler handler = {.on_event = on_event, .user = &l};
  buf_init(&l.text, BUF_MAX_OWN);
  sse_init(&p, &handler, 0);
  check_ok(sse_feed(&p, ":a\n\ndata: b\n\n", 13, &err), &err);
  assert_int_equal(p.comments, 1);
  sse_free(&p);
  buf_free(&l.text);
}

/* The handler's answer comes back, now and later, and nothing after it is reported. */
static void test_stop(void **state) {
  (void)state;
  static const int answers[] = {1, 7, ERR_INVALID};
  for (size_t i = 0; i < 3; i++) {
    struct log l = {.stop_at = 2, .stop_with = answers[i]};
    struct sse p;
    struct err err;
    struct sse_handler handler = base;
    handler.user = &l;
    buf_init(&l.text, BUF_MAX_OWN);
    sse_init(&p, &handler, 0);
    assert_int_equal(sse_feed(&p, "data: a\n\ndata: b\n\ndata: c\n\n", 27, &err), answers[i]);
    assert_int_equal(sse_feed(&p, "data: d\n\n", 9, &err), answers[i]);
    assert_int_equal(sse_finish(&p, &err), answers[i]);
    assert_string_equal(l.text.data, "E|a\nE|b\n");
    sse_reset(&p);
    check_ok(sse_feed(&p, "data: e\n\n", 9, &err), &err);
    assert_string_equal(l.text.data, "E|a\nE|b\nE|e\n");
    sse_free(&p);
    buf_free(&l.text);
  }
}

/* Limits hold at every cut, and what came before stands. */
static void limit(const char *bytes, size_t max_event, int want, const char *log) {
  size_t len = strlen(bytes);
  for (size_t cut = 0; cut <= len + 1; cut++) {
    struct log l = {0};
    buf_init(&l.text, BUF_MAX_OWN);
    buf_puts(&l.text, "");
    int rc = run(bytes, len, cut, max_event, &l);
    if (rc != want || strcmp(l.text.data, log) != 0)
      fail_msg("\"%s\" cut at %zu: rc=%d, log:\n%s", bytes, cut, rc, l.text.data);
    buf_free(&l.text);
  }
}

static void test_limits(void **state) {
  (void)state;
  limit("data: a\n\ndata: 34567890\n\n", 14, 0, "E|a\nE|34567890\n");
  limit("data: a\n\ndata: 345678901\n\n", 14, ERR_LIMIT, "E|a\n");
  limit("data: 345678901", 14, ERR_LIMIT, "");
  limit(":23456789012345\n", 14, ERR_LIMIT, "");
  limit("nonsense without end", 14, ERR_LIMIT, "");
  /* The joined data counts, with its line feeds. */
  limit("data: abcd\ndata: efgh\ndata: ijkl\n\n", 14, 0, "E|abcd\nefgh\nijkl\n");
  limit("data: abcd\ndata: efgh\ndata: ijklm\n\n", 14, ERR_LIMIT, "");
  limit("data\ndata\ndata\ndata\ndata\ndata\n\n", 4, ERR_LIMIT, "");
  /* Comments and unknown fields are not kept. */
  limit(":234567890123\n:234567890123\nid: 567890123\ndata: a\n\n", 14, 0,
        "C234567890123\nC234567890123\nE|a#234567890123\n");
}

/* Memory stays bounded whatever a server sends without end. */
static void test_hostile(void **state) {
  (void)state;
  static const char *const endless[] = {"x", "data: abcdefgh\n", ":"};
  for (size_t i = 0; i < 3; i++) {
    struct sse p;
    struct err err;
    struct log l = {0};
    struct sse_handler handler = base;
    handler.user = &l;
    buf_init(&l.text, 1 << 16);
    sse_init(&p, &handler, 4096);
    int rc = 0;
    size_t fed = 0;
    while (rc == 0 && fed < 100000) {
      rc = sse_feed(&p, endless[i], strlen(endless[i]), &err);
      fed += strlen(endless[i]);
    }
    assert_int_equal(rc, ERR_LIMIT);
    assert_true(fed <= 4096 * 15 / 9 + 30);
    check_has(err.text, "longer than 4096 bytes");
    assert_true(p.line.cap + p.data.cap + p.comment.cap < 4 * 4096);
    assert_int_equal(sse_feed(&p, "\n\n", 2, &err), ERR_LIMIT);
    assert_int_equal(sse_finish(&p, &err), ERR_LIMIT);
    sse_free(&p);
    buf_free(&l.text);
  }
}

/* A megabyte in one event, in pieces of a prime length. */
static void test_large_event(void **state) {
  (void)state;
  size_t len = (1 << 20) + 8;
  char *bytes = malloc(len);
  memset(bytes, 'a', len);
  memcpy(bytes, "data: ", 6);
  memcpy(bytes + len - 2, "\n\n", 2);
  struct log l = {0};
  struct sse p;
  struct err err;
  struct sse_handler handler = base;
  handler.user = &l;
  buf_init(&l.text, BUF_MAX_OWN);
  sse_init(&p, &handler, 0);
  for (size_t at = 0; at < len; at += 1021)
    check_ok(sse_feed(&p, bytes + at, len - at < 1021 ? len - at : 1021, &err), &err);
  assert_int_equal(l.text.len, 3 + (1 << 20));
  assert_int_equal(p.events, 1);
  sse_free(&p);
  buf_free(&l.text);
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fields),  cmocka_unit_test(test_line_ends),
      cmocka_unit_test(test_bom),     cmocka_unit_test(test_comments),
      cmocka_unit_test(test_errors),  cmocka_unit_test(test_end),
      cmocka_unit_test(test_counts),  cmocka_unit_test(test_no_comment_handler),
      cmocka_unit_test(test_stop),    cmocka_unit_test(test_limits),
      cmocka_unit_test(test_hostile), cmocka_unit_test(test_large_event),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
