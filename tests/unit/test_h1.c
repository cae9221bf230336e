/* test_h1.c: the HTTP/1.1 transport over real sockets: keep-alive, the race with a server that
 * closes idle connections, replies that spoil a connection, streams cut at every byte, a thousand
 * at once. */
#include "net_peer.h"

#include "base/rng.h"
#include "net/client.h"
#include "text/json.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define MS NS_PER_MS

static struct http_client_stats stats_of(struct net *n) {
  struct http_client_stats s;
  http_client_get_stats(n->client, &s);
  return s;
}

static void get(struct net *n, struct http_request *r, struct http_target *t) {
  net_request(n, r, t, "GET", "/");
  r->sample = sample_new();
  net_send(n, r);
  net_wait(n, n->done + 1);
}

static void keeps_alive(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY};
  struct http_request r;
  peer_start(&p, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  for (int i = 0; i < 5; i++) {
    get(&n, &r, t);
    check_outcome(&r, SAMPLE_OK, "");
    assert_string_equal(r.body.data, "ok");
    assert_int_equal(r.reused_connection, i > 0);
    if (i > 0)
      assert_int_equal(r.stamp_ns[STAMP_CONNECTED], r.stamp_ns[STAMP_START]);
    else
      assert_true(r.stamp_ns[STAMP_CONNECTED] > r.stamp_ns[STAMP_START]);
    for (int s = STAMP_START; s < STAMP_FIRST_BYTE; s++)
      assert_true(r.stamp_ns[s] <= r.stamp_ns[s + 1]);
    assert_true(r.stamp_ns[STAMP_FIRST_BYTE] <= r.stamp_ns[STAMP_DONE]);
    const struct sample *s = net_sample(&n, (size_t)i);
    assert_int_equal(s->bytes_sent, p.request_len);
    assert_int_equal(s->bytes_received, strlen(OK_REPLY));
    http_request_free(&r);
  }
  assert_int_equal(p.accepts, 1);
  struct http_client_stats s = stats_of(&n);
  assert_int_equal(s.requests, 5);
  assert_int_equal(s.connections_opened, 1);
  assert_int_equal(s.open_now, 1);
  net_stop(&n);
  peer_stop(&p);
}

/* ---- the closed idle connection ---- */

/* First connection: one reply, and closed (p->step 1 = FIN right away, 2 = on the next request,
 * 3 = reset on the next request, 4 = part of a reply to the next request and closed); later ones
 * serve. */
static void script_idle(struct peer *p) {
  int how = p->step, fd = peer_accept(p);
  peer_read(p, fd);
  peer_reply(p, fd);
  if (how > 1)
    peer_read(p, fd);
  if (how == 4)
    peer_puts(fd, "HTTP/1.1 2");
  if (how == 3)
    peer_reset(fd);
  else
    close(fd);
  peer_keep(p);
}

static void idle_close_seen(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY, .step = 1};
  struct http_request r;
  peer_start(&p, script_idle);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  get(&n, &r, t);
  http_request_free(&r);
  net_run(&n, 20 * MS); /* the end of file is read while idle */
  assert_int_equal(stats_of(&n).open_now, 0);
  n.done = 0;
  get(&n, &r, t);
  check_outcome(&r, SAMPLE_OK, "");
  assert_false(r.reused_connection);
  assert_int_equal(r.reconnects, 0);
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&p);
}

/* Closed, and the loop has not seen it: found when the connection is taken, before anything is
 * sent.
 */
static void idle_close_unseen(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY, .step = 1};
  struct http_request r;
  peer_start(&p, script_idle);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  get(&n, &r, t);
  http_request_free(&r);
  clock_sleep_ns(20 * MS);
  get(&n, &r, t);
  check_outcome(&r, SAMPLE_OK, "");
  assert_false(r.reused_connection);
  assert_int_equal(r.reconnects, 0);
  assert_int_equal(p.accepts, 2);
  assert_int_equal(stats_of(&n).unasked_bytes, 0);
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&p);
}

static void idle_race(void **state) {
  (void)state;
  for (int how = 2; how <= 3; how++) {
    struct net n;
    struct peer p = {.text = OK_REPLY, .step = how};
    struct http_request r;
    struct blob *body = blob_new("{\"a\":1}", 7);
    peer_start(&p, script_idle);
    net_start(&n, NULL);
    struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
    get(&n, &r, t);
    http_request_free(&r);
    net_request(&n, &r, t, "POST", "/again");
    r.parts = &body;
    r.n_parts = 1;
    r.sample = sample_new();
    net_send(&n, &r);
    uint64_t first_start = r.stamp_ns[STAMP_START], sched = r.stamp_ns[STAMP_SCHED];
    assert_int_equal(r.stamp_ns[STAMP_CONNECTED], first_start);
    net_wait(&n, 2);
    check_outcome(&r, SAMPLE_OK, "");
    assert_int_equal(r.reconnects, 1);
    assert_false(r.reused_connection);
    assert_int_equal(r.stamp_ns[STAMP_SCHED], sched);
    assert_true(r.stamp_ns[STAMP_START] > first_start); /* of the new attempt */
    assert_true(r.stamp_ns[STAMP_CONNECTED] > r.stamp_ns[STAMP_START]);
    assert_true(r.stamp_ns[STAMP_SENT] > r.stamp_ns[STAMP_CONNECTED]);
    assert_int_equal(net_sample(&n, 1)->reconnects, 1);
    assert_int_equal(net_sample(&n, 1)->bytes_sent, p.request_len); /* of one attempt */
    check_has(p.request, "POST /again HTTP/1.1\r\n");
    check_has(p.request, "\r\n\r\n{\"a\":1}");
    assert_int_equal(p.accepts, 2);
    assert_int_equal(p.requests, 3);
    assert_int_equal(stats_of(&n).reconnects, 1);
    http_request_free(&r);
    blob_unref(body);
    net_stop(&n);
    peer_stop(&p);
  }
}

/* Never again: once a byte came back, or on a fresh connection. */
static void script_closes(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    peer_read(p, fd);
    if (p->text)
      peer_reply(p, fd);
    if (p->step)
      peer_reset(fd);
    else
      close(fd);
  }
}

static void no_second_try(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int reset;
    enum sample_error error;
    const char *detail;
  } ends[] = {
      {NULL, 0, SAMPLE_RESET, "the connection was closed before the reply"},
      {NULL, 1, SAMPLE_RESET, "the connection was reset before the reply"},
      {"HTTP/1.1 200 OK\r\nX: y", 0, SAMPLE_RESET,
       "closed before the reply's headers were complete"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", 0, SAMPLE_TRUNCATED,
       "the reply ends early, after 3 bytes"},
      {"SSH-2.0-x\r\n", 0, SAMPLE_RESET, "is not HTTP/1.1"},
      {"HTTP/1.1 200 OK\r\n\r\nuntil the end", 0, SAMPLE_OK, ""},
  };
  for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
    struct net n;
    struct peer p = {.text = ends[i].text, .step = ends[i].reset};
    struct http_request r;
    peer_start(&p, script_closes);
    net_start(&n, NULL);
    get(&n, &r, net_target(&n, "http", "127.0.0.1", p.port, NULL));
    check_outcome(&r, ends[i].error, ends[i].detail);
    assert_int_equal(r.reconnects, 0);
    assert_int_equal(p.accepts, 1);
    assert_int_equal(stats_of(&n).open_now, 0);
    http_request_free(&r);
    net_stop(&n);
    peer_stop(&p);
  }
  struct net n;
  struct peer p = {.text = OK_REPLY, .step = 4};
  struct http_request r;
  peer_start(&p, script_idle);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  get(&n, &r, t);
  http_request_free(&r);
  get(&n, &r, t);
  check_outcome(&r, SAMPLE_RESET, "closed before the reply's headers were complete");
  assert_int_equal(r.reconnects, 0);
  assert_true(r.reused_connection);
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&p);
}

/* A server that closes every connection after the first request on it, always in the race: one
 * second try, not two. */
static void script_always(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd)) {
    if (p->accepts == 1 && peer_read(p, fd))
      peer_reply(p, fd);
    peer_read(p, fd);
  }
}

static void one_second_try(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY};
  struct http_request r;
  peer_start(&p, script_always);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  get(&n, &r, t);
  http_request_free(&r);
  get(&n, &r, t);
  check_outcome(&r, SAMPLE_RESET, "closed before the reply");
  assert_int_equal(r.reconnects, 1);
  assert_int_equal(p.accepts, 2);
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&p);
}

/* ---- replies that spoil a connection ---- */

static void not_used_again(void **state) {
  (void)state;
  static const char *const spoilt[] = {
      OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nX", /* nobody asked for that */
      OK_REPLY "\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
      "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
  };
  for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
    struct net n;
    struct peer p = {.text = spoilt[i]};
    struct http_request r;
    peer_start(&p, peer_keep);
    net_start(&n, NULL);
    struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
    for (int k = 0; k < 2; k++) {
      get(&n, &r, t);
      check_outcome(&r, SAMPLE_OK, "");
      assert_string_equal(r.body.data, "ok");
      assert_false(r.reused_connection);
      http_request_free(&r);
    }
    assert_int_equal(p.accepts, 2);
    assert_int_equal(stats_of(&n).open_now, 0);
    net_stop(&n);
    peer_stop(&p);
  }
}

/* Bytes on an idle connection: it is dropped before the next request. */
static void script_talks(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd))
    while (peer_read(p, fd)) {
      peer_reply(p, fd);
      clock_sleep_ns(10 * MS);
      peer_puts(fd, "HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n");
    }
}

static void idle_talk(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY};
  struct http_request r;
  peer_start(&p, script_talks);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  for (int k = 0; k < 2; k++) {
    get(&n, &r, t);
    check_outcome(&r, SAMPLE_OK, "");
    http_request_free(&r);
    n.running = false;
    int done = n.done;
    net_run(&n, 40 * MS);
    n.done = done;
    assert_int_equal(stats_of(&n).open_now, 0);
  }
  net_stop(&n);
  peer_stop(&p);
}

/* ---- methods and framing ---- */

static void methods(void **state) {
  (void)state;
  static const struct {
    const char *method, *body, *text, *want, *head;
  } cases[] = {
      {"HEAD", NULL, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "",
       "HEAD / HTTP/1.1\r\nHost: "},
      {"GET", NULL, "HTTP/1.1 204 No\r\n\r\n", "", "\r\nAccept: */*\r\nX-A: b\r\n\r\n"},
      {"POST", NULL, OK_REPLY, "ok", "\r\nContent-Length: 0\r\n\r\n"},
      {"POST", "abc", OK_REPLY, "ok", "\r\nContent-Length: 3\r\n\r\nabc"},
      {"DELETE", NULL, OK_REPLY, "ok", "\r\nContent-Length: 0\r\n\r\n"},
      {"GET", NULL, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n" OK_REPLY, "ok",
       "GET"},
  };
  struct net n;
  struct peer p = {0};
  peer_start(&p, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct http_request r;
    struct blob *body = cases[i].body ? blob_new(cases[i].body, strlen(cases[i].body)) : NULL;
    p.text = cases[i].text;
    net_request(&n, &r, t, cases[i].method, "/");
    r.headers = "X-A: b\r\n";
    r.parts = &body;
    r.n_parts = body ? 1 : 0;
    net_send(&n, &r);
    net_wait(&n, (int)i + 1);
    check_outcome(&r, SAMPLE_OK, "");
    assert_string_equal(r.body.data ? r.body.data : "", cases[i].want);
    check_has(p.request, cases[i].head);
    assert_int_equal(r.reused_connection, i > 0);
    http_request_free(&r);
    blob_unref(body);
  }
  net_stop(&n);
  peer_stop(&p);
}

static void own_headers(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY};
  struct http_request r;
  peer_start(&p, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  net_request(&n, &r, t, "GET", "/");
  r.headers = "HOST: other\r\nAccept: text/event-stream\r\nConnection: close\r\n";
  net_send(&n, &r);
  net_wait(&n, 1);
  check_outcome(&r, SAMPLE_OK, "");
  assert_string_equal(p.request, "GET / HTTP/1.1\r\nHOST: other\r\nAccept: text/event-stream\r\n"
                                 "Connection: close\r\n\r\n");
  assert_int_equal(stats_of(&n).open_now, 0); /* it was asked to close */
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&p);
}

/* ---- streams ---- */

#define CHUNKED                                                                                    \
  HEAD_SSE "Transfer-Encoding: chunked\r\nX-Inference-Pod: pod-7\r\n\r\n"                          \
           "39\r\n" EVENT("a") "\r\n"                                                              \
                               "39\r\n" EVENT("b") "\r\n"                                          \
                                                   "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

static void stream_cut_everywhere(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = CHUNKED};
  struct http_request r;
  peer_start(&p, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  size_t len = strlen(p.text);
  for (size_t cut = 0; cut < len; cut++) {
    p.split = cut;
    net_stream(&n, &r, t);
    net_send(&n, &r);
    net_wait(&n, (int)cut + 1);
    check_outcome(&r, SAMPLE_OK, "");
    assert_string_equal(r.stream.result.choices[0].text.data, "ab");
    assert_int_equal(r.stream.result.output_events, 2);
    assert_true(r.reused_connection || cut == 0);
    assert_true(r.stamp_ns[STAMP_FIRST_BYTE] <= r.stamp_ns[STAMP_FIRST_TOKEN]);
    assert_true(r.stamp_ns[STAMP_FIRST_TOKEN] <= r.stamp_ns[STAMP_LAST_TOKEN]);
    assert_true(r.stamp_ns[STAMP_LAST_TOKEN] <= r.stamp_ns[STAMP_DONE]);
    const struct sample *s = net_sample(&n, cut);
    assert_string_equal(s->served, "pod-7");
    assert_int_equal(s->bytes_received, len);
    http_request_free(&r);
  }
  net_stop(&n);
  peer_stop(&p);
}

/* Every sample of tests/data/sse through chunked framing, in chunks and packets of any size: the
 * result is that of the parser alone, and the class fits it. */
struct sample_file {
  struct peer peer;
  char *bytes;
  size_t len;
};

static void script_file(struct peer *p) {
  struct sample_file *f = p->arg;
  struct rng rng;
  rng_init(&rng, 7, 1);
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd))
    while (peer_read(p, fd)) {
      struct buf b;
      buf_init(&b, BUF_MAX_OWN);
      buf_puts(&b, HEAD_SSE "Transfer-Encoding: chunked\r\n\r\n");
      for (size_t at = 0, n; at < f->len; at += n) {
        n = (size_t)rng_int(&rng, 1, 200);
        n = n < f->len - at ? n : f->len - at;
        buf_printf(&b, "%zx\r\n", n);
        buf_put(&b, f->bytes + at, n);
        buf_puts(&b, "\r\n");
      }
      buf_puts(&b, "0\r\n\r\n");
      for (size_t at = 0, n; at < b.len; at += n) {
        n = (size_t)rng_int(&rng, 1, 1500);
        n = n < b.len - at ? n : b.len - at;
        peer_send(fd, b.data + at, n);
      }
      buf_free(&b);
    }
}

static enum sample_error class_of(const struct openai_result *result) {
  switch (result->error_kind) {
  case OPENAI_ERROR_NONE:
    return result->complete ? SAMPLE_OK : SAMPLE_TRUNCATED;
  case OPENAI_ERROR_TRUNCATED:
    return SAMPLE_TRUNCATED;
  case OPENAI_ERROR_RAW_JSON:
    return SAMPLE_NOT_SSE;
  case OPENAI_ERROR_BAD_JSON:
    return SAMPLE_BAD_JSON;
  default:
    return SAMPLE_STREAM_ERROR;
  }
}

static void sample_streams(void **state) {
  (void)state;
  struct net n;
  static struct sample_file f;
  struct http_request r;
  struct value all = value_null();
  struct err err;
  size_t len;
  char *text = check_read_file("tests/data/sse/expected.json", &len);
  check_ok(json_parse(text, len, &all, &err), &err);
  free(text);
  f.peer.arg = &f;
  peer_start(&f.peer, script_file);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", f.peer.port, NULL);
  assert_true(value_count(&all) >= 20);
  for (size_t i = 0; i < value_count(&all); i++) {
    const struct value_pair *pair = &all.u.object.pairs[i];
    char path[200];
    struct openai_stream alone;
    snprintf(path, sizeof path, "tests/data/sse/%s", pair->key);
    f.bytes = check_read_file(path, &f.len);
    net_stream(&n, &r, t);
    r.api = openai_api_from(value_to_string(value_get(&pair->value, "api")));
    openai_stream_init(&alone, &(struct openai_options){.api = r.api});
    check_ok(openai_stream_feed(&alone, f.bytes, f.len, 1, &err), &err);
    check_ok(openai_stream_finish(&alone, &err), &err);
    net_send(&n, &r);
    net_wait(&n, (int)i + 1);
    check_outcome(&r, class_of(&alone.result), "");
    struct value a = openai_result_value(&alone.result);
    struct value b = openai_result_value(&r.stream.result);
    if (!value_equal(&a, &b))
      fail_msg("%s differs through chunks", pair->key);
    assert_int_equal(r.reused_connection, i > 0);
    value_free(&a);
    value_free(&b);
    openai_stream_free(&alone);
    http_request_free(&r);
    free(f.bytes);
  }
  value_free(&all);
  net_stop(&n);
  peer_stop(&f.peer);
}

/* A reply before the request is sent whole (413, say) is believed, and the connection is not kept.
 */
static void script_early(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd)) {
    char some[1000];
    (void)!read(fd, some, sizeof some);
    peer_puts(fd, "HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n\r\nbig");
    clock_sleep_ns(50 * MS);
  }
}

static void early_reply(void **state) {
  (void)state;
  struct net n;
  struct peer p = {0};
  struct http_request r;
  char *big = mem_calloc(1, (size_t)16 << 20);
  struct blob *body = blob_new(big, (size_t)16 << 20);
  mem_free(big);
  peer_start(&p, script_early);
  net_start(&n, NULL);
  net_request(&n, &r, net_target(&n, "http", "127.0.0.1", p.port, NULL), "POST", "/");
  r.parts = &body;
  r.n_parts = 1;
  net_send(&n, &r);
  net_wait(&n, 1);
  check_outcome(&r, SAMPLE_HTTP_4XX, "HTTP 413: big");
  assert_true(r.stamp_ns[STAMP_SENT] == SAMPLE_NEVER);
  assert_int_equal(stats_of(&n).open_now, 0);
  http_request_free(&r);
  blob_unref(body);
  net_stop(&n);
  peer_stop(&p);
}

/* A thousand streams at once: each event to all, then the next. */
#define MANY 1000
static void script_many(struct peer *p) {
  static int fds[MANY];
  for (int i = 0; i < MANY; i++)
    if ((fds[i] = peer_accept(p)) < 0)
      return;
  for (int i = 0; i < MANY; i++)
    peer_read(p, fds[i]);
  static const char *const pieces[] = {HEAD_SSE "\r\n", EVENT("a"), EVENT("b"), "data: [DO",
                                       "NE]\n\n"};
  for (size_t k = 0; k < ARRAY_LEN(pieces); k++)
    for (int i = 0; i < MANY; i++)
      peer_puts(fds[i], pieces[k]);
  for (int i = 0; i < MANY; i++)
    close(fds[i]);
}

static void a_thousand_streams(void **state) {
  (void)state;
  static struct http_request r[MANY];
  static struct net n;
  struct peer p = {0};
  int before = open_descriptors();
  peer_start(&p, script_many);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  for (int i = 0; i < MANY; i++) {
    net_stream(&n, &r[i], t);
    net_send(&n, &r[i]);
  }
  net_wait(&n, MANY);
  for (int i = 0; i < MANY; i++) {
    check_outcome(&r[i], SAMPLE_OK, "");
    assert_string_equal(r[i].stream.result.choices[0].text.data, "ab");
    http_request_free(&r[i]);
  }
  assert_int_equal(stats_of(&n).connections_opened, MANY);
  assert_int_equal(n.recorder.n, MANY);
  net_stop(&n);
  peer_stop(&p);
  assert_int_equal(open_descriptors(), before);
}

int main(void) {
  struct err err;
  struct net warm;
  if (http_global_init(&err))
    return 1;
  net_start(&warm, NULL);
  net_stop(&warm);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_alive),
      cmocka_unit_test(idle_close_seen),
      cmocka_unit_test(idle_close_unseen),
      cmocka_unit_test(idle_race),
      cmocka_unit_test(no_second_try),
      cmocka_unit_test(one_second_try),
      cmocka_unit_test(not_used_again),
      cmocka_unit_test(idle_talk),
      cmocka_unit_test(methods),
      cmocka_unit_test(own_headers),
      cmocka_unit_test(stream_cut_everywhere),
      cmocka_unit_test(sample_streams),
      cmocka_unit_test(early_reply),
      cmocka_unit_test(a_thousand_streams),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
