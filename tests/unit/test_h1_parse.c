/* test_h1_parse.c: replies in every framing, cut at every byte; where a reply ends; what is no
 * reply. No sockets. */
#include "net_peer.h"

#include "net/h1_parse.h"

struct parse {
  struct net net;
  struct fake fake;
  struct http_request r;
  struct h1_parser parser;
  struct http_read read;
};

static void begin(struct parse *p, const char *method) {
  memset(p, 0, sizeof *p);
  net_start(&p->net, NULL);
  net_use_fake(&p->net, &p->fake);
  net_request(&p->net, &p->r, net_target(&p->net, "http", "127.0.0.1", 1, NULL), method, "/");
  net_send(&p->net, &p->r);
  h1_parser_begin(&p->parser, p->fake.x);
  p->read.loop_ns = 1000;
}

static void stop(struct parse *p) {
  http_request_cancel(&p->r, SAMPLE_CANCELLED);
  http_request_free(&p->r);
  net_stop(&p->net);
}

static enum h1_verdict feed(struct parse *p, const char *text, size_t len, size_t *used) {
  char *copy = mem_dup(text, len); /* the parser moves bytes, and ASan sees a step too far */
  enum h1_verdict v = h1_parser_feed(&p->parser, copy, len, &p->read, used);
  mem_free(copy);
  return v;
}

struct reply {
  const char *text, *body, *header, *value; /* one header to look for */
  int status;
  bool keep_alive, until_closed;
  const char *method;
};

static const struct reply replies[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Kind: Plain\r\n\r\nhello", "hello", "x-kind",
     "Plain", 200, true, false, "GET"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;ext=1\r\nd\r\n0\r\n\r\n",
     "abcd", "transfer-encoding", "chunked", 200, true, false, "GET"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: 1\r\n\r\n2\r\nab\r\n0\r\nTrailer: "
     "t\r\n\r\n",
     "ab", "x", "1", 200, true, false, "GET"},
    {"HTTP/1.1 503 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", "no", "connection",
     "close", 503, false, false, "GET"},
    {"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nuntil the end", "until the end", "server", "old", 200,
     false, true, "GET"},
    {"HTTP/1.1 100 Continue\r\nEarly: 1\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"
     "HTTP/1.1 201 Made\r\nContent-Length: 2\r\nLate: 2\r\n\r\nok",
     "ok", "late", "2", 201, true, false, "POST"},
    {"HTTP/1.1 204 None\r\nX-A:   spaced out  \r\n\r\n", "", "x-a", "spaced out", 204, true, false,
     "DELETE"},
    {"HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", "", "content-length", "9", 304, true, false,
     "GET"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "", "content-length", "5", 200, true, false,
     "HEAD"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nEmpty:\r\n\r\n", "", "empty", "", 200, true, false,
     "GET"},
};

static void check_reply(struct parse *p, const struct reply *reply) {
  size_t len = 0;
  const char *value = http_response_header(&p->r, reply->header, &len);
  assert_int_equal(p->r.status, reply->status);
  assert_int_equal(p->parser.keep_alive, reply->keep_alive);
  assert_string_equal(p->r.body.data ? p->r.body.data : "", reply->body);
  assert_non_null(value);
  assert_int_equal(len, strlen(reply->value));
  assert_memory_equal(value, reply->value, len);
  assert_null(http_response_header(&p->r, "early", &len));   /* of a 1xx */
  assert_null(http_response_header(&p->r, "trailer", &len)); /* behind the body */
}

/* Whole, then cut in two at every byte, then byte by byte; always with bytes of something else
 * behind, which must not be taken. */
static void every_cut(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(replies); i++) {
    const struct reply *reply = &replies[i];
    size_t len = strlen(reply->text);
    for (size_t cut = 0; cut <= len; cut++) {
      struct parse p;
      size_t used;
      enum h1_verdict v = H1_MORE;
      begin(&p, reply->method);
      if (cut == len) {
        for (size_t at = 0; at < len; at++) {
          assert_int_equal(v, H1_MORE);
          v = feed(&p, reply->text + at, 1, &used);
          assert_int_equal(used, 1);
        }
      } else {
        if (cut)
          assert_int_equal(feed(&p, reply->text, cut, &used), H1_MORE);
        char rest[512];
        int n = snprintf(rest, sizeof rest, "%s%s", reply->text + cut,
                         reply->until_closed ? "" : "HTTP/1.1 200");
        v = feed(&p, rest, (size_t)n, &used);
        assert_int_equal(used, len - cut);
      }
      if (reply->until_closed) {
        assert_int_equal(v, H1_MORE);
        v = h1_parser_finish(&p.parser, &p.read);
      }
      assert_int_equal(v, H1_WHOLE);
      check_reply(&p, reply);
      stop(&p);
    }
  }
}

/* The same head again is known by its bytes: what follows it counts all the same, a head that only
 * begins so is another one, and HEAD has no body. */
static void same_head_again(void **state) {
  (void)state;
  static const struct {
    const char *method, *text, *body, *kind;
    enum h1_verdict verdict;
    int status;
    size_t left;
  } replies_in_turn[] = {
      {"GET", "HTTP/1.1 200 OK\r\nX-Kind: a\r\nContent-Length: 2\r\n\r\nab", "ab", "a", H1_WHOLE,
       200, 0},
      {"GET", "HTTP/1.1 200 OK\r\nX-Kind: a\r\nContent-Length: 2\r\n\r\ncd", "cd", "a", H1_WHOLE,
       200, 0},
      {"GET", "HTTP/1.1 200 OK\r\nX-Kind: a\r\nContent-Length: 2\r\n\r\nefgh", "ef", "a", H1_WHOLE,
       200, 2},
      {"GET", "HTTP/1.1 200 OK\r\nX-Kind: a\r\nContent-Length: 2\r\n\r\ni", "i", "a", H1_MORE, 200,
       0},
      {"GET", "HTTP/1.1 200 OK\r\nX-Kind: a\r\nContent-Length: 2\r\n", "", "a", H1_MORE, 0, 0},
      {"HEAD", "HTTP/1.1 200 OK\r\nX-Kind: a\r\nContent-Length: 2\r\n\r\nab", "", "a", H1_WHOLE,
       200, 2},
      {"GET", "HTTP/1.1 200 OK\r\nX-Kind: b\r\nContent-Length: 3\r\n\r\nabc", "abc", "b", H1_WHOLE,
       200, 0},
      {"GET", "HTTP/1.1 200 OK\r\nX-Kind: a\r\nContent-Length: 2\r\n\r\nkl", "kl", "a", H1_WHOLE,
       200, 0},
      {"GET", "HTTP/1.1 500 OK\r\nX-Kind: a\r\nContent-Length: 2\r\n\r\nmn", "mn", "a", H1_WHOLE,
       500, 0},
      {"GET", "HTTP/1.1 500 OK\r\nX-Kind: a\r\nContent-Length: 2\r\n\r\nop", "op", "a", H1_WHOLE,
       500, 0},
  };
  struct parse p;
  begin(&p, "GET");
  for (size_t i = 0; i < ARRAY_LEN(replies_in_turn); i++) {
    size_t used, len = 0, size = strlen(replies_in_turn[i].text);
    http_request_cancel(&p.r, SAMPLE_CANCELLED);
    p.r.method = replies_in_turn[i].method;
    net_send(&p.net, &p.r);
    h1_parser_begin(&p.parser, p.fake.x);
    assert_int_equal(feed(&p, replies_in_turn[i].text, size, &used), replies_in_turn[i].verdict);
    assert_int_equal(used, size - replies_in_turn[i].left);
    assert_int_equal(p.r.status, replies_in_turn[i].status);
    assert_string_equal(p.r.body.data ? p.r.body.data : "", replies_in_turn[i].body);
    const char *kind = http_response_header(&p.r, "x-kind", &len);
    assert_non_null(kind);
    assert_memory_equal(kind, replies_in_turn[i].kind, 1);
    assert_int_equal(len, 1);
    const char *length = http_response_header(&p.r, "content-length", &len);
    assert_int_equal(length != NULL, p.r.status != 0); /* a line may go on in the next one */
    assert_null(http_response_header(&p.r, "x-kin", &len));
  }
  stop(&p);
}

/* All chunks of one read reach the exchange as one piece: they share a stamp. */
static void one_piece_per_read(void **state) {
  (void)state;
  struct parse p;
  size_t used;
  const char *text = HEAD_SSE
      "Transfer-Encoding: chunked\r\n\r\n"
      "3f\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"aaaaaaa\"}}]}\n\n\r\n"
      "3f\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"bbbbbbb\"}}]}\n\n\r\n";
  memset(&p, 0, sizeof p);
  net_start(&p.net, NULL);
  net_use_fake(&p.net, &p.fake);
  net_stream(&p.net, &p.r, net_target(&p.net, "http", "127.0.0.1", 1, NULL));
  net_send(&p.net, &p.r);
  h1_parser_begin(&p.parser, p.fake.x);
  p.read.loop_ns = 1000;
  assert_int_equal(feed(&p, text, strlen(text), &used), H1_MORE);
  assert_int_equal(p.r.stream.result.output_events, 2);
  assert_int_equal(p.r.stream.result.n_coalesced, 1);
  stop(&p);
}

static void garbled(void **state) {
  (void)state;
  static const struct {
    const char *text, *why;
  } bad[] = {
      {"SSH-2.0-OpenSSH_9.2\r\n", ""},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "chunk"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n", "Content-Length"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "Content-Length"},
      {"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", "header"},
      {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "switch protocols"},
      {"{\"error\": 1}", ""},
  };
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    struct parse p;
    size_t used;
    begin(&p, "GET");
    enum h1_verdict v = feed(&p, bad[i].text, strlen(bad[i].text), &used);
    if (v != H1_GARBLED)
      fail_msg("%s: verdict %d", bad[i].text, (int)v);
    assert_non_null(p.parser.why);
    check_has(p.parser.why, bad[i].why);
    stop(&p);
  }
}

static void headers_too_long(void **state) {
  (void)state;
  struct parse p;
  size_t used, size = (size_t)300 << 10;
  char *text = mem_alloc(size + 64);
  int n = snprintf(text, 64, "HTTP/1.1 200 OK\r\nBig: ");
  memset(text + n, 'x', size);
  begin(&p, "GET");
  assert_int_equal(feed(&p, text, (size_t)n + size, &used), H1_GARBLED);
  check_has(p.parser.why, "too long");
  mem_free(text);
  stop(&p);
}

static void ends_early(void **state) {
  (void)state;
  static const char *const early[] = {
      "", "HTTP/1.1 20", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"};
  for (size_t i = 0; i < ARRAY_LEN(early); i++) {
    struct parse p;
    size_t used;
    begin(&p, "GET");
    if (early[i][0])
      assert_int_equal(feed(&p, early[i], strlen(early[i]), &used), H1_MORE);
    assert_int_equal(h1_parser_finish(&p.parser, &p.read), H1_MORE);
    stop(&p);
  }
}

static void stops_at_the_limit(void **state) {
  (void)state;
  struct parse p;
  size_t used;
  const char *text = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789";
  begin(&p, "GET");
  p.r.body.max = 9;
  assert_int_equal(feed(&p, text, strlen(text), &used), H1_STOP);
  stop(&p);
}

/* Chunks of one read are counted, whatever they hold: that is how often the server wrote. */
static void chunks_are_counted(void **state) {
  (void)state;
  static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
  static const char more[] = "1\r\nd\r\n2\r\nef\r\n5\r\ng", rest[] = "hijk\r\n";
  struct parse p;
  size_t used;
  begin(&p, "GET");
  assert_int_equal(feed(&p, head, sizeof head - 1, &used), H1_MORE);
  assert_int_equal(p.parser.pieces, 1);
  assert_int_equal(feed(&p, more, sizeof more - 1, &used), H1_MORE);
  assert_int_equal(p.parser.pieces, 3);
  assert_int_equal(feed(&p, rest, sizeof rest - 1, &used), H1_MORE);
  assert_int_equal(p.parser.pieces, 1);
  assert_string_equal(p.r.body.data, "abcdefghijk");
  stop(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_are_counted),
      cmocka_unit_test(every_cut),
      cmocka_unit_test(same_head_again),
      cmocka_unit_test(one_piece_per_read),
      cmocka_unit_test(garbled),
      cmocka_unit_test(headers_too_long),
      cmocka_unit_test(ends_early),
      cmocka_unit_test(stops_at_the_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
